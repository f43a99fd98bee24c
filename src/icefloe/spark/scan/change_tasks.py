"""The functions that Spark's tasks run for the change feed: they read changed rows, and compare those that a shuffle brought together.

`change_feed.py` plans the tasks. Workers import this module, so that it imports little.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.errors import InvalidInputError
from icefloe.inspect.comparison.row_hasher import RowHasher
from icefloe.operations.change_feed.changed_file_reader import ChangedFileReader
from icefloe.operations.change_feed.paired_rows import ChangeTask, PairedRows, RangeTask, SnapshotTask, repeat_value
from icefloe.operations.change_feed.row_pairs import cancel_pairs
from icefloe.scan.change_planner import ChangedFile
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX
from icefloe.spark.scan.python_scan import batch_for_spark, unpack_tasks, with_advice_about_workers
from icefloe.spec.arrow_values import numpy_of, positions_array
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import CHANGE_ORDINAL, DELETE_FILE_PATH
from icefloe.spec.schema.schema import Schema

# The column that only `HashAdder` adds, and the column of the error of `PairedTaskReader`. Data files have no column with the id of the latter.
HASH = f"{OWN_PREFIX}hash"
ERROR = replace(DELETE_FILE_PATH, name=f"{OWN_PREFIX}error", required=False, doc=None)
_MOST_SHOWN_OF_AN_ERROR = 2_000  # characters
_ROWS_OF_A_BATCH = 8192


@dataclass(frozen=True)
class ChangeTaskReader:
    """A function for `mapInArrow`: it takes batches of packed `ChangeTask`s, and returns batches of their rows with the columns of `projection`."""

    reader: ChangedFileReader
    projection: Schema

    @property
    def values(self) -> TaskValues:
        """What packs and unpacks the tasks."""
        return TaskValues(ChangeTask, ChangedFile)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of the files that are packed in the batches."""
        for task in unpack_tasks(self.values, batches):
            for kind, constants in task.constants.items():
                rows = (batch for _, batch in self.reader.batches(task.file, (kind,)))
                for batch in with_advice_about_workers(rows):
                    yield batch_for_spark(self._with_constants(batch, constants), self.projection)

    def _with_constants(self, batch: pa.RecordBatch, constants: Mapping[int, Any]) -> pa.RecordBatch:
        schema = schema_to_arrow(self.projection)
        arrays = [
            repeat_value(constants[field.field_id], target.type, batch.num_rows) if field.field_id in constants else batch[field.name]
            for field, target in zip(self.projection.fields, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class PairedTaskReader:
    """A function for `mapInArrow`: it takes batches of packed `RangeTask`s, and returns batches of their changes.

    If updates are computed, the changes have a further column: it is null, or the error because of which the updates of these rows cannot be found.
    """

    rows: PairedRows

    @property
    def projection(self) -> Schema:
        """The columns of the batches."""
        columns = self.rows.projection.fields
        return Schema(*columns, *([] if self.rows.identity is None else [ERROR]))

    @property
    def values(self) -> TaskValues:
        """What packs and unpacks the tasks."""
        return TaskValues(RangeTask, SnapshotTask, ChangeTask, ChangedFile)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the snapshots that are packed in the batches."""
        projection = self.projection
        for task in unpack_tasks(self.values, batches):
            for batch in with_advice_about_workers(self._changes(task)):
                yield batch_for_spark(batch, projection)

    def _changes(self, task: RangeTask) -> Iterator[pa.RecordBatch]:
        error = None
        rows = self.rows.compared_rows(task)
        try:
            rows = self.rows.finish(rows)
        except InvalidInputError as refused:  # it is raised if the query reads the kinds of changes
            error, rows = str(refused)[:_MOST_SHOWN_OF_AN_ERROR], self.rows.project(rows)
        if self.rows.identity is not None:
            rows = rows.append_column(ERROR.name, repeat_value(error, pa.string(), len(rows)))
        yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS_OF_A_BATCH)


@dataclass(frozen=True)
class UncopiedTaskReader:
    """A function for `mapInArrow`: it takes batches of packed `SnapshotTask`s, and returns batches of their changed rows, without most copied rows."""

    rows: PairedRows
    columns: Schema

    @property
    def projection(self) -> Schema:
        """The columns of the batches: those that are read, and those of the change."""
        return Schema(*self.columns.fields, *self.rows.constant_columns)

    @property
    def values(self) -> TaskValues:
        """What packs and unpacks the tasks."""
        return TaskValues(SnapshotTask, ChangeTask, ChangedFile)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of the files that are packed in the batches."""
        for task in unpack_tasks(self.values, batches):
            read = (
                batch
                for rows in self.rows.uncopied_rows(task)
                for batch in rows.combine_chunks().to_batches(max_chunksize=_ROWS_OF_A_BATCH)
            )
            for batch in with_advice_about_workers(read):
                yield batch_for_spark(batch, self.projection)


@dataclass(frozen=True)
class HashAdder:
    """A function for `mapInArrow`: it adds a column with a hash of some columns, which is the same for equal rows in all tasks."""

    columns: tuple[str, ...]
    hasher: RowHasher = field(default_factory=RowHasher)
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with the column."""
        for batch in batches:
            with self.errors.carry():
                hashes = self.hasher.hashes(pa.Table.from_batches([batch.select(self.columns)]))[:, 0]
            yield batch.append_column(pa.field(HASH, pa.int64(), nullable=False), pa.array(hashes.view(np.int64)))


@dataclass(frozen=True)
class PairCanceller:
    """A function for `mapInArrow`: it takes the changes of a partition, and returns those that no equal change of the partition cancels; see `cancel_pairs`.

    Attributes:
        names: The names of the columns of the changes, in place of those of the batches.
        compared: The names of the compared columns.
    """

    names: tuple[str, ...]
    compared: tuple[str, ...]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the remaining changes."""
        received = [batch for batch in batches if batch.num_rows]
        if received:
            with self.errors.carry():
                rows = pa.Table.from_batches(received).rename_columns(list(self.names))
                rows = cancel_pairs(
                    rows.take(positions_array(np.argsort(numpy_of(rows[CHANGE_ORDINAL.name]), kind="stable"))), self.compared
                )
            yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS_OF_A_BATCH)
