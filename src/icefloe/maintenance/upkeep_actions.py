"""Maintenance actions that do not rewrite data: expiry of snapshots, statistics, orphan files.

Spec: Snapshot Retention Policy; Table Statistics; Partition Statistics.
"""

# ruff: noqa: ARG002  an action uses what it needs of the run, the state and the work

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from icefloe.formatting import count_text, size_text
from icefloe.maintenance.maintenance_action import MINUTE_MS, ActionPlan, ActionRun, TableState, WholeAction
from icefloe.maintenance.maintenance_report import PlannedWork
from icefloe.maintenance.maintenance_thresholds import STALE_SHARE
from icefloe.maintenance.orphan_options import PURGE_DELAY, two_step_options
from icefloe.maintenance.orphan_report import OrphanMode
from icefloe.maintenance.quarantine_list import quarantine_lists
from icefloe.maintenance.remove_orphan_files import list_folders, remove_orphan_files
from icefloe.operations.column_statistics import compute_statistics
from icefloe.operations.expiry.expire_snapshots import expire_snapshots
from icefloe.operations.partition_statistics import compute_partition_statistics
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.retention import Retention, select_expired
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_history import ancestors

SHARED_FILES = "gc.enabled is false: the files may belong to other tables too"


class ExpireSnapshotsAction(WholeAction):
    """The action that expires the snapshots which the retention policy no longer keeps."""

    name = MaintenanceAction.EXPIRE_SNAPSHOTS

    def plan(self, state: TableState) -> ActionPlan:
        """Return the snapshots that the retention policy no longer keeps."""
        expired = select_expired(state.metadata, retention_of(state), state.now_ms)
        if not expired:
            return ActionPlan()
        what = count_text(len(expired.snapshot_ids), "snapshot") + (
            f", {count_text(len(expired.refs), 'branch or tag', 'branches and tags')}" if expired.refs else ""
        )
        if not table_properties.GC_ENABLED.read(state.metadata.properties):
            return ActionPlan(left=(self.leave(what, SHARED_FILES),))
        return ActionPlan((PlannedWork(action=self.name, what=what, files=len(expired.snapshot_ids)),))

    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        retention = retention_of(state)
        report = expire_snapshots(run.table, retention.older_than_ms, retention.retain_last, engine=run.settings.engine)
        undeleted = f"; {count_text(len(report.undeleted), 'file')} could not be deleted" if report.undeleted else ""
        deleted = f"{count_text(report.deleted_files, 'file')} deleted, {size_text(report.deleted_bytes)}"
        return f"{count_text(len(report.snapshot_ids), 'snapshot')} expired, {deleted}{undeleted}", ()


def retention_of(state: TableState) -> Retention:
    """Return the table's retention policy, combined with the snapshots that maintenance always keeps.

    Snapshots younger than `min_age_minutes` are kept: without them the next run could not determine the partitions with young commits.
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


class ComputePartitionStatisticsAction(WholeAction):
    """The action that writes partition statistics for the head of `main`."""

    name = MaintenanceAction.COMPUTE_PARTITION_STATS

    def plan(self, state: TableState) -> ActionPlan:
        """Return the work, if the head of `main` has no partition statistics."""
        head = state.files.snapshot
        if head is None or state.settings.branch != MAIN or not table_partition_type(state.metadata).fields:
            return ActionPlan()
        if any(file.snapshot_id == head.snapshot_id for file in state.metadata.partition_statistics):
            return ActionPlan()
        what = f"statistics of {count_text(state.measures.partition_count, 'partition')}"
        return ActionPlan((PlannedWork(action=self.name, what=what, files=1),))

    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        table = run.table
        file = compute_partition_statistics(table.metadata, table.io, table.full_name, None, table.handle.ids, table.apply)
        rows = () if file is None else table.partition_statistics(file.snapshot_id)
        return f"{count_text(len(rows), 'partition')} counted", ()


class ComputeTableStatisticsAction(WholeAction):
    """The action that counts the distinct values of columns."""

    name = MaintenanceAction.COMPUTE_TABLE_STATS

    def plan(self, state: TableState) -> ActionPlan:
        """Return the work, if there are no statistics of distinct values, or if many rows changed since they were written."""
        head = state.files.snapshot
        if head is None or state.settings.branch != MAIN or not state.settings.table_stats or not state.files.plan.files_kept:
            return ActionPlan()
        with_statistics = {file.snapshot_id for file in state.metadata.statistics}
        changed = 0
        for snapshot in ancestors(state.metadata, head.snapshot_id):
            if snapshot.snapshot_id in with_statistics:
                if changed < STALE_SHARE * max(1, state.measures.records):
                    return ActionPlan()
                break
            changed += _changed_records(snapshot)
        work = PlannedWork(
            action=self.name,
            what=f"distinct values of columns; {count_text(changed, 'row')} changed since the last count",
            files=1,
            cost_bytes=state.measures.size_in_bytes,
        )
        return ActionPlan((work,))

    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        table = run.table
        file = compute_statistics(table.scan(snapshot_id=table.metadata.current_snapshot_id), None, table.handle.ids, table.apply)
        statistics = None if file is None else table.statistics(file.snapshot_id)
        return f"{count_text(0 if statistics is None else len(statistics.blobs), 'column')} counted", ()


def _changed_records(snapshot: Snapshot) -> int:
    if snapshot.summary.operation == "replace":
        return 0
    texts: Sequence[str] = [snapshot.summary.get(name, "0") for name in ("added-records", "deleted-records")]
    return sum(int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanSteps:
    """The steps of the removal of orphan files that are due: deletion of the files in old lists, and writing of a new list."""

    purges: bool
    searches: bool


class RemoveOrphanFilesAction(WholeAction):
    """The action that writes a list of the orphan files in the folder; a later run, when the list is old enough, deletes the listed files."""

    name = MaintenanceAction.REMOVE_ORPHAN_FILES

    def plan(self, state: TableState) -> ActionPlan:
        """Return whether the folder must be searched for orphan files, and the earlier lists that are old enough to be purged.

        While a list is younger than the purge delay, the folder is not searched again, because a listing costs more than the few new orphan files.
        """
        if not state.settings.orphan_files:
            return ActionPlan()
        if not table_properties.GC_ENABLED.read(state.metadata.properties):
            return ActionPlan(left=(self.leave("orphan files", SHARED_FILES),))
        lists = quarantine_lists(state.table.io, list_folders(state.metadata))
        delay_ms = PURGE_DELAY // timedelta(milliseconds=1)
        young = [listed for listed in lists if listed.modified_ms > state.now_ms - delay_ms]
        left = [self.leave(quarantined.location, f"its files are deleted once it is {PURGE_DELAY.days} days old") for quarantined in young]
        due = len(lists) - len(young)
        what = [*([f"the files of {count_text(due, 'list')} deleted"] if due else []), *(["the folder searched"] if not young else [])]
        if not what:
            return ActionPlan(left=tuple(left))
        return ActionPlan(
            (PlannedWork(action=self.name, what=", ".join(what), files=due, payload=OrphanSteps(purges=due > 0, searches=not young)),),
            tuple(left),
        )

    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        return "; ".join(self._steps(run, work)), ()

    def _steps(self, run: ActionRun, work: Sequence[PlannedWork]) -> Iterator[str]:
        """Purge old lists and write a new list, as far as each step is due. Yield a description of each step."""
        steps = [piece.payload for piece in work if isinstance(piece.payload, OrphanSteps)]
        now_ms = run.table.handle.clock.now_ms()
        if any(step.purges for step in steps):
            purged = remove_orphan_files(run.table, two_step_options(now_ms, OrphanMode.PURGE))
            undeleted = f", {purged.undeleted_files:,} could not be deleted" if purged.undeleted_files else ""
            yield f"{count_text(purged.deleted_files, 'listed file')} deleted, {size_text(purged.orphan_bytes)}{undeleted}"
        if any(step.searches for step in steps):
            result = remove_orphan_files(run.table, two_step_options(now_ms, OrphanMode.QUARANTINE))
            yield f"{count_text(result.orphan_files, 'orphan file')}, {size_text(result.orphan_bytes)}, listed in {result.lists[0]}"
