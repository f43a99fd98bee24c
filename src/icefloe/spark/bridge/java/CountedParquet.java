package icefloe;

import java.io.Serializable;
import java.util.ArrayList;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.roaringbitmap.PeekableIntIterator;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Spark's Parquet format with two additional columns: the position of a row in its file, and whether the row is deleted by its position. Spark has a column of positions too, but creates an object
 * for each position; here the positions follow from the row groups that the reader opens. All else is as in SignedParquet.
 *
 * Executors receive these classes in a jar. Spec: Reserved Field IDs (_pos); Deletion Vectors.
 */
public final class CountedParquet extends SignedParquet {
  private final String position; // the name of the column of positions, which is that of Spark's own
  // The name of the column with whether a row is deleted.
  private final String deleted;
  private final String number; // the name of the constant column with the number of a file in `positions`
  private final DeletedPositions positions; // null if no row is deleted
  private final boolean follows; // whether this Spark shows its row groups (RowGroups); if not, positions are read from Spark's column

  public CountedParquet(String table, String position, String deleted, String number, DeletedPositions positions, Boolean follows) {
    this(table, position, deleted, number, positions, follows, null);
  }

  private CountedParquet(String table, String position, String deleted, String number, DeletedPositions positions, Boolean follows, StructType columns) {
    super(table, false, columns);
    this.position = position;
    this.deleted = deleted;
    this.number = number;
    this.positions = positions;
    this.follows = follows.booleanValue();
  }

  /** Returns whether rows of the files are deleted by their positions. */
  boolean hasDeletes() {
    return positions != null;
  }

  /** Returns the name of the column of deleted rows. */
  String deletedColumn() {
    return deleted;
  }

  SignedParquet of(StructType columns) {
    return new CountedParquet(table, position, deleted, number, positions, Boolean.valueOf(follows), columns);
  }

  private static int placeIn(StructType schema, String name) {
    Option place = schema.getFieldIndex(name);
    return place.isDefined() ? ((Integer) place.get()).intValue() : -1;
  }

  public Option vectorTypes(StructType required, StructType partition, SQLConf conf) {
    Option types = super.vectorTypes(required, partition, conf);
    if (!types.isDefined()) return types;
    int positionPlace = placeIn(required, position);
    int deletedPlace = placeIn(required, deleted);
    ArrayList names = new ArrayList();
    for (int i = 0; i < ((Seq) types.get()).size(); i++) {
      names.add(i == positionPlace || i == deletedPlace ? ColumnVector.class.getName() : ((Seq) types.get()).apply(i));
    }
    return Option.apply(PythonUtils.toSeq(names));
  }

  protected Function1 readerOf(
      SparkSession session, StructType data, StructType partition, StructType required, Seq filters, Map options, Configuration hadoop) {
    int positionPlace = placeIn(required, position);
    int deletedPlace = placeIn(required, deleted);
    if (positionPlace < 0 && deletedPlace < 0) return super.readerOf(session, data, partition, required, filters, options, hadoop);
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    boolean isVectorised = ParquetUtils.isBatchReadSupportedForSchema(conf, required) && ParquetUtils.isBatchReadSupportedForSchema(conf, partition);
    boolean isFollowed = follows && isVectorised;
    ArrayList fields = new ArrayList();
    for (int i = 0; i < required.length(); i++) {
      if (i != positionPlace && i != deletedPlace) fields.add(required.apply(i));
      // If the positions themselves are not read, Spark's column of positions replaces the column of deleted rows.
      else if (!isFollowed) fields.add(positionPlace < 0 ? new StructField(position, DataTypes.LongType, true, Metadata.empty()) : required.apply(i));
    }
    StructType read = new StructType((StructField[]) fields.toArray(new StructField[0]));
    Function1 spark = super.readerOf(session, data, partition, read, filters, options, hadoop);
    // Spark sets this option if the reader is to return batches.
    Option batches = options.get("returning_batch");
    boolean returnsBatches = batches.isDefined() && "true".equals(batches.get());
    return new Reading(spark, positionPlace, deletedPlace, placeIn(partition, number), positions, isFollowed, isVectorised && (isFollowed || returnsBatches), returnsBatches);
  }

  /** Returns whether the same rows are deleted and the same field ids are read, so that Spark does not take a plan of other rows or fields for an equal one. */
  public boolean equals(Object other) {
    if (!super.equals(other)) return false;
    DeletedPositions others = ((CountedParquet) other).positions;
    return positions == null ? others == null : positions.equals(others);
  }

  public int hashCode() {
    return positions == null ? 0 : positions.hashCode();
  }

  private static final class Reading extends AbstractFunction1 implements Serializable {
    private final Function1 spark;
    private final int positionPlace; // -1 for a column that is not read
    private final int deletedPlace;
    private final int numberPlace;
    private final DeletedPositions positions;
    private final boolean follows;
    private final boolean readsBatches;
    private final boolean returnsBatches;

    Reading(
        Function1 spark, int positionPlace, int deletedPlace, int numberPlace, DeletedPositions positions, boolean follows, boolean readsBatches, boolean returnsBatches) {
      this.spark = spark;
      this.positionPlace = positionPlace;
      this.deletedPlace = deletedPlace;
      this.numberPlace = numberPlace;
      this.positions = positions;
      this.follows = follows;
      this.readsBatches = readsBatches;
      this.returnsBatches = returnsBatches;
    }

    public Object apply(Object file) {
      Iterator read = (Iterator) spark.apply(file);
      PeekableIntIterator deleted = deletedPlace < 0 ? null : positions.of(((PartitionedFile) file).partitionValues().getInt(numberPlace));
      if (!readsBatches) return new CountedRows(read, positionPlace < 0 ? deletedPlace : positionPlace, deletedPlace, deleted);
      return new CountedBatches(read, follows ? RowGroups.of(read) : null, positionPlace, deletedPlace, deleted, returnsBatches);
    }
  }
}
