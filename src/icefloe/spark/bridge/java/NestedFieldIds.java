package icefloe;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * The ids of fields inside of structs. Spark's reader of Parquet takes them from the metadata of the fields, which are part of the type of a column, and the rest of a query has types without them:
 * so that a column has one type in all of a plan, and that files written from it have no ids of this table, only the reader gets them.
 */
final class NestedFieldIds {
  private static final String KEY = "parquet.field.id";

  private NestedFieldIds() {}

  /** Returns columns with their own ids alone; the argument itself where none has fields with ids inside. */
  static StructType without(StructType columns) {
    StructField[] fields = new StructField[columns.length()];
    boolean isChanged = false;
    for (int i = 0; i < fields.length; i++) {
      StructField field = columns.apply(i);
      DataType type = without(field.dataType());
      isChanged |= !type.equals(field.dataType());
      fields[i] = new StructField(field.name(), type, field.nullable(), field.metadata());
    }
    return isChanged ? new StructType(fields) : columns;
  }

  private static DataType without(DataType type) {
    if (type instanceof ArrayType) return new ArrayType(without(((ArrayType) type).elementType()), ((ArrayType) type).containsNull());
    if (type instanceof MapType) return new MapType(without(((MapType) type).keyType()), without(((MapType) type).valueType()), ((MapType) type).valueContainsNull());
    if (!(type instanceof StructType)) return type;
    StructField[] fields = new StructField[((StructType) type).length()];
    for (int i = 0; i < fields.length; i++) {
      StructField field = ((StructType) type).apply(i);
      fields[i] = new StructField(field.name(), without(field.dataType()), field.nullable(), new MetadataBuilder().withMetadata(field.metadata()).remove(KEY).build());
    }
    return new StructType(fields);
  }

  /** Returns columns with the ids that their fields have in `all`, which has every one of them by name; columns that it does not have stay as they are. */
  static StructType with(StructType columns, StructType all) {
    StructField[] fields = new StructField[columns.length()];
    for (int i = 0; i < fields.length; i++) {
      StructField field = columns.apply(i);
      Option place = all.getFieldIndex(field.name());
      StructField whole = place.isDefined() ? all.apply(((Integer) place.get()).intValue()) : null;
      fields[i] = whole == null ? field : new StructField(field.name(), with(field.dataType(), whole.dataType()), field.nullable(), whole.metadata());
    }
    return new StructType(fields);
  }

  private static DataType with(DataType type, DataType all) {
    if (type instanceof StructType && all instanceof StructType) return with((StructType) type, (StructType) all);
    if (type instanceof ArrayType && all instanceof ArrayType) {
      return new ArrayType(with(((ArrayType) type).elementType(), ((ArrayType) all).elementType()), ((ArrayType) type).containsNull());
    }
    if (!(type instanceof MapType) || !(all instanceof MapType)) return type;
    MapType map = (MapType) type;
    return new MapType(with(map.keyType(), ((MapType) all).keyType()), with(map.valueType(), ((MapType) all).valueType()), map.valueContainsNull());
  }
}
