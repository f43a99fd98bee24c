"""`View`: one view in a catalog: its queries by dialect, its versions, and its changes.

`view_commit.py` commits the changes. Spec: View spec, View Metadata; View spec, Versions; View spec, Version log.
"""

from collections.abc import Mapping
from uuid import UUID

from icefloe.errors import InvalidInputError
from icefloe.io.locations import qualify
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.spec.schema.schema import Schema
from icefloe.spec.view.view_definition import ViewDefinition, definition_updates, location_updates, property_updates, rollback_updates
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_version import SQLViewRepresentation, VersionLogEntry, ViewVersion
from icefloe.view.update_view import ReplaceViewVersion, UpdateViewProperties
from icefloe.view.view_commit import ViewChange, commit_view
from icefloe.view.view_handle import LoadedView, ViewHandle, reload_view_metadata


class View:
    """A view in a catalog. After a change the object holds the metadata that it committed; `refresh()` loads other writers' changes."""

    def __init__(self, handle: ViewHandle, loaded: LoadedView) -> None:
        self._handle = handle
        self._loaded = loaded

    @property
    def handle(self) -> ViewHandle:
        """The view's entry in its catalog, and the storage of its files."""
        return self._handle

    @property
    def metadata(self) -> ViewMetadata:
        """The metadata as last loaded or committed."""
        return self._loaded.metadata

    @property
    def loaded(self) -> LoadedView:
        """The metadata as last loaded or committed, with the location of its file."""
        return self._loaded

    @property
    def metadata_location(self) -> str:
        """The location of the metadata file as last loaded or committed."""
        return self._loaded.location

    @property
    def properties(self) -> Mapping[str, str]:
        """The view's properties by name."""
        return self.metadata.properties

    @property
    def full_name(self) -> str:
        """The view's name as `catalog.namespace.view`."""
        return self._handle.view_name

    def name(self) -> Identifier:
        """Return the namespace levels and the view's name."""
        return self._handle.identifier

    def uuid(self) -> UUID:
        """Return the view's UUID."""
        return UUID(self.metadata.view_uuid)

    def location(self) -> str:
        """Return the view's folder."""
        return self.metadata.location

    def schema(self) -> Schema:
        """Return the columns of the current version."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """Return every schema by its id."""
        return {schema.schema_id: schema for schema in self.metadata.schemas}

    @property
    def versions(self) -> tuple[ViewVersion, ...]:
        """The versions that the metadata still has; `version.history.num-entries` limits their number."""
        return tuple(self.metadata.versions)

    def version(self, version_id: int) -> ViewVersion | None:
        """Return the version with an id, or None if the metadata no longer has it.

        Args:
            version_id: the id.
        """
        return self.metadata.versions.get(version_id)

    def current_version(self) -> ViewVersion:
        """Return the current version."""
        return self.metadata.version()

    def history(self) -> tuple[VersionLogEntry, ...]:
        """Return the version log, oldest entry first: each version that became the current one, and the time."""
        return tuple(self.metadata.version_log)

    def sql_for(self, dialect: str) -> SQLViewRepresentation | None:
        """Return the current version's query in a dialect, or its first query if it has none in this dialect.

        Args:
            dialect: the dialect; upper and lower case are the same.

        Returns:
            The query with its `dialect`, which differs from the requested one if the first query was taken; None if the version has no SQL query.

        Raises:
            InvalidInputError: the dialect is empty.
        """
        if not dialect or not dialect.strip():
            raise InvalidInputError("the dialect is empty", next_step="name one, such as spark or trino")
        queries = [query for query in self.current_version().representations if isinstance(query, SQLViewRepresentation)]
        return next((query for query in queries if query.dialect.lower() == dialect.lower()), queries[0] if queries else None)

    def refresh(self) -> "View":
        """Load the current metadata of the view from the catalog.

        Returns:
            This view.

        Raises:
            NoSuchViewError: the view was dropped, or another view has its name now.
        """
        self._loaded = reload_view_metadata(self._handle, self._loaded)
        return self

    def replace_version(self) -> ReplaceViewVersion:
        """Start a new version: `with view.replace_version() as update: update.with_query("trino", "SELECT ...")`.

        Returns:
            The update, which is committed at the end of the block.
        """
        return ReplaceViewVersion(self._commit)

    def replace(self, definition: ViewDefinition, *, properties: Mapping[str, object] | None = None, location: str | None = None) -> None:
        """Replace the view's whole definition with a new version, in one commit.

        Args:
            definition: the queries, the columns and the defaults of names.
            properties: view properties to set; others stay.
            location: the view's folder; by default it stays.

        Raises:
            InvalidInputError: a query is invalid, or the new version lacks a dialect of the current version, which `replace.drop-dialect.allowed` forbids.
            InvalidPropertyError: a property has a value that it cannot have.
            CommitConflictError: other writers won every retry, or changed the same thing.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
            NoSuchViewError: the view does not exist.
        """
        new_properties = property_texts(properties or {}, "view")
        self._commit(
            lambda base, now_ms: (
                *property_updates(base, new_properties, ()),
                *definition_updates(base, definition, now_ms),
                *(location_updates(base, location) if location is not None else ()),
            )
        )

    def rollback_to_version(self, version_id: int) -> None:
        """Make an earlier version the current one again.

        Args:
            version_id: a version that the metadata still has.

        Raises:
            InvalidInputError: the metadata does not have the version, or it lacks a dialect of the current version, which `replace.drop-dialect.allowed`
                forbids.
            CommitConflictError: other writers won every retry, or changed the same thing.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
            NoSuchViewError: the view does not exist.
        """
        self._commit(lambda base, _: rollback_updates(base, version_id))

    def update_properties(self) -> UpdateViewProperties:
        """Start changes of properties: `with view.update_properties() as update: update.set("comment", "...")`.

        Returns:
            The update, which is committed at the end of the block.
        """
        return UpdateViewProperties(self._commit)

    def set_location(self, location: str) -> None:
        """Set the folder of the view's new metadata files; existing files stay where they are.

        Args:
            location: the folder; a relative path is resolved against the working directory.

        Raises:
            InvalidInputError: the location is empty.
            CommitConflictError, CommitUnknownError, NoSuchViewError: as for `rollback_to_version`.
        """
        folder = qualify(location)
        self._commit(lambda base, _: location_updates(base, folder))

    def _commit(self, change: ViewChange) -> None:
        self._loaded = commit_view(self._handle, change, self._loaded)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self.full_name == other.full_name and self.metadata == other.metadata

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"View(name={self.full_name!r}, version={self.metadata.current_version_id}, dialects={self.current_version().dialects})"
