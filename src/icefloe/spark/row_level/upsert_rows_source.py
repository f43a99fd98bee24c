"""The source of an upsert: a DataFrame, whose rows are computed only once, and whose keys are checked.

A small source is read to the driver as Arrow by one job, and its keys are checked there; if few rows of the table may match, the join is computed there too.
Spark caches a larger source, one aggregation checks its keys, and `upsert_job.py` joins it.
Spec: Identifier Field IDs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import ArrayType, DataType
from pyspark.sql.types import BinaryType as SparkBinary
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import EngineError, UnsupportedFeatureError
from icefloe.operations.arrow_upsert import upsert_arrow
from icefloe.operations.engine import KeyValues, UpsertedRows, UpsertRequest, UpsertSource
from icefloe.operations.upsert_source import MOST_LISTED_KEYS, SHOWN_KEYS, Names, arrow_source, check_complete, repeated_keys
from icefloe.spark.bridge.gateway import executors_have_classes, new_object
from icefloe.spark.jobs.spark_jobs import raise_error_of, run_job
from icefloe.spark.scan.spark_cache import unpersist_with
from icefloe.spark.types.arrow_conversion import from_spark_form
from icefloe.spark.types.spark_types import column_named, field_inside, geo_to_wkb, quote_name, spark_type
from icefloe.spark.write.schema_check import check_fits, widened_decimals
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import (
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

LOG = logging.getLogger(__name__)

# The maximum bytes of rows that are read to the driver, as measured in Spark's cache or as Arrow.
MOST_BYTES_HERE = 1 << 26
# The maximum of Spark's size estimate for rows that are read to the driver without being cached first. Files are estimated by their compressed size.
MOST_ESTIMATED_BYTES = 1 << 24
# Spark's setting that limits the size of a job's results; its error contains this name.
_RESULT_LIMIT = "spark.driver.maxResultSize"
# Types whose values Spark cannot return to the driver, or returns as a different type.
_NOT_COLLECTED = (VariantType, GeometryType, GeographyType, UnknownType)
_RANGED = (IntegerType, LongType, DateType, StringType, DecimalType)
_LISTED = (*_RANGED, BooleanType, UUIDType, FixedType, BinaryType)
COUNT, LOW, HIGH = "count", "low", "high"


@dataclass(frozen=True)
class SparkRows:
    """The rows of an upsert's source, which are the same at every read.

    Attributes:
        create: a function that returns the rows as a DataFrame with the source's column names.
        total: the number of rows.
    """

    create: Callable[[], DataFrame]
    total: int

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame. It is created at the first use, because a join in this process does not need it."""
        return self.create()


def spark_source(
    rows: DataFrame, schema: Schema, key_ids: Sequence[int], *, updates: bool, join: Callable[[UpsertRequest], UpsertedRows]
) -> UpsertSource:
    """Check the columns and keys of the rows of an upsert, and return them as its source.

    If there are few rows by Spark's estimate, they are read to the driver. Otherwise Spark caches them in memory and on disk while the upsert runs.

    Args:
        rows: the rows to upsert.
        schema: the table's schema.
        key_ids: ids of the key fields.
        updates: True if matched rows are updated, which requires all columns.
        join: the function that runs the upsert in Spark's tasks, if the rows are not read to the driver.

    Raises:
        SchemaMismatchError: the columns do not fit the table, or some are missing.
        InvalidInputError: two rows have the same key.
        EngineError: Spark's job failed.
    """
    _check_columns(rows, schema, updates=updates)
    rows = geo_to_wkb(rows)
    can_be_here = not _not_collected(schema)
    if can_be_here and _size(rows) <= min(MOST_ESTIMATED_BYTES, MOST_BYTES_HERE) and (table := _read_few(rows)) is not None:
        here = _arrow_source(table, schema, key_ids, updates=updates)
        # The task uses the rows that were read, because a second computation may return different rows.
        source = SparkRows(
            lambda: widened_decimals(rows.sparkSession.createDataFrame(table, rows.schema.toNullable()), schema), table.num_rows
        )
        return UpsertSource(rows=source, keys=here.keys, join=join, here=here)
    spark = rows.sparkSession
    is_cached = rows.storageLevel != StorageLevel.NONE
    cached = rows if is_cached else rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        total = run_job(spark, "count the rows to upsert", cached.count)
        source = SparkRows(lambda: widened_decimals(cached, schema), total)
        is_small = can_be_here and _size(source.frame) <= MOST_BYTES_HERE
        cached_table = _read(source.frame) if is_small else None
        from_cache = None if cached_table is None else _arrow_source(cached_table, schema, key_ids, updates=updates)
        keys = _checked_keys(source, schema, key_ids) if from_cache is None else from_cache.keys
    except BaseException:
        if not is_cached:
            cached.unpersist()
        raise
    if not is_cached:
        unpersist_with(source, cached)
    return UpsertSource(rows=source, keys=keys, join=join, here=from_cache)


def _size(rows: DataFrame) -> int:
    """Return the size of the rows in bytes that Spark estimates; for rows that are cached already it is the actual size."""
    return int(str(_new_plan(rows).optimizedPlan().stats().sizeInBytes()))


def _new_plan(rows: DataFrame) -> Any:
    """Return a new query execution (a Java object) of the rows. That of the DataFrame itself does not use rows that were cached after it was created."""
    return rows.select("*")._jdf.queryExecution()


def _read_few(rows: DataFrame) -> pa.Table | None:
    """Read the rows to the driver as Arrow with one job; return None if they are larger than `MOST_BYTES_HERE` or Spark's limit for results.

    Spark's estimate may be far too low. So each task measures its rows, and returns no more than its share of the limit. Executors without Icefloe's Java
    classes cannot do this; then None is returned too.
    """
    spark = rows.sparkSession
    if not executors_have_classes(spark):
        return None
    cut_off = spark.sparkContext._jsc.sc().longAccumulator()
    limited = run_job(spark, "plan the few rows to upsert", lambda: _first_rows(rows, cut_off))
    table = _read(limited)
    return None if table is None or cut_off.value() or table.nbytes > MOST_BYTES_HERE else table


def _first_rows(rows: DataFrame, cut_off: Any) -> DataFrame:
    """Return the first rows of each partition, up to an equal share of `MOST_BYTES_HERE`. Partitions with more rows are counted in `cut_off`."""
    spark = rows.sparkSession
    partitions = _new_plan(rows).executedPlan().execute().toJavaRDD()  # adaptive execution runs all stages except the last one
    first_rows = new_object(spark, "FirstRows", MOST_BYTES_HERE // max(1, partitions.getNumPartitions()), cut_off)
    session = rows._jdf.sparkSession()
    return DataFrame(session.internalCreateDataFrame(partitions.mapPartitions(first_rows).rdd(), rows._jdf.schema(), False), spark)


def _read(rows: DataFrame) -> pa.Table | None:
    """Read the rows to the driver as Arrow; return None if they exceed Spark's limit for results."""
    try:
        return run_job(rows.sparkSession, "read the few rows to upsert", _with_nullable_fields(rows).toArrow)
    except EngineError as error:
        if _RESULT_LIMIT not in error.message:
            raise
        LOG.info("the rows to upsert are above %s, so Spark's tasks join them", _RESULT_LIMIT)
        return None


def _with_nullable_fields(rows: DataFrame) -> DataFrame:
    """Make all struct fields, elements and map values nullable, because `toArrow` fails if a null struct has a required field."""
    kinds = {field.name: field.dataType for field in rows.schema.fields if isinstance(field.dataType, ArrayType | SparkMap | SparkStruct)}
    casts = {name: column_named(name).cast(kind.toNullable()).alias(name) for name, kind in kinds.items() if kind != kind.toNullable()}
    return rows.select(*(casts.get(name, quote_name(name)) for name in rows.columns)) if casts else rows


def connect_source(rows: DataFrame, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
    """Read the rows of a Spark Connect DataFrame to this process, as the source of an upsert that runs here.

    Args:
        rows: the rows to upsert.
        schema: the table's schema.
        key_ids: ids of the key fields.
        updates: True if matched rows are updated, which requires all columns.

    Raises:
        UnsupportedFeatureError: the table has a column whose values Spark does not return to a client.
        IcefloeError: the errors of `spark_source`.
    """
    _check_columns(rows, schema, updates=updates)
    if not_returned := _not_collected(schema):
        raise UnsupportedFeatureError(
            f"a DataFrame of Spark Connect cannot be upserted into a table with the columns {', '.join(not_returned)}, whose types a client cannot receive",
            next_step="use a classic session, which icefloe.spark.session() starts in a new Python process",
        )
    try:
        table = _with_nullable_fields(rows).toArrow()
    except PySparkException as error:
        raise_error_of(error, "")
    return _arrow_source(table, schema, key_ids, updates=updates)


def _check_columns(rows: DataFrame, schema: Schema, *, updates: bool) -> None:
    """Raise `SchemaMismatchError` if the columns do not fit the table or, if matched rows are updated, a column is missing."""
    if updates:
        check_complete(_names(rows.schema), schema)
    check_fits(rows.schema, schema)


def _not_collected(schema: Schema) -> list[str]:
    """Return the dotted names of the fields whose type Spark cannot send unchanged to the driver or a client."""
    return [".".join(path) for path, field in walk(schema.fields) if isinstance(field.field_type, _NOT_COLLECTED)]


def _arrow_source(rows: pa.Table, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
    field_types = {field.name: field.field_type for field in schema.fields}
    columns = [from_spark_form(rows.column(name).combine_chunks(), field_types[name], name) for name in rows.column_names]
    return arrow_source(pa.Table.from_arrays(columns, names=rows.column_names), schema, key_ids, updates=updates, join=upsert_arrow)


def _checked_keys(source: SparkRows, schema: Schema, key_ids: Sequence[int]) -> tuple[KeyValues, ...] | None:
    """Check with one aggregation that no two rows have the same key, else raise `InvalidInputError`. Return the keys' values; None if no key is complete."""
    rows, spark = source.frame, source.frame.sparkSession
    keys = [key_column(source_column(rows, schema, key_id), schema.find_type(key_id)) for key_id in key_ids]
    names = [f"key{place}" for place in range(len(keys))]
    groups = rows.select(*(key.alias(name) for key, name in zip(keys, names, strict=True))).groupBy(*names).agg(F.count("*").alias(COUNT))
    complete_keys = groups.dropna(how="any", subset=names)
    key_types = [schema.find_type(key_id) for key_id in key_ids]
    figures = run_job(spark, "look at the keys to upsert", lambda: complete_keys.agg(*_figures(names, key_types)).collect()[0])
    if figures["repeated"]:
        repeated = with_texts_of_times(complete_keys.where(F.col(COUNT) > 1).limit(SHOWN_KEYS).select(*names))
        shown = run_job(spark, "look at repeated keys", repeated.collect)
        titles = [schema.find_column_name(key_id) or "" for key_id in key_ids]
        raise repeated_keys(titles, [", ".join(repr(row[name]) for name in names) for row in shown], figures["repeated"])
    listed: list[Any] | None = None
    if 0 < figures[COUNT] <= MOST_LISTED_KEYS:
        fields = [
            _literal_column(name, key_type).alias(name)
            for name, key_type in zip(names, key_types, strict=True)
            if isinstance(key_type, _LISTED)
        ]
        listed = run_job(spark, "read the few keys to upsert", lambda: complete_keys.select(*fields).collect())
    values = tuple(
        _key_values(
            key_id, key_type, figures, name, [row[name] for row in listed] if listed is not None and isinstance(key_type, _LISTED) else None
        )
        for key_id, key_type, name in zip(key_ids, key_types, names, strict=True)
    )
    return values if figures[COUNT] else None


def source_column(rows: DataFrame, schema: Schema, field_id: int) -> Column:
    """Return the column of the field with an id, which may be inside structs, in a DataFrame with the table's column names."""
    path = schema.path_of(field_id) or ()
    column = field_inside(column_named(path[0]), path[1:], rows.schema[path[0]].dataType if path[1:] else None)
    data_type: DataType = rows.select(column.alias("key")).schema[0].dataType
    return F.hex(column) if isinstance(data_type, SparkBinary) and isinstance(schema.find_type(field_id), UUIDType) else column


def key_column(column: Column, key_type: IcebergType) -> Column:
    """Convert a key column for comparisons in the join: to the table's type, or uuids to their 32 hexadecimal digits."""
    if isinstance(key_type, UUIDType):
        return F.lower(F.replace(column.cast("string"), F.lit("-"), F.lit("")))
    target = spark_type(key_type) if isinstance(key_type, PrimitiveType) else None
    return column if target is None else column.cast(target)


def _figures(names: Sequence[str], key_types: Sequence[IcebergType]) -> list[Column]:
    """Return the columns of the aggregation: the number of keys, the number of repeated keys, and the bounds of each key column that can have a range."""
    figures = [F.count("*").alias(COUNT), F.count(F.when(F.col(COUNT) > 1, 1)).alias("repeated")]
    for name, key_type in zip(names, key_types, strict=True):
        if isinstance(key_type, _RANGED):
            key = _literal_column(name, key_type)
            figures += [F.min(key).alias(LOW + name), F.max(key).alias(HIGH + name)]
    return figures


def _literal_column(name: str, key_type: IcebergType) -> Column:
    """Convert a key column so that its values can be literals of filters: dates become numbers of days, because Python does not have dates of every year."""
    return F.unix_date(F.col(name)) if isinstance(key_type, DateType) else F.col(name)


def with_texts_of_times(rows: DataFrame) -> DataFrame:
    """Convert dates and timestamps in rows to text, because Python does not have dates of every year."""
    return rows.select(
        *(
            F.col(field.name).cast("string").alias(field.name)
            if field.dataType.typeName() in ("date", "timestamp", "timestamp_ntz")
            else F.col(field.name)
            for field in rows.schema.fields
        )
    )


def _key_values(key_id: int, key_type: IcebergType, figures: Any, name: str, listed: Sequence[Any] | None) -> KeyValues:
    if listed is not None:
        return KeyValues(field_id=key_id, values=tuple(dict.fromkeys(bytes(v) if isinstance(v, bytearray) else v for v in listed)))
    if figures[COUNT] and isinstance(key_type, _RANGED):
        return KeyValues(field_id=key_id, low=figures[LOW + name], high=figures[HIGH + name])
    return KeyValues(field_id=key_id)


def _names(struct: SparkStruct) -> Names:
    names: Mapping[str, Any] = {
        field.name: _names(field.dataType) if isinstance(field.dataType, SparkStruct) else None for field in struct.fields
    }
    return names
