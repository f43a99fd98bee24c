"""`maintain`: rank the possible work of all maintenance actions on a table, and do it within a budget: one call that keeps a table quick to read.

Actions (`maintenance_action.py`) run in the order of `ACTIONS`, each within its part of the budget, and each does the work with the highest worth first. If an
action fails the others still run, unless the state of a commit is unknown. Spec: Snapshots (operation replace).
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.errors import CommitConflictError, CommitInvalidatedError, CommitUnknownError, InvalidInputError
from icefloe.formatting import size_text
from icefloe.maintenance.dangling_deletes import refuse_staging
from icefloe.maintenance.health_measures import files_of_branch
from icefloe.maintenance.maintenance_action import ActionRun, MaintenanceProgress, Settings, TableAction, TableState
from icefloe.maintenance.maintenance_report import (
    ActionReport,
    ActionState,
    LeftWork,
    MaintenanceReport,
    PlannedWork,
    failure_of,
    log_failure,
    lost_to_others,
    report_of,
    together,
)
from icefloe.maintenance.rewrite_actions import (
    ConvertEqualityDeletesAction,
    RemoveDanglingDeletesAction,
    RewriteDataFilesAction,
    RewriteManifestsAction,
    RewritePositionDeleteFilesAction,
)
from icefloe.maintenance.upkeep_actions import (
    ComputePartitionStatisticsAction,
    ComputeTableStatisticsAction,
    ExpireSnapshotsAction,
    RemoveOrphanFilesAction,
)
from icefloe.operations.available_engines import engine_named
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.rows.write_context import check_branch
from icefloe.spec.metadata import maintenance_properties as properties_of_policy
from icefloe.spec.metadata.snapshot_ref import MAIN

# The maximum of rewrites of data files, if a rewrite moves files to partitions of a newer spec.
MOST_ROUNDS = 3
# The number of pieces of work that a plan lists for each action; the others are only counted.
NAMED_WORK = 3


# Every action, in the order in which they run.
ACTIONS: tuple[TableAction, ...] = (
    ExpireSnapshotsAction(),
    RemoveDanglingDeletesAction(),
    ConvertEqualityDeletesAction(),
    RewriteDataFilesAction(),
    RewritePositionDeleteFilesAction(),
    RewriteManifestsAction(),
    ComputePartitionStatisticsAction(),
    ComputeTableStatisticsAction(),
    RemoveOrphanFilesAction(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceArguments:
    """The arguments of `TableMaintenance.maintain`, under the same names. For an argument of None, the table's property or its default decides."""

    dry_run: bool = False
    max_bytes: int | None = None
    max_minutes: float | None = None
    min_age_minutes: float | None = None
    branch: str = MAIN
    engine: str | None = None
    remove_orphan_files: bool | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `InvalidInputError` for a negative limit, and `EngineError` or `NotInstalledError` for an engine that is not available."""
        for name in ("max_bytes", "max_minutes", "min_age_minutes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
                raise InvalidInputError(f"{name} is {value!r}", next_step="pass a number from 0 on, or leave it out")
        if self.engine is not None:
            engine_named(self.engine)


class TableMaintenanceRun:
    """A run of maintenance on one table."""

    def __init__(self, table: LoadedTable, arguments: MaintenanceArguments, deadline: float | None, progress: MaintenanceProgress) -> None:
        """Prepare a run.

        Args:
            table: The table.
            arguments: The limits and choices of the run, which replace the table's properties where they are not None.
            deadline: The time by `time.monotonic` after which no further work is started; None for no limit.
            progress: Counts the pieces of work; it is updated while the run lasts.

        Raises:
            InvalidPropertyError: A property of maintenance is unknown or has an invalid value.
        """
        self._table = table
        self._arguments = arguments
        properties = table.metadata.properties
        properties_of_policy.refuse_unknown(properties)
        self._is_enabled = properties_of_policy.ENABLED.read(properties)
        max_minutes = _first(arguments.max_minutes, properties_of_policy.MAX_MINUTES.read(properties))
        self._settings = Settings(
            max_bytes=_first(arguments.max_bytes, properties_of_policy.MAX_BYTES.read(properties)),
            max_minutes=max_minutes,
            min_age_minutes=_first(arguments.min_age_minutes, properties_of_policy.MIN_AGE_MINUTES.read(properties)),
            max_wait_minutes=properties_of_policy.MAX_WAIT_MINUTES.read(properties),
            min_snapshot_age_minutes=properties_of_policy.MIN_SNAPSHOT_AGE_MINUTES.read(properties),
            min_snapshots=properties_of_policy.MIN_SNAPSHOTS.read(properties),
            table_stats=properties_of_policy.TABLE_STATS.read(properties),
            orphan_files=_first(arguments.remove_orphan_files, properties_of_policy.ORPHAN_FILES.read(properties)),
            skipped=properties_of_policy.SKIP_ACTIONS.read(properties),
            branch=arguments.branch,
            engine=arguments.engine,
        )
        own = None if max_minutes is None else time.monotonic() + max_minutes * 60
        self._actions = ActionRun(
            table=table,
            settings=self._settings,
            snapshot_properties=arguments.snapshot_properties,
            progress=progress,
            deadline=min((limit for limit in (deadline, own) if limit is not None), default=None),
        )

    def work(self) -> tuple[PlannedWork, ...]:
        """Return all work that pays, without its `payload`; empty if `maintenance.enabled` is false."""
        if not self._is_enabled:
            return ()
        state = self._state()
        return tuple(replace(work, payload=None) for action in ACTIONS for work in state.plan_of(action).work)

    def run(self) -> MaintenanceReport:
        """Do the work, or only plan it. Raises errors of loading and planning; failures of actions are in the report."""
        name = self._table.full_name
        if not self._is_enabled:
            return MaintenanceReport(table=name, dry_run=self._arguments.dry_run, skipped="maintenance.enabled is false")
        if not self._arguments.dry_run:
            refuse_staging(self._table, self._settings.branch)
        state = self._state()
        chosen = within_budget([work for action in ACTIONS for work in state.plan_of(action).work], self._settings.max_bytes)
        allotted = {action: sum(work.cost_bytes for work in chosen if work.action is action.name) for action in ACTIONS}
        self._actions.progress.total += len(chosen)
        if self._arguments.dry_run:
            reports = [_plan(state, action, allotted[action]) for action in ACTIONS]
            return MaintenanceReport(table=name, dry_run=True, actions=tuple(reports))
        reports = []
        is_stale = False
        for action in ACTIONS:
            try:
                if is_stale:
                    self._table.refresh()
                is_stale = False
                # An earlier action may have refreshed the table. A plan from the older state would be validated only from the table's new snapshot on, so that
                # deletes which others committed in between would be neither applied nor a conflict.
                if self._table.metadata is not state.metadata:
                    state = self._state()
                report = self._run(action, state, allotted[action])
                if isinstance(action, RewriteDataFilesAction):
                    report = self._further_rounds(action, state, report, allotted[action])
            except CommitUnknownError as error:
                reports.append(failure_of(action.name, error))
                break  # nothing more is changed after a commit of unknown state
            except (CommitConflictError, CommitInvalidatedError) as error:
                report, is_stale = report_of(action.name, ActionState.LEFT, (), [lost_to_others(action.name, error)]), True
            except Exception as error:  # noqa: BLE001  it is in the report
                log_failure(name, f"{action.name} failed", error)
                report = failure_of(action.name, error)
            is_stale |= report.state is ActionState.FAILED
            reports.append(report)
            if self._actions.is_unknown:
                break
        return MaintenanceReport(table=name, actions=tuple(reports))

    def _further_rounds(self, action: TableAction, state: TableState, report: ActionReport, allotted: int) -> ActionReport:
        """Rewrite data files again after they moved to partitions of a newer spec, because a partition may have enough of them only now."""
        for _ in range(MOST_ROUNDS - 1):
            if report.state is not ActionState.DONE or not _moves_files(state):
                break
            try:
                state = self._state()
                further = self._run(action, state, max(0, allotted - report.rewritten_bytes))
            except Exception as error:  # noqa: BLE001  the report of the rounds before is kept
                log_failure(self._table.full_name, f"a further round of {action.name} failed", error)
                further = failure_of(action.name, error)
            report = together(report, further)
        return report

    def _state(self) -> TableState:
        table, branch = self._table, self._settings.branch
        metadata = table.metadata
        check_branch(table.handle, metadata, branch)
        scan = table.scan().use_ref(branch) if metadata.refs else table.scan()
        now_ms = max(table.handle.clock.now_ms(), metadata.last_updated_ms)
        files = files_of_branch(metadata, scan.snapshot(), table.io.read)
        return TableState(table=table, settings=self._settings, files=files, now_ms=now_ms)

    def _run(self, action: TableAction, state: TableState, allotted: int) -> ActionReport:
        """Run one action within its part of the budget."""
        chosen, left = _allot(state, action, allotted)
        if not chosen:
            return report_of(action.name, ActionState.LEFT if left else ActionState.NOTHING, (), left)
        return action.execute(self._actions, state, chosen, left)


def within_budget(work: Iterable[PlannedWork], max_bytes: int | None) -> list[PlannedWork]:
    """Choose work that costs at most `max_bytes` in total, the highest worth first; return all work if `max_bytes` is None."""
    ranked = sorted(work, key=lambda item: -item.worth)
    if max_bytes is None:
        return ranked
    chosen, spent = [], 0
    for item in ranked:
        if spent + item.cost_bytes <= max_bytes:
            chosen.append(item)
            spent += item.cost_bytes
    return chosen


def maintain_table(table: LoadedTable, arguments: MaintenanceArguments, progress: MaintenanceProgress | None = None) -> MaintenanceReport:
    """Maintain one table. Arguments and errors are those of `TableMaintenance.maintain`."""
    arguments.check()
    return TableMaintenanceRun(table, arguments, None, progress or MaintenanceProgress()).run()


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _allot(state: TableState, action: TableAction, most_bytes: int) -> tuple[list[PlannedWork], list[LeftWork]]:
    """Return the work of an action that its part of the budget allows, and the work that is left."""
    plan = state.plan_of(action)
    chosen = within_budget(plan.work, None if state.settings.max_bytes is None else most_bytes)
    ids = set(map(id, chosen))
    over = [
        action.leave(work.what, f"{size_text(work.cost_bytes)} are more than what is left of max-bytes")
        for work in plan.work
        if id(work) not in ids
    ]
    return chosen, [*plan.left, *over]


def _plan(state: TableState, action: TableAction, most_bytes: int) -> ActionReport:
    chosen, left = _allot(state, action, most_bytes)
    more = f"; {len(chosen) - NAMED_WORK:,} more" if len(chosen) > NAMED_WORK else ""
    report = report_of(action.name, ActionState.PLANNED if chosen else ActionState.LEFT if left else ActionState.NOTHING, chosen, left)
    return replace(report, detail="; ".join(work.what for work in chosen[:NAMED_WORK]) + more)


def _moves_files(state: TableState) -> bool:
    """Return whether files of older partition specs were rewritten, and so moved to partitions of the newest spec."""
    return any(part.spec_id != state.metadata.default_spec_id for group in state.rewrite.groups for part in group.files)
