"""`GlueCatalog`: a catalog in the AWS Glue Data Catalog, shared with Java's GlueCatalog, PyIceberg, Athena and EMR."""

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.options import check_names
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.glue_store import GlueCatalogStore
from icefloe.stores.metastore_store import folder_of_database


class GlueCatalog(Catalog):
    """A catalog in the AWS Glue Data Catalog: `GlueCatalog(name, warehouse="s3://bucket/warehouse", **{"glue.region": "eu-central-1"})`.

    Credentials come from the properties, else from the environment of this machine. A new table is in the folder of its database if that has one, else in
    `warehouse/<database>.db/<table>`.
    """

    store: GlueCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        store = GlueCatalogStore(name, properties, load_file_io(properties, properties.get("warehouse")))
        super().__init__(name, store, properties)

    def warehouse_folder(self, namespace: Identifier) -> str | None:
        """Return `warehouse/<database>.db`, as Java's GlueCatalog and PyIceberg name it. See `Catalog.warehouse_folder`."""
        return folder_of_database(self.properties, dotted(namespace))
