"""`RemoveOrphanFilesResult`: the result of a removal of orphan files."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import Problem
from icefloe.formatting import count_text, size_text
from icefloe.operations.orphans.path_database import LISTED


class OrphanMode(StrEnum):
    """What `remove_orphan_files` does with orphan files."""

    DELETE = "delete"  # delete them at once, as Java does
    QUARANTINE = "quarantine"  # write them to a list in the table's metadata folder
    PURGE = "purge"  # delete the files in lists
    UNDO = "undo"  # delete lists without their files


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoveOrphanFilesResult(OperationResult):
    """The result of a removal of orphan files; with `dry_run`, the result that the call would have.

    Attributes:
        table: The table.
        mode: The mode of the removal: `delete`, `quarantine`, `purge` or `undo`.
        dry_run: Whether nothing was changed.
        location: The folder that was searched.
        listed_files: The number of files that were listed, or read from lists.
        orphan_files: The number of orphan files among them that are old enough; for a purge, of those that are still orphans and unchanged.
        orphan_bytes: The size of the orphan files in bytes.
        deleted_files: The number of files that were deleted.
        files: A sorted `pyarrow.Table` with `path`, `size_in_bytes` and `modified_ms` of the orphan files. If there are too many, it has only the first ones
            found.
        lists: The locations of the lists that were written, purged or dropped.
        waiting_lists: The locations of lists that a purge skipped because they are too young.
        skipped_files: The number of files in lists that a purge skipped: they are referenced again, changed, or outside of the table.
        pending: Metadata files of commits that may still happen; the files that they reference were kept.
        other_tables: Folders of other tables, which were excluded.
        undeleted: The first files that could not be deleted, with the errors.
        undeleted_files: The number of files that could not be deleted.
    """

    table: str
    mode: OrphanMode
    dry_run: bool = False
    location: str = ""
    listed_files: int = 0
    orphan_files: int = 0
    orphan_bytes: int = 0
    deleted_files: int = 0
    files: Any = field(default_factory=LISTED.empty_table, compare=False)
    lists: tuple[str, ...] = ()
    waiting_lists: tuple[str, ...] = ()
    skipped_files: int = 0
    pending: tuple[str, ...] = ()
    other_tables: tuple[str, ...] = ()
    undeleted: tuple[Problem, ...] = ()
    undeleted_files: int = 0

    @property
    def has_faults(self) -> bool:
        """Whether at least one file could not be deleted."""
        return bool(self.undeleted_files)

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = [("searched", f"{count_text(self.listed_files, 'file')}" + (f" in {self.location}" if self.location else ""))]
        if self.mode is not OrphanMode.UNDO:
            facts.append(("orphans", f"{count_text(self.orphan_files, 'file')}, {size_text(self.orphan_bytes)}"))
        if self.mode in (OrphanMode.DELETE, OrphanMode.PURGE):
            facts.append(("deleted", "none: nothing was changed" if self.dry_run else count_text(self.deleted_files, "file")))
        if self.skipped_files:
            facts.append(("kept", f"{count_text(self.skipped_files, 'file')}: referenced again, changed, gone or outside the table"))
        facts += [("list", location) for location in self.lists]
        facts += [("too young", location) for location in self.waiting_lists]
        facts += [("may be committed", location) for location in self.pending]
        facts += [("another table", location) for location in self.other_tables]
        paths = [(path,) for path in self._paths()]
        parts = [grid("files", (Column("path", whole=True),), paths, most)] if paths else []
        if self.undeleted_files:
            rows = [(problem.where, problem.what) for problem in self.undeleted]
            parts.append(grid(f"{self.undeleted_files:,} not deleted", (Column("path"), Column("reason")), rows, most))
        return Report(f"orphan files of {self.table}", (Facts(tuple(facts)), *parts))

    def to_dict(self) -> dict[str, Any]:
        """Return every field; `files` is a list of paths."""
        fields: dict[str, Any] = json_ready(replace(self, files=self._paths()))
        return fields

    def _paths(self) -> list[str]:
        paths: list[str] = self.files["path"].to_pylist()
        return paths
