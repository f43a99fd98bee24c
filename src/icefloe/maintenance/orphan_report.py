"""`RemoveOrphanFilesResult`: what a removal of orphan files found and did."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icefloe.display.html import ShownAsText
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
class RemoveOrphanFilesResult(ShownAsText):
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

    def __str__(self) -> str:
        return "\n".join([self._head(), *(f"  {line}" for line in self._lines())])

    def _head(self) -> str:
        orphans = f"{count_text(self.orphan_files, 'orphan file')}, {size_text(self.orphan_bytes)}"
        would = "would be " if self.dry_run else ""
        match self.mode:
            case OrphanMode.DELETE | OrphanMode.PURGE:
                done = f"{orphans} would be deleted" if self.dry_run else f"{self.deleted_files:,} of {orphans} deleted"
            case OrphanMode.QUARANTINE:
                done = f"{orphans} {would}listed"
            case OrphanMode.UNDO:
                done = f"{count_text(len(self.lists), 'list')} {would}dropped, no file of the table was touched"
        return f"{self.table}: {done}"

    def _lines(self) -> list[str]:
        lines = [f"{count_text(self.listed_files, 'file')} in {self.location}"] if self.location else []
        lines += [f"list {location}" for location in self.lists]
        lines += [f"too young to be purged: {location}" for location in self.waiting_lists]
        if self.skipped_files:
            lines.append(f"{count_text(self.skipped_files, 'listed file')} kept: referenced again, changed, gone or outside the table")
        lines += [f"kept with its files, because this commit may still happen: {location}" for location in self.pending]
        lines += [f"left out, because another table is there: {location}" for location in self.other_tables]
        if self.undeleted_files:
            lines.append(f"{count_text(self.undeleted_files, 'file')} could not be deleted:")
        return [*lines, *(f"  {problem}" for problem in self.undeleted)]
