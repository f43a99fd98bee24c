package icefloe;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/** The planned files as splits that have partition keys, read by the Parquet reader of Spark's own connector. */
public final class PartitionedBatch implements Batch {
  private final InputPartition[] splits;
  private final PartitionReaderFactory readers;

  /**
   * The constants of the files are the `keys` values of the key, then the columns with one value per file, which are read after those of `data`. The options override settings of the session: the
   * reader takes some from its options, and some from its Hadoop configuration, for example whether columns are found by id.
   */
  public PartitionedBatch(SparkSession session, PlannedFiles files, Number keys, StructType data, StructType constants, Number splitBytes, Map options) throws Exception {
    this.splits = splits(files, keys.intValue(), splitBytes.longValue());
    Configuration configuration = session.sessionState().newHadoopConfWithOptions(PythonUtils.toScalaMap(options));
    this.readers = readers(session, configuration, data, constants, new CaseInsensitiveStringMap(options));
  }

  private static InputPartition[] splits(PlannedFiles files, int keys, long splitBytes) {
    Seq nothing = PythonUtils.toSeq(new ArrayList());
    Seq directories = files.listFiles(nothing, nothing);
    ArrayList splits = new ArrayList();
    for (int i = 0; i < directories.size(); i++) {
      PartitionDirectory directory = (PartitionDirectory) directories.apply(i);
      FileStatusWithMetadata file = (FileStatusWithMetadata) directory.files().apply(0);
      StructType types = files.partitionSchema();
      InternalRow key = part(directory.values(), types, 0, keys);
      InternalRow values = part(directory.values(), types, keys, types.length());
      SparkPath path = SparkPath.fromPath(file.getPath());
      for (long start = 0; start < file.getLen(); start += splitBytes) {
        long length = Math.min(splitBytes, file.getLen() - start);
        PartitionedFile range = new PartitionedFile(values, path, start, length, new String[0], 0L, file.getLen(), Map$.MODULE$.empty());
        splits.add(new PartitionSplit(splits.size(), new PartitionedFile[] {range}, key));
      }
    }
    return (InputPartition[]) splits.toArray(new InputPartition[0]);
  }

  private static InternalRow part(InternalRow row, StructType types, int from, int to) {
    Object[] values = new Object[to - from];
    for (int i = from; i < to; i++) values[i - from] = row.isNullAt(i) ? null : row.get(i, types.apply(i).dataType());
    return new GenericInternalRow(values);
  }

  /** Creates the readers of Spark's Parquet scan, whose constructor has more parameters in later versions; those that are not set here are empty. */
  private static PartitionReaderFactory readers(SparkSession session, Configuration configuration, StructType data, StructType constants, CaseInsensitiveStringMap options)
      throws Exception {
    Constructor constructor = ParquetScan.class.getConstructors()[0];
    Class[] types = constructor.getParameterTypes();
    Object[] arguments = new Object[types.length];
    Iterator structs = Arrays.asList(new Object[] {data, data, constants}).iterator();
    for (int i = 0; i < types.length; i++) {
      if (types[i].isInstance(session)) arguments[i] = session;
      else if (types[i] == Configuration.class) arguments[i] = configuration;
      else if (types[i] == StructType.class) arguments[i] = structs.next();
      else if (types[i] == CaseInsensitiveStringMap.class) arguments[i] = options;
      else if (types[i] == Option.class) arguments[i] = Option.empty();
      else if (types[i] == Seq.class) arguments[i] = PythonUtils.toSeq(new ArrayList());
      else if (types[i].isArray()) arguments[i] = Array.newInstance(types[i].getComponentType(), 0);
    }
    return ((ParquetScan) constructor.newInstance(arguments)).createReaderFactory();
  }

  public InputPartition[] planInputPartitions() {
    return splits;
  }

  public PartitionReaderFactory createReaderFactory() {
    return readers;
  }
}
