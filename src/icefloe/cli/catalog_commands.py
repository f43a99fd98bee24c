"""The commands `create`, `describe`, `rename`, `register`, `drop` and `namespace ...`, which change what a catalog contains.

Spec: Table Metadata Fields; Metastore Tables.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.catalog.new_namespace import NewNamespace
from icefloe.cli.command_group import PlainGroup
from icefloe.cli.failure_output import AFTER_DROP, state_after_interrupt
from icefloe.cli.layout_text import comma_separated, schema_from_options, sort_order_from_texts
from icefloe.cli.property_commands import Action, ActionFirst, Words, changed_properties
from icefloe.cli.screen import confirm, print_message
from icefloe.cli.shared_options import Properties, complete_name, properties_of
from icefloe.cli.table_command import creates_in_catalog, looks_at_catalog
from icefloe.display.report import Column, Facts, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError, NoSuchNamespaceError, NoSuchTableError, in_one_line
from icefloe.formatting import count_text
from icefloe.inspect.branches_and_tags import Properties as PropertyView
from icefloe.operations.expiry.expire_report import outcome_fields
from icefloe.operations.expiry.purge_table import PurgeReport
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.database_uri import without_password


class Kind(StrEnum):
    """The kinds of things that a name in a catalog can refer to."""

    TABLE = "table"
    VIEW = "view"
    NAMESPACE = "namespace"


namespace_app = typer.Typer(help="Namespaces: list, create, show, change and drop them.", no_args_is_help=True, cls=PlainGroup)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A table, a view or a namespace.", show_default=False, autocompletion=complete_name)
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table", show_default=False)]
OldName = Annotated[str, typer.Argument(metavar="NAME", help="The table or view.", show_default=False, autocompletion=complete_name)]
NewName = Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name, namespace.name.", show_default=False)]
NamespaceName = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace; levels are joined by dots.", show_default=False)]
Parent = Annotated[str, typer.Argument(metavar="[NAMESPACE]", help="Only namespaces below this one.", show_default=False)]
MetadataFile = Annotated[str, typer.Argument(metavar="METADATA_FILE", help="The table's metadata file.", show_default=False)]
Columns = Annotated[
    str | None,
    typer.Option("--schema", metavar="COLUMNS", help='The columns, such as "id long not null, name string, tags list<string>".'),
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema-file", metavar="FILE", help="A Parquet file, a schema in JSON or a metadata file, whose columns the table gets."
    ),
]
Partition = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="FIELD", help='Partition by this, such as "month(time)" or "bucket(16, id)"; may be repeated.'),
]
Sort = Annotated[
    list[str] | None,
    typer.Option("--sort", metavar="KEY", help='Sort rows of new files by this, such as "time desc nulls last"; may be repeated.'),
]
FormatVersion = Annotated[int | None, typer.Option("--format-version", metavar="N", help="1, 2 or 3; 2 by default.")]
Location = Annotated[str | None, typer.Option("--location", metavar="DIR", help="The table's folder; by default one in the warehouse.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Change nothing if the name exists.")]
KindOption = Annotated[Kind | None, typer.Option("--type", help="What the name refers to, where several things have it.")]
Purge = Annotated[bool, typer.Option("--purge", help="Also delete the files of the table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
AllowOutside = Annotated[
    list[str] | None,
    typer.Option("--allow-outside", metavar="FOLDER", help="With --purge, also delete files in this folder outside the table's location."),
]
Folder = Annotated[str | None, typer.Option("--location", metavar="DIR", help="The parent folder of its tables.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceOverview(Reportable):
    """A namespace: its properties, and the full names of its tables, views and namespaces."""

    name: str
    properties: Mapping[str, str]
    namespaces: tuple[str, ...]
    tables: tuple[str, ...]
    views: tuple[str, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        counts = (("namespaces", self.namespaces), ("tables", self.tables), ("views", self.views))
        parts: list[Part] = [Facts(tuple((name, count_text(len(names))) for name, names in counts))]
        if self.properties:
            parts.append(Facts(tuple(sorted(self.properties.items())), "properties"))
        parts += [grid("", (Column(name, whole=True),), [(text,) for text in names], most) for name, names in counts if names]
        return Report(f"namespace {self.name}", tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceList(Reportable):
    """Namespaces with their properties and the number of their tables."""

    catalog: str
    namespaces: tuple[NamespaceOverview, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        rows = [(item.name, count_text(len(item.tables)), count_text(len(item.views))) for item in self.namespaces]
        columns = (Column("namespace", whole=True), Column("tables", is_number=True), Column("views", is_number=True))
        return Report(f"namespaces of {self.catalog}", (grid("", columns, rows, most),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Reportable):
    """The result of dropping a table, view or namespace.

    `restored_by` is the command that restores a table whose files remain; None otherwise. `deleted` lists the files that a purge deleted.
    """

    type: str
    name: str
    metadata_location: str | None = None
    restored_by: str | None = None
    purged: bool = False
    deleted: PurgeReport

    def report(self, most: int | None = MOST_LINES) -> Report:
        parts: list[Part] = []
        if self.metadata_location is not None and not self.purged:
            parts.append(Facts((("files", "all remain"),)))
        if self.restored_by is not None:
            parts.append(Prose(f"  restored by: {self.restored_by}", whole=True))
        return Report(f"dropped {self.type} {self.name}", (*parts, *self.deleted.report(most).parts))

    def to_dict(self) -> dict[str, Any]:
        """Return every field, with the files that a purge deleted."""
        names = ("type", "name", "metadata_location", "restored_by", "purged")
        return {**{name: getattr(self, name) for name in names}, **outcome_fields(self.deleted)}


@creates_in_catalog
def create(
    opened: Catalog,
    name: TableName,
    schema: Columns = None,
    schema_file: SchemaFile = None,
    partition: Partition = None,
    sort: Sort = None,
    properties: Properties = None,
    format_version: FormatVersion = None,
    location: Location = None,
    if_not_exists: IfNotExists = False,
) -> Reportable:
    """Create an empty table, and its namespace if that does not exist."""
    identifier = opened.resolve_name(name)
    if if_not_exists and opened.table_exists(identifier):
        print_message(f"{dotted(identifier)} exists; nothing was changed")
        return look.table(opened.load_table(identifier))
    columns = schema_from_options(schema, schema_file, opened.properties)
    table_properties = properties_of(properties)
    if format_version is not None:
        table_properties["format-version"] = str(format_version)
    order = sort_order_from_texts(columns, comma_separated(sort))
    namespace = NewNamespace(opened, identifier[:-1])
    with namespace.dropped_on_error():
        table = namespace.create_for(
            lambda: opened.create_table(
                identifier,
                columns,
                location=location,
                partition_spec=comma_separated(partition),
                sort_order=order,
                properties=table_properties,
            )
        )
    if namespace.is_created:
        print_message(f"created the namespace {dotted(namespace.name)}")
    return look.table(table)


@looks_at_catalog
def describe(opened: Catalog, name: Name, kind: KindOption = None) -> Reportable:
    """Describe a table, a view or a namespace."""
    match _kind_of(opened, name, kind):
        case Kind.TABLE:
            return look.table(opened.load_table(name))
        case Kind.VIEW:
            return look.view_history(opened.load_view(name))
        case Kind.NAMESPACE:
            return _namespace(opened, opened.levels(name))


@looks_at_catalog
def rename(opened: Catalog, name: OldName, new_name: NewName) -> Reportable:
    """Rename a table or a view; its files are not moved."""
    opened.resolve_name(new_name)
    if _kind_of(opened, name, None, kinds=(Kind.TABLE, Kind.VIEW)) is Kind.VIEW:
        return look.view_history(opened.rename_view(name, new_name))
    return look.table(opened.rename_table(name, new_name))


@looks_at_catalog
def register(opened: Catalog, name: TableName, metadata_file: MetadataFile) -> Reportable:
    """Register a table that exists as files, such as a dropped one."""
    return look.table(opened.register_table(name, metadata_file))


@looks_at_catalog
def drop(
    opened: Catalog,
    ctx: typer.Context,
    name: Name,
    purge: Purge = False,
    yes: Yes = False,
    kind: KindOption = None,
    allow_outside: AllowOutside = None,
) -> Reportable:
    """Drop a table, a view or an empty namespace. Without --purge every file remains, and `icefloe register` restores a table."""
    kind_of_name = _kind_of(opened, name, kind)
    if purge and kind_of_name is not Kind.TABLE:
        raise InvalidInputError(f"--purge deletes the files of a table, and {name} is a {kind_of_name}", next_step="omit --purge")
    if not yes:
        files = "" if kind_of_name is not Kind.TABLE else " and delete its files" if purge else ", whose files remain"
        confirm(in_one_line(f"drop the {kind_of_name} {name}{files}"))
    location, report, restored_by = None, None, None
    if kind_of_name is Kind.TABLE:
        location = opened.load_table(name).metadata_location if not purge else None
        with state_after_interrupt(AFTER_DROP):
            report = opened.drop_table(name, purge=purge, allow_outside=allow_outside or ())
        restored_by = _register_command(name, location, ctx.params) if location else None  # a server need not name the metadata file
    elif kind_of_name is Kind.VIEW:
        location = opened.load_view(name).metadata_location
        opened.drop_view(name)
    else:
        opened.drop_namespace(name)
    full_name = dotted(opened.levels(name))
    return Dropped(
        type=str(kind_of_name),
        name=full_name,
        metadata_location=location,
        restored_by=restored_by,
        purged=purge,
        deleted=report or PurgeReport(table=full_name),
    )


@namespace_app.command("list")
@looks_at_catalog
def list_namespaces(opened: Catalog, namespace: Parent = "") -> Reportable:
    """List the namespaces one level below another; the top level by default."""
    names = opened.list_namespaces(namespace or ())
    return NamespaceList(catalog=opened.name, namespaces=tuple(_namespace(opened, name) for name in names))


@namespace_app.command("create")
@creates_in_catalog
def create_namespace(
    opened: Catalog, namespace: NamespaceName, properties: Properties = None, location: Folder = None, if_not_exists: IfNotExists = False
) -> Reportable:
    """Create a namespace."""
    own = properties_of(properties)
    if location is not None:
        own["location"] = location
    if if_not_exists:
        opened.create_namespace_if_not_exists(namespace, own)
    else:
        opened.create_namespace(namespace, own)
    return _namespace(opened, opened.levels(namespace))


@namespace_app.command("show")
@looks_at_catalog
def show_namespace(opened: Catalog, namespace: NamespaceName) -> Reportable:
    """Show a namespace: its properties, tables, views and the namespaces in it."""
    return _namespace(opened, opened.levels(namespace))


@namespace_app.command("properties", cls=ActionFirst)
@looks_at_catalog
def namespace_properties(opened: Catalog, namespace: NamespaceName, action: Action = None, words: Words = None) -> Reportable:
    """Show a namespace's properties, or print, set or remove some."""
    identifier = opened.levels(namespace)

    def update(removals: list[str], updates: dict[str, str]) -> None:
        opened.update_namespace_properties(identifier, removals, updates)

    def property_view() -> Reportable:
        return PropertyView(table=dotted(identifier), properties=dict(sorted(opened.load_namespace_properties(identifier).items())))

    return changed_properties(action, words, dotted(identifier), opened.load_namespace_properties(identifier), update, property_view)


@namespace_app.command("drop")
@looks_at_catalog
def drop_namespace(opened: Catalog, namespace: NamespaceName, yes: Yes = False) -> Reportable:
    """Drop an empty namespace."""
    identifier = opened.levels(namespace)
    opened.load_namespace_properties(identifier)
    if not yes:
        confirm(in_one_line(f"drop the namespace {dotted(identifier)}"))
    opened.drop_namespace(identifier)
    return Dropped(type=str(Kind.NAMESPACE), name=dotted(identifier), deleted=PurgeReport(table=dotted(identifier)))


def _kind_of(opened: Catalog, name: str, stated: Kind | None, *, kinds: tuple[Kind, ...] = tuple(Kind)) -> Kind:
    """Return whether a name refers to a table, a view or a namespace.

    Args:
        opened: The catalog.
        name: The name.
        stated: The kind that the user stated; None if not stated.
        kinds: The kinds that are considered.

    Raises:
        NoSuchTableError, NoSuchViewError, NoSuchNamespaceError: Nothing has the name.
        InvalidInputError: Several things have the name, and `stated` is None.
    """
    if stated is not None:
        return stated
    levels = opened.levels(name)
    has_table_name = len(levels) > 1 or bool(opened.default_namespace)
    exists = {
        Kind.TABLE: lambda: has_table_name and opened.table_exists(name),
        Kind.VIEW: lambda: has_table_name and opened.keeps_views and opened.view_exists(name),
        Kind.NAMESPACE: lambda: opened.namespace_exists(levels),
    }
    matching = [kind for kind in kinds if exists[kind]()]
    if len(matching) > 1:
        raise InvalidInputError(f"{name} is a {' and a '.join(matching)}", next_step=f"choose one with --type {'|'.join(matching)}")
    if matching:
        return matching[0]
    if not has_table_name and Kind.NAMESPACE in kinds:
        namespaces = ", ".join(map(dotted, opened.list_namespaces())) or "none"
        raise NoSuchNamespaceError(f"there is no namespace {name!r} in catalog {opened.name!r}", next_step=f"there are: {namespaces}")
    opened.load_table(name)  # raises an error that lists the tables of the namespace
    raise NoSuchTableError(f"there is no {' or '.join(kinds)} {name!r} in catalog {opened.name!r}", table=name)


def _namespace(opened: Catalog, name: Identifier) -> NamespaceOverview:
    return NamespaceOverview(
        name=dotted(name),
        properties=opened.load_namespace_properties(name),
        namespaces=tuple(map(dotted, opened.list_namespaces(name))),
        tables=tuple(map(dotted, opened.list_tables(name))),
        views=tuple(map(dotted, opened.list_views(name))) if opened.keeps_views else (),
    )


def _register_command(name: str, metadata_location: str, options: Mapping[str, Any]) -> str:
    """Return the command that registers a dropped table again, with the catalog options of the drop. A password in them is not shown."""
    catalog = [
        text
        for option in ("catalog", "uri", "warehouse")
        if (value := options[option]) is not None
        for text in (f"--{option}", without_password(value) if "://" in value else value)
    ]
    return shlex.join(["icefloe", "register", name, metadata_location, *catalog])
