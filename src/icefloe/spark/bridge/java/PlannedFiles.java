package icefloe;

import java.io.ByteArrayInputStream;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.zip.InflaterInputStream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Spark's file index over exactly the data files that were planned, each with a row of constants. No folder is listed; Python has planned the files.
 *
 * The files arrive as one Arrow stream, deflated: `path` (string), `size` (long, bytes), then one column for each constant. Spark treats the constants as partition columns: it removes
 * filters on them from the query, and relies on `listFiles` to apply these filters. The sources use raw types and no lambdas, because Janino compiles them.
 */
public final class PlannedFiles implements FileIndex {
  private static final long BLOCK_SIZE = 134217728L; // bytes; only a FileStatus needs it, the sizes of splits follow spark.sql.files.maxPartitionBytes

  private final ArrayList directories = new ArrayList();
  private final StructType constants;
  private final String table; // its name
  private final LinkedHashMap folders = new LinkedHashMap(); // the text that all paths of a store begin with, by the scheme and authority of the store
  private final byte[] digest;
  private final long bytes; // estimated bytes of the columns in the files, for Spark's optimizer
  private final ScanMetrics metrics;

  public PlannedFiles(byte[] stream, StructType constants, String table, Number bytes, ScanMetrics metrics) throws Exception {
    this.constants = constants;
    this.metrics = metrics;
    this.bytes = bytes.longValue();
    this.table = table;
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    sha.update(table.getBytes("UTF-8"));
    sha.update(constants.json().getBytes("UTF-8"));
    this.digest = sha.digest(stream);
    BufferAllocator allocator = ArrowUtils$.MODULE$.rootAllocator().newChildAllocator("icefloe planned files", 0L, Long.MAX_VALUE);
    try {
      ArrowStreamReader reader = new ArrowStreamReader(new InflaterInputStream(new ByteArrayInputStream(stream)), allocator);
      try {
        VectorSchemaRoot batch = reader.getVectorSchemaRoot();
        while (reader.loadNextBatch()) addAll(batch);
      } finally {
        reader.close();
      }
    } finally {
      allocator.close();
    }
  }

  private void addAll(VectorSchemaRoot batch) {
    VarCharVector paths = (VarCharVector) batch.getVector(0);
    BigIntVector sizes = (BigIntVector) batch.getVector(1);
    ColumnVector[] columns = new ColumnVector[constants.length()];
    for (int i = 0; i < columns.length; i++) columns[i] = new ArrowColumnVector(batch.getVector(i + 2));
    ColumnarBatch rows = new ColumnarBatch(columns, batch.getRowCount());
    for (int i = 0; i < batch.getRowCount(); i++) {
      // Path takes the text literally: it does not decode `%`, `#` or spaces.
      String text = new String(paths.get(i), java.nio.charset.StandardCharsets.UTF_8);
      Path path = new Path(text);
      addFolder(path, text);
      FileStatus status = new FileStatus(sizes.get(i), false, 1, BLOCK_SIZE, 0L, path);
      ArrayList files = new ArrayList(1);
      files.add(new FileStatusWithMetadata(status, Map$.MODULE$.empty()));
      directories.add(new PartitionDirectory(rows.getRow(i).copy(), PythonUtils.toSeq(files)));
    }
  }

  private void addFolder(Path path, String text) {
    String store = path.toUri().getScheme() + "://" + path.toUri().getAuthority();
    String common = (String) folders.get(store);
    int length = common == null ? text.lastIndexOf('/') + 1 : 0;
    while (common != null && length < common.length() && length < text.length() && common.charAt(length) == text.charAt(length)) length++;
    if (common == null || length < common.length()) folders.put(store, text.substring(0, length));
  }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    ArrayList selected = directories;
    for (int i = 0; i < partitionFilters.size(); i++) {
      selected = matching(selected, (Expression) partitionFilters.apply(i));
    }
    return PythonUtils.toSeq(selected);
  }

  private ArrayList matching(ArrayList from, Expression filter) {
    InterpretedPredicate predicate = Predicate$.MODULE$.createInterpreted((Expression) new Binding(constants).apply(filter));
    predicate.initialize(0);
    ArrayList matches = new ArrayList();
    for (int i = 0; i < from.size(); i++) {
      PartitionDirectory directory = (PartitionDirectory) from.get(i);
      if (predicate.eval(directory.values())) matches.add(directory);
    }
    return matches;
  }

  /** Replaces each column reference by the index of the constant with its name, as Spark's own file indexes do. */
  private static final class Binding extends AbstractFunction1 {
    private final StructType constants;

    Binding(StructType constants) {
      this.constants = constants;
    }

    public Object apply(Object node) {
      if (node instanceof AttributeReference) {
        int place = constants.fieldIndex(((AttributeReference) node).name());
        return new BoundReference(place, constants.apply(place).dataType(), true);
      }
      return ((Expression) node).mapChildren(this);
    }
  }

  ScanMetrics metrics() {
    return metrics;
  }

  /** Returns the name of the table. */
  String table() {
    return table;
  }

  /** Returns the innermost folder of all files, for each store that has some: tools show it, and accelerators look at its scheme. */
  public Seq rootPaths() {
    ArrayList paths = new ArrayList();
    Iterator common = folders.values().iterator();
    while (common.hasNext()) {
      String text = (String) common.next();
      paths.add(new Path(text.substring(0, text.lastIndexOf('/') + 1)));
    }
    return PythonUtils.toSeq(paths);
  }

  public String[] inputFiles() {
    String[] paths = new String[directories.size()];
    for (int i = 0; i < paths.length; i++) {
      FileStatusWithMetadata file = (FileStatusWithMetadata) ((PartitionDirectory) directories.get(i)).files().apply(0);
      paths[i] = file.getPath().toString();
    }
    return paths;
  }

  public void refresh() {}

  public long sizeInBytes() {
    return bytes;
  }

  public StructType partitionSchema() {
    return constants;
  }

  /** Returns the time of planning, which Spark counts as metadata time of its scan. */
  public scala.Option metadataOpsTimeNs() {
    return scala.Option.apply(Long.valueOf(metrics.metadataTime()));
  }

  /** Returns whether the files, their constants and the table's name are equal, so that Spark finds cached data and equal parts of a plan. */
  public boolean equals(Object other) {
    return other instanceof PlannedFiles && Arrays.equals(digest, ((PlannedFiles) other).digest);
  }

  public int hashCode() {
    return Arrays.hashCode(digest);
  }

  public String toString() {
    return directories.size() + " planned files of " + table;
  }
}
