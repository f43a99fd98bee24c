"""`ReferencedFiles`: every file that a table needs: the files of all snapshots, and the files that the metadata itself refers to.

The metadata is read after the files were listed, so that a file which is committed in between is referenced. Manifests are read in groups of a few. A commit
that has written its metadata file may still happen as long as the catalog has the metadata file that it is based on; the files of such pending commits count as
referenced. Spec: Snapshots; Manifest Lists; Manifests; Optimistic Concurrency.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.locations import join
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.orphans.path_keys import PathKeys
from icefloe.operations.parallel_requests import MANIFEST_THREADS
from icefloe.operations.unreachable_files import files_of_snapshots, location_keys, read_row, without
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO

HINT = "version-hint.text"
METADATA_FOLDER = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencedFiles:
    """The files that a table needs, so that they must not be deleted.

    Attributes:
        io: The storage.
        paths: Locations of the files that table metadata refers to.
        manifests: The manifests of all snapshots, as `SnapshotFiles.manifests`; the files of their live entries are referenced too.
        snapshot_ids: The ids of the snapshots.
        pending: Metadata files of commits that may still happen.
    """

    io: FileIO
    paths: tuple[str, ...]
    manifests: Any
    snapshot_ids: frozenset[int] = frozenset()
    pending: tuple[str, ...] = field(default=())

    def batches(self) -> Iterator[Any]:
        """Yield the locations of referenced files as Arrow arrays.

        Raises:
            NotFoundError, FormatError, StorageError: A manifest cannot be read.
        """
        yield pa.array(self.paths, pa.string())
        yield self.manifests["manifest_path"]
        yield from _few_ahead(
            lambda row: live_paths(self.io, row), (row for batch in self.manifests.to_batches() for row in batch.to_pylist())
        )


def live_paths(io: FileIO, manifest: dict[str, Any]) -> Any:
    """Read a manifest, given as a row of `MANIFEST_FIELDS`, and return an Arrow array of the locations of its live files. Raises as `batches`."""
    entries = read_row(io.read, manifest)
    return entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))["file_path"]


def _few_ahead(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Apply a function to items in threads, and yield the results in order. Only a few results are in memory at once."""
    waiting: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(MANIFEST_THREADS, thread_name_prefix="icefloe-manifests")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > MANIFEST_THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def referenced_files(
    table_name: str, io: FileIO, loaded: LoadedMetadata, others: Sequence[LoadedMetadata] = (), metadata_files: Iterable[str] = ()
) -> ReferencedFiles:
    """Collect the files that a table needs, and the files that other tables in the same folder need.

    Args:
        table_name: The table, for errors.
        io: The storage.
        loaded: The table's metadata, loaded after its folder was listed.
        others: The metadata of other tables whose files may be in the folder.
        metadata_files: The locations of the metadata files that the listing found.

    Raises:
        NotFoundError, FormatError, StorageError, UnsupportedError: A file that a snapshot needs cannot be read, so that not all needed files are known.
    """
    try:
        pending = list(_pending_commits(io, loaded, metadata_files))
        snapshots = [snapshot for table in (loaded, *others) for snapshot in table.metadata.snapshots]
        reached = files_of_snapshots(snapshots, io.read, must=True)
        snapshot_ids = loaded.metadata.snapshots.ids()
        staged = [snapshot for commit in pending for snapshot in commit.metadata.snapshots if snapshot.snapshot_id not in snapshot_ids]
        # Missing files of a pending commit are ignored, because its writer may be deleting them.
        of_pending = files_of_snapshots(staged, io.read, must=False)
        added = without(of_pending.manifests, reached.manifests["key"])
        readable = [row for row in added.to_pylist() if _is_readable(io, row)]
    except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
        raise refusal(table_name, error) from error
    paths = [path for table in (loaded, *others, *pending) for path in paths_in_metadata(table)]
    paths += [problem.where for problem in of_pending.unreadable]
    paths += [path for files in (reached, of_pending) for path in files.lists["path"].to_pylist()]
    paths += added["manifest_path"].to_pylist()
    return ReferencedFiles(
        io=io,
        paths=tuple(paths),
        manifests=pa.concat_tables([reached.manifests, pa.Table.from_pylist(readable, schema=added.schema)]),
        snapshot_ids=frozenset(snapshot_ids),
        pending=tuple(commit.location for commit in pending),
    )


def _is_readable(io: FileIO, manifest: dict[str, Any]) -> bool:
    try:
        live_paths(io, manifest)
    except (NotFoundError, FormatError):
        return False
    return True


def paths_in_metadata(loaded: LoadedMetadata) -> list[str]:
    """Return the locations of the files to which table metadata itself refers, of the metadata file, and of the version hints in the metadata folders."""
    metadata = loaded.metadata
    paths = [loaded.location, *(entry.metadata_file for entry in metadata.metadata_log)]
    paths += [path for snapshot in metadata.snapshots for path in (snapshot.manifest_list, *(snapshot.manifest_paths or ())) if path]
    paths += [file.statistics_path for file in metadata.statistics]
    paths += [file.statistics_path for file in metadata.partition_statistics]
    folders = dict.fromkeys([join(metadata.location, METADATA_FOLDER), *(path.rpartition("/")[0] for path in paths[:1])])
    return [*paths, *(f"{folder}/{HINT}" for folder in folders)]


def _pending_commits(io: FileIO, loaded: LoadedMetadata, metadata_files: Iterable[str]) -> Iterator[LoadedMetadata]:
    """Yield the metadata of commits that may still happen: of metadata files that are based on the current metadata file, and that nothing refers to.

    A commit replaces exactly the metadata file that it is based on, so a commit that is based on an older file can no longer happen. Only files with a higher
    version in their name, or without a version, are read, because a table may have thousands of older metadata files.
    """
    keys = PathKeys()
    current = keys.file(loaded.location)
    known_keys = {keys.file(path)[0] for path in (loaded.location, *(entry.metadata_file for entry in loaded.metadata.metadata_log))}
    current_version = metadata_version(loaded.location)
    for location in metadata_files:
        version = metadata_version(location)
        if keys.file(location)[0] in known_keys or (version is not None and current_version is not None and version <= current_version):
            continue
        metadata = _staged_metadata(io, location)
        if metadata is None or metadata.table_uuid != loaded.metadata.table_uuid or not metadata.metadata_log:
            continue
        if keys.file(list(metadata.metadata_log)[-1].metadata_file)[0] == current[0]:
            yield LoadedMetadata(location=location, metadata=metadata)


def _staged_metadata(io: FileIO, location: str) -> TableMetadata | None:
    """Read a metadata file; return None if it is no metadata file, or its writer has deleted it meanwhile."""
    try:
        return read_table_metadata(io.read(location), location)
    except (NoSuchFileError, FormatError):
        return None


def refusal(table_name: str, error: IcefloeError) -> IcefloeError:
    """Convert the error of a file that could not be read to one that states that nothing was deleted, because not all needed files are known."""
    return type(error)(
        f"no file of {table_name} was deleted: not everything that its snapshots need can be read, so it is not known what is needed. {error.message}",
        table=table_name,
        path=error.path,
        snapshot_id=error.snapshot_id,
        problems=error.problems,
        next_step=error.next_step or "bring back that file, or expire the snapshots that need it, then repeat",
    )


def added_since(io: FileIO, referenced: ReferencedFiles, newer: LoadedMetadata) -> Iterator[Any]:
    """Yield the locations of files that newer metadata of the table needs in addition to `referenced`, as Arrow arrays.

    Raises the errors of `referenced_files`.
    """
    snapshots = [snapshot for snapshot in newer.metadata.snapshots if snapshot.snapshot_id not in referenced.snapshot_ids]
    files = files_of_snapshots(snapshots, io.read, must=True)
    yield pa.array(paths_in_metadata(newer), pa.string())
    yield files.manifests["manifest_path"]
    keys = location_keys(referenced.manifests["manifest_path"])
    for row in without(files.manifests, keys).to_pylist():
        yield live_paths(io, row)
