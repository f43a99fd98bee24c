"""`CatalogViews`: a catalog's views: create, load, replace, list, rename, drop.

`icefloe.view` has views and their changes; the catalog store has the names of views.
Spec: View spec, View Metadata; View spec, Metadata Location.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icefloe.catalog.catalog_base import CatalogBase, Name
from icefloe.errors import InvalidInputError, InvalidSchemaError, NoSuchViewError, UnsupportedFeatureError, ViewAlreadyExistsError
from icefloe.io.locations import LocationPolicy, qualify
from icefloe.operations.metadata_cache import has_no_file
from icefloe.spec.identifier import Identifier, dotted, to_identifier
from icefloe.spec.ports import FileIO, StorageAccess
from icefloe.spec.schema.arrow_schema import to_schema
from icefloe.spec.schema.schema import Schema
from icefloe.spec.view.view_definition import ViewDefinition
from icefloe.spec.view.view_metadata_json import read_view_metadata
from icefloe.spec.view.view_version import SQLViewRepresentation, ViewVersion
from icefloe.stores.catalog_store import CatalogStore, KeepsViews, ViewStore, name_exists
from icefloe.view.view import View
from icefloe.view.view_handle import ENGINE, LoadedView, ViewHandle, create_view_metadata, view_metadata_of

Queries = str | Mapping[str, str]

# Prefixes of catalog properties: defaults of properties of new views, and values that override those of the caller. JAVA: CatalogProperties.
DEFAULT_PREFIX = "view-default."
OVERRIDE_PREFIX = "view-override."


class CatalogViews(CatalogBase, ABC):
    """The views of a catalog. Within a namespace, a table and a view cannot have the same name."""

    name: str
    store: CatalogStore
    properties: dict[str, str]

    @property
    def keeps_views(self) -> bool:
        """Whether this catalog has views.

        SQL catalogs have them if their database has the column for them, REST catalogs if their server has them, catalogs in memory always.
        """
        try:
            self._views()
        except UnsupportedFeatureError:
            return False
        return True

    def create_view(
        self,
        identifier: Name,
        sql: Queries | None = None,
        schema: Schema | pa.Schema | None = None,
        *,
        view_version: ViewVersion | None = None,
        dialect: str = "spark",
        default_namespace: Name | None = None,
        default_catalog: str | None = None,
        properties: Mapping[str, object] | None = None,
        location: str | None = None,
    ) -> View:
        """Create a view.

        Args:
            identifier: the view's name.
            sql: the SELECT statement in `dialect`, or statements by dialect: `{"spark": "SELECT ...", "trino": "SELECT ..."}`.
            schema: the columns that the statement returns; they must be given, because Icefloe does not run it.
            view_version: the statements and the default namespace and catalog as a `ViewVersion`, instead of `sql`, as in PyIceberg.
            dialect: the dialect of `sql` if it is one text.
            default_namespace: the namespace of table names in the query that have no namespace; by default the view's own namespace. The empty tuple is the
                root of the catalog.
            default_catalog: the catalog of table names in the query that have no catalog; by default this catalog.
            properties: view properties.
            location: the view's folder; by default `warehouse/namespace/view`.

        Returns:
            The view.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError: the name is taken.
            UnsupportedFeatureError: this catalog has no views.
            InvalidInputError: a query is empty or not a SELECT, or a dialect occurs twice.
            InvalidSchemaError: the columns violate a rule of the format.
            UnsupportedTypeError: a column has a type that Iceberg does not have.
            InvalidPropertyError: a property has a value that it cannot have.
            InvalidIdentifierError: the name is empty, or the catalog cannot store it.
            NoSuchNamespaceError: the namespace does not exist.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        name = self.resolve_name(identifier)
        views = self._views()
        if view_version is not None:
            sql, default_namespace, default_catalog = _parts_of(view_version, sql, default_namespace, default_catalog)
        definition = _definition(name, sql, schema, dialect, default_namespace, default_catalog)
        if view_version is not None:
            definition = replace(definition, summary={**ENGINE, **view_version.summary})
        if self.view_exists(name):
            raise ViewAlreadyExistsError(
                f"view {dotted(name)!r} already exists in catalog {self.name!r}", next_step="load it, replace it, or drop it first"
            )
        folder = self.view_location(name, location)
        handle = self._view_handle(views, name, folder)
        view_properties = {**self._properties_with(DEFAULT_PREFIX), **(properties or {}), **self._properties_with(OVERRIDE_PREFIX)}
        return View(handle, create_view_metadata(handle, definition, view_properties, folder))

    def view_location(self, identifier: Name, location: str | None = None) -> str:
        """Return the folder that a new view gets.

        Args:
            identifier: the view's name.
            location: the folder; None for the default, `warehouse/namespace/view`.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
            InvalidPropertyError: no folder is given, and the catalog has no warehouse.
        """
        return qualify((location or self._default_location(self.resolve_name(identifier))).rstrip("/"))

    def replace_view(
        self,
        identifier: Name,
        sql: Queries,
        schema: Schema | pa.Schema | None = None,
        *,
        dialect: str = "spark",
        default_namespace: Name | None = None,
        default_catalog: str | None = None,
        properties: Mapping[str, object] | None = None,
        location: str | None = None,
    ) -> View:
        """Replace a view's definition by a new version. The given properties are set, others stay.

        Args:
            identifier: the view's name.
            sql: as for `create_view`.
            schema: as for `create_view`.
            dialect: as for `create_view`.
            default_namespace: as for `create_view`.
            default_catalog: as for `create_view`.
            properties: view properties to set.
            location: the view's folder; by default it stays.

        Returns:
            The view.

        Raises:
            NoSuchViewError: there is no such view, or the name is that of a table.
            InvalidInputError: as for `create_view`; or the new version lacks a dialect of the current version, which `replace.drop-dialect.allowed` forbids.
            CommitConflictError: other writers won every retry, or changed the same thing.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        name = self.resolve_name(identifier)
        definition = _definition(name, sql, schema, dialect, default_namespace, default_catalog)
        view = self.load_view(name)
        folder = None if location is None else qualify(location.rstrip("/"))
        view.replace(definition, properties={**(properties or {}), **self._properties_with(OVERRIDE_PREFIX)}, location=folder)
        return view

    def create_or_replace_view(self, identifier: Name, sql: Queries, schema: Schema | pa.Schema | None = None, **options: Any) -> View:
        """Create a view, or replace the existing one.

        Args:
            identifier: the view's name.
            sql: as for `create_view`.
            schema: as for `create_view`.
            **options: the other arguments of `create_view`.

        Returns:
            The view.
        """
        try:
            return self.replace_view(identifier, sql, schema, **options)
        except NoSuchViewError:
            try:
                return self.create_view(identifier, sql, schema, **options)
            except ViewAlreadyExistsError:
                # Another writer created the view meanwhile.
                return self.replace_view(identifier, sql, schema, **options)

    def load_view(self, identifier: Name) -> View:
        """Load a view.

        Args:
            identifier: the view's name.

        Returns:
            The view with its current metadata.

        Raises:
            NoSuchViewError: there is no such view; the message mentions it if the name is that of a table.
            UnsupportedFeatureError: this catalog has no views.
            NoSuchFileError, MetadataFormatError: its metadata file is missing or damaged.
        """
        name = self.resolve_name(identifier)
        views = self._views()
        stored = views.load(name)
        location = stored.metadata_location
        if stored.metadata is not None and has_no_file(location):
            # A server that sends the metadata itself may leave out the location of its file, or send one that only the server can read.
            location = stored.metadata.location
        handle = self._view_handle(views, name, location)
        return View(handle, view_metadata_of(handle, stored))

    def list_views(self, namespace: Name) -> list[Identifier]:
        """Return the views of a namespace, sorted.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
            UnsupportedFeatureError: this catalog has no views.
        """
        return self._views().names(self.levels(namespace))

    def view_exists(self, identifier: Name) -> bool:
        """Return whether a view exists.

        Args:
            identifier: its name, `"namespace.name"` or a tuple of levels.

        Raises:
            UnsupportedFeatureError: this catalog has no views.
        """
        return name_exists(self._views(), self.resolve_name(identifier))

    def register_view(self, identifier: Name, metadata_location: str) -> View:
        """Add an existing view to the catalog, by the location of its metadata file.

        Args:
            identifier: the view's name.
            metadata_location: its metadata file.

        Returns:
            The view.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError: the name is taken.
            NoSuchNamespaceError: the namespace does not exist.
            NoSuchFileError: the metadata file does not exist.
            MetadataFormatError: the metadata file is damaged, or violates the format.
            UnsupportedFeatureError: this catalog has no views.
        """
        name = self.resolve_name(identifier)
        views = self._views()
        location = qualify(metadata_location)
        handle = self._view_handle(views, name, location)
        metadata = read_view_metadata(handle.io.read(location), location)
        views.create(name, location)
        return View(handle, LoadedView(location=location, metadata=metadata))

    def rename_view(self, from_identifier: Name, to_identifier: Name) -> View:
        """Change a view's name; its files stay where they are.

        Args:
            from_identifier: the present name.
            to_identifier: the new name.

        Returns:
            The view under its new name.

        Raises:
            NoSuchViewError, NoSuchNamespaceError: the view or the new namespace does not exist.
            ViewAlreadyExistsError, TableAlreadyExistsError: the new name is taken.
            UnsupportedFeatureError: this catalog has no views.
        """
        source, target = self.resolve_name(from_identifier), self.resolve_name(to_identifier)
        self._views().rename(source, target)
        return self.load_view(target)

    def drop_view(self, identifier: Name) -> None:
        """Remove a view's name; every file stays, so that `register_view` can restore the view.

        Args:
            identifier: the view's name.

        Raises:
            NoSuchViewError: there is no such view.
            UnsupportedFeatureError: this catalog has no views.
        """
        self._views().drop(self.resolve_name(identifier))

    def _views(self) -> ViewStore:
        if not isinstance(self.store, KeepsViews):
            raise UnsupportedFeatureError(
                f"catalog {self.name!r} keeps no views", next_step="use a SQL catalog, or a REST catalog whose server has views"
            )
        return self.store.views()

    def _view_handle(self, views: ViewStore, identifier: Identifier, location: str) -> ViewHandle:
        return ViewHandle(identifier=identifier, store=views, io=self._file_io(location), policy=self.location_policy())

    @abstractmethod
    def _file_io(self, location: str, access: StorageAccess | None = None) -> FileIO:
        """Return the storage for a table or view whose metadata file or folder is at a location."""

    @abstractmethod
    def location_policy(self) -> LocationPolicy:
        """Return the policy of the catalog's configuration: in which locations files may be read and written."""

    def _properties_with(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): text for key, text in self.properties.items() if key.startswith(prefix)}

    @abstractmethod
    def resolve_name(self, name: Name) -> Identifier:
        """Return the levels of a table's or view's name. Raises `InvalidIdentifierError`."""

    @abstractmethod
    def _default_location(self, identifier: Identifier) -> str:
        """Return the default folder of a new table or view. Raises `InvalidPropertyError`, `NoSuchNamespaceError`."""


def _parts_of(
    version: ViewVersion, sql: Queries | None, namespace: Name | None, catalog: str | None
) -> tuple[Queries, Name | None, str | None]:
    """Return the statements, default namespace and default catalog of a version. `namespace` and `catalog` override the version's; `sql` must be None."""
    if sql is not None:
        raise InvalidInputError("a view has one definition: sql and view_version are both given", next_step="pass one of them")
    queries = {query.dialect: query.sql for query in version.representations if isinstance(query, SQLViewRepresentation)}
    return queries, (version.default_namespace or None) if namespace is None else namespace, catalog or version.default_catalog


def _namespace_of_names(view: Identifier, given: Name | None) -> Identifier:
    if given is None:
        return view[:-1]
    # After `USE catalog` Spark's current namespace is empty: every table name in the query has its own namespace.
    return () if given == () else to_identifier(given, of_server=True)


def _definition(
    name: Identifier, sql: object, schema: object, dialect: str, default_namespace: Name | None, default_catalog: str | None
) -> ViewDefinition:
    if schema is None:
        raise InvalidSchemaError(
            f"view {dotted(name)!r} was given no schema",
            next_step="pass schema=, the columns that the statement gives; a Spark DataFrame of it has them: to_arrow_schema of its schema",
        )
    if not isinstance(sql, str | Mapping):
        raise InvalidInputError(f"a query of type {type(sql).__qualname__} is not understood", next_step="pass a text, or texts by dialect")
    return ViewDefinition(
        queries={dialect: sql} if isinstance(sql, str) else dict(sql),
        schema=to_schema(schema),
        default_namespace=_namespace_of_names(name, default_namespace),
        default_catalog=default_catalog,
        summary=ENGINE,
    )
