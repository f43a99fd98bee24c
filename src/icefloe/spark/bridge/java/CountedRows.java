package icefloe;

import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.roaringbitmap.PeekableIntIterator;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows of a file for which Spark does not read batches: without deleted rows, or with values in the column of deleted rows. Spark fills in the position of each row. */
final class CountedRows extends AbstractIterator implements Closeable {
  private final Iterator rows;
  private final int positionPlace;
  private final int deletedPlace; // the index of the column of deleted rows; -1 if it is not read
  private final PeekableIntIterator deleted; // null if no row is deleted
  private final boolean returnsDeleted;
  private final UnsafeProjection projection; // leaves out the column of positions; null if the query reads it
  private InternalRow next; // the next row, if it was read

  CountedRows(Iterator rows, int positionPlace, int deletedPlace, PeekableIntIterator deleted, boolean returnsDeleted, UnsafeProjection projection) {
    this.rows = rows;
    this.positionPlace = positionPlace;
    this.deletedPlace = deletedPlace;
    this.deleted = deleted;
    this.returnsDeleted = returnsDeleted;
    this.projection = projection;
  }

  public boolean hasNext() {
    while (next == null && rows.hasNext()) {
      InternalRow row = (InternalRow) rows.next();
      long position = row.getLong(positionPlace);
      boolean isDeleted = deleted != null && DeletedRows.nextFrom(deleted, position) == position;
      if (!isDeleted || returnsDeleted) next = counted(row, isDeleted);
    }
    return next != null;
  }

  public Object next() {
    if (!hasNext()) throw new java.util.NoSuchElementException();
    InternalRow row = next;
    next = null;
    return row;
  }

  private InternalRow counted(InternalRow row, boolean isDeleted) {
    if (projection != null) return projection.apply(row);
    if (deletedPlace < 0) return row;
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
