"""The Spark job of a DELETE, UPDATE or MERGE: write the new rows to data files, and return the positions of the old rows.

The first column of a row is its operation. `operation.py` supplies the rows, and `operations/rows/row_level_commit.py` commits the result.
Spec: Row Lineage; Row-level Deletes; Writing Data Files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.operations.rows.row_level_commit import ChangedRows
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.row_level.changed_row_values import DeletedPositions, PackedPositions, joined_positions, table_rows, with_row_ids
from icefloe.spark.types.arrow_conversion import with_list_offsets
from icefloe.spark.types.spark_types import geo_to_wkb
from icefloe.spark.write.data_file_job import advisory_partition_size, small_batches
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

# The operations of rows, as numbers in Spark's first column (`RowDeltaUtils`).
DELETE, UPDATE, INSERT, REINSERT = 1, 2, 3, 4
_RESULT = StructType([StructField("outcome", BinaryType(), False)])
_PREFIX = "icefloe "
# A function that gets a finished job and its numbers of updated and deleted rows. It returns how many of the updated and of the deleted rows matched no source
# row of a MERGE; None if Spark has not counted them.
Unmatched = Callable[[DataFrame, int, int], tuple[int | None, int | None]]


def none_unmatched(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    """Return 0 updated and 0 deleted rows. This is the `Unmatched` function of statements without a clause for rows that match no source row."""
    return 0, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrdinals:
    """Where the columns of changed rows are: their ordinals in the rows of the job.

    Attributes:
        operation: ordinal of the operation.
        row: names and ordinals of the table's columns; empty if rows are only deleted.
        path: ordinal of the location of the old row's data file.
        position: ordinal of the old row's position in that file.
        row_id: ordinal of the row id that the new row keeps; None if rows get new ids.
    """

    operation: int
    row: tuple[tuple[str, int], ...]
    path: int
    position: int
    row_id: int | None


@dataclass(slots=True)
class _Outcome:
    """The result of a Spark task; `counts[operation]` is the number of rows with an operation, such as `UPDATE`."""

    attempt: TaskAttempt
    files: list[DataFile] = field(default_factory=list)
    positions: PackedPositions = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0] * (REINSERT + 1))


_VALUES = TaskValues(_Outcome, TaskAttempt)


@dataclass(frozen=True)
class TaskChanger:
    """A function for `mapInArrow`: it writes the changed rows of a task, and returns a single row with the serialized `_Outcome`."""

    target: WriteTarget  # includes the row lineage columns if rows keep their ids
    schema: Schema
    ordinals: RowOrdinals
    finished: FinishedFiles
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the changed rows of a task, and yield its outcome."""
        task, outcome, deleted = this_task(), _Outcome(this_attempt()), DeletedPositions()
        with self.errors.carry():
            written = self._rows_to_write(batches, outcome, deleted)
            outcome.files = write_batches(self.target, written, partition_id=task.partition_id, task_id=task.task_id)
        if outcome.files:
            self.finished.add([file.file_path for file in outcome.files])
        outcome.positions = deleted.pack()
        yield pa.RecordBatch.from_arrays([pa.array([_VALUES.to_bytes(outcome)], pa.binary())], names=["outcome"])

    def _rows_to_write(self, batches: Iterable[pa.RecordBatch], outcome: _Outcome, deleted: DeletedPositions) -> Iterator[pa.RecordBatch]:
        for batch in map(with_list_offsets, batches):
            operations = numpy_of(batch.column(self.ordinals.operation))
            outcome.counts = (np.bincount(operations, minlength=REINSERT + 1) + outcome.counts).tolist()
            is_deleted = operations <= UPDATE
            if is_deleted.any():
                old_rows = batch if is_deleted.all() else batch.filter(pa.array(is_deleted))
                deleted.add(old_rows.column(self.ordinals.path), old_rows.column(self.ordinals.position))
            is_written = operations >= UPDATE
            if is_written.any():
                new_rows = batch if is_written.all() else batch.filter(pa.array(is_written))
                yield from self._table_rows(new_rows).combine_chunks().to_batches()

    def _table_rows(self, batch: pa.RecordBatch) -> pa.Table:
        names, ordinals = zip(*self.ordinals.row, strict=True)
        rows = table_rows(batch, ordinals, names, self.schema)
        return rows if self.ordinals.row_id is None else with_row_ids(rows, batch.column(self.ordinals.row_id), self.schema)


def write_changed_rows(rows: DataFrame, ordinals: RowOrdinals, target: WriteTarget, unmatched: Unmatched = none_unmatched) -> ChangedRows:
    """Run the job that writes the changed rows.

    If the job fails, its files are deleted. Files of task attempts whose results are not used are always deleted.

    Args:
        rows: the rows of the statement, with the operation in the first column.
        ordinals: which column of `rows` has the operation, the old row's file, position and id, and each column of the table.
        target: the table, and the location of new files.
        unmatched: a function that counts, after the job, the updated and deleted rows that matched no source row of a MERGE.

    Returns:
        The data files, the positions of old rows by data file, and the numbers of rows.

    Raises:
        SchemaMismatchError: a value does not fit the table.
        StorageError: the storage refused a task and its retries; or the workers wrote to their local disks, which this process cannot read.
        EngineError: the job failed for another reason, such as a row of a MERGE that matches several source rows.
    """
    spark, schema = rows.sparkSession, target.schema
    if target.sort_order.is_unsorted:
        # The rows are not sorted, so that the files must not have a sort order id.
        target = replace(target, sort_order_id=0)
    ready = _spread(geo_to_wkb(rows), ordinals, target)
    if ordinals.row_id is not None:
        target = replace(target, schema=schema_with_lineage(schema))
    with advisory_partition_size(spark, target), small_batches(spark, schema), writing_job(spark, target) as finished:
        # mapInArrow parses each column name as a path through structs, which a dot in a name would break.
        renamed = ready.toDF(*(f"column_{ordinal}" for ordinal in range(len(ready.columns))))
        work = TaskChanger(target, schema, ordinals, finished)
        job = renamed.mapInArrow(work, _RESULT)
        results = run_job(spark, f"change rows of {target.table_name}", job.collect)
        outcomes = [_VALUES.from_bytes(packed, _Outcome) for (packed,) in results]
        files = tuple(file for outcome in outcomes for file in outcome.files)
        delete_lost_attempts(spark, target, {file.file_path for file in files}, (outcome.attempt for outcome in outcomes))
        check_files_exist(target, (file.file_path for file in files))
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


def _spread(rows: DataFrame, ordinals: RowOrdinals, target: WriteTarget) -> DataFrame:
    """Distribute and sort changed rows as the table's properties require. The ordinals of their columns do not change."""
    if not ordinals.row:
        return rows
    names = [f"{_PREFIX}{ordinal}" for ordinal in range(len(rows.columns))]
    for name, ordinal in ordinals.row:
        names[ordinal] = name
    return distribute(rows.toDF(*names), target)


def row_ordinals(columns: Sequence[tuple[str, int]], row_id: Sequence[tuple[str, int]], metadata: Sequence[tuple[str, int]]) -> RowOrdinals:
    """Create the `RowOrdinals` from the projections that Spark passes.

    Args:
        columns: names and ordinals of the table's columns.
        row_id: names and ordinals of `_file` and `_pos`.
        metadata: names and ordinals of the metadata columns that a row keeps: `_row_id` in format version 3.
    """
    row_id_columns, metadata_columns = dict(row_id), dict(metadata)
    keeps_row_ids = bool(columns) and ROW_ID.name in metadata_columns
    return RowOrdinals(
        operation=0,
        row=tuple(columns),
        path=row_id_columns[FILE.name],
        position=row_id_columns[POS.name],
        row_id=metadata_columns[ROW_ID.name] if keeps_row_ids else None,
    )
