package icefloe;

import java.util.function.BiFunction;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A table that nobody sees yet: rows are written, and one commit creates or replaces it together with them. */
public final class SparkStagedTable extends SparkTable implements StagedTable {
  public SparkStagedTable(BiFunction python) {
    super(python);
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  public void commitStagedChanges() {
    Python.ask(python, "commit_staged", "null");
  }

  public void abortStagedChanges() {
    Python.ask(python, "abort_staged", "null");
  }
}
