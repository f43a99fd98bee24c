package icefloe;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A procedure that Python runs. Its arguments arrive there by name; its rows come back as Spark's own. */
final class SparkProcedure implements UnboundProcedure, BoundProcedure {
  private final BiFunction python;
  private final Map said; // name, description, parameters, output

  SparkProcedure(BiFunction python) {
    this.python = python;
    this.said = (Map) Python.askJson(python, "describe", "null");
  }

  public String name() {
    return (String) said.get("name");
  }

  public String description() {
    return (String) said.get("description");
  }

  public BoundProcedure bind(StructType inputType) {
    return this;
  }

  public boolean isDeterministic() {
    return false;
  }

  public ProcedureParameter[] parameters() {
    List list = (List) said.get("parameters");
    ProcedureParameter[] found = new ProcedureParameter[list.size()];
    for (int i = 0; i < found.length; i++) {
      Map one = (Map) list.get(i);
      ProcedureParameter.Builder builder = ProcedureParameter.in((String) one.get("name"), DataType.fromJson((String) one.get("type")));
      if (one.get("default") != null) builder.defaultValue((String) one.get("default"));
      found[i] = builder.comment((String) one.get("comment")).build();
    }
    return found;
  }

  public Iterator call(InternalRow arguments) {
    ProcedureParameter[] parameters = parameters();
    ArrayList values = new ArrayList();
    for (int i = 0; i < parameters.length; i++) {
      DataType type = parameters[i].dataType();
      values.add(arguments.isNullAt(i) ? null : plain(arguments.get(i, type), type));
    }
    final InternalRow[] rows = (InternalRow[]) Python.ask(python, "call", Python.json(values));
    final StructType schema = (StructType) DataType.fromJson((String) said.get("output"));
    return Collections.singletonList(
            new LocalScan() {
              public InternalRow[] rows() {
                return rows;
              }

              public StructType readSchema() {
                return schema;
              }
            })
        .iterator();
  }

  /** A value as JSON can carry it: timestamps as microseconds. */
  private static Object plain(Object value, DataType type) {
    if (value instanceof UTF8String) return value.toString();
    if (value instanceof ArrayData) {
      DataType kind = ((ArrayType) type).elementType();
      Object[] elements = ((ArrayData) value).toObjectArray(kind);
      ArrayList list = new ArrayList();
      for (int i = 0; i < elements.length; i++) list.add(plain(elements[i], kind));
      return list;
    }
    if (value instanceof MapData) {
      MapType kinds = (MapType) type;
      Object[] keys = ((MapData) value).keyArray().toObjectArray(kinds.keyType());
      Object[] values = ((MapData) value).valueArray().toObjectArray(kinds.valueType());
      LinkedHashMap map = new LinkedHashMap();
      for (int i = 0; i < keys.length; i++) map.put(plain(keys[i], kinds.keyType()), plain(values[i], kinds.valueType()));
      return map;
    }
    return value;
  }
}
