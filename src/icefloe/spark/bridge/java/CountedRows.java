package icefloe;

import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.roaringbitmap.PeekableIntIterator;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows of a file for which Spark does not read batches. Spark fills in the position of each row; this class fills in the column of deleted rows. */
final class CountedRows extends AbstractIterator implements Closeable {
  private final Iterator rows;
  private final int positionPlace;
  private final int deletedPlace; // the index of the column of deleted rows; -1 if it is not read
  private final PeekableIntIterator deleted;

  CountedRows(Iterator rows, int positionPlace, int deletedPlace, PeekableIntIterator deleted) {
    this.rows = rows;
    this.positionPlace = positionPlace;
    this.deletedPlace = deletedPlace;
    this.deleted = deleted;
  }

  public boolean hasNext() {
    return rows.hasNext();
  }

  public Object next() {
    InternalRow row = (InternalRow) rows.next();
    if (deletedPlace < 0) return row;
    long position = row.getLong(positionPlace);
    boolean isDeleted = DeletedRows.nextFrom(deleted, position) == position;
    if (!(row instanceof UnsafeRow)) { // the row is a row of a batch, whose columns have other types
      row = row.copy();
      row.update(deletedPlace, Boolean.valueOf(isDeleted));
      return row;
    }
    ((UnsafeRow) row).setLong(deletedPlace, 0L); // a boolean is one byte of the eight
    ((UnsafeRow) row).setBoolean(deletedPlace, isDeleted);
    return row;
  }

  public void close() throws IOException {
    if (rows instanceof Closeable) ((Closeable) rows).close();
  }
}
