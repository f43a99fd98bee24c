package icefloe;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.roaringbitmap.PeekableIntIterator;

/** The boolean column of a batch that is true for deleted rows. It is filled in for one batch after another, in the order of the file. */
final class DeletedRows extends ConstantColumnVector {
  private final PeekableIntIterator deleted; // the ascending positions of deleted rows in the file
  private long[] bits = new long[0];

  DeletedRows(PeekableIntIterator deleted) {
    super(1, DataTypes.BooleanType);
    this.deleted = deleted;
  }

  /** Fills in the values for the next batch, which has `rows` rows at these positions. */
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

  /** Returns the first deleted position that is at least `position`, or a number above all positions. `position` must not be less than in an earlier call. */
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
