package icefloe;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** The positions of a batch's rows in their file: numbers that follow each other, of which only the first is kept. */
final class Positions extends ColumnVector {
  private long first;
  private long next;

  Positions() {
    super(DataTypes.LongType);
  }

  /** A batch of so many rows comes after the last one. */
  void follow(int rows) {
    first = next;
    next += rows;
  }

  public long getLong(int row) {
    return first + row;
  }

  public boolean isNullAt(int row) {
    return false;
  }

  public boolean hasNull() {
    return false;
  }

  public int numNulls() {
    return 0;
  }

  public void close() {}

  private static UnsupportedOperationException noOther() {
    return new UnsupportedOperationException("positions are longs");
  }

  public boolean getBoolean(int row) {
    throw noOther();
  }

  public byte getByte(int row) {
    throw noOther();
  }

  public short getShort(int row) {
    throw noOther();
  }

  public int getInt(int row) {
    throw noOther();
  }

  public float getFloat(int row) {
    throw noOther();
  }

  public double getDouble(int row) {
    throw noOther();
  }

  public ColumnarArray getArray(int row) {
    throw noOther();
  }

  public ColumnarMap getMap(int row) {
    throw noOther();
  }

  public Decimal getDecimal(int row, int precision, int scale) {
    throw noOther();
  }

  public UTF8String getUTF8String(int row) {
    throw noOther();
  }

  public byte[] getBinary(int row) {
    throw noOther();
  }

  public ColumnVector getChild(int place) {
    throw noOther();
  }
}
