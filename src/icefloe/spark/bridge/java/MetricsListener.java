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
  private static final int MOST_VALUES = 8192; // of the newest plans, each of which may run several times, or never
  private static final Set CONTEXTS = Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap())); // that have a listener
  private static final Map VALUES = Collections.synchronizedMap(new LinkedHashMap()); // by the ids of accumulators: long[] of the value and of the query to which it was sent last

  private final SparkContext context;

  private MetricsListener(SparkContext context) {
    this.context = context;
  }

  /** Keeps the value of a metric, which is sent once for each query that runs a plan with the metric. */
  static void keep(long id, long value) {
    synchronized (VALUES) {
      VALUES.put(Long.valueOf(id), new long[] {value, -1L});
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
    addKnown(execution, plan, known);
    if (!known.isEmpty()) SQLMetrics$.MODULE$.postDriverMetricsUpdatedByValue(context, String.valueOf(execution), PythonUtils.toSeq(known));
  }

  private static void addKnown(long execution, SparkPlanInfo plan, ArrayList known) {
    Iterator metrics = plan.metrics().iterator();
    while (metrics.hasNext()) {
      SQLMetricInfo metric = (SQLMetricInfo) metrics.next();
      Long id = Long.valueOf(metric.accumulatorId());
      long[] value = (long[]) VALUES.get(id);
      if (value == null || value[1] == execution) continue; // adaptive execution sends a plan several times, and Spark would add the values up
      known.add(new Tuple2(id, Long.valueOf(value[0])));
      value[1] = execution;
      if (metric.metricType().equals(ScanMetrics.NANOSECONDS)) value[0] = 0L; // a plan that runs again is not planned again
    }
    Iterator children = plan.children().iterator();
    while (children.hasNext()) addKnown(execution, (SparkPlanInfo) children.next(), known);
  }
}
