"""What the model of commits takes for an operation: writes that made no snapshot are told from those beside them, and what is not the operation is refused."""

from collections import Counter
from typing import Any

import pytest
from tests.table.test_commit_model import ManyWriters, Step

from icefloe.testing.commit_effects import BrokenInvariantError, Effect, Landing, ModelSnapshot, Refs, Rows, State, must, state_after
from icefloe.testing.fault_injection import FaultyFileIO

ROWS = ("append", "main", [("a", 1), ("b", 2)])
IDLE = ("delete", "main", "value = 4")
TRANSACTIONS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "before a file is written anew": ({}, [ROWS], [IDLE, ("rewrite_file", "main", 0)]),
    "around a file written anew": ({}, [ROWS], [IDLE, IDLE, ("rewrite_file", "main", 0), IDLE]),
    "before the branch of an empty table": ({}, [], [("delete", "main", "true"), ("create_branch",)]),
    "before a row of the same values on a branch at the same snapshot": (
        {},
        [ROWS, ("create_branch",)],
        [IDLE, ("upsert", "b", [0], [("a", 1)])],
    ),
    "before a file goes whose rows are all deleted": (
        {"version": 3, "mode": "merge-on-read"},
        [ROWS, ("delete_keys", "main", "uid", [0, 1])],
        [IDLE, ("delete_file", "main", 0)],
    ),
}


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_write_that_had_nothing_to_do_is_not_taken_for_the_one_after_it(name: str) -> None:
    made, before, together = TRANSACTIONS[name]
    machine = ManyWriters()
    machine.create(**{"version": 2, "mode": "copy-on-write", "spec": (), "evolves": False, **made})
    operations = [*before, ("together", together)]
    for operation in operations:
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=(), before="refresh"))
    machine.teardown()
    assert machine.model.steps == {"acknowledged": len(operations)}


def test_an_expiry_answers_for_no_file_that_another_operation_left() -> None:
    """Statistics replace those of the same snapshot; before their writer hears that they stand, another one expires snapshots."""
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False)
    expiry = Step(writer=1, operation=("expire", 1), faults=(), meanwhile=(), before="refresh")
    for operation, meanwhile in ((ROWS, ()), (ROWS, ()), (("statistics",), ()), (("statistics",), [("overtake", 0, expiry)])):
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=meanwhile, before="refresh"))
    machine.teardown()
    assert machine.model.steps == {"acknowledged": 5}
    assert len(machine.model.state.expired) == 1


def test_an_expiry_answers_for_the_files_of_its_own_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for those that it leaves beside what another operation left."""
    monkeypatch.setattr(FaultyFileIO, "delete", lambda self, location: None)
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False)
    for operation in (ROWS, ROWS, ("statistics",), ("statistics",)):
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=(), before="refresh"))
    with pytest.raises(BrokenInvariantError, match="files of expired snapshots are left"):
        machine.step(step=Step(writer=1, operation=("expire", 1), faults=(), meanwhile=(), before="refresh"))


def of_writer(writer: int, *operation: Any) -> Step:
    return Step(writer=writer, operation=operation, faults=(), meanwhile=(), before="refresh")


@pytest.mark.parametrize(("retain_last", "expired"), [(3, 2), (1, 3)], ids=["nothing more", "one more"])
def test_an_expiry_answers_for_no_file_that_another_one_is_about_to_delete(retain_last: int, expired: int) -> None:
    """The first one's commit stands, and it looks at the table once more before it deletes; meanwhile a second one comes and goes."""
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False)
    for _ in range(4):
        machine.step(step=of_writer(0, *ROWS))
    between = ("load", 0, of_writer(1, "expire", retain_last))
    machine.step(step=Step(writer=0, operation=("expire", 2), faults=(), meanwhile=[between], before="stay"))
    machine.teardown()
    assert machine.model.steps == {"acknowledged": 6}
    assert len(machine.model.state.expired) == expired


@pytest.mark.parametrize("between", [IDLE, ROWS, ("expire", 3)], ids=lambda operation: operation[0])
def test_an_expiry_answers_for_its_files_whatever_others_do_meanwhile(between: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False)
    for _ in range(3):
        machine.step(step=of_writer(0, *ROWS))
    monkeypatch.setattr(FaultyFileIO, "delete", lambda self, location: None)
    step = Step(writer=0, operation=("expire", 1), faults=(), meanwhile=[("load", 0, of_writer(1, *between))], before="stay")
    with pytest.raises(BrokenInvariantError, match="files of expired snapshots are left"):
        machine.step(step=step)


KEPT = Counter({("a",): 1})
START = State(snapshots={1: ModelSnapshot(parent_id=None, rows=KEPT)}, refs={"main": ("branch", 1)})


def found(effects: list[Effect], *snapshots: tuple[int, int, str], rows: Counter[tuple[Any, ...]] = KEPT, head: int | None = None) -> State:
    """The state after a swap that brought snapshots (id, parent, operation), all with these rows, and main at the last of them."""
    new = [
        {"snapshot-id": number, "parent-snapshot-id": parent, "summary": {"operation": operation}}
        for number, parent, operation in snapshots
    ]
    main = head or (snapshots[-1][0] if snapshots else 1)

    def brought(choices: list[bool]) -> Landing:
        idle = sum(effect.makes_snapshot for effect in effects) - len(new)
        return Landing(new=list(new), gone=set(), idle=idle, rows=lambda _: rows, rows_in=lambda *_: Counter(), choices=choices)

    return state_after(effects, START, brought, lambda made: must(made.refs["main"] == ("branch", main), "main is elsewhere"))


def same(**others: Any) -> Rows:
    return Rows(change=lambda before: before, **others)


def test_each_snapshot_has_a_write_that_explains_it() -> None:
    idle, rewrite = same(may_be_idle=True), same(replaces=True)
    assert found([idle, rewrite], (2, 1, "replace")).refs == {"main": ("branch", 2)}
    assert found([idle, rewrite, idle], (2, 1, "replace")).snapshots.keys() == {1, 2}
    assert found([idle, rewrite], (2, 1, "overwrite"), (3, 2, "replace")).snapshots[3].parent_id == 2
    assert found([idle, same()], (2, 1, "delete")).refs == {"main": ("branch", 2)}
    assert found([idle, idle]) == START


@pytest.mark.parametrize(
    ("effects", "snapshots", "told"),
    [
        ([same(may_be_idle=True), same(replaces=True)], [(2, 1, "delete")], "the commit lacks a snapshot"),
        ([same(replaces=True)], [(2, 1, "overwrite")], "the snapshot is not of the operation's kind"),
        ([same()], [(2, 1, "replace")], "the snapshot is not of the operation's kind"),
        ([same(), same(may_be_idle=True), same()], [(2, 1, "append")], "the commit lacks a snapshot"),
        ([same(may_be_idle=True), same(replaces=True)], [], "the commit lacks a snapshot"),
        ([same(may_be_idle=True)], [(2, 7, "delete")], "the snapshot is not on the head"),
        ([same(may_be_idle=True)], [(2, 1, "delete"), (3, 2, "delete")], "what landed is not the operation"),
        ([Refs(change=lambda _: {"main": ("branch", 9)})], [], "main is elsewhere"),
    ],
    ids=["no rewrite", "a rewrite that is none", "a write that is a rewrite", "one of two", "none", "another line", "one too many", "refs"],
)
def test_what_no_write_explains_is_refused(effects: list[Effect], snapshots: list[tuple[int, int, str]], told: str) -> None:
    with pytest.raises(BrokenInvariantError, match=told):
        found(effects, *snapshots)


def test_a_write_that_changes_rows_made_a_snapshot_whatever_it_may() -> None:
    gone = Rows(change=lambda before: Counter(), may_be_idle=True)
    with pytest.raises(BrokenInvariantError, match="the commit lacks a snapshot"):
        found([gone])
    with pytest.raises(BrokenInvariantError, match="the commit lacks a snapshot"):
        found([gone, same(replaces=True)], (2, 1, "delete"))
