"""`RepairPlan`: what is wrong in a table, what each repair would change, and how it can be undone. Nothing is changed until `apply`.

Every repair begins with a plan: `apply` commits exactly what the plan shows, or nothing if another writer has changed the table since.
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

# The most changes of one repair that a plan lists; further ones are only counted.
MOST_CHANGES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairChange:
    """One place that a repair changes.

    Attributes:
        what: What changes, in words.
        path: The location of the changed file.
        partition: The partition of the file as a folder name; empty if it has none.
        rows_lost: The number of rows that readers no longer get, by the counts of the entry.
        rows_back: The greatest number of deleted rows that readers get again.
    """

    what: str
    path: str = ""
    partition: str = ""
    rows_lost: int = 0
    rows_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRepair:
    """One kind of repair in a repair plan, with the places that it changes.

    Attributes:
        repair: The id of the kind of repair.
        rules: The ids of the rules whose violations the repair corrects.
        is_chosen: Whether `apply` does the repair.
        text: What the repair does to this table, in words.
        count: The number of places that the repair changes.
        changes: These places, at most `MOST_CHANGES`.
        rows_lost: The number of lost rows, by partition.
        rows_back: The greatest number of deleted rows that come back, by partition.
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
        """Why the repair is done only if the user names it; empty if it is done by default."""
        return REPAIR_BY_ID[self.repair].named_because

    @property
    def scope(self) -> Scope:
        """What the commit of the repair writes."""
        return REPAIR_BY_ID[self.repair].scope


def planned_repair(repair: str, changes: list[RepairChange], rules: set[str], *, is_chosen: bool, text: str = "") -> PlannedRepair:
    """Return a planned repair, with its lost and returning rows summed by partition.

    Args:
        repair: The id of the kind of repair.
        changes: All places that the repair changes.
        rules: The ids of the rules that are violated there.
        is_chosen: Whether `apply` does the repair.
        text: What the repair does to this table; by default the title of its kind.
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
    """Findings of one rule that remain after the plan is applied.

    Attributes:
        rule: The id of the rule.
        count: The number of findings.
        why: Why no repair corrects them.
        next_step: What a user can do about them.
    """

    rule: str
    count: int
    why: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairResult(Reportable):
    """The result of a repair that was committed or undone.

    Attributes:
        table: The name of the table.
        repairs: The ids of the repairs.
        snapshot_id: The snapshot that was committed; None if only metadata changed.
        metadata_location: The metadata file that the catalog names now; None if the table was dropped from the catalog.
        rows_lost: The number of lost rows.
        rows_back: The greatest number of deleted rows that came back.
        undo: The command that undoes the repair; empty if there is none.
        next_step: What the user should do next; empty if nothing.
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
    """What is wrong in a table, and what `apply` would do about it.

    Attributes:
        table: The name of the table.
        metadata_location: The metadata file for which the plan was made.
        branch: The branch whose newest snapshot is repaired.
        snapshot_id: The newest snapshot of the branch; None if there is none, or the metadata cannot be read.
        repairs: The repairs. Those that one commit does together come first.
        left: The findings that remain after the plan is applied.
        undo: The command that undoes the chosen repairs after `apply`; empty if none is chosen.
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
        """Whether something is wrong with the table, so that the plan is not empty."""
        return bool(self.repairs or self.left)

    def apply(self) -> RepairResult:
        """Commit the chosen repairs, all or none, as one snapshot, one metadata file, or one change of the catalog's entry. No file is deleted.

        Returns:
            What was committed, and the command that undoes it. If no repair is chosen, nothing is committed.

        Raises:
            CommitInvalidatedError: Another writer has changed the table since it was planned. Nothing was changed: plan again.
            CommitConflictError: Another writer changed the table during the commit. Nothing was changed: plan again.
            CommitUnknownError: The catalog's reply was lost; the repair may or may not have been committed.
        """
        if self._apply is None:
            return RepairResult(table=self.table, repairs=(), metadata_location=self.metadata_location)
        return self._apply()

    def report(self, most: int | None = MOST_LINES) -> Report:
        return Report(f"repair of {self.table}", tuple(self._parts(most)))

    def to_dict(self) -> dict[str, Any]:
        """Return every field of the plan, ready for JSON."""
        repairs = [
            {**json_ready(repair), "scope": repair.scope.value, "named_because": repair.named_because or None} for repair in self.repairs
        ]
        return {**super(RepairPlan, self).to_dict(), "repairs": repairs}

    def _parts(self, most: int | None) -> Iterator[Part]:
        if not self.has_faults:
            yield Prose("Nothing is wrong in what was checked.")
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
    """Return the findings of a rule that no repair corrects, with the next step of the rule."""
    return LeftFinding(rule=rule_id, count=count, why=why, next_step=rule_named(rule_id).next_step)
