package icefloe;

import java.util.Collections;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.variant.VariantGet;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PushVariantIntoScan$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.sql.types.VariantType$;
import scala.Option;
import scala.runtime.AbstractFunction1;

/** Lets Spark's scans of files read only the parts of variants that a query extracts, and never fail for a row that the query does not return. */
final class VariantExtractions {
  private VariantExtractions() {}

  /** Returns a plan whose scans of files read the parts of variants that it extracts. */
  static LogicalPlan pushed(LogicalPlan plan) {
    return PushVariantIntoScan$.MODULE$.apply(withCastsAbove(plan));
  }

  /** Splits the extractions of variants in the projections and filters above each scan of files that is filtered, or has deleted rows. */
  private static LogicalPlan withCastsAbove(LogicalPlan plan) {
    boolean isFiltered = false;
    LogicalPlan leaf = plan;
    while (leaf instanceof Project || leaf instanceof Filter) {
      isFiltered |= leaf instanceof Filter;
      leaf = (LogicalPlan) leaf.children().apply(0);
    }
    if (!(leaf instanceof LogicalRelation)) return (LogicalPlan) plan.mapChildren(new CastsAbove(false));
    boolean isSelected = isFiltered || NativeScan.leavesRowsOut((LogicalRelation) leaf);
    return isSelected ? (LogicalPlan) new CastsAbove(true).apply(plan) : plan;
  }

  /**
   * Splits each extraction of a part of a variant that fails if the part cannot be cast: the scan extracts the part as a variant, which cannot fail, and the query casts it. The scan extracts
   * parts from all rows of a file, also from those that are deleted or that a filter leaves out, and the values of these rows must not fail the query.
   */
  private static final class CastsAbove extends AbstractFunction1 {
    private final boolean isFiltered; // whether the plans are above a filtered scan; otherwise such plans are searched for

    CastsAbove(boolean isFiltered) {
      this.isFiltered = isFiltered;
    }

    public Object apply(Object node) {
      if (node instanceof LogicalPlan) return isFiltered ? ((LogicalPlan) ((LogicalPlan) node).mapChildren(this)).mapExpressions(this) : withCastsAbove((LogicalPlan) node);
      Expression expression = (Expression) ((Expression) node).mapChildren(this);
      if (expression instanceof VariantGet && ((VariantGet) expression).failOnError()) {
        VariantGet part = (VariantGet) expression;
        if (!isColumn(part.child()) || isAlwaysCast(part.targetType())) return part;
        return new VariantGet(asVariant(part.child(), part.path(), part.timeZoneId()), whole(), part.targetType(), true, part.timeZoneId());
      }
      if (expression instanceof Cast && !((Cast) expression).evalMode().toString().equals("TRY")) {
        Cast cast = (Cast) expression;
        if (!isColumn(cast.child()) || !(cast.child().dataType() instanceof VariantType) || isAlwaysCast(cast.dataType())) return cast;
        return cast.withNewChildren(PythonUtils.toSeq(Collections.singletonList(asVariant(cast.child(), whole(), cast.timeZoneId()))));
      }
      return expression;
    }

    /** Returns whether every part of a variant can be cast to a type, so that the reader may cast it: as text, objects and lists are JSON. */
    private static boolean isAlwaysCast(DataType type) {
      return type instanceof VariantType || type == StringType$.MODULE$;
    }

    private static Expression asVariant(Expression variant, Expression path, Option zone) {
      return new VariantGet(variant, path, VariantType$.MODULE$, false, zone);
    }

    private static Expression whole() {
      return Literal$.MODULE$.apply("$");
    }

    private static boolean isColumn(Expression expression) {
      return expression instanceof Attribute || (expression instanceof GetStructField && isColumn(((GetStructField) expression).child()));
    }
  }
}
