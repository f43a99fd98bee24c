package icefloe;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * A plugin of Spark that runs parts of a plan by native code. It reads Parquet files itself where the scan has Spark's own class of the format, not a subclass; its rows are those of Spark's reader
 * if the scan meets the conditions here. Spec: Column Projection.
 */
public final class Accelerator {
  private static final String CONVERTS = "spark.comet.convert.parquet.enabled"; // whether Comet computes with the batches that Spark's reader returns
  private static final String[] READS = {"spark.comet.scan.enabled", "spark.comet.exec.enabled"}; // without which Comet reads no files
  private static final Accelerator COMET = new Accelerator("Comet", "org.apache.spark.CometPlugin", "spark.comet.enabled", true);
  private static final Accelerator[] ALL = {
    COMET,
    new Accelerator("RAPIDS", "com.nvidia.spark.SQLPlugin", "spark.rapids.sql.enabled", true),
    new Accelerator("Gluten", "org.apache.gluten.GlutenPlugin", "spark.gluten.enabled", false) // Velox finds columns by their names
  };

  private final String name;
  private final String plugin; // the class in `spark.plugins`
  private final String setting; // turns it off where false
  private final boolean findsById; // whether it finds columns by field ids

  private Accelerator(String name, String plugin, String setting, boolean findsById) {
    this.name = name;
    this.plugin = plugin;
    this.setting = setting;
    this.findsById = findsById;
  }

  /** Returns the accelerator of a session; null where it has none, or has turned it off. */
  static Accelerator of(SQLConf conf) {
    String plugins = conf.getConfString("spark.plugins", "");
    for (int i = 0; i < ALL.length; i++) {
      if (plugins.contains(ALL[i].plugin) && !conf.getConfString(ALL[i].setting, "true").equalsIgnoreCase("false")) return ALL[i];
    }
    return null;
  }

  /** Returns whether a session has an accelerator, which may be turned off at present. */
  public static boolean isLoaded(SparkSession session) {
    String plugins = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf().getConfString("spark.plugins", "");
    for (int i = 0; i < ALL.length; i++) if (plugins.contains(ALL[i].plugin)) return true;
    return false;
  }

  /** Returns the accelerator of a session, why it cannot read scans, and what to set so that it does more; null for each where there is none. */
  public static String[] report(SparkSession session) {
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    Accelerator accelerator = of(conf);
    if (accelerator == null) return new String[3];
    String advice = accelerator == COMET && !isSet(conf, CONVERTS) ? CONVERTS + "=true accelerates what is above scans of files with deletes" : null;
    return new String[] {accelerator.name, accelerator.obstacle(1, conf), advice};
  }

  public String toString() {
    return name;
  }

  /** Returns why the accelerator cannot read a scan of planned files; null where it can. */
  String obstacle(FileSourceScanExec scan, SQLConf conf) {
    if (scan.relation().fileFormat() instanceof CountedParquet) {
      return ((CountedParquet) scan.relation().fileFormat()).hasDeletes() ? "rows are deleted by position" : "the query reads positions of rows";
    }
    if (scan.relation().fileFormat() instanceof SignedParquet && ((SignedParquet) scan.relation().fileFormat()).hasUnsigned()) return "a file has unsigned integers";
    return obstacle(scan.relation().location().rootPaths().size(), conf);
  }

  private String obstacle(int stores, SQLConf conf) {
    if (!findsById) return "it finds columns by their names, and not by their ids";
    for (int i = 0; this == COMET && i < READS.length; i++) if (conf.getConfString(READS[i], "true").equalsIgnoreCase("false")) return READS[i] + " is false";
    if (stores > 1) return "the files are in " + stores + " stores";
    // The accelerator reads these of the session, not of the scan.
    if (!isSet(conf, "spark.sql.parquet.fieldId.read.enabled")) return "spark.sql.parquet.fieldId.read.enabled is not true";
    if (isSet(conf, "spark.sql.parquet.fieldId.read.ignoreMissing")) return "spark.sql.parquet.fieldId.read.ignoreMissing is true";
    if (isSet(conf, "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing")) return "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing is true";
    return null;
  }

  /**
   * Returns the condition by which the rows of a scan are filtered, without the assertion that the column of deleted rows has no nulls, a function that Comet does not have. Comet never reads this column
   * itself, and `CountedParquet` returns no nulls. RAPIDS may treat a subclass of Spark's format as that format, and then the assertion fails the query.
   */
  Expression withoutAssertion(Expression condition, FileSourceScanExec scan) {
    boolean isCounted = scan.relation().fileFormat() instanceof CountedParquet;
    return this == COMET && isCounted ? (Expression) new Asserted(((CountedParquet) scan.relation().fileFormat()).deletedColumn()).apply(condition) : condition;
  }

  private static final class Asserted extends AbstractFunction1 {
    private final String column;

    Asserted(String column) {
      this.column = column;
    }

    public Object apply(Object node) {
      Expression inner = node instanceof AssertNotNull ? ((AssertNotNull) node).child() : null;
      return inner instanceof Attribute && ((Attribute) inner).name().equals(column) ? inner : ((Expression) node).mapChildren(this);
    }
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
