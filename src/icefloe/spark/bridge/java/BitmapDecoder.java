package icefloe;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.nio.ByteBuffer;
import java.util.zip.InflaterInputStream;
import org.apache.spark.util.collection.BitSet;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/**
 * Decodes numbers from Python into arrays and bitmaps of classes that executors have. The loops over the numbers are in Java, because each would be a call through Py4J.
 *
 * Bitmaps arrive as one deflated stream: their number (int), then for each its first bit among the bits of all (int) and the Roaring bitmap.
 */
public final class BitmapDecoder {
  /** Returns lists of longs. The bytes hold the number of lists (int), then for each list its length (int) and its longs. */
  public static long[][] lists(byte[] packed) {
    ByteBuffer in = ByteBuffer.wrap(packed);
    long[][] lists = new long[in.getInt()][];
    for (int i = 0; i < lists.length; i++) {
      lists[i] = new long[in.getInt()];
      for (int place = 0; place < lists[i].length; place++) lists[i][place] = in.getLong();
    }
    return lists;
  }

  /** Returns the bitmaps, each for itself. */
  public static RoaringBitmap[] bitmaps(byte[] stream) throws Exception {
    DataInputStream in = inflated(stream);
    RoaringBitmap[] bitmaps = new RoaringBitmap[in.readInt()];
    for (int i = 0; i < bitmaps.length; i++) {
      in.readInt();
      bitmaps[i] = bitmap(in);
    }
    return bitmaps;
  }

  /** Returns the bits of all bitmaps in one set of `size` bits. */
  public static BitSet bits(byte[] stream, int size) throws Exception {
    BitSet bits = new BitSet(size);
    DataInputStream in = inflated(stream);
    for (int left = in.readInt(); left > 0; left--) {
      int start = in.readInt();
      PeekableIntIterator positions = bitmap(in).getIntIterator();
      while (positions.hasNext()) bits.set(start + positions.next());
    }
    return bits;
  }

  private static DataInputStream inflated(byte[] stream) {
    return new DataInputStream(new InflaterInputStream(new ByteArrayInputStream(stream)));
  }

  private static RoaringBitmap bitmap(DataInputStream in) throws Exception {
    RoaringBitmap bitmap = new RoaringBitmap();
    bitmap.deserialize(in);
    return bitmap;
  }
}
