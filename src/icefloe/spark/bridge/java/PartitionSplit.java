package icefloe;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/** Parts of data files of one group, with the values of the partition fields by which the scan is grouped. Executors need this class. */
public final class PartitionSplit extends FilePartition implements HasPartitionKey {
  private final int group;
  private final InternalRow key;

  public PartitionSplit(int index, PartitionedFile[] files, int group, InternalRow key) {
    super(index, files);
    this.group = group;
    this.key = key;
  }

  /** Returns the number of the group of files, which are read alike. */
  int group() {
    return group;
  }

  public InternalRow partitionKey() {
    return key;
  }
}
