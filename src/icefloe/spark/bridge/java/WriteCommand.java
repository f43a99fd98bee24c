package icefloe;

import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's command node for a statement that Icefloe runs and that writes rows: the node has the counts of the write in Spark's SQL tab. */
public class WriteCommand extends SaveIntoDataSourceCommand {
  private transient Map metrics; // null before Spark plans the command

  /** Spark copies a plan by its constructor with all parts. */
  public WriteCommand(LogicalPlan query, CreatableRelationProvider statement, Map options, SaveMode mode) {
    super(query, statement, options, mode);
  }

  public final Map metrics() {
    if (metrics == null) metrics = WriteMetrics.created();
    return metrics;
  }

  public Seq run(SparkSession session) {
    Seq rows = super.run(session);
    showMetrics(session, WriteMetrics.counts());
    return rows;
  }

  /** Sends the counts of a write to the SQL tab; null if it wrote nothing. */
  final void showMetrics(SparkSession session, java.util.Map counts) {
    WriteMetrics.show(session.sparkContext(), metrics(), counts);
  }

  public String nodeName() {
    return ((SparkCommand) dataSource()).nodeName();
  }

  public LogicalPlan clone() {
    return new WriteCommand((LogicalPlan) query().clone(), dataSource(), options(), mode());
  }
}
