"""`RepairPlan`: what is wrong in a table, what each repair would change, and how it is undone. Nothing is changed until `apply`.

The plan is the only way to a repair: what `apply` commits is what the plan shows, or nothing, if another writer has changed the table since.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.checks.finding import bounded_text
from icefloe.checks.repair_kinds import REPAIR_BY_ID, Scope
from icefloe.checks.rules import rule_named
from icefloe.display.report import Column, Facts, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable, json_ready
from icefloe.formatting import count_text, short_text

# Changes of one repair that a plan lists; the others are counted.
MOST_CHANGES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairChange:
    """One place that a repair changes.

    Attributes:
        what: What changes, in words.
        path: The file.
        partition: Its partition as a folder name; empty where there is none.
        rows_lost: Rows that no reader gets any more, by the counts of the entry.
        rows_back: Deleted rows that readers get again, at most.
    """

    what: str
    path: str = ""
    partition: str = ""
    rows_lost: int = 0
    rows_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRepair:
    """A repair of a plan.

    Attributes:
        repair: The id of its kind.
        rules: The rules whose breaks it mends.
        is_chosen: Whether `apply` does it.
        text: What it does here, in words.
        count: How many places it changes.
        changes: These places, at most `MOST_CHANGES`.
        rows_lost: Rows that are lost, by partition.
        rows_back: Deleted rows that come back, at most, by partition.
    """

    repair: str
    rules: tuple[str, ...]
    is_chosen: bool
    text: str
    count: int
    changes: tuple[RepairChange, ...] = ()
    rows_lost: Mapping[str, int] = field(default_factory=dict)
    rows_back: Mapping[str, int] = field(default_factory=dict)

    @property
    def named_because(self) -> str:
        """Why it has to be named; empty if it is done by default."""
        return REPAIR_BY_ID[self.repair].named_because

    @property
    def scope(self) -> Scope:
        """What its commit writes."""
        return REPAIR_BY_ID[self.repair].scope


def planned_repair(repair: str, changes: list[RepairChange], rules: set[str], *, is_chosen: bool, text: str = "") -> PlannedRepair:
    """Return a repair with its rows counted by partition.

    Args:
        repair: The id of its kind.
        changes: All places that it changes.
        rules: The rules that are broken there.
        is_chosen: Whether it is done.
        text: What it does here; by default what its kind does.
    """
    lost: dict[str, int] = {}
    back: dict[str, int] = {}
    for change in changes:
        if change.rows_lost:
            lost[change.partition] = lost.get(change.partition, 0) + change.rows_lost
        if change.rows_back:
            back[change.partition] = back.get(change.partition, 0) + change.rows_back
    return PlannedRepair(
        repair=repair,
        rules=tuple(sorted(rules)),
        is_chosen=is_chosen,
        text=text or REPAIR_BY_ID[repair].title,
        count=len(changes),
        changes=tuple(
            replace(change, what=bounded_text(change.what), path=bounded_text(change.path), partition=bounded_text(change.partition))
            for change in changes[:MOST_CHANGES]
        ),
        rows_lost={bounded_text(partition): rows for partition, rows in lost.items()},
        rows_back={bounded_text(partition): rows for partition, rows in back.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFinding:
    """Findings of one rule that no repair of the plan mends.

    Attributes:
        rule: The rule.
        count: How many findings there are.
        why: Why they are left.
        next_step: What a user can do.
    """

    rule: str
    count: int
    why: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairResult(Reportable):
    """A repair that was committed, or undone.

    Attributes:
        table: The table.
        repairs: The ids of the repairs.
        snapshot_id: The snapshot that was committed; None for a change of metadata only.
        metadata_location: The metadata file that the catalog names now; None if the name was dropped.
        rows_lost: Rows that are lost.
        rows_back: Deleted rows that came back, at most.
        undo: The command that undoes it; empty if there is none.
        next_step: What is to be done then; empty if nothing is.
    """

    table: str
    repairs: tuple[str, ...]
    snapshot_id: int | None = None
    metadata_location: str | None = None
    rows_lost: int = 0
    rows_back: int = 0
    undo: str = ""
    next_step: str = ""

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  there is no list
        pairs = [("repairs", ", ".join(self.repairs) or "none")]
        pairs += [("snapshot", str(self.snapshot_id))] if self.snapshot_id is not None else []
        pairs += [("metadata file", self.metadata_location)] if self.metadata_location is not None else []
        pairs += [("rows lost", f"{self.rows_lost:,}")] if self.rows_lost else []
        pairs += [("rows that came back, at most", f"{self.rows_back:,}")] if self.rows_back else []
        parts: list[Part] = [Facts(tuple(pairs))]
        if self.undo:
            parts += [Prose("Undo it with:"), Prose(self.undo, whole=True)]
        if self.next_step:
            parts.append(Prose(f"Next: {self.next_step}."))
        return Report(f"repaired {self.table}", tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairPlan(Reportable):
    """What is wrong in a table and what would be done about it.

    Attributes:
        table: The table.
        metadata_location: The metadata file that the plan is of.
        branch: The branch whose newest snapshot is repaired.
        snapshot_id: That snapshot; None if there is none, or the metadata cannot be read.
        repairs: The repairs, those of one commit first.
        left: What no repair of the plan mends.
        undo: The command that undoes the chosen repairs once they are applied; empty if none is chosen.
    """

    table: str
    metadata_location: str
    branch: str
    snapshot_id: int | None = None
    repairs: tuple[PlannedRepair, ...] = ()
    left: tuple[LeftFinding, ...] = ()
    undo: str = ""
    _apply: Callable[[], RepairResult] | None = None

    @property
    def chosen(self) -> tuple[PlannedRepair, ...]:
        """The repairs that `apply` does."""
        return tuple(repair for repair in self.repairs if repair.is_chosen)

    @property
    def has_faults(self) -> bool:
        """True if the plan is not empty: something is wrong with the table."""
        return bool(self.repairs or self.left)

    def apply(self) -> RepairResult:
        """Commit the chosen repairs, all or none, as one snapshot or one metadata file. No file is deleted.

        Returns:
            What was committed, and the command that undoes it; without a chosen repair nothing is.

        Raises:
            CommitInvalidatedError: Another writer has changed the table since it was planned. Nothing was changed: plan again.
            CommitConflictError: As above, and the other writer was faster by an instant.
            CommitUnknownError: The catalog's reply was lost; the repair may or may not have happened.
        """
        if self._apply is None:
            return RepairResult(table=self.table, repairs=(), metadata_location=self.metadata_location)
        return self._apply()

    def report(self, most: int | None = MOST_LINES) -> Report:
        return Report(f"repair of {self.table}", tuple(self._parts(most)))

    def to_dict(self) -> dict[str, Any]:
        """Return every field, JSON-ready."""
        repairs = [
            {**json_ready(repair), "scope": repair.scope.value, "named_because": repair.named_because or None} for repair in self.repairs
        ]
        return {**super(RepairPlan, self).to_dict(), "repairs": repairs}

    def _parts(self, most: int | None) -> Iterator[Part]:
        if not self.has_faults:
            yield Prose("Nothing is wrong that was looked at.")
            return
        if self.repairs:
            columns = (Column("repair", whole=True), Column("chosen"), Column("places", is_number=True), Column("what", rank=1))
            rows = [(repair.repair, "yes" if repair.is_chosen else "no", f"{repair.count:,}", repair.text) for repair in self.repairs]
            yield grid("", columns, rows, None)
        for repair in self.repairs:
            yield from _repair_parts(repair, most)
        for left in self.left:
            yield Prose(f"Not repaired: {count_text(left.count, 'finding')} of {left.rule}: {left.why}. Next: {left.next_step}.")
        if self.chosen:
            yield Prose("Nothing was changed. Apply it with --apply; then it is undone with:")
            yield Prose(self.undo, whole=True)
        else:
            yield Prose("Nothing was changed, and no repair is chosen.")


def _repair_parts(repair: PlannedRepair, most: int | None) -> Iterator[Part]:
    kind = REPAIR_BY_ID[repair.repair]
    yield Prose(f"{repair.repair}: {repair.text}. Breaks {', '.join(repair.rules)}. Rows: {kind.rows}.")
    if not repair.is_chosen:
        why = f": {repair.named_because}" if repair.named_because else ""
        yield Prose(f"{repair.repair} is not done unless it is named with --only {repair.repair}{why}.")
    for title, rows in (("rows lost", repair.rows_lost), ("rows that come back, at most", repair.rows_back)):
        if rows:
            by_partition = (Column("partition", whole=True), Column(title, is_number=True))
            yield grid("", by_partition, [(name or "-", f"{count:,}") for name, count in rows.items()], most)
    listed = [(change.what, short_text(change.path), change.partition) for change in repair.changes]
    if listed:
        columns = (Column("change", rank=1), Column("file", rank=2), Column("partition"))
        yield grid("", columns, listed, most)


def left_finding(rule_id: str, count: int, why: str) -> LeftFinding:
    """Return findings that no repair mends, with the next step of their rule."""
    return LeftFinding(rule=rule_id, count=count, why=why, next_step=rule_named(rule_id).next_step)
