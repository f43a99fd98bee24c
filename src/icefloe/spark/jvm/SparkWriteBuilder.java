package icefloe;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;
import scala.Option;

/** Which rows the written ones replace, and the write itself: the rows go to Python as a Dataset. */
final class SparkWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite, V1Write, InsertableRelation {
  private final SparkTable table;
  private final LinkedHashMap asked = new LinkedHashMap(); // options, mode, filters

  SparkWriteBuilder(SparkTable table, LogicalWriteInfo info) {
    this.table = table;
    asked.put("options", info.options().asCaseSensitiveMap());
    asked.put("mode", "append");
  }

  public boolean canOverwrite(Predicate[] predicates) {
    return Boolean.TRUE.equals(Python.askJson(table.python, "can_delete", Plain.json(predicates)));
  }

  public WriteBuilder overwrite(Predicate[] predicates) {
    asked.put("mode", "overwrite");
    asked.put("filters", Python.parsed(Plain.json(predicates)));
    return this;
  }

  public WriteBuilder truncate() {
    return overwrite(new Predicate[0]);
  }

  public WriteBuilder overwriteDynamicPartitions() {
    asked.put("mode", "overwrite partitions");
    return this;
  }

  public Write build() {
    return this;
  }

  /** What appends the rows of a plan: of an INSERT, or of a MERGE that only inserts, which is a class of its own since Spark 4.3. Null: it is no such plan. */
  static SparkWriteBuilder appends(LogicalPlan plan) {
    if (!plan.nodeName().equals("AppendData") && !plan.nodeName().equals("InsertOnlyMerge")) return null;
    for (int i = 0; i < plan.productArity(); i++) {
      Object part = plan.productElement(i);
      if (part instanceof Option && ((Option) part).isDefined() && ((Option) part).get() instanceof SparkWriteBuilder) return (SparkWriteBuilder) ((Option) part).get();
    }
    return null;
  }

  /** The query by which rows to append are computed, as Spark planned it or better. */
  LogicalPlan planned(SparkSession session, LogicalPlan query) {
    return GatheredSource.in(session, table, query, true);
  }

  public InsertableRelation toInsertableRelation() {
    return this;
  }

  public void insert(Dataset rows, boolean overwrite) {
    ArrayList argument = new ArrayList(2);
    argument.add(Python.json(asked));
    argument.add(rows);
    Python.ask(table.python, "write", argument);
  }

  public String toString() {
    return table.name();
  }
}
