package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.function.BiFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.collection.immutable.Map$;

/** A statement that Icefloe runs when Spark executes it, but not while Spark plans or explains it. */
final class SparkCommand implements CreatableRelationProvider {
  private final LogicalPlan statement;
  private final BiFunction python;
  private final String text;

  /** Creates a command of one of two kinds: a write, whose rows Spark computes and Icefloe writes; or the text of a statement, which Python runs. For a write, `python` is null. */
  SparkCommand(LogicalPlan statement, BiFunction python, String text) {
    this.statement = statement;
    this.python = python;
    this.text = text;
  }

  LogicalPlan plan() {
    LocalRelation nothing = new LocalRelation(PythonUtils.toSeq(new ArrayList()), PythonUtils.toSeq(new ArrayList()), false, scala.Option.empty());
    if (statement == null) return new SaveIntoDataSourceCommand(nothing, this, Map$.MODULE$.empty(), SaveMode.Append);
    return new WriteCommand(nothing, this, Map$.MODULE$.empty(), SaveMode.Append);
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset nothing) {
    if (statement instanceof WriteDelta) {
      run(context, new Object[] {((WriteDelta) statement).projections()});
    } else if (statement != null) {
      run(context, new Object[] {PythonBridge.json(mergeReads(statement))});
    } else {
      PythonBridge.call(python, "run_statement", PythonBridge.json(Collections.singletonMap("text", text)));
    }
    return null;
  }

  /** Runs a write in Python. It gets the session, the query that computes the rows, and `more`: other values of the plan. */
  private void run(SQLContext context, Object[] more) {
    ArrayList arguments = new ArrayList(Arrays.asList(new Object[] {context.sparkSession(), ((V2WriteCommand) statement).query()}));
    arguments.addAll(Arrays.asList(more));
    writeOf(statement).call("run", arguments);
  }

  /**
   * Returns which rows of its target a MERGE that only inserts has read: other writers must not have added rows that match these meanwhile. `scanned` are the rows of the scans to which this
   * method sends `note_merge_target`; `all` if Spark read rows of the table from its cache; `none` if no rows were read, because the condition is never true. Returns null for other writes.
   */
  private static String mergeReads(LogicalPlan write) {
    if (!RowStatementRule.isInsertOnlyMerge(write)) return null;
    return mergeReads(((V2WriteCommand) write).query(), (DataSourceV2Relation) ((V2WriteCommand) write).table());
  }

  private static String mergeReads(LogicalPlan plan, DataSourceV2Relation target) {
    if (plan instanceof InMemoryRelation) return plan.outputSet().intersect(target.outputSet()).isEmpty() ? "none" : "all";
    if (plan instanceof DataSourceV2ScanRelation) {
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
      PythonProxy python = PythonProxy.behind(scan.scan());
      if (python == null || scan.relation().table() != target.table()) return "none";
      python.call("note_merge_target", "null");
      return "scanned";
    }
    String reads = "none";
    for (int i = 0; i < plan.children().size(); i++) reads = larger(reads, mergeReads((LogicalPlan) plan.children().apply(i), target));
    for (int i = 0; i < plan.subqueries().size(); i++) reads = larger(reads, mergeReads((LogicalPlan) plan.subqueries().apply(i), target));
    return reads;
  }

  private static String larger(String reads, String others) {
    return reads.equals("all") || others.equals("none") ? reads : others;
  }

  /** Returns the write of a plan that Python implements; null if the plan is no write, or the write is of another connector. */
  static PythonProxy writeOf(LogicalPlan plan) {
    PythonProxy write = null;
    for (int i = 0; i < plan.productArity() && write == null; i++) {
      Object part = plan.productElement(i);
      write = part instanceof Option && ((Option) part).isDefined() ? PythonProxy.behind(((Option) part).get()) : null;
    }
    return write;
  }

  public boolean supportsDataType(DataType type) {
    return true;
  }

  /** Returns the name of the statement's node in Spark's plans. */
  String nodeName() {
    return text;
  }

  public String toString() {
    return "Icefloe: " + text;
  }
}
