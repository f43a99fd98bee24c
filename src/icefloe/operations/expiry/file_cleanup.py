"""Deletion of the files that are no longer needed after an expiry: planned before its commit, then checked again and carried out after it.

Because of the plan, errors for files that cannot be read are raised before anything has changed. Because of the check, everything that another writer committed
meanwhile is kept. `unreachable_files.py` finds the files that snapshots use. Spec: Snapshots; Table Statistics; Partition Statistics.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.errors import FormatError, IcefloeError, NotFoundError, Problem, StorageError, UnsupportedError
from icefloe.io.bulk_delete import delete_files
from icefloe.lazy_imports import lazy_module
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

if TYPE_CHECKING:
    from icefloe.operations import available_engines
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    available_engines = lazy_module("icefloe.operations.available_engines")

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """The result of `Cleaner.plan`: the files that only expired snapshots use.

    Attributes:
        expired_ids: The ids of the snapshots that the commit removes.
        unreachable: The files that these snapshots use, and the kept snapshots do not.
        kept_ids: The ids of the snapshots that were kept at the time of planning.
        kept_manifests: The location keys of the manifests of the kept snapshots.
    """

    expired_ids: frozenset[int]
    unreachable: Unreachable
    kept_ids: frozenset[int]
    kept_manifests: Any

    def holds_on(self, base: TableMetadata, expired_ids: Iterable[int]) -> bool:
        """Return whether this plan is valid for a commit that removes these snapshots from `base`.

        It is not valid if another expiry has removed a snapshot that the plan keeps. Then files that only this snapshot and the expired snapshots used are no
        longer needed, and the plan does not have them.
        """
        return self.expired_ids == frozenset(expired_ids) and self.kept_ids <= frozenset(base.snapshots.ids())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """Plans which files of one table to delete. `read` reads a file, and may also return manifests of a transaction that are not written yet."""

    table_name: str
    io: FileIO
    read: Read
    engine: str | None = None  # the engine that reads manifests; if None, it is chosen by the number of manifests
    is_written: bool = True  # whether every file that `read` returns is in the storage
    is_committed: bool = False  # whether the expiry has been committed, so that only files remain to be deleted

    def plan(self, base: TableMetadata, expired_ids: Iterable[int], kept: TableMetadata) -> CleaningPlan:
        """Plan which files to delete when snapshots are removed from `base`; `kept` is the metadata without them.

        Raises:
            NotFoundError, FormatError, StorageError, UnsupportedFeatureError: a file that a kept snapshot needs cannot be read; the error has its location.
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
        """Return the plan without the files that snapshots in `current` use which other writers have added since. Raises the errors of `plan`."""
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
        choice = available_engines.engine_choice()
        engine = choice.for_many(len(gone) + len(kept), choice.manifests, self.engine)
        # Until they are written, a transaction's manifests exist only in this process, so this process reads them.
        if engine is available_engines.IN_PROCESS or not self.is_written:
            return find_unreachable(available_engines.IN_PROCESS, self.table_name, gone, kept, self.read, self.io)
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
    """Add the statistics files of expired snapshots to a table of `FILES`, and remove the files to which the current metadata itself refers."""
    return without(distinct(pa.concat_tables([files, statistics_files(base, expired_ids)])), named_in_metadata(current))


def statistics_files(metadata: TableMetadata, snapshot_ids: Iterable[int]) -> Any:
    """Return the statistics files and partition statistics files of these snapshots as a table of `FILES`."""
    ids = frozenset(snapshot_ids)
    statistics = [(file.statistics_path, file.file_size_in_bytes) for file in metadata.statistics if file.snapshot_id in ids]
    partitions = [(file.statistics_path, file.file_size_in_bytes) for file in metadata.partition_statistics if file.snapshot_id in ids]
    return pa.concat_tables([listed_files(FileKind.STATISTICS, statistics), listed_files(FileKind.PARTITION_STATISTICS, partitions)])


def named_in_metadata(metadata: TableMetadata) -> Any:
    """Return the location keys of files that table metadata lists: manifest lists, manifests of version 1 snapshots, statistics and older metadata files."""
    named = [path for snapshot in metadata.snapshots for path in (snapshot.manifest_list, *(snapshot.manifest_paths or ())) if path]
    named += [file.statistics_path for file in metadata.statistics]
    named += [file.statistics_path for file in metadata.partition_statistics]
    named += [entry.metadata_file for entry in metadata.metadata_log]
    return location_keys(pa.array(named, pa.string()))


def delete_in_order(io: FileIO, files: Any, may_delete: Callable[[str], bool]) -> tuple[Problem, ...]:
    """Delete the files of a table of `FILES`, one kind after the other. Return the files that could not be deleted, with the reasons.

    Files that do not exist are ignored. `may_delete` is called with each location right before its deletion.
    """
    failed: list[Problem] = []
    for kind in FileKind:
        paths = paths_of(files, kind)
        failed += (Problem(where=path, what=error.message) for path, error in delete_files(io, paths, may_delete))
    return tuple(failed)


def paths_of(files: Any, kind: FileKind) -> Sequence[str]:
    """Return the paths of one kind of file in a table of `FILES`."""
    paths: Sequence[str] = files.filter(pa.compute.equal(files["kind"], kind.value))["path"].to_pylist()
    return paths


def _without_files_of(files: Any, snapshots: SnapshotFiles) -> Any:
    return without(without(files, snapshots.manifests["key"]), snapshots.lists["key"])
