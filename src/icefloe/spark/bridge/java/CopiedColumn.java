package icefloe;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of a batch, copied from an Arrow vector into Java arrays. Arrow releases the memory of a batch when the next batch arrives, while Spark's generated code may still refer to a text
 * of the batch. Generated code also reads arrays faster than Arrow vectors, which check each access. Executors need this class.
 */
final class CopiedColumn extends ColumnVector {
  private static final int DECIMAL_BYTES = 16;

  private final int rows;
  private final int nulls;
  private final byte[] validity; // one bit for each value, 0 for null; null if no value is null
  private int[] ints; // or the offsets of texts and binary values
  private long[] longs; // or the unscaled values of decimals with up to 18 digits
  private float[] floats;
  private double[] doubles;
  private byte[] bytes; // the bytes of texts, binary values and long decimals, or the bits of booleans

  /**
   * Copies a vector.
   *
   * @param vector a vector with at least one row
   * @param rows the number of its rows
   * @param type one of the types that `isCopied` accepts
   * @param name the name of the column, for errors
   */
  CopiedColumn(ValueVector vector, int rows, DataType type, String name) {
    super(type);
    if (vector.getClass() != vectorOf(type) || vector.getValueCount() < rows) throw new IllegalStateException("the column " + name + " arrived from Python as " + vector.getField() + " instead of " + type.simpleString());
    FieldVector source = (FieldVector) vector;
    this.rows = rows;
    this.nulls = source.getNullCount();
    this.validity = nulls == 0 ? null : copied(source.getValidityBuffer(), (rows + 7L) / 8L);
    if (type instanceof StringType || type instanceof BinaryType) copyValues((BaseVariableWidthVector) source, name);
    else if (type instanceof BooleanType) bytes = copied(source.getDataBuffer(), (rows + 7L) / 8L);
    else if (type instanceof DecimalType) copyDecimals(source.getDataBuffer(), ((DecimalType) type).precision());
    else if (type instanceof IntegerType || type instanceof DateType) copy(source.getDataBuffer(), ints = new int[rows], Platform.INT_ARRAY_OFFSET, rows * 4L);
    else if (type instanceof FloatType) copy(source.getDataBuffer(), floats = new float[rows], Platform.FLOAT_ARRAY_OFFSET, rows * 4L);
    else if (type instanceof DoubleType) copy(source.getDataBuffer(), doubles = new double[rows], Platform.DOUBLE_ARRAY_OFFSET, rows * 8L);
    else copy(source.getDataBuffer(), longs = new long[rows], Platform.LONG_ARRAY_OFFSET, rows * 8L);
  }

  /** Returns whether all columns have types that can be copied. */
  static boolean areCopied(StructType columns) {
    for (int i = 0; i < columns.length(); i++) {
      DataType type = columns.apply(i).dataType();
      if (vectorOf(type) == null || (type instanceof DecimalType && ((DecimalType) type).scale() < 0)) return false;
    }
    return true;
  }

  /** Returns the class of the Arrow vectors of a type; null if columns of this type cannot be copied. */
  private static Class vectorOf(DataType type) {
    if (type instanceof StringType) return VarCharVector.class;
    if (type instanceof BinaryType) return VarBinaryVector.class;
    if (type instanceof BooleanType) return BitVector.class;
    if (type instanceof DecimalType) return DecimalVector.class;
    if (type instanceof IntegerType) return IntVector.class;
    if (type instanceof DateType) return DateDayVector.class;
    if (type instanceof FloatType) return Float4Vector.class;
    if (type instanceof DoubleType) return Float8Vector.class;
    if (type instanceof LongType) return BigIntVector.class;
    if (type instanceof TimestampType) return TimeStampMicroTZVector.class;
    return type instanceof TimestampNTZType ? TimeStampMicroVector.class : null;
  }

  private static byte[] copied(ArrowBuf from, long length) {
    byte[] to = new byte[Math.toIntExact(length)];
    copy(from, to, Platform.BYTE_ARRAY_OFFSET, length);
    return to;
  }

  private static void copy(ArrowBuf from, Object to, long offset, long length) {
    if (from.capacity() < length) throw new IllegalStateException("a buffer from Python has " + from.capacity() + " bytes instead of " + length);
    Platform.copyMemory(null, from.memoryAddress(), to, offset, length);
  }

  private void copyValues(BaseVariableWidthVector source, String name) {
    copy(source.getOffsetBuffer(), ints = new int[rows + 1], Platform.INT_ARRAY_OFFSET, (rows + 1) * 4L);
    if (ints[0] < 0) throw damaged(name);
    for (int i = 0; i < rows; i++) if (ints[i] > ints[i + 1]) throw damaged(name);
    bytes = copied(source.getDataBuffer(), ints[rows]);
  }

  private static IllegalStateException damaged(String name) {
    return new IllegalStateException("the values of the column " + name + " arrived from Python with wrong offsets");
  }

  private void copyDecimals(ArrowBuf source, int precision) {
    byte[] all = copied(source, (long) rows * DECIMAL_BYTES);
    if (precision > Decimal.MAX_LONG_DIGITS()) {
      bytes = all;
      return;
    }
    longs = new long[rows];
    for (int i = 0; i < rows; i++) longs[i] = Platform.getLong(all, Platform.BYTE_ARRAY_OFFSET + (long) i * DECIMAL_BYTES); // little-endian, and the upper half repeats the sign
  }

  public void close() {
    // Java's garbage collector frees the arrays.
  }

  public boolean hasNull() {
    return nulls > 0;
  }

  public int numNulls() {
    return nulls;
  }

  public boolean isNullAt(int row) {
    return validity != null && (validity[row >> 3] >> (row & 7) & 1) == 0;
  }

  public boolean getBoolean(int row) {
    return (bytes[row >> 3] >> (row & 7) & 1) != 0;
  }

  public int getInt(int row) {
    return ints[row];
  }

  public long getLong(int row) {
    return longs[row];
  }

  public float getFloat(int row) {
    return floats[row];
  }

  public double getDouble(int row) {
    return doubles[row];
  }

  public UTF8String getUTF8String(int row) {
    return isNullAt(row) ? null : UTF8String.fromBytes(bytes, ints[row], ints[row + 1] - ints[row]);
  }

  public byte[] getBinary(int row) {
    return isNullAt(row) ? null : java.util.Arrays.copyOfRange(bytes, ints[row], ints[row + 1]);
  }

  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) return null;
    if (longs != null) return Decimal.createUnsafe(longs[row], precision, scale);
    byte[] value = new byte[DECIMAL_BYTES];
    for (int i = 0; i < DECIMAL_BYTES; i++) value[i] = bytes[row * DECIMAL_BYTES + DECIMAL_BYTES - 1 - i];
    return Decimal.apply(new BigDecimal(new BigInteger(value), scale), precision, scale);
  }

  public byte getByte(int row) {
    throw unsupported();
  }

  public short getShort(int row) {
    throw unsupported();
  }

  public ColumnarArray getArray(int row) {
    throw unsupported();
  }

  public ColumnarMap getMap(int row) {
    throw unsupported();
  }

  public ColumnVector getChild(int index) {
    throw unsupported();
  }

  private UnsupportedOperationException unsupported() {
    return new UnsupportedOperationException("a column of " + dataType().simpleString() + " has no such values");
  }
}
