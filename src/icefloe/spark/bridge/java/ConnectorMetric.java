package icefloe;

import java.text.NumberFormat;
import java.util.Locale;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A metric of a node of Spark's connector that is known on the driver, with or without its value. The SQL tab creates it by its class to show the sum of the values. */
public final class ConnectorMetric implements CustomMetric, CustomTaskMetric {
  private final String name;
  private final String label;
  private final long value;

  /** Creates the object that Spark's SQL tab adds values up with. */
  public ConnectorMetric() {
    this("", "", 0L);
  }

  ConnectorMetric(String name, String label, long value) {
    this.name = name;
    this.label = label;
    this.value = value;
  }

  public String name() {
    return name;
  }

  public String description() {
    return label;
  }

  public long value() {
    return value;
  }

  public String aggregateTaskMetrics(long[] values) {
    long sum = 0L;
    for (int i = 0; i < values.length; i++) sum += values[i];
    return NumberFormat.getIntegerInstance(Locale.US).format(sum);
  }
}
