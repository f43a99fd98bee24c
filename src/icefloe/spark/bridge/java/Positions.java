package icefloe;

import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;

/** The positions of a batch's rows in their file: consecutive numbers, of which only the first is stored. */
final class Positions extends ConstantColumnVector {
  private long first;
  private long next;

  Positions() {
    super(1, DataTypes.LongType);
  }

  /** Moves on to the next batch, which has so many rows. */
  void follow(int rows) {
    first = next;
    next += rows;
  }

  public long getLong(int row) {
    return first + row;
  }
}
