package icefloe;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/**
 * An INSERT, UPDATE, DELETE or MERGE on a table of Icefloe, which returns one row with how many rows and files it changed. `RowStatementRule` creates it around the resolved statement, which
 * Spark then analyses, plans and runs as usual. If the source of a MERGE may have different rows each time it is read, for example because of `uuid()`, it is computed once before. If a
 * compaction replaced files of a statement of SQL while it ran, the statement is resolved and run again; the result and the numbers in the SQL tab are those of the last run.
 */
public final class RowStatement extends WriteCommand {
  private static final int MOST_RUNS = 5;
  private static final String[] COLUMNS = {
    "num_affected_rows", "num_inserted_rows", "num_updated_rows", "num_deleted_rows", "num_added_files", "num_removed_files", "num_added_delete_files", "snapshot_id"
  };

  /** The constructor that Spark calls to copy a plan. `result` has the columns of the result, because their ids must stay the same in a copy. */
  public RowStatement(LogicalPlan statement, CreatableRelationProvider result, scala.collection.immutable.Map options, SaveMode mode) {
    super(statement, result, options, mode);
  }

  /** Returns a command for a statement. `written` is null for a statement of a DataFrame, which must not return a row. */
  static RowStatement of(LogicalPlan statement, RowStatementRule.Written written) {
    return new RowStatement(statement, new Result(written), Map$.MODULE$.empty(), SaveMode.Append);
  }

  public Seq output() {
    return ((Result) dataSource()).columns;
  }

  public Seq run(SparkSession session) {
    LogicalPlan statement = query();
    for (int runs = 1; ; runs++) {
      try {
        Map counts = countsOf(session, statement);
        if (counts != null && runs > 1) counts.put(WriteMetrics.RUNS, Integer.valueOf(runs));
        showMetrics(session, counts);
        return PythonUtils.toSeq(output().isEmpty() ? new ArrayList() : result(counts));
      } catch (FilesReplaced lost) {
        statement = runs == MOST_RUNS ? null : resolvedAgain(session);
        if (statement == null) throw lost;
      }
    }
  }

  /** Returns the statement, resolved by the tables as they are now; null if it may not run again. */
  private LogicalPlan resolvedAgain(SparkSession session) {
    RowStatementRule.Written written = ((Result) dataSource()).written;
    LogicalPlan unresolved = written == null ? null : written.again();
    LogicalPlan again = unresolved == null ? null : executionOf(session, unresolved).analyzed();
    return again instanceof RowStatement ? ((RowStatement) again).query() : null;
  }

  /** Runs a resolved statement and returns its counts; null if it wrote nothing. */
  private static Map countsOf(SparkSession session, LogicalPlan statement) {
    WriteMetrics.report(null);
    LogicalPlan source = sourceToCompute(statement);
    Dataset computed = source == null ? null : rowsOf(session, source).localCheckpoint(true);
    try {
      rowsOf(session, computed == null ? statement : withSource(statement, planOf(computed)));
      return WriteMetrics.counts();
    } finally {
      WriteMetrics.report(null);
      if (computed != null && planOf(computed) instanceof LogicalRDD) ((LogicalRDD) planOf(computed)).rdd().unpersist(false);
    }
  }

  /** Returns the plan of the source of a MERGE if it may return different rows each time it is computed; otherwise null. */
  static LogicalPlan sourceToCompute(LogicalPlan statement) {
    if (statement instanceof MergeIntoTable) {
      LogicalPlan source = ((MergeIntoTable) statement).sourceTable();
      return source.deterministic() ? null : source;
    }
    boolean isMerge = false;
    LogicalPlan plan = statement instanceof WriteDelta ? ((WriteDelta) statement).query() : statement;
    while (isAboveJoin(plan)) {
      isMerge = isMerge || plan instanceof MergeRows;
      plan = (LogicalPlan) plan.children().apply(0);
    }
    return isMerge && plan instanceof Join && !((Join) plan).right().deterministic() ? ((Join) plan).right() : null;
  }

  /** Refuses a MERGE with a clause that uses a random function. Spark would refuse it too, but without a next step in the message. */
  static void check(LogicalPlan statement) {
    LogicalPlan plan = statement instanceof WriteDelta ? ((WriteDelta) statement).query() : null;
    while (plan != null && !(plan instanceof MergeRows)) plan = isAboveJoin(plan) ? (LogicalPlan) plan.children().apply(0) : null;
    if (statement instanceof MergeIntoTable) plan = statement;
    if (plan != null && isRandom(plan))
      throw new InvalidStatement(
          "a clause of this MERGE uses a random function, such as uuid() or rand(), which Spark does not allow there\n"
              + "  Next: compute it in the source: USING (SELECT *, uuid() AS token FROM ...) AS s, and use s.token",
          null);
  }

  private static boolean isRandom(LogicalPlan node) {
    Iterator expressions = node.expressions().iterator();
    while (expressions.hasNext()) if (!((Expression) expressions.next()).deterministic()) return true;
    return false;
  }

  /** Returns the MERGE with a computed source. Conditions of the write that contain the old source are left out: Spark uses them only for tables that replace groups of rows. */
  private static LogicalPlan withSource(LogicalPlan merge, LogicalPlan source) {
    if (merge instanceof MergeIntoTable) {
      ArrayList tables = new ArrayList();
      tables.add(((MergeIntoTable) merge).targetTable());
      tables.add(source);
      return (LogicalPlan) merge.withNewChildren(PythonUtils.toSeq(tables));
    }
    Object[] parts = new Object[merge.productArity()];
    for (int i = 0; i < parts.length; i++) {
      Object part = merge.productElement(i);
      boolean isOption = part instanceof Option && ((Option) part).isDefined();
      Object value = isOption ? ((Option) part).get() : part;
      boolean isLeftOut = value instanceof Expression && !((Expression) value).deterministic();
      parts[i] = part == ((WriteDelta) merge).query() ? joined((LogicalPlan) part, source) : !isLeftOut ? part : isOption ? (Object) Option.empty() : Literal$.MODULE$.TrueLiteral();
    }
    return (LogicalPlan) merge.makeCopy(parts);
  }

  private static LogicalPlan joined(LogicalPlan plan, LogicalPlan source) {
    ArrayList children = new ArrayList();
    children.add(plan instanceof Join ? ((Join) plan).left() : joined((LogicalPlan) plan.children().apply(0), source));
    if (plan instanceof Join) children.add(source);
    return (LogicalPlan) plan.withNewChildren(PythonUtils.toSeq(children));
  }

  /** Returns the first plan, from the top, that is not a projection, a filter, or the choice of the rows of a MERGE: for a MERGE, its join. */
  static LogicalPlan belowRows(LogicalPlan plan) {
    while (isAboveJoin(plan)) plan = (LogicalPlan) plan.children().apply(0);
    return plan;
  }

  private static boolean isAboveJoin(LogicalPlan plan) {
    return plan instanceof Project || plan instanceof Filter || plan instanceof MergeRows;
  }

  private static Dataset rowsOf(SparkSession session, LogicalPlan plan) {
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows((org.apache.spark.sql.classic.SparkSession) session, plan);
  }

  private static QueryExecution executionOf(SparkSession session, LogicalPlan plan) {
    SessionState state = ((org.apache.spark.sql.classic.SparkSession) session).sessionState();
    return state.executePlan(plan, state.executePlan$default$2());
  }

  private static LogicalPlan planOf(Dataset rows) {
    return ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed();
  }

  public LogicalPlan clone() {
    return new RowStatement((LogicalPlan) query().clone(), dataSource(), options(), mode());
  }

  /** Returns the row of the result in a list; an empty list if the statement wrote nothing, for example because its condition is false for all rows. */
  private static List result(Map counts) {
    ArrayList rows = new ArrayList();
    Object[] values = new Object[COLUMNS.length];
    for (int i = 0; i < values.length; i++) {
      Object value = counts == null ? null : counts.get(COLUMNS[i]);
      boolean isCount = i < values.length - 1;
      values[i] = value == null ? (counts == null && isCount ? Long.valueOf(0) : null) : Long.valueOf(((Number) value).longValue());
    }
    rows.add(RowFactory.create(values));
    return rows;
  }

  public String nodeName() {
    return query().nodeName();
  }

  public String simpleString(int maxFields) {
    return "Icefloe: " + query().simpleString(maxFields);
  }

  /** The columns of the result. It is passed to the command as its data source, which this command does not need. */
  private static final class Result implements CreatableRelationProvider {
    final Seq columns;
    final RowStatementRule.Written written;

    Result(RowStatementRule.Written written) {
      this.written = written;
      StructType schema = new StructType();
      for (int i = 0; written != null && i < COLUMNS.length; i++) schema = schema.add(COLUMNS[i], "bigint", true);
      columns = DataTypeUtils.toAttributes(schema);
    }

    public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset nothing) {
      throw new UnsupportedOperationException();
    }

    public boolean supportsDataType(DataType type) {
      return true;
    }
  }
}
