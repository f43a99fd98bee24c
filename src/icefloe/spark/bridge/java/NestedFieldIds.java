package icefloe;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Adds and removes the ids of nested fields. Spark's Parquet reader finds an id in the metadata of the field, which is part of the type of the column. Only the reader gets types with ids: in
 * the rest of a query they are without ids, so that a column has the same type everywhere in a plan, and files that the query writes do not get the ids of this table.
 */
final class NestedFieldIds {
  private static final String KEY = "parquet.field.id";

  private NestedFieldIds() {}

  /** Returns the columns without the ids of nested fields; the ids of the columns themselves stay. Returns the argument itself if no nested field has an id. */
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

  /** Returns the columns with the ids that fields of the same names have in `all`. Columns that are missing in `all` stay as they are; the nested fields of the others must all be in it. */
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
