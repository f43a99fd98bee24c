"""How the model of commits matches snapshots to the writes of an operation: writes without a snapshot are recognised, other changes are refused."""

from collections import Counter
from typing import Any

import pytest
from tests.commit_effects import BrokenInvariantError, Effect, Landing, ModelSnapshot, Refs, Rows, State, must, state_after
from tests.table.test_commit_model import ManyWriters, Step

from icefloe.operations.expiry.deletion_scope import DeletionScope
from icefloe.testing.fault_injection import FaultyFileIO

ROWS = ("append", "main", [("a", 1), ("b", 2)])
IDLE = ("delete", "main", "value = 4")
TRANSACTIONS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "before a file is rewritten": ({}, [ROWS], [IDLE, ("rewrite_file", "main", 0)]),
    "around a rewritten file": ({}, [ROWS], [IDLE, IDLE, ("rewrite_file", "main", 0), IDLE]),
    "before the branch of an empty table": ({}, [], [("delete", "main", "true"), ("create_branch",)]),
    "before a row of the same values on a branch at the same snapshot": (
        {},
        [ROWS, ("create_branch",)],
        [IDLE, ("upsert", "b", [0], [("a", 1)])],
    ),
    "before the removal of a file whose rows are all deleted": (
        {"version": 3, "mode": "merge-on-read"},
        [ROWS, ("delete_keys", "main", "uid", [0, 1])],
        [IDLE, ("delete_file", "main", 0)],
    ),
}


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_write_without_a_snapshot_is_not_matched_to_the_snapshot_of_the_next_write(name: str) -> None:
    options, before, together = TRANSACTIONS[name]
    machine = ManyWriters()
    machine.create(**{"version": 2, "mode": "copy-on-write", "spec": (), "evolves": False, "policy": {}, **options})
    operations = [*before, ("together", together)]
    for operation in operations:
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=(), before="refresh"))
    machine.teardown()
    assert machine.model.steps == {"acknowledged": len(operations)}


def test_an_expiry_need_not_delete_files_that_another_operation_left() -> None:
    """Statistics replace those of the same snapshot; before their writer receives the reply, another writer expires snapshots."""
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False, policy={})
    expiry = Step(writer=1, operation=("expire", 1), faults=(), meanwhile=(), before="refresh")
    for operation, meanwhile in ((ROWS, ()), (ROWS, ()), (("statistics",), ()), (("statistics",), [("overtake", 0, expiry)])):
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=meanwhile, before="refresh"))
    machine.teardown()
    assert machine.model.steps == {"acknowledged": 5}
    assert len(machine.model.state.expired) == 1


def test_an_expiry_must_delete_the_files_of_the_snapshots_that_it_removes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the expiry does not delete are reported, although another operation left files too."""
    monkeypatch.setattr(FaultyFileIO, "delete", lambda self, location: None)
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False, policy={})
    for operation in (ROWS, ROWS, ("statistics",), ("statistics",)):
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=(), before="refresh"))
    with pytest.raises(BrokenInvariantError, match="files of expired snapshots remain"):
        machine.step(step=Step(writer=1, operation=("expire", 1), faults=(), meanwhile=(), before="refresh"))


def expire_added_file() -> ManyWriters:
    """Add a file outside the table's folder, delete its rows, and expire the snapshots that need it."""
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False, policy={})
    for operation in (("add_files", "main", [("a", 1)]), ("delete", "main", "true"), ("expire", 1)):
        machine.step(step=Step(writer=0, operation=operation, faults=(), meanwhile=(), before="refresh"))
    machine.teardown()
    return machine


def test_an_expiry_keeps_files_outside_the_table_and_reports_them() -> None:
    machine = expire_added_file()
    assert machine.model.steps == {"acknowledged": 3}
    assert len(machine.model.state.expired) == 1


def test_an_expiry_must_not_delete_files_outside_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeletionScope, "contains", lambda self, location, real=None: True)
    with pytest.raises(
        BrokenInvariantError, match=r"files outside the table's folder memory://model/\S+ were deleted: \['memory://\S+/foreign"
    ):
        expire_added_file()


def test_an_expiry_must_report_files_that_it_keeps_outside_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    divide = DeletionScope.divide
    monkeypatch.setattr(DeletionScope, "divide", lambda self, files: (divide(self, files)[0], files.slice(0, 0)))
    with pytest.raises(BrokenInvariantError, match="files outside the table's folder that the report does not list"):
        expire_added_file()


def of_writer(writer: int, *operation: Any) -> Step:
    return Step(writer=writer, operation=operation, faults=(), meanwhile=(), before="refresh")


@pytest.mark.parametrize(("retain_last", "expired"), [(3, 2), (1, 3)], ids=["no further snapshot", "one further snapshot"])
def test_an_expiry_need_not_delete_files_that_another_expiry_is_deleting(retain_last: int, expired: int) -> None:
    """The first expiry has committed and loads the table again before it deletes files; meanwhile a second expiry runs."""
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False, policy={})
    for _ in range(4):
        machine.step(step=of_writer(0, *ROWS))
    between = ("load", 0, of_writer(1, "expire", retain_last))
    machine.step(step=Step(writer=0, operation=("expire", 2), faults=(), meanwhile=[between], before="stay"))
    machine.teardown()
    assert machine.model.steps == {"acknowledged": 6}
    assert len(machine.model.state.expired) == expired


@pytest.mark.parametrize("between", [IDLE, ROWS, ("expire", 3)], ids=lambda operation: operation[0])
def test_an_expiry_must_delete_its_files_whatever_other_writers_do_meanwhile(
    between: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = ManyWriters()
    machine.create(version=2, mode="copy-on-write", spec=(), evolves=False, policy={})
    for _ in range(3):
        machine.step(step=of_writer(0, *ROWS))
    monkeypatch.setattr(FaultyFileIO, "delete", lambda self, location: None)
    step = Step(writer=0, operation=("expire", 1), faults=(), meanwhile=[("load", 0, of_writer(1, *between))], before="stay")
    with pytest.raises(BrokenInvariantError, match="files of expired snapshots remain"):
        machine.step(step=step)


KEPT = Counter({("a",): 1})
START = State(snapshots={1: ModelSnapshot(parent_id=None, rows=KEPT)}, refs={"main": ("branch", 1)})


def expected_state(
    effects: list[Effect], *snapshots: tuple[int, int, str], rows: Counter[tuple[Any, ...]] = KEPT, head: int | None = None
) -> State:
    """Return the state after a commit with these snapshots (id, parent, operation), all with the same rows, and `main` at the last one."""
    new = [
        {"snapshot-id": number, "parent-snapshot-id": parent, "summary": {"operation": operation}}
        for number, parent, operation in snapshots
    ]
    main = head or (snapshots[-1][0] if snapshots else 1)

    def brought(choices: list[bool]) -> Landing:
        idle = sum(effect.makes_snapshot for effect in effects) - len(new)
        return Landing(new=list(new), gone=set(), idle=idle, rows=lambda _: rows, rows_in=lambda *_: Counter(), choices=choices)

    return state_after(effects, START, brought, lambda state: must(state.refs["main"] == ("branch", main), "main is at another snapshot"))


def same(**others: Any) -> Rows:
    return Rows(change=lambda before: before, **others)


def test_each_snapshot_has_a_write_that_explains_it() -> None:
    idle, rewrite = same(may_be_idle=True), same(replaces=True)
    assert expected_state([idle, rewrite], (2, 1, "replace")).refs == {"main": ("branch", 2)}
    assert expected_state([idle, rewrite, idle], (2, 1, "replace")).snapshots.keys() == {1, 2}
    assert expected_state([idle, rewrite], (2, 1, "overwrite"), (3, 2, "replace")).snapshots[3].parent_id == 2
    assert expected_state([idle, same()], (2, 1, "delete")).refs == {"main": ("branch", 2)}
    assert expected_state([idle, idle]) == START


@pytest.mark.parametrize(
    ("effects", "snapshots", "message"),
    [
        ([same(may_be_idle=True), same(replaces=True)], [(2, 1, "delete")], "the commit lacks a snapshot"),
        ([same(replaces=True)], [(2, 1, "overwrite")], "the snapshot is not of the operation's kind"),
        ([same()], [(2, 1, "replace")], "the snapshot is not of the operation's kind"),
        ([same(), same(may_be_idle=True), same()], [(2, 1, "append")], "the commit lacks a snapshot"),
        ([same(may_be_idle=True), same(replaces=True)], [], "the commit lacks a snapshot"),
        ([same(may_be_idle=True)], [(2, 7, "delete")], "the snapshot is not on the head"),
        ([same(may_be_idle=True)], [(2, 1, "delete"), (3, 2, "delete")], "the commit has changes that are not of the operation"),
        ([Refs(change=lambda _: {"main": ("branch", 9)})], [], "main is at another snapshot"),
    ],
    ids=["no rewrite", "rewrite not replace", "write is replace", "one of two", "none", "other parent", "one too many", "refs"],
)
def test_changes_that_no_write_explains_are_refused(effects: list[Effect], snapshots: list[tuple[int, int, str]], message: str) -> None:
    with pytest.raises(BrokenInvariantError, match=message):
        expected_state(effects, *snapshots)


def test_a_write_that_changes_rows_must_have_made_a_snapshot() -> None:
    delete = Rows(change=lambda before: Counter(), may_be_idle=True)
    with pytest.raises(BrokenInvariantError, match="the commit lacks a snapshot"):
        expected_state([delete])
    with pytest.raises(BrokenInvariantError, match="the commit lacks a snapshot"):
        expected_state([delete, same(replaces=True)], (2, 1, "delete"))
