"""`ManifestGroup`: reads the data manifests that were not skipped, prunes their files in batches, and matches delete files to them.

Manifests are read in parallel. A test costs the same for one file as for thousands, so that the files of small manifests are tested together.
`prune_manifests.py` chooses the manifests, `prune_files.py` tests files, `delete_file_index.py` matches deletes. Spec: Scan Planning.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import mask_array, numbers_array, numpy_of
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.manifest.manifest_columns import ManifestColumns, Statistic, every_statistic, ordered_statistics, statistic_column
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.scan.decision import Decision, Reason
from icefloe.kernel.scan.delete_file_index import DeleteFileIndex
from icefloe.kernel.scan.file_objects import partition_tuples
from icefloe.kernel.scan.planned_files import NO_FILES, FileCounts, PlannedFiles
from icefloe.kernel.scan.prune_files import FileMetricsEvaluator, required_statistics
from icefloe.kernel.scan.scan_context import LiveEntries, Parallel, Read, ScanContext

# Files of a batch: it is tested as soon as it has so many, which limits the entries in memory.
BATCH_FILES = 2**15
# Bytes of a group of manifests that one call reads, and the least number of groups. Larger groups are no faster, and leave more freed memory behind.
_GROUP_BYTES = 2**21
_GROUPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """Files of one partition spec that were tested together.

    Attributes:
        files: The files that may match.
        kept: Their counts.
        skipped_by_partition: Counts of the files that their partition value rules out.
        skipped_by_metrics: Counts of the files that column statistics rule out.
        decisions: Decisions by the place of the manifest among the manifests that were read; empty unless the scan explains.
    """

    files: PlannedFiles
    kept: FileCounts
    skipped_by_partition: FileCounts
    skipped_by_metrics: FileCounts
    decisions: Mapping[int, Sequence[Decision]]


class _ReadFiles(NamedTuple):
    """Live entries of manifests that were read together, and counts of the entries that the reader has pruned already."""

    live: LiveEntries
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES


@dataclass(frozen=True)
class ManifestReader:
    """A function that reads manifests of one partition spec and, with `prunes`, leaves out entries that cannot match.

    It can be pickled to read in another process if `read` can be pickled.
    """

    context: ScanContext
    read: Read
    statistics: Mapping[int, set[Statistic]]  # statistics to decode, by spec id
    prunes: bool

    def __call__(self, manifests: Sequence[ManifestFile]) -> _ReadFiles:
        """Read the live entries of some manifests of one partition spec."""
        spec_id = manifests[0].partition_spec_id
        live = self.context.live_entries(manifests, self.read, self.statistics[spec_id])
        if not self.prunes or self.context.is_unfiltered:
            return _ReadFiles(live)
        test = FileMetricsEvaluator(ManifestColumns(live.entries), self.context.bound, self.context.specs[spec_id], self.context.schema)
        may, by_partition = _tested(test)
        kept = LiveEntries(live.entries.filter(mask_array(may)).combine_chunks(), live.places[may])
        return _ReadFiles(kept, _count(live.entries, by_partition), _count(live.entries, ~may & ~by_partition))


@dataclass(slots=True)
class _Pending:
    """Entries of one partition spec that are not tested yet, the place of the manifest of each, and counts of entries pruned by the reader."""

    tables: list[Any] = field(default_factory=list)
    places: list[NDArray[np.int64]] = field(default_factory=list)
    files: int = 0
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES


class ManifestGroup:
    """The data manifests of a scan, read in parallel and tested in batches; parallel reads share no mutable state.

    Args:
        context: The scan.
        deletes: The delete files that may apply.
        read: Returns the content of a file.
        prune_in_parallel: Test entries in the parallel readers, before their results are sent back.
    """

    def __init__(self, context: ScanContext, deletes: DeleteFileIndex, read: Read, *, prune_in_parallel: bool = False) -> None:
        self._context = context
        self._deletes = deletes
        self._statistics_of_spec = {spec_id: self._statistics(spec_id) for spec_id in context.specs}
        # An explanation has a decision for every file, so that the readers must not leave any out.
        self._reader = ManifestReader(context, read, self._statistics_of_spec, prune_in_parallel and not context.explain)

    def plan(self, manifests: Sequence[ManifestFile], parallel: Parallel) -> Iterator[PlannedBatch]:
        """Yield batches of the files that may match, with their delete files.

        Args:
            manifests: Data manifests. The files of one partition spec keep the order of the manifests.
            parallel: Reads several groups of manifests at once.

        Raises:
            AvroFormatError: A manifest is damaged.
            ManifestFormatError: An entry breaks a rule of the format.
        """
        pending: dict[int, _Pending] = {}
        groups = _groups(manifests)
        results: Iterable[_ReadFiles] = parallel(self._reader, ([manifest for _, manifest in group] for group in groups))
        for group, (live, by_partition, by_metrics) in zip(groups, results, strict=True):
            spec_id = group[0][1].partition_spec_id
            waiting = pending.setdefault(spec_id, _Pending())
            waiting.tables.append(live.entries)
            waiting.places.append(np.array([place for place, _ in group])[live.places])
            waiting.files += live.entries.num_rows
            waiting.skipped_by_partition += by_partition
            waiting.skipped_by_metrics += by_metrics
            if waiting.files >= BATCH_FILES:
                yield self._batch(spec_id, pending.pop(spec_id))
        for spec_id, waiting in pending.items():
            yield self._batch(spec_id, waiting)

    def _statistics(self, spec_id: int) -> set[Statistic]:
        context = self._context
        compared = ordered_statistics(self._deletes.compared_columns(spec_id))
        if context.include_statistics:
            return set(every_statistic(context.primitive_ids) | compared)
        strict = context.find_covered or context.explain
        return required_statistics(context.bound, context.specs[spec_id], context.schema, strict=strict) | compared

    def _batch(self, spec_id: int, waiting: _Pending) -> PlannedBatch:
        context = self._context
        live = pa.concat_tables(waiting.tables).combine_chunks()
        test = FileMetricsEvaluator(ManifestColumns(live), context.bound, context.specs[spec_id], context.schema)
        may, by_partition = _tested(test) if not context.is_unfiltered else (np.ones(live.num_rows, bool), np.zeros(live.num_rows, bool))
        residuals, residual_index = test.residuals(may)
        entries = live if may.all() else live.filter(mask_array(may)).combine_chunks()
        matches = self._deletes.match(entries, spec_id)
        kept_statistics = set(every_statistic(context.primitive_ids)) if context.include_statistics else set()
        entries = entries.drop_columns([statistic_column(*statistic) for statistic in self._statistics_of_spec[spec_id] - kept_statistics])
        spec_ids = numbers_array(np.full(entries.num_rows, spec_id, dtype=np.int32), pa.int32())
        files = PlannedFiles(
            entries=entries.append_column("spec_id", spec_ids),
            spec_id=spec_id,
            partition_type=context.partition_types[spec_id],
            residuals=residuals,
            residual_index=residual_index,
            covered=test.must_match[may] if context.find_covered else None,
            statistics=context.primitive_ids if context.include_statistics else (),
            delete_offsets=None if matches is None else matches.offsets,
            delete_indices=None if matches is None else matches.indices,
        )
        return PlannedBatch(
            files=files,
            kept=_count(live, may),
            skipped_by_partition=waiting.skipped_by_partition + _count(live, by_partition),
            skipped_by_metrics=waiting.skipped_by_metrics + _count(live, ~may & ~by_partition),
            decisions=self._decisions(live, test, may, spec_id, waiting) if context.explain else {},
        )

    def _decisions(
        self, live: Any, test: FileMetricsEvaluator, may: Mask, spec_id: int, waiting: _Pending
    ) -> Mapping[int, Sequence[Decision]]:
        decisions: dict[int, list[Decision]] = defaultdict(list)
        rows = zip(
            np.concatenate(waiting.places).tolist(),
            live["file_path"].to_pylist(),
            live["file_size_in_bytes"].to_pylist(),
            live["record_count"].to_pylist(),
            partition_tuples(live, self._context.partition_types[spec_id]),
            strict=True,
        )
        for index, (place, path, size, records, partition) in enumerate(rows):
            reason, explanation = (Reason.NO_FILTER, "") if self._context.is_unfiltered else test.explain(index)
            decisions[place].append(
                Decision(
                    level="file",
                    path=path,
                    kept=bool(may[index]),
                    reason=reason,
                    explanation=explanation,
                    bytes=size,
                    records=records,
                    partition=self._context.partition_text(spec_id, partition),
                )
            )
        return decisions


def _groups(manifests: Sequence[ManifestFile]) -> list[list[tuple[int, ManifestFile]]]:
    """Group manifests, each with its place, for one read call per group, so that small manifests do not cost one call each.

    A group has one partition spec. Each spec with at least `_GROUPS` manifests has at least so many groups, so that they can be read in parallel.
    """
    by_spec: dict[int, list[tuple[int, ManifestFile]]] = {}
    for place, manifest in enumerate(manifests):
        by_spec.setdefault(manifest.partition_spec_id, []).append((place, manifest))
    groups: list[list[tuple[int, ManifestFile]]] = []
    for members in by_spec.values():
        most = max(len(members) // _GROUPS, 1)
        group: list[tuple[int, ManifestFile]] = []
        size = 0
        for place, manifest in members:
            if group and (len(group) >= most or size + manifest.manifest_length > _GROUP_BYTES):
                groups.append(group)
                group, size = [], 0
            group.append((place, manifest))
            size += manifest.manifest_length
        groups.append(group)
    return sorted(groups, key=lambda group: group[0][0])


def _tested(test: FileMetricsEvaluator) -> tuple[Mask, Mask]:
    """Return masks of the files that may have a matching row, and of the files that their partition value alone rules out."""
    may = test.may_match
    return may, np.zeros(len(may), dtype=bool) if may.all() else ~may & ~test.partition_may_match


def _count(live: Any, mask: Mask) -> FileCounts:
    sizes, records = numpy_of(live["file_size_in_bytes"]), numpy_of(live["record_count"])
    return FileCounts(files=int(mask.sum()), bytes=int(sizes[mask].sum()), records=int(records[mask].sum()))
