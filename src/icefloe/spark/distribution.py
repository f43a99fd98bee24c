"""How rows are spread over Spark's tasks, and sorted in them, before they are written: so that a partition's rows meet in few tasks and make few files.

Only the layout of files depends on it; which partition a row belongs to is decided when it is written. Floor: spark. Spec: Partition Transforms; Sorting.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import IntegerType as SparkInteger

from icefloe.datafile.target import WriteTarget
from icefloe.kernel.metadata.properties import DISTRIBUTION_MODE, FANOUT_ENABLED
from icefloe.kernel.partitioning.sort_order import NullOrder, SortDirection, SortField
from icefloe.kernel.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from icefloe.kernel.schema.schema import Schema
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
from icefloe.spark.filters import column_named
from icefloe.spark.types import spark_type

MICROS_PER_HOUR = 3_600_000_000
MICROS_PER_DAY = 24 * MICROS_PER_HOUR
# Columns that live only for the shuffle; the sign keeps them apart from anything a table would call its own.
_KEY_PREFIX = "icefloe partition key "


def distributed(rows: DataFrame, target: WriteTarget) -> DataFrame:
    """The rows, shuffled as `write.distribution-mode` says and sorted within each task where the table has a sort order or is without fan-out.

    Where the property is not set, a sorted table is range-distributed and a partitioned one hashed, as in Java.
    """
    sources = Sources(rows, target.schema)
    partition_keys = [
        sources.transformed(f.source_id, f.transform) for f in target.spec.fields if not isinstance(f.transform, VoidTransform)
    ]
    sort_keys = [_sorted(sources.transformed(key.source_id, key.transform), key) for key in target.sort_order.fields]
    mode = DISTRIBUTION_MODE.read(target.properties)
    if DISTRIBUTION_MODE.name not in target.properties and sort_keys:
        mode = "range"
    keys = [key.asc_nulls_first() for key in partition_keys] + sort_keys
    if mode == "range" and keys:
        rows = rows.repartitionByRange(*keys)
    elif mode == "hash" and partition_keys:
        rows = _hashed(rows, partition_keys)
    gathers = bool(partition_keys) and not FANOUT_ENABLED.read(target.properties)
    return rows.sortWithinPartitions(*keys) if sort_keys or gathers else rows


def _hashed(rows: DataFrame, keys: list[Column]) -> DataFrame:
    """Rows of one partition together, but a partition of many rows over several tasks: Spark's rebalance, which takes columns by name only."""
    names = [f"{_KEY_PREFIX}{place}" for place in range(len(keys))]
    keyed = rows.withColumns(dict(zip(names, keys, strict=True)))
    return keyed.hint("rebalance", *(column_named(name) for name in names)).drop(*names)


def _sorted(key: Column, field: SortField) -> Column:
    first = field.null_order is NullOrder.NULLS_FIRST
    if field.direction is SortDirection.ASC:
        return key.asc_nulls_first() if first else key.asc_nulls_last()
    return key.desc_nulls_first() if first else key.desc_nulls_last()


class Sources:
    """The columns of the rows by field id, and transforms of them."""

    def __init__(self, rows: DataFrame, schema: Schema) -> None:
        self._names = set(rows.columns)
        self._types = {field.name: field.dataType for field in rows.schema.fields}
        self._schema = schema

    def transformed(self, source_id: int, transform: Transform) -> Column:
        """A transform of a table column as Spark computes it; a constant null for a column that the rows lack."""
        path = self._schema.path_of(source_id) or ()
        kind = self._schema.find_type(source_id)
        if not path or path[0] not in self._names or not isinstance(kind, PrimitiveType):
            return F.lit(None).cast("int")
        column = column_named(path[0])
        for name in path[1:]:
            column = column.getField(name)
        own_type = spark_type(kind)
        # A narrower column of the rows first takes the table's type: buckets and truncation of an int differ from those of a byte.
        if own_type is not None and len(path) == 1 and self._types[path[0]] != own_type and not isinstance(kind, UUIDType):
            column = column.cast(own_type)
        return _transformed(column, kind, transform)


def _transformed(column: Column, kind: PrimitiveType, transform: Transform) -> Column:
    if isinstance(transform, BucketTransform):
        return _bucket(column, kind, transform)
    if isinstance(transform, TruncateTransform):
        return _truncated(column, kind, transform.width)
    function = _TIME_TRANSFORMS.get(type(transform))
    if function is not None:
        return function(column, kind)
    if isinstance(transform, IdentityTransform):
        return column
    return F.lit(None).cast("int")  # void, or a transform of a later version, which writing refuses


def _micros(column: Column, kind: PrimitiveType) -> Column:
    """Microseconds since 1970, or since midnight for a time, whatever the session's time zone."""
    if isinstance(kind, TimestamptzType | TimestamptzNanoType):
        return F.unix_micros(column)
    minutes = F.hour(column) * 60 + F.minute(column)
    of_minute = (F.date_part(F.lit("SECOND"), column) * 1_000_000).cast("bigint")
    of_day = minutes.cast("bigint") * 60_000_000 + of_minute
    return of_day if isinstance(kind, TimeType) else F.unix_date(column.cast("date")).cast("bigint") * MICROS_PER_DAY + of_day


def _floor(column: Column, step: int) -> Column:
    """Whole steps, rounded down also below zero; in whole numbers, as a double has too few digits for far years."""
    return F.call_function("div", column - F.pmod(column, F.lit(step)), F.lit(step))


def _date(column: Column, kind: PrimitiveType) -> Column:
    """The date in UTC, which is the day that Iceberg counts."""
    if isinstance(kind, TimestamptzType | TimestamptzNanoType):
        return F.date_from_unix_date(_floor(F.unix_micros(column), MICROS_PER_DAY).cast("int"))
    return column.cast("date")


def _hours(column: Column, kind: PrimitiveType) -> Column:
    if isinstance(kind, TimestamptzType | TimestamptzNanoType):
        return _floor(F.unix_micros(column), MICROS_PER_HOUR)
    return F.unix_date(column.cast("date")).cast("bigint") * 24 + F.hour(column)


_TIME_TRANSFORMS: Mapping[type[Transform], Callable[[Column, PrimitiveType], Column]] = {
    YearTransform: lambda column, kind: F.year(_date(column, kind)),
    MonthTransform: lambda column, kind: F.year(_date(column, kind)) * 12 + F.month(_date(column, kind)),
    DayTransform: _date,
    HourTransform: _hours,
}


def _truncated(column: Column, kind: PrimitiveType, width: int) -> Column:
    if isinstance(kind, StringType | BinaryType):
        return F.substring(column, 1, width)
    if isinstance(kind, DecimalType):
        return column - F.pmod(column, F.lit(f"{width}e-{kind.scale}").cast(f"decimal({kind.precision}, {kind.scale})"))
    return column - F.pmod(column, F.lit(width))


def _bucket(column: Column, kind: PrimitiveType, transform: BucketTransform) -> Column:
    """The bucket number, or null. Only this one column crosses to Python; pandas would make floats of longs with nulls, so nulls stay behind."""
    plain, hashed_as, stand_in = _hashable(column, kind)

    def buckets(values: pd.Series) -> pd.Series:
        arrow = pa.array(values.tolist() if values.dtype == object else values.to_numpy(), _ARROW_FORMS.get(type(hashed_as)))
        return pd.Series(transform.apply_array(hashed_as, arrow).to_numpy(zero_copy_only=False))

    as_udf: Any = pandas_udf
    return F.when(column.isNotNull(), as_udf(buckets, SparkInteger())(F.coalesce(plain, stand_in)))


_ARROW_FORMS: Mapping[type[PrimitiveType], Any] = {LongType: pa.int64(), StringType: pa.string(), BinaryType: pa.binary()}


def _hashable(column: Column, kind: PrimitiveType) -> tuple[Column, PrimitiveType, Column]:
    """The column in a form that crosses to Python exactly, the type whose hash is the same, and a value for its nulls."""
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("bigint"), LongType(), F.lit(0).cast("bigint")
    if isinstance(kind, TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType | TimeType):
        return _micros(column, kind), LongType(), F.lit(0).cast("bigint")
    if isinstance(kind, IntegerType | LongType):
        return column.cast("bigint"), LongType(), F.lit(0).cast("bigint")
    if isinstance(kind, UUIDType):
        return F.unhex(F.replace(column.cast("string"), F.lit("-"), F.lit(""))), BinaryType(), F.lit(bytes(16))
    if isinstance(kind, FixedType | BinaryType):
        return column, BinaryType(), F.lit(b"")
    if isinstance(kind, DecimalType):
        return column, kind, F.lit(0).cast(f"decimal({kind.precision}, {kind.scale})")
    return column.cast("string"), StringType(), F.lit("")
