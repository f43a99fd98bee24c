package icefloe;

import java.util.Iterator;
import java.util.LinkedHashMap;

/**
 * A cache of replies from the Python objects of one catalog in one session. A reply depends only on its key: the state of a table, which Python reads again for each statement, and the
 * message. The least recently used replies are dropped first. Several threads may use the cache at once.
 */
public final class KeptReplies {
  private static final long MOST_BYTES = 1L << 26;
  private static final int BYTES_OF_AN_ENTRY = 256;
  private static final int BYTES_OF_A_CHARACTER = 2;
  private final LinkedHashMap entries = new LinkedHashMap(16, 0.75f, true); // values of class Entry by key, the least recently used first
  private long bytes;

  private static final class Entry {
    final Object value;
    final long bytes;

    Entry(Object value, long bytes) {
      this.value = value;
      this.bytes = bytes;
    }
  }

  /** Returns the reply of a key; null if the cache does not have it. */
  public synchronized Object get(String key) {
    Entry entry = (Entry) entries.get(key);
    return entry == null ? null : entry.value;
  }

  /** Stores a reply, which has `valueBytes` bytes, and drops an earlier reply of the key. A reply that is larger than the whole cache may be is not stored. */
  public synchronized void put(String key, Object value, long valueBytes) {
    Entry entry = new Entry(value, valueBytes + BYTES_OF_AN_ENTRY + (long) BYTES_OF_A_CHARACTER * key.length());
    Entry before = (Entry) entries.remove(key);
    if (before != null) bytes -= before.bytes;
    if (entry.bytes > MOST_BYTES) return;
    entries.put(key, entry);
    bytes += entry.bytes;
    Iterator oldest = entries.values().iterator();
    while (bytes > MOST_BYTES) {
      bytes -= ((Entry) oldest.next()).bytes;
      oldest.remove();
    }
  }

  /** Returns how many bytes a text needs in memory. */
  static long bytesOf(String text) {
    return (long) BYTES_OF_A_CHARACTER * text.length();
  }
}
