"""Options and arguments that several commands share, with their help texts."""

import re
from collections.abc import Iterable
from typing import Annotated

import typer

from icefloe.cli.catalog_choice import CatalogChoice, names_in_catalog, open_table
from icefloe.errors import IcefloeError, InvalidInputError
from icefloe.operations.loaded_table import TableReader

_PLAIN = re.compile(r"[\w.][\w.-]*")


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the completions of a name in the catalog that the options before it select."""
    return _plain(names_in_catalog(_catalog_before(ctx), incomplete))


def complete_ref(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the branches and tags that complete the name of a snapshot. The table is an earlier word of the command."""
    table = _table_before(ctx)
    return [] if table is None else _plain(name for name in sorted(table.metadata.refs) if name.startswith(incomplete))


def complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns, including fields of structs, that complete the name of a column. The table is an earlier word of the command."""
    table = _table_before(ctx)
    return [] if table is None else _plain(name for name in table.schema().column_names if name.startswith(incomplete))


def _table_before(ctx: typer.Context) -> TableReader | None:
    """Return the table that an earlier word of the command names; None if it cannot be opened."""
    # After an option whose value is missing, the words are in `args` and not in `params`.
    name = ctx.params.get("table") or next(iter(ctx.args), None)
    try:
        return None if name is None else open_table(name, _catalog_before(ctx))
    except IcefloeError:
        return None


def _plain(names: Iterable[str]) -> list[str]:
    """Return the names that need no quotes in a shell. The shell inserts a completion unquoted, and a hostile writer of a table may choose its names."""
    return [name for name in names if _PLAIN.fullmatch(name)]


def _catalog_before(ctx: typer.Context) -> CatalogChoice:
    options = {name: ctx.params.get(parameter) for name, parameter in (("name", "catalog"), ("uri", "uri"), ("warehouse", "warehouse"))}
    return CatalogChoice(**options)


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
Tolerant = Annotated[
    bool, typer.Option("--tolerant", help="Warn of harmless deviations of manifests from the format instead of refusing the table.")
]
Everything = Annotated[bool, typer.Option("--all", help="Show every line of long lists.")]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="namespace.table, or the path of a metadata file.", show_default=False, autocompletion=complete_name
    ),
]
SnapshotName = Annotated[
    str | None,
    typer.Option(
        "--snapshot", metavar="ID", help="A snapshot id, branch or tag; the current snapshot by default.", autocompletion=complete_ref
    ),
]
Properties = Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property to set; may be repeated.")]


def pairs_of(texts: Iterable[str] | None, option: str = "") -> dict[str, str]:
    """Parse texts such as `key=value`.

    Args:
        texts: The texts; a value may contain further equals signs.
        option: The option that has the texts, such as `--property`, for the error; empty for arguments.

    Returns:
        The values by key.

    Raises:
        InvalidInputError: A text has no key or no equals sign, or a key is given twice.
    """
    pairs: dict[str, str] = {}
    lead = f"{option} " if option else ""
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidInputError(f"{lead}{key!r} has no value", next_step=f"write it as {lead}KEY=VALUE")
        if key in pairs:
            raise InvalidInputError(f"{lead}{key} is given twice", next_step="give it once")
        pairs[key] = value
    return pairs


def properties_of(texts: Iterable[str] | None) -> dict[str, str]:
    """Return the properties that `--property` sets. The errors are those of `pairs_of`."""
    return pairs_of(texts, "--property")
