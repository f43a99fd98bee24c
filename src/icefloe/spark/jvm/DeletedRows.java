package icefloe;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.util.ArrayList;
import java.util.zip.InflaterInputStream;
import org.apache.commons.lang3.ArrayUtils;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.util.collection.BitSet;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import scala.collection.immutable.Seq;

/**
 * The deleted positions of some files, and Spark expressions that look one up. Executors know every class that an expression holds: they are Spark's own and those of
 * libraries that it ships.
 *
 * The positions arrive as one deflated stream: the number of files, then for each its first bit among the bits of all files (int) and its Roaring bitmap.
 */
public final class DeletedRows {
  private final RoaringBitmap[] bitmaps;
  private final int[] starts;

  public DeletedRows(byte[] stream) throws Exception {
    DataInputStream in = new DataInputStream(new InflaterInputStream(new ByteArrayInputStream(stream)));
    bitmaps = new RoaringBitmap[in.readInt()];
    starts = new int[bitmaps.length];
    for (int i = 0; i < bitmaps.length; i++) {
      starts[i] = in.readInt();
      bitmaps[i] = new RoaringBitmap();
      bitmaps[i].deserialize(in);
    }
  }

  /** Whether the bit at `place` (int: the file's first bit and the row's position, added) is set; the bits of all files lie uncompressed in one array. */
  public Column inBits(int size, Column place) {
    BitSet bits = new BitSet(size);
    for (int i = 0; i < bitmaps.length; i++) {
      PeekableIntIterator positions = bitmaps[i].getIntIterator();
      while (positions.hasNext()) bits.set(starts[i] + positions.next());
    }
    return ExpressionUtils.column(invoke(literal(bits), "get", ExpressionUtils.expression(place)));
  }

  /** Whether the bitmap of a file (int: its number) holds a position (int); bitmaps stay compressed. */
  public Column compressed(Column file, Column position) {
    Expression bitmap = element(bitmaps, ExpressionUtils.expression(file));
    return ExpressionUtils.column(invoke(bitmap, "contains", ExpressionUtils.expression(position)));
  }

  /** The element of an array of objects at a place (int). */
  static Expression element(Object[] array, Expression place) {
    return call(ArrayUtils.class, new ObjectType(array.getClass().getComponentType()), "get", literal(array), place);
  }

  static Expression call(Class holder, DataType type, String method, Expression first, Expression second) {
    ArrayList arguments = new ArrayList(2);
    arguments.add(first);
    arguments.add(second);
    return new StaticInvoke(holder, type, method, PythonUtils.toSeq(arguments), nothing(), true, true, true, scala.Option.empty());
  }

  static Expression literal(Object value) {
    return new Literal(value, new ObjectType(value.getClass()));
  }

  static Expression invoke(Expression target, String method, Expression argument) {
    ArrayList arguments = new ArrayList(1);
    arguments.add(argument);
    DataType truth = DataTypes.BooleanType;
    return new Invoke(target, method, truth, PythonUtils.toSeq(arguments), nothing(), true, true, true);
  }

  private static Seq nothing() {
    return PythonUtils.toSeq(new ArrayList(0));
  }
}
