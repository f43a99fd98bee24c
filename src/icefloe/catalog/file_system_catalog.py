"""`FileSystemCatalog`: tables as folders of a warehouse, as Java's HadoopCatalog keeps them. Spec: File System Tables."""

from collections.abc import Mapping
from dataclasses import replace

from icefloe.catalog.catalog import UNIQUE_TABLE_LOCATION, Catalog
from icefloe.catalog.catalog_config import is_true
from icefloe.catalog.catalog_transaction import CatalogTransaction
from icefloe.catalog.options import check_names
from icefloe.errors import InvalidPropertyError, UnsupportedFeatureError
from icefloe.io.file_io_by_scheme import SchemeFileIO, load_file_io
from icefloe.io.local_folders import LocalFolders
from icefloe.io.locations import LocationPolicy, is_same_folder, qualify, scheme_of
from icefloe.io.object_folders import ObjectFolders
from icefloe.io.object_store_file_io import CREATES_EXCLUSIVELY, PROTOCOLS
from icefloe.operations.metadata_cache import load_metadata
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.file_system_store import FileSystemCatalogStore
from icefloe.stores.object_store_tables import ObjectStoreTables
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table


class FileSystemCatalog(Catalog):
    """A catalog of folders: `FileSystemCatalog(name, warehouse="/folder")`.

    A table is the folder `warehouse/namespace/table`, on this machine or in an object store. If several writers create the same version of a table, exactly one
    succeeds. The name of a table is that of its folder: a table cannot be renamed or moved, and `drop_table` deletes all its files.

    Raises:
        InvalidPropertyError: there is no property `warehouse`.
        UnsupportedFeatureError: the warehouse is in a storage without exclusive creation of files, such as HDFS.
    """

    store: FileSystemCatalogStore

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        warehouse = properties.get("warehouse")
        if not warehouse:
            raise InvalidPropertyError(f"catalog {name!r} has no warehouse", next_step="give it one, such as warehouse=/folder")
        is_local = scheme_of(warehouse) == "file"
        if not is_local and PROTOCOLS.get(scheme_of(warehouse), ("", None))[0] not in CREATES_EXCLUSIVELY:
            raise UnsupportedFeatureError(
                f"the warehouse {warehouse} of catalog {name!r} is neither a folder of this machine nor in S3, Google Cloud Storage or Azure",
                next_step="use a SQL catalog, which is safe over any storage",
            )
        folder = qualify(warehouse.rstrip("/"))
        if is_true(properties, UNIQUE_TABLE_LOCATION):
            raise InvalidPropertyError(
                f"catalog {name!r} keeps a table in the folder of its name, which {UNIQUE_TABLE_LOCATION} does not allow",
                next_step=f"leave {UNIQUE_TABLE_LOCATION} out, or use a SQL catalog",
            )
        io = load_file_io({**properties, "warehouse": folder}, folder)
        if is_local or not isinstance(io, SchemeFileIO):
            store = FileSystemCatalogStore(name, folder, io, LocalFolders())
        else:
            store = ObjectStoreTables(name, folder, io, ObjectFolders(io))
        super().__init__(name, store, {**properties, "warehouse": folder})

    @classmethod
    def table_at(cls, folder: str, properties: Mapping[str, str] | None = None) -> Table | StaticTable:
        """Return the table in a folder, as Java's HadoopTables opens it.

        The table can be written if its metadata files are named `v<N>.metadata.json` and its metadata has the folder as location. Otherwise it was moved or
        copied, and is read-only.

        Args:
            folder: the folder; it need not be in a warehouse.
            properties: catalog properties, such as the credentials of the storage.

        Returns:
            The table.

        Raises:
            InvalidInputError: the folder contains no table, or a table that belongs to a catalog.
            NoSuchFileError, MetadataFormatError: a metadata file is missing or damaged.
        """
        static_table = StaticTable.from_metadata(folder, properties)
        location = static_table.metadata.location.rstrip("/")
        if scheme_of(folder) != "file" or not is_same_folder(location, folder):
            return static_table
        location = qualify(location)
        warehouse, namespace, name = location.rsplit("/", 2)
        catalog = cls("path", **{**(properties or {}), "warehouse": warehouse or "/"})
        # The caller did not choose the parent folder as a warehouse, so files in it are not trusted.
        catalog_properties = properties or {}
        handle = replace(
            catalog._handle((namespace, name), static_table.metadata_location),
            io=load_file_io(catalog_properties, static_table.metadata_location),
            policy=LocationPolicy.of(catalog_properties),
        )
        return Table(handle, load_metadata(handle))

    def transaction(self) -> CatalogTransaction:
        """Start a transaction of one table, such as its creation and its first rows. Its methods raise `UnsupportedFeatureError` for a second table.

        Returns:
            The transaction, which is committed at the end of its `with` block.
        """
        return OneTableTransaction(self)

    def _default_location(self, identifier: Identifier) -> str:
        return self.store.table_location(identifier)


class OneTableTransaction(CatalogTransaction):
    """A transaction of one table: a file system cannot publish the metadata files of several tables in one step."""

    def _check_member(self, name: Identifier) -> None:
        if any(member != name for member in self._members):
            raise UnsupportedFeatureError(
                f"the transaction holds {dotted(next(iter(self._members)))} already, and {dotted(name)} cannot be committed with it: "
                "a catalog in a file system cannot commit several tables at once",
                next_step="use a SQL catalog, or one transaction for each table",
            )
