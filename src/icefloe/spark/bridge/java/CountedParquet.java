package icefloe;

import java.io.Serializable;
import java.util.ArrayList;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Spark's Parquet format with a faster column of row positions. Where a file is read whole, from its first row to its last, the positions are counted, which costs nothing, while Spark
 * makes an object of each number. All else is Spark's, and so is this column where a file is split or row groups may be left out.
 *
 * Executors receive these classes in a jar. Spec: Reserved Field IDs (_pos).
 */
public final class CountedParquet extends ParquetFileFormat {
  private final String position; // the column's name

  public CountedParquet(String position) {
    this.position = position;
  }

  private int placeIn(StructType schema) {
    Option place = schema.getFieldIndex(position);
    return place.isDefined() ? ((Integer) place.get()).intValue() : -1;
  }

  public Option vectorTypes(StructType required, StructType partition, SQLConf conf) {
    int place = placeIn(required);
    Option types = super.vectorTypes(required, partition, conf);
    if (place < 0 || !types.isDefined()) return types;
    ArrayList names = new ArrayList();
    for (int i = 0; i < ((Seq) types.get()).size(); i++) names.add(i == place ? ColumnVector.class.getName() : ((Seq) types.get()).apply(i));
    return Option.apply(PythonUtils.toSeq(names));
  }

  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partition, StructType required, Seq filters, Map options, Configuration hadoop) {
    Function1 spark = super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, hadoop);
    int place = placeIn(required);
    // Spark sets this option where the reader returns batches.
    Option batches = options.get("returning_batch");
    if (place < 0 || leaveOut(filters) || !batches.isDefined() || !"true".equals(batches.get())) return spark;
    ArrayList others = new ArrayList();
    StructField[] fields = required.fields();
    for (int i = 0; i < fields.length; i++) if (i != place) others.add(fields[i]);
    Seq none = PythonUtils.toSeq(new ArrayList());
    StructType read = new StructType((StructField[]) others.toArray(new StructField[0]));
    Configuration configuration = new Configuration(hadoop); // Spark writes the columns into it
    return new Reading(spark, super.buildReaderWithPartitionValues(session, data, partition, read, none, options, configuration), place);
  }

  /** Returns whether the reader of a file may leave out rows by these filters. A filter IS NOT NULL does not count, as row groups with nothing but nulls are rare. */
  private static boolean leaveOut(Seq filters) {
    for (int i = 0; i < filters.size(); i++) if (!(filters.apply(i) instanceof IsNotNull)) return true;
    return false;
  }

  private static final class Reading extends AbstractFunction1 implements Serializable {
    private final Function1 spark;
    private final Function1 uncounted;
    private final int place;

    Reading(Function1 spark, Function1 uncounted, int place) {
      this.spark = spark;
      this.uncounted = uncounted;
      this.place = place;
    }

    public Object apply(Object file) {
      PartitionedFile part = (PartitionedFile) file;
      boolean isWhole = part.start() == 0L && part.length() == part.fileSize();
      return isWhole ? new Counting((Iterator) uncounted.apply(file), place) : spark.apply(file);
    }
  }

  /** The batches of a whole file, with the positions of their rows. */
  private static final class Counting extends AbstractIterator {
    private final Iterator batches;
    private final int place;
    private final Positions positions = new Positions();
    private ColumnarBatch last; // the batch without positions; a reader returns the same object again and again
    private ColumnarBatch counted;

    Counting(Iterator batches, int place) {
      this.batches = batches;
      this.place = place;
    }

    public boolean hasNext() {
      return batches.hasNext();
    }

    public Object next() {
      ColumnarBatch read = (ColumnarBatch) batches.next();
      if (read != last) {
        ColumnVector[] columns = new ColumnVector[read.numCols() + 1];
        for (int i = 0; i < columns.length; i++) columns[i] = i == place ? positions : read.column(i < place ? i : i - 1);
        counted = new ColumnarBatch(columns);
        last = read;
      }
      positions.follow(read.numRows());
      counted.setNumRows(read.numRows());
      return counted;
    }
  }
}
