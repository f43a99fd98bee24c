package icefloe;

import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;

/** The column of the positions of a batch's rows in their file: either consecutive numbers, of which only the first is stored, or an array of ascending numbers. */
final class Positions extends ConstantColumnVector {
  private long first; // the first of consecutive numbers; -1 if the numbers are in the array
  private long[] numbers = new long[0];

  Positions() {
    super(1, DataTypes.LongType);
  }

  /** Sets the positions of the next batch, which has `rows` rows. */
  void follow(RowGroups groups, int rows) {
    if (numbers.length < rows) numbers = new long[rows];
    first = groups.read(rows, numbers);
  }

  /** Keeps the positions of the selected rows. `runs` has the first row and the row after the last one of each run of them, and `length` is the number of these. */
  void keep(int[] runs, int length) {
    int count = 0;
    for (int i = 0; i < length; i += 2) for (int row = runs[i]; row < runs[i + 1]; row++) numbers[count++] = getLong(row);
    first = -1L;
  }

  boolean areConsecutive() {
    return first >= 0L;
  }

  public long getLong(int row) {
    return first < 0L ? numbers[row] : first + row;
  }
}
