"""`CatalogViews`: the doors of a catalog that have to do with views: make, load, replace, list, rename, drop.

What a view is and how it changes is `icefloe.view`; names of views are kept by the pointer store.
Spec: View spec, View Metadata; View spec, Metadata Location.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from icefloe.catalog_store.catalog_store import CatalogStore, KeepsViews, ViewStore
from icefloe.catalog_store.identifier import Identifier, dotted, to_identifier, to_table_identifier
from icefloe.errors import InvalidInputError, InvalidSchemaError, NoSuchViewError, UnsupportedFeatureError, ViewAlreadyExistsError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.location_policy import LocationPolicy
from icefloe.io.locations import qualified
from icefloe.kernel.schema.arrow_schema import to_schema
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.view.view_definition import ViewDefinition
from icefloe.kernel.view.view_metadata_json import read_view_metadata
from icefloe.view.view import View
from icefloe.view.view_handle import ENGINE, LoadedView, ViewHandle, create_view_metadata, load_view_metadata

Name = str | Iterable[str]
Queries = str | Mapping[str, str]

# Properties of a catalog that views made in it get, unless they are given others; and those that they get whatever they are given. Origin: Java.
DEFAULT_PREFIX = "view-default."
OVERRIDE_PREFIX = "view-override."
# The namespace of names that have none, its levels joined with dots.
DEFAULT_NAMESPACE = "default-namespace"


class CatalogViews(ABC):
    """The views of a catalog. A name is a table or a view, never both."""

    name: str
    store: CatalogStore
    properties: dict[str, str]

    @property
    def default_namespace(self) -> Identifier:
        """The namespace of names without one: the property `default-namespace`; empty where that is not set."""
        text = self.properties.get(DEFAULT_NAMESPACE)
        return to_identifier(text) if text else ()

    def resolve_name(self, name: Name) -> Identifier:
        """Return the levels of a table's or view's name, in the default namespace where it names none. Raises `InvalidIdentifierError`."""
        parts = to_identifier(name)
        return to_table_identifier((*self.default_namespace, *parts) if len(parts) == 1 else parts)

    @property
    def keeps_views(self) -> bool:
        """Whether this catalog can hold views: a SQL catalog can, unless its database was made before there were views."""
        try:
            self._views()
        except UnsupportedFeatureError:
            return False
        return True

    def create_view(
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
        """Makes a view.

        Args:
            sql: the SELECT statement in `dialect`, or statements by dialect: `{"spark": "SELECT ...", "trino": "SELECT ..."}`.
            schema: the columns that the statement gives; nothing here runs it, so they must be given.
            default_namespace: where its names without a namespace are looked for; the view's own namespace by default.
            default_catalog: where its names without a catalog are looked for; this catalog by default.
            location: the view's folder; by default `warehouse/namespace/view`.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError: the name is taken.
            UnsupportedFeatureError: this catalog keeps no views.
            InvalidInputError: a query is empty, no SELECT, or its dialect is there twice.
            InvalidSchemaError: The columns violate a rule of the format.
            UnsupportedTypeError: A column has a type that Iceberg does not have.
            InvalidPropertyError: A property has a value that it may not have.
            InvalidIdentifierError: The name is empty, or the catalog cannot keep it.
            NoSuchNamespaceError: The namespace does not exist.
            CommitUnknownError: The catalog did not answer, and the commit may or may not have happened.
        """
        name = self.resolve_name(identifier)
        views = self._views()
        definition = _definition(name, sql, schema, dialect, default_namespace, default_catalog)
        if self.view_exists(name):
            raise ViewAlreadyExistsError(
                f"view {dotted(name)!r} already exists in catalog {self.name!r}", next_step="load it, replace it, or drop it first"
            )
        folder = qualified((location or self._default_location(name)).rstrip("/"))
        handle = self._view_handle(views, name, folder)
        given = {**self._prefixed(DEFAULT_PREFIX), **(properties or {}), **self._prefixed(OVERRIDE_PREFIX)}
        return View(handle, create_view_metadata(handle, definition, given, folder))

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
        """Gives a view a new definition, as a new version; the arguments are those of `create_view`. Properties given are set, others stay.

        Raises:
            NoSuchViewError: there is none of the name, or the name is a table's.
            InvalidInputError: as `create_view`; or a dialect of the current version would be lost (see `replace.drop-dialect.allowed`).
            CommitConflictError: Other writers won the race too often, or changed the same thing.
            CommitUnknownError: The catalog did not answer, and the commit may or may not have happened.
        """
        name = self.resolve_name(identifier)
        definition = _definition(name, sql, schema, dialect, default_namespace, default_catalog)
        view = self.load_view(name)
        folder = None if location is None else qualified(location.rstrip("/"))
        view.replace(definition, properties={**(properties or {}), **self._prefixed(OVERRIDE_PREFIX)}, location=folder)
        return view

    def create_or_replace_view(self, identifier: Name, sql: Queries, schema: Schema | pa.Schema | None = None, **options: Any) -> View:
        """Makes the view, or replaces the one that is there; the arguments are those of `create_view`."""
        try:
            return self.replace_view(identifier, sql, schema, **options)
        except NoSuchViewError:
            try:
                return self.create_view(identifier, sql, schema, **options)
            except ViewAlreadyExistsError:
                # Another writer was faster.
                return self.replace_view(identifier, sql, schema, **options)

    def load_view(self, identifier: Name) -> View:
        """Raises `NoSuchViewError`, which says so where the name is a table's, `UnsupportedFeatureError`, `NoSuchFileError`, `MetadataFormatError`."""
        name = self.resolve_name(identifier)
        views = self._views()
        handle = self._view_handle(views, name, views.load(name).metadata_location)
        return View(handle, load_view_metadata(handle))

    def list_views(self, namespace: Name) -> list[Identifier]:
        """Sorted. Raises `NoSuchNamespaceError`, `UnsupportedFeatureError`."""
        return self._views().names(to_identifier(namespace))

    def view_exists(self, identifier: Name) -> bool:
        """Raises `UnsupportedFeatureError`."""
        try:
            self._views().load(self.resolve_name(identifier))
        except NoSuchViewError:
            return False
        return True

    def register_view(self, identifier: Name, metadata_location: str) -> View:
        """Makes a name for a view that exists as a metadata file.

        Raises:
            ViewAlreadyExistsError: A view has the name already.
            TableAlreadyExistsError: A table has the name already.
            NoSuchNamespaceError: The namespace does not exist.
            NoSuchFileError: The metadata file does not exist.
            MetadataFormatError: The metadata file is damaged, or violates the format.
            UnsupportedFeatureError: The catalog keeps no views.
        """
        name = self.resolve_name(identifier)
        views = self._views()
        location = qualified(metadata_location)
        handle = self._view_handle(views, name, location)
        metadata = read_view_metadata(handle.io.read(location), location)
        views.create(name, location)
        return View(handle, LoadedView(location=location, metadata=metadata))

    def rename_view(self, from_identifier: Name, to_identifier: Name) -> View:
        """Changes the name; files stay where they are.

        Raises:
            NoSuchViewError: The view does not exist.
            NoSuchNamespaceError: The namespace does not exist.
            ViewAlreadyExistsError: A view has the name already.
            TableAlreadyExistsError: A table has the name already.
            UnsupportedFeatureError: The catalog keeps no views.
        """
        source, target = self.resolve_name(from_identifier), self.resolve_name(to_identifier)
        self._views().rename(source, target)
        return self.load_view(target)

    def drop_view(self, identifier: Name) -> None:
        """Removes the name; every file stays, so `register_view` can bring the view back. Raises `NoSuchViewError`, `UnsupportedFeatureError`."""
        self._views().drop(self.resolve_name(identifier))

    def _views(self) -> ViewStore:
        if not isinstance(self.store, KeepsViews):
            raise UnsupportedFeatureError(
                f"catalog {self.name!r} keeps tables alone, and no views", next_step="use a SQL catalog for views"
            )
        return self.store.views()

    def _view_handle(self, views: ViewStore, identifier: Identifier, location: str) -> ViewHandle:
        return ViewHandle(
            identifier=identifier,
            store=views,
            io=load_file_io(self.properties, location),
            policy=LocationPolicy.of(self.properties),
        )

    def _prefixed(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): text for key, text in self.properties.items() if key.startswith(prefix)}

    @abstractmethod
    def _default_location(self, identifier: Identifier) -> str:
        """The folder of a table or view that is given none. Raises `InvalidPropertyError`, `NoSuchNamespaceError`."""


def _definition(
    name: Identifier, sql: Queries, schema: object, dialect: str, default_namespace: Name | None, default_catalog: str | None
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
        default_namespace=name[:-1] if default_namespace is None else to_identifier(default_namespace),
        default_catalog=default_catalog,
        summary=ENGINE,
    )
