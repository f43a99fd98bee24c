"""Finds the files of a table that became unreachable when snapshots were removed: the files that no kept snapshot uses.

An engine reads the manifests, in this process or in Spark's tasks. If a file of a kept snapshot cannot be read, an error is raised, and nothing counts as
unreachable. Damaged files of removed snapshots are only reported. Files are passed as Arrow tables with the columns of `FILES`: kind, path, key and size.
`expiry/file_cleanup.py` deletes the files. Spec: Snapshots; Manifest Lists; Manifests; File Locations in Metadata.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, NotFoundError, Problem, StorageError, UnsupportedFeatureError
from icefloe.operations.engine import Engine
from icefloe.operations.parallel_requests import side_by_side
from icefloe.spec.arrow_values import mask_array
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.file_paths import PATH_FIELDS, read_file_paths
from icefloe.spec.manifest_list.manifest_list_reader import MANIFEST_FIELDS, manifests_by_path, read_manifest_columns
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.ports import FileIO


class FileKind(StrEnum):
    """The kinds of files, in the order of deletion: a file is deleted after the files that it refers to, so that an interrupted deletion can be continued."""

    DATA = "data files"
    POSITION_DELETES = "position delete files"
    EQUALITY_DELETES = "equality delete files"
    DELETION_VECTORS = "deletion vector files"
    MANIFESTS = "manifests"
    MANIFEST_LISTS = "manifest lists"
    STATISTICS = "statistics files"
    PARTITION_STATISTICS = "partition statistics files"
    METADATA = "metadata files"


# The schema of Arrow tables of files. `key` is equal for all spellings of a file's path, see `location_keys`; the size is null if unknown.
FILES = pa.schema(
    [pa.field("kind", pa.string()), pa.field("path", pa.string()), pa.field("key", pa.string()), pa.field("size_in_bytes", pa.int64())]
)

# Patterns of the different spellings of the same location, each with the text that replaces it in keys: Hadoop's `file:/x`, `file:///x` and `/x`; and the
# different schemes of the same store.
_SAME = (
    (r"^(?i:file):(//(?i:localhost)/|/*)", "/"),
    (r"^(?i:s3a|s3n|s3)://", "s3://"),
    (r"^(?i:gcs|gs)://", "gs://"),
    (r"^(?i:abfss?|wasbs?)://", "abfs://"),
    (r"^(?i:memory):/*", "memory://"),
)

# The number of manifests whose paths are in memory at once. A manifest of the usual 8 MB has some 40,000 paths.
GROUP = 32

# The columns of a manifest list that are needed to read a manifest.
_READ_COLUMNS = ["manifest_path", "manifest_length", "added_files_count", "existing_files_count", "deleted_files_count"]

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """Unreachable files.

    Attributes:
        files: The unreachable files that are known, as a table of `FILES`.
        unreadable: The manifest lists and manifests of expired snapshots that could not be read. The files that they refer to are unknown, and not in `files`.
    """

    files: Any
    unreadable: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The metadata files of some snapshots.

    Attributes:
        manifests: The distinct manifests, as a table with the columns of `MANIFEST_FIELDS` and `key`.
        lists: The distinct manifest lists, as a table of `FILES`.
        unreadable: The manifest lists that could not be read. Their manifests are unknown, and not in `manifests`.
    """

    manifests: Any
    lists: Any
    unreadable: tuple[Problem, ...] = ()


_MANIFESTS = MANIFEST_FIELDS.append(pa.field("key", pa.string()))
# The schema of Arrow tables of the files in manifest entries. `is_live` is false for entries with status DELETED.
NAMED = FILES.append(pa.field("is_live", pa.bool_()))


def files_of_snapshots(snapshots: Sequence[Snapshot], read: Read, *, must: bool) -> SnapshotFiles:
    """Read the manifest lists of snapshots, and return the lists and their manifests.

    If `must` is false, a list that cannot be read is added to `unreadable` of the result, and no error is raised.

    Raises:
        NotFoundError, FormatError, StorageError: `must` is true, and a list cannot be read. The error has the location of the list.
        UnsupportedFeatureError: `must` is true, and a snapshot is encrypted.
    """
    manifests, lists, unreadable = _MANIFESTS.empty_table(), [], []
    for group in _groups(snapshots):
        tables = []
        results = side_by_side(lambda snapshot: _attempt(lambda: _manifests_of(snapshot, read), must=must), group)
        for snapshot, result in zip(group, results, strict=True):
            if isinstance(result, IcefloeError):
                unreadable.append(_problem(snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}", result))
                continue
            table, size = result
            tables.append(table)
            if snapshot.manifest_list is not None:
                lists.append((snapshot.manifest_list, size))
        if tables:
            joined = pa.concat_tables(tables)
            keyed = joined.append_column("key", location_keys(joined["manifest_path"])).cast(_MANIFESTS)
            manifests = distinct(pa.concat_tables([manifests, keyed]))
    return SnapshotFiles(manifests=manifests, lists=distinct(listed_files(FileKind.MANIFEST_LISTS, lists)), unreadable=tuple(unreadable))


def _manifests_of(snapshot: Snapshot, read: Read) -> tuple[Any, int | None]:
    if snapshot.key_id is not None:
        raise UnsupportedFeatureError(
            f"snapshot {snapshot.snapshot_id} is encrypted with the key {snapshot.key_id!r}, so what it needs cannot be known",
            snapshot_id=snapshot.snapshot_id,
            next_step="expire snapshots of this table with an engine that has its keys",
        )
    if snapshot.manifest_list is None:
        return manifests_by_path(snapshot.manifest_paths or ()), None
    content = read(snapshot.manifest_list)
    return read_manifest_columns(content, snapshot.manifest_list), len(content)


def unreachable_files(expired: SnapshotFiles, kept: SnapshotFiles, find: Callable[[Any, Any], Unreachable]) -> Unreachable:
    """Return the files that only expired snapshots use: manifest lists, manifests, and the files in these manifests.

    A manifest that could not be read is not among them, because it is the only record of the files in it.

    Args:
        expired: The metadata files of the expired snapshots.
        kept: The metadata files of the kept snapshots.
        find: Called as `find(gone, kept)` with two tables of `MANIFEST_FIELDS`: the manifests that no kept snapshot has, and all manifests of kept snapshots.
            It reads them, and returns the files that only manifests in `gone` refer to, see `find_unreachable`.
    """
    gone = without(expired.manifests, kept.manifests["key"])
    unreachable = (
        find(gone.drop_columns("key"), kept.manifests.drop_columns("key")) if len(gone) else Unreachable(files=FILES.empty_table())
    )
    unreadable = location_keys(pa.array([problem.where for problem in unreachable.unreadable], pa.string()))
    manifests = without(as_files(FileKind.MANIFESTS, gone["manifest_path"], gone["manifest_length"]), unreadable)
    files = pa.concat_tables([unreachable.files, manifests, expired.lists])
    # A path that is used by anything kept is never deleted, even if it is a different kind of file there.
    for keys in (kept.manifests["key"], kept.lists["key"]):
        files = without(files, keys)
    return Unreachable(files=files, unreadable=(*expired.unreadable, *unreachable.unreadable))


def find_unreachable(engine: Engine, table_name: str, gone: Any, kept: Any, read: Read, io: FileIO) -> Unreachable:
    """Return the files in the manifests `gone` for which no manifest in `kept` has a live entry.

    Files are compared by hashes of their paths, of 8 bytes each, so that no process needs the paths of all live files in memory. If a live file and an
    unreachable file have the same hash, the unreachable file is not found.

    Args:
        engine: The engine that reads the manifests.
        table_name: The name of the table, for messages.
        gone: The manifests that no kept snapshot has, as a table of `MANIFEST_FIELDS`.
        kept: All manifests of kept snapshots, as a table of `MANIFEST_FIELDS`.
        read: Returns the bytes of a manifest. It must be picklable, unless the engine is the in-process engine.
        io: The storage of the files.

    Raises:
        NotFoundError, FormatError, StorageError: a kept manifest cannot be read; the error has its location.
    """

    def of_groups(function: Callable[[list[dict[str, Any]]], Any], manifests: Any) -> Iterator[Any]:
        groups = list(_groups(manifests.select(_READ_COLUMNS).to_pylist()))
        return engine.map(function, groups, f"find files of {table_name} that nothing needs", tasks=len(groups))

    live = np.unique(np.concatenate([np.empty(0, np.int64), *of_groups(partial(_live_hashes, read), kept)]))
    files, unreadable = NAMED.empty_table(), list[Problem]()
    for unneeded, problems in of_groups(partial(_unneeded_files, read, live), gone):
        files = distinct_files(pa.concat_tables([files, unneeded]))
        unreadable += problems
    return Unreachable(files=existing(files, io), unreadable=tuple(unreadable))


def _live_hashes(read: Read, manifests: Sequence[dict[str, Any]]) -> NDArray[np.int64]:
    """Return the sorted, distinct hashes of the location keys of all files with a live entry in these manifests."""
    named = [named_files(entries) for entries in side_by_side(partial(read_row, read), manifests)]
    return np.unique(np.concatenate([_hashes(files.filter(files["is_live"])["key"]) for files in named]))


def _unneeded_files(read: Read, live: NDArray[np.int64], manifests: Sequence[dict[str, Any]]) -> tuple[Any, list[Problem]]:
    """Return the files in these manifests whose hash is not in `live`, as a table of `NAMED`; and the manifests that could not be read."""
    parts, unreadable = [NAMED.empty_table()], list[Problem]()
    for entries in side_by_side(partial(read_row_or_problem, read), manifests):
        if isinstance(entries, Problem):
            unreadable.append(entries)
        else:
            files = named_files(entries)
            parts.append(files.filter(mask_array(~np.isin(_hashes(files["key"]), live))))
    return distinct_files(pa.concat_tables(parts)), unreadable


def _hashes(keys: Any) -> NDArray[np.int64]:
    return np.fromiter((mmh3.hash64(key)[0] for key in keys.to_pylist()), np.int64, len(keys))


def live_keys(manifests: Any, read: Read) -> Iterator[Any]:
    """Yield the location keys of all files with a live entry in these manifests, as Arrow strings, in groups. Raises the errors of `find_unreachable`."""
    for group in _groups(manifests.to_pylist()):
        tables = list(side_by_side(lambda row: read_row(read, row), group))
        entries = pa.concat_tables([PATH_FIELDS.empty_table(), *tables])
        live = entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))
        yield location_keys(live["file_path"])


def read_row(read: Read, row: dict[str, Any]) -> Any:
    """Read the entries of one manifest, which is passed as a row of `MANIFEST_FIELDS`. Return them as a table of `PATH_FIELDS`."""
    counts = (row["added_files_count"], row["existing_files_count"], row["deleted_files_count"])
    return read_file_paths(read(row["manifest_path"]), row["manifest_path"], length=row["manifest_length"], counts=counts)


def read_row_or_problem(read: Read, row: dict[str, Any]) -> Any:
    """Return the result of `read_row`; or, if the manifest cannot be read, a `Problem` with the reason."""
    result = _attempt(lambda: read_row(read, row), must=False)
    return _problem(row["manifest_path"], result) if isinstance(result, IcefloeError) else result


def named_files(entries: Any) -> Any:
    """Convert manifest entries, a table of `PATH_FIELDS`, to a table of `NAMED`."""
    is_vector = pc.equal(pc.utf8_upper(pc.fill_null(entries["file_format"], "")), "PUFFIN")
    content = pc.fill_null(entries["content"], 0)
    kinds = pc.case_when(
        pc.make_struct(pc.equal(content, 2), pc.and_(pc.equal(content, 1), is_vector), pc.equal(content, 1)),
        FileKind.EQUALITY_DELETES.value,
        FileKind.DELETION_VECTORS.value,
        FileKind.POSITION_DELETES.value,
        FileKind.DATA.value,
    )
    paths = entries["file_path"]
    live = pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED))
    return pa.table([kinds, paths, location_keys(paths), entries["file_size_in_bytes"], live], schema=NAMED)


def existing(files: Any, io: FileIO) -> Any:
    """Return the files of a table of `NAMED` as a table of `FILES`, without files that have only DELETED entries and do not exist.

    Most files that have only DELETED entries were deleted when their last snapshot expired, and must not be counted again. Therefore the existence of these
    files is checked, but not that of files with live entries. A file whose existence cannot be checked counts as existing.
    """
    live, removed = files.filter(files["is_live"]), files.filter(pc.invert(files["is_live"]))
    may_exist = list(side_by_side(lambda path: _may_exist(io, path), removed["path"].to_pylist()))
    remaining = pa.concat_tables([live, removed.filter(pa.array(may_exist, pa.bool_()))])
    return remaining.select(FILES.names)


def _may_exist(io: FileIO, path: str) -> bool:
    try:
        return io.exists(path)
    except StorageError:
        return True


def distinct_files(files: Any) -> Any:
    """Return a table of `NAMED` with each file once. A file is live if any of its entries is live."""
    return distinct(pa.concat_tables([files.filter(files["is_live"]), files.filter(pc.invert(files["is_live"]))]))


def _attempt(action: Callable[[], Any], *, must: bool) -> Any:
    """Call an action and return its result. If a file cannot be read, raise the error if `must` is true; else return the error."""
    try:
        return action()
    except (NotFoundError, FormatError, StorageError, UnsupportedFeatureError) as error:
        if must:
            raise
        return error


def _problem(path: str, error: IcefloeError) -> Problem:
    what = "it does not exist" if isinstance(error, NoSuchFileError) else "; ".join([error.message, *map(str, error.problems)])
    return Problem(where=path, what=what)


def _groups(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while group := list(islice(iterator, GROUP)):
        yield group


def location_keys(paths: Any) -> Any:
    """Convert Arrow strings of paths to keys. The keys of two paths are equal if the paths are spellings of the same location, see `_SAME`."""
    for pattern, written in _SAME:
        paths = pc.replace_substring_regex(paths, pattern, written)
    return pc.if_else(pc.starts_with(paths, "/"), pc.replace_substring_regex(paths, "/+", "/"), paths)


def as_files(kind: FileKind, paths: Any, sizes: Any) -> Any:
    """Convert Arrow arrays of the paths and the sizes in bytes of files of one kind to a table of `FILES`."""
    keys = location_keys(paths)
    return pa.table([pa.repeat(kind.value, len(paths)), paths, keys, sizes], schema=FILES)


def listed_files(kind: FileKind, files: Iterable[tuple[str, int | None]]) -> Any:
    """Convert pairs of path and size in bytes to a table of `FILES`."""
    listed = list(files)
    return as_files(kind, pa.array([path for path, _ in listed], pa.string()), pa.array([size for _, size in listed], pa.int64()))


def without(files: Any, keys: Any) -> Any:
    """Return the rows of a table whose `key` is not in the Arrow array `keys`."""
    return files.filter(pc.invert(pc.is_in(files["key"], value_set=_array(keys)))) if len(files) and len(keys) else files


def distinct(files: Any) -> Any:
    """Return a table with the first row of each `key`."""
    others = [name for name in files.column_names if name != "key"]
    grouped = files.group_by("key", use_threads=False).aggregate([(name, "first") for name in others])
    columns = [grouped["key" if name == "key" else f"{name}_first"] for name in files.column_names]
    return pa.table(columns, schema=files.schema)


def _array(keys: Any) -> Any:
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
