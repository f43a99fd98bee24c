"""`ReplaceRows`: the action of `table.delete` and `table.overwrite`, which deletes the rows that match a filter and can add files.

A file whose rows all match is removed from the metadata. Rows of other files are deleted by `copy_on_write_delete.py` or `merge_on_read_delete.py`, depending
on the table property `write.delete.mode`.
Spec: Row-level Deletes; Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import ConflictRules, planned_on
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.row_delta import RowDelta
from icefloe.commit.snapshot_attempt import parent_snapshot
from icefloe.errors import CommitInvalidatedError
from icefloe.operations.available_engines import engine_choice
from icefloe.operations.rows.copy_on_write_delete import CopyOnWriteDelete
from icefloe.operations.rows.merge_on_read_delete import MergeOnReadDelete
from icefloe.operations.rows.row_change import Removal, RowChange, TaskKey, deletes_about_alone, records_left, task_key
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.property_kinds import Property
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DELETE_ISOLATION_LEVEL, DELETE_MODE, UPDATE_ISOLATION_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A plan of an attempt.

    Attributes:
        delta: The change of files; None if nothing changes.
        made_for: The schema id, format version and `write.delete.mode` that the plan was made for.
        isolation_level: The table property with the isolation level of the operation.
    """

    delta: RowDelta | None
    made_for: tuple[int, int, str]
    isolation_level: Property[str]

    def attempt(self, base: TableMetadata, number: int, now_ms: int, read: Read) -> Attempt | None:
        return self.delta.attempt(base, number=number, now_ms=now_ms, read=read) if self.delta is not None else None

    def may_stay(self, base: TableMetadata) -> bool:
        """Return whether this plan may be committed on a newer base: under snapshot isolation, if the state that it was made for is the same."""
        return self.isolation_level.read(base.properties) == "snapshot" and self.made_for == _made_for(base)


def _made_for(base: TableMetadata) -> tuple[int, int, str]:
    return base.current_schema_id, base.format_version, DELETE_MODE.read(base.properties)


class ReplaceRows:
    """The action that deletes the rows that match a filter and adds `files`, in one snapshot.

    Under serializable isolation, a retry searches the newer table again for files with matching rows, so that the result is as if this write had begun after
    the other writer's commit. It uses the copies and delete files of unchanged files again. Under snapshot isolation, a retry commits the first plan again if
    its files are live and have no newer deletes, so that matching rows which other writers added meanwhile are not deleted. The isolation level is the table
    property `write.delete.isolation-level`, or for an overwrite `write.update.isolation-level`.
    """

    def __init__(
        self,
        removal: Removal,
        files: Sequence[DataFile],
        context: CommitContext,
        *,
        adds_rows: bool,
        isolation: ConflictRules | None = None,
    ) -> None:
        """Create the action.

        `files` are written data files to add. `adds_rows` is true for an overwrite, which is committed even if it deletes no row. `isolation` are conflict
        rules in addition to those that the plan always needs.
        """
        self._removal = removal
        self._files = tuple(files)
        self._context = context
        self._adds_rows = adds_rows
        self._isolation_level = UPDATE_ISOLATION_LEVEL if adds_rows else DELETE_ISOLATION_LEVEL
        self._isolation = () if isolation is None else (isolation,)
        self._numbers = ManifestNumbers(context)
        self._copy_on_write = CopyOnWriteDelete(removal)
        self._merge_on_read = MergeOnReadDelete(removal)
        self._counted: dict[TaskKey, int] = {}
        self._counted_by: str | None = None
        self._planned: _Plan | None = None
        self.change = RowChange()  # the files that the last attempt adds and removes, without `files`

    @property
    def engine_name(self) -> str | None:
        """The name of the engine that copied or searched files; None if no file had to be read."""
        return self._copy_on_write.engine_name or self._merge_on_read.engine_name or self._counted_by

    def new_data_files(self) -> Sequence[str]:
        return [*(file.file_path for file in self._files), *self._copy_on_write.new_files(), *self._merge_on_read.new_files()]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        if self._planned is not None and self._planned.may_stay(base):
            try:
                return self._planned.attempt(base, number, now_ms, read)
            except CommitInvalidatedError:
                pass  # the plan is not valid for this base, and is made again below
        self._planned = self._plan(base, read)
        return self._planned.attempt(base, number, now_ms, read)

    def _plan(self, base: TableMetadata, read: Read) -> "_Plan":
        removal, parent = self._removal, parent_snapshot(base, self._context.branch)
        plan = plan_scan(
            base,
            parent,
            removal.row_filter,
            read,
            case_sensitive=removal.case_sensitive,
            find_covered=True,
            every_delete=True,
        )
        tasks = list(plan.tasks())
        covered = [task for task in tasks if task.is_covered]
        merge_on_read = DELETE_MODE.read(base.properties) == "merge-on-read"
        chosen, other = (self._merge_on_read, self._copy_on_write) if merge_on_read else (self._copy_on_write, self._merge_on_read)
        other.discard()
        change = chosen.change([task for task in tasks if not task.is_covered], base)
        self.change = replace(
            change,
            removed=(*(task.file for task in covered), *change.removed),
            removed_deletes=(*(file for task in covered for file in deletes_about_alone(task)), *change.removed_deletes),
            deleted_rows=change.deleted_rows + self._live_rows(covered, base),
        )
        if self.change.is_empty and not self._adds_rows:
            return _Plan(delta=None, made_for=_made_for(base), isolation_level=self._isolation_level)
        delta = RowDelta(
            added=(*self._files, *change.added),
            added_deletes=change.added_deletes,
            removed=self.change.removed,
            removed_deletes=self.change.removed_deletes,
            context=self._context,
            numbers=self._numbers,
            rules=(planned_on(parent.snapshot_id if parent else None), *self._isolation),
        )
        return _Plan(delta=delta, made_for=_made_for(base), isolation_level=self._isolation_level)

    def _live_rows(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> int:
        """Return how many live rows these files have in total.

        Files with position or equality delete files are read, because these do not record how many rows they delete.
        """
        live_records = {task_key(task): records_left(task) for task in tasks}
        missing = [task for task in tasks if live_records[task_key(task)] is None and task_key(task) not in self._counted]
        if missing:
            engine = engine_choice().for_files(missing)
            self._counted_by = engine.name
            positions_of_tasks = self._removal.positions(engine, missing, base)
            self._counted.update((task_key(task), len(positions)) for task, positions in zip(missing, positions_of_tasks, strict=True))
        return sum(self._counted[key] if records is None else records for key, records in live_records.items())
