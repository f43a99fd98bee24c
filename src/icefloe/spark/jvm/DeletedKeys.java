package icefloe;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.collection.BitSet;

/**
 * Deleted keys that are numbers, and Spark expressions that look one up, as in DeletedRows of classes that executors know.
 *
 * The keys arrive packed: how many lists, then for each its length (int) and its keys (long), ascending.
 */
public final class DeletedKeys {
  private final long[][] keys;

  public DeletedKeys(byte[] packed) {
    ByteBuffer in = ByteBuffer.wrap(packed);
    keys = new long[in.getInt()][];
    for (int i = 0; i < keys.length; i++) {
      keys[i] = new long[in.getInt()];
      for (int place = 0; place < keys[i].length; place++) keys[i][place] = in.getLong();
    }
  }

  /** The number (long) that Spark has inside for a timestamp, with a time zone or without. */
  public Column number(Column time, boolean isZoned) {
    return ExpressionUtils.column(
        new PreciseTimestampConversion(
            ExpressionUtils.expression(time), isZoned ? DataTypes.TimestampType : DataTypes.TimestampNTZType, DataTypes.LongType));
  }

  /** Whether any key has this number (int) in its last places: what it and `size - 1` have in common after a shift to the right by `shift`. */
  public Column mayHold(int size, int shift, Column places) {
    BitSet bits = new BitSet(size);
    for (int i = 0; i < keys.length; i++) {
      for (int j = 0; j < keys[i].length; j++) bits.set((int) ((keys[i][j] >>> shift) & (size - 1)));
    }
    return ExpressionUtils.column(DeletedRows.invoke(DeletedRows.literal(bits), "get", ExpressionUtils.expression(places)));
  }

  /** Where a key (long) stands in the list of this number (int; null: there is but one); below 0 where it does not. */
  public Column placeOf(Column key, Column list) {
    Expression own = list == null ? DeletedRows.literal(keys[0]) : DeletedRows.element(keys, ExpressionUtils.expression(list));
    return ExpressionUtils.column(DeletedRows.call(Arrays.class, DataTypes.IntegerType, "binarySearch", own, ExpressionUtils.expression(key)));
  }
}
