"""Read-only commands: `list`, `tree`, `trace`, `log` and `show ...`. Each prints one view of `icefloe.inspect`."""

from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.cli.catalog_choice import chosen_snapshot
from icefloe.cli.shared_options import SnapshotName
from icefloe.cli.table_command import looks_at_catalog, looks_at_table
from icefloe.inspect.inspection import View
from icefloe.table.table_reader import TableReader

app = typer.Typer(help="Show one level of a table.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(metavar="[WHICH]", help="Its number, counted from 1, or a part of its path.", show_default=False)]
Where = Annotated[
    str, typer.Option("--where", metavar="FILTER", help="The filter of the query, such as \"type = 'a' AND time > '2024-01-01'\".")
]
Graph = Annotated[bool, typer.Option("--graph", help="Show every snapshot of the table, with lines to their parents.")]
Ref = Annotated[
    str | None, typer.Option("--ref", metavar="NAME", help="Show the history of this branch, tag or snapshot id; main by default.")
]


@looks_at_catalog
def list_tables(opened: Catalog) -> View:
    """List namespaces and tables."""
    return look.listing(opened)


@looks_at_table
def show_tree(opened: TableReader, snapshot: SnapshotName = None) -> View:
    """Show a table from its catalog down to its data files, with counts and sizes."""
    return look.tree(opened, chosen_snapshot(opened, snapshot))


@looks_at_table
def show_trace(opened: TableReader, where: Where = "TRUE", snapshot: SnapshotName = None) -> View:
    """Explain why a query reads what it reads: what is kept and skipped at each level, and the bound that decided."""
    return look.trace(opened, where, chosen_snapshot(opened, snapshot))


@looks_at_table
def show_log(opened: TableReader, ref: Ref = None, graph: Graph = False) -> View:
    """Show the snapshots that led to a branch, newest first; with --graph those of all branches and tags, and staged ones."""
    return look.log(opened, chosen_snapshot(opened, ref), graph=graph)


@app.command("catalog")
@looks_at_catalog
def show_catalog(opened: Catalog) -> View:
    """Show the rows of the catalog's database."""
    return look.catalog(opened)


@app.command("table")
@looks_at_table
def show_table(opened: TableReader) -> View:
    """Show a table at a glance: columns, partitioning, totals, properties."""
    return look.table(opened)


@app.command("snapshots")
@looks_at_table
def show_snapshots(opened: TableReader) -> View:
    """Show snapshots, snapshot log and metadata log."""
    return look.snapshots(opened)


@app.command("metadata")
@looks_at_table
def show_metadata(opened: TableReader) -> View:
    """Show the metadata file's JSON; long lists are abbreviated without --all."""
    return look.metadata(opened)


@app.command("manifest-list")
@looks_at_table
def show_manifest_list(opened: TableReader, snapshot: SnapshotName = None) -> View:
    """Show a snapshot's manifest list, with decoded partition bounds."""
    return look.manifest_list(opened, chosen_snapshot(opened, snapshot))


@app.command("manifest")
@looks_at_table
def show_manifest(opened: TableReader, which: Which = "1", snapshot: SnapshotName = None) -> View:
    """Show the entries of a manifest, with decoded bounds per column; the first manifest of the list by default."""
    return look.manifest(opened, which, chosen_snapshot(opened, snapshot))


@app.command("data-file")
@looks_at_table
def show_data_file(opened: TableReader, which: Which = "1", snapshot: SnapshotName = None) -> View:
    """Show a data file's Parquet footer and its manifest entry; the first live file by default."""
    return look.data_file(opened, which, chosen_snapshot(opened, snapshot))


@app.command("overhead")
@looks_at_table
def show_overhead(opened: TableReader) -> View:
    """Compare bytes of metadata with bytes of data, level by level."""
    return look.overhead(opened)


@app.command("statistics")
@looks_at_table
def show_statistics(opened: TableReader, snapshot: SnapshotName = None) -> View:
    """Show distinct values of columns and counts by partition from statistics files; the newest files by default."""
    return look.statistics(opened, None if snapshot is None else chosen_snapshot(opened, snapshot))
