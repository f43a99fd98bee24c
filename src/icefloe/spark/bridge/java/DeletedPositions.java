package icefloe;

import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/**
 * The positions of the deleted rows in the files of a scan, by the number of the file. Each executor receives them once, as compressed bitmaps; a task decodes only the bitmaps of the files
 * that it reads. Executors need this class.
 */
public final class DeletedPositions implements Serializable {
  private final Broadcast packed;
  private final byte[] digest;
  private final boolean areNeededAlone;

  /**
   * Sends the positions to the executors. For each file, `packed` contains the length of its bitmap (an int), and its Roaring bitmap. With `areNeededAlone` the query needs no other rows, so that
   * row groups without such rows are not read.
   */
  public DeletedPositions(SparkSession session, byte[] packed, boolean areNeededAlone) throws Exception {
    this.areNeededAlone = areNeededAlone;
    this.packed = JavaSparkContext.fromSparkContext(session.sparkContext()).broadcast(packed);
    this.digest = MessageDigest.getInstance("SHA-256").digest(packed);
  }

  boolean areNeededAlone() {
    return areNeededAlone;
  }

  PeekableIntIterator of(int file) {
    ByteBuffer in = ByteBuffer.wrap((byte[]) packed.value());
    for (int i = 0; i < file; i++) in.position(in.position() + 4 + in.getInt(in.position()));
    in.getInt();
    RoaringBitmap bitmap = new RoaringBitmap();
    try {
      bitmap.deserialize(in);
    } catch (IOException error) {
      throw new IllegalStateException("the deleted positions are no bitmap", error);
    }
    return bitmap.getIntIterator();
  }

  public boolean equals(Object other) {
    if (!(other instanceof DeletedPositions)) return false;
    return areNeededAlone == ((DeletedPositions) other).areNeededAlone && Arrays.equals(digest, ((DeletedPositions) other).digest);
  }

  public int hashCode() {
    return Arrays.hashCode(digest);
  }
}
