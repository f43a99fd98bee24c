package icefloe;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/**
 * What Spark's SQL tab shows for a scan besides Spark's own metrics: numbers that are known before the query runs, such as the files that planning skipped. A scan of Spark's connector reports
 * them itself. To Spark's own scan of files, which has no interface for that, they are added here, so that it stays the scan that accelerators know; `MetricsListener` sends their values.
 */
final class ScanMetrics {
  static final String COUNT = "sum", BYTES = "size", NANOSECONDS = "nsTiming"; // Spark's kinds of metrics
  private static final Field OF_SCAN = field(FileSourceScanExec.class, "org$apache$spark$sql$execution$FileSourceScanLike$$scanMetrics");
  private static final Field AT_DRIVER = field(AccumulatorV2.class, "atDriverSide");
  private final List metrics; // of List: name, label, kind, value
  private final AtomicBoolean isTimeShown = new AtomicBoolean(); // whether a node shows the time of planning: other nodes of the plan, and later statements, which use it again, show 0
  private final AtomicBoolean isTimeCounted = new AtomicBoolean(); // whether Spark has counted that time as metadata time

  private ScanMetrics(List metrics) {
    this.metrics = metrics;
  }

  /** Returns the metrics of a JSON text. */
  static ScanMetrics of(String json) {
    return new ScanMetrics((List) PythonBridge.parsed(json));
  }

  /** Returns the metrics of a scan of Spark's connector that Spark's own scan of files has anyway: the files that it reads, after those that a join has left out. */
  static ScanMetrics ofFiles(long files, long bytes, long skipped) {
    ArrayList metrics = new ArrayList();
    metrics.add(Arrays.asList(new Object[] {"files-read", "number of files read", COUNT, Long.valueOf(files)}));
    metrics.add(Arrays.asList(new Object[] {"bytes-read", "size of files read", BYTES, Long.valueOf(bytes)}));
    metrics.add(Arrays.asList(new Object[] {"skipped-by-join", "number of data files skipped by a join", COUNT, Long.valueOf(skipped)}));
    return new ScanMetrics(metrics);
  }

  /** Returns the metrics of several scans that Spark reads as one: each with the sum of its values. */
  static ScanMetrics sum(List scans) {
    LinkedHashMap sums = new LinkedHashMap(); // List by name
    for (int i = 0; i < scans.size(); i++) {
      for (int j = 0; j < ((ScanMetrics) scans.get(i)).metrics.size(); j++) {
        ArrayList metric = new ArrayList((List) ((ScanMetrics) scans.get(i)).metrics.get(j));
        List before = (List) sums.put(metric.get(0), metric);
        if (before != null) metric.set(3, Long.valueOf(value(before) + value(metric)));
      }
    }
    return new ScanMetrics(new ArrayList(sums.values()));
  }

  private static long value(Object metric) {
    return ((Number) ((List) metric).get(3)).longValue();
  }

  /** Returns the nanoseconds that planning took, for Spark's metadata time; 0 where a scan has them already. */
  long metadataTime() {
    for (int i = 0; i < metrics.size(); i++) if (((List) metrics.get(i)).get(2).equals(NANOSECONDS)) return isTimeCounted.getAndSet(true) ? 0L : value(metrics.get(i));
    return 0L;
  }

  private static Field field(Class owner, String name) {
    try {
      Field field = owner.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (Exception error) {
      return null; // another version of Spark or of an accelerator
    }
  }

  /** Returns whether metrics can be added to scans of this version of Spark. */
  static boolean areSupported() {
    return OF_SCAN != null;
  }

  /** Adds the metrics to a node of a physical plan, unless it has them: to Spark's scan of files, or to the node by which an accelerator replaces it, if that node keeps its metrics as nodes of Spark do. */
  void addTo(SparkPlan node) {
    Field ofNode = node instanceof FileSourceScanExec ? OF_SCAN : field(node.getClass(), "metrics");
    if (ofNode == null || metrics.isEmpty() || node.metrics().contains(((List) metrics.get(0)).get(0))) return;
    LinkedHashMap added = new LinkedHashMap();
    for (int i = 0; i < metrics.size(); i++) {
      List metric = (List) metrics.get(i);
      // Tasks receive each metric too, where generated code has the plan: below 0 it is no value.
      SQLMetric created = new SQLMetric((String) metric.get(2), metric.get(2).equals(COUNT) ? 0L : -1L);
      created.register(node.sparkContext(), Option.apply(metric.get(1)), false);
      keepFromTasks(created);
      added.put(metric.get(0), created);
      MetricsListener.keep(created, metric.get(2).equals(NANOSECONDS) && isTimeShown.getAndSet(true) ? 0L : value(metric));
    }
    try {
      ofNode.set(node, node.metrics().$plus$plus(PythonUtils.toScalaMap(added)));
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
    MetricsListener.install(node.sparkContext());
  }

  /** Keeps a metric out of what tasks return: in its form within a task, Java's serialization sends the metric as an object like any other. */
  private static void keepFromTasks(SQLMetric metric) {
    try {
      if (AT_DRIVER != null) AT_DRIVER.setBoolean(metric, false);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Returns the metrics in the form of Spark's connector, whose values are plain numbers: the label has the unit. */
  private ConnectorMetric[] ofConnector() {
    ConnectorMetric[] values = new ConnectorMetric[metrics.size()];
    for (int i = 0; i < values.length; i++) {
      List metric = (List) metrics.get(i);
      boolean isTime = metric.get(2).equals(NANOSECONDS);
      String unit = isTime ? " (ms)" : metric.get(2).equals(BYTES) ? " (bytes)" : "";
      values[i] = new ConnectorMetric((String) metric.get(0), metric.get(1) + unit, isTime ? value(metric) / 1000000L : value(metric));
    }
    return values;
  }

  CustomMetric[] supported() {
    return (CustomMetric[]) ofConnector();
  }

  CustomTaskMetric[] reported() {
    return (CustomTaskMetric[]) ofConnector();
  }
}
