"""Partition transforms as columns of Spark's own expressions, computed where the rows are: for the order of writes and for functions of SQL.

They give what `kernel.partitioning.transforms` gives. A null gives null. Floor: spark.
Spec: Partition Transforms; Bucket Transform Details; Truncate Transform Details.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.classic.column import Column as ClassicColumn

from icefloe.kernel.literals import INTEGER_RANGES
from icefloe.kernel.partitioning.transforms import DayTransform, HourTransform, MonthTransform, Transform, YearTransform
from icefloe.kernel.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spark.jvm.gateway import jvm_of

MICROS_PER_HOUR = 3_600_000_000
MICROS_PER_DAY = 24 * MICROS_PER_HOUR
_IN_UTC = (TimestamptzType, TimestamptzNanoType)
_LOCAL = (TimestampType, TimestampNanoType)
_LOWEST, _HIGHEST = INTEGER_RANGES[LongType]


class TransformColumns:
    """Transforms in one classic session. Columns are of the Spark type of their Iceberg type."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = jvm_of(spark)

    def bucket(self, column: Column, kind: PrimitiveType, buckets: Column) -> Column:
        """The bucket (int) of a column; `buckets` (int) is their number."""
        return self._hash(column, kind).bitwiseAND(F.lit(0x7FFFFFFF)) % buckets

    def truncate(self, column: Column, kind: PrimitiveType, width: Column) -> Column:
        """A column of the same type: rounded down to a multiple of `width` (int), or so many code points or bytes of it."""
        if isinstance(kind, StringType | BinaryType):
            return F.substring(column, F.lit(1), width)
        if isinstance(kind, DecimalType):
            return self._truncated_decimals(column, kind, width)
        if isinstance(kind, LongType):
            return _truncated_longs(column, width)
        return truncated_within(column, width, *INTEGER_RANGES[IntegerType]).cast("int")

    def period(self, column: Column, kind: PrimitiveType, transform: Transform) -> Column:
        """Years, months or hours (int) since 1970, or the day (date), of a date or a timestamp; of its time in UTC where it has a zone."""
        return _PERIODS[type(transform)](self, column, kind)

    def _hash(self, column: Column, kind: PrimitiveType) -> Column:
        if isinstance(kind, StringType):
            return self._hash_of_bytes(column.cast("binary"))
        if isinstance(kind, FixedType | BinaryType):
            return self._hash_of_bytes(column)
        if isinstance(kind, UUIDType):
            return self._hash_of_bytes(F.unhex(F.replace(column.cast("string"), F.lit("-"), F.lit(""))))
        if isinstance(kind, DecimalType):
            unscaled = self._call(self._big_decimal(column), "unscaledValue", self._object("java.math.BigInteger"))
            return self._hash_of_bytes(self._column(self._call(unscaled, "toByteArray", self._type("binary"))))
        number = self._whole_number(column, kind)
        # Of a long alone Spark's own hash is that of the spec; of bytes it is another one.
        hashed = self._jvm.org.apache.spark.sql.catalyst.expressions.Murmur3Hash(self._sequence([self._expression(number)]), 0)
        return F.when(number.isNotNull(), self._column(hashed))

    def _hash_of_bytes(self, column: Column) -> Column:
        hasher = "org.apache.commons.codec.digest.MurmurHash3"
        return self._column(self._call_static(hasher, "hash32x86", self._type("int"), [self._expression(column)]))

    def _whole_number(self, column: Column, kind: PrimitiveType) -> Column:
        if isinstance(kind, DateType):
            return F.unix_date(column).cast("bigint")
        return column.cast("bigint") if isinstance(kind, IntegerType | LongType) else self._micros(column, kind)

    def _micros(self, column: Column, kind: PrimitiveType) -> Column:
        """Microseconds since 1970, or since midnight for a time, whatever the session's time zone."""
        if isinstance(kind, TimeType):
            minutes = F.hour(column) * 60 + F.minute(column)
            return minutes.cast("bigint") * 60_000_000 + (F.date_part(F.lit("SECOND"), column) * 1_000_000).cast("bigint")
        if isinstance(kind, _IN_UTC):
            return F.unix_micros(column)
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        held = expressions.PreciseTimestampConversion(self._expression(column), self._type("timestamp_ntz"), self._type("bigint"))
        return self._column(held)

    def _days(self, column: Column, kind: PrimitiveType) -> Column:
        if isinstance(kind, _IN_UTC):
            return F.date_from_unix_date(_floor(F.unix_micros(column), MICROS_PER_DAY).cast("int"))
        return column.cast("date")

    def _hours(self, column: Column, kind: PrimitiveType) -> Column:
        return _floor(self._micros(column, kind), MICROS_PER_HOUR).cast("int")

    def _months(self, column: Column, kind: PrimitiveType) -> Column:
        day = self._days(column, kind)
        return self._years(column, kind) * 12 + F.month(day) - 1

    def _years(self, column: Column, kind: PrimitiveType) -> Column:
        return F.year(self._days(column, kind)) - 1970

    def _truncated_decimals(self, column: Column, kind: DecimalType, width: Column) -> Column:
        """By Java's decimals, which hold one digit more than Spark's where they need it; what no longer fits the type is Spark's error."""
        exact = self._object("java.math.BigDecimal")
        value = self._big_decimal(column)
        scale = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal(kind.scale, self._type("int"))
        step = self._call_static("java.math.BigDecimal", "valueOf", exact, [self._expression(width.cast("bigint")), scale])
        rest = self._call(value, "remainder", exact, [step])
        rest = self._call(self._call(rest, "add", exact, [step]), "remainder", exact, [step])
        found = self._call(value, "subtract", exact, [rest])
        wanted = self._type(f"decimal({kind.precision},{kind.scale})")
        made = self._call_static("org.apache.spark.sql.types.Decimal", "apply", wanted, [found])
        return self._column(self._jvm.org.apache.spark.sql.catalyst.expressions.CheckOverflow(made, wanted, False))

    # Expressions of Spark's that its public functions do not make. Executors know every class that they name.

    def _expression(self, column: Column) -> Any:
        return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)

    def _column(self, expression: Any) -> Column:
        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _big_decimal(self, column: Column) -> Any:
        return self._call(self._expression(column), "toJavaBigDecimal", self._object("java.math.BigDecimal"))

    def _call(self, target: Any, method: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
        objects = self._jvm.org.apache.spark.sql.catalyst.expressions.objects
        return objects.Invoke(target, method, result, self._sequence(arguments), self._sequence(()), True, True, True)

    def _call_static(self, class_name: str, method: str, result: Any, arguments: Sequence[Any]) -> Any:
        objects = self._jvm.org.apache.spark.sql.catalyst.expressions.objects
        holder = self._jvm.java.lang.Class.forName(class_name)
        no_function = self._jvm.scala.Option.empty()
        return objects.StaticInvoke(holder, result, method, self._sequence(arguments), self._sequence(()), True, False, True, no_function)

    def _sequence(self, parts: Sequence[Any]) -> Any:
        held = self._jvm.java.util.ArrayList()
        for part in parts:
            held.add(part)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(held)

    def _type(self, text: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromDDL(text)

    def _object(self, class_name: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.ObjectType(self._jvm.java.lang.Class.forName(class_name))


_PERIODS: Mapping[type[Transform], Callable[[TransformColumns, Column, PrimitiveType], Column]] = {
    YearTransform: TransformColumns._years,
    MonthTransform: TransformColumns._months,
    DayTransform: TransformColumns._days,
    HourTransform: TransformColumns._hours,
}


def truncated_within(column: Column, width: Column, low: int, high: int) -> Column:
    """Numbers of less than 64 bits rounded down to a multiple of the width, as longs; below the least of them it goes on with the greatest, as in Java."""
    number = column.cast("bigint")
    return F.pmod(number - F.pmod(number, width) - low, F.lit(high - low + 1)) + low


def _truncated_longs(column: Column, width: Column) -> Column:
    """The same of longs, where Spark must not compute past the ends of the type: that would be an error."""
    rest = F.pmod(column, width.cast("bigint"))
    beyond = F.lit(_HIGHEST) - (rest - (column - F.lit(_LOWEST)) - 1)
    return F.when(column >= F.lit(_LOWEST) + rest, column - rest).when(column.isNotNull() & width.isNotNull(), beyond)


def _floor(column: Column, step: int) -> Column:
    """Whole steps, rounded down also below zero; in whole numbers, as a double has too few digits for far years."""
    return F.call_function("div", column - F.pmod(column, F.lit(step)), F.lit(step))
