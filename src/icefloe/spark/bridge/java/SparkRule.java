package icefloe;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.optimizer.CollapseProject$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceCTERefWithRepartition$;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** The last rule of Spark's optimizer: it replaces planned scans by plans of their rows, functions of catalogs by Catalyst expressions, and writes that Spark cannot run by commands. */
public final class SparkRule extends Rule {
  private boolean hasScans; // whether the rows of a scan were replaced
  private boolean hasOtherRows; // whether the rows of a scan were replaced by a plan other than columns of a scan of files
  private boolean hasVariants; // whether the rows of a scan have a column of variants, or a struct with one
  private Set clustered = Collections.EMPTY_SET; // ids of columns by which plans above the current node join, group or partition rows, or prune files
  private Set needed; // ids of the columns that the plan above the current node needs of it; null for all columns
  private Set pruned = Collections.EMPTY_SET; // ids of columns for which Spark prunes files at run time, by the values in a join

  public TreeNode apply(TreeNode plan) {
    return new SparkRule().replaced((LogicalPlan) plan);
  }

  private LogicalPlan replaced(LogicalPlan plan) {
    LogicalPlan replaced = replace(new JoinHints().hinted(plan));
    if (!hasScans) return replaced;
    // Spark's filters are now above the new plans.
    replaced = PartitionedFiles.withConditions(PushDownPredicates$.MODULE$.apply(replaced));
    // The schema of a stream's state must be that of batches without rows, which have no scan.
    if (!plan.isStreaming()) replaced = (LogicalPlan) new NonNullColumns().apply(replaced);
    return hasVariants ? withExtractions(replaced) : replaced;
  }

  /** Returns a plan whose scans of files read the parts of variants that the query extracts. Spark did so for other scans, before this rule. */
  private LogicalPlan withExtractions(LogicalPlan plan) {
    LogicalPlan pushed = hasOtherRows ? PushProjectionThroughUnion$.MODULE$.apply(CollapseProject$.MODULE$.apply(plan)) : plan;
    return VariantExtractions.pushed(pushed);
  }

  private static boolean hasVariants(Seq columns) {
    boolean has = false;
    for (Iterator each = columns.iterator(); !has && each.hasNext(); ) has = isVariant(((Attribute) each.next()).dataType());
    return has;
  }

  private static boolean isVariant(DataType type) {
    if (!(type instanceof StructType)) return type instanceof VariantType;
    boolean has = false;
    for (int i = 0; !has && i < ((StructType) type).length(); i++) has = isVariant(((StructType) type).apply(i).dataType());
    return has;
  }

  private LogicalPlan replace(LogicalPlan plan) {
    // The plan of a DELETE of all rows has a scan of its table that is never executed.
    if (plan instanceof DeleteFromTable) return plan;
    if (plan.nodeName().equals("AddCheckConstraint")) refuseConstraint(plan);
    if (isCommand(plan)) return new SparkCommand(plan, null, plan.nodeName()).plan();
    // Queries that are used several times, such as equal subqueries, are separate from the statement in the plan. Spark inserts them after this rule, but not into the plan in a command.
    if (plan instanceof WithCTE && isCommand(((WithCTE) plan).plan())) return replace(ReplaceCTERefWithRepartition$.MODULE$.apply(plan));
    plan = OrderedLimit.narrowed(plan);
    if (isScan(plan)) {
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
      LogicalPlan partitioned = partitioned(scan);
      LogicalPlan rows = partitioned == null ? PythonProxy.behind(scan.scan()).rows() : partitioned;
      checkColumns(rows.output(), scan);
      hasVariants |= hasVariants(scan.output());
      return named(rows, scan.output());
    }
    if (plan instanceof StreamingDataSourceV2ScanRelation) return ofStream((StreamingDataSourceV2ScanRelation) plan);
    Set above = clustered, prunedAbove = pruned, neededAbove = needed;
    needed = neededBelow(plan);
    clustered = clusteredBelow(plan);
    pruned = prunedBelow(plan);
    LogicalPlan replaced = (LogicalPlan) plan.mapChildren(new Below());
    clustered = above;
    pruned = prunedAbove;
    needed = neededAbove;
    return (LogicalPlan) replaced.mapExpressions(new Inside());
  }

  /** Returns the plan of the rows of a scan that reports its partitions or whose files are filtered at run time by a join, if the query profits by this; otherwise null. */
  private LogicalPlan partitioned(DataSourceV2ScanRelation scan) {
    boolean profits = scan.keyGroupedPartitioning().isDefined() ? refersTo((Seq) scan.keyGroupedPartitioning().get(), clustered) : refersTo(scan.output(), pruned);
    if (!profits) return null;
    PythonProxy python = PythonProxy.behind(scan.scan());
    Object files = python.once("partitioned_files");
    return files instanceof PartitionedFiles ? ((PartitionedFiles) files).planFor(scan, python) : null; // Python returns null if it reads a file itself, or for columns that have one value for each file
  }

  /** Returns the rows of a batch of a table's stream, with the columns that the query needs; any other relation unchanged. Spark's optimizer does not push columns down to streams. */
  private LogicalPlan ofStream(StreamingDataSourceV2ScanRelation relation) {
    if (!(relation.stream() instanceof TableStream) || !relation.startOffset().isDefined() || !relation.endOffset().isDefined()) return relation;
    ArrayList columns = new ArrayList();
    Iterator output = relation.output().iterator();
    while (output.hasNext()) {
      Attribute column = (Attribute) output.next();
      if (needed == null || needed.contains(column.exprId())) columns.add(column);
    }
    if (columns.isEmpty()) columns.add(relation.output().head()); // readers return no rows without columns
    Seq names = PythonUtils.toSeq(columns);
    return named(((TableStream) relation.stream()).rows(relation, names), names);
  }

  /** Returns the ids of the columns that a plan needs of its child; null for all columns. */
  private Set neededBelow(LogicalPlan plan) {
    if (!(plan instanceof Project) && (!(plan instanceof Filter) || needed == null)) return null;
    Set columns = plan instanceof Filter ? new HashSet(needed) : new HashSet();
    Iterator references = plan.references().iterator();
    while (references.hasNext()) columns.add(((Attribute) references.next()).exprId());
    return columns;
  }

  private static boolean refersTo(Seq expressions, Set columns) {
    if (columns.isEmpty()) return false;
    Set references = new HashSet();
    addReferences(expressions, references);
    return !Collections.disjoint(references, columns);
  }

  /** Returns the ids of the columns of a plan's children by which the plan, or a plan above it, joins, groups or partitions rows, or prunes files. */
  private Set clusteredBelow(LogicalPlan plan) {
    Set columns = new HashSet(clustered);
    if (plan instanceof Join && ((Join) plan).condition().isDefined()) addReferences((Expression) ((Join) plan).condition().get(), columns);
    if (plan instanceof Aggregate) addReferences(((Aggregate) plan).groupingExpressions(), columns);
    if (plan instanceof Window) addReferences(((Window) plan).partitionSpec(), columns);
    if (plan instanceof Filter) addPruned(((Filter) plan).condition(), columns);
    addNamed(plan, columns);
    return columns;
  }

  /** Returns the ids of the columns of a plan's children for which Spark prunes files at run time, by the values in a join. */
  private Set prunedBelow(LogicalPlan plan) {
    if (pruned.isEmpty() && !(plan instanceof Filter)) return pruned;
    Set columns = new HashSet(pruned);
    if (plan instanceof Filter) addPruned(((Filter) plan).condition(), columns);
    addNamed(plan, columns);
    return columns;
  }

  /** Adds to the set the columns of a plan's children that the plan renames to columns in the set. */
  private static void addNamed(LogicalPlan plan, Set columns) {
    Seq named = plan instanceof Project ? ((Project) plan).projectList() : plan instanceof Aggregate ? ((Aggregate) plan).aggregateExpressions() : null;
    for (Iterator each = named == null ? null : named.iterator(); each != null && each.hasNext(); ) {
      Object column = each.next();
      if (column instanceof Alias && columns.contains(((Alias) column).exprId())) addReferences(((Alias) column).child(), columns);
    }
  }

  private static void addReferences(Seq expressions, Set columns) {
    Iterator each = expressions.iterator();
    while (each.hasNext()) addReferences((Expression) each.next(), columns);
  }

  private static void addReferences(Expression expression, Set columns) {
    Iterator references = expression.references().iterator();
    while (references.hasNext()) columns.add(((Attribute) references.next()).exprId());
  }

  /** Adds the columns in a condition for which Spark prunes files at run time, by the values in a join. */
  private static void addPruned(Expression condition, Set columns) {
    if (condition instanceof DynamicPruningSubquery) addReferences(((DynamicPruningSubquery) condition).pruningKey(), columns);
    else if (condition instanceof And) {
      addPruned(((And) condition).left(), columns);
      addPruned(((And) condition).right(), columns);
    }
  }

  /** Returns whether a plan is a write to Icefloe that Spark cannot run itself. A MERGE that only inserts is such a write, although Spark plans it as an append: its commit checks for conflicts. */
  private static boolean isCommand(LogicalPlan write) {
    if (!(write instanceof V2WriteCommand) || SparkCommand.writeOf(write) == null) return false;
    if (write instanceof WriteDelta || write instanceof OverwritePartitionsDynamic || RowStatementRule.isInsertOnlyMerge(write)) return true;
    return write.nodeName().equals("AppendData") && isOfUnmatched(((V2WriteCommand) write).query());
  }

  /** Refuses `ALTER TABLE ... ADD CONSTRAINT ... CHECK`, which Spark 4.1 and later plan as a query for rows that violate the constraint. */
  private static void refuseConstraint(LogicalPlan plan) {
    LogicalPlan leaf = (LogicalPlan) plan.collectLeaves().head();
    if (!isScan(leaf)) return;
    Object condition = ((Product) plan.expressions().head()).productElement(1); // the text of the condition in the statement
    String rule = "the table " + ((DataSourceV2ScanRelation) leaf).name() + " cannot have the constraint CHECK (" + condition + "): Iceberg tables have no constraints";
    throw new UnsupportedOperationException(rule + "\n  Next: leave it out, and filter the rows in the query that writes them");
  }

  private static boolean isScan(LogicalPlan plan) {
    return plan instanceof DataSourceV2ScanRelation && PythonProxy.behind(((DataSourceV2ScanRelation) plan).scan()) != null;
  }

  /** Returns whether the rows of a query may be rows without a match in a table, as in an INSERT with NOT EXISTS. Python checks the details when the statement runs. */
  private static boolean isOfUnmatched(LogicalPlan query) {
    LogicalPlan plan = RowStatement.belowRows(query);
    return plan instanceof Join && ((Join) plan).joinType() == LeftAnti$.MODULE$ && isScan(RowStatement.belowRows(((Join) plan).right()));
  }

  /** Refuses rows whose columns or nested fields differ from those that Spark requested, because the query finds the fields of structs by their indexes. */
  private static void checkColumns(Seq columns, DataSourceV2ScanRelation scan) {
    int count = scan.output().size();
    if (columns.size() != count) throw otherColumns(scan, columns.size() + " columns", count + " columns");
    for (int i = 0; i < count; i++) {
      Attribute requested = (Attribute) scan.output().apply(i);
      DataType type = ((Attribute) columns.apply(i)).dataType();
      if (!DataType.equalsIgnoreNullability(type, requested.dataType())) throw otherColumns(scan, "the column " + requested.name() + " as " + type.catalogString(), requested.dataType().catalogString());
    }
  }

  private static IllegalStateException otherColumns(DataSourceV2ScanRelation scan, String returned, String requested) {
    String rule = "the rows of " + scan.name() + " have " + returned + ", and Spark requested " + requested;
    return new IllegalStateException(rule + "\n  Next: read with spark.sql.optimizer.nestedSchemaPruning.enabled=false, or in Python by table.scan(), and please report this message");
  }

  /** Returns the rows with the names and ids that the rest of the query refers to. */
  private LogicalPlan named(LogicalPlan rows, Seq names) {
    hasScans = true;
    if (isBareScan(rows)) return ofScan((Project) rows, names);
    hasOtherRows = true;
    ArrayList columns = new ArrayList();
    Iterator attributes = names.iterator();
    Iterator outputs = rows.output().iterator();
    while (attributes.hasNext()) columns.add(alias((Attribute) outputs.next(), (Attribute) attributes.next(), Option.empty()));
    return new Project(PythonUtils.toSeq(columns), rows);
  }

  /** Returns whether a plan only selects columns of a scan of files, without computed columns, and perhaps filters rows. */
  private static boolean isBareScan(LogicalPlan rows) {
    if (!(rows instanceof Project) || !(scanned((Project) rows) instanceof LogicalRelation)) return false;
    Iterator columns = ((Project) rows).projectList().iterator();
    while (columns.hasNext()) {
      Object column = columns.next();
      if (!(column instanceof Alias) || !(((Alias) column).child() instanceof Attribute)) return false;
    }
    return true;
  }

  private static LogicalPlan scanned(Project rows) {
    return rows.child() instanceof Filter ? ((Filter) rows.child()).child() : rows.child();
  }

  /** Returns a copy of a plan that selects columns of a scan of files. The columns get new ids, because other references and statements use the same plan. */
  private static LogicalPlan ofScan(Project rows, Seq names) {
    LogicalPlan scan = scanned(rows);
    LogicalPlan relation = ((LogicalRelation) scan).newInstance();
    Renewal fresh = new Renewal();
    for (int i = 0; i < relation.output().size(); i++) fresh.attributes.put(((Attribute) scan.output().apply(i)).exprId(), relation.output().apply(i));
    ArrayList columns = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      Alias column = (Alias) rows.projectList().apply(i);
      columns.add(alias((Attribute) fresh.apply(column.child()), (Attribute) names.apply(i), column.explicitMetadata()));
    }
    if (rows.child() instanceof Filter) relation = new Filter((Expression) fresh.apply(((Filter) rows.child()).condition()), relation);
    return new Project(PythonUtils.toSeq(columns), relation);
  }

  /** Replaces the columns of a scan in an expression by the columns with new ids. */
  private static final class Renewal extends AbstractFunction1 {
    private final HashMap attributes = new HashMap(); // the new columns, by the ids of the old ones

    public Object apply(Object node) {
      return node instanceof Attribute ? attributes.get(((Attribute) node).exprId()) : ((Expression) node).mapChildren(this);
    }
  }

  private static Alias alias(Attribute column, Attribute name, Option metadata) {
    return new Alias(column, name.name(), name.exprId(), name.qualifier(), metadata, PythonUtils.toSeq(new ArrayList()));
  }

  private final class Below extends AbstractFunction1 {
    public Object apply(Object plan) {
      return replace((LogicalPlan) plan);
    }
  }

  /** Replaces functions of catalogs in expressions, and applies the rule to subqueries: Spark inserted some of them last, such as those of dynamic file pruning, and does not optimize them again. */
  private final class Inside extends AbstractFunction1 {
    public Object apply(Object node) {
      Expression expression = (Expression) ((Expression) node).mapChildren(this);
      PythonProxy function = expression instanceof ApplyFunctionExpression ? PythonProxy.behind(((ApplyFunctionExpression) expression).function()) : null;
      if (function != null) return new Called(expression.children()).apply(function.once("body"));
      if (!(expression instanceof SubqueryExpression)) return expression;
      if (expression instanceof DynamicPruningSubquery) expression = withKeys((DynamicPruningSubquery) expression);
      LogicalPlan inner = (LogicalPlan) ((SubqueryExpression) expression).plan();
      LogicalPlan replaced = (LogicalPlan) SparkRule.this.apply((TreeNode) inner);
      return replaced == inner ? expression : ((SubqueryExpression) expression).withNewPlan(replaced);
    }
  }

  /** Returns a pruning subquery in whose build keys functions are replaced. Spark does not treat these keys as children of the expression. */
  private Expression withKeys(DynamicPruningSubquery pruning) {
    ArrayList keys = new ArrayList();
    for (int i = 0; i < pruning.buildKeys().size(); i++) keys.add(new Inside().apply(pruning.buildKeys().apply(i)));
    Object[] parts = new Object[pruning.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = pruning.productElement(i) == pruning.buildKeys() ? PythonUtils.toSeq(keys) : pruning.productElement(i);
    return (Expression) pruning.makeCopy(parts);
  }

  /** Replaces the bound references of an expression by the arguments at their indexes. */
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
