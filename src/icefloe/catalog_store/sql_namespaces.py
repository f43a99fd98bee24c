"""`SqlNamespaces`: namespaces as rows of properties, and the names in them.

A namespace exists if it has a row of its own, a table, or a namespace below it. Tables are `sql_store.py`. Spec: Metastore Tables.
"""

import logging
from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select
from sqlalchemy.exc import IntegrityError

from icefloe.catalog_store.identifier import Identifier, dotted
from icefloe.catalog_store.sql_database import SqlDatabase
from icefloe.catalog_store.sql_schema import ICEBERG_TABLES, NAMESPACE_EXISTS, NAMESPACE_PROPERTIES
from icefloe.errors import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchNamespaceError, in_one_line

LOG = logging.getLogger(__name__)
# Names of other catalogs that a message lists at most.
_SHOWN_CATALOGS = 10


class SqlNamespaces(SqlDatabase):
    """The namespaces of catalog `name`."""

    _has_warned_of_catalogs = False

    def catalog_names(self) -> list[str]:
        """Return the names of all catalogs in the database that have a table, a view or a namespace, sorted."""
        with self.connection() as connection:
            return self._catalog_names(connection)

    def _catalog_names(self, connection: Connection) -> list[str]:
        columns = (ICEBERG_TABLES.c.catalog_name, NAMESPACE_PROPERTIES.c.catalog_name)
        return sorted({row[0] for column in columns for row in connection.execute(select(column).distinct())})

    def other_catalogs(self, connection: Connection) -> str:
        """Return the end of an error about a missing name: the other catalogs of the database; empty if there are none.

        If this catalog is empty and others are not, its name is probably wrong: that is logged once.
        """
        names = self._catalog_names(connection)
        others = [in_one_line(name) for name in names if name != self.name]
        if not others:
            return ""
        listed = ", ".join(others[:_SHOWN_CATALOGS]) + (", ..." if len(others) > _SHOWN_CATALOGS else "")
        if self.name not in names and not self._has_warned_of_catalogs:
            self._has_warned_of_catalogs = True
            LOG.warning(
                "catalog %r is empty; its database holds tables of other catalogs: %s. Next: give the catalog that name, "
                "by load_catalog(%r, ...) or the setting spark.sql.catalog.%s=icefloe, or open the folder with icefloe.open(...)",
                self.name,
                listed,
                others[0],
                others[0],
            )
        return f"; other catalogs in this database: {listed}"

    def _namespace_properties_of(self, namespace: str) -> ColumnElement[bool]:
        return and_(NAMESPACE_PROPERTIES.c.catalog_name == self.name, NAMESPACE_PROPERTIES.c.namespace == namespace)

    def _all_namespaces(self, connection: Connection) -> set[Identifier]:
        """Return every namespace with a row of its own, a table, or a namespace below it."""
        tables = select(ICEBERG_TABLES.c.table_namespace).where(ICEBERG_TABLES.c.catalog_name == self.name).distinct()
        owned = select(NAMESPACE_PROPERTIES.c.namespace).where(NAMESPACE_PROPERTIES.c.catalog_name == self.name).distinct()
        leaves = {tuple(row[0].split(".")) for query in (tables, owned) for row in connection.execute(query)}
        return {leaf[:depth] for leaf in leaves for depth in range(1, len(leaf) + 1)}

    def require_namespace(self, connection: Connection, namespace: Identifier) -> None:
        """Check that a namespace exists. Raises `NoSuchNamespaceError`."""
        if namespace not in self._all_namespaces(connection):
            known = ", ".join(sorted(map(dotted, self._all_namespaces(connection)))) or "none yet"
            raise NoSuchNamespaceError(
                f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
                next_step=f"create it with create_namespace({dotted(namespace)!r}); there are: {known}{self.other_catalogs(connection)}",
            )

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """See `CatalogStore.list_namespaces`."""
        with self.connection() as connection:
            if parent:
                self.require_namespace(connection, parent)
            depth = len(parent) + 1
            namespaces = self._all_namespaces(connection)
            if not namespaces:
                self.other_catalogs(connection)
            return sorted(name for name in namespaces if len(name) == depth and name[: depth - 1] == parent)

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """See `CatalogStore.namespace_properties`."""
        with self.connection() as connection:
            self.require_namespace(connection, namespace)
            rows = connection.execute(
                select(NAMESPACE_PROPERTIES.c.property_key, NAMESPACE_PROPERTIES.c.property_value).where(
                    self._namespace_properties_of(dotted(namespace))
                )
            )
            return {key: value for key, value in rows if key != NAMESPACE_EXISTS}

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """See `CatalogStore.create_namespace`."""
        exists = NamespaceAlreadyExistsError(f"namespace {dotted(namespace)!r} already exists in catalog {self.name!r}")
        try:
            with self.connection() as connection:
                if namespace in self._all_namespaces(connection):
                    raise exists
                connection.execute(insert(NAMESPACE_PROPERTIES), self._rows(namespace, {NAMESPACE_EXISTS: "true", **properties}))
        except IntegrityError as error:
            raise exists from error

    def _rows(self, namespace: Identifier, properties: Mapping[str, str]) -> list[dict[str, str]]:
        table = NAMESPACE_PROPERTIES.name
        for key, value in properties.items():
            self.check_length(table, "property_key", key, f"the key of a property of namespace {dotted(namespace)!r}")
            self.check_length(table, "property_value", str(value), f"property {key!r} of namespace {dotted(namespace)!r}")
        return [
            {"catalog_name": self.name, "namespace": dotted(namespace), "property_key": key, "property_value": str(value)}
            for key, value in properties.items()
        ]

    def drop_namespace(self, namespace: Identifier) -> None:
        """See `CatalogStore.drop_namespace`."""
        with self.connection() as connection:
            self.require_namespace(connection, namespace)
            below = [
                name for name in self._all_namespaces(connection) if len(name) > len(namespace) and name[: len(namespace)] == namespace
            ]
            rows = connection.execute(
                select(ICEBERG_TABLES.c.table_name).where(
                    ICEBERG_TABLES.c.catalog_name == self.name, ICEBERG_TABLES.c.table_namespace == dotted(namespace)
                )
            ).all()
            if rows or below:
                held = [row[0] for row in rows] + [dotted(name) for name in below]
                raise NamespaceNotEmptyError(
                    f"namespace {dotted(namespace)!r} is not empty: it holds {', '.join(sorted(held)[:5])}", next_step="drop these first"
                )
            connection.execute(delete(NAMESPACE_PROPERTIES).where(self._namespace_properties_of(dotted(namespace))))

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        """See `CatalogStore.update_namespace`."""
        with self.connection() as connection:
            self.require_namespace(connection, namespace)
            gone = removals | set(updates) | {NAMESPACE_EXISTS}
            connection.execute(
                delete(NAMESPACE_PROPERTIES).where(
                    self._namespace_properties_of(dotted(namespace)), NAMESPACE_PROPERTIES.c.property_key.in_(gone)
                )
            )
            connection.execute(insert(NAMESPACE_PROPERTIES), self._rows(namespace, {NAMESPACE_EXISTS: "true", **updates}))
