package icefloe;

import java.nio.ByteBuffer;
import org.apache.spark.util.collection.BitSet;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/** Decodes numbers that Python sent as bytes into arrays and bit sets. The loops over the numbers are in Java, because in Python each number would be a call through Py4J. */
public final class BitmapDecoder {
  /** Returns lists of longs. The bytes contain the number of lists (an int), and then for each list its length (an int) and its longs. */
  public static long[][] lists(byte[] packed) {
    ByteBuffer in = ByteBuffer.wrap(packed);
    long[][] lists = new long[in.getInt()][];
    for (int i = 0; i < lists.length; i++) {
      lists[i] = new long[in.getInt()];
      for (int place = 0; place < lists[i].length; place++) lists[i][place] = in.getLong();
    }
    return lists;
  }

  /** Returns the numbers of a Roaring bitmap as a bit set, which has `size` bits. */
  public static BitSet bits(byte[] serialized, int size) throws Exception {
    BitSet bits = new BitSet(size);
    RoaringBitmap bitmap = new RoaringBitmap();
    bitmap.deserialize(ByteBuffer.wrap(serialized));
    PeekableIntIterator numbers = bitmap.getIntIterator();
    while (numbers.hasNext()) bits.set(numbers.next());
    return bits;
  }
}
