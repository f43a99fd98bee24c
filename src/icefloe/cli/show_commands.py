"""Read-only commands: `list`, `tree`, `trace`, `log`, `files`, `check`, `refs`, `location`, `uuid` and `show ...`. Each prints one value."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.cli.command_group import PlainGroup
from icefloe.cli.screen import SingleValue
from icefloe.cli.shared_options import SnapshotName, Tolerant, complete_column, complete_ref
from icefloe.cli.table_command import looks_at_catalog, looks_at_table
from icefloe.display.report import Column, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError
from icefloe.formatting import count_text, size_text, within
from icefloe.inspect.lookup import snapshot_id_of
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.identifier import dotted

app = typer.Typer(help="Show one level of a table.", no_args_is_help=True, cls=PlainGroup)

Which = Annotated[str, typer.Argument(metavar="[WHICH]", help="Its number, counted from 1, or a part of its path.", show_default=False)]
Where = Annotated[
    str, typer.Option("--where", metavar="FILTER", help="The filter of the query, such as \"type = 'a' AND time > '2024-01-01'\".")
]
Graph = Annotated[bool, typer.Option("--graph", help="Show every snapshot of the table, with lines to their parents.")]
Ref = Annotated[
    str | None,
    typer.Option(
        "--ref", metavar="NAME", help="Show the history of this branch, tag or snapshot id; main by default.", autocompletion=complete_ref
    ),
]


Namespace = Annotated[str, typer.Argument(metavar="[NAMESPACE]", help="Only this namespace and those below it.", show_default=False)]
History = Annotated[bool, typer.Option("--history", help="The files of every snapshot, not only of one.")]


class RefType(StrEnum):
    """The types of named references: branch and tag."""

    BRANCH = "branch"
    TAG = "tag"


OfType = Annotated[RefType | None, typer.Option("--type", help="Only branches, or only tags.")]

OfBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch that is measured.", autocompletion=complete_ref)]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME",
        help="Measure the clustering of this column; may be repeated. By default the sort order's and the first ones.",
        autocompletion=complete_column,
    ),
]

_CONTENTS = ("data", "position_deletes", "equality_deletes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList(Reportable):
    """The data files and delete files of a table. Sizes are in bytes; partition values are by the names of the partition fields."""

    table: str
    location: str
    snapshot_id: int | None
    history: bool  # whether the files of every snapshot are listed
    files: tuple[Mapping[str, Any], ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        columns = (
            Column("content", rank=3),
            Column("path", whole=True),
            Column("rows", is_number=True, rank=1),
            Column("size", is_number=True, rank=2),
            Column("format", rank=4),
        )
        rows = [
            (
                file["content"].replace("_", " "),
                within(file["path"], self.location),
                count_text(file["records"]),
                size_text(file["size_in_bytes"]),
                file["format"].lower(),
            )
            for file in self.files
        ]
        total = sum(file["size_in_bytes"] for file in self.files)
        whose = "all snapshots" if self.history else f"snapshot {self.snapshot_id or 'none yet'}"
        title = f"files of {self.table}, {whose}: {count_text(len(rows), 'file')}, {size_text(total)}"
        return Report(title, (grid("", columns, rows, most),))


@looks_at_catalog
def list_tables(opened: Catalog, namespace: Namespace = "") -> Reportable:
    """List namespaces, tables and views."""
    listing = look.listing(opened)
    if not namespace:
        return listing
    name = dotted(opened.levels(namespace))
    opened.load_namespace_properties(name)
    return replace(listing, namespaces=tuple(space for space in listing.namespaces if f"{space.name}.".startswith(f"{name}.")))


@looks_at_table
def list_files(opened: TableReader, snapshot: SnapshotName = None, history: History = False) -> Reportable:
    """List data files and delete files with their rows and sizes."""
    if history and snapshot is not None:
        raise InvalidInputError("--history lists the files of every snapshot, and --snapshot those of one", next_step="choose one")
    current = snapshot_id_of(opened, snapshot) or opened.metadata.current_snapshot_id
    kind = look.metadata_table(opened, "all_files" if history else "files")
    columns = ("content", "file_path", "file_format", "record_count", "file_size_in_bytes")
    rows = kind.to_arrow(columns=columns, snapshot_id=None if history else current).select(columns)
    return FileList(
        table=opened.full_name,
        location=opened.location(),
        snapshot_id=None if history else current,
        history=history,
        files=tuple(
            {"content": _CONTENTS[content], "path": path, "format": kind, "records": records, "size_in_bytes": size}
            for content, path, kind, records, size in dict.fromkeys(zip(*(rows[name].to_pylist() for name in columns), strict=True))
        ),
    )


@looks_at_table
def show_health(opened: TableReader, branch: OfBranch = "main", columns: Columns = None) -> Reportable:
    """Measure what readers of a table pay for: small files, deletes, clustering, manifests, snapshots, each with its threshold and the reason."""
    return look.health(opened, branch, columns)


@looks_at_table
def list_refs(opened: TableReader, kind: OfType = None) -> Reportable:
    """List branches and tags: their snapshots, and how long they are kept."""
    refs = look.refs(opened)
    return refs if kind is None else replace(refs, refs=tuple(ref for ref in refs.refs if ref.type == kind))


@looks_at_table
def show_location(opened: TableReader) -> Reportable:
    """Print the folder of a table."""
    return SingleValue(owner=opened.full_name, name="location", value=opened.location())


@looks_at_table
def show_uuid(opened: TableReader) -> Reportable:
    """Print the UUID of a table."""
    return SingleValue(owner=opened.full_name, name="uuid", value=str(opened.metadata.table_uuid or ""))


@looks_at_table
def show_tree(opened: TableReader, snapshot: SnapshotName = None) -> Reportable:
    """Show a table from its catalog down to its data files, with counts and sizes."""
    return look.tree(opened, snapshot_id_of(opened, snapshot))


@looks_at_table
def show_trace(opened: TableReader, where: Where = "TRUE", snapshot: SnapshotName = None, tolerant: Tolerant = False) -> Reportable:
    """Explain why a query reads what it reads: what is kept and skipped at each level, and the bound that decided."""
    return look.trace(opened, where, snapshot_id_of(opened, snapshot), tolerant=tolerant)


@looks_at_table
def show_log(opened: TableReader, ref: Ref = None, graph: Graph = False) -> Reportable:
    """Show the snapshots that led to a branch, newest first; with --graph those of all branches and tags, and staged ones."""
    return look.log(opened, snapshot_id_of(opened, ref), graph=graph)


@app.command("catalog")
@looks_at_catalog
def show_catalog(opened: Catalog) -> Reportable:
    """Show the rows of the catalog's database."""
    return look.catalog(opened)


@app.command("table")
@looks_at_table
def show_table(opened: TableReader) -> Reportable:
    """Show a table at a glance: columns, partitioning, totals, properties."""
    return look.table(opened)


@app.command("snapshots")
@looks_at_table
def show_snapshots(opened: TableReader) -> Reportable:
    """Show snapshots, snapshot log and metadata log."""
    return look.snapshots(opened)


@app.command("metadata")
@looks_at_table
def show_metadata(opened: TableReader) -> Reportable:
    """Show the metadata file's JSON; long lists are abbreviated without --all."""
    return look.metadata(opened)


@app.command("manifest-list")
@looks_at_table
def show_manifest_list(opened: TableReader, snapshot: SnapshotName = None) -> Reportable:
    """Show a snapshot's manifest list, with decoded partition bounds."""
    return look.manifest_list(opened, snapshot_id_of(opened, snapshot))


@app.command("manifest")
@looks_at_table
def show_manifest(opened: TableReader, which: Which = "1", snapshot: SnapshotName = None) -> Reportable:
    """Show the entries of a manifest, with decoded bounds per column; the first manifest of the list by default."""
    return look.manifest(opened, which, snapshot_id_of(opened, snapshot))


@app.command("data-file")
@looks_at_table
def show_data_file(opened: TableReader, which: Which = "1", snapshot: SnapshotName = None) -> Reportable:
    """Show a data file's Parquet footer and its manifest entry; the first live file by default."""
    return look.data_file(opened, which, snapshot_id_of(opened, snapshot))


@app.command("overhead")
@looks_at_table
def show_overhead(opened: TableReader) -> Reportable:
    """Compare bytes of metadata with bytes of data, level by level."""
    return look.overhead(opened)


@app.command("statistics")
@looks_at_table
def show_statistics(opened: TableReader, snapshot: SnapshotName = None) -> Reportable:
    """Show distinct values of columns and counts by partition from statistics files; the newest files by default."""
    return look.statistics(opened, None if snapshot is None else snapshot_id_of(opened, snapshot))
