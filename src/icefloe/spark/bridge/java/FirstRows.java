package icefloe;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.util.LongAccumulator;

/** The function of a Spark task that returns rows until their size in total exceeds `mostBytes`. It then stops reading, and adds 1 to the accumulator `cutOff`. */
public final class FirstRows implements FlatMapFunction {
  private final long mostBytes;
  private final LongAccumulator cutOff;

  public FirstRows(Number mostBytes, LongAccumulator cutOff) {
    this.mostBytes = mostBytes.longValue();
    this.cutOff = cutOff;
  }

  public Iterator call(Object rows) {
    return new Rows((Iterator) rows, mostBytes, cutOff);
  }

  private static final class Rows implements Iterator {
    private final Iterator rows;
    private final LongAccumulator cutOff;
    private long bytesLeft;
    private UnsafeRow next;

    Rows(Iterator rows, long mostBytes, LongAccumulator cutOff) {
      this.rows = rows;
      this.bytesLeft = mostBytes;
      this.cutOff = cutOff;
    }

    public boolean hasNext() {
      if (next != null) return true;
      if (bytesLeft < 0 || !rows.hasNext()) return false;
      UnsafeRow row = (UnsafeRow) rows.next();
      bytesLeft -= row.getSizeInBytes();
      if (bytesLeft < 0) {
        cutOff.add(1L);
        return false;
      }
      next = row;
      return true;
    }

    public Object next() {
      if (!hasNext()) throw new NoSuchElementException();
      UnsafeRow row = next;
      next = null;
      return row;
    }

    public void remove() {
      throw new UnsupportedOperationException();
    }
  }
}
