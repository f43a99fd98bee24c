"""The commands that look and change nothing: `list`, `tree`, `trace` and `show ...`. Each prints one value of `icefloe.inspect`.

Floor: cli.
"""

from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.cli.choose import CatalogChoice, chosen_snapshot, open_catalog, open_table
from icefloe.cli.options import AsJson, CatalogName, CatalogUri, Everything, SnapshotName, TableName, Warehouse
from icefloe.cli.screen import show

app = typer.Typer(help="Show one level of a table.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(metavar="[WHICH]", help="Its number, counted from 1, or a part of its path.", show_default=False)]
Where = Annotated[
    str, typer.Option("--where", metavar="FILTER", help="The rows asked for, such as \"type = 'a' AND time > '2024-01-01'\".")
]


def list_tables(
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """List namespaces and tables."""
    choice = CatalogChoice(name=catalog, uri=uri, warehouse=warehouse)
    show(look.listing(open_catalog(choice)), as_json=as_json, everything=everything)


def show_tree(
    table: TableName,
    snapshot: SnapshotName = None,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show a table from its catalog down to its data files, with counts and sizes."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.tree(opened, chosen_snapshot(opened, snapshot)), as_json=as_json, everything=everything)


def show_trace(
    table: TableName,
    where: Where = "TRUE",
    snapshot: SnapshotName = None,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Tell why a query reads what it reads: what is kept and skipped at each level, and the bound that decided."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.trace(opened, where, chosen_snapshot(opened, snapshot)), as_json=as_json, everything=everything)


@app.command("catalog")
def show_catalog(
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """The rows of the catalog's database."""
    choice = CatalogChoice(name=catalog, uri=uri, warehouse=warehouse)
    show(look.catalog(open_catalog(choice)), as_json=as_json, everything=everything)


@app.command("table")
def show_table(
    table: TableName,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """A table at a glance: columns, partitioning, totals, properties."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.table(opened), as_json=as_json, everything=everything)


@app.command("snapshots")
def show_snapshots(
    table: TableName,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Snapshots, snapshot log and metadata log."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.snapshots(opened), as_json=as_json, everything=everything)


@app.command("metadata")
def show_metadata(
    table: TableName,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """The metadata file's JSON; long lists are abbreviated unless --all is given."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.metadata(opened), as_json=as_json, everything=everything)


@app.command("manifest-list")
def show_manifest_list(
    table: TableName,
    snapshot: SnapshotName = None,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """A snapshot's manifest list, with decoded partition bounds."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.manifest_list(opened, chosen_snapshot(opened, snapshot)), as_json=as_json, everything=everything)


@app.command("manifest")
def show_manifest(
    table: TableName,
    which: Which = "1",
    snapshot: SnapshotName = None,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """One manifest's entries, with decoded bounds per column; the first manifest of the list unless one is named."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.manifest(opened, which, chosen_snapshot(opened, snapshot)), as_json=as_json, everything=everything)


@app.command("data-file")
def show_data_file(
    table: TableName,
    which: Which = "1",
    snapshot: SnapshotName = None,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """One data file's Parquet footer, and what its manifest says of it; the first live file unless one is named."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.data_file(opened, which, chosen_snapshot(opened, snapshot)), as_json=as_json, everything=everything)


@app.command("overhead")
def show_overhead(
    table: TableName,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Bytes of metadata against bytes of data, level by level."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.overhead(opened), as_json=as_json, everything=everything)


@app.command("statistics")
def show_statistics(
    table: TableName,
    snapshot: SnapshotName = None,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Distinct values of columns and counts by partition, as statistics files have them; the newest unless a snapshot is named."""
    opened = open_table(table, CatalogChoice(name=catalog, uri=uri, warehouse=warehouse))
    show(look.statistics(opened, None if snapshot is None else chosen_snapshot(opened, snapshot)), as_json=as_json, everything=everything)
