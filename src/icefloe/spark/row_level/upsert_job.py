"""The Spark job of an upsert: a join of the source with the planned files, whose tasks compare and write rows. Only positions are returned to the driver.

`upsert_rows_source.py` checks the source; `datafile/same_values.py` compares rows, as it does without Spark. Spec: Row Lineage; Identifier Field IDs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.same_values import differing
from icefloe.datafile.write_target import WriteTarget
from icefloe.operations.engine import UpsertedRows, UpsertRequest
from icefloe.operations.upsert_source import SHOWN_KEYS, ambiguous_keys
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.row_level.changed_row_values import DeletedPositions, PackedPositions, joined_positions, table_rows, with_row_ids
from icefloe.spark.row_level.upsert_rows_source import SparkRows, key_column, source_column, with_texts_of_times
from icefloe.spark.scan.read_strategy import read
from icefloe.spark.types.arrow_conversion import with_list_offsets
from icefloe.spark.types.spark_types import column_named, quote_name
from icefloe.spark.write.data_file_job import small_batches
from icefloe.spark.write.distribution import distribute
from icefloe.spark.write.failed_attempt_cleanup import (
    FinishedFiles,
    TaskAttempt,
    check_files_exist,
    delete_lost_attempts,
    this_attempt,
    this_task,
    writing_job,
)
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.schema.metadata_columns import FILE, POS, ROW_ID
from icefloe.spec.schema.schema import Schema, schema_with_lineage
from icefloe.spec.types import NestedField

# Additional columns of the join. Their names contain a space, so that tables are unlikely to have them.
_STORED, _SOURCE_KEY, _TABLE_KEY = "icefloe stored ", "icefloe key ", "icefloe found key "
_LOCATION_COLUMNS = tuple(f"icefloe {name}" for name in (FILE.name, POS.name, ROW_ID.name))
_RESULT = StructType([StructField("outcome", BinaryType(), False)])


@dataclass(slots=True)
class TaskOutcome:
    """The result of a Spark task.

    Attributes:
        attempt: the attempt of the task.
        files: the data files that it wrote.
        positions: the positions of replaced rows, by location of the data file.
        matched: the number of source rows with a matching row in the table.
        updated: the number of matched source rows with a changed value, which were written.
        unmatched: the number of source rows without a matching row.
    """

    attempt: TaskAttempt
    files: list[DataFile] = field(default_factory=list)
    positions: PackedPositions = field(default_factory=dict)
    matched: int = 0
    updated: int = 0
    unmatched: int = 0


_VALUES = TaskValues(TaskOutcome, TaskAttempt)


@dataclass(frozen=True)
class TaskUpserter:
    """A function for `mapInArrow`: it takes joined rows, writes them, and returns a single row with the serialized `TaskOutcome`.

    A joined row has the source's columns, named `names`; the table's columns, if rows are compared; and the file, position and row id of the matching row.
    """

    target: WriteTarget  # includes the row lineage columns if rows keep their ids
    schema: Schema
    names: tuple[str, ...]
    compares: bool
    inserts: bool
    keeps_row_ids: bool
    finished: FinishedFiles
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task, and yield its outcome."""
        task, outcome = this_task(), TaskOutcome(this_attempt())
        replaced = DeletedPositions()
        with self.errors.carry():
            written = self._rows_to_write(batches, outcome, replaced)
            outcome.files = write_batches(self.target, written, partition_id=task.partition_id, task_id=task.task_id)
        if outcome.files:
            self.finished.add([file.file_path for file in outcome.files])
        outcome.positions = replaced.pack()
        yield pa.RecordBatch.from_arrays([pa.array([_VALUES.to_bytes(outcome)], pa.binary())], names=["outcome"])

    def _rows_to_write(
        self, batches: Iterable[pa.RecordBatch], outcome: TaskOutcome, replaced: DeletedPositions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the new and changed rows, add the positions of replaced rows to `replaced`, and count rows in `outcome`."""
        for batch in map(with_list_offsets, batches):
            rows = table_rows(batch, range(len(self.names)), self.names, self.schema)
            matched = numpy_of(batch.column(batch.num_columns - len(_LOCATION_COLUMNS)).is_valid())
            changed = np.zeros(batch.num_rows, np.bool_)
            if self.compares and matched.any():
                matched_rows = batch.filter(pa.array(matched))
                changed[np.flatnonzero(matched)] = self._is_changed(rows.filter(pa.array(matched)), matched_rows)
                old_rows = batch.filter(pa.array(changed))
                path_ordinal = old_rows.num_columns - len(_LOCATION_COLUMNS)
                replaced.add(old_rows.column(path_ordinal), old_rows.column(path_ordinal + 1))
            outcome.matched += int(matched.sum())
            outcome.updated += int(changed.sum())
            outcome.unmatched += int((~matched).sum())
            is_written = changed | ~matched if self.inserts else changed
            if is_written.any():
                written = with_row_ids(rows, batch.column(batch.num_columns - 1), self.schema) if self.keeps_row_ids else rows
                yield from written.filter(pa.array(is_written)).combine_chunks().to_batches()

    def _is_changed(self, rows: Any, joined: pa.RecordBatch) -> NDArray[np.bool_]:
        ordinals = range(len(self.names), len(self.names) + len(self.schema.names))
        stored_rows = table_rows(joined, ordinals, self.schema.names, self.schema)
        differences = [differing(rows.column(column.name), stored_rows.column(column.name)) for column in self.schema.fields]
        return np.asarray(np.logical_or.reduce(differences))


def upsert_rows(request: UpsertRequest) -> UpsertedRows:
    """Join the source with the planned files, write new and changed rows, and return the counts of inserted and updated rows.

    Args:
        request: the source, whose `rows` are `SparkRows`; the planned files; the keys; and whether matched rows are updated and unmatched rows inserted.

    Returns:
        The positions of replaced rows for each scan task, the added files, and the numbers of rows.

    Raises:
        InvalidInputError: a key of the source matches several rows of the table that would be updated. Written files are deleted.
        SchemaMismatchError: a value does not fit the table, such as a null in a required column.
        UnsupportedTypeError: a column of the table has no type in Spark.
        EngineError: Spark's job failed for another reason.
    """
    source: SparkRows = request.source.rows
    schema, spark = request.scan.schema, source.frame.sparkSession
    compares = request.updates and bool(request.tasks) and request.source.keys is not None
    names = tuple(source.frame.columns)
    target = request.target if not request.target.sort_order.is_unsorted else replace(request.target, sort_order_id=0)
    joined = distribute(_join_stored_rows(request, compares=compares), target)
    keeps_row_ids = compares and request.keeps_row_ids
    if keeps_row_ids:
        target = replace(target, schema=schema_with_lineage(schema))
    with small_batches(spark, target.schema), writing_job(spark, target) as finished:
        work = TaskUpserter(target, schema, names, compares, request.inserts, keeps_row_ids, finished)
        # mapInArrow parses each column name as a path through structs, which a dot in a name would break.
        renamed = joined.toDF(*(f"column_{place}" for place in range(len(joined.columns))))
        results = run_job(spark, f"upsert into {target.table_name}", renamed.mapInArrow(work, _RESULT).collect)
        outcomes = [_VALUES.from_bytes(packed, TaskOutcome) for (packed,) in results]
        unmatched = sum(outcome.unmatched for outcome in outcomes)
        if compares and sum(outcome.matched for outcome in outcomes) > source.total - unmatched:
            raise _ambiguous(request)
        added = tuple(file for outcome in outcomes for file in outcome.files)
        delete_lost_attempts(spark, target, {file.file_path for file in added}, (outcome.attempt for outcome in outcomes))
        check_files_exist(target, (file.file_path for file in added))
    updated = sum(outcome.updated for outcome in outcomes)
    return UpsertedRows(
        positions=_positions(request, outcomes),
        added=added,
        updated=updated,
        inserted=unmatched if request.inserts else 0,
        unchanged=source.total - unmatched - updated,
    )


def _join_stored_rows(request: UpsertRequest, *, compares: bool) -> DataFrame:
    """Join the source with the stored rows by key, and return the source's rows for `TaskUpserter`. Without updates, return only rows without a match."""
    source: SparkRows = request.source.rows
    schema, rows = request.scan.schema, source.frame
    no_location = [
        F.lit(None).cast(type_name).alias(name) for type_name, name in zip(("string", "bigint", "bigint"), _LOCATION_COLUMNS, strict=True)
    ]
    if not request.tasks or request.source.keys is None:
        return rows.select("*", *no_location)
    left = rows.select("*", *_source_keys(request))
    right = _stored_rows(request, schema.fields if compares else ())
    condition = _same_keys(request)
    if not compares:
        return left.join(right, condition, "left_anti").drop(*_key_names(request, _SOURCE_KEY)).select("*", *no_location)
    joined = left.join(right, condition, "left")
    stored = [f"{_STORED}{place}" for place in range(len(schema.fields))]
    return joined.select(*map(quote_name, (*rows.columns, *stored, *_LOCATION_COLUMNS)))


def _stored_rows(request: UpsertRequest, fields: Sequence[NestedField]) -> DataFrame:
    """Return the rows of the planned files, with the columns `fields`, the location columns (file, position, row id) and the keys."""
    scan = request.scan
    names = {column.name for column in scan.schema.fields}
    location_columns = [
        replace(column, name=f"{column.name}_{column.field_id}") if column.name in names else column for column in (FILE, POS, ROW_ID)
    ]
    frame = read(request.source.rows.frame.sparkSession, replace(scan, projection=Schema(*scan.schema.fields, *location_columns)))
    keys = [
        key_column(source_column(frame, scan.schema, key_id), scan.schema.find_type(key_id)).alias(name)
        for key_id, name in zip(request.key_ids, _key_names(request, _TABLE_KEY), strict=True)
    ]
    columns = [column_named(column.name).alias(f"{_STORED}{place}") for place, column in enumerate(fields)]
    locations = [column_named(column.name).alias(name) for column, name in zip(location_columns, _LOCATION_COLUMNS, strict=True)]
    return frame.select(*columns, *locations, *keys)


def _source_keys(request: UpsertRequest) -> list[Column]:
    schema, rows = request.scan.schema, request.source.rows.frame
    return [
        key_column(source_column(rows, schema, key_id), schema.find_type(key_id)).alias(name)
        for key_id, name in zip(request.key_ids, _key_names(request, _SOURCE_KEY), strict=True)
    ]


def _key_names(request: UpsertRequest, prefix: str) -> list[str]:
    return [f"{prefix}{place}" for place in range(len(request.key_ids))]


def _same_keys(request: UpsertRequest) -> Column:
    pairs = zip(_key_names(request, _SOURCE_KEY), _key_names(request, _TABLE_KEY), strict=True)
    return reduce(Column.__and__, (column_named(source_key) == column_named(table_key) for source_key, table_key in pairs))


def _positions(request: UpsertRequest, outcomes: Sequence[TaskOutcome]) -> tuple[NDArray[np.int64], ...]:
    """Return the positions of replaced rows for each scan task of the request, in order; an empty array if there are none."""
    by_path = joined_positions(outcome.positions for outcome in outcomes)
    empty = np.empty(0, np.int64)
    return tuple(by_path.get(task.file.file_path, empty) for task in request.tasks)


def _ambiguous(request: UpsertRequest) -> Exception:
    """Return the error for keys of the source that match several rows of the table. It runs a second join to find these keys."""
    schema, spark = request.scan.schema, request.source.rows.frame.sparkSession
    names = _key_names(request, _SOURCE_KEY)
    keys = request.source.rows.frame.select(*_source_keys(request))
    repeated = keys.join(_stored_rows(request, ()), _same_keys(request), "inner").groupBy(*names).count().where("count > 1")
    shown = run_job(spark, "look at keys that match several rows", lambda: with_texts_of_times(repeated.limit(SHOWN_KEYS)).collect())
    count = run_job(spark, "count keys that match several rows", repeated.count)
    titles = [schema.find_column_name(key_id) or "" for key_id in request.key_ids]
    texts = [", ".join(repr(row[name]) for name in names) for row in shown]
    return ambiguous_keys(request.scan.table_name, titles, texts, count)
