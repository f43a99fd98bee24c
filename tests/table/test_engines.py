"""The work that engines do over items in this process, and the choice of the engine that does it."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from operator import add
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.datafile.write_target import WritingTask
from icefloe.errors import EngineError, StorageError, UnsupportedFeatureError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.operations.available_engines import IN_PROCESS, EngineChoice, choosing_engines, engine_choice

THREADS = [1, 4]


@dataclass(frozen=True)
class Written:
    """The outcome of a task that has written one file."""

    added: tuple[Any, ...]


def writing(folder: Path, fails: Callable[[int], bool]) -> Callable[[int, WritingTask], Written]:
    """A function over numbers that writes a file for each, and fails for some of them before it has."""

    def write(number: int, task: WritingTask) -> Written:
        if fails(number):
            raise StorageError(f"no space for {number}")
        path = folder / f"{task.partition_id}-{number}"
        path.touch()
        return Written((SimpleNamespace(file_path=str(path)),))

    return write


def target(folder: Path) -> Any:
    return SimpleNamespace(io=LocalFileIO(), table_name="t", data_location=str(folder))


@pytest.mark.parametrize("threads", THREADS)
def test_results_have_the_order_of_the_items(threads: int) -> None:
    def slower_at_first(number: int) -> int:
        time.sleep(0.002 * (8 - number))
        return number * 10

    assert list(IN_PROCESS.map(slower_at_first, range(8), "count", threads=threads)) == [number * 10 for number in range(8)]
    assert list(IN_PROCESS.map(slower_at_first, [], "count", threads=threads)) == []


@pytest.mark.parametrize("threads", THREADS)
def test_results_are_combined_into_one_and_those_of_no_item_into_none(threads: int) -> None:
    assert list(IN_PROCESS.map(str, range(5), "join", threads=threads, combine=add)) == ["01234"]
    assert list(IN_PROCESS.map(str, [], "join", threads=threads, combine=add)) == []


@pytest.mark.parametrize("threads", THREADS)
def test_each_item_that_writes_is_a_task_of_its_own(tmp_path: Path, threads: int) -> None:
    write = writing(tmp_path, lambda _: False)
    outcomes = IN_PROCESS.map(write, [7, 8, 9], "write", threads=threads, target=target(tmp_path))
    assert [Path(outcome.added[0].file_path).name for outcome in outcomes] == ["0-7", "1-8", "2-9"]


@pytest.mark.parametrize("threads", THREADS)
def test_after_a_failure_no_file_of_any_item_remains(tmp_path: Path, threads: int) -> None:
    write = writing(tmp_path, lambda number: number == 5)
    with pytest.raises(StorageError, match="no space for 5"):
        IN_PROCESS.map(write, range(9), "write", threads=threads, target=target(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_stops_the_items_that_are_still_written(tmp_path: Path) -> None:
    def write(number: int, task: WritingTask) -> Written:
        if number:
            raise StorageError("refused")
        for _ in range(3_000):
            if task.is_stopped():
                raise CancelledError
            time.sleep(0.01)
        raise AssertionError("the first item was not stopped")

    with pytest.raises(StorageError, match="refused"):
        IN_PROCESS.map(write, range(2), "write", threads=2, target=target(tmp_path))


def test_this_process_does_all_work_where_spark_is_not_used() -> None:
    choice = EngineChoice(uses_spark=False, bytes_to_start=1)
    assert choice.running() is IN_PROCESS
    assert choice.for_bytes(1 << 40) is IN_PROCESS
    assert choice.for_many(10, least=1) is IN_PROCESS
    with pytest.raises(UnsupportedFeatureError, match="MERGE is run by Spark"):
        choice.for_statements("merge")


def test_a_name_comes_before_the_amount_of_work() -> None:
    assert EngineChoice(bytes_to_start=1).for_bytes(10, "in-process") is IN_PROCESS
    assert EngineChoice().for_many(10, 1, "in-process") is IN_PROCESS
    for choose in (EngineChoice().for_bytes, lambda size, name: EngineChoice().for_many(size, 1, name)):
        with pytest.raises(EngineError, match="no engine named 'sparkle'"):
            choose(10, "sparkle")


def test_another_choice_holds_during_a_block() -> None:
    before = engine_choice()
    with choosing_engines(EngineChoice(footers=3)):
        with choosing_engines(EngineChoice(footers=4)):
            assert engine_choice().footers == 4
        assert engine_choice().footers == 3
    assert engine_choice() is before
