package icefloe;

import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The batches of a file, or their rows: without deleted rows, or with values in the column of deleted rows, and with values in the column of positions. */
final class CountedBatches extends AbstractIterator implements Closeable {
  private final Iterator batches;
  private final RowGroups groups;
  private final int positionPlace; // the index of the column; -1 if the column is not read
  private final int deletedPlace;
  private final DeletedRows deleted;
  private final SelectedRows selected; // null if all rows are returned
  private final boolean returnsBatches;
  private final Positions positions = new Positions();
  private ColumnarBatch last; // the last batch without these columns; most readers return the same object for all batches
  private ColumnarBatch counted;
  private boolean isRead; // whether `counted` has rows that were not returned
  private java.util.Iterator rows; // the rows of the batch, if rows are returned

  CountedBatches(Iterator batches, int positionPlace, int deletedPlace, DeletedRows deleted, SelectedRows selected, boolean returnsBatches) {
    this.batches = batches;
    this.groups = RowGroups.of(batches);
    this.positionPlace = positionPlace;
    this.deletedPlace = deletedPlace;
    this.deleted = deleted;
    this.selected = selected;
    this.returnsBatches = returnsBatches;
  }

  public boolean hasNext() {
    if (rows != null && rows.hasNext()) return true;
    while (!isRead && batches.hasNext()) isRead = read((ColumnarBatch) batches.next());
    if (isRead && !returnsBatches) {
      rows = counted.rowIterator();
      isRead = false;
      return true;
    }
    return isRead;
  }

  public Object next() {
    if (!hasNext()) throw new java.util.NoSuchElementException();
    isRead = false;
    return returnsBatches ? counted : rows.next();
  }

  /** Reads the next batch, and returns whether it has rows to return. */
  private boolean read(ColumnarBatch read) {
    if (read != last) {
      counted = positionPlace < 0 && deletedPlace < 0 ? read : new ColumnarBatch(columnsOf(read));
      last = read;
    }
    int count = read.numRows();
    positions.follow(groups, count);
    if (selected != null) count = selected.select(read, positions);
    if (count < read.numRows() && positionPlace >= 0) selected.keepIn(positions);
    if (selected == null && deletedPlace >= 0) deleted.follow(positions, count);
    counted.setNumRows(count);
    return count > 0;
  }

  private ColumnVector[] columnsOf(ColumnarBatch read) {
    ColumnVector[] columns = new ColumnVector[read.numCols() + (positionPlace < 0 ? 0 : 1) + (deletedPlace < 0 ? 0 : 1)];
    int from = 0;
    ConstantColumnVector noneIsDeleted = new ConstantColumnVector(1, DataTypes.BooleanType);
    noneIsDeleted.setBoolean(false);
    for (int i = 0; i < columns.length; i++) {
      if (i == positionPlace) columns[i] = positions;
      else columns[i] = i != deletedPlace ? read.column(from++) : selected != null ? noneIsDeleted : deleted;
    }
    return columns;
  }

  public void close() throws IOException {
    if (batches instanceof Closeable) ((Closeable) batches).close();
  }
}
