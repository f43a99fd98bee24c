"""`SparkFunction`: the functions of a catalog in Spark SQL: `lake.system.days(ts)`, `bucket(16, id)` and others, with the same names as in Java's Iceberg.

`transform_columns.py` computes the functions; `spark/scan/function_pushdown.py` pushes predicates on them down.
Spec: Partition Transforms.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.callback import ConnectorObject, connector_method
from icefloe.spark.functions.portable_transforms import truncated_within
from icefloe.spark.functions.transform_columns import TransformColumns
from icefloe.spark.types.declared_types import struct_of
from icefloe.spark.types.spark_types import column_named
from icefloe.spec.partitioning.transforms import DayTransform, HourTransform, MonthTransform, Transform, YearTransform
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from icefloe.version import __version__

_OF_WIDTH = re.compile(r"truncate\[(?P<width>[1-9][0-9]{0,9})\]")
# The namespace of the functions and procedures in every catalog.
SYSTEM = "system"
_NUMBER = spark_types.IntegerType()
_NUMBERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType)
_SHORT_RANGES: Mapping[type[DataType], tuple[int, int]] = {
    spark_types.ByteType: (-(2**7), 2**7 - 1),
    spark_types.ShortType: (-(2**15), 2**15 - 1),
}
_KINDS: Mapping[type[DataType], PrimitiveType] = {
    **dict.fromkeys(_NUMBERS, IntegerType()),
    spark_types.LongType: LongType(),
    spark_types.DateType: DateType(),
    spark_types.TimestampType: TimestamptzType(),
    spark_types.TimestampNTZType: TimestampType(),
    spark_types.StringType: StringType(),
    spark_types.BinaryType: BinaryType(),
}
_TIMES = (spark_types.TimestampType, spark_types.TimestampNTZType)
_DATES = (spark_types.DateType, *_TIMES)
_TRUNCATED = (*_NUMBERS, spark_types.LongType, spark_types.DecimalType, spark_types.StringType, spark_types.BinaryType)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFunction:
    """A function for arguments of certain types, which Spark has determined.

    Attributes:
        name: The name of the function.
        inputs: The types to which Spark casts the arguments.
        result: The type of the result.
        of: A function that returns the result as a column, given the columns of the arguments.
    """

    name: str
    inputs: tuple[DataType, ...]
    result: DataType
    of: Callable[[TransformColumns, Sequence[Column]], Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function before the types of its arguments are known.

    Attributes:
        usage: The name and the arguments, for example `bucket(n, column)`.
        what: A description of the result, for DESCRIBE FUNCTION and errors.
        takes: The Spark types that the last argument may have.
        bind: A function that returns the `BoundFunction` for types of arguments; it raises `UnsupportedFeatureError` for unsupported types.
    """

    usage: str
    what: str
    takes: tuple[type[DataType], ...]
    bind: Callable[["Function", Sequence[DataType]], BoundFunction]

    @property
    def name(self) -> str:
        """The name of the function, in lower case."""
        return self.usage.partition("(")[0]

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return 0 if self.usage.endswith("()") else self.usage.count(",") + 1

    @property
    def description(self) -> str:
        """The text for DESCRIBE FUNCTION."""
        return f"{self.usage} - {self.what}"


def function_of_width(width: int) -> str:
    """Return the name of a function of one argument that truncates to a fixed width, such as `truncate[10]`.

    Spark's storage-partitioned joins need it, because they only support functions whose single argument is a column. SHOW FUNCTIONS does not list such
    functions, but SQL can call them by this name.
    """
    return f"truncate[{width}]"


def find_function(name: str) -> Function | None:
    """Return the function with a lower-case name; None if there is no such function."""
    if (match := _OF_WIDTH.fullmatch(name)) is not None:
        return _truncate_to(int(match["width"]))
    return FUNCTIONS.get(name)


def is_for_functions(namespace: Sequence[str]) -> bool:
    """Return whether a namespace contains Icefloe's functions: `system` and the root namespace do."""
    return [part.lower() for part in namespace] in ([], [SYSTEM])


class SparkFunction(ConnectorObject):
    """Spark's unbound function, before the types of its arguments are known."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.functions.UnboundFunction",)

    def __init__(self, spark: SparkSession, function: Function) -> None:
        self._spark = spark
        self._function = function

    def identity(self) -> str:
        """Return the name of the function, so that Java treats objects of the same function as equal."""
        return self._function.name

    def constants(self) -> Mapping[str, Any]:
        """Return the results of Spark's methods that never change: the name and the description of the function."""
        return {"name": self._function.name, "description": self._function.description}

    @connector_method
    def bind(self, arguments: str) -> "BoundSparkFunction":
        """Bind the function to the types of its arguments; `arguments` is a struct type in Spark's JSON, with a field for each argument."""
        types = [field.dataType for field in struct_of(arguments).fields]
        function = self._function
        if len(types) != function.arity:
            raise UnsupportedFeatureError(
                f"{function.usage} takes {_count(function.arity)}, not {len(types)}", next_step=f"it returns {function.what}"
            )
        return BoundSparkFunction(self._spark, function.bind(function, types))


class BoundSparkFunction(ConnectorObject):
    """Spark's bound function. Before the query runs, `bridge/java/SparkRule.java` replaces it by `body`, an expression of Spark."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.functions.ScalarFunction", "catalog.functions.ReducibleFunction")

    def __init__(self, spark: SparkSession, bound: BoundFunction) -> None:
        self._spark = spark
        self._bound = bound

    def identity(self) -> str:
        """Return a text with the name, the argument types and the result type, so that Java treats objects with the same text as equal."""
        return f"{self._bound.name} {self._bound.inputs} {self._bound.result}"

    def constants(self) -> Mapping[str, Any]:
        """Return the results of Spark's methods that never change: the names, types and properties of the function."""
        bound = self._bound
        of_type = f"({bound.inputs[-1].simpleString()})" if bound.inputs else ""
        return {
            "name": bound.name,
            "canonicalName": f"{CANONICAL}{bound.name}{of_type}",
            "inputTypes": [kind.json() for kind in bound.inputs],
            "resultType": bound.result.json(),
        }

    @connector_method
    def body(self) -> Any:
        """Return Spark's expression for the function, which refers to the arguments by index."""
        jvm: Any = self._spark._jvm
        session = self._spark._jsparkSession
        names = [f"a{index}" for index in range(len(self._bound.inputs))]
        form = StructType([StructField(name, kind) for name, kind in zip(names, self._bound.inputs, strict=True)])
        frame = DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(form.json())), self._spark)
        result = frame.select(self._bound.of(TransformColumns(self._spark), [column_named(name) for name in names]).alias("result"))
        plan = jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions.apply(result._jdf.queryExecution().analyzed())
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        attributes = getattr(expressions, "package$AttributeSeq")(plan.child().output())
        return expressions.BindReferences.bindReference(plan.projectList().head().child(), attributes, False)


# Prefix of the names of these functions in Spark's pushed predicates.
CANONICAL = "iceberg."


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of `bucket` or `truncate` in a pushed predicate, with its literal number and its column."""

    number: int
    column: Mapping[str, Any]


def call_of(node: Mapping[str, Any], name: str) -> FunctionCall | None:
    """Parse an expression as a call of `bucket` or `truncate` with a positive literal number; return None if it is not such a call.

    Args:
        node: An expression of Spark, in the JSON of `bridge/java/ConnectorJson.java`.
        name: `bucket` or `truncate`.
    """
    if node["kind"] != "function" or not node["name"].startswith(f"{CANONICAL}{name}("):
        return None
    number, column = node["children"]
    if number["kind"] != "literal" or number["value"] is None or int(number["value"]) <= 0:
        return None
    return FunctionCall(int(number["value"]), column)


def _count(number: int) -> str:
    return "no arguments" if number == 0 else "one argument" if number == 1 else f"{number} arguments"


def _kind_of(function: Function, kind: DataType) -> PrimitiveType:
    """Return the Iceberg type of a function's argument. Raises `UnsupportedFeatureError` for a type that the function does not support."""
    if not isinstance(kind, function.takes):
        names = ", ".join(dict.fromkeys(supported().simpleString().partition("(")[0] for supported in function.takes))
        raise UnsupportedFeatureError(
            f"{function.usage} does not support values of type {kind.simpleString()}", next_step=f"give one of {names}"
        )
    if isinstance(kind, spark_types.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    return next(iceberg_type for spark_kind, iceberg_type in _KINDS.items() if isinstance(kind, spark_kind))


def _check_number(function: Function, kind: DataType) -> None:
    if not isinstance(kind, _NUMBERS):
        raise UnsupportedFeatureError(
            f"the first argument of {function.usage} is of type {kind.simpleString()}", next_step="give a tinyint, smallint or int"
        )


def _number(function: str, column: Column) -> Column:
    """Return the first argument of a function, changed so that the query fails if the argument is not positive."""
    refusal = F.raise_error(F.concat(F.lit(f"{function}: the first argument must be above 0, and it is "), column.cast("string"))).cast(
        "int"
    )
    return F.when(column <= 0, refusal).otherwise(column)


def _bind_period(transform: Transform) -> Callable[[Function, Sequence[DataType]], BoundFunction]:
    def bind(function: Function, types: Sequence[DataType]) -> BoundFunction:
        kind = _kind_of(function, types[0])
        result = spark_types.DateType() if isinstance(transform, DayTransform) else _NUMBER
        return BoundFunction(
            name=function.name,
            inputs=tuple(types),
            result=result,
            of=lambda columns, arguments: columns.period(arguments[0], kind, transform),
        )

    return bind


def _bind_bucket(function: Function, types: Sequence[DataType]) -> BoundFunction:
    _check_number(function, types[0])
    kind = _kind_of(function, types[1])
    value = _NUMBER if isinstance(types[1], _NUMBERS) else types[1]
    return BoundFunction(
        name=function.name,
        inputs=(_NUMBER, value),
        result=_NUMBER,
        of=lambda columns, arguments: columns.bucket(arguments[1], kind, _number(function.name, arguments[0])),
    )


def _bind_truncate(function: Function, types: Sequence[DataType]) -> BoundFunction:
    _check_number(function, types[0])
    value = types[1]
    kind, ends = _kind_of(function, value), _SHORT_RANGES.get(type(value))

    def of(columns: TransformColumns, arguments: Sequence[Column]) -> Column:
        width = _number(function.name, arguments[0])
        if ends is not None:
            return truncated_within(arguments[1], width, *ends).cast(value)
        return columns.truncate(arguments[1], kind, width)

    return BoundFunction(name=function.name, inputs=(_NUMBER, value), result=value, of=of)


def _truncate_to(width: int) -> Function:
    """Return the function of one argument that truncates to a fixed width; see `function_of_width`."""

    def bind(function: Function, types: Sequence[DataType]) -> BoundFunction:
        bound = _bind_truncate(FUNCTIONS["truncate"], [_NUMBER, types[0]])
        return BoundFunction(
            name=function.name,
            inputs=tuple(types),
            result=bound.result,
            of=lambda columns, arguments: bound.of(columns, [F.lit(width), arguments[0]]),
        )

    name = function_of_width(width)
    return Function(usage=f"{name}(x)", what=f"truncate({width}, x)", takes=_TRUNCATED, bind=bind)


def _bind_version(function: Function, _: Sequence[DataType]) -> BoundFunction:
    return BoundFunction(name=function.name, inputs=(), result=spark_types.StringType(), of=lambda *_: F.lit(f"Icefloe {__version__}"))


FUNCTIONS: Mapping[str, Function] = {
    function.name: function
    for function in (
        Function(usage="years(x)", what="the years from 1970 on, in UTC", takes=_DATES, bind=_bind_period(YearTransform())),
        Function(usage="months(x)", what="the months from January 1970 on, in UTC", takes=_DATES, bind=_bind_period(MonthTransform())),
        Function(usage="days(x)", what="the date, in UTC", takes=_DATES, bind=_bind_period(DayTransform())),
        Function(usage="hours(x)", what="the hours from 1970 on, in UTC", takes=_TIMES, bind=_bind_period(HourTransform())),
        Function(
            usage="bucket(n, x)",
            what="the hash of a value, modulo n",
            takes=(*_DATES, *_TRUNCATED),
            bind=_bind_bucket,
        ),
        Function(
            usage="truncate(n, x)",
            what="a number rounded down to a multiple of n (of its last digit, for decimals), or the first n characters or bytes",
            takes=_TRUNCATED,
            bind=_bind_truncate,
        ),
        Function(usage="iceberg_version()", what="the version of Icefloe", takes=(), bind=_bind_version),
    )
}
