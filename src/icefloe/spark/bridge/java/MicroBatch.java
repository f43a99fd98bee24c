package icefloe;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** The planned files of one batch of a stream, for one reference to the stream in a query. It has the splits and readers of the same scan in a query that is no stream. */
final class MicroBatch implements MicroBatchStream {
  private final TableStream stream;
  private final Batch batch;

  MicroBatch(TableStream stream, Batch batch) {
    this.stream = stream;
    this.batch = batch;
  }

  TableStream stream() {
    return stream;
  }

  /** Returns the relation of a batch whose rows Python reads, with the attributes `columns` of the stream's relation. */
  static LogicalPlan ofPython(Dataset rows, StreamingDataSourceV2ScanRelation relation, TableStream stream, Seq columns) {
    QueryExecution execution = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution();
    LogicalPlan plan = execution.analyzed();
    boolean returnsBatches = plan instanceof DataSourceV2Relation && ((DataSourceV2Relation) plan).table() instanceof PythonFiles;
    Object scan = returnsBatches ? ((DataSourceV2Relation) plan).table() : new Rows(execution.toRdd(), rows.schema());
    return relation(relation, (Scan) scan, new MicroBatch(stream, (Batch) scan), columns);
  }

  /** Returns a copy of a stream's relation with another scan, stream and output. */
  static LogicalPlan relation(StreamingDataSourceV2ScanRelation relation, Scan scan, MicroBatch batch, Seq output) {
    Object[] parts = new Object[relation.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = relation.productElement(i);
      if (parts[i] == relation.scan()) parts[i] = scan;
      else if (parts[i] == relation.output()) parts[i] = output;
      else if (parts[i] == relation.stream()) parts[i] = batch;
    }
    return (LogicalPlan) relation.makeCopy(parts);
  }

  /** Rows that Spark computes in the tasks of another plan, which has no shuffle: its partitions are the splits. */
  private static final class Rows implements Scan, Batch {
    private final RDD rows;
    private final StructType columns;

    Rows(RDD rows, StructType columns) {
      this.rows = rows;
      this.columns = columns;
    }

    public StructType readSchema() {
      return columns;
    }

    public Batch toBatch() {
      return this;
    }

    public InputPartition[] planInputPartitions() {
      InputPartition[] splits = new InputPartition[rows.partitions().length];
      for (int i = 0; i < splits.length; i++) splits[i] = new RowsSplit(rows.partitions()[i]);
      return splits;
    }

    public PartitionReaderFactory createReaderFactory() {
      return new RowsReaders(rows);
    }
  }

  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return batch.planInputPartitions();
  }

  public PartitionReaderFactory createReaderFactory() {
    return batch.createReaderFactory();
  }

  public Offset latestOffset() {
    return stream.latestOffset();
  }

  public Offset initialOffset() {
    return stream.initialOffset();
  }

  public Offset deserializeOffset(String json) {
    return stream.deserializeOffset(json);
  }

  public void commit(Offset end) {}

  public void stop() {}

  /** Returns whether the other object is the stream, or reads the same files in the same way: Spark reads equal scans of a plan only once. */
  public boolean equals(Object other) {
    return other == stream || (other instanceof MicroBatch && ((MicroBatch) other).stream == stream && ((MicroBatch) other).batch.equals(batch));
  }

  public int hashCode() {
    return stream.hashCode();
  }

  public String toString() {
    return stream.toString();
  }
}
