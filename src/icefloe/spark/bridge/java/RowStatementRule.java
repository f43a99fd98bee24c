package icefloe;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.Iterator;

/**
 * A rule of Spark's analyzer for resolved statements that change rows of Icefloe's tables: it replaces a statement of SQL by a `RowStatement`, which returns counts, and also a MERGE of a
 * DataFrame whose source must be computed first. EXPLAIN and other writes of DataFrames are not changed.
 */
public final class RowStatementRule extends Rule {
  private static final TreeNodeTag WRITTEN = new TreeNodeTag("icefloe.row_statement"); // the value is a Written
  private static final TreeNodeTag INSERT_ONLY_MERGE = new TreeNodeTag("icefloe.insert_only_merge"); // the value is TRUE
  private static final Set OF_PARSER =
      new HashSet(
          Arrays.asList(
              new Object[] {"MergeIntoTable", "UpdateTable", "DeleteFromTable", "InsertIntoStatement", "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"}));
  // Spark 4.0 rewrites UPDATE and MERGE after this rule, later versions before it.
  private static final Set KINDS =
      new HashSet(Arrays.asList(new Object[] {"UpdateTable", "MergeIntoTable", "WriteDelta", "DeleteFromTable", "AppendData", "InsertOnlyMerge", "OverwriteByExpression", "OverwritePartitionsDynamic"}));

  /** The plan of a statement of SQL from the parser. */
  static final class Written {
    final LogicalPlan parsed;

    Written(LogicalPlan parsed) {
      this.parsed = parsed;
    }

    /** Returns a copy of the unresolved statement to run again; null if it has parameters, whose values are not part of it. */
    LogicalPlan again() {
      if (hasParameter(parsed)) return null;
      LogicalPlan copy = (LogicalPlan) parsed.clone();
      tag(copy);
      return copy;
    }

    /** Returns whether a plan has a parameter. The queries of WITH are searched too: they are neither children of the plan nor part of its patterns. */
    private static boolean hasParameter(LogicalPlan plan) {
      if (plan.containsPattern(TreePattern$.MODULE$.PARAMETER())) return true;
      while (plan instanceof UnresolvedWith) {
        Iterator queries = plan.innerChildren().iterator();
        while (queries.hasNext()) if (hasParameter((LogicalPlan) queries.next())) return true;
        plan = ((UnresolvedWith) plan).child();
      }
      Iterator children = plan.children().iterator();
      while (children.hasNext()) if (hasParameter((LogicalPlan) children.next())) return true;
      return false;
    }
  }

  /** Tags a parsed statement that changes rows, so that it returns counts if its table is one of Icefloe. Spark keeps the tag while it resolves the statement. */
  static void tag(LogicalPlan parsed) {
    LogicalPlan statement = parsed;
    while (statement instanceof UnresolvedWith) statement = ((UnresolvedWith) statement).child();
    if (OF_PARSER.contains(statement.getClass().getSimpleName())) statement.setTagValue(WRITTEN, new Written(parsed));
  }

  public TreeNode apply(TreeNode node) {
    LogicalPlan statement = (LogicalPlan) node;
    if (!KINDS.contains(statement.nodeName()) || !statement.resolved() || statement instanceof RowStatement || !isOfIcefloe((LogicalPlan) statement.productElement(0))) return node;
    RowStatement.check(statement);
    if (insertsUnmatched(statement)) statement.setTagValue(INSERT_ONLY_MERGE, Boolean.TRUE);
    Option written = statement.getTagValue(WRITTEN);
    statement.unsetTagValue(WRITTEN);
    return written.isDefined() || RowStatement.sourceToCompute(statement) != null ? RowStatement.of(statement, written.isDefined() ? (Written) written.get() : null) : statement;
  }

  /** Returns whether a write is a MERGE that has only WHEN NOT MATCHED clauses, which Spark plans as an append. Spark keeps the tag while it plans the statement. */
  static boolean isInsertOnlyMerge(LogicalPlan write) {
    return write.nodeName().equals("InsertOnlyMerge") || write.getTagValue(INSERT_ONLY_MERGE).isDefined();
  }

  /** Returns whether a resolved statement is a MERGE that only inserts. Its query reads the same relation that it writes to; a relation in the query of an INSERT has columns with other ids. */
  private static boolean insertsUnmatched(LogicalPlan statement) {
    if (statement instanceof MergeIntoTable) return ((MergeIntoTable) statement).matchedActions().isEmpty() && ((MergeIntoTable) statement).notMatchedBySourceActions().isEmpty();
    if (!(statement instanceof AppendData)) return false;
    LogicalPlan plan = RowStatement.belowRows(((AppendData) statement).query());
    return plan instanceof Join && ((Join) plan).joinType() == LeftAnti$.MODULE$ && ((Join) plan).right().outputSet().subsetOf(((LogicalPlan) statement.productElement(0)).outputSet());
  }

  private static boolean isOfIcefloe(LogicalPlan target) {
    while (target instanceof SubqueryAlias) target = ((SubqueryAlias) target).child();
    if (!(target instanceof DataSourceV2Relation)) return false;
    Table table = ((DataSourceV2Relation) target).table();
    return PythonProxy.behind(table instanceof RowLevelOperationTable ? ((RowLevelOperationTable) table).table() : table) != null;
  }
}
