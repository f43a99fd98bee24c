"""`icefloe.spark.table`: a DataFrame with the rows of a table, for any session, planned in this process; and `reading_of`: how Spark reads it.

A classic session reads with `spark/scan/read_strategy.py`. Spark Connect reads with `parquet_reader.py` if that returns the correct rows, else with the data
source `python_data_source.py`. Spec: Scan Planning.
"""

import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.errors import InvalidInputError, in_one_line
from icefloe.operations.loaded_table import TableReader
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.connect import connect_options as names
from icefloe.spark.connect.connect_options import SourceOptions, load_table, to_scan
from icefloe.spark.connect.parquet_reader import NotReadableByParquet, read_by_parquet
from icefloe.spark.connect.python_data_source import FORMAT
from icefloe.spark.connect.register import check_session, registered_catalogs, storage_key
from icefloe.spark.jobs.spark_jobs import raise_error_of
from icefloe.spark.scan.read_strategy import read
from icefloe.spark.scan.table_selector import timestamp_ms
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression

LOG = logging.getLogger(__name__)
NATIVE, PARQUET, DATA_SOURCE = "native", "parquet", "data source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How Spark reads a DataFrame from `table`; the result of `reading_of`.

    Attributes:
        way: `native` for a classic session; for Spark Connect `parquet` (Spark's public Parquet reader) or `data source` (Python reads in Spark's tasks).
        reason: The reason why Spark's public Parquet reader, which is faster, is not used; empty if it is used, and in a classic session.
    """

    way: str
    reason: str = ""


_READINGS: "WeakKeyDictionary[DataFrame, Reading]" = WeakKeyDictionary()


def table(
    spark: SparkSession,
    name: str | TableReader,
    *,
    where: str | BooleanExpression | None = None,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of_timestamp: int | str | datetime | None = None,
    start_snapshot_id: int | None = None,
    end_snapshot_id: int | None = None,
) -> DataFrame:
    """Return the rows of a table as a DataFrame of any session, classic or Spark Connect.

    For example `table(spark, "lake.demo.events", where="day = DATE '2026-01-31'")`. The DataFrame keeps the snapshot that is current at the call. `reading_of`
    returns how it is read.

    Args:
        spark: The session.
        name: A table; or a name `catalog.namespace.table` in a catalog that was passed to `register` or is configured on this machine; or the location of a
            metadata file.
        where: A filter that is used for planning, so that it prunes files, which `frame.where` does not. A time without a zone is in UTC.
        columns: Columns to read; all by default.
        snapshot_id: The snapshot to read.
        branch: The branch to read.
        tag: The tag to read.
        as_of_timestamp: Read the snapshot that was current at this time: milliseconds since 1970-01-01 UTC, or a `datetime` or text with a time zone.
        start_snapshot_id: Read only rows appended after this snapshot.
        end_snapshot_id: Last snapshot of that range; the current one by default.

    Returns:
        The DataFrame.

    Raises:
        NoSuchCatalogError, NoSuchTableError, NoSuchSnapshotError: The catalog, table or snapshot does not exist.
        InvalidFilterError, InvalidSchemaError: The filter or a column is not valid for the table.
        InvalidInputError: Two arguments select a snapshot, or an argument has the wrong type.
        UnsupportedTypeError: This Spark has no type for a column.
    """
    _check_types(spark, name, columns)
    points = [point for point in (snapshot_id, branch, tag, as_of_timestamp) if point is not None]
    if len(points) > 1 and not (len(points) == 2 and branch is not None and as_of_timestamp is not None):
        raise InvalidInputError("a read is of one snapshot, and more than one is named", next_step="name one of them")
    if end_snapshot_id is not None and start_snapshot_id is None:
        raise InvalidInputError(
            "end_snapshot_id is given without start_snapshot_id", next_step="give both, or snapshot_id for one snapshot"
        )
    if start_snapshot_id is not None and points and (points != [branch] or end_snapshot_id is not None):
        raise InvalidInputError("a range of snapshots and a snapshot are named", next_step="name one of them; a branch may end a range")
    options = SourceOptions(
        table="" if isinstance(name, TableReader) else name,
        path=name if isinstance(name, str) and names.is_location(name) else None,
        snapshot_id=snapshot_id if start_snapshot_id is None else end_snapshot_id,
        start_snapshot_id=start_snapshot_id,
        branch=branch,
        tag=tag,
        as_of_ms=None if as_of_timestamp is None else timestamp_ms(as_of_timestamp),
        columns=("*",) if columns is None else tuple(columns),
        where=None if where is None else str(to_expression(where)),
    )
    source = load_table(options, registered_catalogs(spark)) if isinstance(name, str) else name
    scan = to_scan(source, options)
    if has_jvm(spark):
        return _with_reading(read(spark, scan.request()), Reading(way=NATIVE), source)
    try:
        return _with_reading(read_by_parquet(spark, scan.request()), Reading(way=PARQUET), source)
    except NotReadableByParquet as refusal:
        reason = str(refusal)
    return _with_reading(_read_by_data_source(spark, source, options), Reading(way=DATA_SOURCE, reason=reason), source)


def _check_types(spark: object, name: object, columns: object) -> None:
    """Raise `InvalidInputError` if the first two arguments are swapped, or `columns` is a text instead of a list."""
    check_session(spark)
    if not isinstance(name, str | TableReader):
        raise InvalidInputError(
            f"the second argument is of type {type(name).__qualname__}, not a table or its name",
            next_step='write table(spark, "catalog.namespace.table")',
        )
    if isinstance(columns, str):
        raise InvalidInputError(f"columns is the text {columns!r}, not a list of names", next_step=f"pass columns=[{columns!r}]")


def reading_of(frame: DataFrame) -> Reading:
    """Return how Spark reads a DataFrame from `table`.

    Args:
        frame: The DataFrame that `table` returned, not a DataFrame that is derived from it.

    Returns:
        The way of reading, and the reason why a faster one is not used.

    Raises:
        InvalidInputError: `table` did not return this frame.
    """
    reading = _READINGS.get(frame)
    if reading is None:
        raise InvalidInputError("the frame does not come from icefloe.spark.table", next_step="give the frame that it returned itself")
    return reading


def _read_by_data_source(spark: SparkSession, source: TableReader, options: SourceOptions) -> DataFrame:
    read_id = uuid.uuid4().hex
    values: dict[str, Any] = {
        names.READ_ID: read_id,
        names.PATH: source.metadata_location,
        names.TABLE: source.full_name,
        names.STORAGE: storage_key(spark, source.io),
        names.SNAPSHOT_ID if options.start_snapshot_id is None else names.END: options.snapshot_id,
        names.START: options.start_snapshot_id,
        names.BRANCH: options.branch,
        names.TAG: options.tag,
        names.AS_OF: options.as_of_ms,
        names.COLUMNS: None if options.columns == ("*",) else json.dumps(options.columns),
        names.WHERE: options.where,
    }
    reader = spark.read.format(FORMAT).options(**{key: str(value) for key, value in values.items() if value is not None})
    try:
        frame = reader.load()
        frame.schema  # noqa: B018 sends the plan to the server, so that errors are raised here
    except PySparkException as error:
        raise_error_of(error, read_id)
    return frame


def _with_reading(frame: DataFrame, reading: Reading, source: TableReader) -> DataFrame:
    _READINGS[frame] = reading
    LOG.info("%s is read by %s%s", in_one_line(source.full_name), reading.way, f": {reading.reason}" if reading.reason else "")
    return frame
