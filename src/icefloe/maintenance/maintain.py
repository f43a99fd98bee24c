"""`maintain`: looks at a table, ranks what would pay, and does it within a budget: the one command that keeps a table quick to read.

`maintenance_actions.py` finds the work. Actions run in the order of `MaintenanceAction`, each within its part of the budget, the work of the
highest worth first. A failed action does not stop the others, except where the state of a commit is unknown. Spec: Snapshots (operation replace).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from icefloe.errors import CommitConflictError, CommitInvalidatedError, CommitUnknownError, IcefloeError, InvalidInputError
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.convert_equality_deletes import ConvertEqualityDeletesResult, EqualityDeleteConversion
from icefloe.maintenance.dangling_deletes import refuse_staging, remove_dangling_deletes
from icefloe.maintenance.equality_delete_groups import EqualityDeleteGroup
from icefloe.maintenance.group_rewrite import FailedGroup, GroupRewriteResult
from icefloe.maintenance.health_measures import files_of_branch
from icefloe.maintenance.maintenance_actions import LOOKS, LeftWork, Look, OrphanWork, Settings, TableState, Work, retention_of
from icefloe.maintenance.maintenance_report import (
    ActionReport,
    ActionState,
    MaintenanceReport,
    failure_of,
    in_words,
    log_failure,
    report_of,
    together,
)
from icefloe.maintenance.orphan_report import OrphanMode
from icefloe.maintenance.position_delete_planner import DeleteGroup
from icefloe.maintenance.remove_orphan_files import remove_orphan_files, two_step_options
from icefloe.maintenance.rewrite_data_files import DataFileRewrite, RewriteDataFilesResult
from icefloe.maintenance.rewrite_options import conversion_options, position_delete_options
from icefloe.maintenance.rewrite_planner import FileGroup
from icefloe.maintenance.rewrite_position_deletes import PositionDeleteRewrite, RewritePositionDeleteFilesResult
from icefloe.operations.available_engines import engine_named
from icefloe.operations.expiry.expire_snapshots import expire_snapshots
from icefloe.operations.files.manifest_rewrite import rewrite_manifests
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.rows.write_context import check_branch
from icefloe.spec.metadata import maintenance_properties as properties_of_policy
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.snapshot_ref import MAIN

# Files are rewritten in commits of about so many bytes, and of at most a tenth of the work, so that a run may stop in between.
SLICE_BYTES = 1 << 30
MOST_SLICES = 10
# Rounds of rewriting data files where files move to partitions of another spec.
MOST_ROUNDS = 3


R = TypeVar("R", bound=GroupRewriteResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[R]):
    """A part of the work of an action.

    Attributes:
        run: Does it.
        committed: Returns what was committed so far, also after an error.
    """

    run: Callable[[], object]
    committed: Callable[[], R]


@dataclass(slots=True)
class SlicesDone(Generic[R]):
    """What became of the slices of an action; `done` is the work of which nothing failed."""

    results: list[R] = field(default_factory=list)
    done: list[Work] = field(default_factory=list)
    left: list[LeftWork] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    snapshot_ids: list[int] = field(default_factory=list)

    def totals(self, *names: str) -> tuple[int, ...]:
        """Return the sums of fields of the results, in this order."""
        return tuple(sum(getattr(one, name) for one in self.results) for name in names)


@dataclass(slots=True)
class MaintenanceProgress:
    """The pieces of work of a run that are done, and all of them; another thread may read it."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceArguments:
    """The arguments of a run; None where the table's property, or its default, decides. The attributes are those of `TableMaintenance.maintain`."""

    dry_run: bool = False
    max_bytes: int | None = None
    max_minutes: float | None = None
    min_age_minutes: float | None = None
    branch: str = MAIN
    engine: str | None = None
    remove_orphan_files: bool | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `InvalidInputError` for a negative limit, `EngineError` or `NotInstalledError` where there is no such engine."""
        for name in ("max_bytes", "max_minutes", "min_age_minutes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
                raise InvalidInputError(f"{name} is {value!r}", next_step="pass a number from 0 on, or leave it out")
        if self.engine is not None:
            engine_named(self.engine)


class TableMaintenanceRun:
    """One run over one table."""

    def __init__(self, table: LoadedTable, arguments: MaintenanceArguments, deadline: float | None, progress: MaintenanceProgress) -> None:
        """Prepare a run.

        Args:
            table: The table.
            arguments: The arguments.
            deadline: The time by `time.monotonic` after which no further work is started.
            progress: Is updated while the run lasts.

        Raises:
            InvalidPropertyError: A property of maintenance is unknown or has an invalid value.
        """
        self._table = table
        self._arguments = arguments
        self._progress = progress
        self._is_unknown = False  # whether the state of a commit of data files is unknown
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
        self._deadline = min((one for one in (deadline, own) if one is not None), default=None)

    def work(self) -> tuple[Work, ...]:
        """Return all work that pays, without its files."""
        if not self._is_enabled:
            return ()
        looks = self._looks(self._state())
        return tuple(replace(one, payload=None) for look in looks.values() for one in look.work)

    def run(self) -> MaintenanceReport:
        """Do the work, or plan it. Raises what looking at the table raises; failures of actions are in the report."""
        name = self._table.full_name
        if not self._is_enabled:
            return MaintenanceReport(table=name, dry_run=self._arguments.dry_run, skipped="maintenance.enabled is false")
        if not self._arguments.dry_run:
            refuse_staging(self._table, self._settings.branch)
        state = first_state = self._state()
        looks = self._looks(state)
        chosen = within_budget([one for look in looks.values() for one in look.work], self._settings.max_bytes)
        allotted = {action: sum(one.cost_bytes for one in chosen if one.action is action) for action in MaintenanceAction}
        self._progress.total += len(chosen)
        if self._arguments.dry_run:
            reports = [_planned(action, look, within_budget(look.work, allotted[action])) for action, look in looks.items()]
            return MaintenanceReport(table=name, dry_run=True, actions=tuple(reports))
        reports = []
        is_stale = False
        for action, first_look in looks.items():
            try:
                if is_stale:
                    self._table.refresh()
                is_stale = False
                if self._table.metadata is not state.metadata:
                    state = self._state()
                # An earlier action may have renewed the state. A plan that is older than the state would be validated from the state's snapshot, so
                # that deletes which others committed in between were neither applied nor a conflict.
                look = first_look if state is first_state else self._look(action, state)
                report = self._run(action, state, look, allotted[action])
                if action is MaintenanceAction.REWRITE_DATA_FILES:
                    report = self._further_rounds(state, report, allotted[action])
            except CommitUnknownError as error:
                reports.append(failure_of(action, error))
                break  # nothing more is changed while the state of a commit is unknown
            except (CommitConflictError, CommitInvalidatedError) as error:
                report, is_stale = report_of(action, ActionState.LEFT, (), [_lost_to_others(action, error)]), True
            except Exception as error:  # noqa: BLE001  it is in the report
                log_failure(name, f"{action} failed", error)
                report = failure_of(action, error)
            is_stale |= report.state is ActionState.FAILED
            reports.append(report)
            if self._is_unknown:
                break
        return MaintenanceReport(table=name, actions=tuple(reports))

    def _further_rounds(self, state: TableState, report: ActionReport, allotted: int) -> ActionReport:
        """Rewrite data files of older partition specs again: they are in other partitions now, where there may be enough of them."""
        action = MaintenanceAction.REWRITE_DATA_FILES
        for _ in range(MOST_ROUNDS - 1):
            if report.state is not ActionState.DONE or not _moves_files(state):
                break
            try:
                state = self._state()
                further = self._run(action, state, self._look(action, state), max(0, allotted - report.rewritten_bytes))
            except Exception as error:  # noqa: BLE001  the report of the rounds before is kept
                log_failure(self._table.full_name, f"a further round of {action} failed", error)
                further = failure_of(action, error)
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

    def _looks(self, state: TableState) -> dict[MaintenanceAction, Look]:
        return {action: self._look(action, state) for action in MaintenanceAction}

    def _look(self, action: MaintenanceAction, state: TableState) -> Look:
        if action in self._settings.skipped:
            return Look(left=(LeftWork(action=action, what="the action", reason="it is named in maintenance.skip-actions"),))
        return LOOKS[action](state)

    def _run(self, action: MaintenanceAction, state: TableState, look: Look, allotted: int) -> ActionReport:
        """Run one action within its part of the budget."""
        limit = None if self._settings.max_bytes is None else allotted
        chosen = within_budget(look.work, limit)
        left = [*look.left, *map(_over_budget, _others(look.work, chosen))]
        if not chosen:
            return report_of(action, ActionState.LEFT if left else ActionState.NOTHING, (), left)
        if action is MaintenanceAction.CONVERT_EQUALITY_DELETES:
            return self._convert(state, chosen, left)
        if action is MaintenanceAction.REWRITE_DATA_FILES:
            return self._rewrite(state, chosen, left)
        if action is MaintenanceAction.REWRITE_POSITION_DELETE_FILES:
            return self._rewrite_deletes(state, chosen, left)
        if self._is_over():
            return report_of(action, ActionState.LEFT, (), [*left, *map(_out_of_time, chosen)])
        done = self._do(action, state, chosen)
        self._progress.done += len(chosen)
        return replace(report_of(action, ActionState.DONE, chosen, left), detail=done[0], snapshot_ids=done[1])

    def _do(self, action: MaintenanceAction, state: TableState, chosen: Sequence[Work]) -> tuple[str, tuple[int, ...]]:
        """Return what an action did, in words, and its snapshots."""
        table, branch = self._table, self._settings.branch
        match action:
            case MaintenanceAction.EXPIRE_SNAPSHOTS:
                retention = retention_of(state)
                report = expire_snapshots(table, retention.older_than_ms, retention.retain_last, engine=self._settings.engine)
                undeleted = f"; {count_text(len(report.undeleted), 'file')} could not be deleted" if report.undeleted else ""
                deleted = f"{count_text(report.deleted_files, 'file')} deleted, {size_text(report.deleted_bytes)}"
                return f"{count_text(len(report.snapshot_ids), 'snapshot')} expired, {deleted}{undeleted}", ()
            case MaintenanceAction.REMOVE_DANGLING_DELETES:
                removal = remove_dangling_deletes(table, branch=branch, snapshot_properties=self._summary(action, chosen))
                snapshots = () if removal.snapshot_id is None else (removal.snapshot_id,)
                return f"{count_text(removal.removed_files, 'delete file')} removed, {size_text(removal.removed_bytes)}", snapshots
            case MaintenanceAction.REWRITE_MANIFESTS:
                results = [
                    rewrite_manifests(
                        table,
                        one.payload if isinstance(one.payload, int) else None,
                        snapshot_properties=self._summary(action, [one]),
                        branch=branch,
                    )
                    for one in chosen
                ]
                before, after = sum(one.rewritten_manifests for one in results), sum(one.added_manifests for one in results)
                ids = tuple(one.snapshot_id for one in results if one.snapshot_id is not None)
                return f"{count_text(before, 'manifest')} became {after:,}", ids
            case MaintenanceAction.COMPUTE_PARTITION_STATS:
                rows = table.compute_partition_statistics()
                return f"{count_text(0 if rows is None else len(rows), 'partition')} counted", ()
            case MaintenanceAction.COMPUTE_TABLE_STATS:
                statistics = table.compute_statistics()
                return f"{count_text(0 if statistics is None else len(statistics.blobs), 'column')} counted", ()
            case MaintenanceAction.REMOVE_ORPHAN_FILES:
                return "; ".join(self._remove_orphan_files(chosen)), ()
            case _:
                raise AssertionError(action)

    def _remove_orphan_files(self, chosen: Sequence[Work]) -> Iterator[str]:
        """Delete the files of old lists and write a new list, as far as each is due. Yield what was done, in words."""
        steps = [one.payload for one in chosen if isinstance(one.payload, OrphanWork)]
        now_ms = self._table.handle.clock.now_ms()
        if any(step.purges for step in steps):
            purged = remove_orphan_files(self._table, two_step_options(now_ms, OrphanMode.PURGE))
            undeleted = f", {purged.undeleted_files:,} could not be deleted" if purged.undeleted_files else ""
            yield f"{count_text(purged.deleted_files, 'listed file')} deleted, {size_text(purged.orphan_bytes)}{undeleted}"
        if any(step.searches for step in steps):
            found = remove_orphan_files(self._table, two_step_options(now_ms, OrphanMode.QUARANTINE))
            yield f"{count_text(found.orphan_files, 'orphan file')}, {size_text(found.orphan_bytes)}, listed in {found.lists[0]}"

    def _convert(self, state: TableState, chosen: Sequence[Work], left: Sequence[LeftWork]) -> ActionReport:
        """Convert equality deletes in several commits."""
        action = MaintenanceAction.CONVERT_EQUALITY_DELETES

        def part_of(work: Sequence[Work]) -> Slice[ConvertEqualityDeletesResult]:
            conversion = EqualityDeleteConversion(
                self._table,
                None,
                conversion_options({"partial-progress.enabled": True}),
                branch=self._settings.branch,
                engine=self._settings.engine,
                snapshot_properties=self._summary(action, work),
            )
            groups = [one.payload for one in work if isinstance(one.payload, EqualityDeleteGroup)]
            plan = conversion.plan_of(state.files.plan.snapshot_id, groups)
            return Slice(run=partial(conversion.run_groups, plan, plan.groups), committed=partial(conversion.committed, plan))

        slices = self._in_slices(action, chosen, part_of)
        converted, searched, added = slices.totals("converted_delete_files", "searched_data_files", "added_delete_files")
        became = f"{count_text(converted, 'equality delete file')} became {count_text(added, 'delete file')}, {count_text(searched, 'data file')} searched"
        report = _sliced(action, slices, left, became if converted or added else "")
        return replace(report, files=converted)

    def _rewrite(self, state: TableState, chosen: Sequence[Work], left: Sequence[LeftWork]) -> ActionReport:
        """Rewrite data files in several commits, and then remove the deletes that apply to none any more."""
        action = MaintenanceAction.REWRITE_DATA_FILES

        def part_of(work: Sequence[Work]) -> Slice[RewriteDataFilesResult]:
            rewrite = DataFileRewrite(
                self._table,
                state.files.plan.row_filter,
                state.options,
                state.metadata.sort_order(),
                branch=self._settings.branch,
                engine=self._settings.engine,
                snapshot_properties=self._summary(action, work),
            )
            groups = [one.payload for one in work if isinstance(one.payload, FileGroup)]
            return Slice(run=partial(rewrite.run_groups, state.rewrite, groups), committed=partial(rewrite.committed, state.rewrite))

        slices = self._in_slices(action, chosen, part_of)
        if slices.snapshot_ids and not self._is_unknown and MaintenanceAction.REMOVE_DANGLING_DELETES not in self._settings.skipped:

            def remove() -> None:
                try:
                    removal = remove_dangling_deletes(
                        self._table, branch=self._settings.branch, snapshot_properties=self._summary(action, ())
                    )
                except (CommitConflictError, CommitInvalidatedError) as error:
                    slices.left.append(_lost_to_others(MaintenanceAction.REMOVE_DANGLING_DELETES, error))
                else:
                    slices.snapshot_ids.extend(() if removal.snapshot_id is None else (removal.snapshot_id,))

            failed = self._failure_of(remove)
            slices.failures += [f"dangling deletes were not removed: {failed}"] if failed else ()
        files, rewritten, added = slices.totals("rewritten_files", "rewritten_bytes", "added_files")
        became = f"{count_text(files, 'file')}, {size_text(rewritten)}, became {added:,}" if files else ""
        return replace(_sliced(action, slices, left, became), files=files, rewritten_bytes=rewritten)

    def _rewrite_deletes(self, state: TableState, chosen: Sequence[Work], left: Sequence[LeftWork]) -> ActionReport:
        """Rewrite position delete files and vectors in several commits."""
        action = MaintenanceAction.REWRITE_POSITION_DELETE_FILES

        def part_of(work: Sequence[Work]) -> Slice[RewritePositionDeleteFilesResult]:
            rewrite = PositionDeleteRewrite(
                self._table,
                None,
                position_delete_options({"partial-progress.enabled": True}, state.metadata),
                branch=self._settings.branch,
                engine=self._settings.engine,
                snapshot_properties=self._summary(action, work),
            )
            groups = [one.payload for one in work if isinstance(one.payload, DeleteGroup)]
            plan = state.position_deletes
            return Slice(run=partial(rewrite.run_groups, plan, groups), committed=partial(rewrite.committed, plan))

        slices = self._in_slices(action, chosen, part_of)
        files, rewritten, added = slices.totals("rewritten_files", "rewritten_bytes", "added_files")
        became = f"{count_text(files, 'delete file')}, {size_text(rewritten)}, became {added:,}" if files else ""
        return replace(_sliced(action, slices, left, became), files=files, rewritten_bytes=rewritten)

    def _in_slices(self, action: MaintenanceAction, chosen: Sequence[Work], part_of: Callable[[Sequence[Work]], Slice[R]]) -> SlicesDone[R]:
        """Do work in several commits. A failure stops its own slice alone, except where the state of a commit is unknown."""
        slices: SlicesDone[R] = SlicesDone()
        for work in _slices(chosen):
            if self._is_unknown or self._is_over():
                slices.left += map(_after_unknown if self._is_unknown else _out_of_time, work)
                continue
            part = part_of(work)
            failed = self._failure_of(part.run)
            result = part.committed()
            self._progress.done += len(work)
            slices.results.append(result)
            slices.snapshot_ids += result.snapshot_ids
            slices.failures += [f"given up: {count_text(one.files, 'file')}: {one.reason}" for one in result.failed if not one.is_lost]
            slices.failures += [f"not all was done: {failed}"] if failed else ()
            slices.left += [_lost(action, one) for one in result.failed if one.is_lost]
            slices.done += work if not result.failed and not failed else ()
        return slices

    def _failure_of(self, step: Callable[[], object]) -> str:
        """Do a step of an action. Return its error in words, empty without one, so that the report of the steps before is kept."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  it is in the report
            log_failure(self._table.full_name, "a step of an action failed", error)
            self._is_unknown = isinstance(error, CommitUnknownError)
            return in_words(error)
        return ""

    def _summary(self, action: MaintenanceAction, work: Iterable[Work]) -> dict[str, str]:
        """Return the entries of a snapshot's summary that record what was done and what was expected of it."""
        pieces = list(work)
        return {
            **self._arguments.snapshot_properties,
            "maintenance.action": action.value,
            "maintenance.expected-files-less": str(sum(one.files_less for one in pieces)),
            "maintenance.expected-bytes-less": str(sum(one.bytes_less for one in pieces)),
            "maintenance.cost-bytes": str(sum(one.cost_bytes for one in pieces)),
        }

    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline


def within_budget(work: Iterable[Work], max_bytes: int | None) -> list[Work]:
    """Return the work of the highest worth that costs at most so many bytes together."""
    ranked = sorted(work, key=lambda one: -one.worth)
    if max_bytes is None:
        return ranked
    chosen, spent = [], 0
    for one in ranked:
        if spent + one.cost_bytes <= max_bytes:
            chosen.append(one)
            spent += one.cost_bytes
    return chosen


def maintain_table(table: LoadedTable, arguments: MaintenanceArguments, progress: MaintenanceProgress | None = None) -> MaintenanceReport:
    """Maintain one table. Arguments and errors are those of `TableMaintenance.maintain`."""
    arguments.check()
    return TableMaintenanceRun(table, arguments, None, progress or MaintenanceProgress()).run()


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _others(work: Sequence[Work], chosen: Sequence[Work]) -> list[Work]:
    ids = set(map(id, chosen))
    return [one for one in work if id(one) not in ids]


def _slices(work: Sequence[Work]) -> Iterator[list[Work]]:
    """Divide work into commits, in the order of its worth."""
    most = max(SLICE_BYTES, -(-sum(one.cost_bytes for one in work) // MOST_SLICES))
    part: list[Work] = []
    size = 0
    for one in work:
        if part and size + one.cost_bytes > most:
            yield part
            part, size = [], 0
        part.append(one)
        size += one.cost_bytes
    if part:
        yield part


def _moves_files(state: TableState) -> bool:
    """Return whether files of older partition specs were rewritten."""
    return any(part.spec_id != state.metadata.default_spec_id for group in state.rewrite.groups for part in group.files)


def _over_budget(one: Work) -> LeftWork:
    return LeftWork(action=one.action, what=one.what, reason=f"{size_text(one.cost_bytes)} are more than what is left of max-bytes")


def _out_of_time(one: Work) -> LeftWork:
    return LeftWork(action=one.action, what=one.what, reason="max-minutes were over")


def _after_unknown(one: Work) -> LeftWork:
    return LeftWork(action=one.action, what=one.what, reason="the state of a commit before is unknown")


def _lost_to_others(action: MaintenanceAction, error: IcefloeError) -> LeftWork:
    return LeftWork(
        action=action, what="the action", reason=f"other writers committed first, so that it is left for the next run: {in_words(error)}"
    )


def _lost(action: MaintenanceAction, group: FailedGroup) -> LeftWork:
    return LeftWork(
        action=action,
        what=count_text(group.files, "file"),
        reason=f"another writer committed first, so that they are left for the next run: {group.reason}",
    )


def _sliced(action: MaintenanceAction, slices: SlicesDone[R], left: Sequence[LeftWork], became: str) -> ActionReport:
    """Return the report of an action that was done in slices; `became` is empty if it changed nothing."""
    state = ActionState.FAILED if slices.failures else ActionState.DONE if became else ActionState.LEFT
    report = report_of(action, state, slices.done, [*left, *slices.left])
    return replace(report, detail="; ".join([*([became] if became else []), *slices.failures]), snapshot_ids=tuple(slices.snapshot_ids))


def _planned(action: MaintenanceAction, look: Look, chosen: Sequence[Work]) -> ActionReport:
    left = [*look.left, *map(_over_budget, _others(look.work, chosen))]
    state = ActionState.PLANNED if chosen else ActionState.LEFT if left else ActionState.NOTHING
    return replace(report_of(action, state, chosen, left), detail="; ".join(one.what for one in chosen[:3]) + _more(chosen[3:]))


def _more(work: Sequence[Work]) -> str:
    return f"; {len(work):,} more" if work else ""
