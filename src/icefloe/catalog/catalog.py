"""`Catalog`: namespaces and tables by name, over any pointer store; views are `catalog_views.py`. `load_catalog` finds one by its configuration.

Where the names and pointers are kept is `icefloe.catalog_store`; configuration is `catalog_config.py`. Spec: Table Metadata; Metastore Tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.catalog.catalog_config import is_true
from icefloe.catalog.catalog_transaction import CatalogTransaction
from icefloe.catalog.catalog_views import CatalogViews
from icefloe.catalog.unused_options import warn_of_options
from icefloe.catalog_store.catalog_store import CatalogStore
from icefloe.catalog_store.identifier import Identifier, dotted, to_identifier
from icefloe.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidPropertyError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageFullError,
    StoragePermissionError,
    TableAlreadyExistsError,
    UnfinishedDropError,
)
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.location_policy import LocationPolicy
from icefloe.io.locations import join, qualified
from icefloe.kernel.commit.replace_table import ReplaceTable
from icefloe.kernel.metadata.new_table import new_table_metadata
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_properties import property_texts
from icefloe.kernel.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_spec_from_text
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.schema.arrow_schema import to_schema
from icefloe.kernel.schema.schema import Schema
from icefloe.table.commits.commit_loop import delete_quietly
from icefloe.table.expiry.purge_table import PurgeReport, purge_table
from icefloe.table.own_location import warn_of_places
from icefloe.table.table import Table
from icefloe.table.table_handle import (
    LoadedMetadata,
    RandomIds,
    SystemClock,
    TableHandle,
    load_metadata,
    metadata_content,
    new_metadata_location,
    read_metadata_at,
)

Name = str | Iterable[str]

# Properties of a catalog that its new tables get unless they are given others, and those that they get in any case. JAVA: CatalogProperties.
TABLE_DEFAULT_PREFIX = "table-default."
TABLE_OVERRIDE_PREFIX = "table-override."
UNIQUE_TABLE_LOCATION = "unique-table-location"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceChange:
    """What `update_namespace_properties` did, by property name."""

    removed: tuple[str, ...]
    updated: tuple[str, ...]
    missing: tuple[str, ...]


class Catalog(CatalogViews):
    """Tables and views by name. Names are `"namespace.table"` or a tuple of levels."""

    def __init__(self, name: str, store: CatalogStore, properties: Mapping[str, str]) -> None:
        self.name = name
        self.store = store
        self.properties = dict(properties)
        warn_of_options(self.properties, name)

    def create_namespace(self, namespace: Name, properties: Mapping[str, str] | None = None) -> None:
        """Raises `NamespaceAlreadyExistsError`, `InvalidIdentifierError`, `InvalidPropertyError`."""
        self.store.create_namespace(to_identifier(namespace), property_texts(properties or {}, "namespace"))

    def create_namespace_if_not_exists(self, namespace: Name, properties: Mapping[str, str] | None = None) -> None:
        """Creates it unless it is there."""
        try:
            self.create_namespace(namespace, properties)
        except NamespaceAlreadyExistsError:
            return

    def namespace_exists(self, namespace: Name) -> bool:
        try:
            self.store.namespace_properties(to_identifier(namespace))
        except NoSuchNamespaceError:
            return False
        return True

    def list_namespaces(self, namespace: Name = ()) -> list[Identifier]:
        """The namespaces one level below (the top level by default), sorted."""
        return self.store.list_namespaces(to_identifier(namespace) if namespace else ())

    def load_namespace_properties(self, namespace: Name) -> dict[str, str]:
        """Raises `NoSuchNamespaceError`."""
        return self.store.namespace_properties(to_identifier(namespace))

    def update_namespace_properties(
        self, namespace: Name, removals: Iterable[str] = (), updates: Mapping[str, str] | None = None
    ) -> NamespaceChange:
        """Raises `NoSuchNamespaceError`, `InvalidPropertyError`, and `InvalidInputError` where a key is both removed and updated."""
        levels, new = to_identifier(namespace), property_texts(updates or {}, "namespace")
        gone = frozenset(property_texts(dict.fromkeys(removals or (), ""), "namespace"))
        if gone & new.keys():
            raise InvalidInputError(f"{', '.join(sorted(gone & new.keys()))}: both removed and updated", next_step="choose one")
        known = self.store.namespace_properties(levels)
        self.store.update_namespace(levels, removals=gone, updates=new)
        return NamespaceChange(
            removed=tuple(sorted(gone & known.keys())), updated=tuple(sorted(new)), missing=tuple(sorted(gone - known.keys()))
        )

    def drop_namespace(self, namespace: Name) -> None:
        """Raises `NoSuchNamespaceError`, `NamespaceNotEmptyError`."""
        self.store.drop_namespace(to_identifier(namespace))

    def list_tables(self, namespace: Name) -> list[Identifier]:
        """Sorted. Raises `NoSuchNamespaceError`."""
        return self.store.list_tables(to_identifier(namespace))

    def table_exists(self, identifier: Name) -> bool:
        try:
            self.store.load(self.resolve_name(identifier))
        except NoSuchTableError:
            return False
        return True

    def create_table(
        self,
        identifier: Name,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] = UNPARTITIONED_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Creates an empty table. Field ids are given anew from 1, as every implementation does.

        Args:
            schema: an Arrow schema or a `Schema`.
            location: the table's folder; by default `warehouse/namespace/table`.
            partition_spec: a `PartitionSpec` over the schema's ids, or texts such as `["month(time_hour)", "origin"]`.
            properties: table properties; `format-version` chooses 1, 2 (the default) or 3.

        Raises:
            TableAlreadyExistsError: A table has the name already.
            NoSuchNamespaceError: The namespace does not exist.
            InvalidIdentifierError: The name is empty, or the catalog cannot keep it.
            InvalidSchemaError: The schema violates a rule of the format; `problems` lists each field.
            UnsupportedTypeError: A column has a type that Iceberg does not have, or not in this format version.
            InvalidPartitionSpecError: A partition field names a column that does not exist, or a transform that its type does not take.
            InvalidPropertyError: A property has a value that it may not have.
            UnsupportedFormatVersionError: The format version is none that Icefloe reads and writes.
        """
        handle, metadata = self.new_table(
            self.resolve_name(identifier),
            schema,
            location=location,
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        written = new_metadata_location(handle.ids, metadata, previous_location=None)
        self.store.check(handle.identifier, written, metadata)
        handle.io.write(written, metadata_content(metadata))
        published = self._point_at(handle, written)
        if published != written:
            delete_quietly(handle, [written])
        return Table(handle, read_metadata_at(handle.io, published))

    def new_table(
        self,
        identifier: Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] = UNPARTITIONED_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[TableHandle, TableMetadata]:
        """The metadata of a table that is not written yet, and where it will be. Takes and raises what `create_table` does."""
        if self.table_exists(identifier):
            raise TableAlreadyExistsError(
                f"table {dotted(identifier)!r} already exists in catalog {self.name!r}", next_step="load it, or drop it first"
            )
        own_schema, spec = _given_definition(schema, partition_spec, sort_order)
        folder = qualified((location or self._default_location(identifier)).rstrip("/"))
        metadata = new_table_metadata(
            location=folder,
            schema=own_schema,
            spec=spec,
            sort_order=sort_order,
            properties=self._with_configured(properties),
            table_uuid=RandomIds().uuid(),
            now_ms=SystemClock().now_ms(),
        )
        return self._handle(identifier, folder), metadata

    def replace_table(
        self,
        identifier: Name,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] = UNPARTITIONED_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Gives a table another definition and takes its rows away, as one commit. Its identity, its history, its other branches and its tags stay.

        Columns of the same name keep their ids where their type is the same or wider. Properties given are set, others stay, and so does the location where
        none is given. The arguments are those of `create_table`; to put rows in within the same commit, use `transaction().replace_table`.

        Raises:
            NoSuchTableError: The table does not exist.
            CommitConflictError: Other writers won the race too often, or changed the same thing.
            IcefloeError: The new definition is refused for a reason of `create_table`.
        """
        with self.transaction() as transaction:
            made = transaction.replace_table(
                identifier,
                schema,
                location=location,
                partition_spec=partition_spec,
                sort_order=sort_order,
                properties=properties,
            )
        return Table(made.handle, load_metadata(made.handle)) if made.table is None else made.table

    def create_or_replace_table(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> Table:
        """Creates the table, or replaces the one that is there; the arguments are those of `create_table`. Raises what it and `replace_table` do."""
        with self.transaction() as transaction:
            made = transaction.create_or_replace_table(identifier, schema, **options)
        return Table(made.handle, load_metadata(made.handle)) if made.table is None else made.table

    def replacement(
        self,
        base: TableMetadata,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec | Sequence[str] = UNPARTITIONED_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
    ) -> ReplaceTable:
        """The action that `replace_table` commits, for whoever commits it with others. Takes and raises what `replace_table` does."""
        own_schema, spec = _given_definition(schema, partition_spec, sort_order)
        return ReplaceTable(
            base,
            schema=own_schema,
            spec=spec,
            sort_order=sort_order,
            location=None if location is None else qualified(location.rstrip("/")),
            properties=self._with_configured(properties),
            new_uuid=RandomIds().uuid(),
        )

    def _point_at(self, handle: TableHandle, location: str) -> str:
        try:
            return self.store.create(handle.identifier, location)
        except (NoSuchNamespaceError, AlreadyExistsError, StoragePermissionError, StorageFullError):
            delete_quietly(handle, [location])
            raise

    def create_table_if_not_exists(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> Table:
        """Loads the table where it is there already."""
        try:
            return self.create_table(identifier, schema, **options)
        except TableAlreadyExistsError:
            return self.load_table(identifier)

    def load_table(self, identifier: Name) -> Table:
        """Raises `NoSuchTableError`, `NoSuchFileError`, `MetadataFormatError`."""
        name = self.resolve_name(identifier)
        location = self.store.load(name).metadata_location
        handle = self._handle(name, location)
        return Table(handle, read_metadata_at(handle.io, location))

    def load_tables(self, *identifiers: Name) -> list[Table]:
        """Several tables as they were at one moment, in the order asked for: a commit to several is seen whole or not at all. Raises as `load_table`."""
        names = [self.resolve_name(identifier) for identifier in identifiers]
        tables = []
        for pointer in self.store.load_all(names):
            handle = self._handle(pointer.identifier, pointer.metadata_location)
            tables.append(Table(handle, read_metadata_at(handle.io, pointer.metadata_location)))
        return tables

    def transaction(self) -> CatalogTransaction:
        """Changes of several tables as one commit, all or none:

        `with catalog.transaction() as tx: tx.load_table("db.a").append(rows); tx.load_table("db.b").delete("day = 3")`
        """
        return CatalogTransaction(self)

    def register_table(self, identifier: Name, metadata_location: str) -> Table:
        """Makes a name for a table that exists as files. Raises `TableAlreadyExistsError`, `NoSuchFileError`, `MetadataFormatError`.

        A warning is logged where the metadata claims a location, or paths for new files, that the catalog does not vouch for: see `docs/security.md`.
        """
        name = self.resolve_name(identifier)
        metadata_location = qualified(metadata_location)
        handle = self._handle(name, metadata_location)
        loaded = read_metadata_at(handle.io, metadata_location)
        self.store.check(name, metadata_location, loaded.metadata)
        warn_of_places(handle, loaded.metadata, metadata_location)
        published = self.store.create(name, metadata_location)
        return Table(handle, LoadedMetadata(location=published, metadata=loaded.metadata))

    def rename_table(self, from_identifier: Name, to_identifier: Name) -> Table:
        """Changes the name; files stay where they are. Raises `NoSuchTableError`, `NoSuchNamespaceError`, `TableAlreadyExistsError`."""
        source, target = self.resolve_name(from_identifier), self.resolve_name(to_identifier)
        self.store.rename(source, target)
        return self.load_table(target)

    def drop_table(self, identifier: Name, purge: bool = False, *, allow_outside: Iterable[str] = ()) -> PurgeReport | None:
        """Removes the name; every file stays, so `register_table` can bring the table back. With `purge` as `purge_table`. Raises `NoSuchTableError`."""
        if purge:
            return self.purge_table(identifier, allow_outside=allow_outside)
        self.store.drop(self.resolve_name(identifier))
        return None

    def purge_table(self, identifier: Name, *, allow_outside: Iterable[str] = ()) -> PurgeReport:
        """Removes the name, and then deletes every file that a snapshot of the table reaches. The report says what could not be read or deleted.

        Args:
            allow_outside: folders outside the table's location whose files may be deleted too. Without it such files stay, and the report names them.

        Raises:
            NoSuchTableError: The table does not exist.
            InvalidInputError: the table's property `gc.enabled` is false: other tables may need its files. Nothing was changed.
            NoSuchFileError, MetadataFormatError: its metadata cannot be read. Nothing was changed.
            CommitConflictError: other writers committed to it again and again. Nothing was changed.
        """
        name = self.resolve_name(identifier)
        try:
            location = self.store.load(name).metadata_location
        except UnfinishedDropError:
            self.store.drop(name)
            return PurgeReport(table=dotted(name))
        return purge_table(self._handle(name, location), allow_outside)

    def _handle(self, identifier: Identifier, location: str) -> TableHandle:
        return TableHandle(
            identifier=identifier,
            store=self.store,
            io=load_file_io(self.properties, location),
            policy=LocationPolicy.of(self.properties),
        )

    def _with_configured(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """Return the properties of a table that is created or replaced: the catalog's defaults, those given, the catalog's overrides; the last one wins."""
        own = property_texts(given or {})
        return {**self._prefixed(TABLE_DEFAULT_PREFIX), **own, **self._prefixed(TABLE_OVERRIDE_PREFIX)}

    def _default_location(self, identifier: Identifier) -> str:
        *namespace, table = identifier
        if is_true(self.properties, UNIQUE_TABLE_LOCATION):
            table = f"{table}-{RandomIds().uuid().replace('-', '')}"
        own = self.store.namespace_properties(tuple(namespace)).get("location")
        if own:
            return join(own, table)
        warehouse = self.properties.get("warehouse")
        if not warehouse:
            raise InvalidPropertyError(
                f"catalog {self.name!r} has no warehouse, so {dotted(identifier)!r} has no place",
                next_step="give the catalog a `warehouse` folder, or pass location=",
            )
        return join(warehouse, *namespace, table)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


def _given_definition(
    schema: Schema | pa.Schema, partition_spec: PartitionSpec | Sequence[str], sort_order: SortOrder
) -> tuple[Schema, PartitionSpec]:
    own_schema = to_schema(schema)
    texts = [partition_spec] if isinstance(partition_spec, str) else partition_spec
    spec = texts if isinstance(texts, PartitionSpec) else partition_spec_from_text(own_schema, list(texts))
    if not isinstance(sort_order, SortOrder):
        raise InvalidInputError(
            f"a sort order of type {type(sort_order).__qualname__} is not understood",
            next_step="pass a SortOrder, or create the table and then use table.update_sort_order()",
        )
    return own_schema, spec
