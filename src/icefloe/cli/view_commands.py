"""The commands of views: `icefloe view list`, `show`, `create`, `replace`, `rollback`, `rename`, `drop`, `register`.

Each prints the view as it is then. Spec: View spec, View Metadata; View spec, Versions.
"""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.catalog_store.identifier import to_identifier
from icefloe.cli.screen import say
from icefloe.cli.table_command import looks_at_catalog
from icefloe.errors import InvalidInputError, InvalidSchemaError, MetadataFormatError, NoSuchFileError
from icefloe.inspect.inspection import View as Shown
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_json import type_from_json
from icefloe.kernel.types import NestedField

app = typer.Typer(help="Views: stored queries, each in one or several SQL dialects.", no_args_is_help=True)

ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="namespace.view", show_default=False)]
NewName = Annotated[str, typer.Argument(metavar="NEW_NAME", help="namespace.view", show_default=False)]
Namespace = Annotated[str, typer.Argument(metavar="[NAMESPACE]", help="Only those of a namespace and below it.", show_default=False)]
Sql = Annotated[str | None, typer.Option("--sql", metavar="SELECT", help="The SELECT statement.")]
SqlFile = Annotated[str | None, typer.Option("--file", metavar="FILE", help="A file with the SELECT statement; - reads standard input.")]
Dialect = Annotated[str, typer.Option("--dialect", metavar="NAME", help="The dialect of the statement, such as spark or trino.")]
Columns = Annotated[
    str | None,
    typer.Option("--schema", metavar="COLUMNS", help='The columns it gives, such as "type string, count long, share decimal(9,2)".'),
]
InNamespace = Annotated[
    str | None, typer.Option("--default-namespace", metavar="NAMESPACE", help="Where its names without a namespace are looked for.")
]
InCatalog = Annotated[
    str | None, typer.Option("--default-catalog", metavar="CATALOG", help="Where its names without a catalog are looked for.")
]
Properties = Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property to set; may be repeated.")]
Folder = Annotated[str | None, typer.Option("--location", metavar="DIR", help="The view's folder.")]
WithoutDialect = Annotated[list[str] | None, typer.Option("--drop-dialect", metavar="NAME", help="A dialect to drop; may be repeated.")]
VersionId = Annotated[int, typer.Argument(metavar="VERSION", help="The id of a version that is kept.", show_default=False)]
MetadataFile = Annotated[str, typer.Argument(metavar="METADATA_FILE", help="The view's metadata file.", show_default=False)]

_COLUMN = re.compile(r"\s*(\S+)\s+(.+?)\s*", re.DOTALL)
_COMMA = re.compile(r",(?![^()]*\))")


@app.command("list")
@looks_at_catalog
def list_views(opened: Catalog, namespace: Namespace = "") -> Shown:
    """List views."""
    return look.view_listing(opened, to_identifier(namespace) if namespace else ())


@app.command("show")
@looks_at_catalog
def show_view(opened: Catalog, name: ViewName) -> Shown:
    """Show a view: its columns, its SQL by dialect, its versions and which was current from when."""
    return look.view_history(opened.load_view(name))


@app.command("create")
@looks_at_catalog
def create_view(
    opened: Catalog,
    name: ViewName,
    sql: Sql = None,
    file: SqlFile = None,
    dialect: Dialect = "spark",
    schema: Columns = None,
    default_namespace: InNamespace = None,
    default_catalog: InCatalog = None,
    properties: Properties = None,
    location: Folder = None,
) -> Shown:
    """Make a view of a SELECT statement."""
    made = opened.create_view(
        name,
        _statement(sql, file),
        None if schema is None else _schema(schema),
        dialect=dialect,
        default_namespace=default_namespace,
        default_catalog=default_catalog,
        properties=_properties(properties),
        location=location,
    )
    return look.view_history(made)


@app.command("replace")
@looks_at_catalog
def replace_view(
    opened: Catalog,
    name: ViewName,
    sql: Sql = None,
    file: SqlFile = None,
    dialect: Dialect = "spark",
    schema: Columns = None,
    drop_dialect: WithoutDialect = None,
    default_namespace: InNamespace = None,
    default_catalog: InCatalog = None,
    properties: Properties = None,
) -> Shown:
    """Give a view another statement in one dialect, as a new version; what is not named stays, the other dialects too."""
    view = opened.load_view(name)
    given = _properties(properties)
    with view.replace_version() as version:
        version.with_properties(given)
        if sql is not None or file is not None or not (drop_dialect or schema or default_namespace or default_catalog or given):
            version.with_query(dialect, _statement(sql, file))
        for dropped in drop_dialect or ():
            version.without_dialect(dropped)
        if schema is not None:
            version.with_schema(_schema(schema))
        if default_namespace is not None:
            version.with_default_namespace(default_namespace)
        if default_catalog is not None:
            version.with_default_catalog(default_catalog)
    return look.view_history(view)


@app.command("rollback")
@looks_at_catalog
def rollback_view(opened: Catalog, name: ViewName, version: VersionId) -> Shown:
    """Make an older version the current one again."""
    view = opened.load_view(name)
    view.rollback_to_version(version)
    return look.view_history(view)


@app.command("rename")
@looks_at_catalog
def rename_view(opened: Catalog, name: ViewName, new_name: NewName) -> Shown:
    """Change a view's name; its files stay where they are."""
    return look.view_history(opened.rename_view(name, new_name))


@app.command("drop")
@looks_at_catalog
def drop_view(opened: Catalog, name: ViewName) -> Shown:
    """Remove a view's name. Its files stay, and `register` can bring it back; it is shown as it was."""
    gone = opened.load_view(name)
    opened.drop_view(name)
    say(f"dropped {gone.full_name}; its metadata file stays: {gone.metadata_location}")
    return look.view_history(gone)


@app.command("register")
@looks_at_catalog
def register_view(opened: Catalog, name: ViewName, metadata_file: MetadataFile) -> Shown:
    """Make a name for a view that exists as a metadata file."""
    return look.view_history(opened.register_view(name, metadata_file))


def _statement(sql: str | None, file: str | None) -> str:
    if (sql is None) == (file is None):
        raise InvalidInputError("there must be one SELECT statement", next_step="pass it with --sql, or its file with --file")
    if sql is not None:
        return sql
    if file == "-":
        return sys.stdin.read().strip()
    try:
        return Path(str(file)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoSuchFileError(f"the statement cannot be read from {file}: {error}", next_step="check --file") from error


def _schema(text: str) -> Schema:
    """`name type` pairs with commas between them; types by the names that the format gives them."""
    fields = []
    for number, part in enumerate(_COMMA.split(text), start=1):
        found = _COLUMN.fullmatch(part)
        if found is None:
            raise InvalidSchemaError(f"{part.strip()!r} in --schema is no column", next_step='write "name type, name type"')
        try:
            kind = type_from_json(found[2])
        except MetadataFormatError as error:
            raise InvalidSchemaError(
                f"column {found[1]} in --schema has the type {found[2]!r}, which is none",
                next_step="types are boolean, int, long, float, double, decimal(9,2), date, time, timestamp, timestamptz, string, uuid, binary",
            ) from error
        fields.append(NestedField(number, found[1], kind))
    return Schema(*fields)


def _properties(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or ()]
    wrong = [name for name, equals, _ in pairs if not equals or not name]
    if wrong:
        raise InvalidInputError(f"{wrong[0]!r} is no property", next_step="write --property NAME=VALUE")
    return {name: value for name, _, value in pairs}
