package icefloe;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.roaringbitmap.PeekableIntIterator;

/** Whether each row of a batch is deleted: one bit a row. Batches come in the order of the file. */
final class DeletedRows extends ConstantColumnVector {
  private final PeekableIntIterator deleted; // positions in the file, ascending
  private long[] bits = new long[0];

  DeletedRows(PeekableIntIterator deleted) {
    super(1, DataTypes.BooleanType);
    this.deleted = deleted;
  }

  /** Moves on to the next batch, which has so many rows. */
  void follow(Positions positions, int rows) {
    int words = (rows + 63) >>> 6;
    if (bits.length < words) bits = new long[words];
    Arrays.fill(bits, 0, words, 0L);
    if (positions.areConsecutive()) {
      long first = positions.getLong(0);
      for (long position = nextFrom(deleted, first); position < first + rows; position = nextFrom(deleted, position + 1)) set((int) (position - first));
    } else {
      for (int row = 0; row < rows; row++) if (nextFrom(deleted, positions.getLong(row)) == positions.getLong(row)) set(row);
    }
  }

  /** Returns the first deleted position that is not less than this one, which is never less than that of an earlier call; where there is none, a number above all positions. */
  static long nextFrom(PeekableIntIterator deleted, long position) {
    if (position > Integer.MAX_VALUE) return Long.MAX_VALUE;
    deleted.advanceIfNeeded((int) position);
    return deleted.hasNext() ? deleted.peekNext() : Long.MAX_VALUE;
  }

  private void set(int row) {
    bits[row >>> 6] |= 1L << row;
  }

  public boolean getBoolean(int row) {
    return (bits[row >>> 6] >>> row & 1L) != 0L;
  }
}
