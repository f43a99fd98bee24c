package icefloe;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.execution.datasources.VariantMetadata$;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * A column of a Parquet file, or a nested field, with unsigned integers that are read as a signed type of the same width. A value with the highest bit set would be read as a negative number;
 * `check` refuses it. Spark's reader must be shown the type `signed`, because it does not support dictionaries of unsigned numbers, and would refuse most of such files.
 */
final class UnsignedValues {
  final String path;
  final Type signed; // the type of the column in the file, with signed in place of unsigned integers
  private final int place; // the index in the struct or row
  private final DataType type;
  private final UnsignedValues[] inner; // for a struct, its fields with unsigned integers; for a list, its element; for a map, its key and its value, each null if it has no unsigned integers

  private UnsignedValues(String path, Type signed, int place, DataType type, UnsignedValues[] inner) {
    this.path = path;
    this.signed = signed;
    this.place = place;
    this.type = type;
    this.inner = inner;
  }

  /** Returns whether a primitive type of a file may be read as a signed integer of the same width. */
  static boolean isUnsigned(PrimitiveType stored) {
    LogicalTypeAnnotation logical = stored.getLogicalTypeAnnotation();
    return logical instanceof IntLogicalTypeAnnotation && !((IntLogicalTypeAnnotation) logical).isSigned() && ((IntLogicalTypeAnnotation) logical).getBitWidth() >= 32;
  }

  /** Returns the fields of a struct or file that have such unsigned integers. `fields` are the types in the file of the first fields of `struct`. */
  static UnsignedValues[] inFields(List fields, StructType struct, String prefix) {
    ArrayList found = new ArrayList();
    for (int i = 0; i < struct.length() && i < fields.size(); i++) {
      UnsignedValues field = of((Type) fields.get(i), struct.apply(i).dataType(), i, prefix + struct.apply(i).name());
      if (field != null) found.add(field);
    }
    return found.isEmpty() ? null : (UnsignedValues[]) found.toArray(new UnsignedValues[0]);
  }

  /** Returns the fields, with the type `signed` for each of the columns with unsigned integers. */
  static List signedFields(List fields, UnsignedValues[] columns) {
    ArrayList signed = new ArrayList(fields);
    for (int i = 0; i < columns.length; i++) signed.set(columns[i].place, columns[i].signed);
    return signed;
  }

  private static UnsignedValues of(Type stored, DataType type, int place, String path) {
    if (VariantMetadata$.MODULE$.isVariantStruct(type)) return null; // parts that the reader extracts from a variant, which are not the fields of the group
    if (type instanceof ArrayType && (stored.isPrimitive() || stored.isRepetition(Type.Repetition.REPEATED))) return list(of(stored, ((ArrayType) type).elementType(), 0, path), null, place, type);
    if (stored.isPrimitive()) return number(stored.asPrimitiveType(), type, place, path);
    GroupType group = stored.asGroupType();
    if (type instanceof StructType) {
      UnsignedValues[] fields = inFields(group.getFields(), (StructType) type, path + ".");
      return fields == null ? null : new UnsignedValues(path, group.withNewFields(signedFields(group.getFields(), fields)), place, type, fields);
    }
    if (type instanceof ArrayType && group.getFieldCount() == 1) {
      Type repeated = group.getType(0);
      DataType element = ((ArrayType) type).elementType();
      if (isElement(repeated, group.getName())) return list(of(repeated, element, 0, path + ".element"), group, place, type);
      UnsignedValues values = of(repeated.asGroupType().getType(0), element, 0, path + ".element");
      return values == null ? null : new UnsignedValues(path, with(group, with(repeated.asGroupType(), values.signed)), place, type, new UnsignedValues[] {values});
    }
    if (type instanceof MapType && group.getFieldCount() == 1 && !group.getType(0).isPrimitive()) {
      GroupType entry = group.getType(0).asGroupType();
      if (entry.getFieldCount() != 2) return null;
      UnsignedValues key = of(entry.getType(0), ((MapType) type).keyType(), 0, path + ".key");
      UnsignedValues value = of(entry.getType(1), ((MapType) type).valueType(), 1, path + ".value");
      if (key == null && value == null) return null;
      ArrayList fields = new ArrayList(entry.getFields());
      if (key != null) fields.set(0, key.signed);
      if (value != null) fields.set(1, value.signed);
      return new UnsignedValues(path, with(group, entry.withNewFields(fields)), place, type, new UnsignedValues[] {key, value});
    }
    return null;
  }

  private static UnsignedValues number(PrimitiveType stored, DataType type, int place, String path) {
    PrimitiveTypeName width = DataTypes.LongType.equals(type) ? PrimitiveTypeName.INT64 : DataTypes.IntegerType.equals(type) ? PrimitiveTypeName.INT32 : null;
    if (width == null || stored.getPrimitiveTypeName() != width || !isUnsigned(stored)) return null;
    PrimitiveType signed = new PrimitiveType(stored.getRepetition(), width, stored.getName());
    return new UnsignedValues(path, stored.getId() == null ? signed : signed.withId(stored.getId().intValue()), place, type, null);
  }

  /** Returns a list of unsigned values. `group` is the group whose only field is the element; it is null if the list is a repeated field without such a group. */
  private static UnsignedValues list(UnsignedValues element, GroupType group, int place, DataType type) {
    if (element == null) return null;
    return new UnsignedValues(element.path, group == null ? element.signed : with(group, element.signed), place, type, new UnsignedValues[] {element});
  }

  private static GroupType with(GroupType group, Type field) {
    ArrayList fields = new ArrayList();
    fields.add(field);
    return group.withNewFields(fields);
  }

  /** Returns whether the repeated field of a list is the element itself, as in files of old writers, and not a group that contains the element. */
  private static boolean isElement(Type repeated, String list) {
    return repeated.isPrimitive() || repeated.asGroupType().getFieldCount() != 1 || "array".equals(repeated.getName()) || (list + "_tuple").equals(repeated.getName());
  }

  /** Checks the values of the column in a row, struct or list; `place` is their index there. */
  void check(SpecializedGetters row, int place) {
    if (row.isNullAt(place)) return;
    if (DataTypes.LongType.equals(type)) {
      long value = row.getLong(place);
      if (value < 0) throw refused(BigInteger.valueOf(value).add(BigInteger.ONE.shiftLeft(64)).toString());
    } else if (DataTypes.IntegerType.equals(type)) {
      int value = row.getInt(place);
      if (value < 0) throw refused(String.valueOf(value & 0xFFFFFFFFL));
    } else if (type instanceof StructType) {
      SpecializedGetters struct = row.getStruct(place, ((StructType) type).length());
      for (int i = 0; i < inner.length; i++) inner[i].check(struct, inner[i].place);
    } else if (type instanceof ArrayType) {
      checkAll(row.getArray(place), inner[0]);
    } else {
      MapData map = row.getMap(place);
      if (inner[0] != null) checkAll(map.keyArray(), inner[0]);
      if (inner[1] != null) checkAll(map.valueArray(), inner[1]);
    }
  }

  private static void checkAll(ArrayData values, UnsignedValues element) {
    for (int i = 0; i < values.numElements(); i++) element.check(values, i);
  }

  private ArithmeticException refused(String value) {
    return new ArithmeticException("the column " + path + " has unsigned integers, and " + value + " is more than the type " + type.sql().toLowerCase() + " of the table has");
  }
}
