"""Writes on a cluster of two executors: one is killed in the middle of its task, also after a shuffle, so that a stage runs again; and tasks run twice at once.

Run by `test_lost_attempts.py` with the catalog's folder; prints the outcome of each write, a line each. Every process has an address of its own on
loopback, because Spark repeats a slow task only on another host.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from tests.spark.lost_changes_child import files_at_the_end

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.row_level import changed_rows_job
from icefloe.spark.runtime.java_runtime import find_java
from icefloe.spark.runtime.start_session import session
from icefloe.spark.write import data_file_job

ROWS, PARTITIONS = 40_000, 4
KILLED, SLOW = "executor killed", "slow"
MOST_S, MOST_STAGES = 240, 300


@dataclass(frozen=True)
class Losing:
    """A replacement of a class that writes in tasks. It loses the first attempt at the first task, with files written and one open."""

    writer: Callable[[Any], Any]
    how: str
    folder: str

    def __call__(self, batches: Any) -> Iterator[Any]:
        outcomes = list(self.writer(self._until_lost(batches)))
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            Path(self.folder, "written").touch()
        yield from outcomes

    def _until_lost(self, batches: Any) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            yield batch
            context = TaskContext.get()
            if number == 0 and context is not None and context.partitionId() == 0:
                self._lose()

    def _lose(self) -> None:
        try:
            Path(self.folder, "lost").touch(exist_ok=False)
        except FileExistsError:
            return
        if self.how == KILLED:
            os.kill(executor(), signal.SIGKILL)
        began = time.monotonic()
        while not Path(self.folder, "written").exists():  # by the other attempt
            if time.monotonic() > began + MOST_S:
                Path(self.folder, "lost").unlink()  # no other attempt started
                return
            time.sleep(0.1)


def executor() -> int:
    """Return the process id of the JVM that started this Python worker."""
    process_id = os.getppid()
    while b"java" not in Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")[0]:
        process_id = int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[1])
    return process_id


def stages_run_again(spark: SparkSession) -> int:
    """Return the number of stages that ran more than once so far."""
    stages = map(spark.sparkContext.statusTracker().getStageInfo, range(MOST_STAGES))
    return sum(stage is not None and stage.currentAttemptId > 0 for stage in stages)


STATEMENTS = {
    "append": "INSERT INTO lake.db.flat SELECT id, 0L AS v FROM range(0, {rows}, 1, {partitions})",
    "append into partitions": "INSERT INTO lake.db.parted SELECT id, id % 4 AS v FROM range(0, {rows}, 1, {partitions})",
    "merge": "MERGE INTO lake.db.flat t USING (SELECT id * 2 AS id FROM range({rows})) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 7)",
}
WRITERS = {
    "append": (data_file_job, "TaskWriter"),
    "append into partitions": (data_file_job, "TaskWriter"),
    "merge": (changed_rows_job, "TaskChanger"),
}


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start a standalone Spark master and two workers of one core each, and yield the address of the master."""
    java = find_java()
    environment = {**os.environ, "JAVA_HOME": str(java.home), "SPARK_HOME": _find_spark_home(), "SPARK_SCALA_VERSION": "2.13"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(kind: str, *arguments: str) -> None:
            command = [str(Path(environment["SPARK_HOME"], "bin", "spark-class")), f"org.apache.spark.deploy.{kind}", *arguments]
            log = stack.enter_context((folder / f"{kind} {arguments[1]}.log").open("wb"))
            started = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            stack.callback(started.wait)
            stack.callback(os.killpg, started.pid, signal.SIGKILL)

        start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for host in ("127.0.0.2", "127.0.0.3"):
            work = str(folder / host)
            start("worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work, address)
        yield address


def run(spark: SparkSession, catalog: SqlCatalog, job: str, how: str, folder: Path) -> None:
    """Run one write and print the rows and files after it."""
    lost_attempts = folder / f"{job} {how}"
    lost_attempts.mkdir()
    module, name = WRITERS[job]
    writer = getattr(module, name)
    setattr(module, name, lambda *arguments: Losing(writer(*arguments), how, str(lost_attempts)))
    before = stages_run_again(spark)
    spark.sql(STATEMENTS[job].format(rows=ROWS, partitions=PARTITIONS))
    setattr(module, name, writer)
    name = "db.parted" if "partitions" in job else "db.flat"
    table = catalog.load_table(name)
    seen = spark.table(f"lake.{name}").selectExpr("count(v) AS rows", "count(_pos) AS positions").first()
    left, missing = files_at_the_end(table)
    found = {
        "job": job,
        "how": how,
        "lost": (lost_attempts / "lost").exists(),
        "rows": table.scan().count(),
        "seen": None if seen is None else [seen.rows, seen.positions],  # executors know what counts positions
        "stage_again": stages_run_again(spark) > before,
        "left": left,
        "missing": missing,
    }
    print("OUTCOME" + json.dumps(found), flush=True)


if __name__ == "__main__":
    folder, how = Path(sys.argv[1]), sys.argv[2]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    conf = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.speculation": str(how == SLOW).lower(),
        "spark.speculation.quantile": "0.5",
        "spark.speculation.efficiency.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.speculation.interval": "200ms",
    }
    with cluster(folder) as address:
        spark = session(conf, master=address)
        attach(spark, "lake", catalog)
        for job in sys.argv[3:] or WRITERS:
            run(spark, catalog, job, how, folder)
        spark.stop()
