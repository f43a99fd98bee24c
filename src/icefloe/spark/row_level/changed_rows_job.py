"""The rows of an UPDATE, MERGE or DELETE as Spark computes them: one job writes the new ones as data files and tells which old ones go.

The rows say themselves what becomes of each; committing is `table/rows/row_level_commit.py`. Spec: Row Lineage; Row-level Deletes; Writing Data Files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.schema.metadata_columns import with_lineage
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.row_level.changed_row_values import GonePositions, PackedPositions, joined_positions, rows_in_form, with_row_ids
from icefloe.spark.types.arrow_conversion import with_offsets
from icefloe.spark.types.geo_types import wkb_of_shapes
from icefloe.spark.write.data_file_job import advised, small_batches
from icefloe.spark.write.distribution import distributed
from icefloe.spark.write.failed_attempt_cleanup import Attempt, FinishedFiles, delete_lost_attempts, this_attempt, writing_job
from icefloe.table.rows.row_level_commit import ChangedRows

# What Spark's first column says of a row.
DELETE, UPDATE, INSERT, REINSERT = 1, 2, 3, 4
_RESULT = StructType([StructField("outcome", BinaryType(), False)])
_OWN = "icefloe "
# Of a job that ran, and how many rows it updated and deleted: how many of these matched no row of the source of a MERGE. None where that is not known.
Unmatched = Callable[[DataFrame, int, int], tuple[int | None, int | None]]


def none_unmatched(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    """Return that every row matched one, as where a statement has no clause for others."""
    return 0, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlaces:
    """Which columns of the rows are what, by place: the operation, the table's columns (none where rows only go), where the old row is, its row id."""

    operation: int
    row: tuple[tuple[str, int], ...]
    path: int
    position: int
    row_id: int | None


@dataclass(slots=True)
class _Outcome:
    """What one Spark task did, in which attempt."""

    attempt: Attempt
    files: list[DataFile] = field(default_factory=list)
    positions: PackedPositions = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0] * (REINSERT + 1))


_VALUES = TaskValues(_Outcome, Attempt)


@dataclass(frozen=True)
class TaskChanger:
    """Runs in Spark's tasks: rows with their operations in, one row with the outcome as bytes out."""

    target: WriteTarget  # its schema has the columns of row lineage where rows keep their ids
    schema: Schema
    places: RowPlaces
    finished: FinishedFiles
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        outcome, gone = _Outcome(this_attempt()), GonePositions()
        with self.errors.carried():
            outcome.files = write_batches(
                self.target,
                self._written(batches, outcome, gone),
                partition_id=context.partitionId() if context is not None else 0,
                task_id=context.taskAttemptId() if context is not None else 0,
            )
        if outcome.files:
            self.finished.add([file.file_path for file in outcome.files])
        outcome.positions = gone.packed()
        yield pa.RecordBatch.from_arrays([pa.array([_VALUES.to_bytes(outcome)], pa.binary())], names=["outcome"])

    def _written(self, batches: Iterable[pa.RecordBatch], outcome: _Outcome, gone: GonePositions) -> Iterator[pa.RecordBatch]:
        for batch in map(with_offsets, batches):
            operations = numpy_of(batch.column(self.places.operation))
            outcome.counts = (np.bincount(operations, minlength=REINSERT + 1) + outcome.counts).tolist()
            goes = operations <= UPDATE
            if goes.any():
                old = batch if goes.all() else batch.filter(pa.array(goes))
                gone.note(old.column(self.places.path), old.column(self.places.position))
            comes = operations >= UPDATE
            if comes.any():
                new = batch if comes.all() else batch.filter(pa.array(comes))
                yield from self._in_form(new).combine_chunks().to_batches()

    def _in_form(self, batch: pa.RecordBatch) -> pa.Table:
        names, places = zip(*self.places.row, strict=True)
        rows = rows_in_form(batch, places, names, self.schema)
        return rows if self.places.row_id is None else with_row_ids(rows, batch.column(self.places.row_id), self.schema)


def write_changed_rows(rows: DataFrame, places: RowPlaces, target: WriteTarget, unmatched: Unmatched = none_unmatched) -> ChangedRows:
    """Runs the job. What its tasks wrote is deleted where it fails; what lost attempts at them wrote, in any case.

    `unmatched` tells of the job's rows, once it ran, how many of those updated and deleted matched no row of a MERGE's source.

    Raises:
        SchemaMismatchError: a value does not fit the table.
        StorageError: storage refused a task, and Spark's retries too.
        EngineError: the job failed for another reason, such as a row of a MERGE that matches several.
    """
    spark, schema = rows.sparkSession, target.schema
    if target.sort_order.is_unsorted:
        # No file may say that it is sorted when nothing sorted it.
        target = replace(target, sort_order_id=0)
    ready = _spread(wkb_of_shapes(rows), places, target)
    if places.row_id is not None:
        target = replace(target, schema=Schema(*with_lineage(schema.fields), schema_id=schema.schema_id))
    with advised(spark, target), small_batches(spark, schema), writing_job(spark, target) as finished:
        # mapInArrow looks each column up by its name as if it were a path through structs.
        plain = ready.toDF(*(f"column_{place}" for place in range(len(ready.columns))))
        work = TaskChanger(target, schema, places, finished)
        job = plain.mapInArrow(work, _RESULT)
        found = run_job(spark, f"change rows of {target.table_name}", job.collect)
        outcomes = [_VALUES.from_bytes(packed, _Outcome) for (packed,) in found]
        files = tuple(file for outcome in outcomes for file in outcome.files)
        delete_lost_attempts(spark, target, {file.file_path for file in files}, (outcome.attempt for outcome in outcomes))
    counts = [sum(outcome.counts[operation] for outcome in outcomes) for operation in range(REINSERT + 1)]
    unmatched_updated, unmatched_deleted = unmatched(job, counts[UPDATE], counts[DELETE])
    return ChangedRows(
        files=files,
        positions=joined_positions(outcome.positions for outcome in outcomes),
        deleted=counts[DELETE],
        updated=counts[UPDATE],
        inserted=counts[INSERT] + counts[REINSERT],
        unmatched_updated=unmatched_updated,
        unmatched_deleted=unmatched_deleted,
    )


def _spread(rows: DataFrame, places: RowPlaces, target: WriteTarget) -> DataFrame:
    """The rows in the tasks that write them, as the table asks; columns stay in their places."""
    if not places.row:
        return rows
    names = [f"{_OWN}{place}" for place in range(len(rows.columns))]
    for name, place in places.row:
        names[place] = name
    return distributed(rows.toDF(*names), target)


def row_places(columns: Sequence[tuple[str, int]], row_id: Sequence[tuple[str, int]], metadata: Sequence[tuple[str, int]]) -> RowPlaces:
    """The places of the table's columns, of `_file` and `_pos`, and of `_row_id` among the metadata columns, where there are any."""
    found, kept = dict(row_id), dict(metadata)
    keeps = bool(columns) and "_row_id" in kept
    return RowPlaces(
        operation=0, row=tuple(columns), path=found["_file"], position=found["_pos"], row_id=kept["_row_id"] if keeps else None
    )
