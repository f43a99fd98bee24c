"""`OtherCatalogs`: the other catalogs in the same database, which messages mention, because a catalog that is opened by a wrong name has no tables."""

import logging

from sqlalchemy import Connection, select

from icefloe.errors import in_one_line
from icefloe.stores.sql_schema import ICEBERG_TABLES, NAMESPACE_PROPERTIES

LOG = logging.getLogger(__name__)
# The maximum of names in a message.
_SHOWN = 10


def catalog_names(connection: Connection) -> list[str]:
    """Return the sorted names of all catalogs in a database that have a table, a view or a namespace."""
    columns = (ICEBERG_TABLES.c.catalog_name, NAMESPACE_PROPERTIES.c.catalog_name)
    return sorted({row[0] for column in columns for row in connection.execute(select(column).distinct())})


class OtherCatalogs:
    """The other catalogs in the database of a catalog. The user is warned of them once."""

    def __init__(self, name: str) -> None:
        """Create the object for the catalog `name`."""
        self._name = name
        self._has_warned = False

    def suffix(self, connection: Connection) -> str:
        """Return a text about other catalogs, to append to an error about a missing name, and warn as `warn` does. The text is empty if there are none."""
        listed = self._names_of_others(catalog_names(connection))
        self.warn(connection)
        return f"; other catalogs in this database: {listed}" if listed else ""

    def warn(self, connection: Connection, *, of_full_ones: bool = False) -> None:
        """Log once that there are other catalogs, if this catalog is empty, because its name is probably wrong.

        Args:
            connection: A connection to the database.
            of_full_ones: Whether to warn even if this catalog has tables.
        """
        if self._has_warned:
            return
        names = catalog_names(connection)
        listed = self._names_of_others(names)
        if not listed or (self._name in names and not of_full_ones):
            return
        self._has_warned = True
        first = in_one_line(next(name for name in names if name != self._name))
        LOG.warning(
            "catalog %r is %s; its database holds tables of other catalogs: %s. Next: give the catalog that name, "
            "by load_catalog(%r, ...) or the setting spark.sql.catalog.%s=icefloe, or open the folder with icefloe.open(...)",
            self._name,
            "not the only one" if self._name in names else "empty",
            listed,
            first,
            first,
        )

    def _names_of_others(self, names: list[str]) -> str:
        others = [in_one_line(name) for name in names if name != self._name]
        return ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
