"""`ExpireReport`: the snapshots and files that an expiry removed, or would remove; and functions for reports about deleted files, also of purges.

Spec: Snapshot Retention Policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.display.report import Column, Facts, Grid, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import Problem
from icefloe.formatting import count_text, size_text, within
from icefloe.io.locations import ALLOWED_LOCATIONS
from icefloe.operations.unreachable_files import FILES, FileKind

# How many files outside the table's location a result row of the procedure names; `ExpireReport.outside` has all of them.
SHOWN_OUTSIDE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotal:
    """A number of files, and their total size in bytes; files of unknown size count as 0 bytes."""

    files: int = 0
    size_in_bytes: int = 0


def no_files() -> Any:
    """Return a `pyarrow.Table` without rows, with the columns of `ExpireReport.files`."""
    return report_columns(FILES.empty_table())


def report_columns(files: Any) -> Any:
    """Reduce a table of `FILES` to the columns of `ExpireReport.files`: `kind`, `path` and `size_in_bytes`."""
    return files.drop_columns("key")


def totals(files: Any, undeleted: Sequence[Problem]) -> Mapping[FileKind, FileTotal]:
    """Return the number and size of a report's files by kind, in the order of deletion, without the files that could not be deleted."""
    failed = pa.array([problem.where for problem in undeleted], pa.string())
    totals_by_kind = {}
    for kind in FileKind:
        part = files.filter(pc.equal(files["kind"], kind.value))
        if len(failed):
            part = part.filter(pc.invert(pc.is_in(part["path"], value_set=failed)))
        if len(part):
            totals_by_kind[kind] = FileTotal(files=len(part), size_in_bytes=pc.sum(part["size_in_bytes"]).as_py() or 0)
    return totals_by_kind


def outcome_fields(report: Any) -> dict[str, Any]:
    """Return the entries of a JSON report about the files of an expiry or purge: totals by kind, paths of kept files, and path and reason for each failure."""
    return {
        "totals": {kind.value: {"files": total.files, "size_in_bytes": total.size_in_bytes} for kind, total in report.totals.items()},
        "outside": report.outside["path"].to_pylist(),
        "undeleted": [[problem.where, problem.what] for problem in report.undeleted],
        "unreadable": [[problem.where, problem.what] for problem in report.unreadable],
    }


def problems_grid(title: str, problems: Sequence[Problem], most: int | None) -> list[Grid]:
    """Return a list with a grid that shows the path and the reason of each problem; an empty list if there are no problems."""
    rows = [(problem.where, problem.what) for problem in problems]
    return [grid(title, (Column("file", whole=True), Column("why")), rows, most)] if rows else []


class ExpireState(StrEnum):
    """How far an expiry has come: only planned, part of a transaction, or done."""

    DRY_RUN = "dry run"  # nothing was changed
    STAGED = "staged"  # part of a transaction: files are deleted after its commit
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpireReport(OperationResult):
    """What an expiry removed, or would remove in a dry run.

    Attributes:
        location: The table's folder.
        files: A `pyarrow.Table` with the columns `kind`, `path` and `size_in_bytes` and one row for each file that is no longer needed, including those in
            `undeleted`.
        undeleted: Files that could not be deleted; `where` is the path and `what` the reason.
        outside: A table with the same columns as `files`: files that are no longer needed, and are kept because they are outside the table's location.
        unproven: The table's location, if only the response of the catalog's server shows that it belongs to the table, so that nothing in it is deleted;
            otherwise empty.
        unreadable: Files of the expired snapshots that could not be read; the files that only they refer to still exist. `where` is the path and `what` the
            reason.
    """

    table: str
    location: str
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
        """Whether the report is of a dry run, which changed nothing."""
        return self.state is ExpireState.DRY_RUN

    @property
    def totals(self) -> Mapping[FileKind, FileTotal]:
        """The number and size of the files by kind, without files that could not be deleted."""
        return totals(self.files, self.undeleted)

    @property
    def deleted_files(self) -> int:
        """The number of files of all kinds, without files that could not be deleted."""
        return sum(total.files for total in self.totals.values())

    @property
    def outside_files(self) -> int:
        """The number of files that are kept because they are outside the table's location."""
        return len(self.outside)

    @property
    def deleted_bytes(self) -> int:
        """The total size in bytes of the files, without files that could not be deleted. Files of unknown size are not counted."""
        return sum(total.size_in_bytes for total in self.totals.values())

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = [("snapshots", count_text(len(self.snapshot_ids))), ("branches and tags", ", ".join(self.refs) or "none")]
        facts += [(kind.value, f"{count_text(total.files)}, {size_text(total.size_in_bytes)}") for kind, total in self.totals.items()]
        facts += [("partition specs", ", ".join(map(str, self.spec_ids)))] if self.spec_ids else []
        facts += [("schemas", ", ".join(map(str, self.schema_ids)))] if self.schema_ids else []
        facts += [("files", "not looked up: delete_files is False")] if not self.deletes_files else []
        parts: list[Part] = [Facts(tuple(facts))]
        if self.dry_run:
            columns = (Column("kind", rank=2), Column("path", whole=True), Column("size", is_number=True, rank=1))
            files = [
                (file["kind"], within(file["path"], self.location), size_text(file["size_in_bytes"])) for file in self.files.to_pylist()
            ]
            parts.append(grid("files", columns, files, most))
        if self.unproven:
            parts.append(
                Prose(
                    f"Nothing is deleted in {self.unproven}: the answer of the catalog's server is all that makes it the table's location, and the server"
                    f" gives no credentials for it; if its files may be deleted, add it, or a folder above it, to the catalog property {ALLOWED_LOCATIONS}"
                )
            )
        if len(self.outside):
            paths = [(path,) for path in self.outside["path"].to_pylist()]
            parts.append(
                grid(
                    "kept, because outside the table's location (see --allow-outside, in Python allow_outside)",
                    (Column("file", whole=True),),
                    paths,
                    most,
                )
            )
        parts += problems_grid("could not be deleted", self.undeleted, most)
        parts += problems_grid("could not be read; the files they name are kept", self.unreadable, most)
        if self.dry_run:
            parts.append(Prose("Nothing was changed."))
        verb = {ExpireState.DRY_RUN: "would be removed", ExpireState.STAGED: "will be removed", ExpireState.DONE: "removed"}[self.state]
        return Report(f"{verb} from {self.table}", tuple(parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict of JSON values, with the path of every file."""
        names = ("table", "location", "dry_run", "snapshot_ids", "refs", "spec_ids", "schema_ids")
        return {**{name: json_ready(getattr(self, name)) for name in names}, "files": self.files.to_pylist(), **outcome_fields(self)}
