package icefloe;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Sends the values of metrics that are known before a query runs to Spark's SQL tab, once the tab has the plan with the metrics. Spark ignores values that arrive before, and nodes of accelerators
 * call nothing of Icefloe after that.
 */
final class MetricsListener extends SparkListener {
  private static final int MOST_VALUES = 8192; // of plans that may not run, such as explained ones
  private static final Set CONTEXTS = Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap())); // that have a listener
  private static final Map VALUES = Collections.synchronizedMap(new LinkedHashMap()); // by the ids of accumulators, until they are sent

  private final SparkContext context;

  private MetricsListener(SparkContext context) {
    this.context = context;
  }

  /** Keeps the value of a metric until a plan that has the metric runs. */
  static void keep(long id, long value) {
    synchronized (VALUES) {
      VALUES.put(Long.valueOf(id), Long.valueOf(value));
      if (VALUES.size() > MOST_VALUES) VALUES.remove(VALUES.keySet().iterator().next());
    }
  }

  /** Adds a listener to an application, unless it has one. */
  static void install(SparkContext context) {
    if (CONTEXTS.add(context)) context.addSparkListener(new MetricsListener(context));
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart) {
      send(((SparkListenerSQLExecutionStart) event).executionId(), ((SparkListenerSQLExecutionStart) event).sparkPlanInfo());
    } else if (event instanceof SparkListenerSQLAdaptiveExecutionUpdate) {
      send(((SparkListenerSQLAdaptiveExecutionUpdate) event).executionId(), ((SparkListenerSQLAdaptiveExecutionUpdate) event).sparkPlanInfo());
    }
  }

  private void send(long execution, SparkPlanInfo plan) {
    ArrayList known = new ArrayList(); // of Tuple2: id, value
    addKnown(plan, known);
    if (!known.isEmpty()) SQLMetrics$.MODULE$.postDriverMetricsUpdatedByValue(context, String.valueOf(execution), PythonUtils.toSeq(known));
  }

  private static void addKnown(SparkPlanInfo plan, ArrayList known) {
    Iterator metrics = plan.metrics().iterator();
    while (metrics.hasNext()) {
      Long id = Long.valueOf(((SQLMetricInfo) metrics.next()).accumulatorId());
      Object value = VALUES.remove(id);
      if (value != null) known.add(new Tuple2(id, value));
    }
    Iterator children = plan.children().iterator();
    while (children.hasNext()) addKnown((SparkPlanInfo) children.next(), known);
  }
}
