"""`ExpireReport`: what an expiry of snapshots removed from a table, or would remove; and `FileTotal`, deleted files by kind, which a purge reports too.

Spec: Snapshot Retention Policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import Problem
from icefloe.table.unreachable_files import FILES, FileKind

# Files outside the table's location that a report's text names; its table `outside` has all of them.
SHOWN_OUTSIDE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotal:
    """How many files, and how many bytes they are together, as far as that is known."""

    files: int = 0
    size_in_bytes: int = 0


def no_files() -> Any:
    """A report's table of files, without any."""
    return reported(FILES.empty_table())


def reported(files: Any) -> Any:
    """A table of `FILES` as reports have it: the columns `kind`, `path` and `size_in_bytes`."""
    return files.drop_columns("key")


def totals(files: Any, undeleted: Sequence[Problem]) -> Mapping[FileKind, FileTotal]:
    """A report's files by their kind, in the order of deletion, without those that could not be deleted."""
    failed = pa.array([problem.where for problem in undeleted], pa.string())
    found = {}
    for kind in FileKind:
        part = files.filter(pc.equal(files["kind"], kind.value))
        if len(failed):
            part = part.filter(pc.invert(pc.is_in(part["path"], value_set=failed)))
        if len(part):
            found[kind] = FileTotal(files=len(part), size_in_bytes=pc.sum(part["size_in_bytes"]).as_py() or 0)
    return found


def outside_lines(outside: Any) -> list[str]:
    """Return the lines that name files which were kept because they are outside the table's location."""
    if not len(outside):
        return []
    shown = outside["path"].slice(0, SHOWN_OUTSIDE).to_pylist()
    left = len(outside) - len(shown)
    return [
        f"{len(outside):,} {'file is' if len(outside) == 1 else 'files are'} outside the table's location and not deleted; to delete what lies in a folder"
        " of your own, name it in allow_outside or in the catalog property io.delete-outside:",
        *(f"  {path}" for path in shown),
        *([f"  and {left:,} more"] if left else []),
    ]


def total_lines(found: Mapping[FileKind, FileTotal], verb: str) -> list[str]:
    """`2 data files deleted, 858 bytes`, one line a kind."""
    return [
        f"{total.files:,} {kind.value.removesuffix('s') if total.files == 1 else kind.value} {verb}, {total.size_in_bytes:,} bytes"
        for kind, total in found.items()
    ]


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
