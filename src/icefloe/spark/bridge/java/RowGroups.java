package icefloe;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.PrimitiveIterator;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.spark.sql.execution.datasources.RecordReaderIterator;
import org.apache.spark.sql.execution.datasources.parquet.SpecificParquetRecordReaderBase;
import org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader;
import scala.collection.Iterator;

/**
 * Determines the positions of the rows that Spark's vectorised reader returns. For each row group that the reader opens, Parquet returns the position of its first row and, if filters exclude
 * pages, the rows of the other pages. To learn them, this object replaces the reader of row groups in private fields of Spark's reader.
 */
final class RowGroups implements InvocationHandler {
  private static final Field READER = fieldWith(RecordReaderIterator.class, null);
  private static final Field GROUPS = fieldWith(SpecificParquetRecordReaderBase.class, "readNextRowGroup");

  private final Object groups; // Spark's reader of row groups
  private long first; // the position of the first row of the current row group
  private long next; // how many rows of the row group have been read
  private PrimitiveIterator.OfLong rows; // the indexes, in the row group, of the rows that are read; null if all are read

  private RowGroups(Object groups) {
    this.groups = groups;
  }

  /** Returns whether this version of Spark has the private fields that must be replaced. */
  static boolean areKnown() {
    return READER != null && GROUPS != null;
  }

  /** Returns the object for a reader that has not read a row yet, and makes the reader return batches. */
  static RowGroups of(Iterator records) {
    try {
      VectorizedParquetRecordReader reader = (VectorizedParquetRecordReader) READER.get(records);
      RowGroups followed = new RowGroups(GROUPS.get(reader));
      Class type = GROUPS.getType();
      GROUPS.set(reader, Proxy.newProxyInstance(type.getClassLoader(), new Class[] {type}, followed));
      reader.enableReturningBatches();
      return followed;
    } catch (IllegalAccessException error) {
      throw new IllegalStateException("Spark's Parquet reader does not show its row groups", error);
    }
  }

  /** Returns the field of a class whose type has a method of this name; if the name is null, the field that has a reader of records. */
  private static Field fieldWith(Class owner, String method) {
    Field[] fields = owner.getDeclaredFields();
    for (int i = 0; i < fields.length; i++) {
      Class type = fields[i].getType();
      boolean matches = method == null && type == RecordReader.class;
      Method[] methods = type.getDeclaredMethods();
      for (int place = 0; method != null && type.isInterface() && place < methods.length; place++) matches |= methods[place].getName().equals(method);
      if (matches) {
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    return null;
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    Object result;
    try {
      method.setAccessible(true);
      result = method.invoke(groups, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
    if (result instanceof PageReadStore) start((PageReadStore) result);
    return result;
  }

  private void start(PageReadStore group) {
    first = ((Long) group.getRowIndexOffset().get()).longValue();
    next = 0L;
    rows = group.getRowIndexes().isPresent() ? (PrimitiveIterator.OfLong) group.getRowIndexes().get() : null;
  }

  /** Advances by a batch of `count` rows, which are in one row group. If their positions are consecutive, returns the first; otherwise returns -1 and writes them to `positions`. */
  long read(int count, long[] positions) {
    if (rows == null) {
      next += count;
      return first + next - count;
    }
    boolean areConsecutive = true;
    for (int i = 0; i < count; i++) {
      positions[i] = first + rows.nextLong();
      areConsecutive &= positions[i] == positions[0] + i;
    }
    return areConsecutive && count > 0 ? positions[0] : -1L;
  }
}
