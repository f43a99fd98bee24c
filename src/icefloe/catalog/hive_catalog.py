"""`HiveCatalog`: a catalog in a Hive metastore, shared with Java's HiveCatalog, PyIceberg, Trino and Hive."""

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.options import check_names
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import qualify
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.hive_store import HiveCatalogStore
from icefloe.stores.metastore_store import folder_of_database


class HiveCatalog(Catalog):
    """A catalog in a Hive metastore: `HiveCatalog(name, uri="thrift://host:9083", warehouse="s3://bucket/warehouse")`.

    A new table is in the folder of its database. A database that is created without a `location` gets the folder `warehouse/<database>.db`; without a
    `warehouse`, the metastore chooses the folder.
    """

    store: HiveCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        if properties.get("warehouse"):
            properties["warehouse"] = qualify(properties["warehouse"])
        store = HiveCatalogStore(name, properties, load_file_io(properties, properties.get("warehouse")))
        super().__init__(name, store, properties)

    def warehouse_folder(self, namespace: Identifier) -> str | None:
        """Return the folder of a database that is created without a `location`. See `Catalog.warehouse_folder`."""
        return folder_of_database(self.properties, dotted(namespace))
