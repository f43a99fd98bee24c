"""`ScanPlan`: the files that a scan reads, and counts of what was skipped. Its parts are `PlannedFiles`: the files of one partition spec as columns.

A plan of a million files consists of columns; task objects are created in slices, on demand. `scan_planner.py` makes the plan.
Spec: Scan Planning; Data File Fields.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.scan.decisions import NO_DECISIONS, DecidedFiles, Decision, DecisionList, Decisions, DecisionSource, Reason
from icefloe.scan.file_objects import file_objects, partition_tuples
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import array_of_chunks, numbers_array, numpy_of
from icefloe.spec.avro.avro_objects import Same, Values, objects
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS
from icefloe.spec.ports import StorageAccess
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import StructType

# How many rows become objects in one step: enough to make the cost per step negligible, and few enough to return a first task at once.
SLICE_ROWS = 4096
# The attributes of `FileCounts` that are sums, each with the column that it sums.
_COUNTED = (("bytes", "file_size_in_bytes"), ("records", "record_count"))
# The attributes of `ScanPlan` that are counts of manifests and their files.
_SUMMED = (
    "manifests_total",
    "manifests_skipped",
    "delete_manifests_total",
    "delete_manifests_skipped",
    "manifest_bytes_read",
    "manifest_bytes_skipped",
    "files_in_skipped_manifests",
    "records_in_skipped_manifests",
    "delete_files_considered",
    "planning_ns",
)
_COLUMNS_OF_FILES = ENTRY_FIELDS.append(pa.field("spec_id", pa.int32()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Totals of some data files of a plan: their number, their bytes, and their rows before deletes."""

    files: int = 0
    bytes: int = 0
    records: int = 0

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files + other.files, bytes=self.bytes + other.bytes, records=self.records + other.records)

    def __sub__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files - other.files, bytes=self.bytes - other.bytes, records=self.records - other.records)


NO_FILES = FileCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """Files of one partition spec; the arrays have one element for each file.

    Attributes:
        entries: A `pyarrow.Table` with the columns of `ManifestColumns` and `spec_id`.
        spec_id: The partition spec.
        partition_type: The type of the spec's partition tuples.
        residuals: The distinct residual filters.
        residual_index: The index in `residuals` of each file's residual.
        covered: A mask of the files in which every row matches; None in a plan without `find_covered`.
        statistics: Field ids of the columns whose statistics `entries` has.
        delete_offsets: One element more than there are files. The delete files of file i are
            `delete_files[k] for k in delete_indices[delete_offsets[i] : delete_offsets[i + 1]]`. None if no file has deletes.
        delete_indices: Indices in `delete_files`; None if no file has deletes.
        delete_files: The delete files of the whole plan.
    """

    entries: Any
    spec_id: int
    partition_type: StructType
    residuals: Sequence[BooleanExpression]
    residual_index: NDArray[np.int64]
    covered: Mask | None
    statistics: Sequence[int]
    delete_offsets: NDArray[np.int64] | None = None
    delete_indices: NDArray[np.int64] | None = None
    delete_files: Sequence[DataFile] = ()

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    @property
    def certain_rows(self) -> NDArray[np.int64]:
        """The number of rows of each file that certainly exist: all rows of a file without deletes, 0 for a file with deletes."""
        rows = numpy_of(self.entries["record_count"])
        return rows if self.delete_offsets is None else np.where(np.diff(self.delete_offsets) == 0, rows, 0)

    def tasks(self, shared: dict[tuple[Any, ...], tuple[Any, ...]] | None = None) -> Iterator[FileScanTask]:
        """Yield one task for each file, in the order of the manifests. Partition tuples that equal one in `shared` are the same object; others are added."""
        partitions = partition_tuples(self.entries, self.partition_type, shared)
        for start in range(0, len(self), SLICE_ROWS):
            rows = self.entries.slice(start, SLICE_ROWS)
            files = file_objects(rows, self.spec_id, partitions[start : start + SLICE_ROWS], self.statistics)
            values: dict[str, Values] = {
                "file": files,
                "residual": self._residuals(start),
                "length": [file.file_size_in_bytes for file in files],
                "start": Same(0),
                "sequence_number": array_of_chunks(rows["sequence_number"]),
                "file_sequence_number": array_of_chunks(rows["file_sequence_number"]),
                "is_covered": Same(False) if self.covered is None else self.covered[start : start + SLICE_ROWS].tolist(),
                "delete_files": self._deletes(start, len(files)),
            }
            yield from objects(FileScanTask, values, len(files))

    def partitions(self, rows: Any) -> list[tuple[Any, ...]]:
        """Return the partition tuples of some rows of `entries`, as physical values in spec order."""
        return partition_tuples(rows, self.partition_type)

    def take(self, rows: NDArray[np.int64]) -> "PlannedFiles":
        """Return the files at these rows of `entries`, in that order, with their delete files."""
        offsets, indices = self.delete_offsets, self.delete_indices
        if offsets is not None and indices is not None:
            counts = np.diff(offsets)[rows]
            ends = np.cumsum(counts)
            places = np.repeat(offsets[rows] - (ends - counts), counts) + np.arange(counts.sum())
            offsets, indices = np.concatenate([[0], ends]).astype(np.int64), indices[places]
        return replace(
            self,
            entries=self.entries.take(numbers_array(rows.astype(np.int64), pa.int64())),
            residual_index=self.residual_index[rows],
            covered=None if self.covered is None else self.covered[rows],
            delete_offsets=offsets,
            delete_indices=indices,
        )

    def divide(self, rows: NDArray[np.int64], ends: Sequence[int]) -> list["PlannedFiles"]:
        """Return the files at these rows of `entries`, split into consecutive pieces that share their memory. This is far quicker than one `take` per piece.

        Args:
            rows: The rows, in the order of the pieces.
            ends: For each piece the index in `rows` after its last row, ascending.
        """
        whole = self.take(rows)
        whole = replace(whole, entries=whole.entries.combine_chunks())
        return [whole.between(start, stop) for start, stop in pairwise([0, *ends])]

    def between(self, start: int, stop: int) -> "PlannedFiles":
        """Return the files in the rows `start` (included) to `stop` (excluded) of `entries`, sharing their memory."""
        offsets, indices = self.delete_offsets, self.delete_indices
        if offsets is not None and indices is not None:
            offsets = offsets[start : stop + 1]
            offsets, indices = offsets - offsets[0], indices[offsets[0] : offsets[-1]]
        return replace(
            self,
            entries=self.entries.slice(start, stop - start),
            residual_index=self.residual_index[start:stop],
            covered=None if self.covered is None else self.covered[start:stop],
            delete_offsets=offsets,
            delete_indices=indices,
        )

    def with_delete_files(self, used: NDArray[np.int64], files: Sequence[DataFile]) -> "PlannedFiles":
        """Return the same data files with a shorter list of delete files, which must have every delete file that applies to them.

        Args:
            used: The positions of the remaining delete files in the present `delete_files`, ascending.
            files: The remaining delete files.
        """
        if self.delete_indices is None:
            return self
        return replace(self, delete_indices=np.searchsorted(used, self.delete_indices), delete_files=files)

    def _residuals(self, start: int) -> Values:
        if len(self.residuals) == 1:
            return Same(self.residuals[0])
        return [self.residuals[index] for index in self.residual_index[start : start + SLICE_ROWS].tolist()]

    def _deletes(self, start: int, count: int) -> Values:
        """Return a tuple of delete files for each of the `count` data files from row `start` on."""
        if self.delete_offsets is None or self.delete_indices is None:
            return Same(())
        offsets = self.delete_offsets[start : start + count + 1].tolist()
        indices = self.delete_indices[offsets[0] : offsets[-1]].tolist()
        first = offsets[0]
        return [tuple(self.delete_files[index] for index in indices[begin - first : end - first]) for begin, end in pairwise(offsets)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files to read, the delete files that apply to them, and how many files were skipped at each level.

    Records are counted before deletes are applied.

    Attributes:
        snapshot_id: The snapshot that the scan reads; None for a table without snapshots.
        schema: The schema that the filter is bound to.
        row_filter: The bound filter.
        parts: The files to read, as columns: one or more `PlannedFiles` for each partition spec.
        manifests_total: Number of manifests of the snapshot, data and delete manifests.
        manifests_skipped: Number of manifests that were not read.
        delete_manifests_total: Number of delete manifests.
        delete_manifests_skipped: Number of delete manifests that were not read.
        manifest_bytes_read: Length in bytes of the manifests that were read.
        manifest_bytes_skipped: Length in bytes of the manifests that were not read.
        files_in_skipped_manifests: Data files in skipped manifests, as the manifest list counts them (0 where it has no count).
        records_in_skipped_manifests: Records in skipped manifests, as the manifest list counts them (0 where it has no count).
        kept: Number, bytes and rows of the files to read.
        skipped_by_partition: Number, bytes and rows of the files that their partition value rules out.
        skipped_by_metrics: Number, bytes and rows of the files that column statistics rule out.
        skipped_by_order: Number, bytes and rows of the files without any of the first rows of an ORDER BY with LIMIT.
        skipped_by_sample: Number, bytes and rows of the files that are not in the sample of a TABLESAMPLE.
        delete_files: The delete files that apply to files of the plan.
        delete_files_considered: Number of live delete files in the delete manifests that were read.
        decisions: The decision for each manifest and file; empty unless the plan was made with `explain`.
        is_planned_by_server: Whether the catalog's server planned the scan; it is unknown then what was skipped.
        planning_ns: The time that planning took, in nanoseconds; 0 if it was not measured, or an earlier scan has made the plan.
        access: The storage access that the server sent with the plan; None if the access to the table is used.
    """

    snapshot_id: int | None
    schema: Schema
    row_filter: BooleanExpression
    parts: tuple[PlannedFiles, ...] = ()
    manifests_total: int = 0
    manifests_skipped: int = 0
    delete_manifests_total: int = 0
    delete_manifests_skipped: int = 0
    manifest_bytes_read: int = 0
    manifest_bytes_skipped: int = 0
    files_in_skipped_manifests: int = 0
    records_in_skipped_manifests: int = 0
    kept: FileCounts = NO_FILES
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES
    skipped_by_order: FileCounts = NO_FILES
    skipped_by_sample: FileCounts = NO_FILES
    delete_files: Sequence[DataFile] = ()
    delete_files_considered: int = 0
    decisions: Decisions = NO_DECISIONS
    is_planned_by_server: bool = False
    planning_ns: int = field(default=0, compare=False, repr=False)
    access: StorageAccess | None = field(default=None, compare=False, repr=False)

    @property
    def manifests_read(self) -> int:
        """Number of manifests that were read."""
        return self.manifests_total - self.manifests_skipped

    @property
    def files_considered(self) -> int:
        """Number of live data files in the manifests that were read."""
        return self.files_kept + self._skipped.files

    @property
    def _skipped(self) -> FileCounts:
        return self.skipped_by_partition + self.skipped_by_metrics + self.skipped_by_order + self.skipped_by_sample

    @property
    def files_skipped_by_partition(self) -> int:
        """Number of files that their partition value rules out."""
        return self.skipped_by_partition.files

    @property
    def files_skipped_by_metrics(self) -> int:
        """Number of files that column statistics rule out."""
        return self.skipped_by_metrics.files

    @property
    def files_kept(self) -> int:
        """Number of files to read."""
        return self.kept.files

    @property
    def bytes_kept(self) -> int:
        """Length in bytes of the files to read."""
        return self.kept.bytes

    @property
    def bytes_skipped(self) -> int:
        """Length in bytes of the considered files that are skipped."""
        return self._skipped.bytes

    @property
    def records_before_deletes(self) -> int:
        """Number of rows in the files to read, including deleted rows and rows that do not match."""
        return self.kept.records

    @property
    def records_after_deletes(self) -> int | None:
        """Number of rows in the files to read that are not deleted.

        None with position or equality delete files, which may delete a row twice or no row at all.
        """
        if any(file.file_format is not FileFormat.PUFFIN for file in self.delete_files):
            return None
        return self.kept.records - sum(file.record_count for file in self.delete_files)

    @property
    def records_skipped(self) -> int:
        """Number of rows in the considered files that are skipped."""
        return self._skipped.records

    @property
    def files(self) -> Any:
        """The files to read as one `pyarrow.Table`: the columns of `ManifestColumns` and `spec_id`; partition columns of other specs are null."""
        tables = [part.entries for part in self.parts]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.Table.from_batches([], _COLUMNS_OF_FILES)

    def counts(self) -> dict[str, int]:
        """Return the numbers of manifests and files that are read and skipped, by the names of their metrics in a report of the REST catalog protocol."""
        deletes = self.delete_files
        data_manifests = self.manifests_total - self.delete_manifests_total
        skipped_data_manifests = self.manifests_skipped - self.delete_manifests_skipped
        return {
            "result-data-files": self.files_kept,
            "result-delete-files": len(deletes),
            "total-data-manifests": data_manifests,
            "total-delete-manifests": self.delete_manifests_total,
            "scanned-data-manifests": data_manifests - skipped_data_manifests,
            "skipped-data-manifests": skipped_data_manifests,
            "scanned-delete-manifests": self.delete_manifests_total - self.delete_manifests_skipped,
            "skipped-delete-manifests": self.delete_manifests_skipped,
            "skipped-data-files": self._skipped.files,
            "skipped-delete-files": self.delete_files_considered - len(deletes),
            "indexed-delete-files": self.delete_files_considered,
            "equality-delete-files": sum(file.content is FileContent.EQUALITY_DELETES for file in deletes),
            "positional-delete-files": sum(
                file.content is FileContent.POSITION_DELETES and file.file_format is not FileFormat.PUFFIN for file in deletes
            ),
            "dvs": sum(file.file_format is FileFormat.PUFFIN for file in deletes),
        }

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the files that are read, by the names of their metrics in a report."""
        return {
            "total-file-size-in-bytes": self.bytes_kept,
            "total-delete-file-size-in-bytes": sum(
                file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes for file in self.delete_files
            ),
        }

    def tasks(self) -> Iterator[FileScanTask]:
        """Yield one task for each file to read. Tasks are created while the iterator is consumed."""
        for part in self.parts:
            yield from part.tasks()

    def explain(self) -> "ScanPlan":
        """Return a plan that a server made with a decision for each of its files. The reason of every decision is that the server chose the file."""
        data = [
            DecidedFiles(
                level="file",
                files=part.entries,
                kept=np.ones(len(part), dtype=bool),
                explained=_chosen_by_server,
                partitions=_unknown_partitions,
            )
            for part in self.parts
        ]
        deletes = [
            Decision(
                level="delete file",
                path=file.file_path,
                kept=True,
                reason=Reason.BY_SERVER,
                explanation="",
                bytes=file.content_size_in_bytes or file.file_size_in_bytes,
                records=file.record_count,
            )
            for file in self.delete_files
        ]
        sources: list[DecisionSource] = [*data, DecisionList(level="delete file", entries=deletes)]
        return replace(self, decisions=Decisions(sources, np.arange(self.kept.files + len(deletes))))

    def without_partitions(self, masks: Sequence[Mask]) -> "ScanPlan":
        """Return the plan without some files, which count as skipped by partition.

        Args:
            masks: For each item of `parts` a mask of the files that remain.

        Returns:
            A plan with the remaining files, and the delete files that apply to them.
        """
        plan = self.select(masks)
        return replace(plan, skipped_by_partition=self.skipped_by_partition + (self.kept - plan.kept))

    def without_later_files(self, masks: Sequence[Mask]) -> "ScanPlan":
        """Return the plan without files that cannot have one of the first rows. The arguments and the result are those of `without_partitions`."""
        plan = self.select(masks)
        return replace(plan, skipped_by_order=self.skipped_by_order + (self.kept - plan.kept))

    def without_unsampled(self, masks: Sequence[Mask]) -> "ScanPlan":
        """Return the plan without files that are not in a sample. The arguments and the result are those of `without_partitions`."""
        plan = self.select(masks)
        return replace(plan, skipped_by_sample=self.skipped_by_sample + (self.kept - plan.kept))

    def select(self, masks: Sequence[Mask]) -> "ScanPlan":
        """Return a plan of some of the files, and the delete files that apply to them. `masks` has a mask of the files for each item of `parts`."""
        parts = zip(self.parts, masks, strict=True)
        return self._only([part if mask.all() else part.take(np.flatnonzero(mask)) for part, mask in parts if mask.any()])

    def first_files(self, rows: int) -> "ScanPlan":
        """Return a plan of only the first files: as many files as are needed to return `rows` rows, or all files if they have fewer rows.

        Rows of files with deletes are not counted, since it is unknown how many of them are deleted.
        """
        parts: list[PlannedFiles] = []
        missing = rows
        for part in self.parts:
            if missing <= 0:
                break
            ends = np.cumsum(part.certain_rows)
            count = int(np.searchsorted(ends, missing)) + 1
            first = part if count >= len(part) else part.take(np.arange(count))
            missing -= int(ends[len(first) - 1])
            parts.append(first)
        return self._only(parts)

    def _only(self, parts: Sequence[PlannedFiles]) -> "ScanPlan":
        """Return the plan with these files instead of its own, and with only the delete files that apply to them."""
        used = np.unique(
            np.concatenate([np.empty(0, np.int64), *(part.delete_indices for part in parts if part.delete_indices is not None)])
        )
        files = [self.delete_files[index] for index in used.tolist()]
        return replace(
            self, parts=tuple(part.with_delete_files(used, files) for part in parts), kept=_count_files(parts), delete_files=files
        )


def join_plans(plans: Sequence[ScanPlan]) -> ScanPlan:
    """Return a plan of the files of several plans of one table, in their order. A file may be in several of them. There must be at least one plan."""
    parts: list[PlannedFiles] = []
    delete_files = [file for plan in plans for file in plan.delete_files]
    start = 0
    for plan in plans:
        for part in plan.parts:
            indices = None if part.delete_indices is None else part.delete_indices + start
            parts.append(replace(part, delete_indices=indices, delete_files=delete_files))
        start += len(plan.delete_files)
    return replace(
        plans[-1],
        parts=tuple(parts),
        delete_files=delete_files,
        kept=_count_files(parts),
        **{name: sum(getattr(plan, name) for plan in plans) for name in _SUMMED},
    )


def consume_parts(parts: list[PlannedFiles]) -> list[FileScanTask]:
    """Return the tasks of all parts. The list becomes empty: each part is released once its tasks exist, so that a large scan is not in memory twice."""
    shared: dict[int, dict[tuple[Any, ...], tuple[Any, ...]]] = defaultdict(dict)  # by partition spec
    tasks: list[FileScanTask] = []
    while parts:
        part = parts.pop(0)
        tasks.extend(part.tasks(shared[part.spec_id]))
    return tasks


def _count_files(parts: Sequence[PlannedFiles]) -> FileCounts:
    sums = (FileCounts(files=len(part), **{count: pc.sum(part.entries[name]).as_py() or 0 for count, name in _COUNTED}) for part in parts)
    return sum(sums, NO_FILES)


# These are functions of the module, not lambdas, so that an explained plan can be pickled.
def _chosen_by_server(_files: Any, rows: NDArray[np.int64]) -> Iterable[tuple[Reason, str]]:
    return repeat((Reason.BY_SERVER, ""), len(rows))


def _unknown_partitions(files: Any) -> Iterable[str]:
    return repeat("", files.num_rows)
