"""`TableHandle`: a table's entry in a catalog store and the storage of its files; and the reading and naming of its metadata files.

Spec: Table Metadata; Table Metadata Fields (`table-uuid`); Metastore Tables; Appendix F, Path Construction.
"""

import time
import uuid
from dataclasses import dataclass, field

from icefloe.catalog_store.catalog_store import CatalogStore
from icefloe.catalog_store.identifier import Identifier, dotted
from icefloe.errors import NoSuchTableError
from icefloe.io.locations import LocationPolicy, is_relative, join
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.metadata_reader import read_table_metadata
from icefloe.kernel.metadata.metadata_writer import write_table_metadata
from icefloe.kernel.metadata.naming import metadata_file_name, metadata_version
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.ports import Clock, FileIO, IdSource


class SystemClock:
    """The wall clock, behind the kernel's port."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000


class RandomIds:
    """The source of random ids behind the kernel's port."""

    def uuid(self) -> str:
        """Return a version 4 UUID."""
        return str(uuid.uuid4())

    def snapshot_id(self) -> int:
        """Return a snapshot id, folded from a UUID as Java does."""
        drawn = uuid.uuid4().int
        return ((drawn >> 64) ^ drawn) & 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table's name in a catalog store, and the ports that its operations use."""

    identifier: Identifier
    store: CatalogStore
    io: FileIO
    policy: LocationPolicy = field(default_factory=LocationPolicy)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)

    @property
    def table_name(self) -> str:
        """`catalog.namespace.table`, for messages."""
        return f"{self.store.name}.{dotted(self.identifier)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMetadata:
    """Table metadata and the location it was read from or written to."""

    location: str
    metadata: TableMetadata


def load_metadata(handle: TableHandle) -> LoadedMetadata:
    """Load the metadata that the catalog names now. Raises `NoSuchTableError`, `NoSuchFileError`, `MetadataFormatError`."""
    location = handle.store.load(handle.identifier).metadata_location
    return read_metadata_at(handle.io, location)


def reload_metadata(handle: TableHandle, previous: TableMetadata) -> LoadedMetadata:
    """Load the metadata that the catalog names now, which must be of the same table as `previous`. Spec: Table Metadata Fields (`table-uuid`).

    Raises:
        NoSuchTableError: the table was dropped, or another table has its name now.
        NoSuchFileError, MetadataFormatError, UnsupportedFormatVersionError: as `read_metadata_at`.
    """
    try:
        loaded = load_metadata(handle)
    except NoSuchTableError as error:
        raise NoSuchTableError(
            f"{error.message} any longer: it was dropped or renamed since it was loaded",
            table=handle.table_name,
            next_step=f"a retry makes no sense: load it by the name that it has now; {error.next_step}",
        ) from error
    table_uuid = loaded.metadata.table_uuid
    if previous.table_uuid is not None and table_uuid != previous.table_uuid:
        raise NoSuchTableError(
            f"{handle.table_name} is another table now: its uuid is {table_uuid}, and that of the table at hand is {previous.table_uuid}",
            table=handle.table_name,
            next_step="load the table by its name again; nothing was written to it",
        )
    return loaded


def read_metadata_at(io: FileIO, location: str) -> LoadedMetadata:
    """Read the metadata file at a location. Raises `NoSuchFileError`, `MetadataFormatError`, `UnsupportedFormatVersionError`."""
    return LoadedMetadata(location=location, metadata=read_table_metadata(io.read(location), location))


def metadata_folder(metadata: TableMetadata) -> str:
    """Return the folder of metadata JSON, manifest lists and manifests."""
    return _folder(metadata, table_properties.METADATA_PATH.read(metadata.properties) or "metadata")


def data_folder(metadata: TableMetadata) -> str:
    """Return the folder of data files."""
    return _folder(metadata, table_properties.DATA_PATH.read(metadata.properties) or "data")


def _folder(metadata: TableMetadata, path: str) -> str:
    """Resolve a relative path under the table's location. Spec: Appendix F, Path Construction."""
    return join(metadata.location, path) if is_relative(path) else path


def new_metadata_location(ids: IdSource, metadata: TableMetadata, *, previous_location: str | None) -> str:
    """Return the location of the next metadata version, which no file has yet."""
    version = _next_version(previous_location)
    return f"{metadata_folder(metadata)}/{metadata_file_name(version, ids.uuid(), gzip=_is_gzip(metadata))}"


def metadata_content(metadata: TableMetadata) -> bytes:
    """Return the bytes of the metadata file, compressed according to the table's properties."""
    return write_table_metadata(metadata, gzip=_is_gzip(metadata))


def _is_gzip(metadata: TableMetadata) -> bool:
    return table_properties.METADATA_CODEC.read(metadata.properties) == "gzip"


def _next_version(previous_location: str | None) -> int:
    """Return one more than the version in the name; 0 for a table's first file, and after a file with another naming."""
    previous = metadata_version(previous_location) if previous_location else None
    return 0 if previous is None else previous + 1
