"""`RemoveOrphanFilesResult`: what a removal of orphan files found and did."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import Problem
from icefloe.formatting import count_text, size_text
from icefloe.operations.orphans.path_database import LISTED


class OrphanMode(StrEnum):
    """What is done with orphan files."""

    DELETE = "delete"  # they are deleted at once, as Java does
    QUARANTINE = "quarantine"  # they are written to a list in the table's metadata folder
    PURGE = "purge"  # the files of lists are deleted
    UNDO = "undo"  # lists are deleted, and their files stay


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoveOrphanFilesResult(OperationResult):
    """The result of a removal of orphan files, or with `dry_run` what it would do.

    Attributes:
        table: The table.
        mode: What was done: `delete`, `quarantine`, `purge` or `undo`.
        dry_run: Whether nothing was changed.
        location: The folder that was searched.
        listed_files: Files that were listed, or read from lists.
        orphan_files: Orphan files among them that are old enough; of a purge those that are still orphans and unchanged.
        orphan_bytes: Their bytes.
        deleted_files: Files that were deleted.
        files: A `pyarrow.Table` with `path`, `size_in_bytes` and `modified_ms` of the orphans, sorted; of many only the first ones found.
        lists: The lists that were written, purged or dropped.
        waiting_lists: Lists that a purge left because they are too young.
        skipped_files: Files of lists that a purge left: they are referenced again, changed, or outside the table.
        pending: Metadata files of commits that may still happen, whose files were kept.
        other_tables: Folders of other tables, whose files were left out.
        undeleted: The first files that could not be deleted, and why.
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
        """Whether files could not be deleted."""
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
        """Return every field, with the paths of the files."""
        fields: dict[str, Any] = json_ready(replace(self, files=self._paths()))
        return fields

    def _paths(self) -> list[str]:
        paths: list[str] = self.files["path"].to_pylist()
        return paths
