package icefloe;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetric;
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
  private static final Set CONTEXTS = Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap())); // that have a listener
  private static final Map VALUES = new ConcurrentHashMap(); // of class Value, by the ids of accumulators
  private static final ReferenceQueue UNREACHABLE = new ReferenceQueue(); // values whose metrics no plan has any more

  private final SparkContext context;

  private MetricsListener(SparkContext context) {
    this.context = context;
  }

  /** The value of a metric. It is kept as long as the metric, which is part of a plan: the plan may run several times, or never. The end of a query, which Spark sends last, has its plan. */
  private static final class Value extends WeakReference {
    final Long id;
    long number;
    long sentTo = -1L; // the query to which it was sent last

    Value(SQLMetric metric, long number) {
      super(metric, UNREACHABLE);
      this.id = Long.valueOf(metric.id());
      this.number = number;
    }
  }

  /** Keeps the value of a metric, which is sent once for each query that runs a plan with the metric. */
  static void keep(SQLMetric metric, long number) {
    for (Value old = (Value) UNREACHABLE.poll(); old != null; old = (Value) UNREACHABLE.poll()) VALUES.remove(old.id);
    Value value = new Value(metric, number);
    VALUES.put(value.id, value);
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
      Value value = (Value) VALUES.get(Long.valueOf(metric.accumulatorId()));
      if (value == null || value.sentTo == execution) continue; // adaptive execution sends a plan several times, and Spark would add the values up
      known.add(new Tuple2(value.id, Long.valueOf(value.number)));
      value.sentTo = execution;
      if (metric.metricType().equals(ScanMetrics.NANOSECONDS)) value.number = 0L; // a plan that runs again is not planned again
    }
    Iterator children = plan.children().iterator();
    while (children.hasNext()) addKnown(execution, (SparkPlanInfo) children.next(), known);
  }
}
