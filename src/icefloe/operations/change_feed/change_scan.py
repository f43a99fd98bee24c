"""`ChangeScan`: the rows that the snapshots of a range inserted, deleted and updated, as Arrow and other frames.

`icefloe.scan.change_planner` plans the changed files of a snapshot, `changed_file_reader.py` reads their changed rows, and `row_pairs.py` pairs deleted with
inserted rows. Snapshots that only replaced files (`replace`) have no changes, and their files are not read. Spec: Snapshots; Row Lineage; Reserved Field IDs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa

from icefloe.errors import InvalidInputError, in_one_line
from icefloe.formatting import time_text
from icefloe.io.manifest_cache import cached_manifests
from icefloe.operations.change_feed.change_columns import CHANGE_COLUMNS, feed_metadata_columns
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT, ChangedFileReader
from icefloe.operations.change_feed.paired_rows import ChangeTask, PairedRows, RangeTask, SnapshotTask
from icefloe.operations.change_feed.row_pairs import Identity
from icefloe.operations.other_frames import RowFrames
from icefloe.operations.parallel_requests import in_threads, serial_bytes
from icefloe.scan.change_planner import ChangedFile, ChangePlan, plan_changes, removes_rows
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.bind import bind, filter_field_ids
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, all_of
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.metadata.snapshot import Operation, Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import (
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    COMMIT_SNAPSHOT_ID,
    COMMIT_TIMESTAMP,
    DELETED,
    LINEAGE_COLUMNS,
    is_reserved,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_history import relax_required_fields
from icefloe.spec.types import NestedField, StructType

# The format version from which on rows have ids.
LINEAGE_VERSION = 3
# The greatest time that a column of microseconds can have.
_MOST_MICROSECONDS = 2**63 - 1


class DeduplicationMode(StrEnum):
    """Which changes a scan leaves out. The names are those of Spark's option `deduplicationMode`."""

    NONE = "none"  # no change, not even rows that a snapshot both deleted and inserted, because it copied their file
    DROP_CARRYOVERS = "dropCarryovers"  # rows that were only copied
    NET_CHANGES = (
        "netChanges"  # rows that were only copied, and rows that several snapshots of the range changed back, or inserted and deleted
    )


def deduplication_named(name: str) -> DeduplicationMode:
    """Return the mode with a name, in any letter case.

    Raises:
        InvalidInputError: No mode has this name.
    """
    mode = next((mode for mode in DeduplicationMode if mode.lower() == name.lower()), None)
    if mode is None:
        raise InvalidInputError(f"there is no deduplication mode {name!r}", next_step=f"give one of {', '.join(DeduplicationMode)}")
    return mode


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChanges:
    """The planned changes of one snapshot.

    Attributes:
        snapshot: The snapshot.
        ordinal: The number of the snapshot among those of the range that changed rows, from 0 on.
        plan: The data files whose rows the snapshot changed, compared with its parent.
    """

    snapshot: Snapshot
    ordinal: int
    plan: ChangePlan

    def constants(self, kind: str) -> dict[int, Any]:
        """Return the values that all changes of one kind (`INSERT`, `DELETE`) have, by the field ids of their columns."""
        time_us = self.snapshot.timestamp_ms * 1000
        return {
            CHANGE_TYPE.field_id: kind,
            CHANGE_ORDINAL.field_id: self.ordinal,
            COMMIT_SNAPSHOT_ID.field_id: self.snapshot.snapshot_id,
            COMMIT_TIMESTAMP.field_id: None if abs(time_us) > _MOST_MICROSECONDS else time_us,
        }


@dataclass(frozen=True, kw_only=True)
class ChangeScan(RowFrames):
    """A scan of the changes of a range of snapshots. It is immutable: `filter`, `select` and similar methods return a new scan.

    A row has the columns of the table in its current schema, then `_change_type` (INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER), `_change_ordinal` (the number
    of the snapshot among those that changed rows) and `_commit_snapshot_id`. The metadata columns `_file`, `_pos`, `_spec_id`, `_partition`, `_row_id`,
    `_last_updated_sequence_number` and `_commit_timestamp` can be selected by name.

    Attributes:
        table_name: The name of the table, for errors.
        metadata: The metadata of the table.
        io: Storage of the table's files.
        snapshots: The snapshots of the range, oldest first; see `snapshots_in_range`.
        row_filter: A filter on the columns of the table.
        selected_fields: Names of columns; `*` is every column of the table, followed by the three columns of the change.
        case_sensitive: Whether names must match the case of columns.
        deduplication: Which changes are left out.
        computes_updates: Whether a deleted and an inserted row with the same identity become UPDATE_BEFORE and UPDATE_AFTER.
        identifier_columns: The columns whose values identify a row, with dotted names inside of structs. None for the row id in format version 3, and then the
            table's identifier fields.
    """

    table_name: str
    metadata: TableMetadata
    io: FileIO
    snapshots: Sequence[Snapshot]
    row_filter: BooleanExpression = field(default_factory=AlwaysTrue)
    selected_fields: tuple[str, ...] = ("*",)
    case_sensitive: bool = True
    deduplication: DeduplicationMode = DeduplicationMode.DROP_CARRYOVERS
    computes_updates: bool = False
    identifier_columns: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        count = len(self.snapshots)
        return in_one_line(f"ChangeScan({self.table_name}: {count} snapshots, where {self.row_filter}, {self.deduplication})")

    def filter(self, row_filter: str | BooleanExpression) -> "ChangeScan":
        """Return a scan of the changes whose rows also match another filter.

        If updates are computed, each of the two rows of an update is tested alone.

        Args:
            row_filter: a filter on columns of the table, as text or expression.

        Returns:
            The narrower scan.

        Raises:
            InvalidFilterError: the text cannot be parsed.
        """
        return replace(self, row_filter=all_of((self.row_filter, to_expression(row_filter))))

    def select(self, *names: str) -> "ChangeScan":
        """Return a scan of these columns.

        Args:
            *names: names of columns of the table, of the columns of the change, and of metadata columns such as `_row_id`; `*` is every column of the table and
                of the change.

        Returns:
            The narrower scan. Its columns are in the order of the table, followed by the columns of the change and by metadata columns.
        """
        return replace(self, selected_fields=names)

    @cached_property
    def schema(self) -> Schema:
        """The columns that can be selected, in order: those of the table, of the change, and metadata columns whose names the table does not use.

        Raises:
            InvalidInputError: the table has a column with the name of one of the change.
        """
        fields = relax_required_fields(self.metadata.schema().fields, self.metadata.schemas)
        names = {column.name for column in fields}
        taken = [column.name for column in CHANGE_COLUMNS if column.name in names]
        if taken:
            raise InvalidInputError(
                f"the changes of {self.table_name} have a column {taken[0]}, and so has the table",
                table=self.table_name,
                next_step="rename the column of the table",
            )
        return Schema(*fields, *CHANGE_COLUMNS, *(column for column in feed_metadata_columns(self.metadata) if column.name not in names))

    def projection(self) -> Schema:
        """Return the columns of the result.

        Raises:
            InvalidInputError: a column does not exist.
        """
        available = self.schema
        by_default = {column.name for column in available.fields[: len(self.metadata.schema().fields) + len(CHANGE_COLUMNS)]}
        unknown = [name for name in self.selected_fields if name != "*" and self._name_of(name) is None]
        unknown += [name for name in self.identifier_columns or () if self._path_of(name) is None]
        if unknown:
            raise InvalidInputError(
                f"the changes of {self.table_name} have no column {unknown[0]!r}",
                table=self.table_name,
                next_step=f"the columns are {', '.join(available.names)}",
            )
        chosen = {self._name_of(name) for name in self.selected_fields} | (by_default if "*" in self.selected_fields else set())
        return Schema(*(column for column in available.fields if column.name in chosen))

    def _name_of(self, name: str) -> str | None:
        names = self.schema.names
        if name in names or self.case_sensitive:
            return name if name in names else None
        return next((other for other in names if other.lower() == name.lower()), None)

    def _path_of(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a column with a name, which may be dotted for a column inside of structs; None if there is none."""
        column = self._name_of(name)
        if column is not None:
            return (column,)
        schema = self.metadata.schema()
        field_id = schema.find_id(name, case_sensitive=self.case_sensitive)
        path = None if field_id is None else schema.path_of(field_id)
        return path if path is not None and _is_inside_structs(schema.fields, path) else None

    @property
    def identity(self) -> Identity:
        """What identifies a row in several snapshots.

        Raises:
            InvalidInputError: updates are computed, and the rows have neither ids nor identifier fields.
        """
        schema = self.metadata.schema()
        names = self.identifier_columns
        has_ids = (
            names is None
            and self.metadata.format_version >= LINEAGE_VERSION
            and all(column in self.schema.fields for column in LINEAGE_COLUMNS)
        )
        if names is None:
            paths = [schema.path_of(field_id) for field_id in sorted(schema.identifier_field_ids)]
        else:
            paths = [self._path_of(name) or (name,) for name in names]
        if self.computes_updates and not has_ids and not paths:
            raise InvalidInputError(
                f"{self.table_name} has no identifier fields, by which updates are found",
                table=self.table_name,
                next_step="give identifier_columns, ALTER TABLE ... SET IDENTIFIER FIELDS, or upgrade the table to format version 3",
            )
        return Identity(has_ids=has_ids, columns=tuple(path for path in paths if path is not None))

    @property
    def pushed_filter(self) -> BooleanExpression:
        """The filter that can be applied before rows are paired.

        A filter that keeps one row of an update and drops the other must be applied after updates were found. Copied rows are equal, so that a filter keeps or
        drops both.
        """
        pairs = self.computes_updates or self.deduplication is DeduplicationMode.NET_CHANGES
        return AlwaysTrue() if pairs else self.row_filter

    def plan(self) -> Iterator[SnapshotChanges]:
        """Plan the changed files of each snapshot, oldest first. A snapshot is planned when it is requested.

        Raises:
            InvalidInputError: the parent of a snapshot is expired, and the snapshot removed rows, which cannot be read therefore.
            NoSuchFileError, ManifestFormatError: a manifest list or manifest is missing or damaged.
            UnsupportedFeatureError: a snapshot is encrypted.
        """
        changing = [snapshot for snapshot in self.snapshots if snapshot.operation != Operation.REPLACE]
        for ordinal, snapshot in enumerate(changing):
            yield SnapshotChanges(snapshot=snapshot, ordinal=ordinal, plan=self._plan_snapshot(snapshot))

    def _planning_options(self) -> dict[str, Any]:
        return {
            "case_sensitive": self.case_sensitive,
            "schema": self.metadata.schema(),
            "parallel": in_threads,
            "serial_bytes": serial_bytes(self.metadata.location),
            "cache": cached_manifests(self.io),
        }

    def _plan_snapshot(self, snapshot: Snapshot) -> ChangePlan:
        parent_id = snapshot.parent_snapshot_id
        parent = None if parent_id is None else self.metadata.snapshot_by_id(parent_id)
        options = self._planning_options()
        if parent_id is None or parent is not None:
            return plan_changes(self.metadata, parent, snapshot, self.io.read, row_filter=self.pushed_filter, **options)
        if removes_rows(snapshot, self.io.read):
            raise InvalidInputError(
                f"snapshot {snapshot.snapshot_id} of {time_text(snapshot.timestamp_ms)} in {self.table_name} removed rows of snapshot {parent_id}, "
                "which was expired",
                table=self.table_name,
                snapshot_id=snapshot.snapshot_id,
                next_step=f"request the changes after it: start_snapshot_id={snapshot.snapshot_id}",
            )
        added = plan_scan(self.metadata, snapshot, self.pushed_filter, self.io.read, appends=(snapshot,), **options)
        return ChangePlan.of_added_files(added)

    def reader(self, projection: Schema) -> ChangedFileReader:
        """Return a reader of the changed rows of files.

        Args:
            projection: the columns to read: columns of `schema`, without those of the change.
        """
        schema = Schema(*relax_required_fields(self.metadata.schema().fields, self.metadata.schemas))
        return ChangedFileReader.of(self.io, self.metadata, schema, projection)

    def columns_to_read(self) -> Schema:
        """Return the columns that changed rows need until the result is projected: selected ones, and those by which rows are filtered and paired."""
        schema = self.schema
        names = {column.name for column in self.projection().fields}
        table_columns = [column for column in schema.fields if not is_reserved(column.field_id)]
        if self.computes_updates:
            names |= {path[0] for path in self.identity.columns}
        if self._uses_ids:
            names |= {column.name for column in LINEAGE_COLUMNS}
        if self.deduplication is DeduplicationMode.NET_CHANGES:
            names |= {column.name for column in table_columns}
        elif self.filters_pairs:
            tested = filter_field_ids(bind(self.row_filter, self.metadata.schema(), self.case_sensitive))
            names |= {column.name for column in table_columns if not tested.isdisjoint(Schema(column).field_ids)}
        unread = {DELETED.field_id, *(column.field_id for column in (*CHANGE_COLUMNS, COMMIT_TIMESTAMP))}
        chosen = [column for column in schema.fields if column.name in names and column.field_id not in unread]
        # At least one column is read, because an Arrow table without columns has no row count.
        return Schema(*(chosen or table_columns[:1]))

    @property
    def constant_columns(self) -> Sequence[NestedField]:
        """The columns that are constant in the changes of one kind of a snapshot: those of the change, and the time of the commit if it is selected."""
        return (*CHANGE_COLUMNS, *(column for column in self.projection().fields if column == COMMIT_TIMESTAMP))

    @property
    def _uses_ids(self) -> bool:
        return self.identity.has_ids and (self.computes_updates or self.deduplication is not DeduplicationMode.NONE)

    @property
    def filters_pairs(self) -> bool:
        """Whether the filter is applied after rows were paired."""
        return self.row_filter != self.pushed_filter

    def all_columns(self, columns: Schema) -> Schema:
        """Return all columns of the table, with the metadata columns among `columns`."""
        return Schema(*(column for column in self.schema.fields if not is_reserved(column.field_id) or column in columns.fields))

    def may_copy_rows(self, plan: ChangePlan) -> bool:
        """Return whether the rows that a snapshot only copied must be found and left out.

        A snapshot that removes no file copies no row with its row id: rows that it writes are new or updated.
        """
        if self.deduplication is DeduplicationMode.NONE or not plan.may_copy_rows:
            return False
        return self.compares_values(plan) or bool(plan.removed.kept.files)

    def compares_values(self, plan: ChangePlan) -> bool:
        """Return whether copied rows are found by the values of all columns, because rows have no row ids."""
        return not self.identity.has_ids or plan.lacks_row_ids

    def to_arrow(self) -> Any:
        """Read the changes in this process, oldest first.

        Returns:
            A `pyarrow.Table`.

        Raises:
            InvalidInputError: a column does not exist; updates cannot be computed; or a snapshot removed rows, and its parent is expired.
            InvalidFilterError: the filter does not fit the columns.
            NoSuchFileError: a file that the metadata names does not exist.
            FormatError: a file is damaged, or violates the format.
        """
        return self.pairing().rows_of_range(RangeTask(snapshots=tuple(self.snapshot_task(changes) for changes in self.plan())))

    def pairing(self) -> PairedRows:
        """Return the reader that compares the rows of planned changes.

        Raises:
            InvalidInputError: a column does not exist, or updates cannot be computed.
        """
        columns, schema = self.columns_to_read(), self.metadata.schema()
        return PairedRows(
            table_name=self.table_name,
            reader=self.reader(columns),
            columns=columns,
            all_columns=self.all_columns(columns),
            compared=tuple(schema.names),
            constant_columns=tuple(self.constant_columns),
            projection=self.projection(),
            is_net=self.deduplication is DeduplicationMode.NET_CHANGES,
            has_ids=self.identity.has_ids,
            identity=self.identity if self.computes_updates else None,
            row_filter=bind(self.row_filter, schema, self.case_sensitive) if self.filters_pairs else None,
        )

    def snapshot_task(self, changes: SnapshotChanges) -> SnapshotTask:
        """Return the changed files of a snapshot as `PairedRows` reads them."""
        plan = changes.plan
        return SnapshotTask(
            files=tuple(change_task(file, changes) for file in plan.files()),
            may_copy_rows=self.may_copy_rows(plan),
            compares_values=self.compares_values(plan),
            lacks_row_ids=plan.lacks_row_ids,
        )

    def to_arrow_batch_reader(self) -> Any:
        """Read the changes in this process as a stream, oldest first. Of each snapshot deletions come before insertions.

        Rows of a snapshot are in memory together only if they must be compared: to find updates, or rows that the snapshot only copied. `netChanges` compares
        the rows of all snapshots.

        Returns:
            A `pyarrow.RecordBatchReader`.

        Raises:
            IcefloeError: as for `to_arrow`; errors of files are raised when their rows are read.
        """
        return pa.RecordBatchReader.from_batches(schema_to_arrow(self.projection()), self._batches())

    def _batches(self) -> Iterator[Any]:
        if self.deduplication is DeduplicationMode.NET_CHANGES:
            yield from self.to_arrow().to_batches()
            return
        for changes in self.plan():
            yield from self._batches_of_snapshot(changes)

    def _batches_of_snapshot(self, changes: SnapshotChanges) -> Iterator[Any]:
        pairing = self.pairing()
        task = self.snapshot_task(changes)
        if self.computes_updates or task.may_copy_rows:
            yield from pairing.rows_of_range(RangeTask(snapshots=(task,))).to_batches()
            return
        for change in (DELETE, INSERT):
            for file in task.files:
                if change in file.constants:
                    for rows in pairing.batches_of_file(file, change):
                        yield from pairing.finish(rows).to_batches()

    def initial_rows(self, snapshot: Snapshot) -> Any:
        """Read all rows of a snapshot in this process as a stream, as if the snapshot had inserted them.

        Args:
            snapshot: the snapshot.

        Returns:
            A `pyarrow.RecordBatchReader`.

        Raises:
            IcefloeError: as for `to_arrow_batch_reader`.
        """
        scan = replace(self, computes_updates=False, deduplication=DeduplicationMode.NONE)
        plan = plan_changes(self.metadata, None, snapshot, self.io.read, row_filter=scan.pushed_filter, **scan._planning_options())
        rows = scan._batches_of_snapshot(SnapshotChanges(snapshot=snapshot, ordinal=0, plan=plan))
        return pa.RecordBatchReader.from_batches(schema_to_arrow(self.projection()), rows)


def _is_inside_structs(fields: Sequence[NestedField], path: tuple[str, ...]) -> bool:
    """Return whether there are only structs around the last field of a path. Of a field inside a list or map, a row has many values."""
    for name in path[:-1]:
        kind = next(field for field in fields if field.name == name).field_type
        if not isinstance(kind, StructType):
            return False
        fields = kind.fields
    return True


def change_task(file: ChangedFile, changes: SnapshotChanges, kinds: Sequence[str] = (DELETE, INSERT)) -> ChangeTask:
    """Return a changed file of a snapshot with the kinds of its changes that are read, of those that the file may have."""
    possible = [kind for kind in kinds if kind != (INSERT if file.after is None else DELETE if file.before is None else None)]
    return ChangeTask(file=file, constants={kind: changes.constants(kind) for kind in possible})
