"""`table`: the rows of a table as a DataFrame in any session, planned here first; and which reader took it.

A classic session reads by `icefloe.spark.scan.planned_rows`; Spark Connect by `parquet_reader.py` where that gives the table's rows, else by the
data source `python_data_source.py`.
Spec: Scan Planning.
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
from icefloe.kernel.expressions.filter_parser import to_expression
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.connect import connect_options as names
from icefloe.spark.connect.connect_options import Asked, opened, scan_of
from icefloe.spark.connect.parquet_reader import NotByParquet, planned_rows
from icefloe.spark.connect.python_data_source import FORMAT
from icefloe.spark.connect.register import storage_key, told
from icefloe.spark.jobs.spark_jobs import engine_error, task_error
from icefloe.spark.scan.planned_rows import read
from icefloe.spark.scan.table_selector import timestamp_ms
from icefloe.table.table_reader import TableReader

LOG = logging.getLogger(__name__)
NATIVE, PARQUET, DATA_SOURCE = "native", "parquet", "data source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a frame of `table` is read: `native` (a classic session), `parquet` (Spark's public reader) or `data source` (through Python, and why)."""

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
    """A table's rows as a DataFrame of any session, classic or Spark Connect: `table(spark, "lake.demo.events", where="day = DATE '2026-01-31'")`.

    The table is one at hand, a name `catalog.namespace.table` whose catalog was given to `register` or is configured on this machine, or the location of a
    metadata file. `where` and `columns` are used for planning, so they are worth more here than as methods of the frame. The frame stays at the snapshot that
    is current now. `as_of_timestamp` is in milliseconds from 1970-01-01 UTC, a time with its zone, or such a time as text. With `start_snapshot_id` the frame
    has the rows that were appended after that snapshot, up to `end_snapshot_id` or the current one. `reading_of` tells how it is read.

    Raises:
        NoSuchCatalogError, NoSuchTableError, NoSuchSnapshotError: what is named is not there.
        InvalidFilterError, InvalidSchemaError: the filter or a column does not fit the table. InvalidInputError: two names of a snapshot.
        UnsupportedTypeError: this Spark has no type for a column.
    """
    point = [given for given in (snapshot_id, branch, tag, as_of_timestamp) if given is not None]
    if len(point) > 1 and not (len(point) == 2 and branch is not None and as_of_timestamp is not None):
        raise InvalidInputError("a read is of one snapshot, and more than one is named", next_step="name one of them")
    if end_snapshot_id is not None and start_snapshot_id is None:
        raise InvalidInputError(
            "end_snapshot_id is given without start_snapshot_id", next_step="give both, or snapshot_id for one snapshot"
        )
    if start_snapshot_id is not None and point and (point != [branch] or end_snapshot_id is not None):
        raise InvalidInputError("a range of snapshots and a snapshot are named", next_step="name one of them; a branch may end a range")
    asked = Asked(
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
    found = opened(asked, told(spark)) if isinstance(name, str) else name
    scan = scan_of(found, asked)
    if has_jvm(spark):
        return _noted(read(spark, scan.request()), Reading(way=NATIVE), found)
    try:
        return _noted(planned_rows(spark, scan.request()), Reading(way=PARQUET), found)
    except NotByParquet as answer:
        reason = str(answer)
    return _noted(_by_data_source(spark, found, asked), Reading(way=DATA_SOURCE, reason=reason), found)


def reading_of(frame: DataFrame) -> Reading:
    """How a frame that `table` returned is read. Raises `InvalidInputError` for any other frame, also for one made of it."""
    found = _READINGS.get(frame)
    if found is None:
        raise InvalidInputError("the frame does not come from icefloe.spark.table", next_step="ask about the frame that it returned itself")
    return found


def _by_data_source(spark: SparkSession, found: TableReader, asked: Asked) -> DataFrame:
    read_id = uuid.uuid4().hex
    given: dict[str, Any] = {
        names.READ_ID: read_id,
        names.PATH: found.metadata_location,
        names.TABLE: found.full_name,
        names.STORAGE: storage_key(spark, found.io),
        names.SNAPSHOT_ID if asked.start_snapshot_id is None else names.END: asked.snapshot_id,
        names.START: asked.start_snapshot_id,
        names.BRANCH: asked.branch,
        names.TAG: asked.tag,
        names.AS_OF: asked.as_of_ms,
        names.COLUMNS: None if asked.columns == ("*",) else json.dumps(asked.columns),
        names.WHERE: asked.where,
    }
    reader = spark.read.format(FORMAT).options(**{key: str(value) for key, value in given.items() if value is not None})
    try:
        frame = reader.load()
        frame.schema  # noqa: B018 asks the server, so that what is wrong is told here
    except PySparkException as error:
        raise task_error(error, read_id) or engine_error(error) from error
    return frame


def _noted(frame: DataFrame, reading: Reading, found: TableReader) -> DataFrame:
    _READINGS[frame] = reading
    LOG.info("%s is read by %s%s", in_one_line(found.full_name), reading.way, f": {reading.reason}" if reading.reason else "")
    return frame
