"""`plan_position_deletes`: choose the position delete files and deletion vectors to rewrite, and group them.

Format version 2: files outside of the size limits are grouped by partition, as in Java. If a delete file is the only one of a single data file it stays,
because the rewrite would write the same file again. Format version 3: position delete files of any size become vectors. All of a partition are in one group, so
that no data file gets two vectors. The vectors in small Puffin files are written into fewer Puffin files. Delete files that apply to no data file are removed.
Spec: Position Delete Files; Deletion Vectors; Scan Planning.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from icefloe.commit.file_changes import DeleteKey, delete_key
from icefloe.datafile.deletes.delete_loader import target_of
from icefloe.datafile.deletes.merge_deletes import DeletesToMerge
from icefloe.maintenance.dangling_deletes import read_live_deletes
from icefloe.maintenance.rewrite_options import MAX_LONG, GroupOptions
from icefloe.maintenance.rewrite_planner import SizedFiles, order_groups, paying_bundles
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.pruning import FileMetricsEvaluator
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.manifest.manifest_columns import ManifestColumns
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DELETE_GRANULARITY
from icefloe.spec.ports import Read

Rows = NDArray[np.int64]
# The number of new files that a task writes from position delete files; it keeps their positions in memory.
FILES_OF_A_TASK = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class DeleteGroup:
    """Delete files that are replaced together.

    Attributes:
        files: The delete files: position delete files or deletion vectors.
        sequence_number: The greatest data sequence number of these files.
        tasks: The data files to which `files` apply, each with the delete files that apply to it; empty if `files` are only removed.
        weights: The estimated bytes in new delete files for each of `tasks`.
        output_files: The expected number of new files; for vectors, of new Puffin files.
        as_vectors: Whether deletion vectors are written.
        file_scoped: For position delete files, whether each new file has deletes of only one data file.
    """

    files: tuple[DataFile, ...]
    sequence_number: int
    tasks: tuple[FileScanTask, ...] = ()
    weights: tuple[float, ...] = ()
    output_files: int = 0
    as_vectors: bool = False
    file_scoped: bool = False

    def __len__(self) -> int:
        return len(self.files)

    @cached_property
    def size(self) -> int:
        """The bytes of the delete files; for a deletion vector its own bytes, not those of the whole Puffin file."""
        return sum(map(size_of, self.files))

    @property
    def added_files(self) -> int:
        """The expected number of new delete files, where each deletion vector counts as a file."""
        return len(self.tasks) if self.as_vectors or self.file_scoped else self.output_files

    @property
    def stored_files(self) -> int:
        """The number of stored files that are replaced or removed: a Puffin file counts once, however many deletion vectors it has."""
        return len({file.file_path for file in self.files})

    @property
    def added_stored_files(self) -> int:
        """The expected number of new files; for vectors, of new Puffin files."""
        return self.added_files if not self.as_vectors else self.output_files

    @cached_property
    def partitions(self) -> frozenset[Hashable]:
        """The partitions of the delete files."""
        return frozenset(map(partition_of, self.files))

    def parts(self) -> Iterator[DeletesToMerge]:
        """Divide the data files into tasks for an engine: each task has one partition spec and about the same bytes of deletes.

        A task reads all position delete files that apply to its data files. It writes several new files, because more tasks would read the same delete files
        again.
        """
        shares = self.output_files if all(map(is_deletion_vector, self.files)) else -(-self.output_files // FILES_OF_A_TASK)
        for _, members in groupby(zip(self.tasks, self.weights, strict=True), lambda member: member[0].spec_id):
            of_spec = list(members)
            share = max(1.0, sum(self.weights) / max(1, shares))
            waiting: list[FileScanTask] = []
            size = 0.0
            for task, weight in of_spec:
                if waiting and size + weight / 2 > share:
                    yield self._part(waiting)
                    waiting, size = [], 0.0
                waiting.append(task)
                size += weight
            yield self._part(waiting)

    def _part(self, tasks: Iterable[FileScanTask]) -> DeletesToMerge:
        return DeletesToMerge(tasks=tuple(tasks), as_vectors=self.as_vectors, file_scoped=self.file_scoped, positions_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDeletePlan:
    """The groups of delete files to rewrite, and counts of the delete files that are not rewritten.

    Attributes:
        snapshot_id: The snapshot that was planned on; None for a table without one.
        groups: The groups; groups that are only removed are last.
        considered_files: The number of live position delete files and vectors in the partitions that the filter keeps.
        busy_files: The number of these files that are left to other writers.
        left_files: The number of delete files outside of the size limits that are in no group, because rewriting them would not pay.
    """

    snapshot_id: int | None = None
    groups: tuple[DeleteGroup, ...] = ()
    considered_files: int = 0
    busy_files: int = 0
    left_files: int = 0

    @property
    def files(self) -> int:
        """The number of delete files that would be replaced or removed, where each deletion vector counts as a file."""
        return sum(map(len, self.groups))

    @property
    def stored_files(self) -> int:
        """The number of stored files that would be replaced or removed: a Puffin file counts once, however many deletion vectors it has."""
        return len({file.file_path for group in self.groups for file in group.files})

    @property
    def output_files(self) -> int:
        """The expected number of new files."""
        return sum(group.added_stored_files for group in self.groups)

    @property
    def size(self) -> int:
        """The bytes of the delete files that would be replaced or removed."""
        return sum(group.size for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    """Live position deletes, and how they apply to data files; the arrays have one element for each delete file.

    Attributes:
        files: The delete files.
        sequence_numbers: The data sequence numbers of the files.
        uses: The number of data files to which each file applies.
        is_alone: Whether the file applies to a single data file, which has no other position deletes.
    """

    files: Sequence[DataFile]
    sequence_numbers: Rows
    uses: Rows
    is_alone: NDArray[np.bool_]


def plan_position_deletes(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    row_filter: BooleanExpression,
    options: GroupOptions,
    read: Read,
    *,
    plan: ScanPlan | None = None,
    busy: Collection[Hashable] = (),
) -> PositionDeletePlan:
    """Choose position delete files and deletion vectors of a snapshot, and group them.

    Args:
        metadata: The table's metadata.
        snapshot: The snapshot; None if the table has none.
        row_filter: Only delete files of partitions that may contain rows of this filter are considered, as in Java.
        options: The thresholds and sizes.
        read: Returns the content of a file.
        plan: The plan of a scan of all files of the snapshot with all deletes, if the caller has it already.
        busy: Partitions, as keys of `partition_of`, whose delete files are left to other writers, together with all vectors in the same Puffin files.

    Raises:
        InvalidFilterError: The filter names an unknown column.
        AvroFormatError, ManifestFormatError: A manifest is damaged.
    """
    if snapshot is None:
        return PositionDeletePlan()
    files, numbers = _position_deletes(metadata, snapshot, row_filter, read)
    considered = len(files)
    if busy:
        kept = _outside(files, busy)
        files, numbers = [files[place] for place in kept], numbers[kept]
    if not files:
        return PositionDeletePlan(snapshot_id=snapshot.snapshot_id, considered_files=considered, busy_files=considered)
    if plan is None:
        plan = plan_scan(metadata, snapshot, AlwaysTrue(), read, parallel=in_threads, every_delete=True, schema=metadata.schema())
    deletes = _with_uses(files, numbers, plan)
    is_v3 = metadata.format_version > 2
    file_scoped = not is_v3 and DELETE_GRANULARITY.read(metadata.properties) == "file"
    bundles = _vector_bundles(deletes, options) if is_v3 else _file_bundles(deletes, options, file_scoped=file_scoped)
    group_of = np.full(len(files), -1, dtype=np.int64)
    for number, bundle in enumerate(bundles.groups):
        group_of[bundle] = number
    tasks_of = _tasks(plan, deletes, group_of)
    groups = [
        _group(deletes, bundle, tasks_of[number], options, is_v3=is_v3, file_scoped=file_scoped)
        for number, bundle in enumerate(bundles.groups)
    ]
    dangling = np.flatnonzero(deletes.uses == 0)
    removed = [_removal(deletes, dangling)] if len(dangling) else []
    return PositionDeletePlan(
        snapshot_id=snapshot.snapshot_id,
        groups=(*order_groups(groups, options.job_order), *removed),
        considered_files=considered,
        busy_files=considered - len(files),
        left_files=bundles.candidates - sum(map(len, bundles.groups)),
    )


def size_of(file: DataFile) -> int:
    """Return the bytes of a delete file; for a deletion vector its own bytes, not those of the whole Puffin file."""
    return file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes


def partition_of(file: DataFile) -> Hashable:
    """Return a key of a file's partition. It has the text of the values, because NaN is not equal to itself."""
    return file.spec_id, repr(file.partition)


def _position_deletes(
    metadata: TableMetadata, snapshot: Snapshot, row_filter: BooleanExpression, read: Read
) -> tuple[Sequence[DataFile], Rows]:
    """Return the live position deletes of the partitions that may contain rows of a filter, and their data sequence numbers."""
    live = read_live_deletes(metadata, snapshot, read)
    if live is None:
        return (), np.zeros(0, dtype=np.int64)
    bound = bind(row_filter, metadata.schema())
    masks, numbers = [], []
    for part in live.parts:
        mask = numpy_of(part.entries["content"]) == int(FileContent.POSITION_DELETES)
        if not isinstance(bound, AlwaysTrue):
            mask = mask & FileMetricsEvaluator(ManifestColumns(part.entries), bound, part.spec, metadata.schema()).partition_may_match
        masks.append(mask)
        numbers.append(numpy_of(part.entries["sequence_number"]).astype(np.int64))
    chosen = np.flatnonzero(np.concatenate(masks))
    return live.files(chosen), np.concatenate(numbers)[chosen]


def _outside(files: Sequence[DataFile], partitions: Collection[Hashable]) -> list[int]:
    """Return the indexes of the delete files outside of some partitions, except vectors that share a Puffin file with a vector of these partitions."""
    inside = {file.file_path for file in files if partition_of(file) in partitions}
    return [place for place, file in enumerate(files) if file.file_path not in inside]


def _with_uses(files: Sequence[DataFile], numbers: Rows, plan: ScanPlan) -> _Deletes:
    places = {delete_key(file): place for place, file in enumerate(files)}
    place_of = np.array([places.get(delete_key(file), -1) for file in plan.delete_files], dtype=np.int64)
    is_position = np.array([file.content is FileContent.POSITION_DELETES for file in plan.delete_files], dtype=bool)
    uses = np.zeros(len(files), dtype=np.int64)
    is_beside = np.zeros(len(files), dtype=bool)
    for part in plan.parts:
        if part.delete_offsets is None or part.delete_indices is None:
            continue
        rows = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
        positions = np.bincount(rows[is_position[part.delete_indices]], minlength=len(part))
        applied = place_of[part.delete_indices]
        known = applied >= 0
        uses += np.bincount(applied[known], minlength=len(files))
        is_beside[applied[known & (positions[rows] > 1)]] = True
    return _Deletes(files=files, sequence_numbers=numbers, uses=uses, is_alone=(uses == 1) & ~is_beside)


@dataclass(frozen=True, slots=True)
class _Bundles:
    """The indexes of the delete files of each group, and the number of all delete files that could be in a group."""

    groups: Sequence[Rows]
    candidates: int


def _file_bundles(deletes: _Deletes, options: GroupOptions, *, file_scoped: bool) -> _Bundles:
    """Group position delete files outside of the size limits by partition."""
    sizes = np.array(list(map(size_of, deletes.files)), dtype=np.int64)
    is_small, is_large = sizes < options.sizes.least, sizes > options.sizes.most
    if file_scoped:
        names_one = np.array([target_of(file) is not None for file in deletes.files], dtype=bool)
        is_small &= ~(deletes.is_alone & names_one)
    chosen = np.flatnonzero((deletes.uses > 0) & (options.rewrite_all | is_small | is_large))
    files = SizedFiles(sizes=sizes[chosen], pays_alone=np.zeros(len(chosen), dtype=bool))
    members = _by_key(range(len(chosen)), lambda place: partition_of(deletes.files[chosen[place]]))
    return _Bundles([chosen[bundle] for bundle in paying_bundles(members, files, options)], len(chosen))


def _vector_bundles(deletes: _Deletes, options: GroupOptions) -> _Bundles:
    """Group position delete files, which become vectors, and the vectors in small Puffin files."""
    is_vector = np.array(list(map(is_deletion_vector, deletes.files)), dtype=bool)
    used = deletes.uses > 0
    upgraded = _whole_partitions(deletes, np.flatnonzero(used & ~is_vector), options)
    rows = _by_key(np.flatnonzero(used & is_vector).tolist(), lambda place: deletes.files[place].file_path)
    # A manifest is not trusted and may state any size.
    stored = [(members, min(MAX_LONG, sum(size_of(deletes.files[place]) for place in members.tolist()))) for members in rows]
    small = [(members, size) for members, size in stored if options.rewrite_all or size < options.sizes.least]
    files = SizedFiles(sizes=np.array([size for _, size in small], dtype=np.int64), pays_alone=np.zeros(len(small), dtype=bool))
    bundles = paying_bundles([np.arange(len(small))] if small else [], files, options)
    merged = [np.concatenate([small[place][0] for place in bundle.tolist()]) for bundle in bundles]
    return _Bundles([*upgraded, *merged], int((used & ~is_vector).sum()) + sum(len(members) for members, _ in small))


def _whole_partitions(deletes: _Deletes, places: Rows, options: GroupOptions) -> list[Rows]:
    """Group delete files so that all files of a partition are in the same group: a data file may have several delete files, and must get one vector."""
    groups: list[Rows] = []
    waiting: list[Rows] = []
    count = size = 0
    left = options.max_files
    for members in _by_key(places.tolist(), lambda place: partition_of(deletes.files[place])):
        bytes_of_partition = sum(size_of(deletes.files[place]) for place in members.tolist())
        if left is not None and len(members) > left:
            continue
        left = None if left is None else left - len(members)
        if waiting and (count + len(members) > options.max_group_files or size + bytes_of_partition > options.max_group_bytes):
            groups.append(np.concatenate(waiting))
            waiting, count, size = [], 0, 0
        waiting.append(members)
        count, size = count + len(members), size + bytes_of_partition
    return [*groups, np.concatenate(waiting)] if waiting else groups


def _by_key(places: Iterable[int], key: Callable[[int], Hashable]) -> list[Rows]:
    """Group the indexes by key, in the order of the first index of each key."""
    by_key: dict[Hashable, list[int]] = defaultdict(list)
    for place in places:
        by_key[key(place)].append(place)
    return [np.array(members, dtype=np.int64) for members in by_key.values()]


def _tasks(plan: ScanPlan, deletes: _Deletes, group_of: Rows) -> dict[int, list[FileScanTask]]:
    """Return the data files of each group, each with the delete files of the group that apply to it."""
    groups: dict[DeleteKey, int] = {
        delete_key(file): group for file, group in zip(deletes.files, group_of.tolist(), strict=True) if group >= 0
    }
    is_replaced = np.array([delete_key(file) in groups for file in plan.delete_files], dtype=bool)
    tasks: dict[int, list[FileScanTask]] = defaultdict(list)
    for part in plan.parts:
        if part.delete_offsets is None or part.delete_indices is None:
            continue
        rows = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
        for task in part.take(np.unique(rows[is_replaced[part.delete_indices]])).tasks():
            of_group: dict[int, list[DataFile]] = defaultdict(list)
            for file in task.delete_files:
                if (group := groups.get(delete_key(file))) is not None:
                    of_group[group].append(file)
            for group, files in of_group.items():
                tasks[group].append(replace(task, delete_files=tuple(files)))
    return tasks


def _group(
    deletes: _Deletes, bundle: Rows, tasks: Sequence[FileScanTask], options: GroupOptions, *, is_v3: bool, file_scoped: bool
) -> DeleteGroup:
    shares = {delete_key(deletes.files[place]): size_of(deletes.files[place]) / int(deletes.uses[place]) for place in bundle.tolist()}
    # Position delete files are sorted by path. Vectors are in the order of the manifest entries, where those of one partition spec are together: DuckDB
    # 1.5.5 confuses two vectors of a Puffin file if it reads them in a different order.
    in_order = sorted(
        tasks, key=(lambda task: (task.spec_id, repr(task.file.partition))) if is_v3 else (lambda task: task.file.file_path.encode())
    )
    size = sum(size_of(deletes.files[place]) for place in bundle.tolist())
    return DeleteGroup(
        files=tuple(deletes.files[place] for place in bundle.tolist()),
        sequence_number=int(deletes.sequence_numbers[bundle].max()),
        tasks=tuple(in_order),
        weights=tuple(sum(shares[delete_key(file)] for file in task.delete_files) for task in in_order),
        output_files=min(options.sizes.output_files(size), len(in_order)),
        as_vectors=is_v3,
        file_scoped=file_scoped,
    )


def _removal(deletes: _Deletes, places: Rows) -> DeleteGroup:
    return DeleteGroup(
        files=tuple(deletes.files[place] for place in places.tolist()), sequence_number=int(deletes.sequence_numbers[places].max())
    )
