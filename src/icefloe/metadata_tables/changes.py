"""The metadata table `changes`: the rows that snapshots added and removed, each with its operation and snapshot.

A snapshot is compared with its parent: a row is added if it is live in the snapshot only, removed if it is live in the parent only. This covers added and
removed data files, and rows that position deletes, deletion vectors and equality deletes removed from files that remain.
`row_pairs.py` finds rows that were only copied to other files, and pairs of a removed and an added row that are an update. Spec: Snapshots; Reserved Field IDs;
Row-level Deletes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.metadata_tables.changed_file_rows import FilePair, FileRows, LiveFile, live_files
from icefloe.metadata_tables.request import Request
from icefloe.metadata_tables.row_pairs import DELETE, INSERT, with_updates, without_carry_overs
from icefloe.metadata_tables.schemas import changes_metadata_columns, changes_schema
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_history import snapshots_between
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, DELETED
from icefloe.spec.schema.schema import Schema

_REPLACE = "replace"  # the operation of snapshots that replace files without changing rows
_OWN = frozenset([CHANGE_TYPE.name, CHANGE_ORDINAL.name, COMMIT_SNAPSHOT_ID.name])
# Keys of a snapshot's summary that count removed rows.
_REMOVALS = ("deleted-data-files", "added-delete-files")


def current_changes(request: Request) -> Any:
    """Return the rows of `changes` from the beginning of the table up to the requested snapshot, including rows that were only copied."""
    snapshot_id = None if request.snapshot is None else request.snapshot.snapshot_id
    if snapshot_id is None:
        return schema_to_arrow(request.schema).empty_table()
    return changes(request.table, end_snapshot_id=snapshot_id, columns=request.schema.names)


def changes(
    table: TableReader,
    *,
    start_snapshot_id: int | None = None,
    end_snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    row_filter: str | BooleanExpression | None = None,
    carry_overs: bool = True,
    identifier_columns: Sequence[str] = (),
) -> Any:
    """Return the rows that the snapshots between two snapshots added and removed as a `pyarrow.Table`, oldest changes first.

    The table's columns are followed by three others: `_change_type` is INSERT or DELETE; `_change_ordinal` counts the snapshots from 0; `_commit_snapshot_id`
    is the snapshot that made the change. Snapshots that only replaced files are skipped.

    Args:
        table: The table.
        start_snapshot_id: The snapshot after which changes begin, exclusive; None for the beginning of the table.
        end_snapshot_id: The last snapshot, inclusive; None for the current one.
        columns: Names of the columns to return; None for the table's columns and the three above. The metadata columns `_file`, `_pos`, `_spec_id` and
            `_partition` describe the data file of the row; `_deleted` is always false, because only live rows are compared.
        row_filter: Filter on columns of the table; None for all rows.
        carry_overs: Whether to return rows that a snapshot both removed and added unchanged, because it copied their file.
        identifier_columns: Names of columns. If given, a row that a snapshot removed and a row that it added, with equal values in these columns, become
            UPDATE_BEFORE and UPDATE_AFTER, and rows that were only copied are left out.

    Raises:
        NoSuchSnapshotError: A snapshot does not exist.
        InvalidInputError: The start is not an ancestor of the end; a snapshot removed rows, and its parent is expired; a column does not exist; or a snapshot
            changed several rows with equal values in the identifier columns.
        InvalidFilterError: The filter cannot be parsed, or does not fit the columns.
        NoSuchFileError: A file that the metadata names does not exist.
        FormatError: A file is damaged, or violates the format.
    """
    by_default = changes_schema(table.metadata)
    schema = Schema(*by_default.fields, *changes_metadata_columns(table.metadata))
    returned = by_default.names if columns is None else [name for name in schema.names if name in columns]
    unknown = [name for name in (*(columns or ()), *identifier_columns) if name not in schema.names]
    if unknown:
        raise InvalidInputError(
            f"the changes of {table.full_name} have no column {unknown[0]!r}",
            table=table.full_name,
            next_step=f"the columns are {', '.join(schema.names)}",
        )
    # All columns are read, because copied rows are recognized by equal values in all of them.
    compared = not carry_overs or bool(identifier_columns)
    read = {*by_default.names, *returned} if compared else set(returned)
    fields = table.schema().fields
    # At least one column is read, because an Arrow table without columns has no row count.
    table_columns = [field for field in fields if field.name in read or (read <= _OWN and field is fields[0])]
    # `_deleted` is not read: a scan with this column returns deleted rows too.
    places = [field for field in schema.fields[len(by_default.fields) :] if field.name in read and field.field_id != DELETED.field_id]
    projection = Schema(*table_columns, *places)
    condition = AlwaysTrue() if row_filter is None else to_expression(row_filter)
    reader = _Reader(table, projection, bind(condition, table.schema()))
    parts = []
    for ordinal, snapshot in enumerate(_snapshots(table, start_snapshot_id, end_snapshot_id)):
        removed, added = reader.changes_of(snapshot)
        rows = pa.concat_tables(
            [_with_change_columns(removed, DELETE, ordinal, snapshot), _with_change_columns(added, INSERT, ordinal, snapshot)]
        )
        if compared:
            rows = without_carry_overs(rows, [field.name for field in table_columns])
        if identifier_columns:
            rows = with_updates(rows, identifier_columns, table.full_name, snapshot.snapshot_id)
        if DELETED.name in returned and DELETED.name not in rows.column_names:
            rows = rows.append_column(DELETED.name, pa.repeat(pa.scalar(False), len(rows)))
        parts.append(rows.select(returned))
    target = pa.schema([field for field in schema_to_arrow(schema) if field.name in returned])
    return pa.concat_tables(parts).cast(target) if parts else target.empty_table()


def _snapshots(table: TableReader, start: int | None, end: int | None) -> list[Snapshot]:
    """Return the snapshots after `start` up to `end`, oldest first, without those that only replaced files."""
    metadata = table.metadata
    last = metadata.current_snapshot() if end is None else metadata.snapshot_by_id(end)
    line = snapshots_between(metadata, start, None if last is None else last.snapshot_id)
    for snapshot_id in (start, end):
        # An expired start is allowed as long as its child still exists.
        if snapshot_id is not None and (line is None or snapshot_id == end) and metadata.snapshot_by_id(snapshot_id) is None:
            raise NoSuchSnapshotError(
                f"{table.full_name} has no snapshot {snapshot_id}",
                table=table.full_name,
                snapshot_id=snapshot_id,
                next_step="choose one from table.snapshots(); expired snapshots are not listed",
            )
    if line is None:
        raise InvalidInputError(
            f"snapshot {start} of {table.full_name} is not an ancestor of snapshot {last.snapshot_id if last else None}",
            table=table.full_name,
            snapshot_id=start,
            next_step="choose a start from table.ancestors() of the end",
        )
    return [snapshot for snapshot in reversed(line) if snapshot.operation != _REPLACE]


def _with_change_columns(rows: Any, change: str, ordinal: int, snapshot: Snapshot) -> Any:
    count = len(rows)
    for field, value in ((CHANGE_TYPE, change), (CHANGE_ORDINAL, ordinal), (COMMIT_SNAPSHOT_ID, snapshot.snapshot_id)):
        kind = schema_to_arrow(Schema(field)).field(0).type
        rows = rows.append_column(field.name, pa.repeat(pa.scalar(value, kind), count))
    return rows


class _Reader:
    """A reader of the rows that a snapshot changed. It caches the files of the last snapshot that it read, which is usually the parent of the next one."""

    def __init__(self, table: TableReader, projection: Schema, row_filter: BooleanExpression) -> None:
        self._table = table
        self._projection = projection
        self._row_filter = row_filter
        self._file_rows = FileRows(table, table.schema(), projection)
        self._cached: tuple[int | None, dict[str, LiveFile]] = (None, {})

    def changes_of(self, snapshot: Snapshot) -> tuple[Any, Any]:
        """Return two Arrow tables: the rows that a snapshot removed, and the rows that it added. Raises the errors of `_before` and of reading files."""
        before = self._before(snapshot)
        after = self._files(snapshot.snapshot_id)
        if before is None:
            before = {path: file for path, file in after.items() if file.added_by != snapshot.snapshot_id}
        self._cached = (snapshot.snapshot_id, after)
        removed: list[FilePair] = [(file.task(), None) for path, file in before.items() if path not in after]
        added: list[FilePair] = [(file.task(), None) for path, file in after.items() if path not in before]
        for path in before:
            if path in after and before[path].deletes != after[path].deletes:
                old, new = before[path].task(), after[path].task()
                removed.append((old, new))
                added.append((new, old))
        return self._rows(removed), self._rows(added)

    def _before(self, snapshot: Snapshot) -> dict[str, LiveFile] | None:
        """Return the live files of the snapshot's parent by path; None if the parent is expired.

        Raises:
            InvalidInputError: The parent is expired, and the snapshot removed rows or has no summary, so that the removed rows cannot be read.
        """
        parent = snapshot.parent_snapshot_id
        if parent is None:
            return {}
        if self._table.metadata.snapshot_by_id(parent) is not None:
            return self._files(parent)
        if any(snapshot.summary.get(name, "0") != "0" for name in _REMOVALS) or not snapshot.summary:
            raise InvalidInputError(
                f"snapshot {snapshot.snapshot_id} of {self._table.full_name} removed rows of snapshot {parent}, which was expired",
                table=self._table.full_name,
                snapshot_id=snapshot.snapshot_id,
                next_step=f"request the changes after it: start_snapshot_id={snapshot.snapshot_id}",
            )
        return None

    def _files(self, snapshot_id: int) -> dict[str, LiveFile]:
        """Return the live data files of a snapshot that may contain rows that match the filter, by path."""
        if self._cached[0] == snapshot_id:
            return self._cached[1]
        scan = replace(self._table.scan(self._row_filter, snapshot_id=snapshot_id), by_table_schema=True)
        return dict(live_files(scan.planned_here().plan()))

    def _rows(self, tasks: Sequence[FilePair]) -> Any:
        """Return one Arrow table with the rows of all pairs: the live rows of the first task of a pair that are not live in its second task."""
        target = schema_to_arrow(self._projection)
        rows = [table for table in in_threads(lambda pair: self._file_rows.rows(*pair), tasks) if len(table)]
        return pa.concat_tables(rows) if rows else target.empty_table()
