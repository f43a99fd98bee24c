"""`icefloe serve` with one worker on SQLite: loads of a table by 10 clients at once, commits of one row and planning compared with direct ones.

The server and the clients share the machine, so that the rate is below what the server alone could answer. It is a rate of the clock; the CPU of
the server for a load is beside it, as it does not depend on other load.
"""

import http.client
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds
from icefloe.catalog import load_catalog
from icefloe.catalog.catalog import Catalog

CLIENTS, LOADS, COMMITS, ROUNDS = 10, 300, 10, 3
GOAL_LOADS, GOAL_P99_MS, GOAL_COMMITS, GOAL_PLANS = 300, 100, 3, 1.5
ROW = pa.table({"id": pa.array([1], pa.int64())})


def run() -> list[Comparison]:
    """Measure loads, then commits and plans of both sides in turns."""
    return [*loads_and_commits(), *plans()]


def plans() -> list[Comparison]:
    """Measure the planning of 100,000 files as tasks by the server, and of the same table by the client, each with a new server and a new client."""
    folder = measure.BUILD / "served"
    say("serving: the table of 100,000 files (made once, half a minute)")
    metadata = str(planning_table.metadata_path(folder / "db" / "planned"))
    with load_catalog("default", warehouse=str(folder)) as catalog:
        catalog.create_namespace_if_not_exists("db")
        if not catalog.table_exists("db.planned"):
            catalog.register_table("db.planned", metadata)

    def side(mode: str) -> Any:
        with serving(str(folder)) as (port, _):
            return child("icefloe", "serving_child.py", f"http://127.0.0.1:{port}", mode, "db.planned")

    say(f"serving: plans of 100,000 files, {ROUNDS} times on each side")
    taken = interleaved(ROUNDS, {mode: lambda mode=mode: side(mode) for mode in ("server", "client")})
    lines = []
    for which, what in (("first", "no process has the manifests"), ("second", "the planning process has the manifests")):
        ours, theirs = (median([one[which] for one in taken[mode]]) for mode in ("server", "client"))
        title = f"planning 100,000 files through the server, {what} (locally)"
        lines.append(Comparison(title, seconds(ours), seconds(theirs), ours / theirs, f"<= {GOAL_PLANS}"))
    return lines


def loads_and_commits() -> list[Comparison]:
    """Measure loads, then commits of both sides in turns."""
    with TemporaryDirectory() as folder, serving(folder) as (port, process):
        direct = load_catalog("default", warehouse=folder)
        direct.create_namespace("db")
        for name in ("t", "direct", "served"):
            direct.create_table(f"db.{name}", ROW.schema).append(ROW)
        say(f"serving: {CLIENTS} clients load a table {LOADS} times each")
        load(port, 20)
        before, started = cpu_seconds(process.pid), time.perf_counter()
        times = load(port, LOADS)
        seconds, cpu = time.perf_counter() - started, cpu_seconds(process.pid) - before
        rate, p99_ms = len(times) / seconds, sorted(times)[int(len(times) * 0.99)] * 1000
        served = load_catalog("served", type="rest", uri=f"http://127.0.0.1:{port}")
        say(f"serving: {COMMITS} commits of one row on each side, {ROUNDS} times")
        taken = interleaved(ROUNDS, {"server": lambda: commit(served, "db.served"), "direct": lambda: commit(direct, "db.direct")})
        ours, theirs = (statistics.median(taken[side]) for side in ("server", "direct"))
        ms = f"{cpu / len(times) * 1000:.2f} ms of CPU each"
        return [
            Comparison(f"loads a second by {CLIENTS} clients (goal)", f"{rate:.0f}, {ms}", str(GOAL_LOADS), rate / GOAL_LOADS, ">= 1.0"),
            Comparison("99th percentile of a load (goal)", f"{p99_ms:.0f} ms", f"{GOAL_P99_MS} ms", p99_ms / GOAL_P99_MS, "<= 1.0"),
            Comparison(
                "commit of one row through the server (direct)",
                f"{ours * 1000:.0f} ms",
                f"{theirs * 1000:.0f} ms",
                ours / theirs,
                f"<= {GOAL_COMMITS}.0",
            ),
        ]


@contextmanager
def serving(folder: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """Run the server, and yield its port and its process."""
    command = [str(Path(sys.executable).with_name("icefloe")), "serve", "--warehouse", folder, "--port", "0"]
    command += ["--rate-limit", "0", "--server-log", "WARNING"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            port = int(process.stderr.readline().partition(" at ")[2].split(" ")[0].rpartition(":")[2])
            while True:
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                    connection.request("GET", "/health")
                    connection.getresponse().read()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port, process
        finally:
            process.terminate()
            process.wait(60)


def load(port: int, count: int) -> list[float]:
    """Load a table by several clients at once, and return the seconds of each load."""
    times: list[float] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(count):
            started = time.perf_counter()
            connection.request("GET", "/v1/namespaces/db/tables/t")
            response = connection.getresponse()
            assert response.status == 200
            response.read()
            times.append(time.perf_counter() - started)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def commit(catalog: Catalog, name: str) -> float:
    """Append one row several times, and return the seconds of one append."""
    table = catalog.load_table(name)
    started = time.perf_counter()
    for _ in range(COMMITS):
        table.append(ROW)
    return (time.perf_counter() - started) / COMMITS


def cpu_seconds(process_id: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
