"""`ExpireReport`: what an expiry of snapshots removed from a table, or would remove; and `FileTotal`, numbers of deleted files, also used by purges.

Spec: Snapshot Retention Policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.display.html import ShownAsText
from icefloe.errors import Problem
from icefloe.io.locations import ALLOWED_LOCATIONS
from icefloe.operations.unreachable_files import FILES, FileKind

# Files outside the table's location that a report's text names; its table `outside` has all of them.
SHOWN_OUTSIDE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotal:
    """A number of files and their total size in bytes, as far as it is known."""

    files: int = 0
    size_in_bytes: int = 0


def no_files() -> Any:
    """Return a report's table of files without rows."""
    return reported(FILES.empty_table())


def reported(files: Any) -> Any:
    """Return a table of `FILES` with the columns of reports: `kind`, `path` and `size_in_bytes`."""
    return files.drop_columns("key")


def totals(files: Any, undeleted: Sequence[Problem]) -> Mapping[FileKind, FileTotal]:
    """Return a report's files by kind, in the order of deletion, without those that could not be deleted."""
    failed = pa.array([problem.where for problem in undeleted], pa.string())
    totals_by_kind = {}
    for kind in FileKind:
        part = files.filter(pc.equal(files["kind"], kind.value))
        if len(failed):
            part = part.filter(pc.invert(pc.is_in(part["path"], value_set=failed)))
        if len(part):
            totals_by_kind[kind] = FileTotal(files=len(part), size_in_bytes=pc.sum(part["size_in_bytes"]).as_py() or 0)
    return totals_by_kind


def outside_lines(outside: Any) -> list[str]:
    """Return the lines that name files which were kept because they are outside the table's location."""
    if not len(outside):
        return []
    shown = outside["path"].slice(0, SHOWN_OUTSIDE).to_pylist()
    more = len(outside) - len(shown)
    return [
        f"{len(outside):,} {'file is' if len(outside) == 1 else 'files are'} outside the table's location and not deleted; to delete the files of a folder"
        " of your own, name it in allow_outside or in the catalog property io.delete-outside:",
        *(f"  {path}" for path in shown),
        *([f"  and {more:,} more"] if more else []),
    ]


def unproven_lines(location: str) -> list[str]:
    """Return the line about a table's location that the answer of the catalog's server alone names; none where it is empty."""
    if not location:
        return []
    return [
        f"nothing is deleted in {location}: the answer of the catalog's server is all that makes it the table's location, and the server gives no credentials"
        f" for it; if its files may be deleted, add it, or a folder above it, to the catalog property {ALLOWED_LOCATIONS}"
    ]


def total_lines(totals_by_kind: Mapping[FileKind, FileTotal], verb: str) -> list[str]:
    """Return one line a kind, such as `2 data files deleted, 858 bytes`."""
    return [
        f"{total.files:,} {kind.value.removesuffix('s') if total.files == 1 else kind.value} {verb}, {total.size_in_bytes:,} bytes"
        for kind, total in totals_by_kind.items()
    ]


class ExpireState(StrEnum):
    """The progress of an expiry."""

    DRY_RUN = "dry run"  # nothing was changed
    STAGED = "staged"  # in a transaction: files are deleted after its commit
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpireReport(ShownAsText):
    """What an expiry removed, or would remove in a dry run.

    `files` is a `pyarrow.Table` with the columns `kind`, `path` and `size_in_bytes`, one row a file; it includes files that could not be deleted, which
    are also in `undeleted`. `outside` has the same columns: files that nothing needs either, but that are outside the table's location and are kept for
    that reason. `unproven` is the table's location where it is known by the answer of the catalog's server alone, so that nothing in it is deleted.
    `unreadable` are files of the expired snapshots that could not be read: the files that only they name still exist. In `undeleted` and
    `unreadable`, `where` is the file's path and `what` the reason.
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
    unproven: str = ""

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.state is ExpireState.DRY_RUN

    @property
    def totals(self) -> Mapping[FileKind, FileTotal]:
        """The number and size of the files by kind, without those that could not be deleted."""
        return totals(self.files, self.undeleted)

    @property
    def deleted_files(self) -> int:
        """The number of files of all kinds."""
        return sum(total.files for total in self.totals.values())

    @property
    def outside_files(self) -> int:
        """The number of files that are kept because they are outside the table's location."""
        return len(self.outside)

    @property
    def deleted_bytes(self) -> int:
        """The total size of the files in bytes, as far as it is known."""
        return sum(total.size_in_bytes for total in self.totals.values())

    def __str__(self) -> str:
        return "\n".join([self._head(), *(f"  {line}" for line in self._lines())])

    def _head(self) -> str:
        verb = {ExpireState.DRY_RUN: "would remove", ExpireState.STAGED: "will remove", ExpireState.DONE: "removed"}[self.state]
        what = _counted(len(self.snapshot_ids), "snapshot")
        if self.refs:
            what += f" and {', '.join(self.refs)}"
        return f"{self.table}: {verb} {what}"

    def _lines(self) -> list[str]:
        deleted = {ExpireState.DRY_RUN: "would be deleted", ExpireState.STAGED: "to be deleted", ExpireState.DONE: "deleted"}[self.state]
        lines = total_lines(self.totals, deleted)
        if not self.deletes_files:
            lines.append("no file was checked: delete_files is False")
        if self.spec_ids:
            lines.append(f"unused partition specs: {', '.join(map(str, self.spec_ids))}")
        if self.schema_ids:
            lines.append(f"unused schemas: {', '.join(map(str, self.schema_ids))}")
        lines += unproven_lines(self.unproven) or outside_lines(self.outside)
        lines += [f"could not be deleted: {problem}" for problem in self.undeleted]
        return [*lines, *(f"could not be read, so what it names stays: {problem}" for problem in self.unreadable)]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
