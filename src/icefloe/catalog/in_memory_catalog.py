"""`InMemoryCatalog`: a catalog that lives in this process, for tests and notebooks."""

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.options import check_names
from icefloe.operations.table_handle import RandomIds
from icefloe.stores.memory_store import MemoryCatalogStore


class InMemoryCatalog(Catalog):
    """`InMemoryCatalog(name)`. Names exist as long as this object, and files as long as the process, unless `warehouse` is a folder.

    Spark's tasks are other processes and do not see files in memory: give a `warehouse` to use Spark.
    """

    store: MemoryCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        # Catalogs of one name must not meet in each other's files.
        given = {"warehouse": f"memory://{name}-{RandomIds().uuid()}", **properties}
        super().__init__(name, MemoryCatalogStore(name), given)
