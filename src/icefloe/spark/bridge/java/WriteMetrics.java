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
  static final String RUNS = "statement_runs"; // how often a statement ran, in the counts of one that ran again
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
    {RUNS, "number of statement runs", "sum"},
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

  /** Sends the counts of a write to the SQL tab; null if it wrote nothing. */
  static void show(SparkContext context, scala.collection.immutable.Map metrics, Map counts) {
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

  private static ConnectorMetric ofConnector(String[] metric, Number value) {
    String unit = metric[2].equals("timing") ? " (ms)" : metric[2].equals("size") ? " (bytes)" : "";
    return new ConnectorMetric(metric[0], metric[1] + unit, value.longValue());
  }

  /** Returns the metrics of a write that Spark runs itself, without those that never have a value: Spark 4.0 and 4.1 show them as 0. `isCommittedLater` is whether a transaction commits the write. */
  static CustomMetric[] supported(boolean isCommittedLater) {
    ArrayList metrics = new ArrayList();
    for (int i = 0; i < METRICS.length; i++) {
      boolean hasValue = !METRICS[i][0].equals(RUNS) && !(isCommittedLater && METRICS[i][0].startsWith("commit_"));
      if (hasValue) metrics.add(ofConnector(METRICS[i], Long.valueOf(0L)));
    }
    return (CustomMetric[]) metrics.toArray(new ConnectorMetric[0]);
  }

  /** Returns the counts of the last write as values of these metrics. */
  static CustomTaskMetric[] reported() {
    Map counts = counts();
    ArrayList metrics = new ArrayList();
    for (int i = 0; i < METRICS.length; i++) {
      Number value = count(counts, METRICS[i][0]);
      if (value != null) metrics.add(ofConnector(METRICS[i], value));
    }
    return (CustomTaskMetric[]) metrics.toArray(new ConnectorMetric[0]);
  }
}
