package icefloe;

import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Plans scans of planned files as Spark does, with the name of their table, which EXPLAIN, Spark's UI and listeners show. Where an accelerator is loaded that can read a scan, the scan is in the form in
 * which accelerators recognize it: Spark's own class of the format, and types that have the ids of fields inside columns. What the accelerator leaves to Spark all the same, Spark reads as well by its own class.
 */
public final class FileScanStrategy extends SparkStrategy {
  private FileScanStrategy() {}

  /** Adds the strategies of Icefloe to those of a session, unless they are there already. */
  public static void install(SparkSession session) {
    ExperimentalMethods methods = ((org.apache.spark.sql.classic.SparkSession) session).experimental();
    ArrayList strategies = new ArrayList();
    Iterator present = methods.extraStrategies().iterator();
    while (present.hasNext()) {
      Object strategy = present.next();
      if (strategy instanceof FileScanStrategy) return;
      strategies.add(strategy);
    }
    strategies.add(new FileScanStrategy());
    strategies.add(new StreamWriteStrategy());
    strategies.add(new StreamScanStrategy());
    methods.extraStrategies_$eq(PythonUtils.toSeq(strategies));
  }

  public Seq apply(LogicalPlan plan) {
    LogicalPlan scanned = plan;
    while (scanned instanceof Project || scanned instanceof Filter) scanned = (LogicalPlan) scanned.children().head();
    Object relation = scanned instanceof LogicalRelation ? ((LogicalRelation) scanned).relation() : null;
    ArrayList plans = new ArrayList();
    if (!(relation instanceof HadoopFsRelation) || !(((HadoopFsRelation) relation).location() instanceof PlannedFiles)) return PythonUtils.toSeq(plans); // for the strategies of Spark
    SQLConf conf = SQLConf.get(); // of the session that runs the plan, whose settings an accelerator reads
    Seq planned = FileSourceStrategy$.MODULE$.apply(plan);
    for (int i = 0; i < planned.size(); i++) plans.add(new Described(conf).apply(planned.apply(i)));
    return PythonUtils.toSeq(plans);
  }

  private static final class Described extends AbstractFunction1 {
    private final SQLConf conf;

    Described(SQLConf conf) {
      this.conf = conf;
    }

    public Object apply(Object plan) {
      Accelerator accelerator = Accelerator.of(conf);
      if (!(plan instanceof FileSourceScanExec)) return ((SparkPlan) plan).mapChildren(this);
      FileSourceScanExec scan = (FileSourceScanExec) plan;
      String table = withoutMarkup(((PlannedFiles) scan.relation().location()).table());
      String obstacle = accelerator == null ? null : accelerator.obstacle(scan, conf);
      HashMap changed = accelerator == null ? new HashMap() : obstacle == null ? inSparksFormat(scan) : accelerator.converted(scan, conf);
      changed.put("tableIdentifier", Option.apply(new TableIdentifier(obstacle == null ? table : Accelerator.unread(table, obstacle, conf))));
      Object[] parts = new Object[scan.productArity()];
      for (int i = 0; i < parts.length; i++) {
        Object part = changed.get(scan.productElementName(i));
        parts[i] = part == null ? scan.productElement(i) : part;
      }
      return scan.makeCopy(parts);
    }
  }

  /** Returns a name in which nothing is markup or a control character: until Spark 4.1, its UI takes the names of nodes for HTML, and other users may have named a table. */
  static String withoutMarkup(String name) {
    return name.replaceAll("\\p{Cntrl}", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
  }

  static HadoopFsRelation withFormat(HadoopFsRelation own, StructType data, FileFormat format) {
    return new HadoopFsRelation(own.location(), own.partitionSchema(), data, own.bucketSpec(), format, own.options(), own.sparkSession());
  }

  private static HashMap inSparksFormat(FileSourceScanExec scan) {
    HadoopFsRelation own = scan.relation();
    FileFormat format = own.fileFormat();
    StructType ids = format instanceof SignedParquet ? ((SignedParquet) format).columns() : format instanceof ParquetById ? ((ParquetById) format).columns() : null;
    StructType data = ids == null ? own.dataSchema() : NestedFieldIds.with(own.dataSchema(), ids);
    ArrayList filters = new ArrayList();
    Iterator each = scan.dataFilters().iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (Accelerator.canPruneBy(filter)) filters.add(filter);
    }
    HashMap changed = new HashMap();
    changed.put("relation", withFormat(own, data, new ParquetFileFormat()));
    if (ids != null) changed.put("requiredSchema", NestedFieldIds.with(scan.requiredSchema(), ids));
    changed.put("dataFilters", PythonUtils.toSeq(filters));
    return changed;
  }
}
