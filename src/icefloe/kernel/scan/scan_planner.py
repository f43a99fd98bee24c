"""`plan_scan`: plans a scan of a snapshot: the data files that may have matching rows, each with the delete files that apply to it.

    snapshot -> manifest list -> manifests whose partition summaries allow a match -> live delete files, indexed -> live data files whose partition values,
    bounds and counts allow a match, with their deletes -> `ScanPlan`, still as columns -> `FileScanTask`s on demand

`pruning.py` chooses the manifests, `live_deletes.py` reads the delete files, `ManifestGroup` reads the data files in parallel, `pruning.py` tests them,
`delete_file_index.py` matches deletes to them. A test costs the same for one file as for thousands, so that the files of small manifests are tested
together. The caller passes `read`, which is called once for each file, so that this package needs no storage. Spec: Scan Planning.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import mask_array, numbers_array, numpy_of
from icefloe.kernel.expressions.bind import bind, predicates
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest.manifest_columns import ManifestColumns, Statistic, every_statistic, ordered_statistics, statistic_column
from icefloe.kernel.manifest.manifest_reader import LiveEntries, ManifestColumnsCache, read_live_entries
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.ports import Parallel, Read
from icefloe.kernel.scan.decision import Decision, Reason
from icefloe.kernel.scan.delete_file_index import PATH_BOUNDS
from icefloe.kernel.scan.file_objects import LazyFiles, partition_tuples
from icefloe.kernel.scan.live_deletes import LiveDeletes, delete_decisions, read_deletes
from icefloe.kernel.scan.pruning import FileMetricsEvaluator, ScanContext, explain_manifests, manifest_mask, required_statistics
from icefloe.kernel.scan.scan_plan import NO_FILES, FileCounts, PlannedFiles, ScanPlan
from icefloe.kernel.schema.schema import Schema

# Files of a batch, and of a group of manifests that one call reads: a batch of one group is not copied. It is tested as soon as it has so many files, which
# limits the entries in memory.
BATCH_FILES = 2**14
# Bytes of such a group, and the least number of groups that are read in parallel.
_GROUP_BYTES = 2**25
_GROUPS = 8
# The same where all of them are in the cache.
_DECODED_GROUP_BYTES = 2**24


def plan_scan(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    row_filter: BooleanExpression,
    read: Read,
    *,
    case_sensitive: bool = True,
    parallel: Parallel = map,
    serial_bytes: int = 0,
    prune_in_parallel: bool = False,
    explain: bool = False,
    include_statistics: bool = False,
    find_covered: bool = False,
    include_tested: bool = False,
    every_delete: bool = False,
    schema: Schema | None = None,
    appends: Sequence[Snapshot] | None = None,
    cache: ManifestColumnsCache | None = None,
    enough_rows: int | None = None,
) -> ScanPlan:
    """Plan a scan: find the live data files that may have rows matching the filter, and the delete files that apply to them. Spec: Scan Planning.

    Args:
        metadata: The metadata of the table.
        snapshot: The snapshot to read; None gives an empty plan.
        row_filter: The filter, not bound yet.
        read: Returns the content of the file at a location.
        case_sensitive: Whether names in the filter must match the case of column names.
        parallel: Reads several manifests at once.
        serial_bytes: The length of all manifests to decode up to which they are read one after the other, without `parallel`.
        prune_in_parallel: Test files in the parallel readers, before their results are sent back.
        explain: Give every manifest and file its `Decision`.
        include_statistics: Put column statistics into the files of the tasks.
        find_covered: Find the files of which every row matches (then every live row matches too).
        include_tested: Keep the statistics by which the filter was tested as columns of the planned files.
        every_delete: Keep delete files that delete no matching row; copying the rows that do not match needs them.
        schema: The schema that the filter is bound to; by default the table's for its current snapshot, and the snapshot's own for an older one.
        appends: Read only the files that these snapshots added, as they were added: no delete file applies to them, and later snapshots are ignored.
        cache: Has decoded manifests, and keeps those that are decoded now; None where other processes read them.
        enough_rows: Read no more data manifests once the planned files without deletes have so many rows; the files of the other
            manifests are in no part and no count of the plan.

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
        include_tested=include_tested,
        every_delete=every_delete,
        added_in=None if appends is None else frozenset(append.snapshot_id for append in appends),
    )
    manifests = read_manifests(snapshot, read) if appends is None else _added_manifests(appends, read)
    choice = _ManifestChoice(manifests, context)
    return _plan(
        choice, snapshot, read, parallel, serial_bytes=serial_bytes, prunes=prune_in_parallel, cache=cache, enough_rows=enough_rows
    )


def _plan(
    choice: "_ManifestChoice",
    snapshot: Snapshot,
    read: Read,
    parallel: Parallel,
    *,
    serial_bytes: int,
    prunes: bool,
    cache: ManifestColumnsCache | None,
    enough_rows: int | None,
) -> ScanPlan:
    """Plan the files of the chosen manifests."""
    context = choice.context
    deletes = None
    if choice.kept_deletes:
        undecoded = _undecoded_length(context, choice.kept_deletes, cache, lambda _: PATH_BOUNDS)
        deletes = read_deletes(context, choice.kept_deletes, read, map if undecoded <= serial_bytes else parallel, cache)
        serial_bytes = max(serial_bytes - undecoded, 0)
    group = ManifestGroup(context, deletes, read, prune_in_parallel=prunes, cache=cache)
    planned = partial(group.plan, parallel=parallel, serial_bytes=serial_bytes)
    batches = list(planned(choice.kept_data) if enough_rows is None else _first_batches(planned, choice.kept_data, enough_rows))
    parts, delete_files, counts = _with_deletes([batch.files for batch in batches if len(batch.files)], deletes)
    return ScanPlan(
        snapshot_id=snapshot.snapshot_id,
        schema=context.schema,
        row_filter=context.bound,
        parts=parts,
        **choice.totals(),
        kept=sum((batch.kept for batch in batches), NO_FILES),
        skipped_by_partition=sum((batch.skipped_by_partition for batch in batches), NO_FILES),
        skipped_by_metrics=sum((batch.skipped_by_metrics for batch in batches), NO_FILES),
        delete_files=delete_files,
        delete_files_considered=0 if deletes is None else deletes.total,
        decisions=tuple(choice.decisions(batches, deletes, counts)) if context.explain else (),
    )


def _first_batches(
    plan: Callable[[Sequence[ManifestFile]], Iterator["PlannedBatch"]], manifests: Sequence[ManifestFile], enough_rows: int
) -> Iterator["PlannedBatch"]:
    """Yield batches of the files of one manifest, then of twice as many each time, until the files without deletes have enough rows."""
    rows, start, count = 0, 0, 1
    while start < len(manifests) and rows < enough_rows:
        for batch in plan(manifests[start : start + count]):
            rows += int(batch.files.certain_rows.sum())
            yield batch
        start, count = start + count, count * 2


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
        self.context = context
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

    @property
    def length(self) -> int:
        """The length of the manifests to read."""
        return sum(manifest.manifest_length for manifest in (*self.kept_data, *self.kept_deletes))

    def totals(self) -> dict[str, int]:
        """Return the attributes of the plan that count manifests."""
        skipped = _chosen(self._all, ~self._kept)
        skipped_data = [manifest for manifest in skipped if manifest.content is ManifestContent.DATA]
        return {
            "manifests_total": len(self._all),
            "manifests_skipped": len(skipped),
            "delete_manifests_total": sum(manifest.content is ManifestContent.DELETES for manifest in self._all),
            "delete_manifests_skipped": len(skipped) - len(skipped_data),
            "manifest_bytes_read": self.length,
            "manifest_bytes_skipped": sum(manifest.manifest_length for manifest in skipped),
            "files_in_skipped_manifests": sum(manifest.live_files_count for manifest in skipped_data),
            "records_in_skipped_manifests": sum(manifest.live_rows_count for manifest in skipped_data),
        }

    def decisions(self, batches: Sequence["PlannedBatch"], deletes: LiveDeletes | None, counts: NDArray[np.int64]) -> Iterator[Decision]:
        """Yield the decision for every manifest in list order; the files of a manifest that was read follow it."""
        context = self.context
        explanations = explain_manifests(self._all, context.bound, context.specs, context.schema)
        of_data = {place: decisions for batch in batches for place, decisions in batch.decisions.items()}
        of_deletes = {} if deletes is None else delete_decisions(context, deletes, counts)
        places = {ManifestContent.DATA: iter(range(len(self._all))), ManifestContent.DELETES: iter(range(len(self._all)))}
        for manifest, keep, older, explanation in zip(self._all, self._kept.tolist(), self._older.tolist(), explanations, strict=True):
            yield _manifest_decision(context, manifest, keep, explanation, Reason.OLDER if older else None)
            if keep:
                place = next(places[manifest.content])
                yield from (of_data if manifest.content is ManifestContent.DATA else of_deletes).get(place, ())


def _manifest_decision(context: ScanContext, manifest: ManifestFile, keep: bool, explanation: str, skipped: Reason | None) -> Decision:
    """Return the decision for a manifest.

    Args:
        context: The scan.
        manifest: The manifest.
        keep: Whether the scan reads it.
        explanation: The partition bound that ruled it out.
        skipped: The reason why it is not read, if that is not its partition summary.
    """
    if not manifest.has_live_files:
        reason, explanation = Reason.NO_LIVE_FILES, ""
    elif keep:
        reason = Reason.NO_FILTER if context.is_unfiltered else Reason.MAY_MATCH
    elif skipped is not None:
        reason, explanation = skipped, ""
    else:
        reason = Reason.BY_PARTITION if any(predicates(context.bound)) else Reason.NEVER_TRUE
    return Decision(
        level="manifest" if manifest.content is ManifestContent.DATA else "delete manifest",
        path=manifest.manifest_path,
        kept=keep,
        reason=reason,
        explanation=explanation,
        bytes=manifest.manifest_length,
        records=manifest.live_rows_count,
    )


def _chosen(manifests: Sequence[ManifestFile], mask: Mask) -> list[ManifestFile]:
    return [manifest for manifest, keep in zip(manifests, mask.tolist(), strict=True) if keep]


def _with_deletes(
    parts: Sequence[PlannedFiles], deletes: LiveDeletes | None
) -> tuple[tuple[PlannedFiles, ...], Sequence[DataFile], NDArray[np.int64]]:
    """Return the parts with their delete files renumbered, those delete files, and how many data files each delete file of the index applies to."""
    counts = np.zeros(0 if deletes is None else len(deletes.index), dtype=np.int64)
    for part in parts:
        if part.delete_indices is not None:
            counts += np.bincount(part.delete_indices, minlength=len(counts))
    used = np.flatnonzero(counts)
    if deletes is None or not len(used):
        return tuple(parts), (), counts
    files = LazyFiles(len(used), partial(deletes.files, used))
    return tuple(part.with_delete_files(used, files) for part in parts), files, counts


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
        )
        if not self.prunes or context.is_unfiltered:
            return _ReadFiles(live)
        test = FileMetricsEvaluator(ManifestColumns(live.entries), context.bound, context.specs[spec_id], context.schema)
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
        deletes: The delete files that may apply; None without any.
        read: Returns the content of a file.
        prune_in_parallel: Test entries in the parallel readers, before their results are sent back.
        cache: Has decoded manifests.
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
        # An explanation has a decision for every file, so that the readers must not leave any out.
        self._reader = ManifestReader(context, read, self._statistics_of_spec, prune_in_parallel and not context.explain, cache)

    def plan(self, manifests: Sequence[ManifestFile], parallel: Parallel, *, serial_bytes: int = 0) -> Iterator[PlannedBatch]:
        """Yield batches of the files that may match, with their delete files.

        Args:
            manifests: Data manifests. The files of one partition spec keep the order of the manifests.
            parallel: Reads several groups of manifests at once.
            serial_bytes: The length of the manifests to decode up to which `parallel` is not used.

        Raises:
            AvroFormatError: A manifest is damaged.
            ManifestFormatError: An entry breaks a rule of the format.
        """
        pending: dict[int, _Pending] = {}
        undecoded = _undecoded_length(self._context, manifests, self._reader.cache, self._statistics_of_spec.__getitem__)
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
        return self._tested_statistics(spec_id) | compared

    def _tested_statistics(self, spec_id: int) -> set[Statistic]:
        context = self._context
        strict = context.find_covered or context.explain
        return required_statistics(context.bound, context.specs[spec_id], context.schema, strict=strict)

    def _kept_statistics(self, spec_id: int) -> set[Statistic]:
        """Return the statistics that the planned files have as columns."""
        if self._context.include_statistics:
            return set(every_statistic(self._context.primitive_ids))
        return self._tested_statistics(spec_id) if self._context.include_tested else set()

    def _batch(self, spec_id: int, waiting: _Pending) -> PlannedBatch:
        context = self._context
        live = pa.concat_tables(waiting.tables)
        test = FileMetricsEvaluator(ManifestColumns(live), context.bound, context.specs[spec_id], context.schema)
        may, by_partition = _tested(test) if not context.is_unfiltered else (np.ones(live.num_rows, bool), np.zeros(live.num_rows, bool))
        residuals, residual_index = test.residuals(may)
        # Chunks are combined after the filter: most files are dropped here, and only a few columns are tested.
        entries = (live if may.all() else live.filter(mask_array(may))).combine_chunks()
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


def _undecoded_length(
    context: ScanContext,
    manifests: Sequence[ManifestFile],
    cache: ManifestColumnsCache | None,
    statistics: Callable[[int], Collection[Statistic]],
) -> int:
    """Return the length of the manifests that no cache has with the statistics of their partition spec."""
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
    """Group manifests, each with its place, for one read call per group, so that small manifests do not cost one call each.

    A group has one partition spec, and at most `most_bytes` unless it is a single manifest; it ends with the manifest that completes `BATCH_FILES` files. Each
    spec with at least `least` manifests has at least so many groups, so that they can be read in parallel.
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


def _tested(test: FileMetricsEvaluator) -> tuple[Mask, Mask]:
    """Return masks of the files that may have a matching row, and of the files that their partition value alone rules out."""
    may = test.may_match
    return may, np.zeros(len(may), dtype=bool) if may.all() else ~may & ~test.partition_may_match


def _count(live: Any, mask: Mask) -> FileCounts:
    sizes, records = numpy_of(live["file_size_in_bytes"]), numpy_of(live["record_count"])
    return FileCounts(files=int(mask.sum()), bytes=int(sizes[mask].sum()), records=int(records[mask].sum()))
