"""`plan_changes`: finds the data files whose rows differ between two snapshots. Files that both snapshots have with the same deletes are not in the plan.

    two manifest lists -> data manifests that only one of them has, and all data manifests if the live delete files differ -> two scan plans
    -> files of one snapshot only, and files of both to which different deletes apply

`icefloe.operations.change_feed` reads the changed rows. Spec: Snapshots; Scan Planning; Row-level Deletes.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.pruning import ScanContext
from icefloe.scan.scan_plan import NO_FILES, ScanPlan
from icefloe.scan.scan_planner import plan_manifests
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, numpy_of
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.manifest_reader import ManifestColumnsCache
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Parallel, Read
from icefloe.spec.schema.schema import Schema

# Keys of a snapshot's summary that count removed rows.
_REMOVALS = ("deleted-data-files", "added-delete-files")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A data file whose live rows differ between two snapshots.

    The rows that are live in `before` only were deleted, and the rows that are live in `after` only were inserted.

    Attributes:
        before: The file in the first snapshot, with the deletes that apply to it there; None if only the second snapshot has the file.
        after: The file in the second snapshot; None if only the first snapshot has the file.
    """

    before: FileScanTask | None
    after: FileScanTask | None

    @property
    def task(self) -> FileScanTask:
        """The file in the snapshot that has it; in the second if both have it."""
        task = self.before if self.after is None else self.after
        if task is None:
            raise ValueError("a changed file is in one of the two snapshots")
        return task

    @property
    def new_deletes(self) -> tuple[DataFile, ...]:
        """The delete files that apply to the file in the second snapshot and not in the first."""
        return _without(self.after, self.before)

    @property
    def dropped_deletes(self) -> tuple[DataFile, ...]:
        """The delete files that apply to the file in the first snapshot and not in the second."""
        return _without(self.before, self.after)


def _without(task: FileScanTask | None, other: FileScanTask | None) -> tuple[DataFile, ...]:
    if task is None:
        return ()
    others = set() if other is None else {_delete_key(file) for file in other.delete_files}
    return tuple(file for file in task.delete_files if _delete_key(file) not in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The data files whose rows differ between two snapshots, as columns.

    Attributes:
        added: The files that only the second snapshot has, with the deletes that apply to them.
        removed: The files that only the first snapshot has, with the deletes that applied to them.
        before: The files that both have with different deletes, as they are in the first snapshot.
        after: The same files, as they are in the second snapshot; their order may differ.
    """

    added: ScanPlan
    removed: ScanPlan
    before: ScanPlan
    after: ScanPlan

    @classmethod
    def of_added_files(cls, added: ScanPlan) -> "ChangePlan":
        """Return a plan in which only the second snapshot has the files of a scan plan, and no other file differs."""
        nothing = replace(added, parts=(), kept=NO_FILES, delete_files=())
        return cls(added=added, removed=nothing, before=nothing, after=nothing)

    def __len__(self) -> int:
        """Return the number of changed data files."""
        return self.added.kept.files + self.removed.kept.files + self.before.kept.files

    @property
    def bytes(self) -> int:
        """The bytes of the changed data files."""
        return sum(plan.kept.bytes for plan in (self.added, self.removed, self.after))

    @property
    def most_rows(self) -> int:
        """The greatest number of changed rows: those of files of one snapshot only, and those that the deletes of other files delete.

        The counts are those of the manifests. A key of an equality delete may delete any number of rows, so that all rows of such files are counted.
        """
        deletes = [*self.before.delete_files, *self.after.delete_files]
        if any(file.content is FileContent.EQUALITY_DELETES for file in deletes):
            changed = self.after.kept.records
        else:
            changed = min(self.after.kept.records, sum(file.record_count for file in deletes))
        return self.added.kept.records + self.removed.kept.records + changed

    @property
    def may_copy_rows(self) -> bool:
        """Whether a row may have been only copied: rows were deleted and rows were inserted."""
        may_delete = self.removed.kept.files + self.before.kept.files > 0
        return may_delete and self.added.kept.files + self.before.kept.files > 0

    @property
    def lacks_row_ids(self) -> bool:
        """Whether a changed row may have no row id, because its file has none in the snapshots that have the file."""
        parts = (*self.added.parts, *self.removed.parts, *self.after.parts)
        return any(part.entries["first_row_id"].null_count for part in parts)

    def files(self) -> Iterator[ChangedFile]:
        """Yield the changed data files: removed files, files with other deletes, added files. Tasks are created while the iterator is consumed."""
        for task in self.removed.tasks():
            yield ChangedFile(before=task, after=None)
        yield from self.files_with_other_deletes()
        for task in self.added.tasks():
            yield ChangedFile(before=None, after=task)

    def files_with_other_deletes(self) -> Iterator[ChangedFile]:
        """Yield the data files that both snapshots have with different deletes, in the order of `after`."""
        before: dict[str, deque[FileScanTask]] = {}  # a snapshot may have a file several times
        for task in self.before.tasks():
            before.setdefault(task.file.file_path, deque()).append(task)
        for task in self.after.tasks():
            yield ChangedFile(before=before[task.file.file_path].popleft(), after=task)


def plan_changes(
    metadata: TableMetadata,
    before: Snapshot | None,
    after: Snapshot | None,
    read: Read,
    *,
    row_filter: BooleanExpression | None = None,
    case_sensitive: bool = True,
    schema: Schema | None = None,
    parallel: Parallel = map,
    serial_bytes: int = 0,
    cache: ManifestColumnsCache | None = None,
) -> ChangePlan:
    """Plan the changes of rows between two snapshots of a table, which need not be related.

    Manifests that both snapshots have are read only if the snapshots have different delete manifests.

    Args:
        metadata: The metadata of the table.
        before: The first snapshot; None for a table without rows.
        after: The second snapshot; None for a table without rows.
        read: Returns the content of the file at a location.
        row_filter: Files without a matching row are left out; None keeps all files.
        case_sensitive: Whether names in the filter must match the case of column names.
        schema: The schema that the filter is bound to; None for the table's current schema.
        parallel: Reads several manifests at once.
        serial_bytes: If the manifests that must be decoded have at most this length in bytes, they are read one after the other, without `parallel`.
        cache: A cache of decoded manifests; None reads all of them.

    Raises:
        InvalidFilterError: The filter does not fit the schema.
        AvroFormatError: A manifest list or manifest is damaged.
        ManifestFormatError: A manifest entry violates the format, or entries contradict each other.
        UnsupportedFeatureError: A snapshot is encrypted.

    Spec: Scan Planning; Row-level Deletes.
    """
    schema = schema or metadata.schema()
    context = ScanContext(
        metadata=metadata,
        schema=schema,
        bound=bind(AlwaysTrue() if row_filter is None else row_filter, schema, case_sensitive),
        explain=False,
        include_statistics=False,
        find_covered=False,
        every_delete=False,
    )
    old, new = (() if snapshot is None else read_manifests(snapshot, read) for snapshot in (before, after))
    shared = {manifest.manifest_path for manifest in old} & {manifest.manifest_path for manifest in new}
    if not any(_is_other(manifest, shared, ManifestContent.DELETES) for manifest in (*old, *new)):
        old, new = ([manifest for manifest in manifests if not _is_shared_data(manifest, shared)] for manifests in (old, new))
    plans = [
        plan_manifests(
            context, manifests, None if snapshot is None else snapshot.snapshot_id, read, parallel, serial_bytes=serial_bytes, cache=cache
        )
        for manifests, snapshot in ((old, before), (new, after))
    ]
    return _compare_plans(*plans)


def _is_other(manifest: ManifestFile, shared: set[str], content: ManifestContent) -> bool:
    """Return whether a manifest with live files of a content is in one of the two snapshots only."""
    return manifest.content is content and manifest.manifest_path not in shared and manifest.has_live_files


def _is_shared_data(manifest: ManifestFile, shared: set[str]) -> bool:
    return manifest.content is ManifestContent.DATA and manifest.manifest_path in shared


def _compare_plans(old: ScanPlan, new: ScanPlan) -> ChangePlan:
    places, in_new = _match_files(old, new)
    differ = _have_other_deletes(old, new, places, in_new)
    differ_in_new = np.append(differ, False)[places]  # at -1 is the appended value
    return ChangePlan(
        added=new.select(_masks(new, places < 0)),
        removed=old.select(_masks(old, ~in_new)),
        before=old.select(_masks(old, differ)),
        after=new.select(_masks(new, differ_in_new)),
    )


def _match_files(old: ScanPlan, new: ScanPlan) -> tuple[NDArray[np.int64], Mask]:
    """Match the files of two plans.

    A snapshot may have a file several times: it then has its rows as often, and each time is matched with one of the other snapshot. A file that was removed
    and added again has other row ids, and is another file.

    Returns:
        The position in the first plan of each file of the second plan, or -1 if the first plan does not have the file; and a mask of the files of the first
        plan that the second plan also has.
    """
    files = [plan.files for plan in (old, new)]
    paths = pa.concat_arrays([array_of_chunks(table["file_path"]) for table in files])
    codes = numpy_of(paths.dictionary_encode().indices).astype(np.int64)
    count = int(codes.max(initial=-1)) + 1
    old_keys, new_keys = (part + count * _occurrence(part) for part in np.split(codes, [len(files[0])]))
    place_of_key = np.full(max(int(keys.max(initial=-1)) for keys in (old_keys, new_keys)) + 1, -1, np.int64)
    place_of_key[old_keys] = np.arange(len(old_keys))
    places = place_of_key[new_keys]
    old_ids, new_ids = (numpy_of(fill_nulls(array_of_chunks(table["first_row_id"]), -1)) for table in files)
    ids_before = np.append(old_ids, -1)[places]  # at -1 is the appended value
    places[(ids_before >= 0) & (new_ids >= 0) & (ids_before != new_ids)] = -1
    in_new = np.zeros(len(old_keys), np.bool_)
    in_new[places[places >= 0]] = True
    return places, in_new


def _occurrence(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each number how many equal numbers are before it."""
    order = np.argsort(codes, kind="stable")
    occurrence = np.empty(len(codes), np.int64)
    occurrence[order] = np.arange(len(codes)) - np.searchsorted(codes[order], codes[order])
    return occurrence


def _masks(plan: ScanPlan, mask: Mask) -> list[Mask]:
    """Divide a mask of the files of a plan by the parts of the plan."""
    return np.split(mask, np.cumsum([len(part) for part in plan.parts])[:-1]) if plan.parts else []


def _have_other_deletes(old: ScanPlan, new: ScanPlan, places: NDArray[np.int64], in_new: Mask) -> Mask:
    """Return a mask of the files of the first plan that the second plan also has, with other delete files.

    Args:
        old: The first plan.
        new: The second plan.
        places: The position in the first plan of each file of the second plan; -1 if it is not there.
        in_new: A mask of the files of the first plan that the second plan also has.
    """
    numbers: dict[tuple[str, int | None], int] = {}
    pairs = [_delete_pairs(plan, numbers) for plan in (old, new)]
    (old_files, old_deletes), (new_files, new_deletes) = pairs
    new_files = places[new_files]
    old_keys = (old_files * len(numbers) + old_deletes)[in_new[old_files]]
    new_keys = (new_files * len(numbers) + new_deletes)[new_files >= 0]
    differ = np.zeros(len(in_new), np.bool_)
    differ[np.setxor1d(old_keys, new_keys) // max(len(numbers), 1)] = True
    return differ


def _delete_pairs(plan: ScanPlan, numbers: dict[tuple[str, int | None], int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each pair of a data file and a delete file that applies to it, as two arrays: positions of data files in the plan, and numbers of delete files.

    New delete files are added to `numbers`.
    """
    own = np.array([numbers.setdefault(_delete_key(file), len(numbers)) for file in plan.delete_files], np.int64)
    files, deletes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    start = 0
    for part in plan.parts:
        if part.delete_offsets is not None and part.delete_indices is not None:
            files.append(np.repeat(np.arange(start, start + len(part)), np.diff(part.delete_offsets)))
            deletes.append(own[part.delete_indices])
        start += len(part)
    return np.concatenate(files), np.concatenate(deletes)


def _delete_key(file: DataFile) -> tuple[str, int | None]:
    """Return what identifies a delete file: a Puffin file has several deletion vectors, at different offsets."""
    return file.file_path, file.content_offset


def removes_rows(snapshot: Snapshot, read: Read) -> bool:
    """Return whether a snapshot may have removed rows of its parent, by the manifests that it wrote.

    Args:
        snapshot: The snapshot; its parent may be expired.
        read: Returns the content of the file at a location.

    Raises:
        AvroFormatError, ManifestFormatError: The manifest list is damaged.
        UnsupportedFeatureError: The snapshot is encrypted.
    """
    return any(_may_remove(manifest, snapshot) for manifest in read_manifests(snapshot, read))


def _may_remove(manifest: ManifestFile, snapshot: Snapshot) -> bool:
    if manifest.added_snapshot_id != snapshot.snapshot_id:
        return False
    count = manifest.added_files_count if manifest.content is ManifestContent.DELETES else manifest.deleted_files_count
    if count is None:  # in version 1, manifest lists may lack counts
        return not snapshot.summary or any(snapshot.summary.get(name, "0") != "0" for name in _REMOVALS)
    return count != 0
