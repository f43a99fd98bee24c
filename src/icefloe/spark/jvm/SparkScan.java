package icefloe;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.StructType;

/** A scan that Python planned; `SparkRule` puts its rows in its place before Spark runs the query. */
final class SparkScan implements SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private final BiFunction python;
  private final StructType schema;
  private Map said; // rows, bytes, distinct, constant; asked for once
  private LogicalPlan rows;

  SparkScan(BiFunction python, StructType schema) {
    this.python = python;
    this.schema = schema;
  }

  public StructType readSchema() {
    return schema;
  }

  public String description() {
    return (String) Python.askJson(python, "description", "null");
  }

  /** The rows as a plan of Spark's own, its columns in the order of the schema; asked for once, however often Spark's plan has this scan. */
  synchronized LogicalPlan rows() {
    if (rows == null) rows = (LogicalPlan) Python.ask(python, "rows", "null");
    return rows;
  }

  public Statistics estimateStatistics() {
    return new Known(said());
  }

  /** The columns that have one value in each file: Spark's own scan, which comes in the place of this one, leaves out files by what a join finds of them. */
  public NamedReference[] filterAttributes() {
    List names = (List) said().get("constant");
    NamedReference[] found = new NamedReference[names == null ? 0 : names.size()];
    for (int i = 0; i < found.length; i++) found[i] = FieldReference.column((String) names.get(i));
    return found;
  }

  public void filter(Predicate[] predicates) {
    throw new IllegalStateException("a scan is replaced by its rows before it could be filtered");
  }

  /** The same scan, only of files that may have rows of which all these predicates, in JSON, are true. */
  public SparkScan narrowed(String predicates) {
    return new SparkScan((BiFunction) Python.ask(python, "narrowed", predicates), schema);
  }

  private synchronized Map said() {
    if (said == null) said = (Map) Python.askJson(python, "statistics", "null");
    return said;
  }

  private static OptionalLong number(Object found) {
    return found == null ? OptionalLong.empty() : OptionalLong.of(((Number) found).longValue());
  }

  private static final class Known implements Statistics {
    private final Map said; // rows, bytes, distinct: the number of distinct values by column

    Known(Map said) {
      this.said = said;
    }

    public OptionalLong sizeInBytes() {
      return number(said.get("bytes"));
    }

    public OptionalLong numRows() {
      return number(said.get("rows"));
    }

    public Map columnStats() {
      HashMap found = new HashMap();
      Iterator entries = ((Map) said.get("distinct")).entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        found.put(FieldReference.column((String) entry.getKey()), new Distinct(number(entry.getValue())));
      }
      return found;
    }
  }

  private static final class Distinct implements ColumnStatistics {
    private final OptionalLong count;

    Distinct(OptionalLong count) {
      this.count = count;
    }

    public OptionalLong distinctCount() {
      return count;
    }
  }
}
