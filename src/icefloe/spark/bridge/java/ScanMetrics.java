package icefloe;

import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.Option;

/**
 * What Spark's SQL tab shows for a scan besides Spark's own metrics: numbers that are known before the query runs, such as the files that planning skipped. A scan of Spark's connector reports
 * them itself. To Spark's own scan of files, which has no interface for that, they are added as metrics of the driver, so that it stays the scan that accelerators know.
 */
final class ScanMetrics {
  private static final String COUNT = "sum", BYTES = "size", NANOSECONDS = "nsTiming"; // Spark's kinds of metrics
  private static final Field OF_DRIVER = field("driverMetrics");
  private static final Field OF_NODE = field("org$apache$spark$sql$execution$FileSourceScanLike$$scanMetrics");
  private static final int MOST_NODES = 256; // that have not been executed yet, as far as they are known
  private final List metrics; // of List: name, label, kind, value
  private final LinkedList nodes = new LinkedList(); // of Node
  private volatile boolean isKept; // whether an earlier statement has made the plan, so that planning takes no time

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

  /** Returns the nanoseconds that planning took; 0 where another scan of the query shows them. */
  long planningTime() {
    for (int i = 0; i < metrics.size() && !isKept; i++) if (((List) metrics.get(i)).get(2).equals(NANOSECONDS)) return value(metrics.get(i));
    return 0L;
  }

  /** Records that the plan serves another statement. */
  void keep() {
    isKept = true;
  }

  /** A node of a physical plan that has the metrics, with their values. */
  private static final class Node {
    final WeakReference scan; // FileSourceScanExec
    final long[] values;

    Node(FileSourceScanExec scan, long[] values) {
      this.scan = new WeakReference(scan);
      this.values = values;
    }
  }

  private static Field field(String name) {
    try {
      Field field = FileSourceScanExec.class.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (Exception error) {
      return null; // another version of Spark
    }
  }

  /** Returns whether metrics can be added to scans of this version of Spark. */
  static boolean areSupported() {
    return OF_DRIVER != null && OF_NODE != null;
  }

  /** Adds the metrics to a node of a physical plan, unless it has them. */
  void addTo(FileSourceScanExec scan) {
    if (metrics.isEmpty() || scan.driverMetrics().contains(((List) metrics.get(0)).get(0))) return;
    LinkedHashMap added = new LinkedHashMap();
    long[] values = new long[metrics.size()];
    for (int i = 0; i < values.length; i++) {
      List metric = (List) metrics.get(i);
      values[i] = metric.get(2).equals(NANOSECONDS) ? planningTime() : value(metric);
      // Tasks return a copy of each metric of the driver too, where generated code has the plan: below 0 it is no value.
      SQLMetric created = new SQLMetric((String) metric.get(2), metric.get(2).equals(COUNT) ? 0L : -1L);
      created.register(scan.sparkContext(), Option.apply(metric.get(1)), false);
      added.put(metric.get(0), created);
    }
    try {
      OF_DRIVER.set(scan, scan.driverMetrics().$plus$plus(PythonUtils.toScalaMap(added)));
      OF_NODE.set(scan, scan.metrics().$plus$plus(PythonUtils.toScalaMap(added)));
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
    synchronized (nodes) {
      nodes.add(new Node(scan, values));
      if (nodes.size() > MOST_NODES) nodes.removeFirst();
    }
  }

  /** Sets the values of the nodes, one of which is executed now and sends them: Spark has reset all metrics of its plan before. */
  void setValues() {
    synchronized (nodes) {
      Iterator each = nodes.iterator();
      while (each.hasNext()) {
        Node node = (Node) each.next();
        FileSourceScanExec scan = (FileSourceScanExec) node.scan.get();
        if (scan == null) each.remove();
        else for (int i = 0; i < node.values.length; i++) ((SQLMetric) scan.driverMetrics().apply(((List) metrics.get(i)).get(0))).set(node.values[i]);
      }
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
