"""`View`: one view in a catalog as its users hold it: its queries by dialect, its versions, and the changes of it.

How a change is committed is `view_commit.py`. Spec: View spec, View Metadata; View spec, Versions; View spec, Version log.
"""

from collections.abc import Mapping
from uuid import UUID

from icefloe.catalog_store.identifier import Identifier
from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata.table_properties import property_texts
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.view.view_definition import ViewDefinition, definition_updates, location_updates, property_updates, rollback_updates
from icefloe.kernel.view.view_metadata import ViewMetadata
from icefloe.kernel.view.view_version import SQLViewRepresentation, VersionLogEntry, ViewVersion
from icefloe.view.update_view import ReplaceViewVersion, UpdateViewProperties
from icefloe.view.view_commit import ViewChange, commit_view
from icefloe.view.view_handle import LoadedView, ViewHandle, reload_view_metadata


class View:
    """A view in a catalog. After a change the object holds the metadata it committed; `refresh()` sees other writers' changes."""

    def __init__(self, handle: ViewHandle, loaded: LoadedView) -> None:
        self._handle = handle
        self._loaded = loaded

    @property
    def metadata(self) -> ViewMetadata:
        """The metadata as last loaded or committed."""
        return self._loaded.metadata

    @property
    def metadata_location(self) -> str:
        """Where that metadata lies."""
        return self._loaded.location

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @property
    def full_name(self) -> str:
        """`catalog.namespace.view`."""
        return self._handle.view_name

    def name(self) -> Identifier:
        """The namespace levels and the view's name."""
        return self._handle.identifier

    def uuid(self) -> UUID:
        return UUID(self.metadata.view_uuid)

    def location(self) -> str:
        """The view's folder."""
        return self.metadata.location

    def schema(self) -> Schema:
        """The columns of the current version."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """Every schema by its id."""
        return {schema.schema_id: schema for schema in self.metadata.schemas}

    @property
    def versions(self) -> tuple[ViewVersion, ...]:
        """The versions that are kept: `version.history.num-entries` of them."""
        return tuple(self.metadata.versions)

    def version(self, version_id: int) -> ViewVersion | None:
        """The version with this id, or None where there is none any more."""
        return self.metadata.versions.get(version_id)

    def current_version(self) -> ViewVersion:
        return self.metadata.version()

    def history(self) -> tuple[VersionLogEntry, ...]:
        """When which version became the current one, oldest first."""
        return tuple(self.metadata.version_log)

    def sql_for(self, dialect: str) -> SQLViewRepresentation | None:
        """The current version's query in a dialect, whatever the case of its name; the first one in any dialect where there is none in this; None
        where there is no SQL at all. The result says which dialect it is of.

        Raises:
            InvalidInputError: the dialect has no name.
        """
        if not dialect or not dialect.strip():
            raise InvalidInputError("the dialect is empty", next_step="name one, such as spark or trino")
        found = [shown for shown in self.current_version().representations if isinstance(shown, SQLViewRepresentation)]
        return next((shown for shown in found if shown.dialect.lower() == dialect.lower()), found[0] if found else None)

    def refresh(self) -> "View":
        """Loads the metadata the catalog names now. Raises `NoSuchViewError` where the view was dropped, or another has its name now."""
        self._loaded = reload_view_metadata(self._handle, self._loaded)
        return self

    def replace_version(self) -> ReplaceViewVersion:
        """A new version, committed at the end of the block: `with view.replace_version() as update: update.with_query("trino", "SELECT ...")`."""
        return ReplaceViewVersion(self._commit)

    def replace(self, definition: ViewDefinition, *, properties: Mapping[str, object] | None = None, location: str | None = None) -> None:
        """Makes this the view's whole definition, sets the properties given (others stay) and the location if given, in one commit.

        Raises:
            InvalidInputError: the queries are wrong, or a dialect would be lost that the view may not lose.
            InvalidPropertyError: A property has a value that it may not have.
            CommitConflictError: Other writers won the race too often, or changed the same thing.
            CommitUnknownError: The catalog did not answer, and the commit may or may not have happened.
            NoSuchViewError: The view does not exist.
        """
        given = property_texts(properties or {}, "view")
        self._commit(
            lambda base, now_ms: (
                *property_updates(base, given, ()),
                *definition_updates(base, definition, now_ms),
                *(location_updates(base, location) if location is not None else ()),
            )
        )

    def rollback_to_version(self, version_id: int) -> None:
        """Makes a version that is kept the current one again.

        Raises:
            InvalidInputError: it is not kept, or lacks a dialect that the view may not lose.
            CommitConflictError: Other writers won the race too often, or changed the same thing.
            CommitUnknownError: The catalog did not answer, and the commit may or may not have happened.
            NoSuchViewError: The view does not exist.
        """
        self._commit(lambda base, _: rollback_updates(base, version_id))

    def update_properties(self) -> UpdateViewProperties:
        """Properties to set and remove, committed at the end of the block: `with view.update_properties() as update: update.set("comment", "...")`."""
        return UpdateViewProperties(self._commit)

    def set_location(self, location: str) -> None:
        """Later metadata files go there; those that are there stay. Raises `InvalidInputError` for an empty one, and as `rollback_to_version`."""
        self._commit(lambda base, _: location_updates(base, location))

    def _commit(self, change: ViewChange) -> None:
        self._loaded = commit_view(self._handle, change, self._loaded)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self.full_name == other.full_name and self.metadata == other.metadata

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"View(name={self.full_name!r}, version={self.metadata.current_version_id}, dialects={self.current_version().dialects})"
