package icefloe;

import java.util.Arrays;
import java.util.LinkedHashMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
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

  /** Whether a plan appends rows that Icefloe writes: an INSERT, or a MERGE that only inserts, which is a class of its own since Spark 4.3. */
  static boolean appends(LogicalPlan plan) {
    return (plan.nodeName().equals("AppendData") || plan.nodeName().equals("InsertOnlyMerge")) && of(plan) != null;
  }

  /** What writes the rows of a plan; null where that is not Icefloe. */
  static SparkWriteBuilder of(LogicalPlan plan) {
    for (int i = 0; i < plan.productArity(); i++) {
      Object part = plan.productElement(i);
      if (part instanceof Option && ((Option) part).isDefined() && ((Option) part).get() instanceof SparkWriteBuilder) return (SparkWriteBuilder) ((Option) part).get();
    }
    return null;
  }

  /** Writes the rows of a query of a session, which Python may compute otherwise. */
  void run(Object session, LogicalPlan query) {
    Python.ask(table.python, "write_query", Arrays.asList(new Object[] {Python.json(asked), session, query}));
  }

  public InsertableRelation toInsertableRelation() {
    return this;
  }

  public void insert(Dataset rows, boolean overwrite) {
    Python.ask(table.python, "write", Arrays.asList(new Object[] {Python.json(asked), rows}));
  }

  public String toString() {
    return table.name();
  }
}
