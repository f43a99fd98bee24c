package icefloe;

import java.lang.reflect.Field;
import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** A rule for physical plans, which it does not change: it adds the metrics of planned files to the scans that read them. */
public final class MetricsRule extends Rule {
  public TreeNode apply(TreeNode plan) {
    add((SparkPlan) plan);
    return plan;
  }

  private static void add(SparkPlan plan) {
    PlannedFiles files = plan.children().isEmpty() ? filesOf(plan) : null;
    if (files != null) files.metrics().addTo(plan);
    Iterator children = plan.children().iterator();
    while (children.hasNext()) add((SparkPlan) children.next());
  }

  /** Returns the planned files that a node scans; null for any other node. Accelerators give the relation of Spark's scan to the node in its place. */
  private static PlannedFiles filesOf(SparkPlan plan) {
    for (int i = 0; i < plan.productArity(); i++) {
      Object part = plan.productElement(i);
      if (part instanceof HadoopFsRelation && ((HadoopFsRelation) part).location() instanceof PlannedFiles) return (PlannedFiles) ((HadoopFsRelation) part).location();
    }
    return null;
  }

  /** The rule in the form in which Spark has rules that run last, also on each stage of adaptive execution. */
  static final class Last extends ColumnarRule {
    public Rule postColumnarTransitions() {
      return new MetricsRule();
    }
  }

  /** Adds the rule to a running session, for which Spark has no interface, unless it is there already. Returns whether scans of the session have the metrics. */
  public static Boolean install(SessionState state) {
    if (!ScanMetrics.areSupported()) return Boolean.FALSE;
    ArrayList rules = new ArrayList();
    rules.add(new Last()); // Spark applies the first one last
    Iterator present = state.columnarRules().iterator();
    while (present.hasNext()) {
      Object rule = present.next();
      if (rule instanceof Last) return Boolean.TRUE;
      rules.add(rule);
    }
    try {
      Field field = SessionState.class.getDeclaredField("columnarRules");
      field.setAccessible(true);
      field.set(state, PythonUtils.toSeq(rules));
      return Boolean.TRUE;
    } catch (Exception error) {
      return Boolean.FALSE;
    }
  }
}
