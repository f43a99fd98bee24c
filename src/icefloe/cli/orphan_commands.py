"""The command `remove-orphan-files`. Spec: File System Operations (deletes)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import typer

from icefloe.cli.shared_options import utc_time_of
from icefloe.cli.table_command import changes_table
from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError, Problem
from icefloe.formatting import count_text, size_text
from icefloe.table.table import Table

OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Only files older than this time, such as 2026-01-31; by default three days ago."),
]
Location = Annotated[str | None, typer.Option("--location", metavar="FOLDER", help="Search this folder; by default the table's.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the orphan files, and change nothing.")]
Quarantine = Annotated[bool, typer.Option("--quarantine", help="Write a list of the files, and delete none.")]
Purge = Annotated[bool, typer.Option("--purge", help="Delete the files of lists that are old enough, each after another check.")]
Undo = Annotated[bool, typer.Option("--undo", help="Drop the lists; no file is deleted.")]
DelayDays = Annotated[int, typer.Option("--delay-days", metavar="N", help="With --purge: the least age of a list, in days.")]
Concurrent = Annotated[
    int | None, typer.Option("--max-concurrent-deletes", metavar="N", help="The number of deletions that are under way at once.")
]
Mismatch = Annotated[
    str,
    typer.Option(
        "--prefix-mismatch-mode",
        metavar="MODE",
        help="For files that the table names with another scheme or authority: ERROR, IGNORE keeps them, DELETE.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Allow files younger than 24 hours: only where no other program writes.")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="ENGINE", help="spark lists the files by a Spark session that is started, and in-process here, the default."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanFiles(Reportable):
    """The result of a removal of orphan files, or with `dry_run` what it would do."""

    table: str
    mode: str
    dry_run: bool
    location: str
    listed_files: int
    orphan_files: int
    orphan_bytes: int
    deleted_files: int
    skipped_files: int
    files: tuple[str, ...]
    lists: tuple[str, ...]
    waiting_lists: tuple[str, ...]
    pending: tuple[str, ...]
    other_tables: tuple[str, ...]
    undeleted: tuple[Problem, ...]
    undeleted_files: int

    @property
    def has_faults(self) -> bool:
        """Whether files could not be deleted."""
        return bool(self.undeleted_files)

    def report(self, most: int | None = MOST_LINES) -> Report:
        pairs = [("searched", f"{count_text(self.listed_files, 'file')}" + (f" in {self.location}" if self.location else ""))]
        if self.mode != "undo":
            pairs.append(("orphans", f"{count_text(self.orphan_files, 'file')}, {size_text(self.orphan_bytes)}"))
        if self.mode in ("delete", "purge"):
            pairs.append(("deleted", "none: nothing was changed" if self.dry_run else count_text(self.deleted_files, "file")))
        if self.skipped_files:
            pairs.append(("kept", f"{count_text(self.skipped_files, 'file')}: referenced again, changed, gone or outside the table"))
        pairs += [("list", location) for location in self.lists]
        pairs += [("too young", location) for location in self.waiting_lists]
        pairs += [("may be committed", location) for location in self.pending]
        pairs += [("another table", location) for location in self.other_tables]
        parts = [grid("files", (Column("path", whole=True),), [(path,) for path in self.files], most)] if self.files else []
        if self.undeleted_files:
            rows = [(problem.where, problem.what) for problem in self.undeleted]
            parts.append(grid(f"{self.undeleted_files:,} not deleted", (Column("path"), Column("reason")), rows, most))
        return Report(f"orphan files of {self.table}", (Facts(tuple(pairs)), *parts))


@changes_table
def remove_orphan_files(
    opened: Table,
    older_than: OlderThan = None,
    location: Location = None,
    dry_run: DryRun = False,
    quarantine: Quarantine = False,
    purge: Purge = False,
    undo: Undo = False,
    delay_days: DelayDays = 7,
    max_concurrent_deletes: Concurrent = None,
    prefix_mismatch_mode: Mismatch = "ERROR",
    force: Force = False,
    engine: Engine = None,
) -> Reportable:
    """Delete files in the table's folder that nothing references; or list them with --quarantine, and delete them later with --purge."""
    modes = [name for name, chosen in (("quarantine", quarantine), ("purge", purge), ("undo", undo)) if chosen]
    if len(modes) > 1:
        raise InvalidInputError(
            f"--{modes[0]} and --{modes[1]} exclude each other", next_step="run one after the other: first --quarantine, days later --purge"
        )
    result = opened.maintenance.remove_orphan_files(
        None if older_than is None else _time(older_than),
        location,
        mode=modes[0] if modes else "delete",
        dry_run=dry_run,
        max_concurrent_deletes=max_concurrent_deletes,
        prefix_mismatch_mode=prefix_mismatch_mode,
        purge_delay=timedelta(days=delay_days),
        force=force,
        engine=engine,
    )
    return OrphanFiles(
        table=opened.full_name,
        mode=str(result.mode),
        dry_run=result.dry_run,
        location=result.location,
        listed_files=result.listed_files,
        orphan_files=result.orphan_files,
        orphan_bytes=result.orphan_bytes,
        deleted_files=result.deleted_files,
        skipped_files=result.skipped_files,
        files=tuple(result.files["path"].to_pylist()),
        lists=result.lists,
        waiting_lists=result.waiting_lists,
        pending=result.pending,
        other_tables=result.other_tables,
        undeleted=result.undeleted,
        undeleted_files=result.undeleted_files,
    )


def _time(text: str) -> datetime:
    try:
        return utc_time_of(text)
    except ValueError as error:
        raise InvalidInputError(f"--older-than is {text!r}", next_step="write a time such as 2026-01-31 or 2026-01-31T12:00:00") from error
