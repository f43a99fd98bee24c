package icefloe;

import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2$;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction0;

/** Reads the files of a split one after another, as rows or batches. It puts the columns in the order of the scan. */
final class SplitReader implements PartitionReader {
  private final Function1 read; // returns the rows or batches of a file
  private final PartitionedFile[] files;
  private final int[] places;
  private final UnsafeProjection projection; // the projection of rows; null if batches are read
  private int opened;
  private Iterator rows; // the rows or batches of the file that was opened last
  private Object value;
  private ColumnarBatch last; // the last batch of the file; most readers return the same object for all batches
  private ColumnarBatch ordered;

  SplitReader(Function1 read, PartitionSplit split, int[] places, UnsafeProjection projection) {
    this.read = read;
    this.files = split.files();
    this.places = places;
    this.projection = projection;
  }

  public boolean next() throws IOException {
    try {
      while (rows == null || !rows.hasNext()) {
        closeFile();
        if (opened == files.length) return false;
        PartitionedFile file = files[opened++];
        InputFileBlockHolder.set(file.urlEncodedPath(), file.start(), file.length());
        rows = (Iterator) read.apply(file);
      }
      value = projection == null ? ordered((ColumnarBatch) rows.next()) : projection.apply((InternalRow) rows.next());
      return true;
    } catch (Exception error) {
      throw withPath(error);
    }
  }

  private ColumnarBatch ordered(ColumnarBatch batch) {
    if (batch != last) {
      ColumnVector[] columns = new ColumnVector[places.length];
      for (int i = 0; i < places.length; i++) columns[i] = batch.column(places[i]);
      ordered = new ColumnarBatch(columns);
      last = batch;
    }
    ordered.setNumRows(batch.numRows());
    return ordered;
  }

  /** Returns Spark's error for a file that cannot be read, which contains the path of the file. */
  private RuntimeException withPath(Exception error) {
    final String path = files[Math.max(0, opened - 1)].urlEncodedPath();
    Throwable named =
        FileDataSourceV2$.MODULE$.attachFilePath(
            new AbstractFunction0() {
              public Object apply() {
                return path;
              }
            },
            error);
    Platform.throwException(named); // even if it is a checked exception that this method does not declare
    return new IllegalStateException(named);
  }

  public Object get() {
    return value;
  }

  public void close() throws IOException {
    closeFile();
    InputFileBlockHolder.unset();
  }

  private void closeFile() throws IOException {
    if (rows instanceof Closeable) ((Closeable) rows).close();
    rows = null;
    last = null;
  }
}
