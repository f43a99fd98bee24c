"""The commands `icefloe view list`, `show`, `create`, `replace`, `rollback`, `rename`, `drop` and `register`.

Each prints the view after the change. Spec: View spec, View Metadata; View spec, Versions.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.cli.command_group import PlainGroup
from icefloe.cli.screen import print_message
from icefloe.cli.shared_options import Properties, properties_of
from icefloe.cli.table_command import looks_at_catalog
from icefloe.display.reportable import Reportable
from icefloe.errors import InvalidInputError, NoSuchFileError
from icefloe.spec.schema.column_text import columns_from_text

app = typer.Typer(help="Views: stored queries, each in one or several SQL dialects.", no_args_is_help=True, cls=PlainGroup)

ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="namespace.view", show_default=False)]
NewName = Annotated[str, typer.Argument(metavar="NEW_NAME", help="namespace.view", show_default=False)]
Namespace = Annotated[str, typer.Argument(metavar="[NAMESPACE]", help="Only views of this namespace and below it.", show_default=False)]
Sql = Annotated[str | None, typer.Option("--sql", metavar="SELECT", help="The SELECT statement.")]
SqlFile = Annotated[str | None, typer.Option("--file", metavar="FILE", help="A file with the SELECT statement; - reads standard input.")]
Dialect = Annotated[str, typer.Option("--dialect", metavar="NAME", help="The dialect of the statement, such as spark or trino.")]
Columns = Annotated[
    str | None,
    typer.Option("--schema", metavar="COLUMNS", help='The columns that it returns, such as "type string, count long, share decimal(9,2)".'),
]
InNamespace = Annotated[
    str | None, typer.Option("--default-namespace", metavar="NAMESPACE", help="The namespace of table names without one.")
]
InCatalog = Annotated[str | None, typer.Option("--default-catalog", metavar="CATALOG", help="The catalog of table names without one.")]
Folder = Annotated[str | None, typer.Option("--location", metavar="DIR", help="The view's folder.")]
WithoutDialect = Annotated[list[str] | None, typer.Option("--drop-dialect", metavar="NAME", help="A dialect to drop; may be repeated.")]
VersionId = Annotated[int, typer.Argument(metavar="VERSION", help="The id of a version of the view.", show_default=False)]
MetadataFile = Annotated[str, typer.Argument(metavar="METADATA_FILE", help="The view's metadata file.", show_default=False)]


@app.command("list")
@looks_at_catalog
def list_views(opened: Catalog, namespace: Namespace = "") -> Reportable:
    """List views."""
    return look.view_listing(opened, opened.levels(namespace) if namespace else ())


@app.command("show")
@looks_at_catalog
def show_view(opened: Catalog, name: ViewName) -> Reportable:
    """Show a view: its columns, its SQL by dialect, its versions and when each was current."""
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
) -> Reportable:
    """Create a view of a SELECT statement."""
    view = opened.create_view(
        name,
        _statement(sql, file),
        None if schema is None else columns_from_text(schema),
        dialect=dialect,
        default_namespace=default_namespace,
        default_catalog=default_catalog,
        properties=properties_of(properties),
        location=location,
    )
    return look.view_history(view)


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
) -> Reportable:
    """Replace a view's statement in one dialect, as a new version; other dialects and settings are unchanged."""
    view = opened.load_view(name)
    new_properties = properties_of(properties)
    with view.replace_version() as version:
        version.with_properties(new_properties)
        if sql is not None or file is not None or not (drop_dialect or schema or default_namespace or default_catalog or new_properties):
            version.with_query(dialect, _statement(sql, file))
        for dropped_dialect in drop_dialect or ():
            version.without_dialect(dropped_dialect)
        if schema is not None:
            version.with_schema(columns_from_text(schema))
        if default_namespace is not None:
            version.with_default_namespace(default_namespace)
        if default_catalog is not None:
            version.with_default_catalog(default_catalog)
    return look.view_history(view)


@app.command("rollback")
@looks_at_catalog
def rollback_view(opened: Catalog, name: ViewName, version: VersionId) -> Reportable:
    """Make an older version current again."""
    view = opened.load_view(name)
    view.rollback_to_version(version)
    return look.view_history(view)


@app.command("rename")
@looks_at_catalog
def rename_view(opened: Catalog, name: ViewName, new_name: NewName) -> Reportable:
    """Rename a view; its files are not moved."""
    return look.view_history(opened.rename_view(name, new_name))


@app.command("drop")
@looks_at_catalog
def drop_view(opened: Catalog, name: ViewName) -> Reportable:
    """Drop a view. Its files remain, and `register` can restore it; the dropped view is shown."""
    view = opened.load_view(name)
    opened.drop_view(name)
    print_message(f"dropped {view.full_name}; its metadata file remains: {view.metadata_location}")
    return look.view_history(view)


@app.command("register")
@looks_at_catalog
def register_view(opened: Catalog, name: ViewName, metadata_file: MetadataFile) -> Reportable:
    """Register a view that exists as a metadata file."""
    return look.view_history(opened.register_view(name, metadata_file))


def _statement(sql: str | None, file: str | None) -> str:
    if (sql is None) == (file is None):
        raise InvalidInputError("exactly one SELECT statement is required", next_step="pass it with --sql, or its file with --file")
    if sql is not None:
        return sql
    if file == "-":
        return sys.stdin.read().strip()
    try:
        return Path(str(file)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoSuchFileError(f"the statement cannot be read from {file}: {error}", next_step="check --file") from error
