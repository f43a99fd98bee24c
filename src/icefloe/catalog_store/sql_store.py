"""`SqlCatalogStore`: the catalog pointer in a SQL database, through SQLAlchemy Core; SQLite by default.

It joins the database and its connections (`sql_database.py`), namespaces (`sql_namespaces.py`), and the names of tables and views with the swap of a pointer
(`sql_names.py`). The database's tables are `sql_schema.py`. Spec: Metastore Tables.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from icefloe.catalog_store.catalog_store import LocationChange, TableLocation
from icefloe.catalog_store.identifier import Identifier
from icefloe.catalog_store.sql_names import TABLE_NAMES, VIEW_NAMES, SqlNames
from icefloe.catalog_store.sql_namespaces import SqlNamespaces
from icefloe.catalog_store.sql_schema import ICEBERG_TABLES, NAMESPACE_PROPERTIES
from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.commit.outcome import Outcome
from icefloe.kernel.metadata.table_metadata import TableMetadata

# The property that asks for the column that views need. Origin: Java's JDBC catalog.
SCHEMA_VERSION = "jdbc.schema-version"


class SqlCatalogStore(SqlNamespaces):
    """Tables and namespaces of catalog `name` in the database at `uri` (an SQLAlchemy URL)."""

    drops_files = False

    def __init__(self, name: str, uri: str, *, echo: bool = False, add_types: bool = False, creates_tables: bool = True) -> None:
        """See `SqlDatabase`."""
        super().__init__(name, uri, echo=echo, add_types=add_types, creates_tables=creates_tables)
        self._tables = SqlNames(self, TABLE_NAMES)

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        return self._tables.names(namespace)

    def load(self, identifier: Identifier) -> TableLocation:
        return self._tables.load(identifier)

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        return self._tables.load_all(identifiers)

    def other_tables(self, identifier: Identifier, naming: str = "") -> list[TableLocation]:
        """See `ListsOtherTables`. Tables of other catalogs in the same database are among them: they share its storage."""
        return self._tables.all_but(identifier, naming)

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:  # noqa: ARG002  any metadata will do
        self._tables.check(identifier, location)

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        return self._tables.create(identifier, metadata_location)

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        return self._tables.swap(identifier, expected=expected, new=new)

    def swap_together(self, changes: Sequence[LocationChange]) -> Outcome:
        return self._tables.swap_together(changes)

    def settle(self, changes: Sequence[LocationChange]) -> Outcome:
        return self._tables.settle(changes)

    def rename(self, source: Identifier, target: Identifier) -> None:
        self._tables.rename(source, target)

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        return self._tables.drop(identifier, expected=expected)

    def views(self) -> SqlNames:
        """The names of views. Raises `UnsupportedFeatureError` where the database was made without the column that tells views from tables."""
        if self.has_types:
            return SqlNames(self, VIEW_NAMES)
        raise UnsupportedFeatureError(
            f"catalog {self.name!r} has no views: its table {ICEBERG_TABLES.name} was made before there were views and lacks the column iceberg_type",
            next_step=f"let its users know, then open the catalog once with {SCHEMA_VERSION}=V1, which adds the column",
        )

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of the two tables, by table name, for people who look inside."""
        with self.connection() as connection:
            shown = {}
            for table in (ICEBERG_TABLES, NAMESPACE_PROPERTIES):
                columns = [c for c in table.columns if self.has_types or c.name != "iceberg_type"]
                shown[table.name] = [dict(row) for row in connection.execute(select(*columns).order_by(*table.primary_key)).mappings()]
        return shown
