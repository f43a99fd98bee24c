package icefloe;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetInputFormat;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Spark's Parquet format that also reads unsigned integers, if every value fits the signed type of the table; a value that does not fit fails the query. Some writers store unsigned numbers in
 * columns of type `int` and `long`, and no metadata of the table shows this. The footer shows it, which the reader opens anyway. Errors of files have the table and the next step.
 * All else is as in Spark's format.
 *
 * Executors receive these classes in a jar. Spec: Parquet (Appendix A).
 */
public class SignedParquet extends ParquetFileFormat {
  final String table; // its name, for errors
  private final transient StructType columns; // all columns that a plan may read, with the ids of nested fields, which the plan's types do not have; null if no nested field has an id

  private final transient String obstacle; // why no accelerator may read the files; null if it may

  SignedParquet(String table, String obstacle, StructType columns) {
    this.table = table;
    this.obstacle = obstacle;
    this.columns = columns;
  }

  /** Returns this format for columns whose nested fields have ids. */
  SignedParquet of(StructType columns) {
    return new SignedParquet(table, obstacle, columns);
  }

  /** Returns the columns that a plan may read, with the ids of fields inside; null where there are none. */
  StructType columns() {
    return columns;
  }

  /** Returns why no accelerator may read the files; null if it may. */
  String obstacle() {
    return obstacle;
  }

  /** Returns what decides, beside the files and the columns, which rows are read and who may read them: formats for which it is equal can read their columns together. */
  List rows() {
    return Arrays.asList(new Object[] {getClass(), table, obstacle});
  }

  /** Returns Spark's function that reads a file. A subclass overrides it to add columns. The arguments are those of `buildReaderWithPartitionValues`. */
  protected Function1 readerOf(SparkSession session, StructType data, StructType partition, StructType required, Seq filters, Map options, Configuration hadoop) {
    return super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, hadoop);
  }

  public final Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partition, StructType named, Seq filters, Map options, Configuration hadoop) {
    StructType required = columns == null ? named : NestedFieldIds.with(named, columns);
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    boolean isVectorised = ParquetUtils.isBatchReadSupportedForSchema(conf, required) && ParquetUtils.isBatchReadSupportedForSchema(conf, partition);
    Function1 reader = readerOf(session, data, partition, required, filters, options, isVectorised ? new WithReadSupport(hadoop) : hadoop);
    return new Reading(reader, required, isVectorised ? null : new SerializableConfiguration(hadoop), table);
  }

  /** Returns whether the same field ids are read, so that Spark does not take a plan of other fields for an equal one. */
  public boolean equals(Object other) {
    return other instanceof SignedParquet && other.getClass() == getClass() && Objects.equals(columns, ((SignedParquet) other).columns);
  }

  public int hashCode() {
    return getClass().hashCode();
  }

  /** Hadoop settings in which Parquet's read support class is always SignedReadSupport, also if Spark sets its own class. */
  private static final class WithReadSupport extends Configuration {
    WithReadSupport(Configuration settings) {
      super(settings);
    }

    public void set(String name, String value) {
      super.set(name, ParquetInputFormat.READ_SUPPORT_CLASS.equals(name) ? SignedReadSupport.class.getName() : value);
    }
  }

  private static final class Reading extends AbstractFunction1 implements Serializable {
    private final Function1 reader;
    private final StructType required;
    private final SerializableConfiguration settings; // null with the vectorised reader. The row reader does not use `SignedReadSupport`, so that the footer is read here
    private final String table;

    Reading(Function1 reader, StructType required, SerializableConfiguration settings, String table) {
      this.reader = reader;
      this.required = required;
      this.settings = settings;
      this.table = table;
    }

    public Object apply(Object opened) {
      PartitionedFile file = (PartitionedFile) opened;
      String path = file.toPath().toString();
      SignedReadSupport.takeUnsigned();
      Iterator rows;
      UnsignedValues[] unsigned;
      try {
        rows = new FileErrors((Iterator) reader.apply(file), path, table);
        unsigned = settings == null ? SignedReadSupport.takeUnsigned() : unsignedIn(file);
      } catch (Exception error) {
        throw FileErrors.described(error, path, table);
      }
      if (unsigned == null) return rows;
      int[] places = new int[unsigned.length];
      for (int i = 0; i < places.length; i++) places[i] = required.fieldIndex(unsigned[i].path);
      return new SignedRows(rows, unsigned, places, path, table);
    }

    private UnsignedValues[] unsignedIn(PartitionedFile file) {
      try {
        ParquetFileReader footer = ParquetFileReader.open(HadoopInputFile.fromPath(new Path(file.toPath().toUri()), settings.value()));
        try {
          MessageType columns = ParquetReadSupport.getRequestedSchema(footer.getFileMetaData().getSchema(), required, settings.value(), false);
          return SignedReadSupport.unsignedColumns(columns, required.json());
        } finally {
          footer.close();
        }
      } catch (java.io.IOException error) {
        throw new java.io.UncheckedIOException(error);
      }
    }
  }
}
