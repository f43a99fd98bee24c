"""`MaintenanceReport`: the results of a maintenance run on a table, by action; the work that would pay, and the work that is left, with the reasons."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from icefloe.display.report import Column, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import IcefloeError, in_one_line
from icefloe.formatting import count_text, short_text, size_text
from icefloe.maintenance.maintenance_thresholds import FILE_OPEN_BYTES, REWRITE_COST, SCANS
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction

LOG = logging.getLogger(__name__)
# The number of pieces of left work that a report lists for each action; the others are only counted.
NAMED_LEFT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWork:
    """A piece of work whose benefit is worth its cost.

    Attributes:
        action: The action that does the work.
        what: A description of the work.
        files: The number of files that are rewritten, removed or written.
        files_less: The number of files that a scan need not open any more.
        bytes_less: The number of bytes that a scan need not read any more.
        cost_bytes: The size of the files that are rewritten, or read for statistics.
        payload: The object on which the action works, such as a group of files; None for a `WholeAction`.
    """

    action: MaintenanceAction
    what: str
    files: int
    files_less: int = 0
    bytes_less: int = 0
    cost_bytes: int = 0
    payload: Any = field(default=None, repr=False)

    @property
    def benefit_bytes(self) -> int:
        """The benefit for one scan, as the number of bytes that it need not read; opening a file counts as `FILE_OPEN_BYTES`."""
        return self.bytes_less + self.files_less * FILE_OPEN_BYTES

    @property
    def worth(self) -> float:
        """The benefit for `SCANS` scans divided by the cost; the work pays if this is at least 1."""
        return self.benefit_bytes * SCANS / max(1, self.cost_bytes * REWRITE_COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftWork:
    """Work that a maintenance run does not do, and the reason."""

    action: MaintenanceAction
    what: str
    reason: str


class ActionState(StrEnum):
    """The outcome of a maintenance action."""

    DONE = "done"
    PLANNED = "planned"
    NOTHING = "nothing to do"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReport:
    """The results of one action in a maintenance run.

    Attributes:
        action: The name of the action.
        state: Its outcome.
        files: The number of files, snapshots or manifests that it changed, or would change.
        rewritten_bytes: The size of the files that it rewrote, or read for statistics, or would.
        files_less: The estimated number of files that a scan need not open any more.
        bytes_less: The estimated number of bytes that a scan need not read any more.
        worth: The benefit divided by the cost; work pays if this is at least 1.
        detail: A description of the result; for a failed action the error.
        snapshot_ids: The snapshots that were committed.
        left: Work that is left, with the reasons.
        left_count: The number of all pieces of left work, including those that `left` does not list.
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
class MaintenanceReport(OperationResult):
    """The result of a run on one table; with `dry_run`, the result that the call would have.

    Attributes:
        table: The table.
        dry_run: Whether nothing was changed.
        actions: The actions, in the order in which they ran.
        skipped: The reason why the whole table was skipped; empty if it was not skipped.
        error: The error that occurred when the table was loaded, or its work was planned; empty if there was none.
    """

    table: str
    dry_run: bool = False
    actions: tuple[ActionReport, ...] = ()
    skipped: str = ""
    error: str = ""

    @property
    def has_failures(self) -> bool:
        """Whether an action failed, or the table could not be loaded, or its work could not be planned."""
        return bool(self.error) or any(action.state is ActionState.FAILED for action in self.actions)

    @property
    def rewritten_bytes(self) -> int:
        """The size of the files that were rewritten, or read for statistics, in bytes."""
        return sum(action.rewritten_bytes for action in self.actions)

    @property
    def is_nothing_to_do(self) -> bool:
        """Whether no action has changed, or would change, anything."""
        return not self.has_failures and all(action.state in (ActionState.NOTHING, ActionState.LEFT) for action in self.actions)

    @property
    def has_faults(self) -> bool:
        """Whether an action failed."""
        return self.has_failures

    def report(self, most: int | None = MOST_LINES) -> Report:
        return Report(f"{'plan of maintenance' if self.dry_run else 'maintenance'} of {self.table}", tuple(self.parts(most)))

    def parts(self, most: int | None) -> list[Part]:
        """Return the parts of the report: the actions with their figures, and the work that is left, with at most `most` pieces for each action."""
        if self.error or self.skipped:
            return [Prose(f"{self.table}: " + (f"failed: {self.error}" if self.error else f"left alone: {self.skipped}"))]
        columns = (
            Column("action"),
            Column("state"),
            Column("detail", rank=1),
            Column("bytes rewritten", is_number=True, rank=3),
            Column("files less a scan", is_number=True, rank=4),
            Column("bytes less a scan", is_number=True, rank=5),
            Column("worth", is_number=True, rank=2),
        )
        parts: list[Part] = [grid(self.table, columns, [_row(action) for action in self.actions], None)]
        left = [(action.action.value, piece.what, piece.reason) for action in self.actions for piece in action.left]
        if left:
            names = (Column("action"), Column("what"), Column("reason"))
            shown = grid("left undone", names, left, most)
            unnamed = sum(action.left_count - len(action.left) for action in self.actions)
            parts.append(replace(shown, more=shown.more + unnamed))
        return parts

    def to_dict(self) -> dict[str, Any]:
        """Return every field; actions and states have the names that are used in properties and by the procedure."""
        return {**json_ready(self), "actions": [_action_fields(action) for action in self.actions]}


def _action_fields(report: ActionReport) -> dict[str, Any]:
    left = [{**json_ready(piece), "action": piece.action.value} for piece in report.left]
    return {**json_ready(report), "action": report.action.value, "state": report.state.value, "left": left}


def _row(report: ActionReport) -> tuple[str, ...]:
    figures = (
        size_text(report.rewritten_bytes),
        count_text(report.files_less),
        size_text(report.bytes_less),
        f"{report.worth:.3g}" if report.rewritten_bytes else "",
    )
    has_figures = report.rewritten_bytes or report.files_less or report.bytes_less
    return report.action.value, report.state.value, short_text(report.detail), *(figures if has_figures else ("",) * 4)


def report_of(action: MaintenanceAction, state: ActionState, work: Sequence[PlannedWork], left: Sequence[LeftWork]) -> ActionReport:
    """Return the report of an action that did some work, or would do it, and left other work."""
    cost, benefit = sum(piece.cost_bytes for piece in work), sum(piece.benefit_bytes for piece in work)
    total = PlannedWork(action=action, what="", files=0, bytes_less=benefit, cost_bytes=cost)
    return ActionReport(
        action=action,
        state=state,
        files=sum(piece.files for piece in work),
        rewritten_bytes=cost,
        files_less=sum(piece.files_less for piece in work),
        bytes_less=sum(piece.bytes_less for piece in work),
        worth=round(total.worth, 3),
        left=tuple(left[:NAMED_LEFT]),
        left_count=len(left),
    )


def failure_of(action: MaintenanceAction, error: Exception) -> ActionReport:
    """Return the report of a failed action."""
    return ActionReport(action=action, state=ActionState.FAILED, detail=in_words(error))


def in_words(error: Exception) -> str:
    """Return an error as one line for a report. The line begins with the class of the error unless the error is an `IcefloeError`."""
    return in_one_line(error.message if isinstance(error, IcefloeError) else f"{type(error).__name__}: {error}")


def lost_to_others(action: MaintenanceAction, error: IcefloeError) -> LeftWork:
    """Return the work of an action that lost to other writers, as left work."""
    reason = f"other writers committed first, so that it is left for the next run: {in_words(error)}"
    return LeftWork(action=action, what="the action", reason=reason)


def log_failure(table: str, what: str, error: Exception) -> None:
    """Log that a part of a table's maintenance failed. The log has the traceback only if the error is a fault of the program, and not an `IcefloeError`."""
    LOG.warning("maintenance of %s: %s: %s", table, what, in_words(error), exc_info=None if isinstance(error, IcefloeError) else error)


def together(first: ActionReport, second: ActionReport) -> ActionReport:
    """Merge the reports of two rounds of one action."""
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
