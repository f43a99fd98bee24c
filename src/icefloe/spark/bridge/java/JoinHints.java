package icefloe;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Adds the hint BROADCAST to a join if one of its sides is itself a join of scans whose estimated size is at most spark.sql.autoBroadcastJoinThreshold. Without its cost-based optimizer,
 * Spark estimates the size of a join as the product of the sizes of its sides, so that it never broadcasts a join. Here the estimate is better: if a column of one side that the condition
 * compares is unique, as its scan describes it, the join has at most the rows of the other side. A join without such a column has no estimate. A join is not changed if Spark broadcasts a
 * side anyway, or if the query has a hint for the join.
 */
final class JoinHints extends AbstractFunction1 {
  private final double limit = (double) SQLConf.get().autoBroadcastJoinThreshold(); // in bytes; 0 or less if Spark must not broadcast

  /** Returns the plan with the hints. */
  LogicalPlan hinted(LogicalPlan plan) {
    return limit > 0 ? (LogicalPlan) apply(plan) : plan;
  }

  public Object apply(Object node) {
    LogicalPlan plan = (LogicalPlan) ((LogicalPlan) node).mapChildren(this);
    return plan instanceof Join ? hintedJoin((Join) plan) : plan;
  }

  private Join hintedJoin(Join join) {
    JoinType type = join.joinType();
    boolean canBeLeft = type == Inner$.MODULE$ || type == RightOuter$.MODULE$;
    boolean canBeRight = type == Inner$.MODULE$ || type == LeftOuter$.MODULE$ || type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$;
    if (join.hint().leftHint().isDefined() || join.hint().rightHint().isDefined() || keys(join).isEmpty()) return join;
    if ((canBeLeft && isSmall(join.left())) || (canBeRight && isSmall(join.right()))) return join;
    double left = canBeLeft ? bytesOf(join.left()) : Double.MAX_VALUE;
    double right = canBeRight ? bytesOf(join.right()) : Double.MAX_VALUE;
    if (Math.min(left, right) > limit) return join;
    Option broadcast = Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$)));
    JoinHint hint = left < right ? new JoinHint(broadcast, Option.empty()) : new JoinHint(Option.empty(), broadcast);
    return join.copy(join.left(), join.right(), type, join.condition(), hint);
  }

  /** Returns whether Spark broadcasts a side of a join without a hint. */
  private boolean isSmall(LogicalPlan side) {
    return side.stats().sizeInBytes().doubleValue() <= limit;
  }

  private static double bytesOf(LogicalPlan side) {
    Size size = sizeOf(side);
    return size == null ? Double.MAX_VALUE : size.bytes;
  }

  /** An estimate of the number and size of the rows of a plan. */
  private static final class Size {
    final double rows;
    final double bytes;
    final HashSet unique; // the ids of columns that have a different value in each row

    Size(double rows, double bytes, HashSet unique) {
      this.rows = rows;
      this.bytes = bytes;
      this.unique = unique;
    }

    double bytesOfRow() {
      return bytes / Math.max(1.0, rows);
    }
  }

  /** Returns the estimated size of a plan; null if there is no estimate. */
  private static Size sizeOf(LogicalPlan plan) {
    if (plan instanceof DataSourceV2ScanRelation) return sizeOfScan((DataSourceV2ScanRelation) plan);
    if (plan instanceof Filter) return sizeOf(((Filter) plan).child());
    if (plan instanceof Project) return resized(sizeOf(((Project) plan).child()), plan, ((Project) plan).projectList());
    if (plan instanceof Aggregate) return sizeOfGroups((Aggregate) plan);
    return plan instanceof Join ? sizeOfJoin((Join) plan) : null;
  }

  private static Size sizeOfScan(DataSourceV2ScanRelation relation) {
    // Other connectors' scans may compute their statistics at each call.
    if (PythonProxy.behind(relation.scan()) == null || !(relation.scan() instanceof SupportsReportStatistics)) return null;
    PythonProxy statistics = PythonProxy.behind(((SupportsReportStatistics) relation.scan()).estimateStatistics());
    Object names = statistics == null ? null : statistics.described("uniqueColumns");
    if (names == null) return null;
    HashSet unique = new HashSet();
    for (int i = 0; i < relation.output().size(); i++) {
      Attribute column = (Attribute) relation.output().apply(i);
      if (((List) names).contains(column.name())) unique.add(column.exprId());
    }
    return new Size(((Number) statistics.described("numRows")).doubleValue(), ((Number) statistics.described("sizeInBytes")).doubleValue(), unique);
  }

  /** Returns the estimated size of an aggregation: it has at most as many rows as its input. If it groups by a single column, this column is unique. */
  private static Size sizeOfGroups(Aggregate groups) {
    Size size = sizeOf(groups.child());
    Seq by = groups.groupingExpressions();
    if (size == null || by.isEmpty()) return null;
    HashSet unique = new HashSet();
    if (by.size() == 1 && by.apply(0) instanceof Attribute) unique.add(((Attribute) by.apply(0)).exprId());
    return resized(new Size(size.rows, size.bytes, unique), groups, groups.aggregateExpressions());
  }

  /** Returns the estimated size of the same rows with other columns. As in Spark's own estimate, the bytes are divided among the columns by the sizes of their types. */
  private static Size resized(Size size, LogicalPlan plan, Seq columns) {
    if (size == null) return null;
    HashSet unique = new HashSet();
    for (int i = 0; i < columns.size(); i++) {
      NamedExpression column = (NamedExpression) columns.apply(i);
      Object source = column instanceof Alias ? ((Alias) column).child() : column;
      if (source instanceof Attribute && size.unique.contains(((Attribute) source).exprId())) unique.add(column.exprId());
    }
    double width = widthOf(plan.output());
    return new Size(size.rows, size.bytes * width / widthOf(((LogicalPlan) plan.children().apply(0)).output()), unique);
  }

  private static double widthOf(Seq columns) {
    double width = 8.0; // in bytes; 8 for the row itself
    for (int i = 0; i < columns.size(); i++) width += ((Attribute) columns.apply(i)).dataType().defaultSize();
    return width;
  }

  private static Size sizeOfJoin(Join join) {
    JoinType type = join.joinType();
    Size left = sizeOf(join.left());
    if (left == null || type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$) return left;
    Size right = sizeOf(join.right());
    if (right == null) return null;
    boolean ofLeft = false; // whether a key is unique on the left
    boolean ofRight = false;
    List keys = keys(join);
    for (int i = 0; i < keys.size(); i++) {
      Attribute[] pair = (Attribute[]) keys.get(i);
      ofLeft = ofLeft || left.unique.contains(pair[0].exprId());
      ofRight = ofRight || right.unique.contains(pair[1].exprId());
    }
    double rows = ofLeft && ofRight ? Math.min(left.rows, right.rows) : ofLeft ? right.rows : left.rows;
    if (type == Inner$.MODULE$ ? !(ofLeft || ofRight) : type == LeftOuter$.MODULE$ ? !ofRight : type == RightOuter$.MODULE$ ? !ofLeft : true) return null;
    // An outer join keeps all rows of one side. Rows without a match have nulls in the columns of the other side, so that no column of that side is unique.
    if (type == LeftOuter$.MODULE$) rows = left.rows;
    if (type == RightOuter$.MODULE$) rows = right.rows;
    HashSet unique = new HashSet();
    if (ofRight && type != RightOuter$.MODULE$) unique.addAll(left.unique);
    if (ofLeft && type != LeftOuter$.MODULE$) unique.addAll(right.unique);
    return new Size(rows, rows * (left.bytesOfRow() + right.bytesOfRow()), unique);
  }

  /** Returns the pairs of columns that the condition of a join compares for equality; in each pair, the column of the left side is first. */
  private static List keys(Join join) {
    ArrayList pairs = new ArrayList();
    if (join.condition().isDefined()) addKeys((Expression) join.condition().get(), join, pairs);
    return pairs;
  }

  private static void addKeys(Expression condition, Join join, ArrayList pairs) {
    if (condition instanceof And) {
      addKeys(((And) condition).left(), join, pairs);
      addKeys(((And) condition).right(), join, pairs);
    } else if (condition instanceof EqualTo && ((EqualTo) condition).left() instanceof Attribute && ((EqualTo) condition).right() instanceof Attribute) {
      Attribute one = (Attribute) ((EqualTo) condition).left();
      Attribute other = (Attribute) ((EqualTo) condition).right();
      if (join.left().outputSet().contains(one) && join.right().outputSet().contains(other)) pairs.add(new Attribute[] {one, other});
      if (join.left().outputSet().contains(other) && join.right().outputSet().contains(one)) pairs.add(new Attribute[] {other, one});
    }
  }
}
