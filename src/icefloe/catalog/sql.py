"""`SqlCatalog`: a catalog in a SQL database, shared with Java's JdbcCatalog and PyIceberg's SqlCatalog.

Floor: catalog.
"""

from collections.abc import Mapping

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidPropertyError
from icefloe.pointer.sql import SqlPointerStore


class SqlCatalog(Catalog):
    """`SqlCatalog(name, uri="sqlite:////folder/catalog.db", warehouse="/folder")`. The tables it needs are made at first use.

    Two catalogs in one database are kept apart by `name`: use the same name to share tables.

    Raises:
        InvalidPropertyError: there is no `uri`, or it names no database.
        StorageError: the database cannot be opened.
    """

    store: SqlPointerStore

    def __init__(self, name: str, **properties: str) -> None:
        uri = properties.get("uri")
        if not uri:
            raise InvalidPropertyError(f"catalog {name!r} has no uri", next_step="give it one, such as sqlite:////folder/catalog.db")
        super().__init__(name, SqlPointerStore(name, uri, echo=_is_true(properties, "echo")), properties)


def _is_true(properties: Mapping[str, str], key: str) -> bool:
    return str(properties.get(key, "false")).lower() == "true"
