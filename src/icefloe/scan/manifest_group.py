"""`ManifestGroup`: the data manifests of a scan, read in parallel, and their files tested in batches.

A test costs about the same for one file as for thousands. So one call reads several small manifests, and their files are tested together. Parallel calls share
no mutable state, and can be sent to other processes. `scan_planner.py` chooses the manifests. Spec: Scan Planning.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.scan.decisions import DecidedFiles, PlacedFiles, Reason, explained_columns
from icefloe.scan.live_deletes import LiveDeletes
from icefloe.scan.pruning import FileMetricsEvaluator, ScanContext, explain, required_statistics
from icefloe.scan.scan_plan import NO_FILES, SLICE_ROWS, FileCounts, PlannedFiles
from icefloe.spec.arrow_values import mask_array, numbers_array, numpy_of
from icefloe.spec.expressions.bind import filter_field_ids
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.manifest.manifest_columns import ManifestColumns, Statistic, every_statistic, ordered_statistics, statistic_column
from icefloe.spec.manifest.manifest_reader import LiveEntries, ManifestColumnsCache, read_live_entries
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.ports import Parallel, Read

# The number of files from which on a batch is tested, which limits the entries in memory, and a group of manifests that one call reads is closed. Both are the
# same number, because a batch of a single group need not be copied.
BATCH_FILES = 2**14
# The greatest length in bytes of the manifests of a group, and the least number of groups that are read in parallel.
_GROUP_BYTES = 2**25
_GROUPS = 8
# The greatest length of a group if all manifests are in the cache.
_DECODED_GROUP_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """Files of one partition spec that were tested together.

    Attributes:
        files: The files that may have matching rows.
        kept: Totals of these files.
        skipped_by_partition: Totals of the files that their partition value rules out.
        skipped_by_metrics: Totals of the files that column statistics rule out.
        decided: The decisions about all files of the batch; None unless the scan explains.
    """

    files: PlannedFiles
    kept: FileCounts
    skipped_by_partition: FileCounts
    skipped_by_metrics: FileCounts
    decided: PlacedFiles | None


class _ReadFiles(NamedTuple):
    """The live entries of manifests that were read in one call, without the files that the reader has pruned, and counts of the pruned files."""

    live: LiveEntries
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES


@dataclass(frozen=True)
class ManifestReader:
    """A function that reads the live entries of manifests. If `prunes` is True, it leaves out the files that cannot match the filter.

    If `read` can be pickled, this object can be pickled, so that another process can read.
    """

    context: ScanContext
    read: Read
    statistics: Mapping[int, set[Statistic]]  # the statistics to decode, by spec id
    prunes: bool
    cache: ManifestColumnsCache | None = None

    def __call__(self, manifests: Sequence[ManifestFile]) -> _ReadFiles:
        """Read the live entries of some manifests of one partition spec."""
        spec_id = manifests[0].partition_spec_id
        context = self.context
        live = read_live_entries(
            manifests,
            self.read,
            context.partition_types[spec_id],
            statistics=self.statistics[spec_id],
            added_in=context.added_in,
            cache=self.cache,
            tolerance=context.tolerance,
        )
        if not self.prunes or context.is_unfiltered:
            return _ReadFiles(live)
        test = FileMetricsEvaluator(ManifestColumns(live.entries), context.bound, context.specs[spec_id], context.schema)
        may, by_partition = _file_masks(test)
        matching = LiveEntries(live.entries.filter(mask_array(may)).combine_chunks(), live.places[may])
        return _ReadFiles(matching, _count(live.entries, by_partition), _count(live.entries, ~may & ~by_partition))


@dataclass(slots=True)
class _Pending:
    """Entries of one partition spec that were read and not tested yet.

    Attributes:
        tables: The entries, one table for each call of the reader.
        places: For each table an array with the position of the manifest of each entry.
        files: The number of entries.
        skipped_by_partition: Counts of files that the reader pruned by partition.
        skipped_by_metrics: Counts of files that the reader pruned by column statistics.
    """

    tables: list[Any] = field(default_factory=list)
    places: list[NDArray[np.int64]] = field(default_factory=list)
    files: int = 0
    skipped_by_partition: FileCounts = NO_FILES
    skipped_by_metrics: FileCounts = NO_FILES


class ManifestGroup:
    """A planner of the files in the data manifests of a scan. It reads the manifests in parallel, and tests their files in batches.

    Args:
        context: The scan.
        deletes: The delete files that may apply; None if there are none.
        read: Returns the content of a file.
        prune_in_parallel: Whether the parallel readers test the entries, before they send them back.
        cache: A cache of decoded manifests; None decodes all of them.
    """

    def __init__(
        self,
        context: ScanContext,
        deletes: LiveDeletes | None,
        read: Read,
        *,
        prune_in_parallel: bool = False,
        cache: ManifestColumnsCache | None = None,
    ) -> None:
        self._context = context
        self._index = None if deletes is None else deletes.index
        self._statistics_of_spec = {spec_id: self._statistics(spec_id) for spec_id in context.specs}
        # An explained plan has a decision for every file, so the readers must not leave out any file.
        self._reader = ManifestReader(context, read, self._statistics_of_spec, prune_in_parallel and not context.explain, cache)

    def plan(self, manifests: Sequence[ManifestFile], parallel: Parallel, *, serial_bytes: int = 0) -> Iterator[PlannedBatch]:
        """Yield batches of the files that may match, with their delete files.

        Args:
            manifests: Data manifests. The files of one partition spec keep the order of the manifests.
            parallel: Reads several groups of manifests at once.
            serial_bytes: If the manifests that must be decoded have at most this length in bytes, they are read one after the other, without `parallel`.

        Raises:
            AvroFormatError: A manifest is damaged.
            ManifestFormatError: An entry breaks a rule of the format.
        """
        pending: dict[int, _Pending] = {}
        undecoded = undecoded_length(self._context, manifests, self._reader.cache, self._statistics_of_spec.__getitem__)
        in_use = map if undecoded <= serial_bytes else parallel
        groups = _groups(manifests, 1 if in_use is map else _GROUPS, _GROUP_BYTES if undecoded else _DECODED_GROUP_BYTES)
        results: Iterable[_ReadFiles] = in_use(self._reader, ([manifest for _, manifest in group] for group in groups))
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
        compared = set() if self._index is None else ordered_statistics(self._index.compared_columns(spec_id))
        if context.include_statistics:
            return set(every_statistic(context.primitive_ids) | compared)
        return self._tested_statistics(spec_id) | compared | every_statistic(context.statistics_of)

    def _tested_statistics(self, spec_id: int) -> set[Statistic]:
        context = self._context
        strict = context.find_covered or context.explain
        return required_statistics(context.bound, context.specs[spec_id], context.schema, strict=strict)

    def _explaining_statistics(self, spec_id: int) -> set[Statistic]:
        """Return all decoded statistics of the filter's columns, which explanations quote."""
        tested = filter_field_ids(self._context.bound)
        return {statistic for statistic in self._statistics_of_spec[spec_id] if statistic[1] in tested}

    def _kept_statistics(self, spec_id: int) -> set[Statistic]:
        """Return the statistics that stay in the planned files as columns, because the scan was requested to include them."""
        if self._context.include_statistics:
            return set(every_statistic(self._context.primitive_ids))
        tested = self._tested_statistics(spec_id) if self._context.include_tested else set()
        return tested | every_statistic(self._context.statistics_of)

    def _batch(self, spec_id: int, waiting: _Pending) -> PlannedBatch:
        context = self._context
        live = pa.concat_tables(waiting.tables)
        test = FileMetricsEvaluator(ManifestColumns(live), context.bound, context.specs[spec_id], context.schema)
        may, by_partition = (
            _file_masks(test) if not context.is_unfiltered else (np.ones(live.num_rows, bool), np.zeros(live.num_rows, bool))
        )
        residuals, residual_index = test.residuals(may)
        # Chunks are combined after the filtering, because it often removes most files, and only few columns were needed for the test.
        entries = _of_long_chunks(live if may.all() else live.filter(mask_array(may)))
        matches = None if self._index is None else self._index.match(entries, spec_id)
        dropped = self._statistics_of_spec[spec_id] - self._kept_statistics(spec_id)
        entries = entries.drop_columns([statistic_column(*statistic) for statistic in dropped])
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
            decided=self._decide(live, may, spec_id, waiting) if context.explain else None,
        )

    def _decide(self, live: Any, may: Mask, spec_id: int, waiting: _Pending) -> PlacedFiles:
        """Return the decisions about the files of a batch."""
        context = self._context
        decided = DecidedFiles(
            level="file",
            files=explained_columns(live, context.partition_types[spec_id], self._explaining_statistics(spec_id)),
            kept=may,
            explained=partial(_explain_files, context, spec_id),
            partitions=partial(context.partition_texts, spec_id),
        )
        return PlacedFiles(decided, np.concatenate(waiting.places))


def _explain_files(context: ScanContext, spec_id: int, files: Any, _rows: NDArray[np.int64]) -> Iterable[tuple[Reason, str]]:
    """Return for each file the reason why it is read or skipped, and the bound that decided."""
    if context.is_unfiltered:
        return repeat((Reason.NO_FILTER, ""), files.num_rows)
    return explain(ManifestColumns(files), context.bound, context.specs[spec_id], context.schema)


def undecoded_length(
    context: ScanContext,
    manifests: Sequence[ManifestFile],
    cache: ManifestColumnsCache | None,
    statistics: Callable[[int], Collection[Statistic]],
) -> int:
    """Return the total length in bytes of the manifests that are not in the cache with the statistics that the scan needs."""
    if cache is None:
        return sum(manifest.manifest_length for manifest in manifests)
    by_spec: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        by_spec.setdefault(manifest.partition_spec_id, []).append(manifest)
    return sum(
        cache.undecoded_length(members, context.partition_types[spec_id], frozenset(statistics(spec_id)))
        for spec_id, members in by_spec.items()
    )


def _groups(manifests: Sequence[ManifestFile], least: int, most_bytes: int) -> list[list[tuple[int, ManifestFile]]]:
    """Group manifests, each with its position, so that one call reads the small manifests of a group.

    The manifests of a group have the same partition spec and at most `most_bytes` in total; a longer manifest is a group of its own. A group is closed once it
    has `BATCH_FILES` files. A spec with at least `least` manifests gets at least `least` groups, which can be read in parallel.
    """
    by_spec: dict[int, list[tuple[int, ManifestFile]]] = {}
    for place, manifest in enumerate(manifests):
        by_spec.setdefault(manifest.partition_spec_id, []).append((place, manifest))
    groups: list[list[tuple[int, ManifestFile]]] = []
    for members in by_spec.values():
        most = max(len(members) // least, 1)
        group: list[tuple[int, ManifestFile]] = []
        size = files = 0
        for place, manifest in members:
            if group and (len(group) >= most or files >= BATCH_FILES or size + manifest.manifest_length > most_bytes):
                groups.append(group)
                group, size, files = [], 0, 0
            group.append((place, manifest))
            size += manifest.manifest_length
            files += manifest.live_files_count
        groups.append(group)
    return sorted(groups, key=lambda group: group[0][0])


def _of_long_chunks(entries: Any) -> Any:
    """Return the entries with their chunks combined if these are short. Long chunks are not combined: the copy would take longer than testing the files."""
    chunks = max(column.num_chunks for column in entries.columns)
    return entries if entries.num_rows >= chunks * SLICE_ROWS else entries.combine_chunks()


def _file_masks(test: FileMetricsEvaluator) -> tuple[Mask, Mask]:
    """Return masks of the files that may have a matching row, and of the files that their partition value alone rules out."""
    may = test.may_match
    return may, np.zeros(len(may), dtype=bool) if may.all() else ~may & ~test.partition_may_match


def _count(live: Any, mask: Mask) -> FileCounts:
    sizes, records = numpy_of(live["file_size_in_bytes"]), numpy_of(live["record_count"])
    return FileCounts(files=int(mask.sum()), bytes=int(sizes[mask].sum()), records=int(records[mask].sum()))
