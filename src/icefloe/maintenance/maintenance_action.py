"""`TableAction`: one action of maintenance: what it would do to a table, and how it does it. `maintain.py` ranks the work of all actions and runs them.

The actions are in `upkeep_actions.py` and `rewrite_actions.py`. `TableState` is the table at one moment, from which they decide.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

from icefloe.errors import CommitUnknownError
from icefloe.formatting import count_text
from icefloe.maintenance.clustering_depth import is_misplaced
from icefloe.maintenance.group_rewrite import GroupRewrite, GroupRewriteResult
from icefloe.maintenance.health_measures import FilesOfBranch, TableMeasures, measure
from icefloe.maintenance.maintenance_report import ActionReport, ActionState, LeftWork, PlannedWork, in_words, log_failure, report_of
from icefloe.maintenance.maintenance_thresholds import GROUP_FILES
from icefloe.maintenance.position_delete_planner import PositionDeletePlan, plan_position_deletes
from icefloe.maintenance.recent_changes import RecentChanges, recent_changes
from icefloe.maintenance.rewrite_options import RewriteOptions, position_delete_options, rewrite_options
from icefloe.maintenance.rewrite_planner import RewritePlan, plan_rewrite
from icefloe.operations.loaded_table import LoadedTable
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema

MINUTE_MS = 60_000
# Files are rewritten in commits of about so many bytes, and of at most a tenth of the work, so that a run may stop in between.
SLICE_BYTES = 1 << 30
MOST_SLICES = 10

R = TypeVar("R", bound=GroupRewriteResult)


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


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What an action would do at one state of a table: the work that pays, and what is left."""

    work: tuple[PlannedWork, ...] = ()
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
        overlaps = None if order.is_unsorted else partial(is_misplaced, order=order, schema=self.files.schema)
        return plan_rewrite(self.files.plan, self.metadata, self.options, overlaps)

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

    @cached_property
    def _plans(self) -> "dict[MaintenanceAction, ActionPlan]":
        return {}

    def plan_of(self, action: "TableAction") -> "ActionPlan":
        """Return what an action would do, planned once; an action that is named in `maintenance.skip-actions` does nothing."""
        if action.name not in self._plans:
            skipped = LeftWork(action=action.name, what="the action", reason="it is named in maintenance.skip-actions")
            self._plans[action.name] = ActionPlan(left=(skipped,)) if action.name in self.settings.skipped else action.plan(self)
        return self._plans[action.name]


@dataclass(slots=True)
class MaintenanceProgress:
    """The pieces of work of a run that are done, and all of them; another thread may read it."""

    done: int = 0
    total: int = 0


@dataclass(slots=True)
class SlicesDone(Generic[R]):
    """The outcome of the slices of an action; `done` is the work of the slices in which nothing failed."""

    results: list[R] = field(default_factory=list)
    done: list[PlannedWork] = field(default_factory=list)
    left: list[LeftWork] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    snapshot_ids: list[int] = field(default_factory=list)

    def totals(self, *names: str) -> tuple[int, ...]:
        """Return for each of the named fields its sum over all results, in the order of the names."""
        return tuple(sum(getattr(result, name) for result in self.results) for name in names)


@dataclass(slots=True, kw_only=True)
class ActionRun:
    """What actions know of the run that they are a part of.

    Attributes:
        table: The table.
        settings: The limits of the run.
        snapshot_properties: Entries of the summary of every snapshot.
        progress: Is updated while the run lasts.
        deadline: The time by `time.monotonic` after which no further work is started; None for no limit.
        is_unknown: Whether the state of a commit is unknown: nothing more is changed then.
    """

    table: LoadedTable
    settings: Settings
    snapshot_properties: Mapping[str, str]
    progress: MaintenanceProgress
    deadline: float | None
    is_unknown: bool = False

    @property
    def is_over(self) -> bool:
        """Whether no further work is started."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def summary(self, action: MaintenanceAction, work: Iterable[PlannedWork]) -> dict[str, str]:
        """Return the entries of a snapshot's summary that record what was done and what was expected of it."""
        pieces = list(work)
        return {
            **self.snapshot_properties,
            "maintenance.action": action.value,
            "maintenance.expected-files-less": str(sum(piece.files_less for piece in pieces)),
            "maintenance.expected-bytes-less": str(sum(piece.bytes_less for piece in pieces)),
            "maintenance.cost-bytes": str(sum(piece.cost_bytes for piece in pieces)),
        }

    def failure_of(self, step: Callable[[], object]) -> str:
        """Do a step of an action. Return its error in words, empty without one, so that the report of the steps before is kept."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  it is in the report
            log_failure(self.table.full_name, "a step of an action failed", error)
            self.is_unknown = isinstance(error, CommitUnknownError)
            return in_words(error)
        return ""


class TableAction(ABC):
    """One kind of maintenance, such as expiring snapshots: it plans its work on a table, and does the part of the work that the budget allows.

    `maintain.py` has the list of all actions, and divides the budget among them.
    """

    name: ClassVar[MaintenanceAction]

    @abstractmethod
    def plan(self, state: TableState) -> ActionPlan:
        """Return the work that is worth its cost, and the work that is not done, with the reasons."""

    @abstractmethod
    def execute(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork], left: Sequence[LeftWork]) -> ActionReport:
        """Do the work until the time is over. Return the report, which also lists `left`: the work that was excluded before, with the reasons."""

    def leave(self, what: str, reason: str) -> LeftWork:
        """Return a record of work that this action does not do, with the reason."""
        return LeftWork(action=self.name, what=what, reason=reason)


class WholeAction(TableAction):
    """An action that does all its work in one call, such as expiring snapshots; `SlicedAction` divides its work."""

    @abstractmethod
    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        """Do the work. Return what was done, in words, and the snapshots that were committed."""

    def execute(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork], left: Sequence[LeftWork]) -> ActionReport:
        if run.is_over:
            return report_of(self.name, ActionState.LEFT, (), [*left, *map(_out_of_time, work)])
        detail, snapshot_ids = self.run(run, state, work)
        run.progress.done += len(work)
        return replace(report_of(self.name, ActionState.DONE, work, left), detail=detail, snapshot_ids=snapshot_ids)


class SlicedAction(TableAction, Generic[R]):
    """An action that rewrites groups of files, in several commits. A failure stops its own commit alone, except where the state of a commit is unknown."""

    @abstractmethod
    def rewrite(
        self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]
    ) -> "tuple[GroupRewrite[Any, Any, R], Any, Sequence[Any]]":
        """Return the rewrite of a part of the work, which is committed by itself, a plan, and the groups of it that are rewritten."""

    @abstractmethod
    def outcome(self, slices: SlicesDone[R]) -> tuple[str, int, int | None]:
        """Return what was done, in words, empty if nothing changed; the files; and the bytes that were rewritten, None for the cost of the work."""

    def finish(self, run: ActionRun, slices: SlicesDone[R]) -> None:
        """Do what follows the last commit."""

    def execute(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork], left: Sequence[LeftWork]) -> ActionReport:
        slices: SlicesDone[R] = SlicesDone()
        for part_of_work in _slices(work):
            if run.is_unknown or run.is_over:
                slices.left += map(_after_unknown if run.is_unknown else _out_of_time, part_of_work)
                continue
            rewrite, plan, groups = self.rewrite(run, state, part_of_work)
            failure = run.failure_of(partial(rewrite.run_groups, plan, groups))
            result = rewrite.committed_result(plan)
            run.progress.done += len(part_of_work)
            slices.results.append(result)
            slices.snapshot_ids += result.snapshot_ids
            slices.failures += [
                f"given up: {count_text(group.files, 'file')}: {group.reason}" for group in result.failed if not group.is_lost
            ]
            slices.failures += [f"not all was done: {failure}"] if failure else ()
            slices.left += [
                self.leave(
                    count_text(group.files, "file"),
                    f"another writer committed first, so that they are left for the next run: {group.reason}",
                )
                for group in result.failed
                if group.is_lost
            ]
            slices.done += part_of_work if not result.failed and not failure else ()
        self.finish(run, slices)
        detail, files, rewritten_bytes = self.outcome(slices)
        became = ActionState.FAILED if slices.failures else ActionState.DONE if detail else ActionState.LEFT
        report = report_of(self.name, became, slices.done, [*left, *slices.left])
        return replace(
            report,
            files=files,
            rewritten_bytes=report.rewritten_bytes if rewritten_bytes is None else rewritten_bytes,
            detail="; ".join([*([detail] if detail else []), *slices.failures]),
            snapshot_ids=tuple(slices.snapshot_ids),
        )


def _slices(work: Sequence[PlannedWork]) -> Iterator[list[PlannedWork]]:
    """Divide work into commits, in the order of its worth."""
    most = max(SLICE_BYTES, -(-sum(piece.cost_bytes for piece in work) // MOST_SLICES))
    part: list[PlannedWork] = []
    size = 0
    for piece in work:
        if part and size + piece.cost_bytes > most:
            yield part
            part, size = [], 0
        part.append(piece)
        size += piece.cost_bytes
    if part:
        yield part


def _out_of_time(work: PlannedWork) -> LeftWork:
    return LeftWork(action=work.action, what=work.what, reason="max-minutes were over")


def _after_unknown(work: PlannedWork) -> LeftWork:
    return LeftWork(action=work.action, what=work.what, reason="the state of a commit before is unknown")
