package icefloe;

import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import scala.collection.Iterator;

/** Creates readers of the partitions of an RDD of rows, which depends on no shuffle. Executors need this class. */
public final class RowsReaders implements PartitionReaderFactory {
  private final RDD rows;

  RowsReaders(RDD rows) {
    this.rows = rows;
  }

  public PartitionReader createReader(InputPartition split) {
    return new Reader(rows.iterator(((RowsSplit) split).partition(), TaskContext.get()));
  }

  private static final class Reader implements PartitionReader {
    private final Iterator rows;
    private Object row;

    Reader(Iterator rows) {
      this.rows = rows;
    }

    public boolean next() {
      boolean has = rows.hasNext();
      row = has ? rows.next() : null;
      return has;
    }

    public Object get() {
      return row;
    }

    public void close() {
      // The rows end with the task.
    }
  }
}
