package icefloe;

import java.util.BitSet;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Creates the splits, with partition keys, of a scan of planned files: of all files, or only of files that can match the values of a join. */
final class PartitionedBatch implements Batch {
  private final PartitionedFiles files;
  private final BitSet selected; // the numbers of the files to read; null for all files
  private InputPartition[] splits; // null until they are requested

  PartitionedBatch(PartitionedFiles files, BitSet selected) {
    this.files = files;
    this.selected = selected;
  }

  public synchronized InputPartition[] planInputPartitions() {
    if (splits == null) splits = files.splits(selected);
    return splits;
  }

  public PartitionReaderFactory createReaderFactory() {
    return files.readers();
  }

  /** Returns whether the other batch reads the same files in the same way, so that Spark recognizes equal parts of a plan. */
  public boolean equals(Object other) {
    if (!(other instanceof PartitionedBatch)) return false;
    PartitionedBatch batch = (PartitionedBatch) other;
    return files.isReadLike(batch.files) && (selected == null ? batch.selected == null : selected.equals(batch.selected));
  }

  public int hashCode() {
    return files.contentHash();
  }
}
