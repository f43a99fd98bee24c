"""The rows of an upsert that come as a DataFrame: kept by Spark, so that they are computed once; their keys checked by one aggregation.

Few rows are handed over as Arrow as well: what they are joined with may be little too, and is then read in this process. Joining them is `upsert.py`.
Spec: Identifier Field IDs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import BinaryType as SparkBinary
from pyspark.sql.types import DataType
from pyspark.sql.types import StructType as SparkStruct

from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    UnknownType,
    UUIDType,
    VariantType,
)
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.scan.filter_columns import column_named
from icefloe.spark.scan.unpersist_queue import unpersist_with
from icefloe.spark.types.arrow_conversion import from_spark_form
from icefloe.spark.types.geo_types import wkb_of_shapes
from icefloe.spark.types.spark_types import spark_type
from icefloe.spark.write.schema_check import check_fits, widened_decimals
from icefloe.table.engine import KeyValues, UpsertSource
from icefloe.table.rows.upsert_source import MOST_LISTED_KEYS, SHOWN_KEYS, Names, arrow_source, check_complete, repeated_keys

# Bytes, as Spark keeps them, of rows that are handed over to this process.
MOST_BYTES_HERE = 1 << 26
# What Spark hands over to tasks alone, or not as the table's type.
_STAYS = (VariantType, GeometryType, GeographyType, UnknownType)
_RANGED = (IntegerType, LongType, DateType, StringType, DecimalType)
_LISTED = (*_RANGED, BooleanType, UUIDType, FixedType, BinaryType)
COUNT, LOW, HIGH = "count", "low", "high"


@dataclass(frozen=True)
class SparkRows:
    """A source that Spark keeps: `frame` has its columns under their names; `total` is how many rows it has."""

    frame: DataFrame
    total: int


def spark_source(rows: DataFrame, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
    """See `Engine.upsert_source`. The DataFrame is kept by Spark, in memory and on disk, for as long as the upsert lasts.

    Raises as `Engine.upsert_source`, and `EngineError` where Spark's job failed.
    """
    if updates:
        check_complete(_names(rows.schema), schema)
    check_fits(rows.schema, schema)
    rows = wkb_of_shapes(rows)
    spark = rows.sparkSession
    is_kept = rows.storageLevel != StorageLevel.NONE
    kept = rows if is_kept else rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        total = run_job(spark, "count the rows to upsert", kept.count)
        source = SparkRows(widened_decimals(kept, schema), total)
        here = _here(source, schema, key_ids, updates=updates)
        keys = _checked_keys(source, schema, key_ids) if here is None else here.keys
    except BaseException:
        if not is_kept:
            kept.unpersist()
        raise
    if not is_kept:
        unpersist_with(source, kept)
    return UpsertSource(rows=source, keys=keys, here=here)


def _here(source: SparkRows, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource | None:
    """The rows in this process where they are few, checked there; None otherwise."""
    frame = source.frame
    plan = frame.select("*")._jdf.queryExecution().optimizedPlan()  # a new one: it knows the size of what is kept by now
    size = int(str(plan.stats().sizeInBytes()))
    if size > MOST_BYTES_HERE or any(isinstance(field.field_type, _STAYS) for _, field in walk(schema.fields)):
        return None
    rows = run_job(frame.sparkSession, "read the few rows to upsert", frame.toArrow)
    kinds = {field.name: field.field_type for field in schema.fields}
    columns = [from_spark_form(rows.column(name).combine_chunks(), kinds[name], name) for name in rows.column_names]
    return arrow_source(pa.Table.from_arrays(columns, names=rows.column_names), schema, key_ids, updates=updates)


def _checked_keys(source: SparkRows, schema: Schema, key_ids: Sequence[int]) -> tuple[KeyValues, ...] | None:
    """What the keys are, by an aggregation; None where no row has a whole one. Raises `InvalidInputError` where two rows have the same."""
    ready, spark = source.frame, source.frame.sparkSession
    keys = [key_column(source_column(ready, schema, key_id), schema.find_type(key_id)) for key_id in key_ids]
    names = [f"key{place}" for place in range(len(keys))]
    groups = ready.select(*(key.alias(name) for key, name in zip(keys, names, strict=True))).groupBy(*names).agg(F.count("*").alias(COUNT))
    whole = groups.dropna(how="any", subset=names)
    kinds = [schema.find_type(key_id) for key_id in key_ids]
    known = run_job(spark, "look at the keys to upsert", lambda: whole.agg(*_figures(names, kinds)).collect()[0])
    if known["repeated"]:
        shown = run_job(spark, "look at repeated keys", lambda: whole.where(F.col(COUNT) > 1).limit(SHOWN_KEYS).collect())
        titles = [schema.find_column_name(key_id) or "" for key_id in key_ids]
        raise repeated_keys(titles, [", ".join(repr(row[name]) for name in names) for row in shown], known["repeated"])
    listed: list[Any] | None = None
    if 0 < known[COUNT] <= MOST_LISTED_KEYS:
        listed = run_job(spark, "read the few keys to upsert", lambda: whole.select(*names).collect())
    values = tuple(
        _values(key_id, kind, known, name, None if listed is None else [row[name] for row in listed])
        for key_id, kind, name in zip(key_ids, kinds, names, strict=True)
    )
    return values if known[COUNT] else None


def source_column(rows: DataFrame, schema: Schema, field_id: int) -> Column:
    """The column of a field, inside structs too, of a frame with the table's names."""
    path = schema.path_of(field_id) or ()
    column = column_named(path[0])
    for name in path[1:]:
        column = column.getField(name)
    kind: DataType = rows.select(column.alias("key")).schema[0].dataType
    return F.hex(column) if isinstance(kind, SparkBinary) and isinstance(schema.find_type(field_id), UUIDType) else column


def key_column(column: Column, kind: IcebergType) -> Column:
    """A key as it is joined: in the table's type; a UUID as its 32 digits, whatever it came as."""
    if isinstance(kind, UUIDType):
        return F.lower(F.replace(column.cast("string"), F.lit("-"), F.lit("")))
    own = spark_type(kind) if isinstance(kind, PrimitiveType) else None
    return column if own is None else column.cast(own)


def _figures(names: Sequence[str], kinds: Sequence[IcebergType]) -> list[Column]:
    found = [F.count("*").alias(COUNT), F.count(F.when(F.col(COUNT) > 1, 1)).alias("repeated")]
    for name, kind in zip(names, kinds, strict=True):
        if isinstance(kind, _RANGED):
            found += [F.min(name).alias(LOW + name), F.max(name).alias(HIGH + name)]
    return found


def _values(key_id: int, kind: IcebergType, known: Any, name: str, listed: Sequence[Any] | None) -> KeyValues:
    if listed is not None and isinstance(kind, _LISTED):
        return KeyValues(field_id=key_id, values=tuple(dict.fromkeys(bytes(v) if isinstance(v, bytearray) else v for v in listed)))
    if known[COUNT] and isinstance(kind, _RANGED):
        return KeyValues(field_id=key_id, low=known[LOW + name], high=known[HIGH + name])
    return KeyValues(field_id=key_id)


def _names(struct: SparkStruct) -> Names:
    found: Mapping[str, Any] = {
        field.name: _names(field.dataType) if isinstance(field.dataType, SparkStruct) else None for field in struct.fields
    }
    return found
