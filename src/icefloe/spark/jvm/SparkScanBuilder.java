package icefloe;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Gathers what a query needs of a table and hands it to Python at once. */
final class SparkScanBuilder implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownLimit, SupportsPushDownAggregates {
  private final SparkTable table;
  private final LinkedHashMap asked = new LinkedHashMap(); // options, operation, zone, filters, schema, limit, aggregation
  private Predicate[] pushed = new Predicate[0];
  private StructType schema;

  SparkScanBuilder(SparkTable table, CaseInsensitiveStringMap options, String operation) {
    this.table = table;
    this.schema = table.schema();
    asked.put("options", options.asCaseSensitiveMap());
    asked.put("operation", operation);
    asked.put("zone", SQLConf.get().sessionLocalTimeZone());
  }

  /** Those that Spark must test on every row; Python says of which it can vouch for every row. */
  public Predicate[] pushPredicates(Predicate[] predicates) {
    pushed = predicates;
    put("filters", predicates);
    List vouched = (List) Python.askJson(table.python, "filters", Python.json(asked));
    java.util.ArrayList left = new java.util.ArrayList();
    for (int i = 0; i < predicates.length; i++) if (!Boolean.TRUE.equals(vouched.get(i))) left.add(predicates[i]);
    return (Predicate[]) left.toArray(new Predicate[0]);
  }

  public Predicate[] pushedPredicates() {
    return pushed;
  }

  public void pruneColumns(StructType required) {
    schema = table.prunesNested() ? required : whole(required);
  }

  private StructType whole(StructType required) {
    StructType found = new StructType();
    for (int i = 0; i < required.length(); i++) found = found.add(table.schema().apply(required.apply(i).name()));
    return found;
  }

  public boolean pushLimit(int limit) {
    asked.put("limit", Integer.valueOf(limit));
    return false;
  }

  public boolean isPartiallyPushed() {
    return true;
  }

  public boolean supportCompletePushDown(Aggregation aggregation) {
    return aggregated(aggregation) != null;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    String found = aggregated(aggregation);
    if (found == null) return false;
    schema = (StructType) DataType.fromJson(found);
    put("aggregation", aggregation);
    return true;
  }

  /** The schema of the answer, in JSON; null where metadata does not know it. */
  private String aggregated(Aggregation aggregation) {
    LinkedHashMap all = new LinkedHashMap(asked);
    try {
      all.put("aggregation", Plain.of(aggregation));
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
    return (String) Python.askJson(table.python, "aggregate", Python.json(all));
  }

  public Scan build() {
    asked.put("schema", schema.json());
    return new SparkScan((BiFunction) Python.ask(table.python, "scan", Python.json(asked)), schema);
  }

  private void put(String name, Object value) {
    try {
      asked.put(name, Plain.of(value));
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
