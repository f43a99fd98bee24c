"""`plan_rewrite`: choose the data files to rewrite, and group them.

Files are chosen by operations on arrays, so that a table of a million files is planned in seconds; only chosen files become objects. The rules are the same as
in Java's planners, with two exceptions: all deletes count towards `delete-ratio-threshold`, and files of older partition specs are grouped by the partition
that receives their rows. Spec: Scan Planning; Partition Evolution.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from icefloe.maintenance.rewrite_options import MAX_LONG, GroupOptions, RewriteOptions
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.arrow_values import array_of_chunks, numpy_of, positions_array
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec

Rows = NDArray[np.int64]


class SizedGroup(Protocol):
    """A group of files with `size` bytes."""

    @property
    def size(self) -> int:
        """The size of the group's files in bytes."""

    def __len__(self) -> int: ...


G = TypeVar("G", bound=SizedGroup)


class RewriteReason(StrEnum):
    """Why a data file is rewritten. If several reasons apply, the first one counts."""

    DELETES = "deleted rows"
    SMALL = "too small"
    LARGE = "too large"
    OVERLAP = "bounds overlap"
    ALL = "rewrite-all"


@dataclass(frozen=True, kw_only=True, eq=False)
class FileGroup:
    """Data files whose rows are rewritten together, to `output_files` new files of about equal size.

    Attributes:
        files: The files as columns, with the deletes that apply to them; one or more items for each partition spec.
        size: The size of these files in bytes.
        output_files: The expected number of new files.
        reasons: The number of files by the reason for their choice.
    """

    files: tuple[PlannedFiles, ...]
    size: int
    output_files: int
    reasons: Mapping[RewriteReason, int]

    def __len__(self) -> int:
        return sum(map(len, self.files))

    @property
    def delete_files(self) -> Sequence[DataFile]:
        """All delete files of the plan, which include those of this group."""
        return self.files[0].delete_files if self.files else ()

    @cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """The files as scan tasks."""
        return tuple(task for part in self.files for task in part.tasks())

    @property
    def record_count(self) -> int:
        """The number of rows in the files, including deleted rows."""
        return sum(sum(numpy_of(array_of_chunks(part.entries["record_count"])).tolist()) for part in self.files)

    @property
    def has_deletes(self) -> bool:
        """Whether a delete file may apply to a file of the group."""
        return any(part.delete_indices is not None and len(part.delete_indices) for part in self.files)

    def parts(self, limit: int) -> list[tuple[FileScanTask, ...]]:
        """Divide the files into one part for each new file.

        Args:
            limit: The size in bytes above which a Parquet file is divided at its row groups.

        Returns:
            At most `output_files` parts, none empty, in the order of the files.
        """
        part_bytes = max(1, -(-self.size // self.output_files))
        parts: dict[int, list[FileScanTask]] = defaultdict(list)
        end = 0
        for task in self.tasks:
            start, end = end, end + task.file.file_size_in_bytes
            if task.file.file_size_in_bytes <= limit or task.file.file_format is not FileFormat.PARQUET:
                parts[min((start + end) // 2 // part_bytes, self.output_files - 1)].append(task)
                continue
            cuts = [start, *(cut for cut in range(start // part_bytes * part_bytes + part_bytes, end, part_bytes)), end]
            for begin, stop in pairwise(cuts):
                # The last piece has no end, because a file may be larger than its manifest entry states.
                piece = replace(task, start=begin - start, length=stop - begin if stop < end else MAX_LONG - (begin - start))
                parts[min(begin // part_bytes, self.output_files - 1)].append(piece)
        return [tuple(parts[number]) for number in sorted(parts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan:
    """The groups of data files to rewrite, in order, and counts of the files that are not rewritten.

    Attributes:
        snapshot_id: The snapshot that was planned on; None for a table without one.
        groups: The groups.
        considered_files: The number of live files that may contain rows of the filter.
        left_files: The number of files that should be rewritten but are in no group, because rewriting a group of them would not pay.
    """

    snapshot_id: int | None
    groups: tuple[FileGroup, ...] = ()
    considered_files: int
    left_files: int


def chosen_files(groups: Iterable[FileGroup]) -> Mapping[RewriteReason, int]:
    """Return the number of files in the groups for each reason of their choice, in the order of `RewriteReason`."""
    counts: Counter[RewriteReason] = Counter()
    for group in groups:
        counts.update(group.reasons)
    return {reason: counts[reason] for reason in RewriteReason if counts[reason]}


def plan_rewrite(
    plan: ScanPlan, metadata: TableMetadata, options: RewriteOptions, overlaps: Callable[[PlannedFiles], NDArray[np.bool_]] | None = None
) -> RewritePlan:
    """Choose files of a scan plan and group them.

    Args:
        plan: The plan of a scan without a row limit.
        metadata: The table's metadata.
        options: The thresholds and sizes.
        overlaps: For sorts: returns a mask of the files of a part whose bounds overlap with the bounds of many other files.
    """
    shares = delete_shares(plan)
    candidates = _candidates([_choose(part, shares, options, overlaps) for part in plan.parts])
    by_partition = _by_partition(candidates, plan.parts, metadata, options)
    kept = paying_bundles(by_partition, candidates, options)
    groups = order_groups(_groups(kept, plan.parts, candidates, options), options.job_order)
    return RewritePlan(
        snapshot_id=plan.snapshot_id,
        groups=tuple(groups),
        considered_files=sum(map(len, plan.parts)),
        left_files=len(candidates.rows) - sum(map(len, kept)),
    )


# The maximum of new files in one group. A file's size comes from a manifest, and may be any number.
MOST_OUTPUT_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedFiles:
    """Files that may be rewritten; the arrays have one element for each file.

    Attributes:
        sizes: The sizes in bytes.
        pays_alone: Whether rewriting this file alone pays.
    """

    sizes: Rows
    pays_alone: NDArray[np.bool_]

    def size(self, bundle: Rows) -> int:
        """Return the total size of some files in bytes. A manifest may state any size, so that the sum needs Python's integers."""
        return sum(self.sizes[bundle].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates(SizedFiles):
    """The data files that may be rewritten, from all parts of a plan.

    Attributes:
        parts: The index of each file's part in the plan.
        rows: The index of each file in its part.
        reasons: The index in `RewriteReason` of the first reason for rewriting the file.
    """

    parts: Rows
    rows: Rows
    reasons: Rows


Chosen = tuple[Rows, NDArray[np.bool_]]  # the sizes of a part's files, and for each reason a mask of the files


def _candidates(chosen_of: Sequence[Chosen]) -> Candidates:
    """Collect the files that were chosen for the rewrite, from all parts of the plan."""
    rows_of = [np.flatnonzero(masks.any(axis=0)) for _, masks in chosen_of]
    alone = [place for place, reason in enumerate(RewriteReason) if reason in (RewriteReason.DELETES, RewriteReason.OVERLAP)]
    masks_of: list[NDArray[np.bool_]] = [masks[:, rows] for rows, (_, masks) in zip(rows_of, chosen_of, strict=True)]
    return Candidates(
        parts=_join([np.full(len(rows), number, dtype=np.int64) for number, rows in enumerate(rows_of)]),
        rows=_join(rows_of),
        sizes=_join([sizes[rows] for rows, (sizes, _) in zip(rows_of, chosen_of, strict=True)]),
        reasons=_join([masks.argmax(axis=0) for masks in masks_of]),
        pays_alone=_join([np.logical_or.reduce(masks[alone]) for masks in masks_of]).astype(bool),
    )


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)


def _by_partition(candidates: Candidates, parts: Sequence[PlannedFiles], metadata: TableMetadata, options: RewriteOptions) -> list[Rows]:
    """Group the indexes of the candidates by the partition that receives their rows, in order."""
    output = metadata.spec_by_id(options.output_spec_id)
    numbers: dict[Hashable, int] = {}
    groups: list[NDArray[np.int64]] = []
    for number, part in enumerate(parts):
        landing = _landing(metadata.spec_by_id(part.spec_id), output)
        columns = ["file_size_in_bytes", *(partition_column(field.field_id) for field in part.partition_type.fields)]
        tuples = part.partitions(part.entries.select(columns).take(positions_array(candidates.rows[candidates.parts == number])))
        # Equal tuples are the same object, and there are far fewer tuples than files.
        of_object = {
            id(values): numbers.setdefault(landing(values), len(numbers)) for values in {id(values): values for values in tuples}.values()
        }
        groups.append(np.array([of_object[id(values)] for values in tuples], dtype=np.int64))
    group_numbers = _join(groups)
    order = np.argsort(group_numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group_numbers[order])) + 1) if len(order) else []


def _choose(
    part: PlannedFiles, shares: NDArray[np.float64], options: RewriteOptions, overlaps: Callable[[PlannedFiles], NDArray[np.bool_]] | None
) -> Chosen:
    sizes = numpy_of(array_of_chunks(part.entries["file_size_in_bytes"])).astype(np.int64)
    records = numpy_of(array_of_chunks(part.entries["record_count"])).astype(np.int64)
    none = np.zeros(len(part), dtype=bool)
    reasons = {
        RewriteReason.DELETES: _has_many_deletes(part, records, shares, options),
        RewriteReason.SMALL: sizes < options.sizes.least,
        RewriteReason.LARGE: sizes > options.sizes.most,
        RewriteReason.OVERLAP: none if overlaps is None else overlaps(part),
        RewriteReason.ALL: ~none if options.rewrite_all else none,
    }
    return sizes, np.stack([reasons[reason] for reason in RewriteReason])


def delete_shares(plan: ScanPlan) -> NDArray[np.float64]:
    """Return for each delete file the mean number of rows that it deletes from a data file: its records divided by the data files that it applies to."""
    records = np.array([file.record_count for file in plan.delete_files], dtype=np.float64)
    indices = [part.delete_indices for part in plan.parts if part.delete_indices is not None]
    targets = np.bincount(np.concatenate(indices), minlength=len(records)) if indices else np.zeros(len(records), dtype=np.int64)
    return records / np.maximum(targets, 1)


def deleted_rows(part: PlannedFiles, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the estimated number of deleted rows of each file of a part, from the result of `delete_shares`."""
    records = numpy_of(array_of_chunks(part.entries["record_count"])).astype(np.float64)
    if part.delete_offsets is None or part.delete_indices is None:
        return np.zeros(len(part))
    files = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
    return np.minimum(np.bincount(files, weights=shares[part.delete_indices], minlength=len(part)), records)


def _has_many_deletes(part: PlannedFiles, records: Rows, shares: NDArray[np.float64], options: RewriteOptions) -> NDArray[np.bool_]:
    if part.delete_offsets is None:
        return np.zeros(len(part), dtype=bool)
    counts = np.diff(part.delete_offsets)
    ratio = deleted_rows(part, shares) / np.maximum(records, 1)
    return (counts >= options.delete_file_threshold) | ((counts > 0) & (ratio >= options.delete_ratio_threshold))


def _landing(spec: PartitionSpec, output: PartitionSpec) -> Callable[[tuple[Any, ...]], Hashable]:
    """Return a function from a file's partition to a key of the partition that receives its rows, as far as the file's partition determines it."""
    places = {(field.source_id, str(field.transform)): place for place, field in enumerate(spec.fields)}
    sources = [places.get((field.source_id, str(field.transform))) for field in output.fields]
    # The key has the text of values, because NaN is not equal to itself.
    return lambda values: tuple(None if place is None else repr(values[place]) for place in sources)


def paying_bundles(members_of: Iterable[Rows], candidates: SizedFiles, options: GroupOptions) -> list[Rows]:
    """Return the indexes of the files of each group whose rewrite pays.

    Args:
        members_of: Lists of the indexes of files that may be in the same group, for example of one partition.
        candidates: The files that may be rewritten.
        options: The thresholds and sizes.
    """
    bundles = [bundle for members in members_of for bundle in _pack(members, candidates, options) if _pays(bundle, candidates, options)]
    # The last group may have lost files because of `max-files-to-rewrite`, so that its rewrite does not pay any more.
    return [bundle for bundle in _within(bundles, options.max_files) if _pays(bundle, candidates, options)]


def _pack(members: Rows, candidates: SizedFiles, options: GroupOptions) -> Iterator[Rows]:
    """Yield the files of one partition in groups within the maximum size and number of files."""
    if len(members) <= options.max_group_files and candidates.size(members) <= options.max_group_bytes:
        yield members
        return
    start = size = 0
    for place, bytes_of_file in enumerate(candidates.sizes[members].tolist()):
        if place > start and (size + bytes_of_file > options.max_group_bytes or place - start >= options.max_group_files):
            yield members[start:place]
            start, size = place, 0
        size += bytes_of_file
    yield members[start:]


def _pays(bundle: Rows, candidates: SizedFiles, options: GroupOptions) -> bool:
    """Return whether the rewrite of a group pays: it has enough files, or enough bytes for a new file, or a file whose rewrite pays alone."""
    if options.rewrite_all or (1 < len(bundle) >= options.min_input_files):
        return True
    size = candidates.size(bundle)
    if len(bundle) > 1 and size > options.sizes.target:
        return True
    return size > options.sizes.most or bool(candidates.pays_alone[bundle].any())


def _within(bundles: Sequence[Rows], max_files: int | None) -> Iterator[Rows]:
    """Yield groups with at most `max_files` files in total; the last group may be shortened."""
    left = max_files
    for bundle in bundles:
        if left is None:
            yield bundle
        elif left > 0:
            yield bundle[:left]
            left -= len(bundle[:left])


def _groups(bundles: Sequence[Rows], parts: Sequence[PlannedFiles], candidates: Candidates, options: RewriteOptions) -> list[FileGroup]:
    places, numbers = _join(bundles), np.repeat(np.arange(len(bundles)), np.array([len(bundle) for bundle in bundles], dtype=np.int64))
    files: list[list[PlannedFiles]] = [[] for _ in bundles]
    for number in np.unique(candidates.parts[places]).tolist():
        of_part = candidates.parts[places] == number
        bundle_of = numbers[of_part]
        ends = [*(np.flatnonzero(np.diff(bundle_of)) + 1).tolist(), len(bundle_of)]
        for piece, end in zip(parts[number].divide(candidates.rows[places[of_part]], ends), ends, strict=True):
            files[bundle_of[end - 1]].append(piece)
    return [_group(bundle, tuple(of_bundle), candidates, options) for bundle, of_bundle in zip(bundles, files, strict=True)]


def _group(bundle: Rows, files: tuple[PlannedFiles, ...], candidates: Candidates, options: RewriteOptions) -> FileGroup:
    size = candidates.size(bundle)
    counts = np.bincount(candidates.reasons[bundle], minlength=len(RewriteReason)).tolist()
    return FileGroup(
        files=files,
        size=size,
        output_files=min(options.sizes.output_files(int(size * options.compression_factor)), MOST_OUTPUT_FILES),
        reasons={reason: count for reason, count in zip(RewriteReason, counts, strict=True) if count},
    )


def order_groups(groups: list[G], order: str) -> list[G]:
    """Sort the groups according to `rewrite-job-order`."""
    if order == "none":
        return groups
    what, _, direction = order.partition("-")
    return sorted(groups, key=lambda group: group.size if what == "bytes" else len(group), reverse=direction == "desc")
