package icefloe;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.runtime.AbstractFunction0;

/**
 * Creates Spark's own scans of planned files. Python creates a scan in one call, because each call takes about a millisecond, and a statement has a scan for every table. One object serves all
 * sessions of an application.
 */
public final class NativeScan {
  private static final TreeNodeTag KEPT_BYTES = new TreeNodeTag("icefloe.kept-bytes"); // Long
  private final Map options; // of the reader, which override settings of the session

  public NativeScan(java.util.Map options) {
    this.options = PythonUtils.toScalaMap(options);
  }

  /**
   * Returns the plan of a scan of files, or of some columns of the scan.
   *
   * @param files the planned files, as the stream that PlannedFiles takes
   * @param constants the columns with one value per file, a struct in JSON
   * @param data the columns to read, a struct in JSON; a column with a field id is found by the id
   * @param table the name in EXPLAIN
   * @param size the estimated bytes of all columns, by which Spark decides whether a join can broadcast the rows
   * @param format the Parquet format that reads the files; null for Spark's own reader, which needs no class of Icefloe in executors
   * @param names the columns to select, as `projection` takes them; null for all columns of the scan
   * @param nonNull the columns without nulls that the query filters by IS NOT NULL. The plan filters them too, so that Spark generates shorter code after the filter
   * @param metrics what Spark's SQL tab shows for the scan, in JSON
   */
  public LogicalPlan relation(SparkSession session, byte[] files, String constants, String data, String table, Number size, FileFormat format, String names, List nonNull, String metrics) throws Exception {
    FileScanStrategy.install(session);
    StructType constantColumns = (StructType) DataType.fromJson(constants);
    StructType withIds = (StructType) DataType.fromJson(data);
    StructType dataColumns = NestedFieldIds.without(withIds);
    PlannedFiles index = new PlannedFiles(files, constantColumns, table, size, ScanMetrics.of(metrics));
    // Never Spark's own class: accelerators would take the scan over, whether or not they return its rows (`FileScanStrategy`).
    FileFormat reader = format == null ? new ParquetById(withIds) : format;
    if (format != null && dataColumns != withIds) reader = ((SignedParquet) format).of(withIds);
    // A reader other than `CountedParquet` returns deleted rows, and null in the column of them, on which the filter fails the query.
    String deleted = format instanceof CountedParquet && Accelerator.mayReplace(session) ? ((CountedParquet) format).leftOut() : null;
    if (deleted != null) dataColumns = dataColumns.add(deleted, DataTypes.BooleanType);
    LogicalPlan relation = LogicalRelation$.MODULE$.apply(new HadoopFsRelation(index, constantColumns, dataColumns, Option.empty(), reader, options, session), false);
    HashMap attributes = attributes(relation);
    Expression condition = deleted == null ? null : isLive((Expression) attributes.get(deleted));
    for (Object name : nonNull) {
      Expression isThere = new IsNotNull((Expression) attributes.get(name));
      condition = condition == null ? isThere : new And(isThere, condition);
    }
    if (condition != null) relation = new Filter(condition, relation);
    return names == null ? relation : projection(relation, names);
  }

  /** Returns whether a relation is a scan of files whose deleted rows the reader leaves out. */
  static boolean leavesRowsOut(LogicalRelation relation) {
    Object files = relation.relation();
    FileFormat format = files instanceof HadoopFsRelation ? ((HadoopFsRelation) files).fileFormat() : null;
    return format instanceof CountedParquet && ((CountedParquet) format).leftOut() != null;
  }

  private static Expression isLive(Expression deleted) {
    // Spark would use the bare column in filters on row groups, which find columns by name, and a file may have a column with this name.
    return new Not(new AssertNotNull(deleted, PythonUtils.toSeq(new ArrayList())));
  }

  private static HashMap attributes(LogicalPlan relation) {
    HashMap attributes = new HashMap();
    scala.collection.Iterator outputs = relation.output().iterator();
    while (outputs.hasNext()) {
      Attribute attribute = (Attribute) outputs.next();
      attributes.put(attribute.name(), attribute);
    }
    return attributes;
  }

  /** Returns a resolved and optimized plan that selects columns of a scan. `names` is a JSON list; each item is a list of the name in the scan, the new name, and the metadata (JSON as text). */
  private static LogicalPlan projection(LogicalPlan relation, String names) {
    HashMap attributes = attributes(relation);
    ArrayList columns = new ArrayList();
    Iterator each = ((List) PythonBridge.parsed(names)).iterator();
    while (each.hasNext()) {
      String[] name = PythonBridge.strings(each.next());
      Metadata metadata = Metadata.fromJson(name[2]);
      columns.add(new Alias((Attribute) attributes.get(name[0]), name[1], NamedExpression$.MODULE$.newExprId(), PythonUtils.toSeq(new ArrayList()), Option.apply(metadata), PythonUtils.toSeq(new ArrayList())));
    }
    return new Project(PythonUtils.toSeq(columns), relation);
  }

  /** Returns the plan of `projection`, for Python. */
  public LogicalPlan columns(LogicalPlan relation, String names) {
    return projection(relation, names);
  }

  /**
   * Returns a Parquet format for a table that adds a column of row positions, and leaves deleted rows out, or with `returnsDeleted` adds a column of whether they are. `number` is the constant column
   * with the number of a file in `positions`; `positions` is null if no row is deleted.
   */
  public FileFormat counting(String table, String position, String deleted, String number, DeletedPositions positions, boolean returnsDeleted) {
    return new CountedParquet(table, position, deleted, number, positions, Boolean.valueOf(returnsDeleted), Boolean.valueOf(RowGroups.areKnown() && SelectedRows.areKnown()));
  }

  /** Returns a Parquet format for a table that reads unsigned integers as the table's signed types. An accelerator may read the files instead, unless there is a reason against it. */
  public FileFormat signed(String table, String obstacle) {
    return new SignedParquet(table, obstacle, null);
  }

  /** Tags a plan as cacheable: later statements that read the same state of a table in the same way may use it. `bytes` is its size in memory. */
  public void keep(LogicalPlan plan, Number bytes) {
    plan.setTagValue(KEPT_BYTES, Long.valueOf(bytes.longValue()));
  }

  /** Returns the size in bytes of a plan that `keep` has tagged; null for any other plan. */
  static Long keptBytes(LogicalPlan plan) {
    Option bytes = plan.getTagValue(KEPT_BYTES);
    return bytes.isDefined() ? (Long) bytes.get() : null;
  }

  /** Returns those of the schemes for which a session has no Hadoop file system. */
  public List withoutFileSystem(SparkSession session, List schemes) {
    Configuration configuration = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf();
    ArrayList missing = new ArrayList();
    for (int i = 0; i < schemes.size(); i++) {
      try {
        FileSystem.getFileSystemClass((String) schemes.get(i), configuration);
      } catch (Exception error) {
        missing.add(schemes.get(i)); // no file system is configured, or its class is missing
      } catch (LinkageError error) {
        missing.add(schemes.get(i));
      }
    }
    return missing;
  }

  /** Returns the result of `PythonFiles.rows`, the rows that a Python function reads. */
  public Dataset readByPython(SparkSession session, String name, String reason, PythonFunction function, Number kind, String columns, List splits, Number bytes, String metrics) {
    return PythonFiles.rows(session, name, reason, function, kind, columns, splits, bytes, metrics);
  }

  /** Returns the optimized plan of the rows of a scan, with whole variants: when the query above is there, `VariantExtractions` lets scans of files read the parts that it extracts. */
  public LogicalPlan optimized(Dataset rows) {
    final QueryExecution execution = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution();
    SQLConf settings = execution.sparkSession().sessionState().conf().clone();
    settings.setConfString("spark.sql.variant.pushVariantIntoScan", "false");
    return (LogicalPlan)
        SQLConf$.MODULE$.withExistingConf(
            settings,
            new AbstractFunction0() {
              public Object apply() {
                return execution.optimizedPlan();
              }
            });
  }

  /** Returns a plan as a DataFrame. */
  public Dataset frame(SparkSession session, LogicalPlan plan) {
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows((org.apache.spark.sql.classic.SparkSession) session, plan);
  }
}
