package icefloe;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceCTERefWithRepartition$;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** The last rule of Spark's optimizer: planned scans become their rows, functions Spark's own, and writes that Spark cannot run commands. */
public final class SparkRule extends Rule {
  public TreeNode apply(TreeNode plan) {
    LogicalPlan found = put((LogicalPlan) plan);
    // What Spark filters lies above the rows now, some of which are unions: it must reach each of their scans.
    return found == plan ? plan : PushDownPredicates$.MODULE$.apply(found);
  }

  private LogicalPlan put(LogicalPlan plan) {
    // A DELETE of everything names its table by a scan that nobody runs.
    if (plan instanceof DeleteFromTable) return plan;
    if (isCommand(plan)) return new SparkCommand(plan, null, null, plan.nodeName()).plan();
    // Queries that a statement shares, such as equal subqueries, stand beside it. Spark puts them in their places after this rule, and not in what a command keeps.
    if (plan instanceof WithCTE && isCommand(((WithCTE) plan).plan())) return put(ReplaceCTERefWithRepartition$.MODULE$.apply(plan));
    if (isScan(plan)) {
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
      return named((LogicalPlan) PythonProxy.behind(scan.scan()).once("rows"), scan.output());
    }
    return (LogicalPlan) ((LogicalPlan) plan.mapChildren(new Below())).mapExpressions(new Inside());
  }

  /** Whether a plan is a write to Icefloe that Spark does not run as it is. A MERGE that only inserts appends, by a class of its own since Spark 4.3. */
  private static boolean isCommand(LogicalPlan write) {
    if (!(write instanceof V2WriteCommand) || SparkCommand.writeOf(write) == null) return false;
    if (write instanceof WriteDelta || write instanceof OverwritePartitionsDynamic) return true;
    String name = write.nodeName();
    return (name.equals("AppendData") || name.equals("InsertOnlyMerge")) && isOfUnmatched(((V2WriteCommand) write).query());
  }

  private static boolean isScan(LogicalPlan plan) {
    return plan instanceof DataSourceV2ScanRelation && PythonProxy.behind(((DataSourceV2ScanRelation) plan).scan()) != null;
  }

  /** Whether these are rows that match none of a table's, as where a MERGE only inserts: Python looks closer when the statement runs. */
  private static boolean isOfUnmatched(LogicalPlan query) {
    LogicalPlan plan = bare(query);
    return plan instanceof Join && ((Join) plan).joinType() == LeftAnti$.MODULE$ && isScan(bare(((Join) plan).right()));
  }

  private static LogicalPlan bare(LogicalPlan plan) {
    while (plan instanceof Project || plan instanceof Filter || plan instanceof MergeRows) plan = (LogicalPlan) plan.children().apply(0);
    return plan;
  }

  /** The rows under the names and ids by which the rest of the query knows them. */
  private static LogicalPlan named(LogicalPlan rows, Seq names) {
    ArrayList columns = new ArrayList();
    Iterator wanted = names.iterator();
    Iterator have = rows.output().iterator();
    while (wanted.hasNext()) {
      Attribute name = (Attribute) wanted.next();
      columns.add(new Alias((Attribute) have.next(), name.name(), name.exprId(), name.qualifier(), Option.empty(), PythonUtils.toSeq(new ArrayList())));
    }
    return new Project(PythonUtils.toSeq(columns), rows);
  }

  private final class Below extends AbstractFunction1 {
    public Object apply(Object plan) {
      return put((LogicalPlan) plan);
    }
  }

  /** Functions of catalogs, and queries that Spark put there last, such as the one by whose rows a join leaves out files, and did not optimize again. */
  private final class Inside extends AbstractFunction1 {
    public Object apply(Object node) {
      Expression found = (Expression) ((Expression) node).mapChildren(this);
      PythonProxy function = found instanceof ApplyFunctionExpression ? PythonProxy.behind(((ApplyFunctionExpression) found).function()) : null;
      if (function != null) return new Called(found.children()).apply(function.once("body"));
      if (!(found instanceof SubqueryExpression)) return found;
      if (found instanceof DynamicPruningSubquery) found = withKeys((DynamicPruningSubquery) found);
      LogicalPlan inner = (LogicalPlan) ((SubqueryExpression) found).plan();
      LogicalPlan put = (LogicalPlan) SparkRule.this.apply((TreeNode) inner);
      return put == inner ? found : ((SubqueryExpression) found).withNewPlan(put);
    }
  }

  /** What such a query is compared by is no child of it. */
  private Expression withKeys(DynamicPruningSubquery pruning) {
    ArrayList keys = new ArrayList();
    for (int i = 0; i < pruning.buildKeys().size(); i++) keys.add(new Inside().apply(pruning.buildKeys().apply(i)));
    Object[] parts = new Object[pruning.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = pruning.productElement(i) == pruning.buildKeys() ? PythonUtils.toSeq(keys) : pruning.productElement(i);
    return (Expression) pruning.makeCopy(parts);
  }

  /** An expression with others for its arguments, which it knows by their places. */
  private static final class Called extends AbstractFunction1 {
    private final Seq arguments;

    Called(Seq arguments) {
      this.arguments = arguments;
    }

    public Object apply(Object node) {
      return node instanceof BoundReference ? arguments.apply(((BoundReference) node).ordinal()) : ((Expression) node).mapChildren(this);
    }
  }
}
