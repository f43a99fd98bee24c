"""What each action of maintenance would do to a table: pieces of work with their benefit and cost, and what is left undone and why.

The constants of the formula are `maintenance_thresholds.py`; `maintain.py` ranks the work and runs it. Spec: Snapshot Retention Policy; Scan Planning.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

import numpy as np

from icefloe.commit.new_manifest import merge_rules
from icefloe.errors import EngineError, NotInstalledError
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.clustering_depth import clustering_depths, misplaced
from icefloe.maintenance.equality_delete_groups import EqualityDeleteGroup, equality_delete_groups
from icefloe.maintenance.health_measures import FilesOfBranch, ManifestMeasures, TableMeasures, measure
from icefloe.maintenance.maintenance_thresholds import (
    EQUALITY_SHARE,
    FILE_OPEN_BYTES,
    FILTERED_SHARE,
    GROUP_FILES,
    REWRITE_COST,
    SCANS,
    STALE_SHARE,
    has_too_many_manifests,
)
from icefloe.maintenance.position_delete_planner import DeleteGroup, PositionDeletePlan, plan_position_deletes
from icefloe.maintenance.quarantine_list import quarantine_lists
from icefloe.maintenance.recent_changes import PartitionChange, RecentChanges, recent_changes
from icefloe.maintenance.remove_orphan_files import PURGE_DELAY, list_folders
from icefloe.maintenance.rewrite_options import RewriteOptions, position_delete_options, rewrite_options
from icefloe.maintenance.rewrite_planner import FileGroup, Reason, RewritePlan, delete_shares, deleted_rows, plan_rewrite
from icefloe.operations.available_engines import WORK_ON_SPARK_BYTES, engine_named
from icefloe.operations.loaded_table import LoadedTable
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spec.arrow_values import array_of_chunks, numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.manifests import table_partition_type
from icefloe.spec.metadata.retention import Retention, expired
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DELETE_GRANULARITY
from icefloe.spec.schema.schema import Schema

MINUTE_MS = 60_000
SHARED_FILES = "gc.enabled is false: the files may belong to other tables too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The limits of one run, by its arguments or the table's properties.

    Attributes:
        max_bytes: Most bytes of files that are rewritten, or read for statistics; None for no limit.
        max_minutes: Minutes after which no further work is started; None for no limit.
        min_age_minutes: Partitions with younger commits are left to their writers.
        max_wait_minutes: Files that are older are rewritten in such partitions too, if the young commits only added rows.
        min_snapshot_age_minutes: Younger snapshots are kept; None for the table's retention policy alone.
        min_snapshots: So many snapshots of each branch are kept; None for the table's retention policy alone.
        table_stats: Whether the distinct values of columns are counted again.
        orphan_files: Whether orphan files are searched, and those of old lists deleted.
        skipped: Actions that are not run.
        branch: The branch.
        engine: `spark` or `in-process`; None to choose.
    """

    max_bytes: int | None
    max_minutes: float | None
    min_age_minutes: float
    max_wait_minutes: int
    min_snapshot_age_minutes: int | None
    min_snapshots: int | None
    table_stats: bool
    orphan_files: bool
    skipped: tuple[MaintenanceAction, ...]
    branch: str
    engine: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanWork:
    """What is due of the two steps by which orphan files are removed: the files of old lists are deleted, and a new list is written."""

    purges: bool
    searches: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A piece of work.

    Attributes:
        action: The action that does it.
        what: What is done.
        files: The files that are rewritten, removed or written.
        files_less: Files that a scan opens less afterwards.
        bytes_less: Bytes that a scan reads less afterwards.
        cost_bytes: Bytes of files that are rewritten, or read for statistics.
        payload: The group of files, the partition spec, or the steps; None for actions that are done as a whole.
    """

    action: MaintenanceAction
    what: str
    files: int
    files_less: int = 0
    bytes_less: int = 0
    cost_bytes: int = 0
    payload: FileGroup | EqualityDeleteGroup | DeleteGroup | OrphanWork | int | None = field(default=None, repr=False)

    @property
    def benefit_bytes(self) -> int:
        """The benefit for one scan, in bytes that it reads less; opening a file counts as `FILE_OPEN_BYTES`."""
        return self.bytes_less + self.files_less * FILE_OPEN_BYTES

    @property
    def worth(self) -> float:
        """The benefit of `SCANS` scans for the cost: from 1 on the work pays."""
        return self.benefit_bytes * SCANS / max(1, self.cost_bytes * REWRITE_COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftWork:
    """Work that is not done, and why."""

    action: MaintenanceAction
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Look:
    """The work of one action at one state of the table."""

    work: tuple[Work, ...] = ()
    left: tuple[LeftWork, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class TableState:
    """A table at one moment, from which every action decides.

    Attributes:
        table: The table.
        settings: The limits of the run.
        files: All files of the branch.
        now_ms: The time.
    """

    table: LoadedTable
    settings: Settings
    files: FilesOfBranch
    now_ms: int

    @property
    def metadata(self) -> TableMetadata:
        """The metadata that was planned on."""
        return self.files.metadata

    @cached_property
    def measures(self) -> TableMeasures:
        """See `health_measures.py`; without the clustering by column, which no action decides by and which takes a third of a plan."""
        return measure(replace(self.files, schema=Schema()), self.now_ms)

    @cached_property
    def recent(self) -> RecentChanges:
        """The partitions that young commits changed."""
        since = self.now_ms - int(self.settings.min_age_minutes * MINUTE_MS)
        return recent_changes(self.files, since, self.table.io.read)

    @cached_property
    def options(self) -> RewriteOptions:
        """The options of a rewrite of data files."""
        order = self.metadata.sort_order()
        target = table_properties.TARGET_FILE_SIZE_BYTES.read(self.metadata.properties)
        given: dict[str, Any] = {"partial-progress.enabled": True}
        if order.is_unsorted:  # a sort of half a partition would overlap with the other half
            most = GROUP_FILES * target
            given["max-file-group-size-bytes"] = max(1, most if self.settings.max_bytes is None else min(most, self.settings.max_bytes))
        return rewrite_options(given, self.metadata, order)

    @cached_property
    def rewrite(self) -> RewritePlan:
        """The groups of data files that could be rewritten."""
        order = self.metadata.sort_order()
        overlaps = None if order.is_unsorted else partial(misplaced, order=order, schema=self.files.schema)
        return plan_rewrite(self.files.plan, self.metadata, self.options, overlaps)

    @cached_property
    def data_files(self) -> Look:
        """The groups of data files that pay, and those that are left."""
        return look_at_data_files(self)

    @cached_property
    def position_deletes(self) -> PositionDeletePlan:
        """The groups of position delete files and vectors that could be rewritten."""
        most = GROUP_FILES * position_delete_options({}, self.metadata).sizes.target
        given = {"max-file-group-size-bytes": max(1, most if self.settings.max_bytes is None else min(most, self.settings.max_bytes))}
        return plan_position_deletes(
            self.metadata,
            self.files.snapshot,
            AlwaysTrue(),
            position_delete_options(given, self.metadata),
            self.table.io.read,
            plan=self.files.plan,
            busy={partition for partition, change in self.recent.partitions.items() if change.changed_rows},
        )

    def rewrites_all(self, groups: Iterable[EqualityDeleteGroup]) -> bool:
        """Return whether this run writes all data files of some groups again, and so applies their deletes. A budget of bytes may leave some."""
        if MaintenanceAction.REWRITE_DATA_FILES in self.settings.skipped or self.settings.max_bytes is not None:
            return False
        rewritten = _paths(part for one in self.data_files.work if isinstance(one.payload, FileGroup) for part in one.payload.files)
        return set(_paths(part for group in groups for part in group.files)) <= set(rewritten)


def look_at_snapshots(state: TableState) -> Look:
    """Return the snapshots that the retention policy no longer keeps."""
    action = MaintenanceAction.EXPIRE_SNAPSHOTS
    found = expired(state.metadata, retention_of(state), state.now_ms)
    if not found:
        return Look()
    what = count_text(len(found.snapshot_ids), "snapshot") + (
        f", {count_text(len(found.refs), 'branch or tag', 'branches and tags')}" if found.refs else ""
    )
    if not table_properties.GC_ENABLED.read(state.metadata.properties):
        return Look(left=(LeftWork(action=action, what=what, reason=SHARED_FILES),))
    return Look((Work(action=action, what=what, files=len(found.snapshot_ids)),))


def retention_of(state: TableState) -> Retention:
    """Return the table's retention policy, with what maintenance keeps in any case.

    Snapshots younger than `min_age_minutes` are kept: without them the next run would not know which partitions are young.
    """
    number = state.settings.min_snapshots
    kept_ms = int(max(state.settings.min_snapshot_age_minutes or 0, state.settings.min_age_minutes) * MINUTE_MS)
    properties = state.metadata.properties
    policy_ms = table_properties.MAX_SNAPSHOT_AGE_MS.read(properties)
    least = table_properties.MIN_SNAPSHOTS_TO_KEEP.read(properties)
    return Retention(
        older_than_ms=None if policy_ms >= kept_ms else state.now_ms - kept_ms,
        retain_last=None if number is None else max(number, least),
    )


def look_at_dangling_deletes(state: TableState) -> Look:
    """Return the delete files that apply to no data file."""
    count = state.measures.dangling_deletes
    if not count:
        return Look()
    what = count_text(count, "delete file")
    return Look((Work(action=MaintenanceAction.REMOVE_DANGLING_DELETES, what=what, files=count, files_less=count),))


def look_at_equality_deletes(state: TableState) -> Look:
    """Return the equality deletes that become positions, by the partitions that share them, and those that are left.

    The conversion replaces no data file, and no writer that adds rows and equality deletes loses to it, however young its commits are. A writer that
    deletes rows by position, or replaces files, may lose: its partitions are left.
    """
    action = MaintenanceAction.CONVERT_EQUALITY_DELETES
    if not state.measures.delete_files["equality"]:
        return Look()
    work: list[Work] = []
    left: list[LeftWork] = []
    groups = equality_delete_groups(state.files.plan)
    if state.rewrites_all(groups):
        count = count_text(sum(len(group.equality_deletes) for group in groups), "equality delete file")
        return Look(left=(LeftWork(action=action, what=count, reason="rewrite-data-files writes all of their data files again"),))
    for group in groups:
        one = _conversion_work(state, group)
        changes = [change for part in group.files for change in state.recent.of(part) if change.changed_rows]
        if changes:
            reason = f"{_young(state, changes)}, and not by equality deletes alone"
            left.append(LeftWork(action=action, what=one.what, reason=reason))
        else:
            work.append(one)
    return Look(tuple(work), tuple(left))


def _conversion_work(state: TableState, group: EqualityDeleteGroup) -> Work:
    size, deletes = group.size, len(group.equality_deletes)
    # A vector of each data file is in one Puffin file for all; a position delete file is written for each data file that loses rows.
    scoped = state.metadata.format_version < 3 and DELETE_GRANULARITY.read(state.metadata.properties) == "file"
    added = min(len(group), sum(file.record_count for file in group.equality_deletes)) if scoped else 1
    keys = min(1.0, len(group.key_ids) / max(1, len(state.metadata.schema().fields)))
    return Work(
        action=MaintenanceAction.CONVERT_EQUALITY_DELETES,
        what=f"{count_text(deletes, 'equality delete file')} of {count_text(len(group), 'data file')}, {size_text(size)}",
        files=deletes,
        files_less=max(0, deletes - added),
        bytes_less=int(EQUALITY_SHARE * size),
        cost_bytes=int(keys * size),
        payload=group,
    )


def _young(state: TableState, changes: Sequence[PartitionChange]) -> str:
    """Return which property leaves a partition with these changes."""
    minutes = max(0, state.now_ms - max(change.timestamp_ms for change in changes)) // MINUTE_MS
    return f"a commit {count_text(minutes, 'minute')} ago changed the partition (maintenance.min-age-minutes)"


def look_at_data_files(state: TableState) -> Look:
    """Return the groups of data files that pay, and those that are left."""
    action, plan = MaintenanceAction.REWRITE_DATA_FILES, state.rewrite
    cost_of_deletes = _DeleteCosts(state)
    work: list[Work] = []
    left: list[LeftWork] = []
    for planned in plan.groups:
        group, reason = _without_recent(state, planned)
        what = f"{count_text(len(planned), 'file')}, {size_text(planned.size)}"
        if group is None:
            left.append(LeftWork(action=action, what=what, reason=reason))
            continue
        one = _group_work(state, group, cost_of_deletes)
        if one.worth < 1:
            left.append(LeftWork(action=action, what=what, reason=_not_worth(one)))
        elif missing := _missing_spark(state, group):
            left.append(LeftWork(action=action, what=what, reason=missing))
        else:
            work.append(one)
    if plan.left_files:
        reason = "too few in a partition to pay"
        if state.settings.max_bytes is not None:  # groups are at most so large
            reason += f", or more than the {size_text(state.settings.max_bytes)} of max-bytes together"
        left.append(LeftWork(action=action, what=count_text(plan.left_files, "file"), reason=reason))
    return Look(tuple(work), tuple(left))


def look_at_position_deletes(state: TableState) -> Look:
    """Return the groups of position delete files and deletion vectors that pay, and those that are left.

    They are looked at after data files, because a data file that is written again needs its deletes no more. Partitions in which young commits deleted
    rows by position, or replaced files, are left: their writers replace vectors too.
    """
    action, kinds = MaintenanceAction.REWRITE_POSITION_DELETE_FILES, state.measures.delete_files
    if not kinds["position"] and not kinds["vector"]:
        return Look()
    plan = state.position_deletes
    work = [_delete_group_work(group) for group in plan.groups if group.tasks]  # dangling deletes are an action of their own
    left = [LeftWork(action=action, what=one.what, reason=_not_worth(one)) for one in work if one.worth < 1]
    if plan.busy_files:
        reason = _young(state, [change for change in state.recent.partitions.values() if change.changed_rows])
        left.append(LeftWork(action=action, what=count_text(plan.busy_files, "delete file"), reason=reason))
    if plan.left_files:
        left.append(LeftWork(action=action, what=count_text(plan.left_files, "delete file"), reason="too few together to pay"))
    return Look(tuple(one for one in work if one.worth >= 1), tuple(left))


def _delete_group_work(group: DeleteGroup) -> Work:
    return Work(
        action=MaintenanceAction.REWRITE_POSITION_DELETE_FILES,
        what=f"{count_text(len(group), 'delete file')}, {size_text(group.size)}, to {group.added_stored_files:,}",
        files=len(group),
        files_less=max(0, group.stored_files - group.added_stored_files),
        cost_bytes=group.size,
        payload=group,
    )


def _not_worth(one: Work) -> str:
    return f"not worth it: {one.files_less:,} files and {size_text(one.bytes_less)} less for each scan"


def look_at_manifests(state: TableState) -> Look:
    """Return the partition specs with too many manifests of data files or of delete files. Both kinds of a spec are rewritten together."""
    by_spec: dict[int, list[ManifestMeasures]] = {}
    for one in state.measures.manifests:
        by_spec.setdefault(one.spec_id, []).append(one)
    unmergeable = merge_rules(state.metadata).unmergeable_specs
    work = []
    for spec_id, ones in by_spec.items():
        if spec_id in unmergeable or not any(has_too_many_manifests(one.manifests, one.best_manifests) for one in ones):
            continue
        rewritten = _rewritten_manifests(state.files.manifests, spec_id)
        contents = {one.content for one in rewritten}
        best = sum(one.best_manifests for one in ones if one.content in contents)
        work.append(
            Work(
                action=MaintenanceAction.REWRITE_MANIFESTS,
                what=f"{count_text(len(rewritten), 'manifest')} of spec {spec_id}, at best {best:,}",
                files=len(rewritten),
                files_less=sum(one.manifests - one.best_manifests for one in ones),
                cost_bytes=sum(one.manifest_length for one in rewritten),
                payload=spec_id,
            )
        )
    return Look(tuple(work))


def _rewritten_manifests(manifests: Sequence[ManifestFile], spec_id: int) -> list[ManifestFile]:
    """Return the manifests of a spec that are rewritten: of each content all that are not encrypted, unless that is one without removed entries."""
    rewritten: list[ManifestFile] = []
    for content in ManifestContent:
        ones = [one for one in manifests if one.content is content and one.partition_spec_id == spec_id and one.key_metadata is None]
        rewritten += ones if len(ones) > 1 or any(one.deleted_files_count != 0 for one in ones) else ()
    return rewritten


def look_at_partition_stats(state: TableState) -> Look:
    """Return whether the head of `main` has no statistics of its partitions."""
    head = state.files.snapshot
    if head is None or state.settings.branch != MAIN or not table_partition_type(state.metadata).fields:
        return Look()
    if any(file.snapshot_id == head.snapshot_id for file in state.metadata.partition_statistics):
        return Look()
    what = f"statistics of {count_text(state.measures.partition_count, 'partition')}"
    return Look((Work(action=MaintenanceAction.COMPUTE_PARTITION_STATS, what=what, files=1),))


def look_at_table_stats(state: TableState) -> Look:
    """Return whether distinct values are to be counted, because there are no statistics or many rows changed since."""
    head = state.files.snapshot
    if head is None or state.settings.branch != MAIN or not state.settings.table_stats or not state.files.plan.files_kept:
        return Look()
    with_statistics = {file.snapshot_id for file in state.metadata.statistics}
    changed = 0
    for snapshot in ancestors(state.metadata, head.snapshot_id):
        if snapshot.snapshot_id in with_statistics:
            if changed < STALE_SHARE * max(1, state.measures.records):
                return Look()
            break
        changed += _changed_records(snapshot)
    work = Work(
        action=MaintenanceAction.COMPUTE_TABLE_STATS,
        what=f"distinct values of columns; {count_text(changed, 'row')} changed since the last count",
        files=1,
        cost_bytes=state.measures.size_in_bytes,
    )
    return Look((work,))


def look_at_orphan_files(state: TableState) -> Look:
    """Return whether the folder is to be searched for orphan files, and the lists of earlier searches that are old enough to be purged.

    While a list is younger than the delay of the purge, the folder is not searched again: a listing costs more than the files that came since.
    """
    action = MaintenanceAction.REMOVE_ORPHAN_FILES
    if not state.settings.orphan_files:
        return Look()
    if not table_properties.GC_ENABLED.read(state.metadata.properties):
        return Look(left=(LeftWork(action=action, what="orphan files", reason=SHARED_FILES),))
    lists = quarantine_lists(state.table.io, list_folders(state.metadata))
    delay_ms = PURGE_DELAY // timedelta(milliseconds=1)
    young = [one for one in lists if one.modified_ms > state.now_ms - delay_ms]
    left = [
        LeftWork(action=action, what=one.location, reason=f"its files are deleted once it is {PURGE_DELAY.days} days old") for one in young
    ]
    due = len(lists) - len(young)
    what = [*([f"the files of {count_text(due, 'list')} deleted"] if due else []), *(["the folder searched"] if not young else [])]
    if not what:
        return Look(left=tuple(left))
    return Look(
        (Work(action=action, what=", ".join(what), files=due, payload=OrphanWork(purges=due > 0, searches=not young)),), tuple(left)
    )


LOOKS: Mapping[MaintenanceAction, Callable[[TableState], Look]] = {
    MaintenanceAction.EXPIRE_SNAPSHOTS: look_at_snapshots,
    MaintenanceAction.REMOVE_DANGLING_DELETES: look_at_dangling_deletes,
    MaintenanceAction.CONVERT_EQUALITY_DELETES: look_at_equality_deletes,
    MaintenanceAction.REWRITE_DATA_FILES: lambda state: state.data_files,
    MaintenanceAction.REWRITE_POSITION_DELETE_FILES: look_at_position_deletes,
    MaintenanceAction.REWRITE_MANIFESTS: look_at_manifests,
    MaintenanceAction.COMPUTE_PARTITION_STATS: look_at_partition_stats,
    MaintenanceAction.COMPUTE_TABLE_STATS: look_at_table_stats,
    MaintenanceAction.REMOVE_ORPHAN_FILES: look_at_orphan_files,
}


class _DeleteCosts:
    """What the deletes of a group cost a scan."""

    def __init__(self, state: TableState) -> None:
        self._shares = delete_shares(state.files.plan)
        self._is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in state.files.plan.delete_files], dtype=bool)

    def of(self, part: Any) -> tuple[float, int]:
        """Return bytes that a scan of a part reads or compares because of deletes, and the number of delete files that it opens."""
        if part.delete_indices is None or part.delete_offsets is None or not len(part.delete_indices):
            return 0.0, 0
        sizes = numpy_of(array_of_chunks(part.entries["file_size_in_bytes"])).astype(np.float64)
        records = numpy_of(array_of_chunks(part.entries["record_count"])).astype(np.float64)
        share = deleted_rows(part, self._shares) / np.maximum(records, 1)
        files = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
        compared = np.bincount(files, weights=self._is_equality[part.delete_indices], minlength=len(part)) > 0
        return float((sizes * (share + EQUALITY_SHARE * compared)).sum()), len(np.unique(part.delete_indices))


def _group_work(state: TableState, group: FileGroup, costs: _DeleteCosts) -> Work:
    deletes = [costs.of(part) for part in group.files]
    bytes_less = sum(size for size, _ in deletes)
    files_less = max(0, len(group) - group.output_files) + sum(count for _, count in deletes)
    if group.reasons.get(Reason.OVERLAP):
        key = state.metadata.sort_order().fields[0].source_id
        depths = [clustering_depths(part, key, state.files.schema) for part in group.files]
        known = np.concatenate([one.depths[one.known] for one in depths])
        depth = float(known.mean()) if len(known) else 0.0
        bytes_less += FILTERED_SHARE * max(0.0, depth - 2) * (group.size / len(group) + FILE_OPEN_BYTES)
    return Work(
        action=MaintenanceAction.REWRITE_DATA_FILES,
        what=f"{count_text(len(group), 'file')}, {size_text(group.size)}, to {group.output_files:,}",
        files=len(group),
        files_less=files_less,
        bytes_less=int(bytes_less),
        cost_bytes=group.size,
        payload=group,
    )


def _without_recent(state: TableState, group: FileGroup) -> tuple[FileGroup | None, str]:
    """Return a group without the files that are left to their writers; None and the reason if all are."""
    changes = [change for part in group.files for change in state.recent.of(part)]
    if not changes:
        return group, ""
    reason = _young(state, changes)
    waited = state.now_ms - state.recent.oldest_ms(group.files) >= state.settings.max_wait_minutes * MINUTE_MS
    if any(change.changed_rows for change in changes) or not waited:
        return None, reason
    kept = tuple(part.take(np.flatnonzero(mask)) for part, mask in _old(state.recent, group) if mask.any())
    count = sum(map(len, kept))
    size = sum(int(numpy_of(array_of_chunks(part.entries["file_size_in_bytes"])).sum()) for part in kept)
    if count < 2 or (count < state.options.min_input_files and size <= state.options.sizes.target):
        return None, reason
    return replace(group, files=kept, size=size, output_files=state.options.sizes.output_files(size), reasons={Reason.SMALL: count}), ""


def _old(recent: RecentChanges, group: FileGroup) -> Iterator[tuple[Any, Any]]:
    return ((part, recent.is_old(part)) for part in group.files)


def _missing_spark(state: TableState, group: FileGroup) -> str:
    """Return why a sort that would hold more rows in this process than it should cannot be done; empty if it can."""
    if state.metadata.sort_order().is_unsorted or group.size < WORK_ON_SPARK_BYTES or state.settings.engine == "spark":
        return ""
    if state.settings.engine == "in-process":
        return "so large a sort needs Spark, and the engine in-process was chosen"
    try:
        engine_named("spark")
    except (EngineError, NotInstalledError):
        return "so large a sort needs Spark, which is not available"
    return ""


def _paths(parts: Iterable[PlannedFiles]) -> list[str]:
    return [path for part in parts for path in part.entries["file_path"].to_pylist()]


def _changed_records(snapshot: Snapshot) -> int:
    if snapshot.summary.operation == "replace":
        return 0
    texts: Sequence[str] = [snapshot.summary.get(name, "0") for name in ("added-records", "deleted-records")]
    return sum(int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20)
