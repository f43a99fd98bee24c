package icefloe;

import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** A function of a catalog. Bound, it is an expression of Spark's own, which `SparkRule` puts in its place: executors never see this class. */
final class SparkFunction implements UnboundFunction, ScalarFunction {
  private final BiFunction python;
  private final Map said; // name, description; of a bound one: name, canonical, inputs, result
  private Expression body; // of the arguments by their places

  SparkFunction(BiFunction python) {
    this.python = python;
    this.said = (Map) Python.askJson(python, "describe", "null");
  }

  public String name() {
    return (String) said.get("name");
  }

  public String description() {
    return (String) said.get("description");
  }

  public BoundFunction bind(StructType arguments) {
    return new SparkFunction((BiFunction) Python.ask(python, "bind", arguments.json()));
  }

  public String canonicalName() {
    return (String) said.get("canonical");
  }

  public DataType[] inputTypes() {
    String[] inputs = Python.strings(said.get("inputs"));
    DataType[] types = new DataType[inputs.length];
    for (int i = 0; i < types.length; i++) types[i] = DataType.fromJson(inputs[i]);
    return types;
  }

  public DataType resultType() {
    return DataType.fromJson((String) said.get("result"));
  }

  /** For what Spark computes while it plans. */
  public Object produceResult(InternalRow arguments) {
    return body().eval(arguments);
  }

  Expression of(final Seq arguments) {
    return (Expression)
        new AbstractFunction1() {
          public Object apply(Object node) {
            return node instanceof BoundReference ? arguments.apply(((BoundReference) node).ordinal()) : ((Expression) node).mapChildren(this);
          }
        }.apply(body());
  }

  private synchronized Expression body() {
    if (body == null) body = (Expression) Python.ask(python, "body", "null");
    return body;
  }

  public boolean equals(Object other) {
    return other instanceof SparkFunction && said.equals(((SparkFunction) other).said);
  }

  public int hashCode() {
    return said.hashCode();
  }
}
