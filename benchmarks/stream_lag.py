"""The lag of two streams in a row: rows of Spark's rate source into a table, each second, and from that table into a second one.

The lag of a row is the time from its creation by the source until the commit that makes it readable in the second table. The source creates the rows of a
second when that second is over, so that half a second of it is the source's own. Beside the lag, the memory of the JVM, of this process and of the Python
workers late in the run is compared with that of a third of the run. `ICEFLOE_LAG_BATCHES` sets the batches.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import measure
from benchmarks.measure import Comparison, median, say, seconds
from benchmarks.spark_lake import session_with_lake
from icefloe.table import Table

BATCHES = int(os.environ.get("ICEFLOE_LAG_BATCHES", "300"))
ROWS_PER_SECOND = 100
TRIGGER_S = 1.0
WARM_BATCHES = 20
PAGE = os.sysconf("SC_PAGE_SIZE")


def run() -> list[Comparison]:
    """Run both streams, and measure lag and memory."""
    shutil.rmtree(measure.BUILD / "stream-lag", ignore_errors=True)
    with session_with_lake("stream-lag", **{"spark.driver.memory": "1g"}) as (spark, catalog, folder):
        rate = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_SECOND).load().selectExpr("timestamp AS at", "value AS id")
        for name in ("first", "second"):
            catalog.create_table(f"bench.{name}", pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())]))
        second = catalog.load_table("bench.second")
        say(f"stream-lag: {BATCHES} batches of {TRIGGER_S:.0f} s")
        rows = rate.writeStream.option("checkpointLocation", str(folder / "checkpoint-first")).trigger(
            processingTime=f"{TRIGGER_S} seconds"
        )
        streams: list[Any] = [rows.toTable("lake.bench.first")]
        copied = spark.readStream.table("lake.bench.first").writeStream.option("checkpointLocation", str(folder / "checkpoint-second"))
        streams.append(copied.toTable("lake.bench.second"))
        memory = []
        while len(second.refresh().snapshots()) < BATCHES:
            memory.append(_memory())
            for stream in streams:
                if not stream.isActive:
                    raise SystemExit(f"a stream has ended: {stream.exception()}")
            time.sleep(2)
        for stream in streams:
            stream.stop()
        lags = _lags(second.refresh())
    late, early = (median(memory[len(memory) * part // 10 :][: len(memory) // 10 or 1]) for part in (9, 3))
    lag = median(lags)
    return [
        Comparison(
            f"median lag of {len(lags):,} rows through two tables in {BATCHES} batches (beside the trigger of the first stream)",
            seconds(lag),
            seconds(TRIGGER_S),
            lag / TRIGGER_S,
            "<= 1.5",
        ),
        Comparison(
            "the lag of one row in a hundred is longer",
            seconds(sorted(lags)[len(lags) * 99 // 100]),
            seconds(lag),
            sorted(lags)[len(lags) * 99 // 100] / lag,
            "",
        ),
        Comparison(
            "memory of all processes at the end of the run (a third into it)",
            f"{late / 2**20:.0f} MB",
            f"{early / 2**20:.0f} MB",
            late / early,
            "<= 1.1",
        ),
    ]


def _lags(table: Table) -> list[float]:
    """Return the seconds from the creation of each row to its commit, without those of the first batches, in which the JVM compiles."""
    lags = []
    for snapshot in table.snapshots()[WARM_BATCHES:]:
        rows = table.scan().appends_between(snapshot.parent_snapshot_id, snapshot.snapshot_id).to_arrow()
        lags += [snapshot.timestamp_ms / 1000 - at.timestamp() for at in rows["at"].to_pylist()]
    return lags


def _memory() -> int:
    """Return the resident bytes of this process and of all that it started."""
    parents, resident = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                resident[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * PAGE
            except OSError:
                continue  # the process has ended
    family = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(resident[process] for process in family if process in resident)
