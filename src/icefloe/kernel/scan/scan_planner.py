"""`plan_scan`: plans a scan of a snapshot: the data files that may have matching rows, each with the delete files that apply to it.

    snapshot -> manifest list -> manifests whose partition summaries allow a match -> live delete files, indexed -> live data files whose partition values,
    bounds and counts allow a match, with their deletes -> `ScanPlan`, still as columns -> `FileScanTask`s on demand

The caller passes `read`, which is called once for each file, so that this package needs no storage. Spec: Scan Planning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.manifest.manifest_columns import ENTRY_FIELDS
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.decision import Decision, Reason
from icefloe.kernel.scan.file_objects import LazyFiles
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.live_deletes import LiveDeletes, delete_decisions, read_deletes
from icefloe.kernel.scan.manifest_group import ManifestGroup, PlannedBatch
from icefloe.kernel.scan.planned_files import NO_FILES, FileCounts, PlannedFiles
from icefloe.kernel.scan.prune_manifests import explain_manifests, manifest_mask
from icefloe.kernel.scan.scan_context import Parallel, Read, ScanContext, live_files, live_records
from icefloe.kernel.schema.schema import Schema

# Attributes of `FileCounts` and the columns that they sum.
_COUNTED = (("bytes", "file_size_in_bytes"), ("records", "record_count"))
_COLUMNS_OF_FILES = ENTRY_FIELDS.append(pa.field("spec_id", pa.int32()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files to read, the delete files that apply to them, and how many files were skipped at each level.

    Records are counted before deletes are applied.

    Attributes:
        snapshot_id: The snapshot that is read; None for a table without snapshots.
        schema: The schema that the filter is bound to.
        row_filter: The bound filter.
        parts: The files to read, as columns, one item or more for each partition spec.
        manifests_total: Number of manifests of the snapshot, data and delete manifests.
        manifests_skipped: Number of them that were not read.
        delete_manifests_total: Number of delete manifests.
        delete_manifests_skipped: Number of delete manifests that were not read.
        manifest_bytes_read: Length of the manifests that were read.
        manifest_bytes_skipped: Length of the other manifests.
        files_in_skipped_manifests: Data files in skipped manifests, as the manifest list counts them (0 where it has no count).
        records_in_skipped_manifests: Records in skipped manifests, as the manifest list counts them (0 where it has no count).
        kept: Counts of the files to read.
        skipped_by_partition: Counts of the files that their partition value rules out.
        skipped_by_metrics: Counts of the files that column statistics rule out.
        delete_files: The delete files that apply to files of the plan.
        delete_files_considered: Number of live delete files in the delete manifests that were read.
        decisions: The decision for each manifest and file; empty unless the plan was made with `explain`.
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
    delete_files: Sequence[DataFile] = ()
    delete_files_considered: int = 0
    decisions: tuple[Decision, ...] = ()

    @property
    def manifests_read(self) -> int:
        """Number of manifests that were read."""
        return self.manifests_total - self.manifests_skipped

    @property
    def files_considered(self) -> int:
        """Number of live data files in the manifests that were read."""
        return self.files_kept + self.files_skipped_by_partition + self.files_skipped_by_metrics

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
        """Length of the files to read."""
        return self.kept.bytes

    @property
    def bytes_skipped(self) -> int:
        """Length of the considered files that are skipped."""
        return self.skipped_by_partition.bytes + self.skipped_by_metrics.bytes

    @property
    def records_before_deletes(self) -> int:
        """Rows of the kept files, with deleted rows and rows that do not match."""
        return self.kept.records

    @property
    def records_after_deletes(self) -> int | None:
        """Rows of the kept files that are not deleted; None with position or equality delete files, which may delete a row twice or no row at all."""
        if any(file.file_format is not FileFormat.PUFFIN for file in self.delete_files):
            return None
        return self.kept.records - sum(file.record_count for file in self.delete_files)

    @property
    def records_skipped(self) -> int:
        """Rows of the considered files that are skipped."""
        return self.skipped_by_partition.records + self.skipped_by_metrics.records

    @property
    def files(self) -> Any:
        """The kept files as one `pyarrow.Table`: the columns of `ManifestColumns` and `spec_id`; partition columns of other specs are null."""
        tables = [part.entries for part in self.parts]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.Table.from_batches([], _COLUMNS_OF_FILES)

    def tasks(self) -> Iterator[FileScanTask]:
        """Yield one task for each kept file; tasks are created while the iterator is consumed."""
        for part in self.parts:
            yield from part.tasks()

    def without_partitions(self, masks: Sequence[Mask]) -> "ScanPlan":
        """Return the plan without files that their partitions rule out.

        Args:
            masks: For each part a mask of the files that remain.

        Returns:
            A plan with the remaining files and the delete files that apply to them; the others count as skipped by partition.
        """
        kept = [part.take(np.flatnonzero(mask)) for part, mask in zip(self.parts, masks, strict=True) if mask.any()]
        used = np.unique(
            np.concatenate([np.empty(0, np.int64), *(part.delete_indices for part in kept if part.delete_indices is not None)])
        )
        files = [self.delete_files[index] for index in used.tolist()]
        counts = _counted(kept)
        return replace(
            self,
            parts=tuple(_numbered(part, used, files) for part in kept),
            kept=counts,
            skipped_by_partition=self.skipped_by_partition + (self.kept - counts),
            delete_files=files,
        )


def plan_scan(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    row_filter: BooleanExpression,
    read: Read,
    *,
    case_sensitive: bool = True,
    parallel: Parallel = map,
    prune_in_parallel: bool = False,
    explain: bool = False,
    include_statistics: bool = False,
    find_covered: bool = False,
    every_delete: bool = False,
    schema: Schema | None = None,
    appends: Sequence[Snapshot] | None = None,
) -> ScanPlan:
    """Plan a scan: find the live data files that may have rows matching the filter, and the delete files that apply to them. Spec: Scan Planning.

    Args:
        metadata: The metadata of the table.
        snapshot: The snapshot to read; None gives an empty plan.
        row_filter: The filter, not bound yet.
        read: Returns the content of the file at a location.
        case_sensitive: Whether names in the filter must match the case of column names.
        parallel: Reads several manifests at once.
        prune_in_parallel: Test files in the parallel readers, before their results are sent back.
        explain: Give every manifest and file its `Decision`.
        include_statistics: Put column statistics into the files of the tasks.
        find_covered: Find the files of which every row matches (then every live row matches too).
        every_delete: Keep delete files that delete no matching row; copying the rows that do not match needs them.
        schema: The schema that the filter is bound to; by default the table's for its current snapshot, and the snapshot's own for an older one.
        appends: Read only the files that these snapshots added, as they were added: no delete file applies to them, and later snapshots are ignored.

    Raises:
        InvalidFilterError: The filter does not fit the schema.
        AvroFormatError: A manifest list or manifest is damaged.
        ManifestFormatError: A manifest entry breaks a rule of the format, or entries contradict each other.
    """
    chosen = schema or _schema(metadata, snapshot)
    bound = bind(row_filter, chosen, case_sensitive)
    if snapshot is None:
        return ScanPlan(snapshot_id=None, schema=chosen, row_filter=bound)
    context = ScanContext(
        metadata=metadata,
        schema=chosen,
        bound=bound,
        explain=explain,
        include_statistics=include_statistics,
        find_covered=find_covered,
        every_delete=every_delete,
        added_in=None if appends is None else frozenset(append.snapshot_id for append in appends),
    )
    manifests = read_manifests(snapshot, read) if appends is None else _added_manifests(appends, read)
    choice = _ManifestChoice(manifests, context)
    deletes = read_deletes(context, choice.kept_deletes, read, parallel)
    batches = list(ManifestGroup(context, deletes.index, read, prune_in_parallel=prune_in_parallel).plan(choice.kept_data, parallel))
    parts, delete_files, counts = _with_deletes([batch.files for batch in batches if len(batch.files)], deletes)
    return ScanPlan(
        snapshot_id=snapshot.snapshot_id,
        schema=chosen,
        row_filter=bound,
        parts=parts,
        **choice.totals(),
        kept=sum((batch.kept for batch in batches), NO_FILES),
        skipped_by_partition=sum((batch.skipped_by_partition for batch in batches), NO_FILES),
        skipped_by_metrics=sum((batch.skipped_by_metrics for batch in batches), NO_FILES),
        delete_files=delete_files,
        delete_files_considered=deletes.total,
        decisions=tuple(choice.decisions(batches, deletes, counts)) if explain else (),
    )


def _added_manifests(snapshots: Sequence[Snapshot], read: Read) -> list[ManifestFile]:
    """Return the data manifests that the snapshots wrote, each once."""
    ids = {snapshot.snapshot_id for snapshot in snapshots}
    manifests = (manifest for snapshot in snapshots for manifest in read_manifests(snapshot, read))
    added = (manifest for manifest in manifests if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id in ids)
    return list({manifest.manifest_path: manifest for manifest in added}.values())


def _schema(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    if snapshot is None or snapshot.schema_id is None or snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata.schema()
    return metadata.schema_by_id(snapshot.schema_id)


class _ManifestChoice:
    """The manifests of a snapshot and the choice of those that are read."""

    def __init__(self, manifests: Sequence[ManifestFile], context: ScanContext) -> None:
        self._all = manifests
        self._context = context
        is_data = np.array([manifest.content is ManifestContent.DATA for manifest in manifests], dtype=bool)
        live = np.array([manifest.has_live_files for manifest in manifests], dtype=bool)
        kept = manifest_mask(manifests, context.bound, context.specs, context.schema) & live
        self.kept_data = _chosen(manifests, kept & is_data)
        # A delete file applies to no data file that is newer than its manifest.
        oldest = min((manifest.min_sequence_number for manifest in self.kept_data), default=None)
        newer = [oldest is not None and manifest.sequence_number >= oldest for manifest in manifests]
        self._older = kept & ~is_data & ~np.array(newer, dtype=bool)
        self._kept = kept & ~self._older
        self.kept_deletes = _chosen(manifests, self._kept & ~is_data)

    def totals(self) -> dict[str, int]:
        """Return the attributes of the plan that count manifests."""
        skipped = _chosen(self._all, ~self._kept)
        skipped_data = [manifest for manifest in skipped if manifest.content is ManifestContent.DATA]
        return {
            "manifests_total": len(self._all),
            "manifests_skipped": len(skipped),
            "delete_manifests_total": sum(manifest.content is ManifestContent.DELETES for manifest in self._all),
            "delete_manifests_skipped": len(skipped) - len(skipped_data),
            "manifest_bytes_read": sum(manifest.manifest_length for manifest in _chosen(self._all, self._kept)),
            "manifest_bytes_skipped": sum(manifest.manifest_length for manifest in skipped),
            "files_in_skipped_manifests": sum(map(live_files, skipped_data)),
            "records_in_skipped_manifests": sum(map(live_records, skipped_data)),
        }

    def decisions(self, batches: Sequence[PlannedBatch], deletes: LiveDeletes, counts: NDArray[np.int64]) -> Iterator[Decision]:
        """Yield the decision for every manifest in list order; the files of a manifest that was read follow it."""
        context = self._context
        explanations = explain_manifests(self._all, context.bound, context.specs, context.schema)
        of_data = {place: decisions for batch in batches for place, decisions in batch.decisions.items()}
        of_deletes = delete_decisions(context, deletes, counts)
        places = {ManifestContent.DATA: iter(range(len(self._all))), ManifestContent.DELETES: iter(range(len(self._all)))}
        for manifest, keep, older, explanation in zip(self._all, self._kept.tolist(), self._older.tolist(), explanations, strict=True):
            yield context.manifest_decision(manifest, keep, explanation, Reason.OLDER if older else None)
            if keep:
                place = next(places[manifest.content])
                yield from (of_data if manifest.content is ManifestContent.DATA else of_deletes).get(place, ())


def _chosen(manifests: Sequence[ManifestFile], mask: Mask) -> list[ManifestFile]:
    return [manifest for manifest, keep in zip(manifests, mask.tolist(), strict=True) if keep]


def _with_deletes(
    parts: Sequence[PlannedFiles], deletes: LiveDeletes
) -> tuple[tuple[PlannedFiles, ...], Sequence[DataFile], NDArray[np.int64]]:
    """Return the parts with renumbered delete files, the delete files that a part needs, and the number of data files of each delete file of the index."""
    counts = np.zeros(len(deletes.index), dtype=np.int64)
    for part in parts:
        if part.delete_indices is not None:
            counts += np.bincount(part.delete_indices, minlength=len(counts))
    used = np.flatnonzero(counts)
    if not len(used):
        return tuple(parts), (), counts
    files = LazyFiles(len(used), partial(deletes.files, used))
    return tuple(_numbered(part, used, files) for part in parts), files, counts


def _numbered(part: PlannedFiles, used: NDArray[np.int64], files: Sequence[DataFile]) -> PlannedFiles:
    """Return the part with the delete files that had the numbers `used`, renumbered from 0."""
    return (
        part
        if part.delete_indices is None
        else replace(part, delete_indices=np.searchsorted(used, part.delete_indices), delete_files=files)
    )


def _counted(parts: Sequence[PlannedFiles]) -> FileCounts:
    sums = (FileCounts(files=len(part), **{count: pc.sum(part.entries[name]).as_py() or 0 for count, name in _COUNTED}) for part in parts)
    return sum(sums, NO_FILES)
