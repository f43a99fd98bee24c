"""`maintain`: looks at a table, ranks what would pay, and does it within a budget: the one command that keeps a table quick to read.

`maintenance_actions.py` finds the work. Actions run in the order of `MaintenanceAction`, each within its part of the budget, the work of the
highest worth first. A failed action does not stop the others, except where the state of a commit is unknown. Spec: Snapshots (operation replace).
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from icefloe.display.formatting import count_text, size_text
from icefloe.display.html import ShownAsText
from icefloe.errors import CommitUnknownError, IcefloeError, InvalidInputError, in_one_line
from icefloe.kernel.metadata import maintenance_properties as properties_of_policy
from icefloe.kernel.metadata.maintenance_properties import MaintenanceAction
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.maintenance.dangling_deletes import refuse_staging, remove_dangling_deletes
from icefloe.maintenance.health_measures import files_of_branch
from icefloe.maintenance.maintenance_actions import LOOKS, LeftWork, Look, Settings, TableState, Work, retention_of
from icefloe.maintenance.rewrite_data_files import DataFileRewrite, FailedGroup
from icefloe.maintenance.rewrite_planner import FileGroup
from icefloe.table.table import Table

LOG = logging.getLogger(__name__)
# Data files are rewritten in commits of about so many bytes, and of at most a tenth of the work, so that a run may stop in between.
SLICE_BYTES = 1 << 30
MOST_SLICES = 10
# Rounds of rewriting data files where files move to partitions of another spec.
MOST_ROUNDS = 3
# Pieces of left work that a report names for each action; the others are counted.
NAMED_LEFT = 20


class ActionState(StrEnum):
    """What became of an action."""

    DONE = "done"
    PLANNED = "planned"
    NOTHING = "nothing to do"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReport:
    """One action of a run.

    Attributes:
        action: The action.
        state: What became of it.
        files: Files, snapshots or manifests that it changed or would change.
        rewritten_bytes: Bytes of files that it rewrote or would rewrite, or read for statistics.
        files_less: Files that a scan opens less afterwards, by estimate.
        bytes_less: Bytes that a scan reads less afterwards, by estimate.
        worth: The benefit for the cost; from 1 on work pays.
        detail: What was done or would be, in words; of a failed action the error.
        snapshot_ids: The snapshots that were committed.
        left: What is left undone, and why.
        left_count: All pieces of left work, with those that are not named.
    """

    action: MaintenanceAction
    state: ActionState
    files: int = 0
    rewritten_bytes: int = 0
    files_less: int = 0
    bytes_less: int = 0
    worth: float = 0.0
    detail: str = ""
    snapshot_ids: tuple[int, ...] = ()
    left: tuple[LeftWork, ...] = ()
    left_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MaintenanceReport(ShownAsText):
    """What a run did to one table, or with `dry_run` would do.

    Attributes:
        table: The table.
        dry_run: Whether nothing was changed.
        actions: The actions, in the order in which they ran.
        skipped: Why the whole table was left alone; empty if it was not.
        error: Why the table could not be looked at; empty if it could.
    """

    table: str
    dry_run: bool = False
    actions: tuple[ActionReport, ...] = ()
    skipped: str = ""
    error: str = ""

    @property
    def has_failures(self) -> bool:
        """Whether an action failed, or the table could not be looked at."""
        return bool(self.error) or any(one.state is ActionState.FAILED for one in self.actions)

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of files that were rewritten, or read for statistics."""
        return sum(one.rewritten_bytes for one in self.actions)

    @property
    def is_nothing_to_do(self) -> bool:
        """Whether no action did anything or would do anything."""
        return not self.has_failures and all(one.state in (ActionState.NOTHING, ActionState.LEFT) for one in self.actions)

    def __str__(self) -> str:
        return "\n".join([f"maintain {self.table}" + (" (plan)" if self.dry_run else ""), *(f"  {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        if self.skipped or self.error:
            yield self.skipped or f"failed: {self.error}"
        for one in self.actions:
            yield f"{one.action}: {one.state}" + (f": {one.detail}" if one.detail else "")
            if one.files_less or one.bytes_less:
                yield (
                    f"  {count_text(one.files_less, 'file')} and {size_text(one.bytes_less)} less for each scan,"
                    f" for {size_text(one.rewritten_bytes)}; worth {one.worth:.3g}"
                )
            for left in one.left:
                yield f"  left: {left.what}: {left.reason}"
            if one.left_count > len(one.left):
                yield f"  left: {one.left_count - len(one.left):,} more"


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
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `InvalidInputError` for a negative limit."""
        for name in ("max_bytes", "max_minutes", "min_age_minutes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
                raise InvalidInputError(f"{name} is {value!r}", next_step="pass a number from 0 on, or leave it out")


class TableMaintenanceRun:
    """One run over one table."""

    def __init__(self, table: Table, arguments: MaintenanceArguments, deadline: float | None, progress: MaintenanceProgress) -> None:
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
        self._skipped = properties_of_policy.SKIP_ACTIONS.read(properties)
        max_minutes = _first(arguments.max_minutes, properties_of_policy.MAX_MINUTES.read(properties))
        self._settings = Settings(
            max_bytes=_first(arguments.max_bytes, properties_of_policy.MAX_BYTES.read(properties)),
            max_minutes=max_minutes,
            min_age_minutes=_first(arguments.min_age_minutes, properties_of_policy.MIN_AGE_MINUTES.read(properties)),
            max_wait_minutes=properties_of_policy.MAX_WAIT_MINUTES.read(properties),
            min_snapshot_age_minutes=properties_of_policy.MIN_SNAPSHOT_AGE_MINUTES.read(properties),
            min_snapshots=properties_of_policy.MIN_SNAPSHOTS.read(properties),
            table_stats=properties_of_policy.TABLE_STATS.read(properties),
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
        for action, first_look in looks.items():
            try:
                if reports and reports[-1].state is ActionState.FAILED:
                    self._table.refresh()
                if self._table.metadata is not state.metadata:
                    state = self._state()
                # An earlier action may have renewed the state. A plan that is older than the state would be validated from the state's snapshot, so
                # that deletes which others committed in between were neither applied nor a conflict.
                look = first_look if state is first_state else self._look(action, state)
                report = self._run(action, state, look, allotted[action])
                if action is MaintenanceAction.REWRITE_DATA_FILES:
                    report = self._further_rounds(state, report, allotted[action])
            except CommitUnknownError as error:
                reports.append(_failed(action, error))
                break  # nothing more is changed while the state of a commit is unknown
            except Exception as error:
                LOG.warning("maintenance of %s: %s failed", name, action, exc_info=True)
                report = _failed(action, error)
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
            except Exception as error:  # the report of the rounds before is kept
                LOG.warning("maintenance of %s: a further round of %s failed", self._table.full_name, action, exc_info=True)
                further = _failed(action, error)
            report = _together(report, further)
        return report

    def _state(self) -> TableState:
        table, branch = self._table, self._settings.branch
        metadata = table.metadata
        scan = table.scan().use_ref(branch) if metadata.refs else table.scan()
        now_ms = max(table.handle.clock.now_ms(), metadata.last_updated_ms)
        files = files_of_branch(metadata, scan.snapshot(), table.io.read)
        return TableState(table=table, settings=self._settings, files=files, now_ms=now_ms)

    def _looks(self, state: TableState) -> dict[MaintenanceAction, Look]:
        return {action: self._look(action, state) for action in MaintenanceAction}

    def _look(self, action: MaintenanceAction, state: TableState) -> Look:
        if action in self._skipped:
            return Look(left=(LeftWork(action=action, what="the action", reason="it is named in maintenance.skip-actions"),))
        return LOOKS[action](state)

    def _run(self, action: MaintenanceAction, state: TableState, look: Look, allotted: int) -> ActionReport:
        """Run one action within its part of the budget."""
        limit = None if self._settings.max_bytes is None else allotted
        chosen = within_budget(look.work, limit)
        left = [*look.left, *map(_over_budget, _others(look.work, chosen))]
        if not chosen:
            return _report(action, ActionState.LEFT if left else ActionState.NOTHING, (), left)
        if action is MaintenanceAction.REWRITE_DATA_FILES:
            return self._rewrite(state, chosen, left)
        if self._is_over():
            return _report(action, ActionState.LEFT, (), [*left, *map(_out_of_time, chosen)])
        done = self._do(action, state, chosen)
        self._progress.done += len(chosen)
        return replace(_report(action, ActionState.DONE, chosen, left), detail=done[0], snapshot_ids=done[1])

    def _do(self, action: MaintenanceAction, state: TableState, chosen: Sequence[Work]) -> tuple[str, tuple[int, ...]]:
        """Return what an action did, in words, and its snapshots."""
        table, branch = self._table, self._settings.branch
        match action:
            case MaintenanceAction.EXPIRE_SNAPSHOTS:
                retention = retention_of(state)
                report = table.expire_snapshots(retention.older_than_ms, retention.retain_last, engine=self._settings.engine)
                undeleted = f"; {count_text(len(report.undeleted), 'file')} could not be deleted" if report.undeleted else ""
                deleted = f"{count_text(report.deleted_files, 'file')} deleted, {size_text(report.deleted_bytes)}"
                return f"{count_text(len(report.snapshot_ids), 'snapshot')} expired, {deleted}{undeleted}", ()
            case MaintenanceAction.REMOVE_DANGLING_DELETES:
                removal = remove_dangling_deletes(table, branch=branch, snapshot_properties=self._summary(action, chosen))
                snapshots = () if removal.snapshot_id is None else (removal.snapshot_id,)
                return f"{count_text(removal.removed_files, 'delete file')} removed, {size_text(removal.removed_bytes)}", snapshots
            case MaintenanceAction.REWRITE_MANIFESTS:
                results = [
                    table.rewrite_manifests(
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
            case _:
                raise AssertionError(action)

    def _rewrite(self, state: TableState, chosen: Sequence[Work], left: list[LeftWork]) -> ActionReport:
        """Rewrite data files in several commits, and then remove the deletes that apply to none any more."""
        action = MaintenanceAction.REWRITE_DATA_FILES
        done: list[Work] = []
        ids: list[int] = []
        failures: list[str] = []
        files = rewritten = added = 0
        for part in _slices(chosen):
            if self._is_unknown or self._is_over():
                left += map(_after_unknown if self._is_unknown else _out_of_time, part)
                continue
            rewrite = DataFileRewrite(
                self._table,
                state.files.plan.row_filter,
                state.options,
                state.metadata.sort_order(),
                branch=self._settings.branch,
                engine=self._settings.engine,
                snapshot_properties=self._summary(action, part),
            )
            failed = self._failure_of(
                partial(rewrite.run_groups, state.rewrite, [one.payload for one in part if isinstance(one.payload, FileGroup)])
            )
            result = rewrite.committed(state.rewrite)
            self._progress.done += len(part)
            files, rewritten, added = files + result.rewritten_files, rewritten + result.rewritten_bytes, added + result.added_files
            ids += result.snapshot_ids
            failures += [f"not rewritten: {count_text(one.files, 'file')}: {one.reason}" for one in result.failed if not one.is_lost]
            failures += [f"not all was rewritten: {failed}"] if failed else ()
            left += [_lost(one) for one in result.failed if one.is_lost]
            done += part if not result.failed and not failed else ()
        if ids and not self._is_unknown and MaintenanceAction.REMOVE_DANGLING_DELETES not in self._skipped:

            def remove() -> None:
                removal = remove_dangling_deletes(self._table, branch=self._settings.branch, snapshot_properties=self._summary(action, ()))
                ids.extend(() if removal.snapshot_id is None else (removal.snapshot_id,))

            failed = self._failure_of(remove)
            failures += [f"dangling deletes were not removed: {failed}"] if failed else ()
        became = f"{count_text(files, 'file')}, {size_text(rewritten)}, became {added:,}" if files else ""
        detail = "; ".join([*([became] if became else []), *failures])
        report_state = ActionState.FAILED if failures else ActionState.DONE if files else ActionState.LEFT
        report = _report(action, report_state, done, left)
        return replace(report, files=files, rewritten_bytes=rewritten, detail=detail, snapshot_ids=tuple(ids))

    def _failure_of(self, step: Callable[[], object]) -> str:
        """Do a step of the rewrite of data files. Return its error in words, empty without one, so that the report of the steps before is kept."""
        try:
            step()
        except Exception as error:
            LOG.warning("maintenance of %s: a step of the rewrite of data files failed", self._table.full_name, exc_info=True)
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


def maintain_table(table: Table, arguments: MaintenanceArguments, progress: MaintenanceProgress | None = None) -> MaintenanceReport:
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


def _together(first: ActionReport, second: ActionReport) -> ActionReport:
    """Return the report of two rounds of one action."""
    if second.state in (ActionState.NOTHING, ActionState.LEFT):
        return replace(first, left=second.left, left_count=second.left_count)
    return replace(
        second,
        files=first.files + second.files,
        rewritten_bytes=first.rewritten_bytes + second.rewritten_bytes,
        files_less=first.files_less + second.files_less,
        bytes_less=first.bytes_less + second.bytes_less,
        worth=first.worth,
        detail=f"{first.detail}; {second.detail}",
        snapshot_ids=first.snapshot_ids + second.snapshot_ids,
    )


def _over_budget(one: Work) -> LeftWork:
    return LeftWork(action=one.action, what=one.what, reason=f"{size_text(one.cost_bytes)} are more than what is left of max-bytes")


def _out_of_time(one: Work) -> LeftWork:
    return LeftWork(action=one.action, what=one.what, reason="max-minutes were over")


def _after_unknown(one: Work) -> LeftWork:
    return LeftWork(action=one.action, what=one.what, reason="the state of a commit before is unknown")


def _lost(group: FailedGroup) -> LeftWork:
    return LeftWork(
        action=MaintenanceAction.REWRITE_DATA_FILES,
        what=count_text(group.files, "file"),
        reason=f"another writer committed first, so that they are left for the next run: {group.reason}",
    )


def _planned(action: MaintenanceAction, look: Look, chosen: Sequence[Work]) -> ActionReport:
    left = [*look.left, *map(_over_budget, _others(look.work, chosen))]
    state = ActionState.PLANNED if chosen else ActionState.LEFT if left else ActionState.NOTHING
    return replace(_report(action, state, chosen, left), detail="; ".join(one.what for one in chosen[:3]) + _more(chosen[3:]))


def _more(work: Sequence[Work]) -> str:
    return f"; {len(work):,} more" if work else ""


def _report(action: MaintenanceAction, state: ActionState, work: Sequence[Work], left: Sequence[LeftWork]) -> ActionReport:
    cost, benefit = sum(one.cost_bytes for one in work), sum(one.benefit_bytes for one in work)
    total = Work(action=action, what="", files=0, bytes_less=benefit, cost_bytes=cost)
    return ActionReport(
        action=action,
        state=state,
        files=sum(one.files for one in work),
        rewritten_bytes=cost,
        files_less=sum(one.files_less for one in work),
        bytes_less=sum(one.bytes_less for one in work),
        worth=round(total.worth, 3),
        left=tuple(left[:NAMED_LEFT]),
        left_count=len(left),
    )


def _failed(action: MaintenanceAction, error: Exception) -> ActionReport:
    return ActionReport(action=action, state=ActionState.FAILED, detail=in_words(error))


def in_words(error: Exception) -> str:
    """Return an error as one line of a report, with its class unless it is an `IcefloeError`."""
    return in_one_line(error.message if isinstance(error, IcefloeError) else f"{type(error).__name__}: {error}")
