"""Catalyst expressions that Spark's public functions cannot build: calls of Java methods, literals of Java objects, conversions of internal values.

Every function builds its expression through Py4J on the driver, at about 0.05 ms a call. Executors have every class that is called: classes of the JDK, of
Spark, and of libraries that Spark contains. Nodes of logical plans are in `catalyst_plan.py`.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from icefloe.spark.bridge.gateway import java_class, scala_object

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_TYPES = "org.apache.spark.sql.types"
_EXPRESSION_UTILS = "org.apache.spark.sql.classic.ExpressionUtils"


def expression_of(spark: SparkSession, column: Column) -> Any:
    """Return the Catalyst expression (a Java object) of a column."""
    return java_class(spark, _EXPRESSION_UTILS).expression(column._jc)


def column_of(spark: SparkSession, expression: Any) -> Column:
    """Return a column for a Catalyst expression."""
    return ClassicColumn(java_class(spark, _EXPRESSION_UTILS).column(expression))


def data_type(spark: SparkSession, ddl: str) -> Any:
    """Return the Java object of a Spark type from its DDL text, such as `decimal(9,2)`."""
    return java_class(spark, f"{_TYPES}.DataType").fromDDL(ddl)


def object_type(spark: SparkSession, class_name: str) -> Any:
    """Return Catalyst's type for Java objects of a class. The name of the class is as for `Class.forName`: `[J` is an array of longs."""
    return java_class(spark, f"{_TYPES}.ObjectType")(_class_of(spark, class_name))


def literal(spark: SparkSession, value: Any, kind: Any) -> Any:
    """Return a literal expression of the type `kind`. The value must be the internal value that Spark stores for this type."""
    return java_class(spark, f"{_EXPRESSIONS}.Literal")(value, kind)


def object_literal(spark: SparkSession, java_object: Any, class_name: str) -> Any:
    """Return a literal expression of a Java object, which Spark sends to the tasks with the query."""
    return literal(spark, java_object, object_type(spark, class_name))


def array_element(spark: SparkSession, java_array: Any, class_name: str, index: Column) -> Any:
    """Return an expression of the element of a Java array at an index (an int column); `class_name` is the class of the elements."""
    array = object_literal(spark, java_array, f"[{class_name}" if class_name.startswith("[") else f"[L{class_name};")
    element = object_type(spark, class_name)
    return static_invoke(spark, "org.apache.commons.lang3.ArrayUtils", "get", element, [array, expression_of(spark, index)])


def invoke(spark: SparkSession, target: Any, method: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
    """Return an expression that calls a method of the object that the expression `target` returns.

    The result is null if the object or an argument is null. The method must be deterministic.

    Args:
        spark: The session whose JVM builds the expression.
        target: The expression of the object.
        method: The name of the method.
        result: The result's type in Spark.
        arguments: Expressions of the arguments.
    """
    invoke_class = java_class(spark, f"{_EXPRESSIONS}.objects.Invoke")
    return invoke_class(target, method, result, sequence(spark, arguments), sequence(spark, ()), True, True, True)


def static_invoke(
    spark: SparkSession, class_name: str, method: str, result: Any, arguments: Sequence[Any], *, returns_null: bool = True
) -> Any:
    """Return an expression that calls a static method of a class; `result` is the result's type in Spark, `arguments` are expressions.

    The result is null if an argument is null. If `returns_null` is False, the method itself must never return null. The method must be deterministic.
    """
    invoke_class = java_class(spark, f"{_EXPRESSIONS}.objects.StaticInvoke")
    no_function = scala_object(spark, "scala.None")
    arguments_of = sequence(spark, arguments)
    return invoke_class(
        _class_of(spark, class_name), result, method, arguments_of, sequence(spark, ()), True, returns_null, True, no_function
    )


def murmur3_hash(spark: SparkSession, column: Column) -> Any:
    """Return an expression of Spark's Murmur3 hash (int) with seed 0. For longs it is the hash for buckets in the specification; for bytes it is not."""
    return java_class(spark, f"{_EXPRESSIONS}.Murmur3Hash")(sequence(spark, [expression_of(spark, column)]), 0)


def micros_of(spark: SparkSession, timestamp: Column, *, has_zone: bool) -> Column:
    """Return Spark's internal value of a timestamp as a column: the microseconds since 1970-01-01 (long)."""
    conversion = java_class(spark, f"{_EXPRESSIONS}.PreciseTimestampConversion")
    source = data_type(spark, "timestamp" if has_zone else "timestamp_ntz")
    return column_of(spark, conversion(expression_of(spark, timestamp), source, data_type(spark, "bigint")))


def unscaled_value(spark: SparkSession, decimal: Column) -> Column:
    """Return a column with the unscaled values (long) of decimals with at most 18 digits, as which Spark stores such decimals internally."""
    return column_of(spark, java_class(spark, f"{_EXPRESSIONS}.UnscaledValue")(expression_of(spark, decimal)))


def check_overflow(spark: SparkSession, decimal: Any, kind: Any) -> Any:
    """Return an expression of a decimal as the decimal type `kind`. If a value does not fit, the query fails with Spark's error."""
    return java_class(spark, f"{_EXPRESSIONS}.CheckOverflow")(decimal, kind, False)


def sequence(spark: SparkSession, members: Sequence[Any]) -> Any:
    """Return a Scala `Seq` of Java objects."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(members))


def _class_of(spark: SparkSession, name: str) -> Any:
    return java_class(spark, "java.lang.Class").forName(name)
