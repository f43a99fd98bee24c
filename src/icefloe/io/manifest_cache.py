"""The cache of decoded manifests. A manifest never changes, so that its decoded columns can be kept for the next scans of this process.

A hit requires the same path and length of the manifest, and for a local file the same inode and times. It also requires the same storage properties, including
access keys, and the same allowed locations, so that no reader gets a manifest that its own storage would refuse (access keys from environment variables or from
the machine are not compared). Several manifests that are decoded together are kept, and dropped, as one table. Memory is limited by the bytes of the columns
and their objects. Several threads that need the same manifest wait for one of them to decode it. If a property configures a folder, `manifest_folder.py` stores
the columns for the next process. Spec: Manifests.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.errors import InvalidPropertyError
from icefloe.io.file_io_by_scheme import LOCAL, MEMORY, SchemeFileIO
from icefloe.io.locations import local_path, scheme_of
from icefloe.lazy_imports import lazy_module
from icefloe.spec.manifest.manifest_columns import Statistic
from icefloe.spec.manifest.manifest_reader import DecodedRows, DecodeManifests, columns_schema, read_many_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.ports import FileIO
from icefloe.spec.types import StructType

if TYPE_CHECKING:
    from icefloe.io import manifest_folder
else:  # it takes 4 MB of memory, with OpenSSL
    manifest_folder = lazy_module("icefloe.io.manifest_folder")

ENABLED = "io.manifest.cache-enabled"
EXPIRATION = "io.manifest.cache.expiration-interval-ms"
TOTAL_BYTES = "io.manifest.cache.max-total-bytes"
CONTENT_LENGTH = "io.manifest.cache.max-content-length"
LOCAL_DIR = "io.manifest.cache.local-dir"
LOCAL_TOTAL_BYTES = "io.manifest.cache.local-dir.max-total-bytes"
# The default and the least value of the property.
_NUMBERS = {
    EXPIRATION: (60_000, 0),
    TOTAL_BYTES: (100 * 1024 * 1024, 1),
    CONTENT_LENGTH: (8 * 1024 * 1024, 1),
    LOCAL_TOTAL_BYTES: (1024 * 1024 * 1024, 1),
}
# Memory of an array, and of a manifest's key, besides the bytes of values. In manifests with few entries this is most of the memory.
_ARRAY_BYTES, _KEY_BYTES = 512, 1024
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The settings of the manifest cache, from the properties of a catalog.

    Attributes:
        expiration_ms: Milliseconds after which unused columns are dropped; 0 for never.
        total_bytes: The maximum memory of all columns and their objects.
        content_length: The length in bytes of the longest manifest that is kept.
        local_dir: The folder for decoded manifests; None if they are kept in memory only.
        local_total_bytes: The maximum size of all files in that folder.
    """

    expiration_ms: int
    total_bytes: int
    content_length: int
    local_dir: str | None = None
    local_total_bytes: int = _NUMBERS[LOCAL_TOTAL_BYTES][0]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "CacheSettings | None":
        """Return the settings from a catalog's properties; None if the cache is disabled.

        Raises:
            InvalidPropertyError: A value is not a boolean, not a whole number, too small, or not the absolute path of a folder, where one is required; or a
                folder is configured on a system without file owners and modes.
        """
        enabled = _TRUTH.get(str(properties.get(ENABLED, "true")).lower())
        if enabled is None:
            raise InvalidPropertyError(f"the catalog property {ENABLED} is {properties[ENABLED]!r}", next_step="set it to true or false")
        expiration, total, length, local_total = (_number(properties, name) for name in _NUMBERS)
        folder = properties.get(LOCAL_DIR)
        if folder is not None and not os.path.isabs(folder):
            raise InvalidPropertyError(
                f"the catalog property {LOCAL_DIR} is {folder!r}", next_step="set it to the absolute path of a folder"
            )
        if folder is not None and not manifest_folder.is_possible():
            raise InvalidPropertyError(f"the catalog property {LOCAL_DIR} has no effect on this system", next_step="remove it")
        return (
            cls(expiration_ms=expiration, total_bytes=total, content_length=length, local_dir=folder, local_total_bytes=local_total)
            if enabled
            else None
        )


def _number(properties: Mapping[str, str], name: str) -> int:
    default, least = _NUMBERS[name]
    text = str(properties.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least):
        raise InvalidPropertyError(f"the catalog property {name} is {text!r}", next_step=f"set it to a whole number from {least} on")
    return int(text)


@dataclass(slots=True, eq=False)
class _Unit:
    """The columns of manifests that were decoded together, with the cache keys of these manifests."""

    table: Any
    statistics: frozenset[Statistic]
    size: int
    used: float
    group: Hashable
    keys: set[Hashable]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The range of rows that one manifest has in a `_Unit`, the table of several manifests that were decoded together."""

    unit: _Unit
    start: int
    stop: int


def memory_of(table: Any, manifests: int) -> int:
    """Estimate the bytes that the columns of some manifests take in this process, including the Python objects."""
    arrays: int = sum(column.num_chunks for column in table.columns)
    return int(table.get_total_buffer_size()) + arrays * _ARRAY_BYTES + manifests * _KEY_BYTES


class ManifestCache:
    """The decoded manifests of this process for one combination of settings. Manifests of one storage and one partition type are a group."""

    def __init__(self, settings: CacheSettings) -> None:
        self.settings = settings
        self.folder = (
            None
            if settings.local_dir is None
            else manifest_folder.ManifestFolder(settings.local_dir, settings.local_total_bytes, LOCAL_DIR)
        )
        self.lock = threading.Lock()
        self._rows: dict[Hashable, dict[Hashable, _Rows]] = {}  # by storage and partition type, then by manifest
        self._statistics: dict[Hashable, frozenset[Statistic]] = {}  # used by scans, by storage and partition type
        self._units: OrderedDict[_Unit, None] = OrderedDict()  # the most recently used unit is last
        self._size = 0
        # Manifests that a thread is decoding; the event is set when it has finished.
        self.decoding: dict[Hashable, threading.Event] = {}

    def rows_of(self, group: Hashable) -> Mapping[Hashable, _Rows]:
        """Return the rows of the cached manifests of a group (one storage and one partition type), by manifest. The lock must be held."""
        return self._rows.get(group, {})

    def statistics_of(self, group: Hashable) -> frozenset[Statistic] | None:
        """Return the statistics that scans of the group's cached manifests have used; None if no manifest of the group is cached. The lock must be held."""
        return self._statistics.get(group)

    def touch(self, units: Collection[_Unit]) -> None:
        """Mark units as used now. The lock must be held."""
        now = time.monotonic()
        for unit in units:
            if unit in self._units:
                unit.used = now
                self._units.move_to_end(unit)

    def drop_expired(self) -> None:
        """Drop units that were not used within the expiration time. The lock must be held."""
        if not self.settings.expiration_ms:
            return
        oldest = time.monotonic() - self.settings.expiration_ms / 1000
        while self._units and (unit := next(iter(self._units))).used < oldest:
            self._drop(unit)

    def put(
        self,
        group: Hashable,
        keys: Sequence[Hashable],
        table: Any,
        counts: Sequence[int],
        *,
        statistics: frozenset[Statistic],
        since: float,
    ) -> None:
        """Add a table with the rows of manifests, and drop the least recently used units if the cache is full. The lock must be held.

        Units that were used after the time `since` are not dropped. If there is no space besides them, the table is not kept: this scan needs more than the
        cache can hold, and if each part replaced the part before, the next scan would find nothing.
        """
        size = memory_of(table, len(keys))
        while self._units and self._size + size > self.settings.total_bytes and (unit := next(iter(self._units))).used < since:
            self._drop(unit)
        if self._size + size > self.settings.total_bytes:
            return
        rows = self._rows.setdefault(group, {})
        self._statistics[group] = self._statistics.get(group, frozenset()) | statistics
        unit = _Unit(table, statistics, size, time.monotonic(), group, set(keys))
        start = 0
        for key, count in zip(keys, counts, strict=True):
            self._remove(rows.get(key), key)
            rows[key] = _Rows(unit, start, start + count)
            start += count
        self._units[unit] = None
        self._size += size

    def _remove(self, old: _Rows | None, key: Hashable) -> None:
        """Remove one manifest from its unit, and drop the unit if it has no other manifest."""
        if old is not None:
            old.unit.keys.discard(key)
            if not old.unit.keys:
                self._drop(old.unit)

    def _drop(self, unit: _Unit) -> None:
        rows = self._rows[unit.group]
        for key in unit.keys:
            del rows[key]
        if not rows:  # with temporary credentials, the properties differ at each load of a table
            del self._rows[unit.group], self._statistics[unit.group]
        del self._units[unit]
        self._size -= unit.size


@dataclass(frozen=True, slots=True)
class CachedManifests:
    """The cached manifests of one storage, as one scan uses them: the `cache` argument of the manifest readers."""

    cache: ManifestCache
    storage: Hashable
    since: float = field(default_factory=time.monotonic)  # when the scan began
    _versions: dict[str, tuple[int, ...] | None] = field(default_factory=dict)  # keys of this scan's manifests, by path

    def undecoded_length(self, manifests: Sequence[ManifestFile], partition_type: StructType, statistics: frozenset[Statistic]) -> int:
        """Return the total length of the manifests that must be decoded. See `icefloe.spec.manifest.manifest_reader.ManifestColumnsCache`."""
        keys = [self._key(manifest) for manifest in manifests]
        length = 0
        with self.cache.lock:
            self.cache.drop_expired()
            rows_by_key = self.cache.rows_of((self.storage, partition_type))
            for manifest, key in zip(manifests, keys, strict=True):
                rows = None if key is None else rows_by_key.get(key)
                if rows is None or not statistics <= rows.unit.statistics:
                    length += manifest.manifest_length
        return length

    def rows(
        self, manifests: Sequence[ManifestFile], partition_type: StructType, statistics: frozenset[Statistic], decode: DecodeManifests
    ) -> list[DecodedRows]:
        """Return the rows of each manifest, decoded if necessary. See `icefloe.spec.manifest.manifest_reader.ManifestColumnsCache`."""
        cache, group = self.cache, (self.storage, partition_type)
        keys = [self._key(manifest) for manifest in manifests]
        decoded: dict[int, DecodedRows] = {}
        while True:
            request = _Request()
            try:
                with cache.lock:
                    cache.drop_expired()
                    self._look_up(request, group, keys, statistics, decoded)
                if request.missing:
                    self._decode(request, group, keys, manifests, decode, decoded)
            finally:  # also after an interrupt, because other threads would wait forever
                self._release(request, group, keys)
            if request.missing:
                continue
            if request.others:
                for other in request.others:
                    other.wait()
            else:
                return [decoded[place] for place in range(len(manifests))]

    def _look_up(
        self,
        request: "_Request",
        group: Hashable,
        keys: Sequence[Hashable],
        statistics: frozenset[Statistic],
        decoded: dict[int, DecodedRows],
    ) -> None:
        """Add the cached manifests to `decoded`, and claim those manifests that no thread is decoding."""
        cache = self.cache
        request.statistics = statistics
        used: dict[_Unit, None] = {}
        rows_by_key = cache.rows_of(group)
        for place, key in enumerate(keys):
            if place in decoded:
                continue
            rows = None if key is None else rows_by_key.get(key)
            if rows is not None and statistics <= rows.unit.statistics:
                decoded[place] = DecodedRows(rows.unit.table, rows.start, rows.stop)
                used[rows.unit] = None
            elif key is not None and (group, key) in cache.decoding:
                request.others.append(cache.decoding[group, key])
            else:
                request.missing.append(place)
                if rows is not None:  # rows without a needed statistic are decoded again, with all statistics
                    request.statistics |= rows.unit.statistics
                if key is not None:
                    cache.decoding[group, key] = request.done
        cache.touch(used)

    def _decode(
        self,
        request: "_Request",
        group: tuple[Hashable, StructType],
        keys: Sequence[Hashable],
        manifests: Sequence[ManifestFile],
        decode: DecodeManifests,
        decoded: dict[int, DecodedRows],
    ) -> None:
        folder, statistics, files = self.cache.folder, request.statistics, {}
        undecoded, stored = list(request.missing), {}
        if folder is not None:
            files = {place: manifest_folder.key_of(group, keys[place], statistics) for place in undecoded if keys[place] is not None}
            for place, file in files.items():
                schema = columns_schema(group[1], manifests[place].content, statistics)
                if (table := folder.load(file, schema, _entry_count(manifests[place]))) is not None:
                    stored[place] = table
        if stored:
            stored_counts = [table.num_rows for table in stored.values()]
            self._keep(request, group, keys, list(stored), pa.concat_tables(stored.values()), stored_counts, decoded)
            undecoded = [place for place in undecoded if place not in stored]
        if undecoded:
            table, counts = decode([manifests[place] for place in undecoded], statistics)
            self._keep(request, group, keys, undecoded, table, counts, decoded)
            if folder is not None:
                rows = ((files[place], decoded[place]) for place in undecoded if place in files)
                folder.store(
                    (file, rows_of_file.table.slice(rows_of_file.start, rows_of_file.stop - rows_of_file.start))
                    for file, rows_of_file in rows
                )

    def _keep(
        self,
        request: "_Request",
        group: Hashable,
        keys: Sequence[Hashable],
        places: Sequence[int],
        table: Any,
        counts: Sequence[int],
        decoded: dict[int, DecodedRows],
    ) -> None:
        """Add the newly decoded rows of manifests to `decoded`, and put them into the cache."""
        start = 0
        for place, count in zip(places, counts, strict=True):
            decoded[place] = DecodedRows(table, start, start + count)
            start += count
        claimed = [keys[place] for place in places]
        if None not in claimed:
            with self.cache.lock:
                self.cache.put(group, claimed, table, counts, statistics=request.statistics, since=self.since)

    def _release(self, request: "_Request", group: Hashable, keys: Sequence[Hashable]) -> None:
        """Release the claims of a request, and wake the threads that wait for its manifests."""
        with self.cache.lock:
            for place in request.missing:
                if self.cache.decoding.get((group, keys[place])) is request.done:
                    del self.cache.decoding[group, keys[place]]
        request.done.set()

    def _key(self, manifest: ManifestFile) -> Hashable:
        """Return the cache key of a manifest, with all that its decoded entries depend on; None if the manifest is not cached."""
        if manifest.manifest_length > self.cache.settings.content_length:
            return None
        path = manifest.manifest_path
        if path not in self._versions:
            self._versions[path] = _version(path)
        version = self._versions[path]
        if version is None:
            return None
        return (
            path,
            manifest.manifest_length,
            version,
            manifest.content,
            manifest.sequence_number,
            manifest.added_snapshot_id,
            manifest.first_row_id,
            manifest.added_files_count,
            manifest.existing_files_count,
            manifest.deleted_files_count,
        )


def _entry_count(manifest: ManifestFile) -> int | None:
    """Return the number of entries of a manifest according to the manifest list."""
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(slots=True)
class _Request:
    """The misses of a look-up: manifests to decode, the threads that decode the others, and the event that ends this thread's decoding."""

    missing: list[int] = field(default_factory=list)
    others: list[threading.Event] = field(default_factory=list)
    statistics: frozenset[Statistic] = frozenset()
    done: threading.Event = field(default_factory=threading.Event)


def _version(location: str) -> tuple[int, ...] | None:
    """Return the inode, size and times of a local file, an empty tuple for an object in a store, and None for a file that is not cached."""
    scheme = scheme_of(location)
    if scheme == MEMORY:
        return None  # a memory file is not cached: it is in memory already, and a test may write any path again
    if scheme != LOCAL:
        return ()
    try:
        status = os.stat(local_path(location))
    except OSError:
        return None  # no error here, because reading the file raises it
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=16)
def _cache_of(settings: CacheSettings) -> ManifestCache:
    return ManifestCache(settings)


def clear_manifest_caches() -> None:
    """Drop all decoded manifests of this process."""
    _cache_of.cache_clear()


# A lock that another thread holds while this process is forked would never be released in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=clear_manifest_caches)


def cached_manifests(io: FileIO) -> CachedManifests | None:
    """Return the manifest cache for a storage, by its properties; None if caching is disabled, or the storage is not a class of Icefloe.

    Raises:
        InvalidPropertyError: A property of the cache has an invalid value.
    """
    if not isinstance(io, SchemeFileIO):
        return None
    settings = CacheSettings.of(io.properties)
    if settings is None:
        return None
    return CachedManifests(_cache_of(settings), (frozenset(_texts(io.properties)), io.allowed))


def keep_written(io: FileIO, manifests: Sequence[ManifestFile], contents: Mapping[str, bytes], partition_type: StructType) -> None:
    """Put manifests that this process has written into the cache, so that its next scan need not decode them.

    The cached columns include the statistics that scans of such manifests have used. Nothing is cached if there was no such scan, or if the manifests together
    are longer than the longest manifest that is cached (`CacheSettings.content_length`).

    Args:
        io: The storage.
        manifests: The manifests, as in the manifest list, all with the same partition spec and content.
        contents: The bytes of each manifest, by path.
        partition_type: The type of the partition tuples of the spec.

    Raises:
        IcefloeError: A manifest cannot be decoded, or a property of the cache has an invalid value.
    """
    cached = cached_manifests(io)
    if cached is None or sum(manifest.manifest_length for manifest in manifests) > cached.cache.settings.content_length:
        return
    with cached.cache.lock:
        statistics = cached.cache.statistics_of((cached.storage, partition_type))
    if statistics is not None:
        read_many_columns(manifests, contents.__getitem__, partition_type, statistics=statistics, cache=cached)


def _texts(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in properties.items():
        yield name, str(value)
