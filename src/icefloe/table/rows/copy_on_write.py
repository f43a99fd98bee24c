"""`CopiedFiles`: rows removed by copying the files they are in, without them and without the rows that deletes had removed before.

How one file is copied is `datafile/rewrite.py`; merge-on-read is `merge_on_read.py`. Floor: table. Spec: Row-level Deletes; Row Lineage.
"""

from collections.abc import Sequence
from typing import Any

from icefloe.datafile.rewrite import RewrittenFile
from icefloe.kernel.expressions.predicate import AlwaysFalse
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.table.commits.commit_loop import delete_quietly
from icefloe.table.engine import Engine, RewriteRequest
from icefloe.table.engines import engine_for_files
from icefloe.table.handle import TableHandle
from icefloe.table.rows.row_change import Removal, RowChange, TaskKey, specs_of, task_key
from icefloe.table.rows.write_target import write_target


class CopiedFiles:
    """The copies of one operation over all attempts of its commit: those whose source is as it was are used again."""

    def __init__(self, removal: Removal) -> None:
        self._removal = removal
        self._copies: dict[TaskKey, RewrittenFile] = {}
        self._copied_under: int | None = None  # the schema id that the copies were made with
        self.engine_name: str | None = None

    def new_files(self) -> list[str]:
        """Locations of the copies that are there."""
        return [file.file_path for copy in self._copies.values() for file in copy.added]

    def change(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> RowChange:
        """Makes the copies that are missing. Raises as `rewrite_task`."""
        self._keep({task_key(task) for task in tasks} if self._copied_under == base.current_schema_id else set())
        self._copied_under = base.current_schema_id
        missing = [task for task in tasks if task_key(task) not in self._copies]
        if missing:
            engine = engine_for_files(missing)
            self.engine_name = engine.name
            made = engine.rewrite(self._removal.rewrite_request(missing, base))
            self._copies.update((task_key(task), copy) for task, copy in zip(missing, made, strict=True))
        touched = [copy for copy in self._copies.values() if not copy.unchanged]
        return RowChange(
            added=tuple(file for copy in touched for file in copy.added),
            removed=tuple(copy.source for copy in touched),
            removed_deletes=tuple(file for copy in touched for file in copy.dangling_deletes),
            rewritten_files=len(touched),
            deleted_rows=sum(copy.deleted_rows for copy in touched),
        )

    def discard(self) -> None:
        """Deletes every copy."""
        self._keep(set())

    def _keep(self, wanted: set[TaskKey]) -> None:
        """Deletes the copies of other files. Under another schema the filter may mean other columns, so that no copy holds any longer."""
        stale = [self._copies.pop(key) for key in list(self._copies) if key not in wanted]
        delete_quietly(self._removal.handle, [file.file_path for copy in stale for file in copy.added])


def copies_without(handle: TableHandle, engine: Engine, base: TableMetadata, found: Sequence[tuple[FileScanTask, Any]]) -> RowChange:
    """Copies files without the rows at these positions, one ascending array a file. Raises as `rewrite_task`."""
    if not found:
        return RowChange()
    copies = engine.rewrite(
        RewriteRequest(
            tasks=[task for task, _ in found],
            delete_filter=AlwaysFalse(),
            positions=[rows for _, rows in found],
            schema=base.schema(),
            specs=specs_of(base),
            target=write_target(handle, base),
            schemas=tuple(base.schemas),
        )
    )
    return RowChange(
        added=tuple(file for copy in copies for file in copy.added),
        removed=tuple(copy.source for copy in copies),
        removed_deletes=tuple(file for copy in copies for file in copy.dangling_deletes),
        rewritten_files=sum(bool(copy.added) for copy in copies),
        deleted_rows=sum(copy.deleted_rows for copy in copies),
    )
