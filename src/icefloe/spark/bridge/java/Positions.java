package icefloe;

import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The column of the positions of a batch's rows in their file: either consecutive numbers, of which only the first is stored, or an array of ascending numbers. */
final class Positions extends ConstantColumnVector {
  private long first; // the first of consecutive numbers; -1 if the numbers are in the array
  private long[] numbers = new long[0];

  Positions() {
    super(1, DataTypes.LongType);
  }

  /** Sets the positions of the next batch, which has `rows` rows. */
  void follow(RowGroups groups, int rows) {
    grow(rows);
    first = groups.read(rows, numbers);
  }

  /** Copies the positions of a batch from Spark's column of positions. */
  void copy(ColumnVector column, int rows) {
    grow(rows);
    for (int i = 0; i < rows; i++) numbers[i] = column.getLong(i);
    first = -1L;
  }

  private void grow(int rows) {
    if (numbers.length < rows) numbers = new long[rows];
  }

  boolean areConsecutive() {
    return first >= 0L;
  }

  public long getLong(int row) {
    return first < 0L ? numbers[row] : first + row;
  }
}
