package icefloe;

import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.roaringbitmap.PeekableIntIterator;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The batches of a file, or their rows, with values in the columns of positions and of deleted rows. */
final class CountedBatches extends AbstractIterator implements Closeable {
  private final Iterator batches;
  private final RowGroups groups; // the source of positions; null if Spark's column of positions is the source
  private final int positionPlace; // the index of the column; -1 if the column is not read
  private final int deletedPlace;
  private final boolean returnsBatches;
  private final Positions positions = new Positions();
  private final DeletedRows deleted;
  private ColumnarBatch last; // the last batch without these columns; most readers return the same object for all batches
  private ColumnarBatch counted;
  private java.util.Iterator rows; // the rows of the batch, if rows are returned

  CountedBatches(Iterator batches, RowGroups groups, int positionPlace, int deletedPlace, PeekableIntIterator deleted, boolean returnsBatches) {
    this.batches = batches;
    this.groups = groups;
    this.positionPlace = positionPlace;
    this.deletedPlace = deletedPlace;
    this.deleted = new DeletedRows(deleted);
    this.returnsBatches = returnsBatches;
  }

  public boolean hasNext() {
    if (returnsBatches) return batches.hasNext();
    while ((rows == null || !rows.hasNext()) && batches.hasNext()) rows = nextBatch().rowIterator();
    return rows != null && rows.hasNext();
  }

  public Object next() {
    if (returnsBatches) return nextBatch();
    if (!hasNext()) throw new java.util.NoSuchElementException();
    return rows.next();
  }

  private ColumnarBatch nextBatch() {
    ColumnarBatch read = (ColumnarBatch) batches.next();
    if (read != last) {
      counted = new ColumnarBatch(columnsOf(read));
      last = read;
    }
    int count = read.numRows();
    if (groups == null) positions.copy(read.column(positionPlace < 0 ? deletedPlace : positionPlace), count);
    else positions.follow(groups, count);
    if (deletedPlace >= 0) deleted.follow(positions, count);
    counted.setNumRows(count);
    return counted;
  }

  private ColumnVector[] columnsOf(ColumnarBatch read) {
    int added = groups == null ? 0 : (positionPlace < 0 ? 0 : 1) + (deletedPlace < 0 ? 0 : 1);
    ColumnVector[] columns = new ColumnVector[read.numCols() + added];
    int from = 0;
    for (int i = 0; i < columns.length; i++) {
      boolean isOwn = i == positionPlace || i == deletedPlace;
      columns[i] = i == positionPlace ? positions : i == deletedPlace ? deleted : read.column(from);
      if (!isOwn || groups == null) from++;
    }
    return columns;
  }

  public void close() throws IOException {
    if (batches instanceof Closeable) ((Closeable) batches).close();
  }
}
