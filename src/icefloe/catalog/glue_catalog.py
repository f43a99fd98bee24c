"""`GlueCatalog`: a catalog in the AWS Glue Data Catalog, shared with Java's GlueCatalog, PyIceberg, Athena and EMR."""

from icefloe.catalog.catalog import UNIQUE_TABLE_LOCATION, Catalog
from icefloe.catalog.catalog_config import is_true
from icefloe.catalog.options import check_names
from icefloe.catalog_store.glue_store import GlueCatalogStore
from icefloe.catalog_store.identifier import Identifier
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import join


class GlueCatalog(Catalog):
    """`GlueCatalog(name, warehouse="s3://bucket/warehouse", **{"glue.region": "eu-central-1"})`.

    Credentials come from the properties, else from the machine. A new table is in the folder of its database, else in `warehouse/<database>.db/<table>`.
    """

    store: GlueCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        store = GlueCatalogStore(name, properties, load_file_io(properties, properties.get("warehouse")))
        super().__init__(name, store, properties)

    def _default_location(self, identifier: Identifier) -> str:
        namespace, table = identifier
        warehouse = self.properties.get("warehouse")
        if is_true(self.properties, UNIQUE_TABLE_LOCATION) or not warehouse or "location" in self.store.namespace_properties((namespace,)):
            return super()._default_location(identifier)
        return join(warehouse, f"{namespace}.db", table)
