package icefloe;

import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;

/** The positions of a batch's rows in their file: numbers that follow each other, of which only the first is kept. */
final class Positions extends ConstantColumnVector {
  private long first;
  private long next;

  Positions() {
    super(1, DataTypes.LongType);
  }

  /** A batch of so many rows comes after the last one. */
  void follow(int rows) {
    first = next;
    next += rows;
  }

  public long getLong(int row) {
    return first + row;
  }
}
