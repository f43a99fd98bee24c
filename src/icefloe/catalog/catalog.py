"""`Catalog`: tables by name, over any catalog store. Its methods for namespaces are in `catalog_namespaces.py`, for views in `catalog_views.py`.

`load_catalog` opens a catalog; `catalog_config.py` reads its configuration. `icefloe.stores` stores names and metadata locations. Spec: Table Metadata;
Metastore Tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icefloe.catalog.catalog_base import CatalogBase, Name
from icefloe.catalog.catalog_config import is_true
from icefloe.catalog.catalog_namespaces import CatalogNamespaces
from icefloe.catalog.catalog_transaction import CatalogTransaction, CreateTableTransaction
from icefloe.catalog.catalog_views import CatalogViews
from icefloe.catalog.unused_options import warn_of_options
from icefloe.commit.replace_table import ReplaceTable
from icefloe.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidPropertyError,
    NoSuchNamespaceError,
    StorageFullError,
    StoragePermissionError,
    TableAlreadyExistsError,
    UnfinishedDropError,
)
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import LocationPolicy, join, qualify
from icefloe.io.manifest_cache import CacheSettings
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.expiry.purge_table import PurgeReport, purge_table
from icefloe.operations.metadata_cache import LoadedMetadata, has_no_file, load_metadata, metadata_of, read_metadata_at
from icefloe.operations.own_location import warn_of_places
from icefloe.operations.table_handle import RandomIds, SystemClock, TableHandle, metadata_content, new_metadata_location
from icefloe.spec.identifier import Identifier, dotted, to_identifier, to_table_identifier
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_spec_from_text
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.ports import FileIO, StorageAccess
from icefloe.spec.schema.arrow_schema import to_schema
from icefloe.spec.schema.schema import Schema
from icefloe.stores.catalog_store import CatalogStore, TableLocation, name_exists
from icefloe.stores.replace_location import replace_location
from icefloe.table.table import Table

# Prefixes of catalog properties: defaults of properties of new tables, and values that override those of the caller. JAVA: CatalogProperties.
TABLE_DEFAULT_PREFIX = "table-default."
TABLE_OVERRIDE_PREFIX = "table-override."
UNIQUE_TABLE_LOCATION = "unique-table-location"
# The catalog property with the namespace of names that have no namespace, its levels joined with dots.
DEFAULT_NAMESPACE = "default-namespace"


class Catalog(CatalogViews, CatalogNamespaces, CatalogBase):
    """Tables and views by name. Names are `"namespace.table"` or a tuple of levels."""

    def __init__(self, name: str, store: CatalogStore, properties: Mapping[str, str]) -> None:
        self.name = name
        self.store = store
        self.properties = dict(properties)
        CacheSettings.of(self.properties)  # so that a wrong value is refused now, not by the first scan
        warn_of_options(self.properties, name)

    @property
    def default_namespace(self) -> Identifier:
        """The namespace of names that have no namespace: the property `default-namespace`; empty if it is not set."""
        text = self.properties.get(DEFAULT_NAMESPACE)
        return self.levels(text) if text else ()

    def resolve_name(self, name: Name) -> Identifier:
        """Return the levels of a table's or view's name; a name without a namespace is in the default namespace.

        Args:
            name: the name, `"namespace.name"` or a tuple of levels.

        Raises:
            InvalidIdentifierError: the name is empty, or it has no namespace and the catalog has no default namespace.
        """
        parts = to_identifier(name, of_server=self.has_names_of_server)
        full = (*self.default_namespace, *parts) if len(parts) == 1 else parts
        return to_table_identifier(full, of_server=self.has_names_of_server)

    def list_tables(self, namespace: Name) -> list[Identifier]:
        """Return the tables of a namespace, sorted.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
        """
        return self.store.list_tables(self.levels(namespace))

    def table_exists(self, identifier: Name) -> bool:
        """Return whether a table exists.

        Args:
            identifier: its name, `"namespace.name"` or a tuple of levels.
        """
        return name_exists(self.store, self.resolve_name(identifier))

    def create_table(
        self,
        identifier: Name,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] | None = UNPARTITIONED_SPEC,
        sort_order: SortOrder | None = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Create an empty table. Field ids are assigned again, from 1, as in other implementations.

        Args:
            identifier: the table's name.
            schema: an Arrow schema or a `Schema`.
            location: the table's folder; by default `warehouse/namespace/table`.
            partition_spec: a `PartitionSpec` over the schema's ids, or texts such as `["month(time_hour)", "origin"]`; None for an unpartitioned table.
            sort_order: a `SortOrder` over the schema's ids; None for no order.
            properties: table properties; `format-version` chooses 1, 2 (the default) or 3.

        Returns:
            The table.

        Raises:
            TableAlreadyExistsError: the name is taken.
            NoSuchNamespaceError: the namespace does not exist.
            InvalidIdentifierError: the name is empty, or the catalog cannot store it.
            InvalidSchemaError: the schema violates a rule of the format; `problems` lists each field.
            UnsupportedTypeError: a column has a type that Iceberg does not have, or does not have in this format version.
            InvalidPartitionSpecError: the source column of a partition field does not exist, or its type does not support the transform.
            InvalidPropertyError: a property has a value that it cannot have.
            UnsupportedFormatVersionError: Icefloe does not write this format version.
        """
        name = self.resolve_name(identifier)
        return self._create(
            name, self._first_metadata(name, schema, location, partition_spec, sort_order, properties), location, properties
        )

    def _create(self, name: Identifier, metadata: TableMetadata, location: str | None, properties: Mapping[str, str] | None) -> Table:
        """Create a table from its first metadata. `location` and `properties` are the folder and the properties that the user chose."""
        del location, properties  # they are in the metadata
        handle = self._handle(name, metadata.location)
        written = new_metadata_location(handle.ids, metadata, previous_location=None)
        self.store.check(handle.identifier, written, metadata)
        handle.io.write(written, metadata_content(metadata))
        published = self._create_name(handle, written)
        if published != written:
            delete_quietly(handle, [written])
        return Table(handle, read_metadata_at(handle.io, published))

    def create_table_transaction(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> CreateTableTransaction:
        """Create a table together with its first rows, in one commit: `with catalog.create_table_transaction(...) as tx: tx.append(rows)`.

        Args:
            identifier: the table's name.
            schema: as for `create_table`.
            **options: the other arguments of `create_table`.

        Returns:
            The transaction, which is committed at the end of its `with` block.

        Raises:
            IcefloeError: as for `create_table`.
        """
        return CreateTableTransaction(*self.new_table(self.resolve_name(identifier), schema, **options), None)

    def new_table(
        self,
        identifier: Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] | None = UNPARTITIONED_SPEC,
        sort_order: SortOrder | None = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[TableHandle, TableMetadata]:
        """Return the handle of a new table, and its first metadata, which is not written yet.

        Args:
            identifier: the levels of the table's name.
            schema: as for `create_table`.
            location: as for `create_table`.
            partition_spec: as for `create_table`.
            sort_order: as for `create_table`.
            properties: as for `create_table`.

        Raises:
            IcefloeError: as for `create_table`.
        """
        metadata = self._first_metadata(identifier, schema, location, partition_spec, sort_order, properties)
        return self._prepare(identifier, metadata, location, properties)

    def _prepare(
        self, name: Identifier, metadata: TableMetadata, location: str | None, properties: Mapping[str, str] | None
    ) -> tuple[TableHandle, TableMetadata]:
        """Return the handle and the first metadata of a table that its first commit will create. The arguments are those of `_create`."""
        del location, properties  # they are in the metadata
        return self._handle(name, metadata.location), metadata

    def _first_metadata(
        self,
        name: Identifier,
        schema: Schema | pa.Schema,
        location: str | None,
        partition_spec: PartitionSpec | Sequence[str] | None,
        sort_order: SortOrder | None,
        properties: Mapping[str, str] | None,
    ) -> TableMetadata:
        folder = self._folder_of_new_table(name, location)
        table_schema, spec, order = _definition(schema, partition_spec, sort_order)
        return new_table_metadata(
            location=folder,
            schema=table_schema,
            spec=spec,
            sort_order=order,
            properties=self.configured_properties(properties),
            table_uuid=RandomIds().uuid(),
            now_ms=SystemClock().now_ms(),
        )

    def _folder_of_new_table(self, name: Identifier, location: str | None) -> str:
        """Return the folder of a table that is to be created: `location`, or the default for the name. Raises `TableAlreadyExistsError`."""
        if self.table_exists(name):
            raise TableAlreadyExistsError(
                f"table {dotted(name)!r} already exists in catalog {self.name!r}",
                table=dotted(name),
                next_step="load it, or drop it first",
            )
        return qualify((location or self._default_location(name)).rstrip("/"))

    def replace_table(
        self,
        identifier: Name,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] | None = UNPARTITIONED_SPEC,
        sort_order: SortOrder | None = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Replace a table's definition and remove its rows from `main`, as one commit. Its UUID, its history, and its other branches and tags stay.

        A column keeps its id if its name is the same, and its type is the same or wider. The given properties are set, others stay. To write rows within the
        same commit, use `transaction().replace_table`.

        Args:
            identifier: the table's name.
            schema: as for `create_table`.
            location: the table's folder; by default it stays.
            partition_spec: as for `create_table`.
            sort_order: as for `create_table`.
            properties: table properties to set.

        Returns:
            The table.

        Raises:
            NoSuchTableError: the table does not exist.
            CommitConflictError: other writers won every retry, or changed the same thing.
            IcefloeError: `create_table` would refuse the new definition too, with the same error.
        """
        with self.transaction() as transaction:
            replaced = transaction.replace_table(
                identifier,
                schema,
                location=location,
                partition_spec=partition_spec,
                sort_order=sort_order,
                properties=properties,
            )
        return Table(replaced.handle, load_metadata(replaced.handle)) if replaced.table is None else replaced.table

    def create_or_replace_table(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> Table:
        """Create a table, or replace the existing one. Raises the errors of `create_table` and `replace_table`.

        Args:
            identifier: the table's name.
            schema: as for `create_table`.
            **options: the other arguments of `create_table`.

        Returns:
            The table.
        """
        with self.transaction() as transaction:
            replaced = transaction.create_or_replace_table(identifier, schema, **options)
        return Table(replaced.handle, load_metadata(replaced.handle)) if replaced.table is None else replaced.table

    def replacement(
        self,
        base: TableMetadata,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] | None = UNPARTITIONED_SPEC,
        sort_order: SortOrder | None = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> ReplaceTable:
        """Return the action that `replace_table` commits, for callers that commit it together with other actions.

        Args:
            base: the metadata of the table to replace.
            schema: as for `replace_table`.
            location: as for `replace_table`.
            partition_spec: as for `replace_table`.
            sort_order: as for `replace_table`.
            properties: as for `replace_table`.

        Raises:
            IcefloeError: as for `replace_table`.
        """
        table_schema, spec, order = _definition(schema, partition_spec, sort_order)
        return ReplaceTable(
            base,
            schema=table_schema,
            spec=spec,
            sort_order=order,
            location=None if location is None else qualify(location.rstrip("/")),
            properties=self.configured_properties(properties),
            new_uuid=RandomIds().uuid(),
        )

    def _create_name(self, handle: TableHandle, location: str) -> str:
        try:
            return self.store.create(handle.identifier, location)
        except (NoSuchNamespaceError, AlreadyExistsError, StoragePermissionError, StorageFullError):
            delete_quietly(handle, [location])
            raise

    def create_table_if_not_exists(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> Table:
        """Create a table, or load the existing one.

        Args:
            identifier: the table's name.
            schema: as for `create_table`.
            **options: the other arguments of `create_table`.

        Returns:
            The table.

        Raises:
            IcefloeError: as for `create_table` and `load_table`.
        """
        try:
            return self.create_table(identifier, schema, **options)
        except TableAlreadyExistsError:
            return self.load_table(identifier)

    def load_table(self, identifier: Name) -> Table:
        """Load a table.

        Args:
            identifier: the table's name.

        Returns:
            The table with its current metadata.

        Raises:
            NoSuchTableError: the table does not exist.
            NoSuchFileError, MetadataFormatError: its metadata file is missing or damaged.
        """
        return self._table_at(self.store.load(self.resolve_name(identifier)))

    def _table_at(self, stored: TableLocation) -> Table:
        """Return the table for an entry that the store returned."""
        handle = self._handle_at(stored)
        return Table(handle, metadata_of(handle.io, stored))

    def _handle_at(self, stored: TableLocation) -> TableHandle:
        """Return the handle for an entry that the store returned."""
        location = stored.metadata_location
        if isinstance(stored.metadata, TableMetadata) and has_no_file(location):
            # A server that sends the metadata itself may leave out the location of its file, or send one that only the server can read.
            location = join(stored.metadata.location, "metadata", "unnamed.metadata.json")
        return replace(self._handle(stored.identifier, location, stored.access), planner=stored.planner)

    def handle_of(self, identifier: Name) -> tuple[TableHandle, str]:
        """Return the handle of a table and the location of its metadata file. The file is not read, so that it may be missing or damaged.

        Args:
            identifier: the table's name.

        Returns:
            The handle, and the location of the metadata file.

        Raises:
            NoSuchTableError: the table does not exist.
        """
        stored = self.store.load(self.resolve_name(identifier))
        return self._handle_at(stored), stored.metadata_location

    def new_handle(self, identifier: Name, location: str) -> TableHandle:
        """Return the handle of a table that is to be created from metadata of the caller.

        Args:
            identifier: the table's name.
            location: the table's folder.

        Raises:
            InvalidIdentifierError: the name is empty, or the catalog cannot store it.
            LocationNotAllowedError: the catalog's configuration does not allow the folder.
        """
        return self._handle(self.resolve_name(identifier), location)

    def load_tables(self, *identifiers: Name) -> list[Table]:
        """Load several tables as they were at one moment: of a commit to several of them, either all changes are seen or none.

        Args:
            *identifiers: the tables' names.

        Returns:
            The tables, in the order of the names.

        Raises:
            IcefloeError: as for `load_table`.
        """
        names = [self.resolve_name(identifier) for identifier in identifiers]
        return [self._table_at(stored) for stored in self.store.load_all(names)]

    def transaction(self) -> CatalogTransaction:
        """Start a transaction: changes of several tables in one commit, which is applied to all of them or to none.

        `with catalog.transaction() as tx: tx.load_table("db.a").append(rows); tx.load_table("db.b").delete("day = 3")`

        Returns:
            The transaction, which is committed at the end of its `with` block.
        """
        return CatalogTransaction(self)

    def register_table(self, identifier: Name, metadata_location: str, overwrite: bool = False) -> Table:
        """Add an existing table to the catalog, by the location of its metadata file.

        A warning is logged if the table's location, or a folder for its new files, is one that the catalog's configuration does not allow: see
        `docs/security.md`.

        Args:
            identifier: the table's name.
            metadata_location: its metadata file.
            overwrite: whether the name may be that of an existing table, which then loses the name. The files of the existing table stay.

        Returns:
            The table.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
            TableAlreadyExistsError: the name is taken.
            CommitConflictError: with `overwrite`, another writer committed to the table of this name meanwhile.
            NoSuchFileError, MetadataFormatError: the file is missing or damaged.
        """
        return self._register(self.resolve_name(identifier), qualify(metadata_location), overwrite)

    def _register(self, name: Identifier, metadata_location: str, overwrite: bool) -> Table:
        handle = self._handle(name, metadata_location)
        loaded = read_metadata_at(handle.io, metadata_location)
        self.store.check(name, metadata_location, loaded.metadata)
        warn_of_places(handle, loaded.metadata, metadata_location)
        replaces = overwrite and self.table_exists(name)
        published = replace_location(self.store, name, metadata_location) if replaces else self.store.create(name, metadata_location)
        return Table(handle, LoadedMetadata(location=published, metadata=loaded.metadata))

    def rename_table(self, from_identifier: Name, to_identifier: Name) -> Table:
        """Change a table's name; its files stay where they are.

        Args:
            from_identifier: the present name.
            to_identifier: the new name.

        Returns:
            The table.

        Raises:
            NoSuchTableError, NoSuchNamespaceError: the table or the new namespace does not exist.
            TableAlreadyExistsError: the new name is taken.
            UnsupportedFeatureError: the catalog cannot rename tables, because their names are those of folders.
        """
        source, target = self.resolve_name(from_identifier), self.resolve_name(to_identifier)
        self._rename(source, target)
        return self.load_table(target)

    def _rename(self, source: Identifier, target: Identifier) -> None:
        self.store.rename(source, target)

    def drop_table(self, identifier: Name, purge: bool = False, *, allow_outside: Iterable[str] = ()) -> PurgeReport | None:
        """Remove a table's name; every file stays, so that `register_table` can restore the table. Only a `FileSystemCatalog` deletes the files.

        Args:
            identifier: the table's name.
            purge: also delete the table's files, as `purge_table` does.
            allow_outside: as for `purge_table`.

        Returns:
            The report of `purge_table`; None without `purge`.

        Raises:
            NoSuchTableError: the table does not exist.
            IcefloeError: with `purge`, as for `purge_table`.
        """
        if purge:
            return self.purge_table(identifier, allow_outside=allow_outside)
        self.store.drop(self.resolve_name(identifier))
        return None

    def purge_table(self, identifier: Name, *, allow_outside: Iterable[str] = ()) -> PurgeReport:
        """Remove a table's name, and then delete every file that one of its snapshots refers to.

        Args:
            identifier: the table's name.
            allow_outside: folders outside the table's location whose files may be deleted too. Other files outside the location stay, and the report lists
                them.

        Returns:
            The files deleted, and those that could not be read or deleted.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidInputError: the table's property `gc.enabled` is false: other tables may need its files. Nothing was changed.
            NoSuchFileError, MetadataFormatError: its metadata cannot be read. Nothing was changed.
            CommitConflictError: other writers kept committing to the table. Nothing was changed.
        """
        name = self.resolve_name(identifier)
        try:
            handle, _ = self.handle_of(name)
        except UnfinishedDropError:
            self.store.drop(name)
            return PurgeReport(table=dotted(name))
        return purge_table(handle, allow_outside)

    def configured_properties(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """Return the properties of a new table. The given ones override the catalog's defaults, and the catalog's overrides override both.

        Raises:
            InvalidPropertyError: a name is not a string, or a value is not a string, number or boolean.
        """
        own = property_texts(given or {})
        return {**self._properties_with(TABLE_DEFAULT_PREFIX), **own, **self._properties_with(TABLE_OVERRIDE_PREFIX)}

    def _handle(self, identifier: Identifier, location: str, access: StorageAccess | None = None) -> TableHandle:
        return TableHandle(identifier=identifier, store=self.store, io=self._file_io(location, access), policy=self.location_policy())

    def _file_io(self, location: str, access: StorageAccess | None = None) -> FileIO:
        return load_file_io(self.properties, location, access=access)

    def location_policy(self) -> LocationPolicy:
        """Return the policy of the catalog's configuration: in which locations files may be read and written."""
        return LocationPolicy.of(self.properties)

    def _default_location(self, identifier: Identifier) -> str:
        *namespace, table = identifier
        if is_true(self.properties, UNIQUE_TABLE_LOCATION):
            table = f"{table}-{RandomIds().uuid().replace('-', '')}"
        own = self.store.namespace_properties(tuple(namespace)).get("location")
        if own:
            return join(own, table)
        folder = self.warehouse_folder(tuple(namespace))
        if folder is None:
            raise InvalidPropertyError(
                f"catalog {self.name!r} has no warehouse, so {dotted(identifier)!r} has no place",
                next_step="give the catalog a `warehouse` folder, or pass location=",
            )
        return join(folder, table)

    def warehouse_folder(self, namespace: Identifier) -> str | None:
        """Return the parent folder of new tables in a namespace that has no property `location`; None for a catalog without a warehouse.

        Args:
            namespace: the levels of the namespace, which need not exist.
        """
        warehouse = self.properties.get("warehouse")
        return join(warehouse, *namespace) if warehouse else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


def _definition(
    schema: Schema | pa.Schema, partition_spec: PartitionSpec | Sequence[str] | None, sort_order: SortOrder | None
) -> tuple[Schema, PartitionSpec, SortOrder]:
    """Return the schema, partition spec and sort order of a new table; None becomes the unpartitioned spec or the unsorted order."""
    table_schema = to_schema(schema)
    texts = [partition_spec] if isinstance(partition_spec, str) else () if partition_spec is None else partition_spec
    spec = texts if isinstance(texts, PartitionSpec) else partition_spec_from_text(table_schema, list(texts))
    order = UNSORTED_SORT_ORDER if sort_order is None else sort_order
    if not isinstance(order, SortOrder):
        raise InvalidInputError(
            f"a sort order of type {type(order).__qualname__} is not understood",
            next_step="pass a SortOrder, or create the table and then use table.update_sort_order()",
        )
    return table_schema, spec, order
