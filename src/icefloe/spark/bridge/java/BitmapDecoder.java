package icefloe;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.nio.ByteBuffer;
import java.util.zip.InflaterInputStream;
import org.apache.spark.util.collection.BitSet;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/**
 * Numbers from Python in arrays and bitmaps of classes that executors know: what touches each of them.
 *
 * Bitmaps arrive as one deflated stream: how many, then for each its first bit among the bits of all (int) and the bitmap, Roaring.
 */
public final class BitmapDecoder {
  /** Lists of longs: how many, then for each its length (int) and its longs. */
  public static long[][] lists(byte[] packed) {
    ByteBuffer in = ByteBuffer.wrap(packed);
    long[][] lists = new long[in.getInt()][];
    for (int i = 0; i < lists.length; i++) {
      lists[i] = new long[in.getInt()];
      for (int place = 0; place < lists[i].length; place++) lists[i][place] = in.getLong();
    }
    return lists;
  }

  /** The bitmaps as they are. */
  public static RoaringBitmap[] bitmaps(byte[] stream) throws Exception {
    DataInputStream in = inflated(stream);
    RoaringBitmap[] bitmaps = new RoaringBitmap[in.readInt()];
    for (int i = 0; i < bitmaps.length; i++) {
      in.readInt();
      bitmaps[i] = bitmap(in);
    }
    return bitmaps;
  }

  /** The bits of all bitmaps in one array of so many. */
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
