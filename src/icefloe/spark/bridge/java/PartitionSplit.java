package icefloe;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/** A part of one data file, with the values of the partition fields by which the scan is grouped. Executors need this class. */
public final class PartitionSplit extends FilePartition implements HasPartitionKey {
  private final InternalRow key;

  public PartitionSplit(int index, PartitionedFile[] files, InternalRow key) {
    super(index, files);
    this.key = key;
  }

  public InternalRow partitionKey() {
    return key;
  }
}
