package icefloe;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.execution.datasources.SchemaColumnConvertNotSupportedException;
import org.apache.spark.unsafe.Platform;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The rows or batches of a file of a table. The error of a file that is missing or damaged has the table and the next step in its message, and the original error as its cause. Its class is one for
 * which Spark does the same as for the original one, such as FileNotFoundException. Executors need this class.
 */
final class FileErrors extends AbstractIterator implements Closeable {
  private static final String NEXT =
      ". Next: restore the file from a copy, or roll the table back to a snapshot that does not use it; `icefloe validate TABLE --data` lists all files that are missing or damaged, and `icefloe repair` plans what giving one up costs";

  private final Iterator rows;
  private final String file;
  private final String table;

  FileErrors(Iterator rows, String file, String table) {
    this.rows = rows;
    this.file = file;
    this.table = table;
  }

  public boolean hasNext() {
    try {
      return rows.hasNext();
    } catch (Exception error) {
      throw described(error, file, table);
    }
  }

  public Object next() {
    try {
      return rows.next();
    } catch (Exception error) {
      throw described(error, file, table);
    }
  }

  public void close() throws IOException {
    if (rows instanceof Closeable) ((Closeable) rows).close();
  }

  /** Throws the error with the table and the next step in its message, or as it is where it is not about the file. It returns nothing: callers throw the result so that the compiler sees that they end. */
  static RuntimeException described(Exception error, String file, String table) {
    Exception thrown = error;
    if (isOfFile(error)) {
      if (error instanceof FileNotFoundException) {
        thrown = new FileNotFoundException("cannot read " + file + " of " + table + ": the file does not exist, or this executor does not see it" + NEXT);
        thrown.initCause(error);
      } else {
        String text = "cannot read " + file + " of " + table + ": " + (error.getMessage() == null ? error.getClass().getName() : error.getMessage()) + NEXT;
        thrown = error instanceof IOException ? (Exception) new IOException(text, error) : new RuntimeException(text, error);
      }
    }
    Platform.throwException(thrown);
    return null;
  }

  private static boolean isOfFile(Exception error) {
    if (isOfSpark(error) || isOfSpark(error.getCause())) return false;
    if (error instanceof InterruptedIOException) return error instanceof SocketTimeoutException;
    return error instanceof IOException ? !(error instanceof ClosedByInterruptException) : error instanceof RuntimeException && !(error instanceof IllegalStateException); // which classes of Icefloe throw
  }

  /** Returns whether Spark distinguishes an error by its class. */
  private static boolean isOfSpark(Throwable error) {
    return error instanceof SparkThrowable || error instanceof TaskKilledException || error instanceof SchemaColumnConvertNotSupportedException;
  }
}
