package icefloe;

import org.apache.spark.Partition;
import org.apache.spark.sql.connector.read.InputPartition;

/** A partition of an RDD as a split. Executors need this class. */
public final class RowsSplit implements InputPartition {
  private final Partition partition;

  RowsSplit(Partition partition) {
    this.partition = partition;
  }

  Partition partition() {
    return partition;
  }
}
