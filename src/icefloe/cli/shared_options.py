"""Options and arguments that several commands share, with their help texts."""

from typing import Annotated

import typer

CatalogName = Annotated[
    str | None,
    typer.Option("--catalog", metavar="NAME", help="The catalog: a name from icefloe.yaml, .pyiceberg.yaml or the environment."),
]
CatalogUri = Annotated[
    str | None,
    typer.Option("--uri", metavar="URI", help="The catalog's database: sqlite:////folder/catalog.db, or the path of an SQLite file."),
]
Warehouse = Annotated[
    str | None,
    typer.Option("--warehouse", metavar="DIR", help="The folder of the tables; without --uri, the catalog is catalog.db in it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on standard output.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every line of long lists.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table, or the path of a metadata file.", show_default=False)]
SnapshotName = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="A snapshot id, branch or tag; the current snapshot by default.")
]
