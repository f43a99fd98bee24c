"""The data files of manifests that were not skipped: read side by side, tested in batches over many manifests, matched with their delete files.

A test costs the same for one file as for thousands, so that small manifests are tested together. Spec: Scan Planning.
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

# A batch is tested when it has this many files; the entries of no more need to be in memory.
BATCH_FILES = 2**15
# Manifests are read together up to so many bytes, and in so many groups at least. Larger groups are no faster, and leave more freed memory behind.
_GROUP_BYTES = 2**21
_GROUPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """Files of one partition spec that were tested together. `decisions` are by the place of the manifest among those that were read."""

    files: PlannedFiles
    kept: FileCounts
    skipped_by_partition: FileCounts
    skipped_by_metrics: FileCounts
    decisions: Mapping[int, Sequence[Decision]]


class _ReadFiles(NamedTuple):
    """Live entries of some manifests that were read together, and how many were left out by the test already."""

    live: LiveEntries
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES


@dataclass(frozen=True)
class ManifestReader:
    """Reads manifests of one partition spec; where it `prunes`, entries that cannot match are left out at once.

    It may be pickled, to read in another process; then `read` must be fit for that too.
    """

    question: ScanContext
    read: Read
    wanted: Mapping[int, set[Statistic]]
    prunes: bool

    def __call__(self, manifests: Sequence[ManifestFile]) -> _ReadFiles:
        spec_id = manifests[0].partition_spec_id
        live = self.question.live_entries(manifests, self.read, self.wanted[spec_id])
        if not self.prunes or self.question.is_unfiltered:
            return _ReadFiles(live)
        test = FileMetricsEvaluator(ManifestColumns(live.entries), self.question.bound, self.question.specs[spec_id], self.question.schema)
        may, by_partition = _tested(test)
        kept = LiveEntries(live.entries.filter(mask_array(may)).combine_chunks(), live.places[may])
        return _ReadFiles(kept, _count(live.entries, by_partition), _count(live.entries, ~may & ~by_partition))


@dataclass(slots=True)
class _Pending:
    """Entries that wait for their test, the place of the manifest each of them is from, and what was left out of them before."""

    tables: list[Any] = field(default_factory=list)
    places: list[NDArray[np.int64]] = field(default_factory=list)
    files: int = 0
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES


class ManifestGroup:
    """Reads and tests data manifests. Reading many side by side shares nothing that changes."""

    def __init__(self, question: ScanContext, deletes: DeleteFileIndex, read: Read, *, prune_in_parallel: bool = False) -> None:
        self._question = question
        self._deletes = deletes
        self._wanted = {spec_id: self._statistics(spec_id) for spec_id in question.specs}
        # Decisions are told of every file, so that none may be left out before.
        self._reader = ManifestReader(question, read, self._wanted, prune_in_parallel and not question.explain)

    def plan(self, manifests: Sequence[ManifestFile], parallel: Parallel) -> Iterator[PlannedBatch]:
        """The files of these manifests that may match, in the order of the manifests but for those of other partition specs between them."""
        pending: dict[int, _Pending] = {}
        groups = _groups(manifests)
        found: Iterable[_ReadFiles] = parallel(self._reader, ([manifest for _, manifest in group] for group in groups))
        for group, (live, by_partition, by_metrics) in zip(groups, found, strict=True):
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
        question = self._question
        compared = ordered_statistics(self._deletes.compared_columns(spec_id))
        if question.include_statistics:
            return set(every_statistic(question.primitive_ids) | compared)
        strict = question.find_covered or question.explain
        return required_statistics(question.bound, question.specs[spec_id], question.schema, strict=strict) | compared

    def _batch(self, spec_id: int, waiting: _Pending) -> PlannedBatch:
        question = self._question
        live = pa.concat_tables(waiting.tables).combine_chunks()
        test = FileMetricsEvaluator(ManifestColumns(live), question.bound, question.specs[spec_id], question.schema)
        may, by_partition = _tested(test) if not question.is_unfiltered else (np.ones(live.num_rows, bool), np.zeros(live.num_rows, bool))
        residuals, residual_index = test.residuals(may)
        entries = live if may.all() else live.filter(mask_array(may)).combine_chunks()
        matches = self._deletes.match(entries, spec_id)
        kept_statistics = set(every_statistic(question.primitive_ids)) if question.include_statistics else set()
        entries = entries.drop_columns([statistic_column(*statistic) for statistic in self._wanted[spec_id] - kept_statistics])
        spec_ids = numbers_array(np.full(entries.num_rows, spec_id, dtype=np.int32), pa.int32())
        files = PlannedFiles(
            entries=entries.append_column("spec_id", spec_ids),
            spec_id=spec_id,
            partition_type=question.partition_types[spec_id],
            residuals=residuals,
            residual_index=residual_index,
            covered=test.must_match[may] if question.find_covered else None,
            statistics=question.primitive_ids if question.include_statistics else (),
            delete_offsets=None if matches is None else matches.offsets,
            delete_indices=None if matches is None else matches.indices,
        )
        return PlannedBatch(
            files=files,
            kept=_count(live, may),
            skipped_by_partition=waiting.skipped_by_partition + _count(live, by_partition),
            skipped_by_metrics=waiting.skipped_by_metrics + _count(live, ~may & ~by_partition),
            decisions=self._decisions(live, test, may, spec_id, waiting) if question.explain else {},
        )

    def _decisions(
        self, live: Any, test: FileMetricsEvaluator, may: Mask, spec_id: int, waiting: _Pending
    ) -> Mapping[int, Sequence[Decision]]:
        found: dict[int, list[Decision]] = defaultdict(list)
        rows = zip(
            np.concatenate(waiting.places).tolist(),
            live["file_path"].to_pylist(),
            live["file_size_in_bytes"].to_pylist(),
            live["record_count"].to_pylist(),
            partition_tuples(live, self._question.partition_types[spec_id]),
            strict=True,
        )
        for index, (place, path, size, records, partition) in enumerate(rows):
            reason, explanation = (Reason.NO_FILTER, "") if self._question.is_unfiltered else test.explain(index)
            found[place].append(
                Decision(
                    level="file",
                    path=path,
                    kept=bool(may[index]),
                    reason=reason,
                    explanation=explanation,
                    bytes=size,
                    records=records,
                    partition=self._question.partition_text(spec_id, partition),
                )
            )
        return found


def _groups(manifests: Sequence[ManifestFile]) -> list[list[tuple[int, ManifestFile]]]:
    """Manifests, each with its place, that are read together: many small ones, so that there is one of few entries as there is one of many.

    They are of one partition spec, and there are at least `_GROUPS` of each where it has as many manifests, so that they can be read side by side.
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
    """Where a row may match, and where the partition value alone says that none does."""
    may = test.may_match
    return may, np.zeros(len(may), dtype=bool) if may.all() else ~may & ~test.partition_may_match


def _count(live: Any, mask: Mask) -> FileCounts:
    sizes, records = numpy_of(live["file_size_in_bytes"]), numpy_of(live["record_count"])
    return FileCounts(files=int(mask.sum()), bytes=int(sizes[mask].sum()), records=int(records[mask].sum()))
