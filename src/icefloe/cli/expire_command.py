"""`icefloe expire`: removes old snapshots and lists what was removed or, with `--dry-run`, what would be.

Spec: Snapshot Retention Policy.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from icefloe.cli.catalog_choice import CatalogChoice, open_table
from icefloe.cli.interrupts import AFTER_EXPIRY, state_after_interrupt
from icefloe.cli.screen import show
from icefloe.cli.shared_options import AsJson, CatalogName, CatalogUri, Everything, Warehouse, utc_time_of
from icefloe.display.report import Column, Facts, Grid, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError, ReadOnlyTableError
from icefloe.formatting import count_text, size_text, within
from icefloe.operations.expiry.expire_report import ExpireReport, ExpireState
from icefloe.operations.expiry.purge_table import PurgeReport
from icefloe.table.table_mutations import TableMutations

Name = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table", show_default=False)]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="AGE|TIME", help="Such as 7d, 12h or 2024-05-01T12:00 (UTC); by default the table's maximum snapshot age."
    ),
]
RetainLast = Annotated[
    int | None, typer.Option("--retain-last", metavar="N", help="Keep this many snapshots of each branch regardless of their age.")
]
Snapshots = Annotated[
    list[int] | None,
    typer.Option(
        "--snapshot", metavar="ID", help="Expire this snapshot regardless of its age; may be repeated. Without other options, only these."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and change nothing.")]
KeepFiles = Annotated[bool, typer.Option("--keep-files", help="Change the metadata and delete no file.")]
CleanMetadata = Annotated[bool, typer.Option("--clean-metadata", help="Also remove unused partition specs and schemas.")]
AllowOutside = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-outside",
        metavar="FOLDER",
        help="Also delete files in this folder outside the table's location; may be repeated. Without it they are kept and listed.",
    ),
]

_AGE = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry(Reportable):
    """What an expiry removed, or would remove.

    `totals` has the number of files and bytes by kind, `files` each file, `outside` the files that are kept because they are outside the table's location.
    `undeleted` and `unreadable` are pairs of path and reason.
    """

    table: str
    location: str
    dry_run: bool
    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]
    spec_ids: tuple[int, ...]
    schema_ids: tuple[int, ...]
    totals: Mapping[str, Any]
    files: tuple[Mapping[str, Any], ...]
    outside: tuple[str, ...]
    undeleted: tuple[tuple[str, str], ...]
    unreadable: tuple[tuple[str, str], ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        pairs = [("snapshots", count_text(len(self.snapshot_ids))), ("branches and tags", ", ".join(self.refs) or "none")]
        pairs += [(name, f"{count_text(total['files'])}, {size_text(total['size_in_bytes'])}") for name, total in self.totals.items()]
        pairs += [("partition specs", ", ".join(map(str, self.spec_ids)))] if self.spec_ids else []
        pairs += [("schemas", ", ".join(map(str, self.schema_ids)))] if self.schema_ids else []
        parts: list[Part] = [Facts(tuple(pairs))]
        if self.dry_run:
            listed = [(f["kind"], within(f["path"], self.location), size_text(f["size_in_bytes"])) for f in self.files]
            parts.append(
                grid("files", (Column("kind", rank=2), Column("path", whole=True), Column("size", is_number=True, rank=1)), listed, most)
            )
        if self.outside:
            kept = [(path,) for path in self.outside]
            parts.append(
                grid("kept, because outside the table's location (see --allow-outside)", (Column("file", whole=True),), kept, most)
            )
        for title, problems in (
            ("could not be deleted", self.undeleted),
            ("could not be read; the files they name are kept", self.unreadable),
        ):
            parts += [_problems(title, problems, most)] if problems else []
        if self.dry_run:
            parts.append(Prose("Nothing was changed."))
        return Report(f"{'would be removed' if self.dry_run else 'removed'} from {self.table}", tuple(parts))


def expire(
    table: Name,
    older_than: OlderThan = None,
    retain_last: RetainLast = None,
    snapshot: Snapshots = None,
    dry_run: DryRun = False,
    keep_files: KeepFiles = False,
    clean_metadata: CleanMetadata = False,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
    allow_outside: AllowOutside = None,
) -> None:
    """Remove old snapshots, and delete the files that nothing else needs."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    if not isinstance(opened, TableMutations):
        raise ReadOnlyTableError(f"{table} is read-only: it was opened by its metadata file", next_step="name a table of a catalog")
    with state_after_interrupt(AFTER_EXPIRY):
        report = opened.expire_snapshots(
            older_than=None if older_than is None else time_of(older_than, datetime.now(UTC)),
            retain_last=retain_last,
            snapshot_ids=snapshot or (),
            dry_run=dry_run,
            delete_files=not keep_files,
            clean_expired_metadata=clean_metadata,
            allow_outside=allow_outside or (),
        )
    show(expiry_of(report, opened.location()), as_json=as_json, everything=everything)


def expiry_of(report: ExpireReport, location: str) -> Expiry:
    """Return a report as a view."""
    return Expiry(
        table=report.table,
        location=location,
        dry_run=report.state is ExpireState.DRY_RUN,
        snapshot_ids=report.snapshot_ids,
        refs=report.refs,
        spec_ids=report.spec_ids,
        schema_ids=report.schema_ids,
        files=tuple(report.files.to_pylist()),
        **deletions_of(report),
    )


def deletions_of(report: ExpireReport | PurgeReport) -> dict[str, Any]:
    """Return the fields `totals`, `outside`, `undeleted` and `unreadable` of a view of deleted files."""
    return {
        "totals": {kind.value: {"files": total.files, "size_in_bytes": total.size_in_bytes} for kind, total in report.totals.items()},
        "outside": tuple(report.outside["path"].to_pylist()),
        "undeleted": tuple((problem.where, problem.what) for problem in report.undeleted),
        "unreadable": tuple((problem.where, problem.what) for problem in report.unreadable),
    }


def time_of(text: str, now: datetime) -> datetime:
    """Return the time of an age or a timestamp; one without a time zone is UTC, like all printed times. Raises `InvalidInputError`."""
    age = _AGE.fullmatch(text.strip())
    try:
        if age is not None:
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return utc_time_of(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"--older-than {text!r} is neither an age nor a time",
            next_step="give an age such as 7d, 12h or 30m, or a time such as 2024-05-01T12:00",
        ) from error


def _problems(title: str, problems: tuple[tuple[str, str], ...], most: int | None) -> Grid:
    return grid(title, (Column("file", whole=True), Column("why")), list(problems), most)
