"""`ExpireReport`: what an expiry of snapshots took out of a table, or would take.

Spec: Snapshot Retention Policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icefloe.errors import Problem
from icefloe.table.expiry.file_kinds import FileKind
from icefloe.table.expiry.file_totals import FileTotal, no_files, outside_lines, total_lines, totals


class ExpireState(StrEnum):
    """How far an expiry is."""

    DRY_RUN = "dry run"  # nothing was changed
    STAGED = "staged"  # in a transaction: files are deleted when its commit stands
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """What went, or in a dry run would go.

    `files` is a `pyarrow.Table` with the columns `kind`, `path` and `size_in_bytes`, one row a file; those that could not be deleted are in it and
    in `undeleted`. `outside` has the same columns: files that nothing needs either, but that lie outside the table's location, so that they are kept.
    `unreadable` are files of the expired snapshots that could not be read: what they name, if nothing else did, is still there. Of both,
    `where` is the file's path and `what` the reason.
    """

    table: str
    state: ExpireState
    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    spec_ids: tuple[int, ...] = ()
    schema_ids: tuple[int, ...] = ()
    files: Any = field(default_factory=no_files, repr=False, compare=False)
    outside: Any = field(default_factory=no_files, repr=False, compare=False)
    deletes_files: bool = True
    undeleted: tuple[Problem, ...] = ()
    unreadable: tuple[Problem, ...] = ()

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.state is ExpireState.DRY_RUN

    @property
    def totals(self) -> Mapping[FileKind, FileTotal]:
        """The files by their kind, without those that could not be deleted."""
        return totals(self.files, self.undeleted)

    @property
    def deleted_files(self) -> int:
        """How many files of all kinds."""
        return sum(total.files for total in self.totals.values())

    @property
    def outside_files(self) -> int:
        """How many files are kept because they lie outside the table's location."""
        return len(self.outside)

    @property
    def deleted_bytes(self) -> int:
        """How many bytes they were, as far as that is known."""
        return sum(total.size_in_bytes for total in self.totals.values())

    def __str__(self) -> str:
        return "\n".join([self._head(), *(f"  {line}" for line in self._lines())])

    def _head(self) -> str:
        took = {ExpireState.DRY_RUN: "would remove", ExpireState.STAGED: "will remove", ExpireState.DONE: "removed"}[self.state]
        what = _counted(len(self.snapshot_ids), "snapshot")
        if self.refs:
            what += f" and {', '.join(self.refs)}"
        return f"{self.table}: {took} {what}"

    def _lines(self) -> list[str]:
        deleted = {ExpireState.DRY_RUN: "would be deleted", ExpireState.STAGED: "to be deleted", ExpireState.DONE: "deleted"}[self.state]
        lines = total_lines(self.totals, deleted)
        if not self.deletes_files:
            lines.append("no file was looked at: delete_files is False")
        if self.spec_ids:
            lines.append(f"unused partition specs: {', '.join(map(str, self.spec_ids))}")
        if self.schema_ids:
            lines.append(f"unused schemas: {', '.join(map(str, self.schema_ids))}")
        lines += outside_lines(self.outside)
        lines += [f"could not be deleted: {problem}" for problem in self.undeleted]
        return [*lines, *(f"could not be read, so what it names stays: {problem}" for problem in self.unreadable)]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
