"""The turn of a commit that has lost races: the others wait for it, for a bounded time, and what they commit does not depend on it."""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table
from icefloe.operations import commit_loop
from icefloe.operations.commit_retries import LONGEST_TURN_S, LOSSES, CommitTurn

ROWS = pa.table({"id": [1]})


def never(_: float) -> None:
    raise AssertionError("a commit waits")


@pytest.fixture
def turn(tmp_path: Path) -> Callable[..., CommitTurn]:
    def make(*tables: str, sleep: Callable[[float], None] = never) -> CommitTurn:
        return CommitTurn("lake.db.t", tables or ("a",), tmp_path / "turns", sleep)

    return make


def test_others_wait_until_a_turn_ends(turn: Callable[..., CommitTurn], tmp_path: Path) -> None:
    first = turn()
    assert not first.before_attempt(LOSSES - 1)
    assert not (tmp_path / "turns").exists()
    assert not first.before_attempt(LOSSES)
    assert not first.before_attempt(LOSSES + 1)  # it has the turn
    for losses in (0, LOSSES):
        first.before_attempt(LOSSES)
        assert not turn("b").before_attempt(losses=0)
        other = turn("a", "b", sleep=lambda _: first.end())
        assert other.before_attempt(losses)
        other.end()
    assert not turn().before_attempt(0)
    assert list((tmp_path / "turns").glob("*")) == []


def test_a_turn_that_is_too_long_or_whose_process_has_ended_is_not_waited_for(turn: Callable[..., CommitTurn], tmp_path: Path) -> None:
    first = turn()
    first.before_attempt(LOSSES)
    (file,) = (tmp_path / "turns").iterdir()
    begun_s = time.time() - LONGEST_TURN_S
    os.utime(file, (begun_s, begun_s))
    assert not turn().before_attempt(0)
    assert not turn().before_attempt(LOSSES)
    os.utime(file)
    os.close(first._locked.pop()[1])  # as the system does for a process that ends
    assert not turn().before_attempt(0)
    assert not turn().before_attempt(LOSSES)


def test_there_are_no_turns_in_a_folder_of_others(turn: Callable[..., CommitTurn], tmp_path: Path) -> None:
    first = turn()
    (tmp_path / "turns").mkdir()
    (tmp_path / "turns").chmod(0o777)
    assert not first.before_attempt(LOSSES)
    assert list((tmp_path / "turns").iterdir()) == []
    (tmp_path / "turns").rmdir()
    (tmp_path / "turns").touch()
    assert not first.before_attempt(LOSSES)


def test_a_commit_with_long_attempts_is_committed_beside_a_writer_with_short_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, is_waiting = 0, threading.Event()

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += not is_waiting.is_set()
        is_waiting.set()
        time.sleep(seconds)

    def loaded() -> Table:
        return SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).load_table("db.t")

    monkeypatch.setattr(commit_loop, "CommitTurn", partial(CommitTurn, folder=tmp_path / "turns", sleep=wait))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"commit.retry.min-wait-ms": "1"})
    short, threads = loaded(), []
    commit = catalog.store.commit

    def commit_late(requests: Any) -> Any:
        """Commit after another writer, unless that waits."""
        thread = threading.Thread(target=short.append, args=(ROWS,))
        threads.append(thread)
        thread.start()
        while thread.is_alive() and not is_waiting.is_set():
            thread.join(0.001)
        return commit(requests)

    monkeypatch.setattr(catalog.store, "commit", commit_late)
    assert table.append(ROWS).attempts == LOSSES + 1
    for thread in threads:
        thread.join()
    assert waits == 1
    assert len(threads) == LOSSES + 1
    assert table.refresh().scan().count() == 1 + len(threads)
