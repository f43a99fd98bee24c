package icefloe;

import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows or batches of a file with unsigned integers that are read as signed integers. It checks each value, and refuses values that the signed type cannot have. */
final class SignedRows extends AbstractIterator implements Closeable {
  private final Iterator rows;
  private final UnsignedValues[] columns;
  private final int[] places;
  private final String file;
  private final String table;

  SignedRows(Iterator rows, UnsignedValues[] columns, int[] places, String file, String table) {
    this.rows = rows;
    this.columns = columns;
    this.places = places;
    this.file = file;
    this.table = table;
  }

  public boolean hasNext() {
    return rows.hasNext();
  }

  public Object next() {
    Object read = rows.next();
    try {
      if (read instanceof ColumnarBatch) {
        ColumnarBatch batch = (ColumnarBatch) read;
        for (int row = 0; row < batch.numRows(); row++) check(batch.getRow(row));
      } else {
        check((InternalRow) read);
      }
    } catch (ArithmeticException error) {
      throw new IllegalStateException(
          "cannot read " + file + " of " + table + ": " + error.getMessage() + ". Next: delete the file's rows from the table, and append them with a decimal(20,0) column for such values");
    }
    return read;
  }

  private void check(InternalRow row) {
    for (int i = 0; i < columns.length; i++) columns[i].check(row, places[i]);
  }

  public void close() throws IOException {
    if (rows instanceof Closeable) ((Closeable) rows).close();
  }
}
