"""The commands `rewrite-data-files`, `remove-dangling-deletes`, `rewrite-manifests`; and `call`, which runs any procedure by its name.

Spec: Manifests; Snapshots.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.cli.row_view import cell_text
from icefloe.cli.shared_options import pairs_of, utc_time_of
from icefloe.cli.table_command import changes_table, changes_tables_of_catalog
from icefloe.display.report import Column, Facts, Grid, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.group_rewrite import FailedGroup
from icefloe.procedures import call, procedure_named, procedure_names
from icefloe.spec.types import BooleanType, IcebergType, IntegerType, ListType, LongType, MapType, TimestamptzType
from icefloe.table.table import Table

SpecId = Annotated[
    int | None, typer.Option("--spec-id", metavar="N", help="The partition spec whose manifests are rewritten; the current one.")
]
SortBy = Annotated[
    list[str] | None,
    typer.Option("--sort-by", metavar="FIELD", help="A partition field to sort the entries by; may be repeated. By default all of them."),
]
OfBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch whose manifests are rewritten.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="FILTER", help="Rewrite only files that may have such rows, such as \"day = '2024-01-31'\"."),
]
Strategy = Annotated[str | None, typer.Option("--strategy", metavar="NAME", help="binpack keeps the order of rows; sort sorts them.")]
SortOrder = Annotated[
    str | None,
    typer.Option(
        "--sort-order",
        metavar="KEYS",
        help="Sort by these keys, such as 'day DESC, id', or 'hilbert(day, id)'; by default by the table's order.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of Java's action, such as min-input-files=2; may be repeated."),
]
RewrittenBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch whose files are rewritten.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be rewritten, and change nothing.")]
ProcedureName = Annotated[str | None, typer.Argument(metavar="[PROCEDURE]", help="The procedure; without it they are listed.")]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE...]", help="Its arguments, such as table=db.t retain_last=10.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileRewrite(Reportable):
    """The result of a compaction, or with `dry_run` what it would do."""

    table: str
    dry_run: bool
    snapshot_ids: tuple[int, ...]
    considered_files: int
    rewritten_files: int
    added_files: int
    rewritten_bytes: int
    added_bytes: int
    removed_delete_files: int
    deleted_rows: int
    left_files: int
    reasons: Mapping[str, int]
    failed: tuple[FailedGroup, ...]

    @property
    def has_faults(self) -> bool:
        """Whether groups of files were given up."""
        return bool(self.failed)

    def report(self, most: int | None = MOST_LINES) -> Report:
        would = "would be " if self.dry_run else ""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        pairs = [
            ("snapshot", snapshots_text(self.snapshot_ids, dry_run=self.dry_run)),
            ("considered", count_text(self.considered_files, "file")),
            (
                f"{would}rewritten",
                f"{count_text(self.rewritten_files, 'file')}, {size_text(self.rewritten_bytes)}" + (f": {reasons}" if reasons else ""),
            ),
            (f"{would}added", count_text(self.added_files, "file") + ("" if self.dry_run else f", {size_text(self.added_bytes)}")),
        ]
        if self.removed_delete_files:
            pairs.append((f"{would}removed", count_text(self.removed_delete_files, "delete file")))
        if self.deleted_rows:
            pairs.append(("deleted rows", f"{self.deleted_rows:,} are in no file any more"))
        if self.left_files:
            pairs.append(("left", f"{count_text(self.left_files, 'file')}: too few in a partition to pay"))
        return Report(f"data files of {self.table}", (Facts(tuple(pairs)), *given_up(self.failed, most)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DanglingDeletes(Reportable):
    """The result of a removal of delete files, or with `dry_run` what it would do."""

    table: str
    dry_run: bool
    snapshot_id: int | None
    live_delete_files: int
    removed_files: int
    removed_bytes: int
    kinds: Mapping[str, int]

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        kinds = "".join(f", {count:,} {kind}" for kind, count in self.kinds.items())
        pairs = (
            ("snapshot", snapshots_text((self.snapshot_id,), dry_run=self.dry_run)),
            ("considered", count_text(self.live_delete_files, "delete file")),
            (
                "would be removed" if self.dry_run else "removed",
                f"{count_text(self.removed_files, 'file')}, {size_text(self.removed_bytes)}{kinds}",
            ),
        )
        return Report(f"dangling deletes of {self.table}", (Facts(pairs),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRewrite(Reportable):
    """The result of a rewrite of manifests, or with `dry_run` what it would do. `snapshot_id` is None if nothing was committed."""

    table: str
    dry_run: bool
    snapshot_id: int | None
    rewritten_manifests: int
    added_manifests: int
    kept_manifests: int
    entries: int

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        would = "would be " if self.dry_run else ""
        pairs = (
            ("snapshot", snapshots_text((self.snapshot_id,), dry_run=self.dry_run)),
            (f"{would}rewritten", count_text(self.rewritten_manifests)),
            (f"{would}added", f"{count_text(self.added_manifests)}, {count_text(self.entries, 'entry', 'entries')}"),
            (f"{would}kept", count_text(self.kept_manifests)),
        )
        return Report(f"manifests of {self.table}", (Facts(pairs),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureList(Reportable):
    """The procedures: their descriptions, and their arguments as text, optional ones in brackets."""

    procedures: tuple[tuple[str, str, str], ...]

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  every procedure is shown
        return Report(
            "", (grid("", (Column("procedure", whole=True), Column("arguments"), Column("description", rank=1)), self.procedures, None),)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the procedures by name."""
        return {name: {"arguments": arguments, "description": text} for name, arguments, text in self.procedures}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureResult(Reportable):
    """The rows that a procedure returned."""

    procedure: str
    rows: tuple[Mapping[str, Any], ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        if not self.rows:
            return Report(self.procedure, (Prose("no rows"),))
        if len(self.rows) == 1:
            return Report(self.procedure, (Facts(tuple((name, cell_text(value)) for name, value in self.rows[0].items())),))
        columns = tuple(Column(name, is_number=isinstance(value, int)) for name, value in self.rows[0].items())
        return Report(self.procedure, (grid("", columns, [tuple(map(cell_text, row.values())) for row in self.rows], most),))


@changes_table
def rewrite_data_files(
    opened: Table,
    where: Where = None,
    strategy: Strategy = None,
    sort_order: SortOrder = None,
    options: Options = None,
    branch: RewrittenBranch = "main",
    dry_run: DryRun = False,
) -> Reportable:
    """Compact data files: small ones and those with many deletes become files of the target size with the same rows."""
    result = opened.maintenance.rewrite_data_files(
        where, strategy=strategy, sort_order=sort_order, options=pairs_of(options), branch=branch, dry_run=dry_run
    )
    return DataFileRewrite(table=opened.full_name, **fields_of(result))


@changes_table
def remove_dangling_deletes(opened: Table, branch: RewrittenBranch = "main", dry_run: DryRun = False) -> Reportable:
    """Remove delete files that apply to no data file. No row changes."""
    result = opened.maintenance.remove_dangling_deletes(branch=branch, dry_run=dry_run)
    return DanglingDeletes(
        table=opened.full_name,
        dry_run=result.dry_run,
        snapshot_id=result.snapshot_id,
        live_delete_files=result.live_delete_files,
        removed_files=result.removed_files,
        removed_bytes=result.removed_bytes,
        kinds={kind.value: count for kind, count in result.removed.items()},
    )


@changes_table
def rewrite_manifests(
    opened: Table, spec_id: SpecId = None, sort_by: SortBy = None, branch: OfBranch = "main", dry_run: DryRun = False
) -> Reportable:
    """Put the entries of small or unsorted manifests into manifests of the target size. No data file is read or written."""
    result = opened.rewrite_manifests(spec_id, sort_by, branch=branch, dry_run=dry_run)
    return ManifestRewrite(table=opened.full_name, **fields_of(result))


@changes_tables_of_catalog
def call_procedure(opened: Catalog, procedure: ProcedureName = None, arguments: Arguments = None) -> Reportable:
    """Run a procedure with the names and arguments of Java's Iceberg, such as add_files or ancestors_of; without a name they are listed."""
    if procedure is None:
        return ProcedureList(
            procedures=tuple((name, _arguments_text(name), procedure_named(name).description) for name in procedure_names())
        )
    kinds = {parameter.name: parameter.kind for parameter in procedure_named(procedure).parameters}
    unknown = next((text for text in arguments or () if "=" not in text or text.partition("=")[0] not in kinds), None)
    if unknown is not None:
        raise InvalidInputError(
            f"{unknown!r} is no argument of the procedure", next_step=f"write NAME=VALUE with one of {', '.join(kinds)}"
        )
    values = {name: _argument(name, text, kinds[name]) for name, text in pairs_of(arguments).items()}
    rows = call(opened, procedure, **values)
    return ProcedureResult(procedure=procedure, rows=tuple({name: _shown(value) for name, value in row.items()} for row in rows))


def fields_of(result: Any) -> dict[str, Any]:
    """Return the fields of a result, all of which its view has under the same names."""
    return {field.name: getattr(result, field.name) for field in fields(result)}


def given_up(failed: Sequence[FailedGroup], most: int | None) -> tuple[Grid, ...]:
    """Return the table of groups that were given up; nothing if there are none."""
    if not failed:
        return ()
    return (
        grid("given up", (Column("files", is_number=True), Column("reason")), [(f"{one.files:,}", one.reason) for one in failed], most),
    )


def snapshots_text(snapshot_ids: Sequence[int | None], *, dry_run: bool = False) -> str:
    """Return the ids of the snapshots that were committed, or why there is none."""
    return ", ".join(str(one) for one in snapshot_ids if one is not None) or (
        "none: nothing was changed" if dry_run else "none: there was nothing to do"
    )


def _arguments_text(name: str) -> str:
    parameters = procedure_named(name).parameters
    return ", ".join(parameter.name if parameter.required else f"[{parameter.name}]" for parameter in parameters)


def _argument(name: str, text: str, kind: IcebergType) -> Any:
    try:
        return _value(kind, text)
    except ValueError as error:
        raise InvalidInputError(f"{name}: {text!r} is not a value of type {kind}", next_step=_HINTS.get(type(kind))) from error


_HINTS: Mapping[type[IcebergType], str] = {
    BooleanType: "write true or false",
    TimestamptzType: "write a time such as 2024-01-31T12:00:00, in UTC where it has no offset",
    ListType: "write values separated by commas, or a list in JSON",
    MapType: 'write an object in JSON, such as {"day": "2024-01-31"}',
}


def _value(kind: IcebergType, text: str) -> Any:
    if isinstance(kind, LongType | IntegerType):
        return int(text)
    if isinstance(kind, BooleanType):
        if text.lower() not in ("true", "false"):
            raise ValueError("a boolean is true or false")
        return text.lower() == "true"
    if isinstance(kind, TimestamptzType):
        return utc_time_of(text)
    if isinstance(kind, ListType):
        items = json.loads(text) if text.startswith("[") else text.split(",")
        return [_value(kind.element, str(item)) for item in items]
    if isinstance(kind, MapType):
        pairs = json.loads(text)
        if not isinstance(pairs, dict):
            raise ValueError("a map is an object in JSON")
        return {str(key): str(value) for key, value in pairs.items()}
    return text


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
