package icefloe;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * Declares the columns that a plan selects as columns without nulls, where the rows below have no nulls in them because of a filter. Without this, the code that Spark compiles for joins and
 * aggregates tests every row for nulls, because a column that is selected from a file may have some.
 */
final class NonNullColumns extends AbstractFunction1 {
  public Object apply(Object node) {
    LogicalPlan plan = (LogicalPlan) ((LogicalPlan) node).mapChildren(this);
    if (!(plan instanceof Project)) return plan;
    LogicalPlan child = ((Project) plan).child();
    Set columns = new HashSet();
    if (child instanceof Filter) addNonNull(((Filter) child).condition(), columns);
    for (Iterator each = child.output().iterator(); each.hasNext(); ) {
      Attribute column = (Attribute) each.next();
      if (!column.nullable()) columns.add(column.exprId());
    }
    return columns.isEmpty() ? plan : plan.mapExpressions(new Declared(columns));
  }

  /** Adds the ids of the columns that are not null wherever the condition is true. */
  private static void addNonNull(Expression condition, Set columns) {
    if (condition instanceof And) {
      addNonNull(((And) condition).left(), columns);
      addNonNull(((And) condition).right(), columns);
    } else if (condition instanceof IsNotNull && ((IsNotNull) condition).child() instanceof Attribute) {
      columns.add(((Attribute) ((IsNotNull) condition).child()).exprId());
    }
  }

  /** Declares the references to some columns in an expression as never null. */
  private static final class Declared extends AbstractFunction1 {
    private final Set columns;

    Declared(Set columns) {
      this.columns = columns;
    }

    public Object apply(Object node) {
      if (!(node instanceof Attribute)) return ((Expression) node).mapChildren(this);
      return columns.contains(((Attribute) node).exprId()) ? ((Attribute) node).withNullability(false) : node;
    }
  }
}
