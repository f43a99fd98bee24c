"""`RestCatalog`: a catalog behind the REST catalog protocol, such as Lakekeeper, Polaris, Unity Catalog, Gravitino, S3 Tables or `icefloe serve`.

`icefloe.stores.rest` sends the requests. This module restricts the storage of the server's tables: a server on another machine cannot make this process read or
write files of this machine, and a location is not trusted just because the server sends it. Spec: REST catalog.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_base import Name
from icefloe.catalog.created_tables import CreatedTables
from icefloe.catalog.options import check_names
from icefloe.errors import LocationNotAllowedError
from icefloe.io.file_io_by_scheme import ALLOWED_SCHEMES, load_file_io
from icefloe.io.locations import ALLOWED_LOCATIONS, WAREHOUSE, LocationPolicy, qualify, scheme_of, split_list
from icefloe.operations.expiry.purge_table import PurgeReport
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO, StorageAccess
from icefloe.stores.rest import settings
from icefloe.stores.rest.origins import is_on_this_machine
from icefloe.stores.rest.rest_functions import CatalogFunction, list_functions, load_function
from icefloe.stores.rest.rest_store import RestCatalogStore
from icefloe.stores.rest.rest_views import RestViews
from icefloe.stores.rest.table_access import STORAGE_PREFIXES
from icefloe.table.table import Table
from icefloe.view.view import View
from icefloe.view.view_handle import UNPLACED

# Placeholder for the folder of a new table if the server chooses the folder. It is never sent.
_UNPLACED_TABLE = "memory://unplaced"


class RestCatalog(Catalog):
    """A catalog on a server: `RestCatalog(name, uri="https://host/catalog", warehouse="name", credential="id:secret")`.

    Opening it reads the server's configuration.

    Raises:
        InvalidPropertyError: a property has a wrong value.
        NoSuchCatalogError: the server does not have the warehouse.
        StoragePermissionError, StorageUnavailableError: the server refuses the credentials, or cannot be reached.
    """

    store: RestCatalogStore
    has_names_of_server = True

    def __init__(self, name: str, **properties: str) -> None:
        check_names(properties, name)
        store = RestCatalogStore(name, properties)
        super().__init__(name, store, store.connection.properties)
        self._created = CreatedTables()

    def close(self) -> None:
        """Close the connections to the server; the next use opens new ones."""
        self.store.connection.close()

    def table_exists(self, identifier: Name) -> bool:
        """Return whether a table exists.

        Args:
            identifier: its name, `"namespace.name"` or a tuple of levels.
        """
        return self.store.table_exists(self.resolve_name(identifier))

    def namespace_exists(self, namespace: Name) -> bool:
        """Return whether a namespace exists.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.
        """
        return self.store.namespace_exists(self.levels(namespace))

    def view_exists(self, identifier: Name) -> bool:
        """Return whether a view exists.

        Args:
            identifier: its name, `"namespace.name"` or a tuple of levels.

        Raises:
            UnsupportedFeatureError: the server has no views.
        """
        views = self._views()
        return isinstance(views, RestViews) and views.view_exists(self.resolve_name(identifier))

    def _create(self, name: Identifier, metadata: TableMetadata, location: str | None, properties: Mapping[str, str] | None) -> Table:
        """Create a table, see `Catalog._create`. The server chooses the folder if `location` is None, and writes the metadata file."""
        sent, chosen = self.configured_properties(properties), _sent_location(location)
        stored = self.store.create_table(name, metadata, sent, location=chosen, is_staged=False)
        self._created.add(self._handle_at(stored), stored, chosen)
        return self._table_at(stored)

    def _prepare(
        self, name: Identifier, metadata: TableMetadata, location: str | None, properties: Mapping[str, str] | None
    ) -> tuple[TableHandle, TableMetadata]:
        """Let the server stage the creation of a table, see `Catalog._prepare`."""
        sent, chosen = self.configured_properties(properties), _sent_location(location)
        staged = self.store.create_table(name, metadata, sent, location=chosen, is_staged=True)
        self._created.add(self._handle_at(staged), staged, chosen)
        prepared = staged.metadata
        assert isinstance(prepared, TableMetadata)  # noqa: S101  the store has read it
        return replace(self._handle(name, prepared.location, staged.access), planner=staged.planner), prepared

    def _folder_of_new_table(self, name: Identifier, location: str | None) -> str:  # noqa: ARG002  the server chooses by the name
        """Return a placeholder, which is never sent: the server checks the name, and chooses the folder."""
        return _UNPLACED_TABLE

    def _register(self, name: Identifier, metadata_location: str, overwrite: bool) -> Table:
        """Register a table, see `Catalog._register`. The server reads the metadata file."""
        stored = self.store.register(name, metadata_location, overwrite=overwrite)
        self._created.add_registered(stored, metadata_location)
        return self._table_at(stored)

    def _rename(self, source: Identifier, target: Identifier) -> None:
        super()._rename(source, target)
        self._created.rename(source, target)

    def _handle(self, identifier: Identifier, location: str, access: StorageAccess | None = None) -> TableHandle:
        """Return the handle of a table, see `Catalog._handle`. A folder in which this process created the table counts as the table's own."""
        handle = super()._handle(identifier, location, access)
        return replace(handle, policy=replace(handle.policy, created=self._created.folder(identifier)))

    def register_view(self, identifier: Name, metadata_location: str) -> View:
        """Add an existing view to the catalog, by the location of its metadata file, which the server reads.

        Args:
            identifier: the view's name.
            metadata_location: its metadata file.

        Returns:
            The view.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError: the name is taken.
            UnsupportedFeatureError: the server cannot register views.
            IcefloeError: the server refuses the request.
        """
        name = self.resolve_name(identifier)
        self._views().create(name, qualify(metadata_location))
        return self.load_view(name)

    def list_functions(self, namespace: Name) -> list[Identifier]:
        """List the functions of a namespace.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.

        Returns:
            Their names, sorted.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
            UnsupportedFeatureError: the server has no functions.
        """
        return list_functions(self.store.connection, self.levels(namespace))

    def load_function(self, identifier: Name) -> CatalogFunction:
        """Load the definition of a function. Icefloe does not run functions of a catalog.

        Args:
            identifier: the function's name, `"namespace.name"` or a tuple of levels.

        Returns:
            The function with all its overloads.

        Raises:
            NotFoundError: there is no such function.
            UnsupportedFeatureError: the server has no functions.
        """
        return load_function(self.store.connection, self.resolve_name(identifier))

    def unregister_table(self, identifier: Name) -> str:
        """Remove a table's name; every file stays.

        Args:
            identifier: the table's name.

        Returns:
            The location of its last metadata file, with which `register_table` can add the table again.

        Raises:
            NoSuchTableError: the table does not exist.
            UnsupportedFeatureError: the server does not have this operation; `drop_table` removes a name too.
        """
        name = self.resolve_name(identifier)
        self._created.drop(name)
        return self.store.unregister(name)

    def drop_table(self, identifier: Name, purge: bool = False, *, allow_outside: Iterable[str] = ()) -> PurgeReport | None:
        """Remove a table's name; every file stays, so that `register_table` can restore the table.

        Args:
            identifier: the table's name.
            purge: delete its files too, as `purge_table` does.
            allow_outside: as for `purge_table`.

        Returns:
            The report of `purge_table`; None without `purge`.

        Raises:
            NoSuchTableError: the table does not exist.
            IcefloeError: with `purge`, as for `purge_table`.
        """
        report = super().drop_table(identifier, purge, allow_outside=allow_outside)
        self._created.drop(self.resolve_name(identifier))
        return report

    def purge_table(self, identifier: Name, *, allow_outside: Iterable[str] = ()) -> PurgeReport:
        """Remove a table's name and let the server delete its files; with `rest-catalog-purge=false` this process deletes them, as `Catalog.purge_table` does.

        Args:
            identifier: the table's name.
            allow_outside: folders outside the table's location whose files may be deleted too, if this process deletes the files.

        Returns:
            The files that this process deleted. A server does not report its deletions, and may delete files later.

        Raises:
            NoSuchTableError: the table does not exist.
            IcefloeError: as for `Catalog.purge_table`.
        """
        if not settings.is_on(self.properties, settings.SERVER_PURGE, default=True):
            report = super().purge_table(identifier, allow_outside=allow_outside)
            self._created.drop(self.resolve_name(identifier))
            return report
        name = self.resolve_name(identifier)
        self._created.drop(name)
        self.store.drop(name, purge=True)
        return PurgeReport(table=dotted(name))

    def view_location(self, identifier: Name, location: str | None = None) -> str:  # noqa: ARG002  the server chooses by the name
        """Return the folder of a new view; a placeholder, which is not sent, if the server chooses it.

        Args:
            identifier: the view's name.
            location: the folder, if the caller chooses one.
        """
        return UNPLACED if location is None else qualify(location.rstrip("/"))

    def _file_io(self, location: str, access: StorageAccess | None = None) -> FileIO:
        """Return the storage of a table. Raises `LocationNotAllowedError` for a location on this machine if the server is on another one."""
        own = self._own_properties()
        if scheme_of(location or UNPLACED) == "file" and not self._may_be_local(own):
            raise LocationNotAllowedError(
                f"{location} is a file of this machine, and the server of catalog {self.name!r} is elsewhere",
                path=location,
                next_step=f"if the files are really here, add file to the catalog property {ALLOWED_SCHEMES}",
            )
        storage = {name: text for name, text in own.items() if name.startswith((*STORAGE_PREFIXES, "io.", "client."))}
        return load_file_io(self._with_warehouse(storage), location or None, access=access)

    def _may_be_local(self, own: Mapping[str, str]) -> bool:
        configured = [*split_list(own.get(ALLOWED_LOCATIONS)), *([own[WAREHOUSE]] if _is_location(own.get(WAREHOUSE)) else [])]
        return (
            is_on_this_machine(own["uri"])
            or "file" in split_list(own.get(ALLOWED_SCHEMES))
            or any(scheme_of(place) == "file" for place in configured)
        )

    def location_policy(self) -> LocationPolicy:
        """Return the locations that the user's configuration trusts; properties that the server sends are ignored."""
        own = self._own_properties()
        return LocationPolicy.of(self._with_warehouse({name: text for name, text in own.items() if name.startswith("io.")}))

    def warehouse_folder(self, namespace: Identifier) -> str | None:
        """Return the parent folder of new tables, see `Catalog.warehouse_folder`; None if the warehouse is a name on the server, not a location."""
        return super().warehouse_folder(namespace) if _is_location(self.properties.get(WAREHOUSE)) else None

    def _own_properties(self) -> Mapping[str, str]:
        """Return the properties that do not come from the server: the user's properties, and the `io.*` properties, which `icefloe serve` makes strict."""
        return {**self.store.connection.own_properties, **{name: text for name, text in self.properties.items() if name.startswith("io.")}}

    def _with_warehouse(self, properties: dict[str, str]) -> dict[str, str]:
        """Return the properties with the user's `warehouse`, if it is a location. In a REST catalog it is usually a name on the server."""
        warehouse = self.store.connection.own_properties.get(WAREHOUSE)
        return {**properties, WAREHOUSE: str(warehouse)} if _is_location(warehouse) else properties


def _is_location(text: str | None) -> bool:
    return bool(text) and ("://" in str(text) or str(text).startswith(("/", "file:")))


def _sent_location(location: str | None) -> str | None:
    return None if location is None else qualify(location.rstrip("/"))
