"""Contents of a catalog: the rows of its database, and a listing of its namespaces, tables and views.

Spec: Metastore Tables.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icefloe.catalog.catalog import Catalog
from icefloe.display.report import Column, Facts, Grid, Outline, Prose, Report, grid, outline
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import UnsupportedFeatureError
from icefloe.formatting import count_text
from icefloe.lazy_imports import lazy_module
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.database_uri import without_password
from icefloe.stores.namespace_tree import namespaces_below

if TYPE_CHECKING:
    from icefloe.stores import sql_store
else:
    sql_store = lazy_module("icefloe.stores.sql_store")

# The longest value in characters with which a catalog's rows are shown as a grid; longer values would make it hard to read.
LONGEST_CELL = 40


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogContents(Reportable):
    """A SQL catalog: its database, and all rows of its database tables, including rows of other catalogs in the same database."""

    name: str
    uri: str  # without the password, if it has one
    warehouse: str | None
    tables: Mapping[str, tuple[Mapping[str, Any], ...]]

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = Facts((("database", self.uri), ("warehouse", self.warehouse or "none")))
        return Report(f"catalog {self.name}", (facts, *(part for name, rows in self.tables.items() for part in _rows(name, rows, most))))


def catalog(source: Catalog) -> CatalogContents:
    """Return the rows of a SQL catalog's database.

    Args:
        source: The catalog.

    Returns:
        The rows of each database table, by the name of the table.

    Raises:
        StorageError: The database cannot be read.
        UnsupportedFeatureError: The catalog does not use an SQL database.
    """
    store = source.store
    if not isinstance(store, sql_store.SqlCatalogStore):
        raise UnsupportedFeatureError(f"catalog {source.name!r} has no database", next_step="list its tables instead")
    return CatalogContents(
        name=source.name,
        uri=without_password(store.uri),
        warehouse=source.properties.get("warehouse"),
        tables={name: tuple(rows) for name, rows in store.rows().items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceContents:
    """A namespace with the full dotted names of its tables and views."""

    name: str
    properties: Mapping[str, str]
    tables: tuple[str, ...]
    views: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogListing(Reportable):
    """The namespaces of a catalog, including nested ones, with their tables and views."""

    name: str
    namespaces: tuple[NamespaceContents, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        if not self.namespaces:
            return Report("", (Prose(f"catalog {self.name} has no namespaces"),))
        spaces = [
            outline(
                space.name, _contents_text(space), [*map(Outline, space.tables), *(Outline(view, "view") for view in space.views)], most
            )
            for space in self.namespaces
        ]
        return Report("", (outline(f"catalog {self.name}", count_text(len(spaces), "namespace"), spaces, most),))


def listing(source: Catalog) -> CatalogListing:
    """Return the namespaces, tables and views of a catalog.

    Args:
        source: The catalog.

    Returns:
        All namespaces, each with the full dotted names of its tables and views.

    Raises:
        StorageError: The database or storage of the catalog failed.
    """
    namespaces: list[NamespaceContents] = []
    for namespace in namespaces_below(source.list_namespaces):
        namespaces.append(
            NamespaceContents(
                name=dotted(namespace),
                properties=source.load_namespace_properties(namespace),
                tables=tuple(dotted(table) for table in source.list_tables(namespace)),
                views=tuple(dotted(view) for view in source.list_views(namespace)) if source.keeps_views else (),
            )
        )
    return CatalogListing(name=source.name, namespaces=tuple(namespaces))


def _contents_text(space: NamespaceContents) -> str:
    return ", ".join([count_text(len(space.tables), "table"), *([count_text(len(space.views), "view")] if space.views else [])])


def _rows(name: str, rows: tuple[Mapping[str, Any], ...], most: int | None) -> list[Facts | Grid]:
    """Return the rows of one database table as a grid, or one below the other if their values are too long for a grid."""
    title = f"{name} ({count_text(len(rows), 'row')})"
    cells = [tuple("NULL" if value is None else str(value) for value in row.values()) for row in rows]
    if all(len(cell) <= LONGEST_CELL for row in cells for cell in row):
        columns = tuple(Column(column) for column in rows[0]) if rows else (Column("no rows"),)
        return [grid(title, columns, cells, most)]
    shown = cells if most is None else cells[:most]
    parts: list[Facts | Grid] = [
        Facts(tuple(zip(rows[0], row, strict=True)), f"{title}, row {number}") for number, row in enumerate(shown, start=1)
    ]
    return parts if len(shown) == len(rows) else [*parts, Grid("", (), (), len(rows) - len(shown))]


def table_names(catalog: Catalog, namespace: str) -> Iterator[Identifier]:
    """Yield the identifiers of the tables in a namespace and the namespaces below it; of all tables of the catalog if the namespace is empty.

    Raises:
        NoSuchNamespaceError: The namespace does not exist.
    """
    if namespace:
        catalog.load_namespace_properties(namespace)
        yield from catalog.list_tables(namespace)
    for below in namespaces_below(catalog.list_namespaces, catalog.levels(namespace) if namespace else ()):
        yield from catalog.list_tables(below)
