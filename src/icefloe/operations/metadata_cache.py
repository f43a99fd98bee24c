"""Functions that load table metadata as `LoadedMetadata`; and `MetadataCache`, a cache of metadata files that this process has parsed or written.

Spec: Table Metadata; Table Metadata Fields (`table-uuid`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icefloe.bounded_cache import BoundedCache
from icefloe.errors import NoSuchFileError, NoSuchTableError, StorageError
from icefloe.io.file_io_by_scheme import file_version
from icefloe.io.local_file_io import FileVersion
from icefloe.io.locations import scheme_of
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.table_metadata import LISTS, TableMetadata
from icefloe.spec.ports import FileIO, Part
from icefloe.stores.catalog_store import TableLocation

_CACHED_BYTES = 128 * 1024 * 1024
_CACHED_TABLES = 64


def has_no_file(metadata_location: str) -> bool:
    """Return whether a metadata file cannot be read here, because its location is empty or an address of the catalog's server, which sends its content."""
    return not metadata_location or scheme_of(metadata_location) in ("http", "https")


def stored_size(io: FileIO, location: str) -> int | None:
    """Return the size of a file in bytes; None if it does not exist, or is a metadata file that only the catalog's server can read."""
    if has_no_file(location):
        return None
    try:
        return io.size(location)
    except NoSuchFileError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMetadata:
    """A version of a table: its metadata, and the location of the metadata file (empty if the table is new or the location unknown)."""

    location: str
    metadata: TableMetadata

    @property
    def state(self) -> str:
        """A text that is different for each version of the table.

        It is the location of the metadata file. If `has_no_file` is true for the location, it has values that change with nearly every commit instead.
        """
        if not has_no_file(self.location):
            return self.location
        metadata = self.metadata  # a server may use the same address for all versions
        parts = (metadata.last_updated_ms, metadata.last_sequence_number, metadata.current_snapshot_id, metadata.current_schema_id)
        return " ".join(map(str, (*parts, self.location)))


_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class _Kept:
    location: str
    content: Sequence[Part]  # the parts that the metadata refers to, so that they need no further memory
    metadata: TableMetadata
    version: FileVersion | None = None

    @property
    def size(self) -> int:
        """The bytes in memory: of the file and, if it is compressed, also of the uncompressed text, from which entries are decoded."""
        size = sum(map(len, self.content))
        if self.content[0][:2] != _GZIP:
            return size
        # A gzip file ends with the length of its uncompressed text; the reader or the writer has checked it.
        return size + int.from_bytes(b"".join(self.content[-4:])[-4:], "little")

    def has(self, content: bytes) -> bool:
        """Return whether the cached file has exactly this content."""
        if len(content) != sum(map(len, self.content)):
            return False
        start = 0
        for part in self.content:
            if not content.startswith(part[:], start):  # the slice is a copy as `bytes`, also of pages
                return False
            start += len(part)
        return True


class MetadataCache:
    """A cache of the metadata files that this process parsed or wrote last. An unchanged file is not parsed again.

    By the specification a metadata file never changes, but a location can get another file: in a file-system catalog, a table that is dropped and created again
    has the same file names. So a cached value is used only if the file system shows that the file is the same, or if the content is equal. The content is read
    and compared if the storage does not identify files (object stores), or if the file was changed so recently that a further change would not be noticed.

    The cache has the last file of up to 64 tables, of at most 128 MiB in total with their text. The least recently used files are dropped first. It is
    thread-safe.
    """

    def __init__(self, max_bytes: int = _CACHED_BYTES, max_tables: int = _CACHED_TABLES) -> None:
        self._files: BoundedCache[str, _Kept] = BoundedCache(max_tables, most_cost=max_bytes)  # files by location
        self._location_of: BoundedCache[str, str] = BoundedCache(max_tables)  # the location of each table's file, by table UUID

    def load(self, io: FileIO, location: str) -> TableMetadata:
        """Return the metadata in the file at a location, from the cache if the file is unchanged.

        Raises:
            NoSuchFileError, StorageError: the file cannot be read.
            LocationNotAllowedError: the storage does not allow the location, whether or not the file was read before.
            MetadataFormatError, UnsupportedFormatVersionError: as `read_table_metadata`.
        """
        version = file_version(io, location)
        kept = self._files.get(location)
        if kept is not None and version is not None and kept.version == version:
            return kept.metadata.for_caller()
        return self.parse(io.read(location), location, version)

    def parse(self, content: bytes, location: str, version: FileVersion | None = None) -> TableMetadata:
        """Parse the bytes of a metadata file, or return the cached metadata if the bytes are the same. Callers cannot change the cached value.

        Raises the errors of `read_table_metadata`.

        Args:
            content: The file's bytes.
            location: The location of the file.
            version: The version of the file before it was read; None if unknown.
        """
        version = version if version is not None and version.shows_next_change else None
        kept = self._files.get(location)
        if kept is not None and kept.has(content):
            kept.version = version
            return kept.metadata.for_caller()
        metadata = read_table_metadata(content, location)
        older = self._files.get(self._location_of.get(metadata.table_uuid or "") or "")
        if older is not None and older.metadata.table_uuid == metadata.table_uuid:  # another process has committed meanwhile
            metadata = replace(
                metadata,
                snapshots=metadata.snapshots.sharing(older.metadata.snapshots),
                snapshot_log=metadata.snapshot_log.sharing(older.metadata.snapshot_log),
            )
        self._keep(_Kept(location, (content,), metadata, version))
        return metadata.for_caller()

    def keep(
        self,
        content: Sequence[Part],
        location: str,
        metadata: TableMetadata,
        base: TableMetadata,
        version: FileVersion | None = None,
    ) -> None:
        """Add metadata that this process wrote to the cache.

        Args:
            content: The file's bytes, in parts.
            location: The location of the file.
            metadata: The metadata that was written.
            base: The metadata from which `metadata` was made. Lists that both share, such as the snapshot log, keep their decoded values.
            version: The version of the file after it was written; None if unknown.
        """
        lists = {name: getattr(metadata, name) for name in LISTS}
        lists = {name: entries if entries is getattr(base, name) else entries.fresh(location) for name, entries in lists.items()}
        self._keep(_Kept(location, content, replace(metadata, **lists).for_caller(), version))

    def clear(self) -> None:
        """Remove all files from the cache."""
        self._files.clear()
        self._location_of.clear()

    def _keep(self, kept: _Kept) -> None:
        """Add a file to the cache, in place of the file with the same location and of the previous file of the same table (by the table's UUID).

        A table of format version 1 may have no UUID, so that its files only replace files with the same location.
        """
        uuid = kept.metadata.table_uuid
        with self._files.lock:
            if uuid is not None:
                self._files.pop(self._location_of.get(uuid) or "")
                self._location_of.put(uuid, kept.location)
            self._files.put(kept.location, kept, kept.size)


# The cache of this process.
METADATA_FILES = MetadataCache()


def load_metadata(handle: TableHandle) -> LoadedMetadata:
    """Load the current metadata of a table. Raises `NoSuchTableError`, `NoSuchFileError`, `MetadataFormatError`."""
    return metadata_of(handle.io, handle.store.load(handle.identifier))


def metadata_of(io: FileIO, stored: TableLocation) -> LoadedMetadata:
    """Return the metadata of a table, given its entry in the store. If the entry has only a location, the file is read. Raises as `read_metadata_at`."""
    if stored.unreadable is not None:
        raise stored.unreadable
    if isinstance(stored.metadata, TableMetadata):
        return LoadedMetadata(location=stored.metadata_location, metadata=stored.metadata)
    return read_metadata_at(io, stored.metadata_location)


def reload_metadata(handle: TableHandle, previous: TableMetadata) -> LoadedMetadata:
    """Load the current metadata of a table, which must have the UUID of `previous`. Spec: Table Metadata Fields (`table-uuid`).

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
    return LoadedMetadata(location=location, metadata=METADATA_FILES.load(io, location))


def written_version(io: FileIO, location: str) -> FileVersion | None:
    """Return the version of a file that this process has just written under a random name, which no other writer can have changed; None if unknown."""
    try:
        return file_version(io, location)
    except (NoSuchFileError, StorageError):
        return None
