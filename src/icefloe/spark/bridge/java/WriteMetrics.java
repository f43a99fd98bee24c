package icefloe;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import scala.Option;

/** What Spark's SQL tab shows for a write: the counts that Python returns after the commit. They are those of the last write of a thread, which also runs the statement around it. */
final class WriteMetrics {
  private static final ThreadLocal REPORT = new ThreadLocal(); // JSON
  // The names of counts, their labels, and Spark's kinds of metrics.
  private static final String[][] METRICS = {
    {"num_inserted_rows", "number of inserted rows", "sum"},
    {"num_updated_rows", "number of updated rows", "sum"},
    {"num_deleted_rows", "number of deleted rows", "sum"},
    {"num_added_files", "number of added data files", "sum"},
    {"num_removed_files", "number of removed data files", "sum"},
    {"num_added_delete_files", "number of added delete files", "sum"},
    {"added_bytes", "total size of added files", "size"},
    {"commit_attempts", "number of commit attempts", "sum"},
    {"commit_ms", "total commit duration", "timing"},
  };

  /** Records the counts of a write as JSON; null before a write, and where it wrote nothing. */
  static void report(Object counts) {
    REPORT.set(counts);
  }

  /** Returns the counts of the last write; null where it wrote nothing. */
  static Map counts() {
    return (Map) PythonBridge.parsed((String) REPORT.get());
  }

  private static Number count(Map counts, String name) {
    return counts == null ? null : (Number) counts.get(name); // null where deletes by equality make it unknown
  }

  /** Returns new metrics of a command, by name. */
  static scala.collection.immutable.Map created() {
    LinkedHashMap created = new LinkedHashMap();
    for (int i = 0; i < METRICS.length; i++) {
      SQLMetric metric = new SQLMetric(METRICS[i][2], 0L);
      metric.register(SparkContext.getOrCreate(), Option.apply(METRICS[i][1]), false);
      created.put(METRICS[i][0], metric);
    }
    return PythonUtils.toScalaMap(created);
  }

  /** Sends the counts of the last write to the SQL tab. */
  static void show(SparkContext context, scala.collection.immutable.Map metrics) {
    Map counts = counts();
    ArrayList known = new ArrayList();
    for (int i = 0; i < METRICS.length; i++) {
      Number value = count(counts, METRICS[i][0]);
      if (value == null) continue;
      SQLMetric metric = (SQLMetric) metrics.apply(METRICS[i][0]);
      metric.set(value.longValue());
      known.add(metric);
    }
    SQLMetrics$.MODULE$.postDriverMetricUpdates(context, context.getLocalProperty(SQLExecution$.MODULE$.EXECUTION_ID_KEY()), PythonUtils.toSeq(known));
  }

  private static ConnectorMetric[] ofConnector(Map counts, boolean needsValue) {
    ArrayList metrics = new ArrayList();
    for (int i = 0; i < METRICS.length; i++) {
      Number value = count(counts, METRICS[i][0]);
      String unit = METRICS[i][2].equals("timing") ? " (ms)" : METRICS[i][2].equals("size") ? " (bytes)" : "";
      if (!needsValue || value != null) metrics.add(new ConnectorMetric(METRICS[i][0], METRICS[i][1] + unit, value == null ? 0L : value.longValue()));
    }
    return (ConnectorMetric[]) metrics.toArray(new ConnectorMetric[0]);
  }

  /** Returns the metrics of a write that Spark runs itself. */
  static CustomMetric[] supported() {
    return (CustomMetric[]) ofConnector(null, false);
  }

  /** Returns the counts of the last write as values of these metrics. */
  static CustomTaskMetric[] reported() {
    return (CustomTaskMetric[]) ofConnector(counts(), true);
  }
}
