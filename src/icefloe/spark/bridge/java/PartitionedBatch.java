package icefloe;

import java.util.BitSet;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** The splits of planned files that have partition keys: of all files, or of those that the values of a join leave. */
final class PartitionedBatch implements Batch {
  private final PartitionedFiles files;
  private final BitSet selected; // numbers of files; null for all
  private InputPartition[] splits; // null before they are needed

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

  /** Compares the files and how they are read, so that Spark finds equal parts of a plan. */
  public boolean equals(Object other) {
    if (!(other instanceof PartitionedBatch)) return false;
    PartitionedBatch batch = (PartitionedBatch) other;
    return files.isReadLike(batch.files) && (selected == null ? batch.selected == null : selected.equals(batch.selected));
  }

  public int hashCode() {
    return files.contentHash();
  }
}
