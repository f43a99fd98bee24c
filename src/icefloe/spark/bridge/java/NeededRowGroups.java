package icefloe;

import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.util.SerializableConfiguration;
import org.roaringbitmap.PeekableIntIterator;
import scala.Function1;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * A function that reads the row groups of a file in which a row has one of some positions; all rows of these are returned. For each run of such row groups Spark's function is called with a part of
 * the file. Executors need this class.
 */
final class NeededRowGroups extends AbstractFunction1 implements Serializable {
  private final Function1 reader; // Spark's function that reads a file or a part of it
  private final DeletedPositions positions;
  private final int numberPlace; // the index of the constant with the number of a file
  private final SerializableConfiguration settings;

  NeededRowGroups(Function1 reader, DeletedPositions positions, int numberPlace, Configuration settings) {
    this.reader = reader;
    this.positions = positions;
    this.numberPlace = numberPlace;
    this.settings = new SerializableConfiguration(settings);
  }

  public Object apply(Object file) {
    return new Parts(reader, partsOf((PartitionedFile) file));
  }

  private List partsOf(PartitionedFile file) {
    ArrayList parts = new ArrayList();
    PeekableIntIterator rows = positions.of(file.partitionValues().getInt(numberPlace));
    List groups = groupsOf(file);
    long start = -1L, end = -1L; // of the run of row groups that ends with the last one
    for (int i = 0; i < groups.size(); i++) {
      BlockMetaData group = (BlockMetaData) groups.get(i);
      long first = group.getRowIndexOffset();
      long middle = group.getStartingPos() + group.getCompressedSize() / 2; // by which Spark assigns row groups to splits of a file
      boolean isRead = middle >= file.start() && middle < file.start() + file.length() && DeletedRows.nextFrom(rows, first) < first + group.getRowCount();
      if (isRead && start < 0L) start = group.getStartingPos();
      if (isRead) end = group.getStartingPos() + group.getCompressedSize();
      if (start >= 0L && (!isRead || i == groups.size() - 1)) {
        parts.add(part(file, start, end - start));
        start = -1L;
      }
    }
    return parts;
  }

  private List groupsOf(PartitionedFile file) {
    try {
      ParquetFileReader footer = ParquetFileReader.open(HadoopInputFile.fromPath(new Path(file.toPath().toUri()), settings.value()));
      try {
        return footer.getFooter().getBlocks();
      } finally {
        footer.close();
      }
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  private static PartitionedFile part(PartitionedFile file, long start, long length) {
    return new PartitionedFile(file.partitionValues(), file.filePath(), start, length, file.locations(), file.modificationTime(), file.fileSize(), file.otherConstantMetadataColumnValues());
  }

  /** The rows or batches of parts of a file, one part after another. The first is opened at once, because the caller notes what its footer shows. */
  private static final class Parts extends AbstractIterator implements Closeable {
    private final Function1 reader;
    private final List parts;
    private int opened;
    private Iterator rows; // of the part that was opened last; null if there are no parts

    Parts(Function1 reader, List parts) {
      this.reader = reader;
      this.parts = parts;
      if (!parts.isEmpty()) open();
    }

    private void open() {
      rows = (Iterator) reader.apply(parts.get(opened++));
    }

    public boolean hasNext() {
      while (rows != null && !rows.hasNext() && opened < parts.size()) open();
      return rows != null && rows.hasNext();
    }

    public Object next() {
      if (!hasNext()) throw new java.util.NoSuchElementException();
      return rows.next();
    }

    public void close() throws IOException {
      if (rows instanceof Closeable) ((Closeable) rows).close();
    }
  }
}
