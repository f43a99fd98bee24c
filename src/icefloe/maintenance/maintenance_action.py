"""`TableAction`: the interface of a maintenance action, which plans its work on a table and does it. `maintain.py` ranks the work of all actions and runs them.

The actions are in `upkeep_actions.py` and `rewrite_actions.py`. They decide from `TableState`, the state of the table at one moment.
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
# A commit rewrites about this many bytes of files, but at most a tenth of the work, so that a run can stop in between.
SLICE_BYTES = 1 << 30
MOST_SLICES = 10

R = TypeVar("R", bound=GroupRewriteResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The limits of a run, from its arguments or the table's properties.

    Attributes:
        max_bytes: The maximum of bytes in files that are rewritten, or read for statistics; None for no limit.
        max_minutes: Minutes after which no further work is started; None for no limit.
        min_age_minutes: Partitions with commits younger than this are left to their writers.
        max_wait_minutes: Files older than this are rewritten in such partitions too, if the young commits only added rows.
        min_snapshot_age_minutes: Snapshots younger than this are kept; None if only the table's retention policy decides.
        min_snapshots: The number of snapshots of each branch that are kept; None if only the table's retention policy decides.
        table_stats: Whether the distinct values of columns are counted again.
        orphan_files: Whether orphan files are searched, and the files of old lists deleted.
        skipped: Actions that do not run.
        branch: The branch that is maintained.
        engine: `spark` or `in-process`; None for an automatic choice.
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
    """The plan of an action for one state of a table: the work that pays, and the work that is left."""

    work: tuple[PlannedWork, ...] = ()
    left: tuple[LeftWork, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class TableState:
    """The state of a table at one moment, from which every action decides.

    Attributes:
        table: The table.
        settings: The limits of the run.
        files: All files of the branch.
        now_ms: The time of the state, in milliseconds since 1970-01-01 UTC.
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
        """The measures that `health_measures.py` computes, without the clustering of columns: no action needs it, and it takes a third of a plan's time."""
        return measure(replace(self.files, schema=Schema()), self.now_ms)

    @cached_property
    def recent(self) -> RecentChanges:
        """The partitions that young commits changed; they are left to their writers."""
        since = self.now_ms - int(self.settings.min_age_minutes * MINUTE_MS)
        return recent_changes(self.files, since, self.table.io.read)

    @cached_property
    def options(self) -> RewriteOptions:
        """The options of a rewrite of data files."""
        order = self.metadata.sort_order()
        target = table_properties.TARGET_FILE_SIZE_BYTES.read(self.metadata.properties)
        given: dict[str, Any] = {"partial-progress.enabled": True}
        if order.is_unsorted:  # if half a partition were sorted, its files would overlap with the other half
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
        """Return the plan of an action, computed once; an action in `maintenance.skip-actions` has no work."""
        if action.name not in self._plans:
            skipped = LeftWork(action=action.name, what="the action", reason="it is named in maintenance.skip-actions")
            self._plans[action.name] = ActionPlan(left=(skipped,)) if action.name in self.settings.skipped else action.plan(self)
        return self._plans[action.name]


@dataclass(slots=True)
class MaintenanceProgress:
    """The number of finished pieces of work in a run, and of all pieces; another thread may read it."""

    done: int = 0
    total: int = 0


@dataclass(slots=True)
class SlicesDone(Generic[R]):
    """The outcome of an action's slices so far: their results, the work of the slices without a failure, the work that is left, and the failures."""

    results: list[R] = field(default_factory=list)
    done: list[PlannedWork] = field(default_factory=list)
    left: list[LeftWork] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    snapshot_ids: list[int] = field(default_factory=list)

    def totals(self, *names: str) -> tuple[int, ...]:
        """Return the sum of each named field over all results, in the order of the names."""
        return tuple(sum(getattr(result, name) for result in self.results) for name in names)


@dataclass(slots=True, kw_only=True)
class ActionRun:
    """The part of a run's state that its actions need.

    Attributes:
        table: The table.
        settings: The limits of the run.
        snapshot_properties: Entries for the summary of every snapshot.
        progress: The counts of work, updated while the run lasts.
        deadline: The time by `time.monotonic` after which no further work is started; None for no limit.
        is_unknown: Whether the state of a commit is unknown. Then nothing more is changed.
    """

    table: LoadedTable
    settings: Settings
    snapshot_properties: Mapping[str, str]
    progress: MaintenanceProgress
    deadline: float | None
    is_unknown: bool = False

    @property
    def is_over(self) -> bool:
        """Whether no further work may be started."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def summary(self, action: MaintenanceAction, work: Iterable[PlannedWork]) -> dict[str, str]:
        """Return entries for a snapshot's summary: the action, its work, and the expected benefit."""
        pieces = list(work)
        return {
            **self.snapshot_properties,
            "maintenance.action": action.value,
            "maintenance.expected-files-less": str(sum(piece.files_less for piece in pieces)),
            "maintenance.expected-bytes-less": str(sum(piece.bytes_less for piece in pieces)),
            "maintenance.cost-bytes": str(sum(piece.cost_bytes for piece in pieces)),
        }

    def failure_of(self, step: Callable[[], object]) -> str:
        """Run a step of an action, and return its error as text, or an empty text. So the report keeps the results of earlier steps."""
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
        """Return the work whose benefit is worth its cost, and the work that is left, with the reasons."""

    @abstractmethod
    def execute(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork], left: Sequence[LeftWork]) -> ActionReport:
        """Do the work until the time is over. Return the report, including `left`: work that was excluded before, with the reasons."""

    def leave(self, what: str, reason: str) -> LeftWork:
        """Return a record of work that this action does not do, with the reason."""
        return LeftWork(action=self.name, what=what, reason=reason)


class WholeAction(TableAction):
    """An action that does all its work in one call, such as expiring snapshots; `SlicedAction` divides its work."""

    @abstractmethod
    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        """Do the work. Return a description of the result, and the ids of the committed snapshots."""

    def execute(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork], left: Sequence[LeftWork]) -> ActionReport:
        if run.is_over:
            return report_of(self.name, ActionState.LEFT, (), [*left, *map(_out_of_time, work)])
        detail, snapshot_ids = self.run(run, state, work)
        run.progress.done += len(work)
        return replace(report_of(self.name, ActionState.DONE, work, left), detail=detail, snapshot_ids=snapshot_ids)


class SlicedAction(TableAction, Generic[R]):
    """An action that rewrites groups of files in several commits, the slices. A failure stops only its own slice, unless the state of a commit is unknown."""

    @abstractmethod
    def rewrite(
        self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]
    ) -> "tuple[GroupRewrite[Any, Any, R], Any, Sequence[Any]]":
        """Return the rewrite that does one slice of the work, with its plan and the groups to rewrite."""

    @abstractmethod
    def outcome(self, slices: SlicesDone[R]) -> tuple[str, int, int | None]:
        """Summarize the results of all slices for the report.

        Returns:
            A description of the result, empty if nothing changed; the number of changed files; and the rewritten bytes, or None if the report shows the cost of
            the finished work instead.
        """

    def finish(self, run: ActionRun, slices: SlicesDone[R]) -> None:
        """Do the work that follows the last commit."""

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
    """Divide work into slices, one for each commit, in the order of its worth."""
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
