package icefloe;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.roaringbitmap.PeekableIntIterator;

/**
 * The rows of a batch that a scan returns: those that are not deleted and, if there is a condition, meet it. Their values are moved to the front of Spark's own vectors, in the order of the file, so
 * that what reads the batch is the same code as for a batch without deleted rows. The reader fills its vectors from the front for each batch.
 *
 * The arrays of a vector are in private fields of Spark's classes.
 */
final class SelectedRows {
  private static final int LEAST_COPIED_BYTES = 128; // below, a loop is faster than a call that copies memory
  private static final Field CHILDREN = fieldOf(WritableColumnVector.class, "childColumns");
  private static final Field NULLS = fieldOf(OnHeapColumnVector.class, "nulls");
  private static final Field[] ARRAYS = arraysOf(OnHeapColumnVector.class); // of values, and of the lengths and offsets of values
  private static final Field NULLS_OFF_HEAP = fieldOf(OffHeapColumnVector.class, "nulls");
  private static final Field DATA_OFF_HEAP = fieldOf(OffHeapColumnVector.class, "data");
  private static final Field[] LENGTHS_OFF_HEAP = {fieldOf(OffHeapColumnVector.class, "lengthData"), fieldOf(OffHeapColumnVector.class, "offsetData")};

  private final PeekableIntIterator deleted; // the ascending positions of deleted rows in the file
  private final BasePredicate condition; // null for none
  private int rows; // of the batch
  private int[] runs = new int[64]; // the first row and the row after the last one of each run of selected rows
  private int length; // of `runs`
  private int[] tested = new int[0]; // the runs of rows that the condition is tested on

  SelectedRows(PeekableIntIterator deleted, BasePredicate condition) {
    this.deleted = deleted;
    this.condition = condition;
  }

  /** Returns whether this version of Spark has the private fields. */
  static boolean areKnown() {
    boolean areKnown = CHILDREN != null && NULLS != null && ARRAYS.length > 0 && NULLS_OFF_HEAP != null && DATA_OFF_HEAP != null;
    for (int i = 0; i < LENGTHS_OFF_HEAP.length; i++) areKnown &= LENGTHS_OFF_HEAP[i] != null;
    return areKnown;
  }

  private static Field fieldOf(Class owner, String name) {
    try {
      Field field = owner.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (NoSuchFieldException error) {
      return null;
    }
  }

  private static Field[] arraysOf(Class owner) {
    ArrayList arrays = new ArrayList();
    Field[] fields = owner.getDeclaredFields();
    for (int i = 0; i < fields.length; i++) {
      if (Modifier.isStatic(fields[i].getModifiers()) || !fields[i].getType().isArray() || fields[i].getName().equals("nulls")) continue;
      fields[i].setAccessible(true);
      arrays.add(fields[i]);
    }
    return (Field[]) arrays.toArray(new Field[0]);
  }

  /** Moves the selected rows of a batch to its front. Returns how many there are. */
  int select(ColumnarBatch batch, Positions positions) {
    rows = batch.numRows();
    length = 0;
    addLive(positions);
    if (condition != null) test(batch);
    int count = 0;
    for (int i = 0; i < length; i += 2) count += runs[i + 1] - runs[i];
    if (count == 0 || count == rows) return count;
    try {
      for (int i = 0; i < batch.numCols(); i++) pack(batch.column(i));
    } catch (IllegalAccessException error) {
      throw new IllegalStateException("Spark's vectors do not show their values", error);
    }
    return count;
  }

  /** Moves the positions of the selected rows of the last batch to the front. */
  void keepIn(Positions positions) {
    positions.keep(runs, length);
  }

  private void addLive(Positions positions) {
    int start = 0; // the first row after the last deleted one
    if (!positions.areConsecutive()) {
      for (int row = 0; row < rows; row++) {
        if (DeletedRows.nextFrom(deleted, positions.getLong(row)) != positions.getLong(row)) continue;
        add(start, row);
        start = row + 1;
      }
    } else if (positions.getLong(0) <= Integer.MAX_VALUE) {
      long first = positions.getLong(0);
      deleted.advanceIfNeeded((int) first);
      while (deleted.hasNext() && deleted.peekNext() < first + rows) {
        int row = (int) (deleted.next() - first);
        add(start, row);
        start = row + 1;
      }
    }
    add(start, rows);
  }

  private void test(ColumnarBatch batch) {
    int[] live = runs;
    int end = length;
    runs = tested.length < runs.length ? new int[runs.length] : tested;
    tested = live;
    length = 0;
    for (int i = 0; i < end; i += 2) {
      int start = live[i];
      for (int row = start; row < live[i + 1]; row++) {
        if (condition.eval(batch.getRow(row))) continue;
        add(start, row);
        start = row + 1;
      }
      add(start, live[i + 1]);
    }
  }

  private void add(int start, int end) {
    if (start == end) return;
    if (length == runs.length) runs = java.util.Arrays.copyOf(runs, length * 2);
    runs[length++] = start;
    runs[length++] = end;
  }

  private void pack(ColumnVector column) throws IllegalAccessException {
    if (!(column instanceof WritableColumnVector)) return; // one value for all rows
    WritableColumnVector vector = (WritableColumnVector) column;
    boolean isArray = vector instanceof OnHeapColumnVector ? packOnHeap(vector) : packOffHeap((OffHeapColumnVector) vector);
    if (vector.hasDictionary()) pack(vector.getDictionaryIds());
    WritableColumnVector[] children = isArray ? null : (WritableColumnVector[]) CHILDREN.get(vector);
    for (int i = 0; children != null && i < children.length; i++) pack(children[i]);
  }

  /** Packs the arrays of a vector, and returns whether its values are parts of another vector, with their offsets. */
  private boolean packOnHeap(WritableColumnVector vector) throws IllegalAccessException {
    if (vector.hasNull()) pack(NULLS.get(vector));
    boolean isArray = false;
    for (int i = 0; i < ARRAYS.length; i++) {
      Object values = ARRAYS[i].get(vector);
      isArray |= values != null && ARRAYS[i].getName().equals("arrayOffsets");
      if (values != null && !vector.hasDictionary()) pack(values);
    }
    return isArray;
  }

  private void pack(Object array) {
    if (Array.getLength(array) < rows) throw new IllegalStateException("a vector of Spark has " + Array.getLength(array) + " values for " + rows + " rows");
    if (array instanceof byte[]) pack(array, Platform.BYTE_ARRAY_OFFSET, 0);
    else if (array instanceof short[]) pack(array, Platform.SHORT_ARRAY_OFFSET, 1);
    else if (array instanceof int[]) pack(array, Platform.INT_ARRAY_OFFSET, 2);
    else if (array instanceof float[]) pack(array, Platform.FLOAT_ARRAY_OFFSET, 2);
    else pack(array, array instanceof long[] ? Platform.LONG_ARRAY_OFFSET : Platform.DOUBLE_ARRAY_OFFSET, 3);
  }

  private boolean packOffHeap(OffHeapColumnVector vector) throws IllegalAccessException {
    if (vector.hasNull()) pack(null, NULLS_OFF_HEAP.getLong(vector), 0);
    boolean isArray = false;
    for (int i = 0; i < LENGTHS_OFF_HEAP.length; i++) {
      long address = LENGTHS_OFF_HEAP[i].getLong(vector);
      isArray |= address != 0L;
      if (address != 0L && !vector.hasDictionary()) pack(null, address, 2);
    }
    long values = DATA_OFF_HEAP.getLong(vector);
    if (values != 0L && !vector.hasDictionary()) pack(null, values, Integer.numberOfTrailingZeros(widthOf(vector.dataType())));
    return isArray;
  }

  /** Returns the bytes of a value of a type whose values are no parts of another vector. */
  private static int widthOf(DataType type) {
    if (type instanceof DecimalType) return ((DecimalType) type).precision() <= Decimal.MAX_INT_DIGITS() ? 4 : 8;
    return type.defaultSize();
  }

  /** Moves values of `1 << shift` bytes each. `base` is an array, or null for memory outside of the heap. */
  private void pack(Object base, long start, int shift) {
    long to = start;
    for (int i = 0; i < length; i += 2) {
      long from = start + ((long) runs[i] << shift), bytes = (long) (runs[i + 1] - runs[i]) << shift;
      if (from != to) {
        if (bytes >= LEAST_COPIED_BYTES) Platform.copyMemory(base, from, base, to, bytes);
        else if (shift == 3) for (int at = 0; at < bytes; at += 8) Platform.putLong(base, to + at, Platform.getLong(base, from + at));
        else if (shift == 2) for (int at = 0; at < bytes; at += 4) Platform.putInt(base, to + at, Platform.getInt(base, from + at));
        else for (int at = 0; at < bytes; at++) Platform.putByte(base, to + at, Platform.getByte(base, from + at));
      }
      to += bytes;
    }
  }
}
