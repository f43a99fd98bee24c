"""`PairedRows`: the changed rows of data files, without copied rows, with updates, filtered and projected; in this process or in a task of a cluster.

`change_scan.py` plans which files are compared with each other; `changed_file_reader.py` reads them, and `row_pairs.py` compares their rows.
Spec: Row Lineage; Reserved Field IDs (`_change_type`).
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64, FrozenBitMap64

from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT, ChangedFileReader
from icefloe.operations.change_feed.copied_rows import PLACE, uncopied_rows
from icefloe.operations.change_feed.row_pairs import Identity, cancel_pairs, remaining_rows, with_updates
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.change_planner import ChangedFile
from icefloe.spec.arrow_values import mask_array, numpy_of, scalar_of
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import DELETED, LINEAGE_COLUMNS, POS, ROW_ID
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField

_LINEAGE = tuple(column.name for column in LINEAGE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTask:
    """A changed file to read.

    Attributes:
        file: The file.
        constants: For each kind of change that is read (`DELETE`, `INSERT`) the values of its constant columns, by field id.
    """

    file: ChangedFile
    constants: Mapping[str, Mapping[int, Any]]

    @property
    def length(self) -> int:
        """The number of bytes of the file."""
        return self.file.task.length


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTask:
    """The changed files of one snapshot, whose rows are compared.

    Attributes:
        files: The files.
        may_copy_rows: Whether rows that the snapshot only copied are found and left out.
        compares_values: Whether copied rows are found by the values of all columns; else by their row ids and last updates.
        lacks_row_ids: Whether a row may have no row id.
    """

    files: tuple[ChangeTask, ...]
    may_copy_rows: bool
    compares_values: bool
    lacks_row_ids: bool

    @property
    def length(self) -> int:
        """The number of bytes of the files."""
        return sum(file.length for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """The changed files of some snapshots, oldest first, whose rows are computed together."""

    snapshots: tuple[SnapshotTask, ...]

    @property
    def length(self) -> int:
        """The number of bytes of the files."""
        return sum(snapshot.length for snapshot in self.snapshots)


@dataclass(frozen=True, kw_only=True)
class PairedRows:
    """A reader of changed rows that compares and labels them. It can be pickled.

    Attributes:
        table_name: The table, for errors.
        reader: The reader of the files.
        columns: The columns to read.
        all_columns: The columns to read where rows are compared by value: all of the table, and metadata columns.
        compared: The names of all columns of the table.
        constant_columns: The columns that are constant in the changes of one kind of a snapshot.
        projection: The columns of the result.
        is_net: Whether changes that later ones of the range undo are left out.
        has_ids: Whether rows have row ids, unless a file has none.
        identity: What identifies the rows of an update, or None if updates are not computed.
        row_filter: A bound filter on rows that are compared already; None for all rows.
    """

    table_name: str
    reader: ChangedFileReader
    columns: Schema
    all_columns: Schema
    compared: tuple[str, ...]
    constant_columns: tuple[NestedField, ...]
    projection: Schema
    is_net: bool
    has_ids: bool
    identity: Identity | None
    row_filter: BooleanExpression | None

    def rows_of_range(self, task: RangeTask) -> Any:
        """Return the changes of snapshots as an Arrow table, oldest first, of each snapshot the deleted rows first. Raises the errors of `finish`."""
        return self.finish(self.compared_rows(task))

    def compared_rows(self, task: RangeTask) -> Any:
        """Return the changes of snapshots before updates are computed, without those that cancel out."""
        parts = [self.rows_of_snapshot(snapshot) for snapshot in task.snapshots]
        nothing = pa.Table.from_batches([], schema_to_arrow(Schema(*self.columns.fields, *self.constant_columns)))
        rows = pa.concat_tables([nothing, *parts])
        if self.is_net:
            rows = cancel_pairs(rows, self.net_columns(lacks_row_ids=any(snapshot.lacks_row_ids for snapshot in task.snapshots)))
        return rows

    def net_columns(self, *, lacks_row_ids: bool) -> list[str]:
        """Return the columns in which a deleted and an inserted row must be equal to cancel out in net changes.

        Args:
            lacks_row_ids: Whether a row of the range may have no row id.
        """
        return [*self.compared, *([ROW_ID.name] if self.has_ids and not lacks_row_ids else [])]

    def finish(self, rows: Any) -> Any:
        """Return changed rows with their updates, filtered, and with the columns of the result.

        Raises:
            InvalidInputError: Updates are computed, and rows cannot be paired.
        """
        if self.identity is not None:
            rows = with_updates(rows, self.identity, self.table_name, of_each_snapshot=not self.is_net)
        return self.project(rows)

    def project(self, rows: Any) -> Any:
        """Return changed rows filtered, and with the columns of the result."""
        if self.row_filter is not None:
            batches = [batch.filter(arrow_mask(self.row_filter, batch)) for batch in rows.to_batches()]
            rows = pa.Table.from_batches(batches, rows.schema)
        if DELETED.name in self.projection.names:  # only live rows are compared
            rows = rows.append_column(DELETED.name, repeat_value(False, pa.bool_(), len(rows)))
        chosen = rows.select(self.projection.names)
        return chosen.cast(schema_to_arrow(self.projection)) if chosen.num_columns else chosen  # a cast without columns loses the row count

    def rows_of_snapshot(self, task: SnapshotTask) -> Any:
        """Return the changed rows of one snapshot, deleted rows first, with the columns of the change and without copied rows if they are left out."""
        by_values = task.may_copy_rows and task.compares_values
        if task.may_copy_rows and not by_values:
            parts = in_threads(lambda changed: list(self._rows_at(changed)), self._changed_positions(task, sys.maxsize))
            return self._with_constants([part for of_file in parts for part in of_file], self.columns)[0]
        rows, removed = self._read(task.files, self.all_columns if by_values else self.columns)
        if by_values:
            rows = rows.filter(mask_array(remaining_rows(rows, removed, self.compared)))
        return rows.select([*self.columns.names, *(column.name for column in self.constant_columns)])

    def _read(self, files: Sequence[ChangeTask], columns: Schema) -> Any:
        """Return the changed rows of files, deleted rows first, and a mask of the deleted rows."""
        reader = replace(self.reader, projection=columns)

        def rows_of(task: ChangeTask) -> list[tuple[str, Any]]:
            return list(reader.batches(task.file, tuple(task.constants)))

        read = [(task, kind, batch) for task, of_file in zip(files, in_threads(rows_of, files), strict=True) for kind, batch in of_file]
        return self._with_constants(read, columns)

    def batches_of_file(self, task: ChangeTask, kind: str) -> Iterator[Any]:
        """Yield the changed rows of one kind in a file, as Arrow tables with the columns of the change."""
        for _, batch in self.reader.batches(task.file, (kind,)):
            yield self._with_constants([(task, kind, batch)], self.columns)[0]

    def _with_constants(self, read: Sequence[tuple[ChangeTask, str, Any]], columns: Schema) -> Any:
        ordered = [part for change in (DELETE, INSERT) for part in read if part[1] == change]
        arrow = schema_to_arrow(Schema(*columns.fields, *self.constant_columns))
        targets = list(arrow)[len(columns.fields) :]
        batches = []
        for task, kind, batch in ordered:
            values = [task.constants[kind][column.field_id] for column in self.constant_columns]
            constants = [repeat_value(value, target.type, batch.num_rows) for value, target in zip(values, targets, strict=True)]
            batches.append(pa.RecordBatch.from_arrays([*batch.columns, *constants], schema=arrow))
        deletes = sum(batch.num_rows for _, kind, batch in ordered if kind == DELETE)
        rows = pa.Table.from_batches(batches, arrow)
        removed = np.zeros(len(rows), np.bool_)
        removed[:deletes] = True
        return rows, removed

    def uncopied_rows(self, task: SnapshotTask) -> Iterator[Any]:
        """Yield the changed rows of files of a snapshot, as Arrow tables with the columns of the change, without most of the rows that were only copied.

        Few rows are in memory at once, in contrast to `rows_of_snapshot`. The rows must be compared again; see `copied_rows.py`.
        """
        if not task.compares_values:
            for changed in self._changed_positions(task, None):
                for part in self._rows_at(changed):
                    yield self._with_constants([part], self.columns)[0]
            return
        constants = {kind: values for file in task.files for kind, values in file.constants.items()}
        reader = replace(self.reader, projection=self.all_columns)
        arrow = schema_to_arrow(Schema(*self.all_columns.fields, *self.constant_columns))
        for kind, rows in uncopied_rows(reader, [file.file for file in task.files], self.compared):
            if not len(rows):  # the files may have no change of this kind
                continue
            own = [
                repeat_value(constants[kind][column.field_id], arrow.field(column.name).type, len(rows)) for column in self.constant_columns
            ]
            yield pa.table([*rows.columns, *own], schema=arrow)

    def _changed_positions(self, task: SnapshotTask, most_bytes: int | None) -> list[tuple[ChangeTask, str, FrozenBitMap64]]:
        """Return the positions of the changed rows of a snapshot without those that have the row id and the last update of a deleted row.

        Each item has a file, the kind of the changes, and their positions. Rows whose copies are read much later remain, if more than so many bytes would wait
        for them.
        """
        lineage = replace(self.reader, projection=Schema(POS, *LINEAGE_COLUMNS))
        positions: dict[tuple[int, str], BitMap64] = {}
        for kind, rows in uncopied_rows(lineage, [file.file for file in task.files], _LINEAGE, most_bytes=most_bytes, has_places=True):
            places, own = numpy_of(rows[PLACE.name]), numpy_of(rows[POS.name])
            for place in np.unique(places).tolist():
                positions.setdefault((place, kind), BitMap64()).update(own[places == place].astype(np.uint64))
        return [
            (file, kind, FrozenBitMap64(positions[place, kind]))
            for place, file in enumerate(task.files)
            for kind in file.constants
            if (place, kind) in positions
        ]

    def _rows_at(self, changed: tuple[ChangeTask, str, FrozenBitMap64]) -> Iterator[tuple[ChangeTask, str, Any]]:
        file, kind, positions = changed
        for batch in replace(self.reader, projection=self.columns).rows_at(file.file, positions):
            yield file, kind, batch


def repeat_value(value: Any, kind: Any, count: int) -> Any:
    """Return an Arrow array with one value so many times, without an import of pandas. The value is None, text, a Boolean value, or a number of any type."""
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.repeat(scalar_of(value, pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()), count).view(kind)
    return pa.repeat(scalar_of(value, kind), count)
