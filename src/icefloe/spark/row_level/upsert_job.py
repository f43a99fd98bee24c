"""An upsert on Spark: one join of the source with the planned files, compared and written in its tasks; no row comes to the driver, positions do.

The source is `upsert_source.py`; comparing is `datafile/same_values.py`, as in-process. Spec: Row Lineage; Identifier Field IDs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.same_values import differing
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.schema.metadata_columns import FILE, POS, ROW_ID, with_lineage
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.row_level.changed_row_values import GonePositions, PackedPositions, joined_positions, rows_in_form, with_row_ids
from icefloe.spark.row_level.upsert_rows_source import SparkRows, key_column, source_column
from icefloe.spark.scan.filter_columns import column_named, quoted
from icefloe.spark.scan.planned_rows import read
from icefloe.spark.types.arrow_conversion import with_offsets
from icefloe.spark.write.data_file_job import small_batches
from icefloe.spark.write.distribution import distributed
from icefloe.spark.write.failed_attempt_cleanup import Attempt, FinishedFiles, delete_lost_attempts, this_attempt, writing_job
from icefloe.table.engine import UpsertedRows, UpsertRequest
from icefloe.table.rows.upsert_source import SHOWN_KEYS, ambiguous_keys

# What the columns of the join are called beside the source's; the sign keeps them apart from any column of a table.
_STORED, _KEY, _FOUND_KEY = "icefloe stored ", "icefloe key ", "icefloe found key "
_PLACE = tuple(f"icefloe {name}" for name in (FILE.name, POS.name, ROW_ID.name))
_RESULT = StructType([StructField("outcome", BinaryType(), False)])


@dataclass(slots=True)
class TaskOutcome:
    """What one Spark task did. `positions` are those of replaced rows, by the path of their file, as deletion vectors."""

    attempt: Attempt
    files: list[DataFile] = field(default_factory=list)
    positions: PackedPositions = field(default_factory=dict)
    matched: int = 0
    updated: int = 0
    unmatched: int = 0


_VALUES = TaskValues(TaskOutcome, Attempt)


@dataclass(frozen=True)
class TaskUpserter:
    """Runs in Spark's tasks: joined rows in, one row with the `TaskOutcome` as bytes out.

    The columns are those of the source, which are `names`, then the table's where rows are compared, then the matching row's file, position and row id.
    """

    target: WriteTarget  # its schema has the columns of row lineage where rows keep their ids
    schema: Schema
    names: tuple[str, ...]
    compares: bool
    inserts: bool
    keeps_row_ids: bool
    finished: FinishedFiles
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        outcome = TaskOutcome(this_attempt())
        replaced = GonePositions()
        with self.errors.carried():
            outcome.files = write_batches(
                self.target,
                self._written(batches, outcome, replaced),
                partition_id=context.partitionId() if context is not None else 0,
                task_id=context.taskAttemptId() if context is not None else 0,
            )
        if outcome.files:
            self.finished.add([file.file_path for file in outcome.files])
        outcome.positions = replaced.packed()
        yield pa.RecordBatch.from_arrays([pa.array([_VALUES.to_bytes(outcome)], pa.binary())], names=["outcome"])

    def _written(self, batches: Iterable[pa.RecordBatch], outcome: TaskOutcome, replaced: GonePositions) -> Iterator[pa.RecordBatch]:
        """The rows to write; what becomes of the others is counted."""
        for batch in map(with_offsets, batches):
            rows = rows_in_form(batch, range(len(self.names)), self.names, self.schema)
            matched = numpy_of(batch.column(batch.num_columns - len(_PLACE)).is_valid())
            changed = np.zeros(batch.num_rows, np.bool_)
            if self.compares and matched.any():
                here = batch.filter(pa.array(matched))
                changed[np.flatnonzero(matched)] = self._changed(rows.filter(pa.array(matched)), here)
                old = batch.filter(pa.array(changed))
                replaced.note(old.column(old.num_columns - len(_PLACE)), old.column(old.num_columns - len(_PLACE) + 1))
            outcome.matched += int(matched.sum())
            outcome.updated += int(changed.sum())
            outcome.unmatched += int((~matched).sum())
            chosen = changed | ~matched if self.inserts else changed
            if chosen.any():
                kept = with_row_ids(rows, batch.column(batch.num_columns - 1), self.schema) if self.keeps_row_ids else rows
                yield from kept.filter(pa.array(chosen)).combine_chunks().to_batches()

    def _changed(self, rows: Any, joined: pa.RecordBatch) -> NDArray[np.bool_]:
        places = range(len(self.names), len(self.names) + len(self.schema.names))
        stored = rows_in_form(joined, places, self.schema.names, self.schema)
        found = (differing(rows.column(column.name), stored.column(column.name)) for column in self.schema.fields)
        return np.asarray(np.logical_or.reduce(list(found)))


def upsert_rows(request: UpsertRequest) -> UpsertedRows:
    """See `Engine.upsert`.

    Raises:
        InvalidInputError: a key matches several rows that are to be updated. What was written is deleted.
        SchemaMismatchError: a value does not fit the table, such as a null where one is required.
        UnsupportedTypeError: the table has a column that Spark has no type for.
        EngineError: Spark's job failed for another reason.
    """
    source: SparkRows = request.source.rows
    schema, spark = request.scan.schema, source.frame.sparkSession
    compares = request.updates and bool(request.tasks) and request.source.keys is not None
    names = tuple(source.frame.columns)
    target = request.target if not request.target.sort_order.is_unsorted else replace(request.target, sort_order_id=0)
    joined = distributed(_joined(request, compares=compares), target)
    keeps = compares and request.keeps_row_ids
    if keeps:
        target = replace(target, schema=Schema(*with_lineage(schema.fields), schema_id=schema.schema_id))
    with small_batches(spark, target.schema), writing_job(spark, target) as finished:
        work = TaskUpserter(target, schema, names, compares, request.inserts, keeps, finished)
        # mapInArrow looks each column up by its name as if it were a path through structs.
        plain = joined.toDF(*(f"column_{place}" for place in range(len(joined.columns))))
        found = run_job(spark, f"upsert into {target.table_name}", plain.mapInArrow(work, _RESULT).collect)
        outcomes = [_VALUES.from_bytes(packed, TaskOutcome) for (packed,) in found]
        unmatched = sum(outcome.unmatched for outcome in outcomes)
        if compares and sum(outcome.matched for outcome in outcomes) > source.total - unmatched:
            raise _ambiguous(request)
        added = tuple(file for outcome in outcomes for file in outcome.files)
        delete_lost_attempts(spark, target, {file.file_path for file in added}, (outcome.attempt for outcome in outcomes))
    updated = sum(outcome.updated for outcome in outcomes)
    return UpsertedRows(
        positions=_positions(request, outcomes),
        added=added,
        updated=updated,
        inserted=unmatched if request.inserts else 0,
        unchanged=source.total - unmatched - updated,
    )


def _joined(request: UpsertRequest, *, compares: bool) -> DataFrame:
    """The source's rows, each with the row of the table that has its key; those without a match alone where none is to be updated."""
    source: SparkRows = request.source.rows
    schema, rows = request.scan.schema, source.frame
    without = [F.lit(None).cast(kind).alias(name) for kind, name in zip(("string", "bigint", "bigint"), _PLACE, strict=True)]
    if not request.tasks or request.source.keys is None:
        return rows.select("*", *without)
    left = rows.select("*", *_source_keys(request))
    right = _stored(request, schema.fields if compares else ())
    condition = _same_keys(request)
    if not compares:
        return left.join(right, condition, "left_anti").drop(*_key_names(request, _KEY)).select("*", *without)
    joined = left.join(right, condition, "left")
    stored = [f"{_STORED}{place}" for place in range(len(schema.fields))]
    return joined.select(*map(quoted, (*rows.columns, *stored, *_PLACE)))


def _stored(request: UpsertRequest, fields: Sequence[NestedField]) -> DataFrame:
    """The planned files' rows: these columns, their keys, and where they are."""
    scan = request.scan
    taken = {column.name for column in scan.schema.fields}
    extra = [replace(column, name=f"{column.name}_{column.field_id}") if column.name in taken else column for column in (FILE, POS, ROW_ID)]
    frame = read(request.source.rows.frame.sparkSession, replace(scan, projection=Schema(*scan.schema.fields, *extra)))
    keys = [
        key_column(source_column(frame, scan.schema, key_id), scan.schema.find_type(key_id)).alias(name)
        for key_id, name in zip(request.key_ids, _key_names(request, _FOUND_KEY), strict=True)
    ]
    columns = [column_named(column.name).alias(f"{_STORED}{place}") for place, column in enumerate(fields)]
    places = [column_named(column.name).alias(name) for column, name in zip(extra, _PLACE, strict=True)]
    return frame.select(*columns, *places, *keys)


def _source_keys(request: UpsertRequest) -> list[Column]:
    schema, rows = request.scan.schema, request.source.rows.frame
    return [
        key_column(source_column(rows, schema, key_id), schema.find_type(key_id)).alias(name)
        for key_id, name in zip(request.key_ids, _key_names(request, _KEY), strict=True)
    ]


def _key_names(request: UpsertRequest, prefix: str) -> list[str]:
    return [f"{prefix}{place}" for place in range(len(request.key_ids))]


def _same_keys(request: UpsertRequest) -> Column:
    pairs = zip(_key_names(request, _KEY), _key_names(request, _FOUND_KEY), strict=True)
    return reduce(Column.__and__, (column_named(key) == column_named(found) for key, found in pairs))


def _positions(request: UpsertRequest, outcomes: Sequence[TaskOutcome]) -> tuple[NDArray[np.int64], ...]:
    """The positions of replaced rows, for each task."""
    found = joined_positions(outcome.positions for outcome in outcomes)
    empty = np.empty(0, np.int64)
    return tuple(found.get(task.file.file_path, empty) for task in request.tasks)


def _ambiguous(request: UpsertRequest) -> Exception:
    """The error that names keys with several rows in the table; they are looked up again."""
    schema, spark = request.scan.schema, request.source.rows.frame.sparkSession
    names = _key_names(request, _KEY)
    keys = request.source.rows.frame.select(*_source_keys(request))
    several = keys.join(_stored(request, ()), _same_keys(request), "inner").groupBy(*names).count().where("count > 1")
    shown = run_job(spark, "look at keys that match several rows", lambda: several.limit(SHOWN_KEYS).collect())
    count = run_job(spark, "count keys that match several rows", several.count)
    titles = [schema.find_column_name(key_id) or "" for key_id in request.key_ids]
    texts = [", ".join(repr(row[name]) for name in names) for row in shown]
    return ambiguous_keys(request.scan.table_name, titles, texts, count)
