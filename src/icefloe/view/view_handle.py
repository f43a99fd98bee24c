"""`ViewHandle`: a view's entry in a catalog and the storage of its files; functions that read and write its metadata files.

Spec: View spec, Metadata Location; View spec, View Metadata (`view-uuid`); Metastore Tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from icefloe.errors import AlreadyExistsError, NoSuchNamespaceError, NoSuchViewError, StorageError
from icefloe.io.locations import LocationPolicy, is_relative, join
from icefloe.operations.table_handle import RandomIds, SystemClock
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.naming import metadata_file_name, metadata_version
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.spec.metadata.table_properties import METADATA_PATH
from icefloe.spec.ports import Clock, FileIO, IdSource
from icefloe.spec.view.view_definition import FIRST_VERSION_ID, ViewDefinition
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_metadata_json import read_view_metadata, write_view_metadata
from icefloe.spec.view.view_properties import VIEW_METADATA_CODEC
from icefloe.spec.view.view_updates import new_view_metadata
from icefloe.stores.catalog_store import CreatesViews, TableLocation, ViewStore
from icefloe.version import __version__

# Entries of a view version's summary: the engine that wrote the version. Spec: View spec, Summary.
ENGINE: Mapping[str, str] = {"engine-name": "icefloe", "engine-version": __version__}


# Placeholder for the folder of a new view whose folder the store chooses.
UNPLACED = "memory://unplaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewHandle:
    """The entry of a view in a catalog: its name, its store, and the storage, clock and ids that operations on the view use."""

    identifier: Identifier
    store: ViewStore
    io: FileIO
    policy: LocationPolicy = field(default_factory=LocationPolicy)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)

    @property
    def view_name(self) -> str:
        """The view's name as `catalog.namespace.view`, for messages."""
        return f"{self.store.name}.{dotted(self.identifier)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedView:
    """View metadata and the location of its file. `previous_location` is that of the preceding metadata file; None if the catalog does not report it."""

    location: str
    metadata: ViewMetadata
    previous_location: str | None = None


def load_view_metadata(handle: ViewHandle) -> LoadedView:
    """Load the view's current metadata. Raises `NoSuchViewError`, and the errors of reading the file and of `read_view_metadata`."""
    return view_metadata_of(handle, handle.store.load(handle.identifier))


def reload_view_metadata(handle: ViewHandle, previous: LoadedView) -> LoadedView:
    """Load the view's current metadata, which must have the UUID of `previous`. The file is read only if its location changed.

    Raises:
        NoSuchViewError: the view was dropped, or another view has its name now.
        NoSuchFileError: the metadata file does not exist.
        MetadataFormatError, UnsupportedFormatVersionError: as for `read_view_metadata`.
    Spec: View spec, View Metadata (`view-uuid`).
    """
    entry = handle.store.load(handle.identifier)
    if entry.metadata_location == previous.location:
        return replace(previous, previous_location=entry.previous_metadata_location)
    loaded = view_metadata_of(handle, entry)
    view_uuid = loaded.metadata.view_uuid
    if view_uuid.lower() != previous.metadata.view_uuid.lower():
        raise NoSuchViewError(
            f"{handle.view_name} is another view now: its uuid is {view_uuid}, and that of the view at hand is {previous.metadata.view_uuid}",
            next_step="load the view by its name again; nothing was written to it",
        )
    return loaded


def write_view_file(handle: ViewHandle, location: str, metadata: ViewMetadata) -> None:
    """Write a metadata file, compressed according to the view's properties; it never replaces an existing file."""
    handle.io.write(location, write_view_metadata(metadata, gzip=_is_gzip(metadata)))


def new_view_location(ids: IdSource, metadata: ViewMetadata, *, previous_location: str | None) -> str:
    """Return a new location for the next metadata file: `<location>/metadata/00001-<uuid>.gz.metadata.json`."""
    path = METADATA_PATH.read(metadata.properties) or "metadata"
    folder = join(metadata.location, path) if is_relative(path) else path
    previous_version = metadata_version(previous_location) if previous_location else None
    version = 0 if previous_version is None else previous_version + 1
    return f"{folder}/{metadata_file_name(version, ids.uuid(), gzip=_is_gzip(metadata))}"


def create_view_metadata(handle: ViewHandle, definition: ViewDefinition, properties: Mapping[str, object], location: str) -> LoadedView:
    """Write a view's first metadata file under its folder `location`, and create its name. A store that implements `CreatesViews` does both itself.

    Raises:
        ViewAlreadyExistsError, TableAlreadyExistsError, NoSuchNamespaceError: the name was not created, and the file was deleted.
        InvalidInputError, InvalidPropertyError: nothing was written.
        StorageError, CommitUnknownError: it is unknown whether the name was created; the file stays.
    """
    metadata = new_view_metadata(
        view_uuid=handle.ids.uuid(),
        location=location,
        schema=definition.schema,
        version=definition.version(version_id=FIRST_VERSION_ID, schema_id=0, now_ms=handle.clock.now_ms()),
        properties=property_texts(properties, "view"),
    )
    if isinstance(handle.store, CreatesViews):
        return view_metadata_of(
            handle, handle.store.create_view(handle.identifier, metadata, location=None if location == UNPLACED else location)
        )
    written = new_view_location(handle.ids, metadata, previous_location=None)
    write_view_file(handle, written, metadata)
    try:
        handle.store.create(handle.identifier, written)
    except (NoSuchNamespaceError, AlreadyExistsError):
        if not _names(handle, written):
            delete_view_files(handle, [written])
            raise
    except StorageError:
        # The name may have been created although the reply was lost.
        if not _names(handle, written):
            raise
    return LoadedView(location=written, metadata=metadata)


def delete_view_files(handle: ViewHandle, locations: Iterable[str]) -> None:
    """Delete files that no metadata refers to. A file that cannot be deleted is left as an orphan, without an error."""
    for location in locations:
        try:
            handle.io.delete(location)
        except StorageError:
            continue


def view_metadata_of(handle: ViewHandle, entry: TableLocation) -> LoadedView:
    """Return the view that a store's entry describes. The metadata file is read if the entry has only its location. Raises as `load_view_metadata`."""
    location = entry.metadata_location
    if isinstance(entry.metadata, ViewMetadata):
        return LoadedView(location=location, metadata=entry.metadata, previous_location=entry.previous_metadata_location)
    metadata = read_view_metadata(handle.io.read(location), location)
    return LoadedView(location=location, metadata=metadata, previous_location=entry.previous_metadata_location)


def _names(handle: ViewHandle, location: str) -> bool:
    """Return whether the view's name in the catalog has this metadata location; False if there is no such view."""
    try:
        return handle.store.load(handle.identifier).metadata_location == location
    except NoSuchViewError:
        return False


def _is_gzip(metadata: ViewMetadata) -> bool:
    return VIEW_METADATA_CODEC.read(metadata.properties) == "gzip"
