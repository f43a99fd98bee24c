"""A plan is committed for the table that it was made of, or not at all."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.checks.file_breaks import FILE_BREAKS, file_of
from tests.checks.stored_table import SCHEMA
from tests.repair.broken_table import BrokenTable

from icefloe.errors import CommitConflictError, CommitInvalidatedError, NoSuchSnapshotError
from icefloe.stores.sql_store import SqlCatalogStore

MakeTable = Callable[[str, int], BrokenTable]
ROW = pa.table({"day": ["new"], "n": [1]}, schema=SCHEMA)


def lose_a_file(broken: BrokenTable) -> None:
    Path(next(iter(sorted(broken.live_files())))).unlink()


def test_a_plan_of_a_table_that_changed_is_refused_and_changes_nothing(sound: MakeTable) -> None:
    broken = sound("of", 2)
    lose_a_file(broken)
    planned = broken.plan()
    broken.table.append(ROW)
    files, location = broken.files(), broken.location()
    with pytest.raises(CommitInvalidatedError, match="since the repair was planned") as caught:
        planned.apply()
    assert "plan the repair again" in (caught.value.next_step or "")
    assert (broken.files(), broken.location()) == (files, location)
    broken.plan().apply()
    assert broken.findings() == []


def test_a_writer_that_is_faster_by_an_instant_is_not_overwritten(sound: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sound("of", 2)
    lose_a_file(broken)
    planned = broken.plan()
    commit = SqlCatalogStore.commit
    raced: list[bool] = []

    def after_another(store: Any, requests: Any) -> Any:
        if not raced:
            raced.append(True)
            broken.table.append(ROW)
        return commit(store, requests)

    monkeypatch.setattr(SqlCatalogStore, "commit", after_another)
    with pytest.raises(CommitInvalidatedError, match="another writer has changed the table"):
        planned.apply()
    snapshot = broken.table.current_snapshot()
    assert snapshot is not None
    assert snapshot.operation == "append"


def test_a_metadata_repair_that_loses_the_race_leaves_no_file(sound: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sound("of_files", 2)
    broken.break_by(FILE_BREAKS["statistics-missing"])
    planned = broken.plan()
    commit = SqlCatalogStore.commit
    after: list[dict[str, bytes]] = []

    def after_another(store: Any, requests: Any) -> Any:
        if not after:
            after.append({})
            broken.table.set_properties({"a": "b"})
            after[0].update({path: content for path, content in broken.files().items() if path != requests[0].new})
        return commit(store, requests)

    monkeypatch.setattr(SqlCatalogStore, "commit", after_another)
    with pytest.raises(CommitConflictError):
        planned.apply()
    assert broken.files() == after[0]


def test_a_process_that_ends_between_plan_and_apply_changes_nothing(sound: MakeTable) -> None:
    broken = sound("of_files", 2)
    file_of(broken.stored).unlink()
    files = {path: path.read_bytes() for path in broken.folder.rglob("*") if path.is_file()}
    script = f"""
import os
from icefloe import SqlCatalog
from icefloe.repair import plan
planned = plan(SqlCatalog("lake", uri="sqlite:///{broken.folder}/catalog.db", warehouse="{broken.folder}"), "db.t", data=True)
assert planned.chosen
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    assert {path: path.read_bytes() for path in broken.folder.rglob("*") if path.is_file()} == files


def test_ctrl_c_during_the_commit_leaves_the_table_as_it_was(sound: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sound("of", 2)
    lose_a_file(broken)
    planned = broken.plan()
    files, location = broken.files(), broken.location()

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SqlCatalogStore, "check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        planned.apply()
    monkeypatch.undo()
    assert (broken.files(), broken.location()) == (files, location)


def test_only_the_named_branch_is_repaired(sound: MakeTable) -> None:
    broken = sound("of", 2)
    table = broken.table
    with table.manage_snapshots() as manage:
        manage.create_branch(table.snapshots()[-1].snapshot_id, "audit")
    table.append(ROW, branch="audit")
    main = broken.rows()
    lost = next(task.file.file_path for task in table.scan("day = 'new'").use_ref("audit").plan_files())
    Path(lost).unlink()
    assert not broken.plan().has_faults
    planned = broken.plan(branch="audit")
    assert planned.undo == "icefloe repair db.t --catalog lake --undo --branch audit"
    planned.apply()
    assert broken.rows() == main
    assert sorted(map(str, broken.table.scan().use_ref("audit").to_arrow().to_pylist())) == main
    with pytest.raises(NoSuchSnapshotError, match="no branch 'other'"):
        broken.plan(branch="other")


def test_an_undo_never_drops_the_commit_of_another_writer(sound: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sound("of", 2)
    lose_a_file(broken)
    broken.plan().apply()
    commit = SqlCatalogStore.commit
    raced: list[bool] = []

    def after_another(store: Any, requests: Any) -> Any:
        if not raced:
            raced.append(True)
            broken.table.append(ROW)
        return commit(store, requests)

    monkeypatch.setattr(SqlCatalogStore, "commit", after_another)
    with pytest.raises(CommitInvalidatedError):
        broken.undo()
    assert "{'day': 'new', 'n': 1}" in broken.rows()


def test_ctrl_c_after_the_swap_of_a_metadata_file_keeps_the_file(sound: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sound("of_files", 2)
    before = broken.rows()
    broken.break_by(FILE_BREAKS["statistics-missing"])
    planned = broken.plan()
    commit = SqlCatalogStore.commit

    def interrupted(store: Any, requests: Any) -> Any:
        commit(store, requests)
        raise KeyboardInterrupt

    monkeypatch.setattr(SqlCatalogStore, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        planned.apply()
    monkeypatch.undo()
    assert (broken.rows(), broken.findings()) == (before, [])
