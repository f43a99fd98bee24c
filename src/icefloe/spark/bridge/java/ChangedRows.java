package icefloe;

import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.QueryExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;

/**
 * The rows of a batch of a stream that a query of its own computes, which may have any operators: the changes of snapshots, whose rows are compared with each other. Within the plan of the stream
 * these operators would be those of a stream, which Spark plans with state, or refuses. `ChangedRowsExec` returns the rows to the stream.
 */
public final class ChangedRows implements Scan, Batch {
  private final Dataset rows;
  private final int partitions; // the most partitions of a shuffle
  private final String description;
  private SparkPlan plan; // null before it is needed

  public ChangedRows(Dataset rows, Number partitions, String description) {
    this.rows = rows;
    this.partitions = partitions.intValue();
    this.description = description;
  }

  public StructType readSchema() {
    return rows.schema();
  }

  public String description() {
    return description;
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.UNSUPPORTED;
  }

  public Batch toBatch() {
    return this;
  }

  public InputPartition[] planInputPartitions() {
    return new InputPartition[0]; // the rows have partitions only when they are computed
  }

  public PartitionReaderFactory createReaderFactory() {
    throw new IllegalStateException("this session plans changes without the strategy that computes them\n  Next: attach the catalog in the session that runs the stream");
  }

  private QueryExecution execution() {
    return ((org.apache.spark.sql.classic.Dataset) rows).queryExecution();
  }

  /** Returns a stream's relation with these rows, whose columns are the attributes `columns` of the relation. */
  LogicalPlan planFor(StreamingDataSourceV2ScanRelation relation, TableStream stream, Seq columns) {
    return MicroBatch.relation(relation, this, new MicroBatch(stream, this), columns);
  }

  /** Returns the rows without rows for which a comparison in a condition is false. The condition refers to the attributes `columns`, in the order of the columns of the rows. */
  ChangedRows where(Expression condition, Seq columns) {
    LogicalPlan all = execution().analyzed();
    HashMap own = new HashMap();
    for (int i = 0; i < columns.size(); i++) own.put(((Attribute) columns.apply(i)).exprId(), all.output().apply(i));
    ArrayList comparisons = new ArrayList();
    addComparisons(condition, comparisons);
    Expression kept = null;
    for (int i = 0; i < comparisons.size(); i++) {
      Expression comparison = (Expression) new Own(own).apply(comparisons.get(i));
      kept = kept == null ? comparison : new And(kept, comparison);
    }
    if (kept == null) return this;
    Dataset filtered = org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows((org.apache.spark.sql.classic.SparkSession) rows.sparkSession(), new Filter(kept, all));
    return new ChangedRows(filtered, Integer.valueOf(partitions), description);
  }

  /** Adds the parts of a condition that are comparisons of columns, as readers of files evaluate them. */
  private static void addComparisons(Expression condition, ArrayList comparisons) {
    if (condition instanceof And) {
      addComparisons(((And) condition).left(), comparisons);
      addComparisons(((And) condition).right(), comparisons);
    } else if (condition.deterministic() && !SubqueryExpression$.MODULE$.hasSubquery(condition)) {
      if (DataSourceStrategy$.MODULE$.translateFilter(condition, true).isDefined()) comparisons.add(condition);
    }
  }

  /** Replaces the attributes of an expression by the attributes that a map has for their ids. */
  private static final class Own extends AbstractFunction1 {
    private final HashMap attributes;

    Own(HashMap attributes) {
      this.attributes = attributes;
    }

    public Object apply(Object node) {
      return node instanceof Attribute ? attributes.get(((Attribute) node).exprId()) : ((Expression) node).mapChildren(this);
    }
  }

  /**
   * Returns the plan that computes the rows. It has no adaptive execution, which would run jobs while the stream is planned, but only as many partitions as the rows need. Spark prepares it as it
   * prepares the plans of subqueries: whether the plan of a query is adaptive depends on the settings of its session alone, and not on those here.
   */
  synchronized SparkPlan plan() {
    if (plan != null) return plan;
    final QueryExecution execution = execution();
    SQLConf settings = execution.sparkSession().sessionState().conf().clone();
    settings.setConfString("spark.sql.shuffle.partitions", String.valueOf(Math.min(partitions, settings.numShufflePartitions())));
    plan =
        (SparkPlan)
            SQLConf$.MODULE$.withExistingConf(
                settings,
                new AbstractFunction0() {
                  public Object apply() {
                    return QueryExecution$.MODULE$.prepareExecutedPlan(execution.sparkSession(), execution.optimizedPlan());
                  }
                });
    return plan;
  }

  /** Returns the rows. Their shuffles are stages of the job that reads them. */
  RDD computed() {
    return plan().execute();
  }
}
