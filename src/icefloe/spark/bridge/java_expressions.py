"""Columns that Spark computes by calling methods of Java's in generated code: of an object that goes along with the query, or static ones.

Executors know every class that may be called: Java's own, Spark's, and those of libraries that Spark ships.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession

from icefloe.spark.bridge.gateway import java_class, scala_object

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_TYPES = "org.apache.spark.sql.types"
# What a call is, as Spark asks: null for null arguments, itself not null unless the object is, the same each time.
_ARE = (True, True, True)


def value(spark: SparkSession, one: Any, class_name: str) -> Any:
    """The expression of an object of Java's of that class, named as Java does: `[J` is an array of longs."""
    kind = java_class(spark, f"{_TYPES}.ObjectType")(_class_of(spark, class_name))
    return java_class(spark, f"{_EXPRESSIONS}.Literal")(one, kind)


def element(spark: SparkSession, array: Any, class_name: str, place: Column) -> Any:
    """The expression of the object at a place (int) of an array of Java's; `class_name` is that of its elements."""
    held = value(spark, array, f"[{class_name}" if class_name.startswith("[") else f"[L{class_name};")
    kind = java_class(spark, f"{_TYPES}.ObjectType")(_class_of(spark, class_name))
    return _static(spark, "org.apache.commons.lang3.ArrayUtils", "get", kind, [held, _expression(spark, place)])


def truth_of(spark: SparkSession, target: Any, method: str, argument: Column) -> Column:
    """What the method of a value says of an argument: true or false."""
    invoke = java_class(spark, f"{_EXPRESSIONS}.objects.Invoke")
    called = invoke(target, method, _type(spark, "BooleanType"), _list(spark, [_expression(spark, argument)]), _list(spark, []), *_ARE)
    return _column(spark, called)


def number_of(spark: SparkSession, holder: str, method: str, first: Any, second: Column) -> Column:
    """What a static method says of a value and an argument: a number (int)."""
    return _column(spark, _static(spark, holder, method, _type(spark, "IntegerType"), [first, _expression(spark, second)]))


def micros(spark: SparkSession, time: Column, *, is_zoned: bool) -> Column:
    """The number (long) that Spark has inside for a timestamp."""
    conversion = java_class(spark, f"{_EXPRESSIONS}.PreciseTimestampConversion")
    own = _type(spark, "TimestampType" if is_zoned else "TimestampNTZType")
    return _column(spark, conversion(_expression(spark, time), own, _type(spark, "LongType")))


def _expression(spark: SparkSession, column: Column) -> Any:
    """The expression of a column."""
    return java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils").expression(column._jc)


def _column(spark: SparkSession, one: Any) -> Column:
    return Column(java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils").column(one))


def _static(spark: SparkSession, holder: str, method: str, returns: Any, arguments: Sequence[Any]) -> Any:
    invoke = java_class(spark, f"{_EXPRESSIONS}.objects.StaticInvoke")
    nothing = scala_object(spark, "scala.None")
    return invoke(_class_of(spark, holder), returns, method, _list(spark, arguments), _list(spark, []), *_ARE, nothing)


def _list(spark: SparkSession, members: Sequence[Any]) -> Any:
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(members))


def _type(spark: SparkSession, name: str) -> Any:
    return getattr(java_class(spark, f"{_TYPES}.DataTypes"), name)


def _class_of(spark: SparkSession, name: str) -> Any:
    return java_class(spark, "java.lang.Class").forName(name)
