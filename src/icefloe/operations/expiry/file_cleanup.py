"""Deletion of the files that nothing needs any more: planned before a commit, checked again and carried out after it.

Planning first means that a table whose kept files cannot all be read is refused before anything has changed. Checking again means that everything that
another writer committed meanwhile is kept. The files that snapshots reach are `unreachable_files.py`. Spec: Snapshots; Table Statistics; Partition
Statistics.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from icefloe.errors import FormatError, IcefloeError, NotFoundError, Problem, StorageError, UnsupportedError
from icefloe.io.bulk_delete import delete_files
from icefloe.operations.available_engines import IN_PROCESS, engine_choice
from icefloe.operations.unreachable_files import (
    FileKind,
    SnapshotFiles,
    Unreachable,
    distinct,
    files_of_snapshots,
    find_unreachable,
    listed_files,
    live_keys,
    location_keys,
    unreachable_files,
    without,
)
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """The files that only the expired snapshots reach, given the kept ones at the time of planning."""

    expired_ids: frozenset[int]
    unreachable: Unreachable
    kept_ids: frozenset[int]
    kept_manifests: Any  # keys of their locations

    def holds_on(self, base: TableMetadata, expired_ids: Iterable[int]) -> bool:
        """Return whether this is the plan of a commit that removes these snapshots from `base`.

        If another expiry has removed a snapshot that this plan keeps, the plan is outdated: files that only that snapshot shared with the expired ones are
        unreachable now, and the plan does not list them.
        """
        return self.expired_ids == frozenset(expired_ids) and self.kept_ids <= frozenset(base.snapshots.ids())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """Plans the cleanup of one table. `read` may also return manifests of a transaction that are not written yet."""

    table_name: str
    io: FileIO
    read: Read
    engine: str | None = None  # reads manifests; for None their number decides
    is_written: bool = True  # whether every file that `read` returns is in the storage
    is_committed: bool = False  # whether only the deletion of files remains to be done

    def plan(self, base: TableMetadata, expired_ids: Iterable[int], kept: TableMetadata) -> CleaningPlan:
        """Plan which files to delete when snapshots are removed from `base`; `kept` is the metadata without them.

        Raises:
            NotFoundError, FormatError, StorageError, UnsupportedFeatureError: a file that a kept snapshot needs cannot be read; it is named.
        """
        ids = frozenset(expired_ids)
        gone = [snapshot for snapshot in base.snapshots if snapshot.snapshot_id in ids]
        try:
            kept_files = files_of_snapshots(list(kept.snapshots) if gone else [], self.read, must=True)
            unreachable = unreachable_files(files_of_snapshots(gone, self.read, must=False), kept_files, self._find)
        except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
            raise self._refusal(error) from error
        return CleaningPlan(
            expired_ids=ids, unreachable=unreachable, kept_ids=frozenset(kept.snapshots.ids()), kept_manifests=kept_files.manifests["key"]
        )

    def kept_from(self, plan: CleaningPlan, current: TableMetadata) -> CleaningPlan:
        """Return the plan without the files that newer snapshots reach. Raises as `plan`."""
        newer = [snapshot for snapshot in current.snapshots if snapshot.snapshot_id not in plan.kept_ids]
        if not newer or not len(plan.unreachable.files):
            return plan
        try:
            added = files_of_snapshots(newer, self.read, must=True)
            files = _without_files_of(plan.unreachable.files, added)
            for live in live_keys(without(added.manifests, plan.kept_manifests), self.read):
                files = without(files, live)
        except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
            raise self._refusal(error) from error
        return replace(plan, unreachable=replace(plan.unreachable, files=files))

    def _find(self, gone: Any, kept: Any) -> Unreachable:
        engine = engine_choice().for_many(len(gone) + len(kept), engine_choice().manifests, self.engine)
        # A transaction's manifests are in this process until they are written.
        if engine is IN_PROCESS or not self.is_written:
            return find_unreachable(IN_PROCESS, self.table_name, gone, kept, self.read, self.io)
        return find_unreachable(engine, self.table_name, gone, kept, self.io.read, self.io)

    def _refusal(self, error: IcefloeError) -> IcefloeError:
        expired = "the snapshots are expired, but " if self.is_committed else ""
        return type(error)(
            f"{expired}no file was deleted: not everything that the kept snapshots of {self.table_name} need can be read, so it is not known what is needed. "
            f"{error.message}",
            table=self.table_name,
            path=error.path,
            snapshot_id=error.snapshot_id,
            problems=error.problems,
            next_step=error.next_step or "mend or bring back that file, or expire the snapshots that need it, then expire again",
        )


def with_statistics(files: Any, base: TableMetadata, expired_ids: Iterable[int], current: TableMetadata) -> Any:
    """Return the files and the statistics files of expired snapshots, except files that the table's metadata names now."""
    return without(distinct(pa.concat_tables([files, statistics_files(base, expired_ids)])), named_in_metadata(current))


def statistics_files(metadata: TableMetadata, snapshot_ids: Iterable[int]) -> Any:
    """Return the statistics and partition statistics files of these snapshots, as `FILES`."""
    ids = frozenset(snapshot_ids)
    statistics = [(file.statistics_path, file.file_size_in_bytes) for file in metadata.statistics if file.snapshot_id in ids]
    partitions = [(file.statistics_path, file.file_size_in_bytes) for file in metadata.partition_statistics if file.snapshot_id in ids]
    return pa.concat_tables([listed_files(FileKind.STATISTICS, statistics), listed_files(FileKind.PARTITION_STATISTICS, partitions)])


def named_in_metadata(metadata: TableMetadata) -> Any:
    """Return keys of the files that the metadata itself names: manifest lists, manifests of old v1 snapshots, statistics, older metadata files."""
    named = [path for snapshot in metadata.snapshots for path in (snapshot.manifest_list, *(snapshot.manifest_paths or ())) if path]
    named += [file.statistics_path for file in metadata.statistics]
    named += [file.statistics_path for file in metadata.partition_statistics]
    named += [entry.metadata_file for entry in metadata.metadata_log]
    return location_keys(pa.array(named, pa.string()))


def delete_in_order(io: FileIO, files: Any, may_delete: Callable[[str], bool]) -> tuple[Problem, ...]:
    """Delete a table of `FILES`, kind after kind, and return those that could not be deleted and why. A file that does not exist is no problem.

    `may_delete` is called for each file right before it is deleted.
    """
    failed: list[Problem] = []
    for kind in FileKind:
        paths = paths_of(files, kind)
        failed += (Problem(where=path, what=error.message) for path, error in delete_files(io, paths, may_delete))
    return tuple(failed)


def paths_of(files: Any, kind: FileKind) -> Sequence[str]:
    """Return the paths of one kind of file."""
    paths: Sequence[str] = files.filter(pa.compute.equal(files["kind"], kind.value))["path"].to_pylist()
    return paths


def _without_files_of(files: Any, snapshots: SnapshotFiles) -> Any:
    return without(without(files, snapshots.manifests["key"]), snapshots.lists["key"])
