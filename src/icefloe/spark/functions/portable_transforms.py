"""Partition transforms as columns for any Spark session, also of Spark Connect: with public functions, and Python for buckets.

The results equal those of `icefloe/spec/partitioning/transforms.py`. In sessions with a JVM, `transform_columns.py` uses Spark's own expressions for some.
Spec: Partition Transforms; Bucket Transform Details; Truncate Transform Details.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import IntegerType as SparkInteger

from icefloe.lazy_imports import lazy_module
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
    is_time_transform,
)
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:  # imported late, because tasks that write rows import this module and do not need pandas
    import pandas as pd
else:
    pd = lazy_module("pandas")

MICROS_PER_HOUR = 3_600_000_000
MICROS_PER_DAY = 24 * MICROS_PER_HOUR
IN_UTC = (TimestamptzType, TimestamptzNanoType)
_LOWEST, _HIGHEST = INTEGER_RANGES[LongType]
_ARROW_FORMS: Mapping[type[PrimitiveType], Any] = {LongType: pa.int64(), StringType: pa.string(), BinaryType: pa.binary()}


class PortableTransforms:
    """Computes partition transforms of Spark columns. A column must have the Spark type for its Iceberg type (`kind`). For null the result is null."""

    def transform(self, column: Column, kind: PrimitiveType, transform: Transform) -> Column:
        """Return the result of a partition transform of a column; for the identity transform it is the column itself."""
        if isinstance(transform, BucketTransform):
            return self.bucket_of(column, kind, transform)
        if isinstance(transform, TruncateTransform):
            return self.truncate_of(column, kind, transform)
        return self.period(column, kind, transform) if is_time_transform(transform) else column

    def bucket_of(self, column: Column, kind: PrimitiveType, transform: BucketTransform) -> Column:
        """Return the bucket (int) of a column.

        Only this column is sent to Python. Nulls are replaced first, because pandas would convert longs with nulls to floats.
        """
        plain, hashed_as, stand_in = self._hashable(column, kind)

        def buckets(values: pd.Series) -> pd.Series:
            arrow = pa.array(values.tolist() if values.dtype == object else values.to_numpy(), _ARROW_FORMS.get(type(hashed_as)))
            return pd.Series(transform.apply_array(hashed_as, arrow).to_numpy(zero_copy_only=False))

        as_udf: Any = pandas_udf
        return F.when(column.isNotNull(), as_udf(buckets, SparkInteger())(F.coalesce(plain, stand_in)))

    def truncate_of(self, column: Column, kind: PrimitiveType, transform: TruncateTransform) -> Column:
        """Return a truncated column of the same type. If a decimal needs one more digit than its type has, Spark's settings decide the result."""
        if isinstance(kind, DecimalType):
            step = F.lit(f"{transform.width}e-{kind.scale}").cast(f"decimal({kind.precision}, {kind.scale})")
            return column - F.pmod(column, step)
        return truncate_column(column, kind, F.lit(transform.width))

    def period(self, column: Column, kind: PrimitiveType, transform: Transform) -> Column:
        """Return the years, months or hours (int) since 1970, or the day (date), of a date or timestamp; in UTC if its type has a zone."""
        return _PERIODS[type(transform)](self, column, kind)

    def _hashable(self, column: Column, kind: PrimitiveType) -> tuple[Column, PrimitiveType, Column]:
        """Convert a column to a type whose values reach Python exactly.

        Returns:
            The converted column, the Iceberg type whose hash of the converted values is that of the original values, and a value to send instead of null.
        """
        if isinstance(kind, UUIDType):
            return uuid_bytes(column), BinaryType(), F.lit(bytes(16))
        if isinstance(kind, FixedType | BinaryType):
            return column, BinaryType(), F.lit(b"")
        if isinstance(kind, DecimalType):
            return column, kind, F.lit(0).cast(f"decimal({kind.precision}, {kind.scale})")
        if isinstance(kind, StringType):
            return column.cast("string"), StringType(), F.lit("")
        return self.whole_number(column, kind), LongType(), F.lit(0).cast("bigint")

    def whole_number(self, column: Column, kind: PrimitiveType) -> Column:
        """Convert a column to longs of the same order: dates to days and timestamps to microseconds since 1970, times to microseconds since midnight."""
        if isinstance(kind, DateType):
            return F.unix_date(column).cast("bigint")
        return column.cast("bigint") if isinstance(kind, IntegerType | LongType) else self._micros(column, kind)

    def _micros(self, column: Column, kind: PrimitiveType) -> Column:
        """Convert timestamps to microseconds since 1970, or times to microseconds since midnight, independent of the session's time zone."""
        if isinstance(kind, IN_UTC):
            return F.unix_micros(column)
        minutes = F.hour(column) * 60 + F.minute(column)
        of_minute = (F.date_part(F.lit("SECOND"), column) * 1_000_000).cast("bigint")
        of_day = minutes.cast("bigint") * 60_000_000 + of_minute
        return of_day if isinstance(kind, TimeType) else F.unix_date(column.cast("date")).cast("bigint") * MICROS_PER_DAY + of_day

    def _days(self, column: Column, kind: PrimitiveType) -> Column:
        if isinstance(kind, IN_UTC):
            return F.date_from_unix_date(_floor(F.unix_micros(column), MICROS_PER_DAY).cast("int"))
        return column.cast("date")

    def _hours(self, column: Column, kind: PrimitiveType) -> Column:
        if isinstance(kind, IN_UTC):
            hours = _floor(F.unix_micros(column), MICROS_PER_HOUR)
        else:
            hours = F.unix_date(column.cast("date")).cast("bigint") * 24 + F.hour(column)
        # Other writers also use the lowest 32 bits; a cast of a longer number would fail.
        return F.shiftright(F.shiftleft(hours, 32), 32).cast("int")

    def _months(self, column: Column, kind: PrimitiveType) -> Column:
        day = self._days(column, kind)
        return self._years(column, kind) * 12 + F.month(day) - 1

    def _years(self, column: Column, kind: PrimitiveType) -> Column:
        return F.year(self._days(column, kind)) - 1970


_PERIODS: Mapping[type[Transform], Callable[[PortableTransforms, Column, PrimitiveType], Column]] = {
    YearTransform: PortableTransforms._years,
    MonthTransform: PortableTransforms._months,
    DayTransform: PortableTransforms._days,
    HourTransform: PortableTransforms._hours,
}


def truncate_column(column: Column, kind: PrimitiveType, width: Column) -> Column:
    """Return a truncated column of texts, bytes or whole numbers.

    Args:
        column: The column.
        kind: The Iceberg type of the column.
        width: An int column. Texts keep this number of code points, bytes this number of bytes, and numbers are rounded down to a multiple of it.
    """
    if isinstance(kind, StringType | BinaryType):
        return F.substring(column, F.lit(1), width)
    if isinstance(kind, LongType):
        return _truncated_longs(column, width)
    return truncated_within(column, width, *INTEGER_RANGES[IntegerType]).cast("int")


def truncated_within(column: Column, width: Column, low: int, high: int) -> Column:
    """Round numbers between `low` and `high` down to multiples of the width, as longs. A result below `low` wraps around, as in Java."""
    number = column.cast("bigint")
    return F.pmod(number - F.pmod(number, width) - low, F.lit(high - low + 1)) + low


def _truncated_longs(column: Column, width: Column) -> Column:
    """Round longs down to multiples of the width without overflow in intermediate results, which would be an error in Spark."""
    rest = F.pmod(column, width.cast("bigint"))
    beyond = F.lit(_HIGHEST) - (rest - (column - F.lit(_LOWEST)) - 1)
    return F.when(column >= F.lit(_LOWEST) + rest, column - rest).when(column.isNotNull() & width.isNotNull(), beyond)


def _floor(column: Column, step: int) -> Column:
    """Divide a column by `step` and round down, also for negative values. The division is of whole numbers, because doubles are inexact for distant years."""
    return F.call_function("div", column - F.pmod(column, F.lit(step)), F.lit(step))


def uuid_bytes(column: Column) -> Column:
    """Convert a column with texts of uuids to their 16 bytes."""
    return F.unhex(F.replace(column.cast("string"), F.lit("-"), F.lit("")))
