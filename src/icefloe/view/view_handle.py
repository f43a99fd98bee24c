"""`ViewHandle`: where a view's pointer is kept and how its files are reached; and the reading and writing of its metadata files.


Spec: View spec, Metadata Location; View spec, View Metadata (`view-uuid`); Metastore Tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from icefloe.catalog_store.catalog_store import TableLocation, ViewStore
from icefloe.catalog_store.identifier import Identifier, dotted
from icefloe.errors import AlreadyExistsError, NoSuchNamespaceError, NoSuchViewError, StorageError
from icefloe.io.location_policy import LocationPolicy
from icefloe.io.locations import is_relative, join
from icefloe.kernel.metadata.naming import metadata_file_name, metadata_version
from icefloe.kernel.metadata.table_properties import METADATA_PATH, property_texts
from icefloe.kernel.ports import Clock, FileIO, IdSource
from icefloe.kernel.view.view_definition import FIRST_VERSION_ID, ViewDefinition
from icefloe.kernel.view.view_metadata import ViewMetadata
from icefloe.kernel.view.view_metadata_json import read_view_metadata, write_view_metadata
from icefloe.kernel.view.view_properties import VIEW_METADATA_CODEC
from icefloe.kernel.view.view_updates import new_view_metadata
from icefloe.table.engine import VERSION
from icefloe.table.table_handle import RandomIds, SystemClock

# What made a version, in its summary. Spec: View spec, Summary.
ENGINE: Mapping[str, str] = {"engine-name": "icefloe", "engine-version": VERSION}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewHandle:
    """A view's name in a pointer store, and the ports its operations use."""

    identifier: Identifier
    store: ViewStore
    io: FileIO
    policy: LocationPolicy = field(default_factory=LocationPolicy)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)

    @property
    def view_name(self) -> str:
        """`catalog.namespace.view`, for messages."""
        return f"{self.store.name}.{dotted(self.identifier)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedView:
    """View metadata and the location it was read from or written to. `previous_location` is what the catalog says the pointer named before."""

    location: str
    metadata: ViewMetadata
    previous_location: str | None = None


def load_view_metadata(handle: ViewHandle) -> LoadedView:
    """The metadata the pointer names now. Raises `NoSuchViewError`, `NoSuchFileError`, `MetadataFormatError`."""
    return _read(handle, handle.store.load(handle.identifier))


def reload_view_metadata(handle: ViewHandle, known: LoadedView) -> LoadedView:
    """The metadata the pointer names now, which must be of the view that `known` is of; read only where the pointer has moved.

    Raises:
        NoSuchViewError: the view was dropped, or another has its name now.
        NoSuchFileError, MetadataFormatError, UnsupportedFormatVersionError: as `read_view_metadata`.
    Spec: View spec, View Metadata (`view-uuid`).
    """
    pointer = handle.store.load(handle.identifier)
    if pointer.metadata_location == known.location:
        return replace(known, previous_location=pointer.previous_metadata_location)
    loaded = _read(handle, pointer)
    found = loaded.metadata.view_uuid
    if found.lower() != known.metadata.view_uuid.lower():
        raise NoSuchViewError(
            f"{handle.view_name} is another view now: its uuid is {found}, and that of the view at hand is {known.metadata.view_uuid}",
            next_step="load the view by its name again; nothing was written to it",
        )
    return loaded


def write_view_file(handle: ViewHandle, location: str, metadata: ViewMetadata) -> None:
    """Writes the metadata file, never over another one, compressed as the view's properties say."""
    handle.io.write(location, write_view_metadata(metadata, gzip=_is_gzip(metadata)))


def new_view_location(ids: IdSource, metadata: ViewMetadata, *, previous_location: str | None) -> str:
    """The name of the next metadata file, which no file has yet: `<location>/metadata/00001-<uuid>.gz.metadata.json`."""
    path = METADATA_PATH.read(metadata.properties) or "metadata"
    folder = join(metadata.location, path) if is_relative(path) else path
    previous = metadata_version(previous_location) if previous_location else None
    number = 0 if previous is None else previous + 1
    return f"{folder}/{metadata_file_name(number, ids.uuid(), gzip=_is_gzip(metadata))}"


def create_view_metadata(handle: ViewHandle, definition: ViewDefinition, properties: Mapping[str, object], location: str) -> LoadedView:
    """Writes a view's first metadata file under its folder `location` and makes its name.

    Raises:
        ViewAlreadyExistsError, TableAlreadyExistsError, NoSuchNamespaceError: there is no new name, and the file is gone again.
        InvalidInputError, InvalidPropertyError: nothing was written.
        StorageError, CommitUnknownError: where it is not known whether the name was made, the file stays.
    """
    metadata = new_view_metadata(
        view_uuid=handle.ids.uuid(),
        location=location,
        schema=definition.schema,
        version=definition.version(version_id=FIRST_VERSION_ID, schema_id=0, now_ms=handle.clock.now_ms()),
        properties=property_texts(properties, "view"),
    )
    written = new_view_location(handle.ids, metadata, previous_location=None)
    write_view_file(handle, written, metadata)
    try:
        handle.store.create(handle.identifier, written)
    except (NoSuchNamespaceError, AlreadyExistsError):
        if not _is_ours(handle, written):
            delete_view_files(handle, [written])
            raise
    except StorageError:
        # The answer may be lost while the name is there.
        if not _is_ours(handle, written):
            raise
    return LoadedView(location=written, metadata=metadata)


def delete_view_files(handle: ViewHandle, locations: Iterable[str]) -> None:
    """Deletes files that nothing names; one that cannot be deleted stays as an orphan."""
    for location in locations:
        try:
            handle.io.delete(location)
        except StorageError:
            continue


def _read(handle: ViewHandle, pointer: TableLocation) -> LoadedView:
    location = pointer.metadata_location
    metadata = read_view_metadata(handle.io.read(location), location)
    return LoadedView(location=location, metadata=metadata, previous_location=pointer.previous_metadata_location)


def _is_ours(handle: ViewHandle, location: str) -> bool:
    try:
        return handle.store.load(handle.identifier).metadata_location == location
    except NoSuchViewError:
        return False


def _is_gzip(metadata: ViewMetadata) -> bool:
    return VIEW_METADATA_CODEC.read(metadata.properties) == "gzip"
