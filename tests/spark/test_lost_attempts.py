"""Tasks that fail, are killed or lose a race, and a driver that is killed before its commit: the table is unchanged or complete, without remaining files."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import StorageError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spark.write.failed_attempt_cleanup import TaskAttempt, delete_files_of_operation, delete_lost_attempts
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

SCHEMA = Schema(NestedField(1, "id", LongType()))
SCHEMA_OF_CHANGES = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", LongType()), identifier_field_ids=(1,))
ROWS = 200_000


@pytest.mark.slow
@pytest.mark.spark
def test_lost_tasks_and_a_lost_driver(lake: SqlCatalog, tmp_path: Path) -> None:
    table = lake.create_table("db.t", SCHEMA, properties={"write.target-file-size-bytes": "20000"})
    table.append(pa.table({"id": [1, 2, 3]}))
    child = Path(__file__).parent / "lost_attempts_child.py"
    ended = subprocess.run([sys.executable, str(child), str(tmp_path)], capture_output=True, text=True, timeout=500, check=False)
    lines = [json.loads(line.removeprefix("OUTCOME")) for line in ended.stdout.splitlines() if line.startswith("OUTCOME")]
    assert [line["name"] for line in lines] == ["failed", "failed once", "failed once, wrote late", "killed once"], ended.stderr[-3000:]
    failed, retried, late, killed = lines
    assert failed == {"name": "failed", "rows": 3, "named": 1, "there": 1, "names_reason": True}
    assert retried["rows"] == 3 + ROWS
    assert retried["there"] == retried["named"] > 8
    assert late["rows"] == 3 + 2 * ROWS
    assert late["there"] == late["named"] > retried["named"]
    assert killed["rows"] == 3 + 3 * ROWS
    assert killed["there"] == killed["named"] > late["named"]

    assert ended.returncode == -signal.SIGKILL
    table.refresh()
    assert table.scan().count() == 3 + 3 * ROWS
    there = {str(path) for path in (tmp_path / "warehouse").rglob("*.parquet")}
    named = {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}
    assert named < there  # files of the lost driver exist, and no snapshot names them
    table.append(pa.table({"id": [4]}))
    assert table.scan().count() == 4 + 3 * ROWS


JOBS = ("append", "append by the data source", "upsert", "update", "merge", "delete")


@pytest.mark.slow
@pytest.mark.spark
def test_no_job_that_writes_leaves_files_of_lost_tasks(lake: SqlCatalog, tmp_path: Path) -> None:
    form = {"format-version": "3", "write.merge.mode": "merge-on-read", "write.target-file-size-bytes": "20000"}
    lake.create_table("db.t", SCHEMA_OF_CHANGES, properties=form)
    child = Path(__file__).parent / "lost_changes_child.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *(path for path in sys.path if path)])}
    ended = subprocess.run(
        [sys.executable, str(child), str(tmp_path)], capture_output=True, text=True, timeout=1800, check=False, env=environment
    )
    outcomes = [json.loads(line.removeprefix("OUTCOME")) for line in ended.stdout.splitlines() if line.startswith("OUTCOME")]
    wanted = [
        {"job": job, "lost": how, "was_lost": True, "ended": how != "always failing", "left": [], "missing": []}
        for job in JOBS
        for how in ("failing once", "killed once", "always failing")
    ]
    assert outcomes == wanted, ended.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("how", ["executor killed", "slow"])
def test_on_a_cluster_a_lost_executor_and_tasks_that_run_twice_leave_nothing(lake: SqlCatalog, tmp_path: Path, how: str) -> None:
    form = {"format-version": "3", "write.merge.mode": "merge-on-read", "write.target-file-size-bytes": "20000"}
    lake.create_table("db.flat", SCHEMA_OF_CHANGES, properties=form)
    parted = lake.create_table("db.parted", SCHEMA_OF_CHANGES, properties=form)
    with parted.update_spec() as update:
        update.add_field("v", "identity")
    child = Path(__file__).parent / "lost_executors_child.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *(path for path in sys.path if path)])}
    ended = subprocess.run(
        [sys.executable, str(child), str(tmp_path), how], capture_output=True, text=True, timeout=900, check=False, env=environment
    )
    outcomes = [json.loads(line.removeprefix("OUTCOME")) for line in ended.stdout.splitlines() if line.startswith("OUTCOME")]
    rows = {"append": 40_000, "append into partitions": 40_000, "merge": 60_000}
    again = {name: how == "executor killed" and name != "append" for name in rows}  # a shuffle's output was lost with the executor
    wanted = [
        {"job": job, "how": how, "lost": True, "rows": count, "seen": [count, count], "stage_again": again[job], "left": [], "missing": []}
        for job, count in rows.items()
    ]
    assert outcomes == wanted, ended.stderr[-3000:]


def two_attempts(folder: Path) -> tuple[WriteTarget, list[str], list[str]]:
    """Return the target of a task that ran twice, as with speculation, and the files of each attempt."""
    target = WriteTarget(table_name="db.t", schema=SCHEMA, data_location=str(folder / "data"), io=LocalFileIO(), operation_uuid="0f0f")
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]}, schema=pa.schema([("id", pa.int64())]))
    first, second = (write_batches(target, [batch], partition_id=0, task_id=number) for number in (1, 2))
    return target, [file.file_path for file in first], [file.file_path for file in second]


def test_files_of_the_attempt_that_lost_are_deleted_and_no_others(tmp_path: Path) -> None:
    target, first, second = two_attempts(tmp_path)
    other = tmp_path / "data" / "00000-1-another-00001.parquet"
    other.write_bytes(b"of another operation")
    assert all(Path(path).exists() for path in (*first, *second))
    delete_files_of_operation(target, set(second), (0.0,))
    assert sorted(str(path) for path in (tmp_path / "data").iterdir()) == sorted([*second, str(other)])


def test_late_files_of_a_lost_attempt_are_deleted_and_delete_files_of_the_operation_are_kept(
    tmp_path: Path,
) -> None:
    target, first, second = two_attempts(tmp_path)
    before = set(threading.enumerate())
    delete_files_of_operation(target, set(second), (0.0,), (0.5,) * 10)
    looking = set(threading.enumerate()) - before
    assert not any(Path(path).exists() for path in first)
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]}, schema=pa.schema([("id", pa.int64())]))
    late = write_batches(target, [batch], partition_id=0, task_id=1)
    of_driver = [tmp_path / "data" / f"00000-0-0f0f-{name}" for name in ("deletes.puffin", "deletes-00001-00001.parquet")]
    for path in of_driver:
        path.write_bytes(b"of the same operation")
    for thread in looking:
        thread.join(60)
    assert not any(Path(file.file_path).exists() for file in late)
    assert all(path.exists() for path in (*of_driver, *map(Path, second)))


class Refusing(LocalFileIO):
    """A storage that deletes nothing."""

    def delete_if(self, location: str, may_delete: Callable[[str], bool]) -> bool:
        raise StorageError(f"no right to delete {location}", path=location)


def test_files_that_the_storage_cannot_delete_cause_one_warning_and_no_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, first, second = two_attempts(tmp_path)
    waits: list[float] = []
    sleep, here = time.sleep, threading.get_ident()
    # Other threads of the process, such as Spark's, sleep as ever.
    monkeypatch.setattr(time, "sleep", lambda seconds: waits.append(seconds) if threading.get_ident() == here else sleep(seconds))
    delete_files_of_operation(replace(target, io=Refusing()), set(second))
    assert waits == [0.0]
    assert [*first, *second] == sorted(str(path) for path in (tmp_path / "data").iterdir())
    assert len(caplog.messages) == 1
    assert all(part in caplog.messages[0] for part in (target.data_location, target.operation_uuid, first[0]))


def test_a_missing_data_folder_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target, _, _ = two_attempts(tmp_path)
    delete_files_of_operation(replace(target, data_location=str(tmp_path / "none")), (), (0.0,))
    assert not caplog.messages


@pytest.mark.spark
def test_no_files_are_listed_if_each_task_had_one_attempt(spark: SparkSession, tmp_path: Path) -> None:
    target, first, second = two_attempts(tmp_path)
    delete_lost_attempts(spark, target, set(second), [TaskAttempt()])
    assert Path(first[0]).exists()
    delete_lost_attempts(spark, target, set(second), [TaskAttempt(), TaskAttempt(number=1)])
    assert not Path(first[0]).exists()
    assert Path(second[0]).exists()
