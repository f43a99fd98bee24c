"""Which files of a table nothing needs once some of its snapshots are gone: those that they reach, and no kept snapshot does.

Manifests are read here, side by side; `icefloe.spark.maintenance.unreachable_files_job` does the same as a Spark job. What is to be kept must be
readable, or nothing is unreachable;
what goes may be damaged, and is then told. Deleting is `cleaning.py`. Spec: Snapshots; Manifest Lists; Manifests.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, NotFoundError, Problem, StorageError, UnsupportedFeatureError
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.file_paths import PATH_FIELDS, read_file_paths
from icefloe.kernel.manifest_list.manifest_list_columns import MANIFEST_FIELDS, manifests_by_path, read_manifest_columns
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.ports import FileIO
from icefloe.table.engine import UnreachableRequest
from icefloe.table.expiry.file_kinds import FILES, FileKind, as_files, distinct, listed_files, location_keys, without
from icefloe.table.expiry.parallel_requests import side_by_side

# Manifests whose paths are in memory at once. A manifest of the usual 8 MB names some 40,000 files.
GROUP = 64

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """Files that nothing needs (a table of `FILES`), and those of the expired snapshots that could not be read, and so led no further."""

    files: Any
    unreadable: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The manifests (`MANIFEST_FIELDS` and `key`, each once) and manifest lists (`FILES`) of some snapshots; lists that could not be read are left out."""

    manifests: Any
    lists: Any
    unreadable: tuple[Problem, ...] = ()


_MANIFESTS = MANIFEST_FIELDS.append(pa.field("key", pa.string()))
# A file that an entry names: whether a snapshot reads it, or one only took it out of the table.
NAMED = FILES.append(pa.field("is_live", pa.bool_()))


def files_of_snapshots(snapshots: Sequence[Snapshot], read: Read, *, must: bool) -> SnapshotFiles:
    """What the snapshots' manifest lists name.

    Raises:
        NotFoundError, FormatError, StorageError: with `must`, a list cannot be read; it is named. Without, it is among the unreadable.
    """
    manifests, lists, unreadable = _MANIFESTS.empty_table(), [], []
    for group in _groups(snapshots):
        found = []
        for snapshot, answer in zip(
            group, side_by_side(lambda one: _attempt(lambda: _manifests_of(one, read), must=must), group), strict=True
        ):
            if isinstance(answer, IcefloeError):
                unreadable.append(_problem(snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}", answer))
                continue
            table, size = answer
            found.append(table)
            if snapshot.manifest_list is not None:
                lists.append((snapshot.manifest_list, size))
        if found:
            joined = pa.concat_tables(found)
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
    """The files of expired snapshots that kept ones do not reach: manifest lists, manifests, and what these name.

    `find(gone, kept)` is given manifests (tables of `MANIFEST_FIELDS`) that no kept snapshot has, and all that kept ones have; it reads them. A manifest that
    could not be read is not deleted: it is the only trace of what it names.
    """
    gone = without(expired.manifests, kept.manifests["key"])
    found = find(gone.drop_columns("key"), kept.manifests.drop_columns("key")) if len(gone) else Unreachable(files=FILES.empty_table())
    unreadable = location_keys(pa.array([problem.where for problem in found.unreadable], pa.string()))
    manifests = without(as_files(FileKind.MANIFESTS, gone["manifest_path"], gone["manifest_length"]), unreadable)
    files = pa.concat_tables([found.files, manifests, expired.lists])
    # A path that anything kept has, whatever it is there, is never deleted.
    for keys in (kept.manifests["key"], kept.lists["key"]):
        files = without(files, keys)
    return Unreachable(files=files, unreadable=(*expired.unreadable, *found.unreadable))


def find_in_process(request: UnreachableRequest, read: Read) -> Unreachable:
    """The files that manifests of `request.gone` name, and no manifest of `request.kept` has a live entry of.

    Raises:
        NotFoundError, FormatError, StorageError: a kept manifest cannot be read; it is named.
    """
    unreadable, parts = [], [NAMED.empty_table()]
    for group in _groups(request.gone.to_pylist()):
        for answer in side_by_side(lambda row: read_row_or_problem(read, row), group):
            if isinstance(answer, Problem):
                unreadable.append(answer)
            else:
                parts.append(named_files(answer))
        parts = [distinct_files(pa.concat_tables(parts))]
    files = parts[0]
    for live in live_keys(request.kept, read) if len(files) else ():
        files = without(files, live)
        if not len(files):
            break
    return Unreachable(files=existing(files, request.io), unreadable=tuple(unreadable))


def live_keys(manifests: Any, read: Read) -> Iterator[Any]:
    """What the live entries of kept manifests name, as keys, in groups. Raises as `find_in_process`."""
    for group in _groups(manifests.to_pylist()):
        tables = list(side_by_side(lambda row: read_row(read, row), group))
        entries = pa.concat_tables([PATH_FIELDS.empty_table(), *tables])
        live = entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))
        yield location_keys(live["file_path"])


def read_row(read: Read, row: dict[str, Any]) -> Any:
    """The entries of one manifest, given as a row of `MANIFEST_FIELDS`, as a table of `PATH_FIELDS`."""
    counts = (row["added_files_count"], row["existing_files_count"], row["deleted_files_count"])
    return read_file_paths(read(row["manifest_path"]), row["manifest_path"], length=row["manifest_length"], counts=counts)


def read_row_or_problem(read: Read, row: dict[str, Any]) -> Any:
    """The same, or the `Problem` that the manifest cannot be read, by its path."""
    found = _attempt(lambda: read_row(read, row), must=False)
    return _problem(row["manifest_path"], found) if isinstance(found, IcefloeError) else found


def named_files(entries: Any) -> Any:
    """Entries as `FILES`, with `is_live` false for those that were only taken out."""
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
    """Named files as `FILES`. Those that were only taken out mostly went with the snapshot that had them: they are looked for, and not counted twice."""
    live, taken_out = files.filter(files["is_live"]), files.filter(pc.invert(files["is_live"]))
    there = list(side_by_side(lambda path: _may_be_there(io, path), taken_out["path"].to_pylist()))
    kept = pa.concat_tables([live, taken_out.filter(pa.array(there, pa.bool_()))])
    return kept.select(FILES.names)


def _may_be_there(io: FileIO, path: str) -> bool:
    try:
        return io.exists(path)
    except StorageError:
        return True


def distinct_files(files: Any) -> Any:
    """Each file once; live where any entry says so."""
    return distinct(pa.concat_tables([files.filter(files["is_live"]), files.filter(pc.invert(files["is_live"]))]))


def _attempt(action: Callable[[], Any], *, must: bool) -> Any:
    """What the action gives, or the error that keeps a file from being read."""
    try:
        return action()
    except (NotFoundError, FormatError, StorageError, UnsupportedFeatureError) as error:
        if must:
            raise
        return error


def _problem(path: str, error: IcefloeError) -> Problem:
    what = "it is not there" if isinstance(error, NoSuchFileError) else "; ".join([error.message, *map(str, error.problems)])
    return Problem(where=path, what=what)


def _groups(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while group := list(islice(iterator, GROUP)):
        yield group
