package icefloe;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTableSample;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's scan builder: it collects the filters, columns, limit, sample and aggregates that Spark pushes down. Python receives all that was collected so far in one message, whenever it must decide:
 * which filters Spark must evaluate, whether the metadata contains the values of aggregates, and at the end how the scan reads. A statement has a builder for every reference to a table.
 */
public final class SparkScanBuilder implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownLimit, SupportsPushDownAggregates, SupportsPushDownTableSample {
  private final PythonProxy source;
  private final Map query; // the message to Python: JSON values by the keys that `messages.py` defines
  private Predicate[] predicates = new Predicate[0];

  /** Creates a builder. `source` is the table or the row-level operation whose rows are read; `query` has the options of the read, and settings of the session. */
  SparkScanBuilder(PythonProxy source, Map query) {
    this.source = source;
    this.query = query;
  }

  public Predicate[] pushPredicates(Predicate[] pushed) {
    predicates = pushed;
    put("filters", pushed);
    List indexes = (List) PythonBridge.parsed((String) source.ofQuery("remaining_filters", query));
    Predicate[] remaining = new Predicate[indexes.size()];
    for (int i = 0; i < remaining.length; i++) remaining[i] = pushed[((Number) indexes.get(i)).intValue()];
    return remaining;
  }

  public Predicate[] pushedPredicates() {
    return predicates;
  }

  public void pruneColumns(StructType required) {
    query.put("schema", required.json());
  }

  /** Accepts a limit for planning. Spark must limit the rows too, because the scan may return more. */
  public boolean pushLimit(int limit) {
    query.put("limit", Integer.valueOf(limit));
    return false;
  }

  /** Refuses a sample of single rows. Spark takes it from the rows of the scan. */
  public boolean pushTableSample(double lower, double upper, boolean withReplacement, long seed) {
    return false;
  }

  //4.2 /** Accepts a sample of files, for TABLESAMPLE SYSTEM, where the source is a table whose scans can read one. */
  //4.2 public boolean pushTableSample(double lower, double upper, boolean withReplacement, long seed, org.apache.spark.sql.connector.read.SampleMethod method) {
  //4.2   return method == org.apache.spark.sql.connector.read.SampleMethod.SYSTEM && !withReplacement && sample(lower, upper, seed);
  //4.2 }

  private boolean sample(double lower, double upper, long seed) {
    if (!Boolean.TRUE.equals(source.described("samplesFiles"))) return false;
    LinkedHashMap sample = new LinkedHashMap();
    sample.put("lower", Double.valueOf(lower));
    sample.put("upper", Double.valueOf(upper));
    sample.put("seed", Long.valueOf(seed));
    query.put("sample", sample);
    return true;
  }

  public boolean supportCompletePushDown(Aggregation aggregation) {
    return schemaOf(aggregation) != null;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    Object schema = schemaOf(aggregation);
    if (schema == null) return false;
    put("aggregation", aggregation);
    query.put("schema", schema);
    return true;
  }

  public Scan build() {
    if (isBuiltForStream(new Throwable().getStackTrace())) query.put("is_stream", Boolean.TRUE);
    return (Scan) source.ofQuery("build_scan", query);
  }

  /** Returns whether a streaming query calls `build`. Spark does not pass that to a builder, and a stream's scan plans no files. */
  private static boolean isBuiltForStream(StackTraceElement[] callers) {
    return callers.length > 1 && callers[1].getClassName().startsWith("org.apache.spark.sql.execution.streaming.");
  }

  /** Returns the schema of the aggregates if the table's metadata contains their values; otherwise null. */
  private Object schemaOf(Aggregation aggregation) {
    Object before = query.get("aggregation");
    put("aggregation", aggregation);
    try {
      return PythonBridge.parsed((String) source.ofQuery("aggregate_schema", query));
    } finally {
      query.remove("aggregation");
      if (before != null) query.put("aggregation", before);
    }
  }

  private void put(String key, Object value) {
    try {
      query.put(key, ConnectorJson.of(value));
    } catch (Exception error) {
      throw PythonBridge.unchecked(error);
    }
  }
}
