"""`plan_scan`: from a snapshot and a filter to the data files that may hold matching rows, each with the delete files that apply to it.

    snapshot -> manifest list -> manifests whose partition summaries allow a match -> live delete files, indexed -> live data files whose partition values,
    bounds and counts allow a match, with their deletes -> `ScanPlan`, still as columns -> `FileScanTask`s when someone asks

Bytes come through the `read` that is handed in, one call a file. Spec: Scan Planning.
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

_COUNTED = (("bytes", "file_size_in_bytes"), ("records", "record_count"))


_COLUMNS_OF_FILES = ENTRY_FIELDS.append(pa.field("spec_id", pa.int32()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files to read, the delete files that apply to them, and how many were ruled out at each level.

    Manifests are counted with those of deletes, and again those alone; `manifest_bytes_...` are their lengths. The files of skipped manifests are not known one
    by one: `files_in_skipped_manifests` and `records_in_skipped_manifests` are what the manifest list counts of data files (0 where it does not say). Records
    are always those before deletes. `delete_files_considered` are the live ones of the delete manifests that were read. `decisions` is empty unless the plan
    was asked to explain.
    """

    snapshot_id: int | None
    schema: Schema
    row_filter: BooleanExpression  # bound to `schema`
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
        return self.manifests_total - self.manifests_skipped

    @property
    def files_considered(self) -> int:
        """The live files of the manifests that were read."""
        return self.files_kept + self.files_skipped_by_partition + self.files_skipped_by_metrics

    @property
    def files_skipped_by_partition(self) -> int:
        return self.skipped_by_partition.files

    @property
    def files_skipped_by_metrics(self) -> int:
        return self.skipped_by_metrics.files

    @property
    def files_kept(self) -> int:
        return self.kept.files

    @property
    def bytes_kept(self) -> int:
        return self.kept.bytes

    @property
    def bytes_skipped(self) -> int:
        """Of the files that were considered."""
        return self.skipped_by_partition.bytes + self.skipped_by_metrics.bytes

    @property
    def records_before_deletes(self) -> int:
        """Rows of the kept files, deleted ones too; not all of them need match."""
        return self.kept.records

    @property
    def records_after_deletes(self) -> int | None:
        """Rows of the kept files that are not deleted; None where only reading the delete files can tell, as they may name a row twice or none at all."""
        if any(file.file_format is not FileFormat.PUFFIN for file in self.delete_files):
            return None
        return self.kept.records - sum(file.record_count for file in self.delete_files)

    @property
    def records_skipped(self) -> int:
        """Of the files that were considered."""
        return self.skipped_by_partition.records + self.skipped_by_metrics.records

    @property
    def files(self) -> Any:
        """The kept files as one `pyarrow.Table`: the columns of `ManifestColumns` and `spec_id`; partition columns of other specs are null."""
        tables = [part.entries for part in self.parts]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.Table.from_batches([], _COLUMNS_OF_FILES)

    def tasks(self) -> Iterator[FileScanTask]:
        """One task a kept file, made as they are asked for."""
        for part in self.parts:
            yield from part.tasks()

    def without_partitions(self, masks: Sequence[Mask]) -> "ScanPlan":
        """The plan with only those files of each part that a mask has, as the partitions of the others rule them out; and with their delete files."""
        kept = [part.take(np.flatnonzero(mask)) for part, mask in zip(self.parts, masks, strict=True) if mask.any()]
        used = np.unique(
            np.concatenate([np.empty(0, np.int64), *(part.delete_indices for part in kept if part.delete_indices is not None)])
        )
        files = [self.delete_files[index] for index in used.tolist()]
        counted = _counted(kept)
        return replace(
            self,
            parts=tuple(_numbered(part, used, files) for part in kept),
            kept=counted,
            skipped_by_partition=self.skipped_by_partition + (self.kept - counted),
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
    """The live data files of a snapshot that may hold rows matching the filter, with their delete files; none for a table without a snapshot.

    With `appends` the files that these snapshots added, as they were added: no delete file applies to them, and what became of them later says nothing.
    The filter is bound to `schema`: the table's for its current snapshot and the snapshot's own for an older one where it is not given. `explain` gives every
    manifest and file its `Decision`; `include_statistics` puts column statistics into the tasks' files, and `find_covered` tells the files that match whole
    (then every live row matches too). Delete files that delete no matching row are left out, save with `every_delete`: whoever copies the rows that do not
    match needs it.

    Raises:
        InvalidFilterError: the filter does not fit the schema.
        AvroFormatError, ManifestFormatError: a manifest list or manifest is damaged, or its entries contradict each other.
    Spec: Scan Planning.
    """
    chosen = schema or _schema(metadata, snapshot)
    bound = bind(row_filter, chosen, case_sensitive)
    if snapshot is None:
        return ScanPlan(snapshot_id=None, schema=chosen, row_filter=bound)
    question = ScanContext(
        metadata=metadata,
        schema=chosen,
        bound=bound,
        explain=explain,
        include_statistics=include_statistics,
        find_covered=find_covered,
        every_delete=every_delete,
        added_in=None if appends is None else frozenset(one.snapshot_id for one in appends),
    )
    manifests = read_manifests(snapshot, read) if appends is None else _added_manifests(appends, read)
    chooser = _Manifests(manifests, question)
    deletes = read_deletes(question, chooser.kept_deletes, read, parallel)
    planner = ManifestGroup(question, deletes.index, read, prune_in_parallel=prune_in_parallel)
    batches = list(planner.plan(chooser.kept_data, parallel))
    parts, delete_files, counts = _with_deletes([batch.files for batch in batches if len(batch.files)], deletes)
    return ScanPlan(
        snapshot_id=snapshot.snapshot_id,
        schema=chosen,
        row_filter=bound,
        parts=parts,
        **chooser.totals(),
        kept=sum((batch.kept for batch in batches), NO_FILES),
        skipped_by_partition=sum((batch.skipped_by_partition for batch in batches), NO_FILES),
        skipped_by_metrics=sum((batch.skipped_by_metrics for batch in batches), NO_FILES),
        delete_files=delete_files,
        delete_files_considered=deletes.total,
        decisions=tuple(chooser.decisions(batches, deletes, counts)) if explain else (),
    )


def _added_manifests(snapshots: Sequence[Snapshot], read: Read) -> list[ManifestFile]:
    """Return the data manifests that the snapshots wrote, each once."""
    ids = {snapshot.snapshot_id for snapshot in snapshots}
    found = (manifest for snapshot in snapshots for manifest in read_manifests(snapshot, read))
    kept = {one.manifest_path: one for one in found if one.content is ManifestContent.DATA and one.added_snapshot_id in ids}
    return list(kept.values())


def _schema(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    if snapshot is None or snapshot.schema_id is None or snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata.schema()
    return metadata.schema_by_id(snapshot.schema_id)


class _Manifests:
    """The manifests of a snapshot and which of them are read."""

    def __init__(self, manifests: Sequence[ManifestFile], question: ScanContext) -> None:
        self._all = manifests
        self._question = question
        is_data = np.array([manifest.content is ManifestContent.DATA for manifest in manifests], dtype=bool)
        live = np.array([manifest.has_live_files for manifest in manifests], dtype=bool)
        kept = manifest_mask(manifests, question.bound, question.specs, question.schema) & live
        self.kept_data = _chosen(manifests, kept & is_data)
        # A delete file applies to no data file that is newer than its manifest.
        oldest = min((manifest.min_sequence_number for manifest in self.kept_data), default=None)
        newer = [oldest is not None and manifest.sequence_number >= oldest for manifest in manifests]
        self._older = kept & ~is_data & ~np.array(newer, dtype=bool)
        self._kept = kept & ~self._older
        self.kept_deletes = _chosen(manifests, self._kept & ~is_data)

    def totals(self) -> dict[str, int]:
        """What the plan says of manifests."""
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
        """Every manifest in list order, each that was read followed by its files."""
        question = self._question
        explanation = explain_manifests(self._all, question.bound, question.specs, question.schema)
        of_data = {place: found for batch in batches for place, found in batch.decisions.items()}
        of_deletes = delete_decisions(question, deletes, counts)
        places = {ManifestContent.DATA: iter(range(len(self._all))), ManifestContent.DELETES: iter(range(len(self._all)))}
        for manifest, keep, older, told in zip(self._all, self._kept.tolist(), self._older.tolist(), explanation, strict=True):
            yield question.manifest_decision(manifest, keep, told, Reason.OLDER if older else None)
            if keep:
                place = next(places[manifest.content])
                yield from (of_data if manifest.content is ManifestContent.DATA else of_deletes).get(place, ())


def _chosen(manifests: Sequence[ManifestFile], mask: Mask) -> list[ManifestFile]:
    return [manifest for manifest, keep in zip(manifests, mask.tolist(), strict=True) if keep]


def _with_deletes(
    parts: Sequence[PlannedFiles], deletes: LiveDeletes
) -> tuple[tuple[PlannedFiles, ...], Sequence[DataFile], NDArray[np.int64]]:
    """The parts with the delete files that any of them needs, numbered anew; those; and how many data files each of the index applies to."""
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
    """The part with other delete files, which had these numbers."""
    return (
        part
        if part.delete_indices is None
        else replace(part, delete_indices=np.searchsorted(used, part.delete_indices), delete_files=files)
    )


def _counted(parts: Sequence[PlannedFiles]) -> FileCounts:
    sums = (FileCounts(files=len(part), **{ours: pc.sum(part.entries[name]).as_py() or 0 for ours, name in _COUNTED}) for part in parts)
    return sum(sums, NO_FILES)
