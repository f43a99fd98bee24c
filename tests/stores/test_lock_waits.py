"""Blocks of code that take too long are reported once, by one thread for all of them."""

import os
import threading
import time

import pytest

from icefloe.stores import lock_waits
from icefloe.stores.sql_store import report_long_wait


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "icefloe-lock-waits"]


def wait_until(condition: object) -> None:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.005)


def test_each_block_that_is_late_is_reported_once_and_no_other() -> None:
    reports: list[str] = []
    with report_long_wait(3600, lambda: reports.append("never")):
        for _ in range(1000):
            with report_long_wait(3600, lambda: reports.append("never")):
                pass
        with report_long_wait(0.05, lambda: reports.append("outer")), report_long_wait(0.01, lambda: reports.append("inner")):
            wait_until(lambda: len(reports) == 2)
        assert len(watching()) == 1
    assert sorted(reports) == ["inner", "outer"]


def test_an_error_in_a_block_ends_its_watch() -> None:
    reports: list[str] = []
    with pytest.raises(ValueError, match="wrong"), report_long_wait(0.05, lambda: reports.append("late")):
        raise ValueError("wrong")
    with report_long_wait(0.1, lambda: reports.append("second")):
        wait_until(lambda: reports)
    assert reports == ["second"]


def test_the_thread_ends_without_blocks_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "LOOK_S", 0.01)
    monkeypatch.setattr(lock_waits, "_IDLE_S", 0.01)
    lock_waits._begin_anew()
    reports: list[str] = []
    for number in range(1, 4):
        with report_long_wait(0.01, lambda: reports.append("late")):
            wait_until(lambda count=number: len(reports) == count)
        own = lock_waits.Process.waits
        wait_until(lambda watch=own: not watch._is_running)
        assert not own._is_running
    assert len(reports) == 3


def test_blocks_of_many_threads_are_watched_while_the_thread_ends_and_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "LOOK_S", 0.0)
    monkeypatch.setattr(lock_waits, "_IDLE_S", 0.0)
    lock_waits._begin_anew()
    missed: list[int] = []

    def run(number: int) -> None:
        for _ in range(30):
            done = threading.Event()
            with report_long_wait(0.001, done.set):
                if not done.wait(60):
                    missed.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_watches_its_own_blocks() -> None:
    with report_long_wait(3600, lambda: None):
        child = os.fork()
        if child == 0:
            done = threading.Event()
            with report_long_wait(0.01, done.set):
                os._exit(0 if done.wait(60) and len(lock_waits.Process.waits.blocks) == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
