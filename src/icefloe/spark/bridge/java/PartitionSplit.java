package icefloe;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/** A split: parts of data files of one group, with their values of the partition fields by which the scan is partitioned. Executors need this class. */
public final class PartitionSplit extends FilePartition implements HasPartitionKey {
  private final int group;
  private final InternalRow key;

  public PartitionSplit(int index, PartitionedFile[] files, int group, InternalRow key) {
    super(index, files);
    this.group = group;
    this.key = key;
  }

  /** Returns the number of the group of files. The files of a group are read by the same function. */
  int group() {
    return group;
  }

  public InternalRow partitionKey() {
    return key;
  }
}
