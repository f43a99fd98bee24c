package icefloe;

import java.util.HashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.VariantMetadata$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * A plugin of Spark that runs parts of a plan by native code. It reads Parquet files itself where the scan has Spark's own class of the format, not a subclass; its rows are those of Spark's reader
 * if the scan meets the conditions here. Spec: Column Projection.
 */
public final class Accelerator {
  private static final String CONVERTS = "spark.comet.convert.parquet.enabled"; // whether Comet computes with the batches that Spark's reader returns
  private static final String[] READS = {"spark.comet.scan.enabled", "spark.comet.exec.enabled"}; // without which Comet reads no files
  private static final String SWITCH = "ENABLE_COMET"; // the variable of the environment that Comet reads where `spark.comet.enabled` is not set
  private static final Accelerator[] ALL = {
    // The accelerators.
  };

  private final String name;
  private final String plugin; // the class in `spark.plugins`
  private final String extension; // the class in `spark.sql.extensions`, which is enough
  private final String setting; // turns it off where false
  private final boolean findsById; // whether it finds columns by field ids

  private Accelerator(String name, String plugin, String extension, String setting, boolean findsById) {
    this.name = name;
    this.plugin = plugin;
    this.extension = extension;
    this.setting = setting;
    this.findsById = findsById;
  }

  /** Returns the accelerator of a session; null where it has none, or has turned it off. */
  static Accelerator of(SQLConf conf) {
    for (int i = 0; i < ALL.length; i++) {
      boolean isOff = conf.getConfString(ALL[i].setting, ALL[i].isComet() ? switched() : "true").equalsIgnoreCase("false");
      if (ALL[i].isIn(conf) && !isOff) return ALL[i];
    }
    return null;
  }

  private boolean isIn(SQLConf conf) {
    return names(conf.getConfString("spark.plugins", ""), plugin) || names(conf.getConfString("spark.sql.extensions", ""), extension);
  }

  private static boolean names(String classes, String name) {
    String[] each = classes.split(",");
    for (int i = 0; i < each.length; i++) if (each[i].trim().equals(name)) return true;
    return false;
  }

  private static String switched() {
    String value = System.getenv(SWITCH);
    return value == null ? "true" : value;
  }

  private boolean isComet() {
    return name.equals("Comet");
  }

  /** Returns whether a session has an accelerator that is on. */
  public static boolean isOn(SparkSession session) {
    return of(((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf()) != null;
  }

  /** Returns whether Comet has turned itself off, for which its warnings have the reason, such as another shuffle manager than its own. */
  private static boolean hasTurnedItselfOff(SQLConf conf) {
    try {
      Object comet = Class.forName("org.apache.comet.CometSparkSessionExtensions$", true, Thread.currentThread().getContextClassLoader()).getField("MODULE$").get(null);
      return !((Boolean) comet.getClass().getMethod("isCometLoaded", new Class[] {SQLConf.class}).invoke(comet, new Object[] {conf})).booleanValue();
    } catch (ReflectiveOperationException error) {
      return false; // a version without this method
    }
  }

  /** Returns whether a session has an accelerator, which may be turned off at present. */
  public static boolean isLoaded(SparkSession session) {
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    for (int i = 0; i < ALL.length; i++) if (ALL[i].isIn(conf)) return true;
    return false;
  }

  /** Returns whether a session has rules that may replace Spark's reader, also that of a subclass of Spark's format. Comet's rules do not. */
  static boolean mayReplace(SparkSession session) {
    Iterator rules = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().columnarRules().iterator();
    while (rules.hasNext()) {
      Object rule = rules.next();
      if (!(rule instanceof MetricsRule.Last) && !rule.getClass().getName().startsWith("org.apache.comet.")) return true;
    }
    return false;
  }

  /** Returns the accelerator of a session, why it cannot read scans, and what to set so that it does more; null for each where there is none. */
  public static String[] report(SparkSession session) {
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    Accelerator accelerator = of(conf);
    if (accelerator == null) return new String[3];
    String advice = accelerator.isComet() && !isSet(conf, CONVERTS) ? CONVERTS + "=true accelerates what is above scans of files with deletes" : null;
    return new String[] {accelerator.name, accelerator.obstacle(1, conf), advice};
  }

  public String toString() {
    return name;
  }

  /** Returns the name of a scan that no accelerator reads, for EXPLAIN: that of the table and, where the session has an accelerator, the reason. */
  static String unread(String table, String reason, SQLConf conf) {
    Accelerator accelerator = of(conf);
    return accelerator == null ? table : table + " (" + accelerator + " does not read it: " + reason + ")";
  }

  /** Returns why the accelerator cannot read a scan of planned files; null where it can. */
  String obstacle(FileSourceScanExec scan, SQLConf conf) {
    String own = scan.relation().fileFormat() instanceof SignedParquet ? ((SignedParquet) scan.relation().fileFormat()).obstacle() : null;
    if (own != null) return own;
    String ofSession = obstacle(scan.relation().location().rootPaths().size(), conf);
    if (ofSession != null || !isComet()) return ofSession;
    String ofStore = StoreAccess.obstacle(scan.relation());
    return ofStore == null ? unreadType(scan.output()) : ofStore;
  }

  /** Returns which of the columns has a type that Comet does not read, at any depth; null where none has. */
  private static String unreadType(Seq columns) {
    Iterator each = columns.iterator();
    while (each.hasNext()) {
      Attribute column = (Attribute) each.next();
      String type = unreadTypeIn(column.dataType());
      if (type != null) return "the column " + column.name() + " has values of the type " + type;
    }
    return null;
  }

  private static String unreadTypeIn(DataType type) {
    if (VariantMetadata$.MODULE$.isVariantStruct(type)) return "variant"; // of which Spark's reader extracts parts
    if (type instanceof ArrayType) return unreadTypeIn(((ArrayType) type).elementType());
    String name = type instanceof MapType ? unreadTypeIn(((MapType) type).keyType()) : null;
    if (type instanceof MapType) return name == null ? unreadTypeIn(((MapType) type).valueType()) : name;
    for (int i = 0; type instanceof StructType && name == null && i < ((StructType) type).length(); i++) name = unreadTypeIn(((StructType) type).apply(i).dataType());
    return type.typeName().equals("variant") || type.typeName().startsWith("time(") ? type.typeName() : name;
  }

  private String obstacle(int stores, SQLConf conf) {
    if (!findsById) return "it finds columns by their names, and not by their ids";
    if (isComet() && hasTurnedItselfOff(conf)) return "it has turned itself off; its warnings in Spark's log have the reason, such as a setting spark.shuffle.manager without its class";
    for (int i = 0; isComet() && i < READS.length; i++) if (conf.getConfString(READS[i], "true").equalsIgnoreCase("false")) return READS[i] + " is false";
    if (stores > 1) return "the files are in " + stores + " stores";
    // The accelerator reads these of the session, not of the scan.
    if (!isSet(conf, "spark.sql.parquet.fieldId.read.enabled")) return "spark.sql.parquet.fieldId.read.enabled is not true";
    if (isSet(conf, "spark.sql.parquet.fieldId.read.ignoreMissing")) return "spark.sql.parquet.fieldId.read.ignoreMissing is true";
    if (isSet(conf, "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing")) return "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing is true";
    return null;
  }

  /**
   * Returns what changes in a scan whose batches the accelerator copies to compute with them, by the names of the scan's parts. Values that the filters leave out need not be copied: Comet copies each by
   * itself, and a decimal as an object.
   */
  HashMap converted(FileSourceScanExec scan, SQLConf conf) {
    HashMap changed = new HashMap();
    HadoopFsRelation own = scan.relation();
    if (isComet() && isSet(conf, CONVERTS) && own.fileFormat() instanceof CountedParquet) {
      changed.put("relation", FileScanStrategy.withFormat(own, own.dataSchema(), ((CountedParquet) own.fileFormat()).selecting(scan.dataFilters())));
    }
    return changed;
  }

  private static boolean isSet(SQLConf conf, String setting) {
    return conf.getConfString(setting, "false").equalsIgnoreCase("true");
  }

  /**
   * Returns whether row groups may be left out by a filter. Statistics of floating-point numbers leave out NaN, which Spark sorts above all numbers, and distinguish -0.0 from 0.0; Spark's reader finds no
   * such column by its name (`reader_names.py`), while an accelerator does by its id.
   */
  static boolean canPruneBy(Expression filter) {
    Iterator references = filter.references().iterator();
    while (references.hasNext()) if (hasFloats(((Attribute) references.next()).dataType())) return false;
    return true;
  }

  private static boolean hasFloats(DataType type) {
    if (type instanceof ArrayType) return hasFloats(((ArrayType) type).elementType());
    if (type instanceof MapType) return hasFloats(((MapType) type).keyType()) || hasFloats(((MapType) type).valueType());
    boolean hasFloats = type instanceof FloatType || type instanceof DoubleType;
    for (int i = 0; type instanceof StructType && !hasFloats && i < ((StructType) type).length(); i++) hasFloats = hasFloats(((StructType) type).apply(i).dataType());
    return hasFloats;
  }
}
