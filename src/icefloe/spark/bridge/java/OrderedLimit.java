package icefloe;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation$;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import scala.Option;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * `ORDER BY ... LIMIT n` over a scan, whose rows a query may filter and select: the scan reads only the files that may have one of the first n rows. Python chooses the files by the first
 * column of the order. Spark sorts and limits the rows of these files. Spark's own push-down of sorted limits leaves out queries with filters.
 */
final class OrderedLimit {
  private OrderedLimit() {}

  /** Returns a plan whose scan reads fewer files; the same plan if it is no limit of sorted rows of a scan, or every file may have one of the first rows. */
  static LogicalPlan narrowed(LogicalPlan plan) {
    if (!(plan instanceof LocalLimit) || !(((LocalLimit) plan).limitExpr() instanceof Literal)) return plan;
    LogicalPlan sort = ((LocalLimit) plan).child();
    while (sort instanceof Project) sort = ((Project) sort).child();
    if (!(sort instanceof Sort) || !((Sort) sort).global()) return plan;
    Option operation = PhysicalOperation$.MODULE$.unapply(((Sort) sort).child());
    if (operation.isEmpty() || !(((Tuple3) operation.get())._3() instanceof DataSourceV2ScanRelation)) return plan;
    Seq columns = (Seq) ((Tuple3) operation.get())._1(), conditions = (Seq) ((Tuple3) operation.get())._2();
    DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) ((Tuple3) operation.get())._3();
    PythonProxy python = PythonProxy.behind(scan.scan());
    Seq order = ((Sort) sort).order();
    SortOrder first = (SortOrder) order.head();
    String column = nameOf(first.child(), columns, scan.output());
    Predicate[] filters = translated(conditions);
    if (python == null || column == null || filters == null) return plan;
    LinkedHashMap rows = new LinkedHashMap();
    rows.put("column", column);
    rows.put("is_descending", Boolean.valueOf(first.direction().sql().equals("DESC")));
    rows.put("nulls_first", Boolean.valueOf(first.nullOrdering().sql().equals("NULLS FIRST")));
    rows.put("is_only_column", Boolean.valueOf(order.size() == 1));
    rows.put("count", ((Literal) ((LocalLimit) plan).limitExpr()).value());
    rows.put("filters", filters);
    Object narrowed = python.call("of_first_rows", ConnectorJson.json(new Object[] {rows}));
    return narrowed instanceof BiFunction ? (LogicalPlan) new Replacing(scan, PythonProxy.of((BiFunction) narrowed)).apply(plan) : plan;
  }

  /** Returns the name of a column of the scan that an expression over selected columns is; null if it is computed. */
  private static String nameOf(Expression expression, Seq selected, Seq output) {
    if (!(expression instanceof Attribute)) return null;
    Object source = null;
    for (Iterator each = selected.iterator(); source == null && each.hasNext(); ) {
      NamedExpression column = (NamedExpression) each.next();
      if (column.exprId().equals(((Attribute) expression).exprId())) source = column instanceof Alias ? ((Alias) column).child() : column;
    }
    String name = null;
    for (Iterator each = output.iterator(); source instanceof Attribute && each.hasNext(); ) {
      Attribute column = (Attribute) each.next();
      if (column.exprId().equals(((Attribute) source).exprId())) name = column.name();
    }
    return name;
  }

  /** Returns the conditions in the form of Spark's connector; null if one of them has no such form. */
  private static Predicate[] translated(Seq conditions) {
    ArrayList filters = new ArrayList();
    for (Iterator each = conditions.iterator(); each.hasNext(); ) {
      Option filter = DataSourceV2Strategy$.MODULE$.translateFilterV2((Expression) each.next());
      if (filter.isEmpty()) return null;
      filters.add(filter.get());
    }
    return (Predicate[]) filters.toArray(new Predicate[0]);
  }

  /** Replaces the scan of one leaf of a plan. */
  private static final class Replacing extends AbstractFunction1 {
    private final DataSourceV2ScanRelation leaf;
    private final Object scan;

    Replacing(DataSourceV2ScanRelation leaf, Object scan) {
      this.leaf = leaf;
      this.scan = scan;
    }

    public Object apply(Object plan) {
      if (plan != leaf) return ((LogicalPlan) plan).mapChildren(this);
      Object[] parts = new Object[leaf.productArity()];
      for (int i = 0; i < parts.length; i++) parts[i] = leaf.productElement(i) == leaf.scan() ? scan : leaf.productElement(i);
      return leaf.makeCopy(parts);
    }
  }
}
