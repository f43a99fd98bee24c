"""`plan_scan`: finds the data files of a snapshot that may have matching rows, and the delete files that apply to each.

    snapshot -> manifest list -> manifests whose partition summaries allow a match -> live delete files, indexed -> live data files whose partition values,
    bounds and counts allow a match, with their deletes -> `ScanPlan`, still as columns -> `FileScanTask`s on demand

`pruning.py` chooses the manifests, `live_deletes.py` reads the delete files, `manifest_group.py` reads the data files in parallel, `pruning.py` tests them,
`delete_file_index.py` matches deletes to them. The caller passes the function `read`, which is called once for each metadata file, so that this package does
not depend on a storage.
Spec: Scan Planning.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icefloe.scan.decisions import NO_DECISIONS, Decision, DecisionList, Decisions, DecisionSource, Reason
from icefloe.scan.delete_file_index import PATH_BOUNDS
from icefloe.scan.file_objects import LazyFiles
from icefloe.scan.live_deletes import LiveDeletes, delete_decisions, read_deletes
from icefloe.scan.manifest_group import ManifestGroup, PlannedBatch, undecoded_length
from icefloe.scan.pruning import ScanContext, explain_manifests, manifest_mask
from icefloe.scan.scan_plan import NO_FILES, PlannedFiles, ScanPlan
from icefloe.spec.expressions.bind import bind, predicates
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.manifest_reader import ManifestColumnsCache
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Parallel, Read
from icefloe.spec.schema.schema import Schema
from icefloe.spec.tolerance import Tolerance


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
    statistics_of: frozenset[int] = frozenset(),
    every_delete: bool = False,
    schema: Schema | None = None,
    appends: Sequence[Snapshot] | None = None,
    cache: ManifestColumnsCache | None = None,
    enough_rows: int | None = None,
    tolerance: Tolerance = Tolerance.DEFAULT,
) -> ScanPlan:
    """Plan a scan: find the live data files that may have rows matching the filter, and the delete files that apply to them. Spec: Scan Planning.

    Args:
        metadata: The metadata of the table.
        snapshot: The snapshot to read; None gives an empty plan.
        row_filter: The filter, not bound yet.
        read: Returns the content of the file at a location.
        case_sensitive: Whether names in the filter must match the case of column names.
        parallel: Reads several manifests at once.
        serial_bytes: If the manifests that must be decoded have at most this length in bytes, they are read one after the other, without `parallel`.
        prune_in_parallel: Whether the parallel readers test the files, before they send them back.
        explain: Whether the plan has a `Decision` for every manifest and file.
        include_statistics: Whether the files of the tasks have column statistics.
        find_covered: Whether to find the files in which every row matches. All live rows of such a file match too.
        include_tested: Whether the planned files keep, as columns, the statistics that the filter was tested with.
        statistics_of: Field ids of further columns whose statistics the planned files keep, as columns.
        every_delete: Whether to keep delete files that delete no matching row. Callers that copy the rows that do not match need them.
        schema: The schema that the filter is bound to; by default the snapshot's, or the table's for the current snapshot and those without a schema id.
        appends: If not None, read only the files that these snapshots added, as they were added: no deletes apply, and later snapshots are ignored.
        cache: A cache of decoded manifests, to which the newly decoded ones are added; None if other processes read them.
        enough_rows: Stop reading data manifests once the planned files without deletes have this many rows. The plan lacks the files of the unread manifests.
        tolerance: Which deviations of manifest lists and manifests are accepted with a warning.

    Raises:
        InvalidFilterError: The filter does not fit the schema.
        AvroFormatError, ManifestFormatError: A manifest list or manifest is damaged, or entries violate the format or contradict each other.
    """
    scan_schema = schema or _schema(metadata, snapshot)
    context = ScanContext(
        metadata=metadata,
        schema=scan_schema,
        bound=bind(row_filter, scan_schema, case_sensitive),
        explain=explain,
        include_statistics=include_statistics,
        find_covered=find_covered,
        include_tested=include_tested,
        statistics_of=statistics_of,
        every_delete=every_delete,
        added_in=None if appends is None else frozenset(append.snapshot_id for append in appends),
        tolerance=tolerance,
    )
    if snapshot is None:
        return ScanPlan(snapshot_id=None, schema=scan_schema, row_filter=context.bound)
    manifests = read_manifests(snapshot, read, tolerance) if appends is None else _added_manifests(appends, read, tolerance)
    planned = partial(plan_manifests, serial_bytes=serial_bytes, prune_in_parallel=prune_in_parallel, cache=cache, enough_rows=enough_rows)
    return planned(context, manifests, snapshot.snapshot_id, read, parallel)


def plan_manifests(
    context: ScanContext,
    manifests: Sequence[ManifestFile],
    snapshot_id: int | None,
    read: Read,
    parallel: Parallel = map,
    *,
    serial_bytes: int = 0,
    prune_in_parallel: bool = False,
    cache: ManifestColumnsCache | None = None,
    enough_rows: int | None = None,
) -> ScanPlan:
    """Plan a scan of some manifests of a snapshot. The other arguments and the errors are those of `plan_scan`.

    Args:
        context: The scan.
        manifests: The manifests; delete manifests among them apply to the data files of the data manifests among them.
        snapshot_id: The snapshot; None for a table without snapshots.
        read: Returns the content of the file at a location.
        parallel: Reads several manifests at once.
        serial_bytes: As for `plan_scan`.
        prune_in_parallel: As for `plan_scan`.
        cache: As for `plan_scan`.
        enough_rows: As for `plan_scan`.
    """
    choice = _ManifestChoice(manifests, context)
    deletes = None
    if choice.kept_deletes:
        undecoded = undecoded_length(context, choice.kept_deletes, cache, lambda _: PATH_BOUNDS)
        deletes = read_deletes(context, choice.kept_deletes, read, map if undecoded <= serial_bytes else parallel, cache)
        serial_bytes = max(serial_bytes - undecoded, 0)
    group = ManifestGroup(context, deletes, read, prune_in_parallel=prune_in_parallel, cache=cache)
    planned = partial(group.plan, parallel=parallel, serial_bytes=serial_bytes)
    if enough_rows is None:
        batches = list(planned(choice.kept_data))
    else:
        batches, read_count = _first_batches(planned, choice.kept_data, enough_rows)
        choice.leave_unread(read_count)
    parts, delete_files, counts = with_used_deletes([batch.files for batch in batches if len(batch.files)], deletes)
    return ScanPlan(
        snapshot_id=snapshot_id,
        schema=context.schema,
        row_filter=context.bound,
        parts=parts,
        **choice.totals(),
        kept=sum((batch.kept for batch in batches), NO_FILES),
        skipped_by_partition=sum((batch.skipped_by_partition for batch in batches), NO_FILES),
        skipped_by_metrics=sum((batch.skipped_by_metrics for batch in batches), NO_FILES),
        delete_files=delete_files,
        delete_files_considered=0 if deletes is None else deletes.total,
        decisions=choice.decisions(batches, deletes, counts) if context.explain else NO_DECISIONS,
    )


def _first_batches(
    plan: Callable[[Sequence[ManifestFile]], Iterator[PlannedBatch]], manifests: Sequence[ManifestFile], enough_rows: int
) -> tuple[list[PlannedBatch], int]:
    """Plan one manifest, then two, four and so on, until their files without deletes have enough rows. Return the batches and the number of manifests read."""
    batches: list[PlannedBatch] = []
    rows, start, count = 0, 0, 1
    while start < len(manifests) and rows < enough_rows:
        for batch in plan(manifests[start : start + count]):
            rows += int(batch.files.certain_rows.sum())
            decided = batch.decided
            batches.append(batch if decided is None else replace(batch, decided=decided._replace(places=decided.places + start)))
        start, count = start + count, count * 2
    return batches, min(start, len(manifests))


def _added_manifests(snapshots: Sequence[Snapshot], read: Read, tolerance: Tolerance) -> list[ManifestFile]:
    """Return the data manifests that one of these snapshots wrote, each once."""
    ids = {snapshot.snapshot_id for snapshot in snapshots}
    manifests = (manifest for snapshot in snapshots for manifest in read_manifests(snapshot, read, tolerance))
    added = (manifest for manifest in manifests if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id in ids)
    return list({manifest.manifest_path: manifest for manifest in added}.values())


def _schema(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    if snapshot is None or snapshot.schema_id is None or snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata.schema()
    return metadata.schema_by_id(snapshot.schema_id)


class _ManifestChoice:
    """The choice of the manifests of a snapshot that a scan reads, by partition summaries and sequence numbers."""

    def __init__(self, manifests: Sequence[ManifestFile], context: ScanContext) -> None:
        self._all = manifests
        self.context = context
        is_data = np.array([manifest.content is ManifestContent.DATA for manifest in manifests], dtype=bool)
        # A tolerant scan does not rely on counts: it also reads delete manifests that have no live files according to the manifest list.
        trusts_counts = context.tolerance is Tolerance.DEFAULT
        live = np.array([not trusts_counts or manifest.has_live_files for manifest in manifests], dtype=bool)
        is_read = manifest_mask(manifests, context.bound, context.specs, context.schema) & live
        self.kept_data = _select_manifests(manifests, is_read & is_data)
        # Delete files do not apply to data files that are newer than their manifest.
        oldest = min((manifest.min_sequence_number for manifest in self.kept_data), default=None)
        newer = [oldest is not None and manifest.sequence_number >= oldest for manifest in manifests]
        self._older = is_read & ~is_data & ~np.array(newer, dtype=bool)
        self._kept = is_read & ~self._older
        self._is_data = is_data
        self.kept_deletes = _select_manifests(manifests, self._kept & ~is_data)
        self._unread = np.zeros(len(manifests), dtype=bool)

    def leave_unread(self, read_count: int) -> None:
        """Record that only the first data manifests to read were read."""
        unread = np.flatnonzero(self._kept & self._is_data)[read_count:]
        self.kept_data = self.kept_data[:read_count]
        self._unread[unread], self._kept[unread] = True, False

    @property
    def length(self) -> int:
        """The total length in bytes of the manifests to read."""
        return sum(manifest.manifest_length for manifest in (*self.kept_data, *self.kept_deletes))

    def totals(self) -> dict[str, Any]:
        """Return the values of the `ScanPlan` attributes that count manifests and their files, by attribute name."""
        skipped = _select_manifests(self._all, ~self._kept)
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

    def decisions(self, batches: Sequence[PlannedBatch], deletes: LiveDeletes | None, counts: NDArray[np.int64]) -> Decisions:
        """Return the decisions about all manifests, in the order of the manifest list. The decision about a manifest is followed by those about its files."""
        of_files = {
            ManifestContent.DATA: [batch.decided for batch in batches if batch.decided is not None],
            ManifestContent.DELETES: [] if deletes is None else list(delete_decisions(self.context, deletes, counts)),
        }
        sources: list[tuple[DecisionSource, NDArray[np.int64]]] = []
        explanations = explain_manifests(self._all, self.context.bound, self.context.specs, self.context.schema)
        for content, level in ((ManifestContent.DATA, "manifest"), (ManifestContent.DELETES, "delete manifest")):
            positions = np.array([position for position, manifest in enumerate(self._all) if manifest.content is content], dtype=np.int64)
            decisions = [self._decision(level, position, explanations[position]) for position in positions.tolist()]
            # Sort keys: a manifest has an even key, and its files have the odd key after it.
            sources.append((DecisionList(level=level, entries=decisions), positions * 2))
            read = positions[self._kept[positions]]
            sources += [(files, read[places] * 2 + 1) for files, places in of_files[content]]
        return Decisions.in_order(sources)

    def _decision(self, level: str, position: int, explanation: str) -> Decision:
        """Return the decision about the manifest at a position of the list; `explanation` is the partition bound that excludes it, or empty."""
        context, manifest, keep = self.context, self._all[position], bool(self._kept[position])
        if not keep and not manifest.has_live_files:
            reason, explanation = Reason.NO_LIVE_FILES, ""
        elif keep:
            reason = Reason.NO_FILTER if context.is_unfiltered else Reason.MAY_MATCH
        elif self._unread[position]:
            reason, explanation = Reason.ENOUGH_ROWS, ""
        elif self._older[position]:
            reason, explanation = Reason.OLDER, ""
        else:
            reason = Reason.BY_PARTITION if any(predicates(context.bound)) else Reason.NEVER_TRUE
        return Decision(
            level=level,
            path=manifest.manifest_path,
            kept=keep,
            reason=reason,
            explanation=explanation,
            bytes=manifest.manifest_length,
            records=manifest.live_rows_count,
        )


def _select_manifests(manifests: Sequence[ManifestFile], mask: Mask) -> list[ManifestFile]:
    return [manifest for manifest, keep in zip(manifests, mask.tolist(), strict=True) if keep]


def with_used_deletes(
    parts: Sequence[PlannedFiles], deletes: LiveDeletes | None
) -> tuple[tuple[PlannedFiles, ...], Sequence[DataFile], NDArray[np.int64]]:
    """Replace the list of delete files in planned files by a shorter list, which has only the delete files that apply to planned files.

    Args:
        parts: The planned files, which refer to delete files by their index in `deletes`.
        deletes: All live delete files; None if there are none.

    Returns:
        The planned files, which refer to the shorter list; the shorter list; and for each delete file in `deletes` the number of planned data files that it
        applies to.
    """
    counts = np.zeros(0 if deletes is None else len(deletes.index), dtype=np.int64)
    for part in parts:
        if part.delete_indices is not None:
            counts += np.bincount(part.delete_indices, minlength=len(counts))
    used = np.flatnonzero(counts)
    if deletes is None or not len(used):
        return tuple(parts), (), counts
    files = LazyFiles(len(used), partial(deletes.files, used))
    return tuple(part.with_delete_files(used, files) for part in parts), files, counts
