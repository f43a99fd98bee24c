"""`InMemoryCatalog`: a catalog that lives in this process, for tests and notebooks."""

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.options import check_names
from icefloe.operations.table_handle import RandomIds
from icefloe.stores.memory_store import MemoryCatalogStore


class InMemoryCatalog(Catalog):
    """A catalog in the memory of this process: `InMemoryCatalog(name)`.

    Names are lost with this object, and files at the end of the process, unless `warehouse` is a folder. Spark's tasks are other processes, and cannot read
    files in this process's memory: pass a `warehouse` to use Spark.
    """

    store: MemoryCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        # Two catalogs with the same name must not share files.
        given = {"warehouse": f"memory://{name}-{RandomIds().uuid()}", **properties}
        super().__init__(name, MemoryCatalogStore(name), given)
