"""`RowLevel`: the action that commits an UPDATE, MERGE or DELETE, after an engine has found the rows to delete and written files with the new rows.

Rows are deleted with delete files (`delete_file_writer.py`) or by copying their files (`copy_on_write_delete.py`), depending on the properties `write.*.mode`.
Spec: Row-level Deletes; Row Lineage; Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.row_delta import RowDelta
from icefloe.commit.snapshot_attempt import parent_snapshot
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import CommitInvalidatedError, Problem, UnsupportedFeatureError
from icefloe.operations.engine import Engine
from icefloe.operations.rows.copy_on_write_delete import copies_without
from icefloe.operations.rows.delete_file_writer import DeleteFileWriter
from icefloe.operations.rows.row_change import RowChange
from icefloe.operations.table_handle import TableHandle
from icefloe.operations.write_result import WriteResult
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import (
    DELETE_DISTRIBUTION_MODE,
    DELETE_ISOLATION_LEVEL,
    DELETE_MODE,
    MERGE_DISTRIBUTION_MODE,
    MERGE_ISOLATION_LEVEL,
    MERGE_MODE,
    UPDATE_DISTRIBUTION_MODE,
    UPDATE_ISOLATION_LEVEL,
    UPDATE_MODE,
)
from icefloe.spec.schema.metadata_columns import FILE, POS, ROW_ID

Positions = NDArray[np.int64]


class Command(Enum):
    """The kind of a statement that changes rows. Its methods read the table properties for this kind, such as `write.merge.mode`."""

    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"

    def is_merge_on_read(self, base: TableMetadata) -> bool:
        """Return whether the table's properties choose merge-on-read for this statement."""
        return _MODES[self].read(base.properties) == "merge-on-read"

    def is_serializable(self, base: TableMetadata) -> bool:
        """Return whether the table's isolation level for this statement is serializable, so that rows which other writers add meanwhile can be conflicts."""
        return _LEVELS[self].read(base.properties) == "serializable"

    def distribution_mode(self, base: TableMetadata) -> str | None:
        """Return the distribution mode that the table's properties choose for the rows of this statement; None if the property is not set."""
        return _DISTRIBUTIONS[self].read(base.properties)

    @property
    def mode_property(self) -> str:
        """The name of the `write.*.mode` property of this statement."""
        return _MODES[self].name


# The number of files that an error names.
SHOWN_FILES = 5
_MODES = {Command.DELETE: DELETE_MODE, Command.UPDATE: UPDATE_MODE, Command.MERGE: MERGE_MODE}
_DISTRIBUTIONS = {
    Command.DELETE: DELETE_DISTRIBUTION_MODE,
    Command.UPDATE: UPDATE_DISTRIBUTION_MODE,
    Command.MERGE: MERGE_DISTRIBUTION_MODE,
}
_LEVELS = {Command.DELETE: DELETE_ISOLATION_LEVEL, Command.UPDATE: UPDATE_ISOLATION_LEVEL, Command.MERGE: MERGE_ISOLATION_LEVEL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """The changes of a statement that an engine has computed and that are not committed yet.

    Attributes:
        files: Written data files with new rows: inserted rows and the new versions of updated rows.
        positions: For the path of each data file with rows to delete, their ascending positions. An updated row is deleted there too.
        deleted: The number of deleted rows.
        updated: The number of updated rows.
        inserted: The number of inserted rows.
        unmatched_updated: The number of updated rows without a matching source row, in a MERGE; None if unknown.
        unmatched_deleted: The number of deleted rows without a matching source row, in a MERGE; None if unknown.
    """

    files: tuple[DataFile, ...] = ()
    positions: Mapping[str, Positions]
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    unmatched_updated: int | None = None
    unmatched_deleted: int | None = None

    def merge_summary(self, copied: int) -> dict[str, str]:
        """Return the counts of rows for the snapshot summary of a MERGE, with Java's keys. `copied` is the number of rows copied without a change."""
        counts = {"copied": copied, "deleted": self.deleted, "updated": self.updated, "inserted": self.inserted}
        if self.unmatched_updated is not None and self.unmatched_deleted is not None:
            counts |= {
                "matched-updated": self.updated - self.unmatched_updated,
                "matched-deleted": self.deleted - self.unmatched_deleted,
                "not-matched-by-source-updated": self.unmatched_updated,
                "not-matched-by-source-deleted": self.unmatched_deleted,
            }
        return {f"spark.merge-into.num-target-rows-{name}": str(count) for name, count in counts.items()}


class RowLevel:
    """The action that commits one UPDATE, MERGE or DELETE.

    Its rows were computed once, from the snapshot that the statement read. A retry commits the same rows, unless commits of other writers violate the table's
    isolation level: the files whose rows are deleted must still be live, and other writers must not have deleted rows of them. With the level `serializable`,
    other writers also must not have added rows that the statement may affect. For a DELETE, see `_rules`.
    """

    def __init__(
        self,
        handle: TableHandle,
        engine: Engine,
        base: TableMetadata,
        command: Command,
        row_filter: BooleanExpression,
        rows: ChangedRows,
        context: CommitContext,
        target: WriteTarget,
    ) -> None:
        """Create the action.

        `base` is the metadata that the statement read. `row_filter` is true for every row that the statement may affect; it is used for planning and conflict
        checks. `target` is the target of the write that created the files with new rows.
        """
        self._handle = handle
        self._engine = engine
        self._base = base
        self._command = command
        self._filter = row_filter
        self._rows = rows
        self._context = context
        self._target = target
        self._new_files: Sequence[DataFile] = rows.files
        self._numbers = ManifestNumbers(context)
        self._delete_files = DeleteFileWriter(handle, command.mode_property)
        self._delta: RowDelta | None = None
        self.change = RowChange()

    def new_data_files(self) -> Sequence[str]:
        return [*(file.file_path for file in self.added), *self._delete_files.new_files()]

    @property
    def added(self) -> Sequence[DataFile]:
        """The data files that the last attempt adds."""
        return (*self._new_files, *self.change.added)

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Prepare the commit of the statement on top of `base`, see `Action.attempt`. Return None if no row changes. The first attempt writes the deletes.

        Raises:
            CommitInvalidatedError: other writers changed rows that the statement read, so that it has to run again.
            UnsupportedFeatureError: see `DeleteFileWriter.change`.
        """
        if not self._rows.positions and not self._rows.files:
            return None
        if self._delta is None:
            self._delta = self._plan(read)
        return self._delta.attempt(base, number=number, now_ms=now_ms, read=read)

    def _plan(self, read: Read) -> RowDelta:
        """Write the deletes, and return the change of files. After each step, `new_data_files` returns the files written so far, for a cleanup."""
        base = self._base
        parent = parent_snapshot(base, self._context.branch)
        plan = plan_scan(base, parent, self._filter, read, every_delete=True, schema=base.schema())
        positions = self._rows.positions
        tasks = [task for task in plan.tasks() if task.file.file_path in positions] if positions else []
        rows_to_delete = [(task, positions[task.file.file_path]) for task in tasks]
        if len(tasks) != len(positions):
            planned_paths = {task.file.file_path for task in tasks}
            raise CommitInvalidatedError(
                f"rows are to be deleted of {len(positions) - len(tasks)} files that {self._handle.table_name} did not have when it was read",
                table=self._handle.table_name,
                problems=tuple(
                    Problem(where=path, what=f"expected in snapshot {plan.snapshot_id}, not found there")
                    for path in positions
                    if path not in planned_paths
                )[:SHOWN_FILES],
                next_step="a retry makes sense: run the statement again on the newest snapshot",
            )
        if self._command.is_merge_on_read(base):
            self.change = self._delete_files.change(rows_to_delete, base)
        else:
            self.change, self._new_files = copies_without(self._handle, self._engine, base, rows_to_delete, self._rows.files, self._target)
        context = self._context
        if self._command is Command.MERGE:
            counts = self._rows.merge_summary(self.change.copied_rows)
            context = replace(context, snapshot_properties={**context.snapshot_properties, **counts})
        return RowDelta(
            added=self.added,
            added_deletes=self.change.added_deletes,
            removed=self.change.removed,
            removed_deletes=self.change.removed_deletes,
            context=context,
            numbers=self._numbers,
            rules=self._rules(tasks, parent.snapshot_id if parent else None),
        )

    def _rules(self, touched: Sequence[FileScanTask], since: int | None) -> ConflictRules:
        """Return the conflict rules. A DELETE is not in conflict with deletions of other writers in the same files, because both deletions apply."""
        is_delete = self._command is Command.DELETE
        serializable = self._command.is_serializable(self._base)
        updated = () if is_delete else touched
        return ConflictRules(
            since=since,
            row_filter=self._filter,
            no_added_data=serializable,
            no_added_deletes=serializable and not is_delete,
            no_newer_deletes=True,
            files_without_newer_deletes=frozenset((task.file.file_path, (task.file.spec_id, task.file.partition)) for task in updated),
            required_files=frozenset(task.file.file_path for task in touched),
            skip_deletes=is_delete,
        )


def insert_rules(base: TableMetadata, row_filter: BooleanExpression, branch: str) -> ConflictRules:
    """Return the conflict rules of a MERGE that only inserts source rows: the same rules as those of `RowLevel` for a MERGE that deletes no row.

    Args:
        base: the table metadata that the statement read.
        row_filter: a filter that is true for every row of the table that may match a source row.
        branch: the branch to write to: the branch that the statement read, or a new branch from the head of that branch.
    """
    parent, serializable = parent_snapshot(base, branch), Command.MERGE.is_serializable(base)
    return ConflictRules(
        since=parent.snapshot_id if parent else None, row_filter=row_filter, no_added_data=serializable, no_added_deletes=serializable
    )


def check_row_level(handle: TableHandle, base: TableMetadata, command: Command) -> None:
    """Refuse a statement that can never be committed, before any row is computed.

    Raises:
        UnsupportedFeatureError: the mode of the statement is merge-on-read, and the table has format version 1, which has no delete files; or the table has
            columns with the names of the metadata columns that identify rows.
    """
    if base.format_version == 1 and command.is_merge_on_read(base):
        raise UnsupportedFeatureError(
            f"{handle.table_name} is of format version 1, which has no delete files, and {command.mode_property} is merge-on-read",
            table=handle.table_name,
            next_step=f"upgrade it with table.upgrade_table_version(2), or set {command.mode_property} to copy-on-write",
        )
    taken = sorted({FILE.name, POS.name, *([ROW_ID.name] if base.format_version > 2 else [])} & set(base.schema().names))
    if taken:
        raise UnsupportedFeatureError(
            f"{handle.table_name} has columns of its own called {', '.join(taken)}, by which Spark identifies rows: {command.name} cannot be run",
            table=handle.table_name,
            next_step="rename them with table.update_schema().rename_column(...)",
        )


def row_level_result(
    action: RowLevel, command: Command, rows: ChangedRows, engine: str, attempt: Attempt | None, attempts: int
) -> WriteResult:
    """Return the result of a row-level statement: its snapshot, and the counts of its files and rows. `attempt` is None if nothing was committed."""
    change = action.change
    return WriteResult(
        operation=command.value,
        engine=engine,
        snapshot_id=attempt.snapshot_id if attempt else None,
        attempts=attempts,
        added_files=len(action.added),
        added_records=sum(file.record_count for file in rows.files),
        removed_files=len(change.removed),
        rewritten_files=change.rewritten_files,
        deleted_records=rows.deleted,
        added_delete_files=len(change.added_deletes),
        removed_delete_files=len(change.removed_deletes),
        rows_updated=rows.updated,
        rows_inserted=rows.inserted,
    )
