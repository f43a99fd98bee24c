"""`SqlCatalog`: a catalog in a SQL database, shared with Java's JdbcCatalog and PyIceberg's SqlCatalog."""

from collections.abc import Mapping

from sqlalchemy import Engine

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_config import is_true
from icefloe.catalog.options import check_names
from icefloe.errors import InvalidPropertyError
from icefloe.stores.catalog_store import SCHEMA_VERSION
from icefloe.stores.sql_store import SqlCatalogStore


class SqlCatalog(Catalog):
    """A catalog in a SQL database: `SqlCatalog(name, uri="sqlite:////folder/catalog.db", warehouse="/folder")`.

    It creates its database tables when it is opened, if they are missing. If another implementation created them without the column for views, the catalog has
    no views; with `jdbc.schema-version=V1` the column is added.

    Two catalogs in one database are kept apart by `name`: use the same name to share tables.

    Raises:
        InvalidPropertyError: there is no `uri`, or it names no database.
        StorageError: the database cannot be opened.
    """

    store: SqlCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        uri = properties.get("uri")
        if not uri:
            raise InvalidPropertyError(f"catalog {name!r} has no uri", next_step="give it one, such as sqlite:////folder/catalog.db")
        store = SqlCatalogStore(
            name,
            uri,
            echo=is_true(properties, "echo"),
            add_types=_wants_views(properties),
            creates_tables=is_true(properties, "init_catalog_tables", default=True),
        )
        super().__init__(name, store, properties)

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine of the database."""
        return self.store.engine

    def create_tables(self) -> None:
        """Create the two database tables of the catalog if they are missing. Opening a catalog does this too, unless `init_catalog_tables` is false."""
        self.store.create_tables()

    def destroy_tables(self) -> None:
        """Drop the two database tables, and so the names of all catalogs in the database. Files of Iceberg tables stay."""
        self.store.drop_tables()

    def close(self) -> None:
        """Close the connections to the database; the next use opens new ones."""
        self.store.engine.dispose()


def _wants_views(properties: Mapping[str, str]) -> bool:
    """Return whether to add the column for views if the database tables lack it. Raises `InvalidPropertyError`."""
    schema_version = str(properties.get(SCHEMA_VERSION, "V0")).upper()
    if schema_version not in ("V0", "V1"):
        raise InvalidPropertyError(
            f"the catalog property {SCHEMA_VERSION} is {properties[SCHEMA_VERSION]!r}", next_step="set it to V0 or V1"
        )
    return schema_version == "V1"
