package icefloe;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

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
      values.add(arguments.isNullAt(i) ? null : CatalystTypeConverters.createToScalaConverter(type).apply(arguments.get(i, type)));
    }
    final InternalRow[] rows = (InternalRow[]) Python.ask(python, "call", values);
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
}
