package icefloe;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
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
 * Spark's Parquet format without the rows that are deleted by their positions, or with a column of whether they are, and with a column of the positions of rows in their files. Spark has a column of
 * positions too, but creates an object for each position; here the positions follow from the row groups that the reader opens. All else is as in SignedParquet.
 *
 * Executors receive these classes in a jar. Spec: Reserved Field IDs (_pos); Deletion Vectors.
 */
public final class CountedParquet extends SignedParquet {
  private final String position; // the name of the column of positions, which is that of Spark's own
  // The name of the column with whether a row is deleted.
  private final String deleted;
  private final String number; // the name of the constant column with the number of a file in `positions`
  private final DeletedPositions positions; // null if no row is deleted
  private final boolean returnsDeleted; // whether deleted rows are returned too
  private final boolean follows; // whether this Spark shows its row groups and vectors; if not, the reader returns rows, and positions are read from Spark's column
  private final transient ArrayList conditions; // Expression objects: rows that do not meet them need not be returned

  public CountedParquet(String table, String position, String deleted, String number, DeletedPositions positions, Boolean returnsDeleted, Boolean follows) {
    this(table, position, deleted, number, positions, returnsDeleted, follows, null, new ArrayList());
  }

  private CountedParquet(
      String table, String position, String deleted, String number, DeletedPositions positions, Boolean returnsDeleted, Boolean follows, StructType columns, ArrayList conditions) {
    super(table, positions == null ? "the query reads positions of rows" : "rows are deleted by position", columns);
    this.position = position;
    this.deleted = deleted;
    this.number = number;
    this.positions = positions;
    this.returnsDeleted = returnsDeleted.booleanValue();
    this.follows = follows.booleanValue();
    this.conditions = conditions;
  }

  /** Returns the name of the column of deleted rows if the reader leaves these rows out; null if there are none, or they are returned. */
  String leftOut() {
    return positions == null || returnsDeleted ? null : deleted;
  }

  List rows() {
    return Arrays.asList(new Object[] {super.rows(), position, deleted, number, positions, Boolean.valueOf(returnsDeleted), conditions});
  }

  SignedParquet of(StructType columns) {
    return new CountedParquet(table, position, deleted, number, positions, Boolean.valueOf(returnsDeleted), Boolean.valueOf(follows), columns, conditions);
  }

  /** Returns this format, which leaves out rows that do not meet the filters of the scan, as far as they cannot fail. The plan must test them all the same. */
  CountedParquet selecting(Seq filters) {
    ArrayList tested = new ArrayList();
    for (int i = 0; i < filters.size(); i++) {
      Expression filter = (Expression) filters.apply(i);
      if (DataSourceStrategy$.MODULE$.translateFilter(filter, false).isDefined()) tested.add(filter);
    }
    return new CountedParquet(table, position, deleted, number, positions, Boolean.valueOf(returnsDeleted), Boolean.valueOf(follows), columns(), tested);
  }

  private static int placeIn(StructType schema, String name) {
    Option place = schema.getFieldIndex(name);
    return place.isDefined() ? ((Integer) place.get()).intValue() : -1;
  }

  public boolean supportBatch(SparkSession session, StructType schema) {
    return follows && super.supportBatch(session, schema);
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
    if (positionPlace < 0 && deletedPlace < 0 && leftOut() == null) return super.readerOf(session, data, partition, required, filters, options, hadoop);
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    boolean isFollowed = follows && ParquetUtils.isBatchReadSupportedForSchema(conf, required) && ParquetUtils.isBatchReadSupportedForSchema(conf, partition);
    StructField sparks = new StructField(position, DataTypes.LongType, true, Metadata.empty());
    ArrayList fields = new ArrayList();
    for (int i = 0; i < required.length(); i++) {
      if (i != positionPlace && i != deletedPlace) fields.add(required.apply(i));
      // If the positions themselves are not read, Spark's column of positions replaces the column of deleted rows.
      else if (!isFollowed) fields.add(positionPlace < 0 ? sparks : required.apply(i));
    }
    boolean isAdded = !isFollowed && positionPlace < 0 && deletedPlace < 0;
    if (isAdded) fields.add(sparks);
    StructType read = new StructType((StructField[]) fields.toArray(new StructField[0]));
    Function1 spark = super.readerOf(session, data, partition, read, filters, options, hadoop);
    // Spark sets this option if the reader is to return batches.
    Option batches = options.get("returning_batch");
    boolean returnsBatches = batches.isDefined() && "true".equals(batches.get());
    ArrayList returned = isAdded ? references(required, partition) : null;
    int sparksPlace = positionPlace >= 0 ? positionPlace : isAdded ? required.length() : deletedPlace;
    Function1 reading = new Reading(
        spark, isFollowed ? positionPlace : sparksPlace, deletedPlace, placeIn(partition, number), positions, returnsDeleted, isFollowed, returnsBatches, returned, condition(read));
    boolean needsFewRows = positions != null && positions.areNeededAlone();
    return needsFewRows ? new NeededRowGroups(reading, positions, placeIn(partition, number), hadoop) : reading;
  }

  /** Returns references to the columns of rows that have a column of positions between those of the files and the constants. */
  private static ArrayList references(StructType required, StructType partition) {
    ArrayList references = new ArrayList();
    for (int i = 0; i < required.length(); i++) references.add(new BoundReference(i, required.apply(i).dataType(), true));
    for (int i = 0; i < partition.length(); i++) references.add(new BoundReference(required.length() + 1 + i, partition.apply(i).dataType(), true));
    return references;
  }

  /** Returns the condition that rows must meet, which refers to the columns that are read; null if there is none. */
  private Expression condition(StructType read) {
    Expression condition = null;
    for (int i = 0; i < conditions.size(); i++) {
      Expression bound = (Expression) new Binding(read).apply(conditions.get(i));
      condition = condition == null ? bound : new And(condition, bound);
    }
    return condition;
  }

  private static final class Binding extends AbstractFunction1 {
    private final StructType read;

    Binding(StructType read) {
      this.read = read;
    }

    public Object apply(Object node) {
      if (!(node instanceof Attribute)) return ((Expression) node).mapChildren(this);
      int place = read.fieldIndex(((Attribute) node).name());
      return new BoundReference(place, read.apply(place).dataType(), true);
    }
  }

  /** Returns whether the same rows are deleted and the same field ids are read, so that Spark does not take a plan of other rows or fields for an equal one. */
  public boolean equals(Object other) {
    if (!super.equals(other)) return false;
    CountedParquet counted = (CountedParquet) other;
    return returnsDeleted == counted.returnsDeleted && (positions == null ? counted.positions == null : positions.equals(counted.positions));
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
    private final boolean returnsDeleted;
    private final boolean readsBatches;
    private final boolean returnsBatches;
    private final ArrayList returned; // the columns of the rows, if Spark's column of positions was added to them
    private final Expression condition; // null for none

    Reading(
        Function1 spark, int positionPlace, int deletedPlace, int numberPlace, DeletedPositions positions, boolean returnsDeleted, boolean readsBatches, boolean returnsBatches, ArrayList returned, Expression condition) {
      this.spark = spark;
      this.positionPlace = positionPlace;
      this.deletedPlace = deletedPlace;
      this.numberPlace = numberPlace;
      this.positions = positions;
      this.returnsDeleted = returnsDeleted;
      this.readsBatches = readsBatches;
      this.returnsBatches = returnsBatches;
      this.returned = returned;
      this.condition = condition;
    }

    public Object apply(Object file) {
      Iterator read = (Iterator) spark.apply(file);
      PeekableIntIterator deleted = positions == null ? null : positions.of(((PartitionedFile) file).partitionValues().getInt(numberPlace));
      if (!readsBatches) {
        UnsafeProjection projection = returned == null ? null : UnsafeProjection.create(PythonUtils.toSeq(returned));
        return new CountedRows(read, positionPlace, deletedPlace, deleted, returnsDeleted, projection);
      }
      SelectedRows selected = deleted == null || returnsDeleted ? null : new SelectedRows(deleted, predicate());
      return new CountedBatches(read, positionPlace, deletedPlace, new DeletedRows(deleted), selected, returnsBatches);
    }

    private BasePredicate predicate() {
      if (condition == null) return null;
      BasePredicate predicate = Predicate$.MODULE$.create(condition);
      predicate.initialize(0);
      return predicate;
    }
  }
}
