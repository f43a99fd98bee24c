"""Options and arguments that several commands share, with their help texts."""

from typing import Annotated

import typer

from icefloe.cli.catalog_choice import CatalogChoice, names_in_catalog
from icefloe.errors import InvalidInputError


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names with which a shell completes the argument of a command, by the catalog options before it."""
    options = {name: ctx.params.get(parameter) for name, parameter in (("name", "catalog"), ("uri", "uri"), ("warehouse", "warehouse"))}
    return names_in_catalog(CatalogChoice(**options), incomplete)


CatalogName = Annotated[
    str | None,
    typer.Option("--catalog", metavar="NAME", help="The catalog: a name from icefloe.yaml, .pyiceberg.yaml or the environment."),
]
CatalogUri = Annotated[
    str | None,
    typer.Option("--uri", metavar="URI", help="The catalog's database: an SQLAlchemy URL, or the path of an SQLite file."),
]
Warehouse = Annotated[
    str | None,
    typer.Option("--warehouse", metavar="DIR", help="The folder of the tables; without --uri, the catalog is catalog.db in it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on standard output.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every line of long lists.")]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="namespace.table, or the path of a metadata file.", show_default=False, autocompletion=complete_name
    ),
]
SnapshotName = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="A snapshot id, branch or tag; the current snapshot by default.")
]
Properties = Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property to set; may be repeated.")]


def properties_of(texts: list[str] | None) -> dict[str, str]:
    """Return the properties of `--property NAME=VALUE`. Raises `InvalidInputError`."""
    pairs = [text.partition("=") for text in texts or ()]
    wrong = [name for name, equals, _ in pairs if not equals or not name]
    if wrong:
        raise InvalidInputError(f"--property {wrong[0]!r} has no value", next_step="write --property NAME=VALUE")
    return {name: value for name, _, value in pairs}
