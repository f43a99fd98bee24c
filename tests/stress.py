"""Stress tests with real processes on one table: concurrent writers, and writers that are killed, interrupted or terminated at random moments.

    python -m tests.stress many [--uri URI | --postgres] [--writers 8] [--commits 100]     throughput and conflict rate, as one line of JSON
    python -m tests.stress kill [--uri URI | --postgres] [--rounds 500] [--signal KILL]    numbers of rounds, acknowledged and unacknowledged commits

`table/test_many_writers.py` runs them. The summary of each snapshot names the writer, and every writer has its own rows, so that the acknowledged commits
determine the rows of the table. Children are forked from this process, which reads no table itself, so that a round takes milliseconds.
"""

import argparse
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

# Modules that Icefloe loads when it needs them are loaded before processes are forked, not in each of them.
import numpy as np  # noqa: F401
import pyarrow as pa
import pyarrow.dataset
import pyarrow.orc
import sqlalchemy.dialects.sqlite  # noqa: F401
from tests.postgres import running_postgres

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.table import Table

SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64()), ("copy", pa.int64())])
# No writer may give up: there are more writers than retries by default.
PATIENCE = {
    "commit.retry.num-retries": "10000",
    "commit.retry.min-wait-ms": "2",
    "commit.retry.max-wait-ms": "200",
    "write.delete.mode": "merge-on-read",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.delete-after-commit.enabled": "true",
}
COPIES = 3
# Seconds after which a signal is sent again: Python ignores an interrupt during a finalizer.
SIGNAL_AGAIN_S = 10.0
Row = tuple[str, int, int]


@dataclass(kw_only=True)
class Place:
    """The catalog, warehouse and name of the table."""

    uri: str
    warehouse: str
    name: str = "db.t"

    def catalog(self) -> SqlCatalog:
        return SqlCatalog("stress", uri=self.uri, warehouse=self.warehouse)

    def table(self) -> Table:
        return self.catalog().load_table(self.name)

    def create(self, version: int) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("db")
        catalog.create_table(self.name, SCHEMA, properties={"format-version": str(version), **PATIENCE})


def rows(writer: str, number: int) -> pa.Table:
    return pa.table(
        {"writer": [writer] * COPIES, "number": pa.array([number] * COPIES, pa.int64()), "copy": pa.array(range(COPIES), pa.int64())}
    )


def rows_of(writer: str, number: int) -> str:
    return f"writer = '{writer}' and number = {number}"


def append(table: Table, writer: str, number: int, summary: dict[str, str]) -> int:
    return table.append(rows(writer, number), summary).attempts


def overwrite(table: Table, writer: str, number: int, summary: dict[str, str]) -> int:
    return table.overwrite(rows(writer, number), rows_of(writer, number - 1), summary).attempts


def delete(table: Table, writer: str, number: int, summary: dict[str, str]) -> int:
    return table.delete(f"{rows_of(writer, number - 1)} and copy = 0", summary).attempts


def delete_keys(table: Table, writer: str, number: int, summary: dict[str, str]) -> int:
    keys = pa.table({"writer": [writer], "number": pa.array([number - 2], pa.int64()), "copy": pa.array([1], pa.int64())})
    return table.delete_keys(keys, ["writer", "number", "copy"], summary).attempts


def together(table: Table, writer: str, number: int, summary: dict[str, str]) -> int:
    with table.transaction() as tx:
        tx.append(rows(writer, number), summary)
        tx.delete(f"{rows_of(writer, number)} and copy = 2")
        tx.set_properties({f"stress.{writer}": str(number)})
    return 1


def other_mode(table: Table, writer: str, number: int, summary: dict[str, str]) -> int:
    is_merged = table.refresh().properties["write.delete.mode"] == "merge-on-read"
    with table.transaction() as tx:
        tx.set_properties({"write.delete.mode": "copy-on-write" if is_merged else "merge-on-read"})
        tx.append(rows(writer, number), summary)
    return 1


# The operations of a writer, in turn, and its rows in the table after each.
OPERATIONS: list[tuple[Callable[[Table, str, int, dict[str, str]], int], Callable[[set[Row], str, int], set[Row]]]] = [
    (append, lambda before, w, n: before | full(w, n)),
    (overwrite, lambda before, w, n: {row for row in before if row[1] != n - 1} | full(w, n)),
    (delete, lambda before, w, n: before - {(w, n - 1, 0)}),
    (delete_keys, lambda before, w, n: before - {(w, n - 2, 1)}),
    (together, lambda before, w, n: before | (full(w, n) - {(w, n, 2)})),
    (delete, lambda before, w, n: before - {(w, n - 1, 0)}),
    (other_mode, lambda before, w, n: before | full(w, n)),
]


def full(writer: str, number: int) -> set[Row]:
    return {(writer, number, copy) for copy in range(COPIES)}


def rows_after(writer: str, commits: int) -> set[Row]:
    """Return the rows of a writer after a number of its commits."""
    held: set[Row] = set()
    for number in range(commits):
        held = OPERATIONS[number % len(OPERATIONS)][1](held, writer, number)
    return held


def write(place: Place, writer: str, commits: int, pipe: int, *, first: int = 0, is_over: Callable[[], bool] = lambda: False) -> None:
    """Commit as a writer; write `number attempts` to the pipe after each acknowledged commit.

    Args:
        place: the table.
        writer: its name.
        commits: the number of commits.
        pipe: where to write.
        first: the number of the first one.
        is_over: called before each commit; True ends the writer.
    """
    table = place.table()
    for number in range(first, first + commits):
        if is_over():
            return
        summary = {"stress": f"{writer} {number}"}
        attempts = OPERATIONS[number % len(OPERATIONS)][0](table, writer, number, summary)
        os.write(pipe, f"{number} {attempts}\n".encode())


@dataclass(kw_only=True)
class Child:
    """A forked process and its output so far."""

    pid: int
    writer: str
    pipe: int
    text: bytes = b""
    status: int | None = None

    @property
    def acknowledged(self) -> list[tuple[int, int]]:
        """The numbers of acknowledged commits, and the attempts of each."""
        lines = self.text.decode().split("\n")[:-1]
        return [(int(number), int(attempts)) for number, attempts in (line.split() for line in lines)]

    def read(self, seconds: float | None) -> bool:
        """Read some output, waiting at most so many seconds; return False at its end."""
        if not select.select([self.pipe], [], [], seconds)[0]:
            return True
        part = os.read(self.pipe, 65536)
        self.text += part
        return bool(part)

    def end(self, send_signal: Callable[[], None] | None = None) -> int:
        """Read the remaining output and wait for the end; call `send_signal` again while the process runs on. Return the number of calls."""
        signals, ends_by = 0, time.monotonic() + SIGNAL_AGAIN_S
        while self.read(None if send_signal is None else SIGNAL_AGAIN_S):
            if send_signal is not None and time.monotonic() > ends_by:
                send_signal()
                signals, ends_by = signals + 1, time.monotonic() + SIGNAL_AGAIN_S
        os.close(self.pipe)
        self.status = os.waitpid(self.pid, 0)[1]
        return signals


def fork(writer: str, work: Callable[[int], None]) -> Child:
    """Fork a child that does the work, which gets the write end of a pipe. Its exit code is 1 if the work fails, and 2 on Ctrl-C."""
    sys.stdout.flush()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return Child(pid=pid, writer=writer, pipe=read_end)
    code = 1
    try:
        os.close(read_end)
        work(write_end)
        code = 0
    except KeyboardInterrupt:
        code = 2
    except BaseException:  # noqa: BLE001  a child that continued would be a second test run
        traceback.print_exc()
    finally:
        os._exit(code)


def check_table(place: Place, acknowledged: dict[str, int], *, finished: bool) -> dict[str, int]:
    """Check that every acknowledged commit is in the table once and whole, and that totals are right; return the number of commits by writer.

    A writer that was stopped may have one commit more than were acknowledged.
    """
    table = place.table()
    committed = commits_in_history(table)
    counts = Counter(tuple(row.values()) for row in table.scan().select("writer", "number", "copy").to_arrow().to_pylist())
    assert set(counts.values()) <= {1}, "rows are in the table twice"
    commits: dict[str, int] = {}
    for writer, count in acknowledged.items():
        actual = {row for row in counts if row[0] == writer}
        possible = [count] if finished else [count, count + 1]
        fitting = [commits for commits in possible if rows_after(writer, commits) == actual]
        assert fitting, f"{writer} has {count} acknowledged commits, but the table has the rows {sorted(actual)}"
        commits[writer] = fitting[-1]
        missing = [number for number in range(count) if f"{writer} {number}" not in committed]
        assert not missing, f"{writer}: acknowledged commits {missing} are not in the history"
    check_history(table)
    return commits


def commits_in_history(table: Table) -> Counter[str]:
    """Return the commits in the history, and check that each is in it once."""
    commits = Counter(snapshot.summary["stress"] for snapshot in table.snapshots() if "stress" in snapshot.summary)
    assert set(commits.values()) <= {1}, f"committed twice: {[name for name, count in commits.items() if count > 1]}"
    return commits


def check_acknowledged(place: Place, acknowledged: dict[str, int]) -> dict[str, int]:
    """Check as `check_table` does, but only the history and not the rows: every acknowledged commit is in it, and none twice."""
    table = place.table()
    committed = commits_in_history(table)
    commits: dict[str, int] = {}
    for writer, count in acknowledged.items():
        actual = {int(name.split()[1]) for name in committed if name.split()[0] == writer}
        assert actual in (set(range(count)), set(range(count + 1))), (
            f"{writer} has {count} acknowledged commits, the history {sorted(actual)}"
        )
        commits[writer] = len(actual)
    check_line(table)
    return commits


def check_line(table: Table) -> None:
    """Check that snapshots form one line with increasing sequence numbers."""
    snapshots = table.snapshots()
    numbers = [snapshot.sequence_number for snapshot in snapshots]
    assert numbers == list(range(1, len(snapshots) + 1)), numbers
    parents = [None, *(snapshot.snapshot_id for snapshot in snapshots[:-1])][: len(snapshots)]
    assert [snapshot.parent_snapshot_id for snapshot in snapshots] == parents


def check_history(table: Table) -> None:
    """Check that snapshots form one line with increasing sequence numbers, and that totals agree with a scan."""
    check_line(table)
    snapshots = table.snapshots()
    if snapshots:
        files = {task.file.file_path for task in table.scan().plan_files()}
        assert int(snapshots[-1].summary["total-data-files"]) >= len(files)
        assert table.scan().count() == table.scan().to_arrow().num_rows


def checked(work: Callable[[], Any]) -> Any:
    """Do the work in a child and return its result, so that this process starts no threads and can still be forked."""
    child = fork("check", lambda pipe: void(os.write(pipe, (json.dumps(work()) + "\n").encode())))
    text = b""
    while part := os.read(child.pipe, 65536):
        text += part
    os.close(child.pipe)
    assert os.waitpid(child.pid, 0)[1] == 0, "the check failed: see above"
    return json.loads(text)


def void(_: object) -> None:
    """Return None."""


@dataclass(kw_only=True)
class Report:
    """The result of concurrent writers."""

    writers: int
    commits: int
    seconds: float
    attempts: int
    per_second: float = field(init=False)
    lost_races: float = field(init=False)  # share of all counted attempts

    def __post_init__(self) -> None:
        self.per_second = round(self.commits / self.seconds, 1)
        self.lost_races = round(1 - self.commits / self.attempts, 3)


def many_writers(place: Place, writers: int, commits: int, version: int) -> Report:
    """Run writers at once and check the table afterwards."""
    checked(lambda: place.create(version))
    begun = time.monotonic()
    names = [f"w{number}" for number in range(writers)]
    children = [fork(name, partial(write, place, name, commits)) for name in names]
    read_all(children, writers * commits)
    for child in children:
        child.end()
        assert child.status == 0, f"{child.writer} failed: see above"
        assert len(child.acknowledged) == commits
    seconds = time.monotonic() - begun
    checked(lambda: check_table(place, {child.writer: commits for child in children}, finished=True))
    attempts = sum(attempts for child in children for _, attempts in child.acknowledged)
    return Report(writers=writers, commits=writers * commits, seconds=round(seconds, 1), attempts=attempts)


def read_all(children: Sequence[Child], total: int) -> None:
    """Read the output of all children until they end, and print the progress after each tenth of the total."""
    running, tenths = list(children), 0
    while running:
        ready = select.select([child.pipe for child in running], [], [])[0]
        running = [child for child in running if child.pipe not in ready or child.read(0)]
        acknowledged = sum(child.text.count(b"\n") for child in children)
        if acknowledged * 10 // total > tenths:
            tenths = acknowledged * 10 // total
            print(f"{acknowledged} of {total} commits acknowledged", file=sys.stderr, flush=True)


@dataclass(kw_only=True)
class KillReport:
    """The result of writers that were stopped."""

    rounds: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0  # commits in the table whose writer was stopped before it received the reply
    outcomes: Counter[str] = field(default_factory=Counter)  # exit statuses of the writers
    ignored_signals: int = 0  # signals that did not end a writer


def stop_writers(
    place: Place, rounds: int, seed: int, signals: Sequence[int] = (signal.SIGKILL,), rounds_each: int = 30, full_each: int = 1
) -> KillReport:
    """Stop a writer at a random moment in each round, and check the history of the table; check its rows too every `full_each` rounds.

    Each table is used for `rounds_each` rounds and its rows are checked at the end.
    """
    chance, result = random.Random(seed), KillReport()
    for first in range(0, rounds, rounds_each):
        here = Place(uri=place.uri, warehouse=place.warehouse, name=f"db.t{first // rounds_each}")
        checked(partial(here.create, chance.choice([2, 3])))
        acknowledged: dict[str, int] = {}
        for number in range(first, min(first + rounds_each, rounds)):
            child, ignored = stopped_writer(here, f"r{number}", chance, chance.choice(signals))
            result.ignored_signals += ignored
            result.outcomes[str(child.status)] += 1
            assert child.status != 256, "a writer failed by itself: see above"
            acknowledged[child.writer] = len(child.acknowledged)
            is_full = (number + 1) % full_each == 0 or number + 1 in {rounds, first + rounds_each}
            check = partial(check_table, here, acknowledged, finished=False) if is_full else partial(check_acknowledged, here, acknowledged)
            commits = checked(check)
            result.rounds += 1
            result.acknowledged += acknowledged[child.writer]
            result.unacknowledged += commits[child.writer] - acknowledged[child.writer]
            acknowledged = commits
        print(f"{result.rounds} of {rounds} rounds, {result.acknowledged} commits acknowledged", file=sys.stderr, flush=True)
    return result


def stopped_writer(place: Place, writer: str, chance: random.Random, kind: int) -> tuple[Child, int]:
    """Stop a new writer at a random moment, mostly after its first commits; return it and the number of further signals that it needed."""
    child = fork(writer, lambda pipe: write(place, writer, 1000, pipe))
    if chance.random() < 0.8:
        child.read(20)
    time.sleep(chance.random() * 0.15)
    os.kill(child.pid, kind)
    return child, child.end(lambda: os.kill(child.pid, kind))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("kind", choices=["many", "kill"])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--uri", help="an SQLAlchemy URL; a new SQLite file by default")
    where.add_argument("--postgres", action="store_true", help="a new PostgreSQL server of its own")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--full-each", type=int, default=1, help="check the rows every so many rounds, and the history in each")
    parser.add_argument("--version", type=int, default=3)
    parser.add_argument("--signal", default="KILL", help="one or several of KILL, TERM and INT")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background processes with SIGINT ignored
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if arguments.postgres:
            server = stack.enter_context(running_postgres())
            arguments.uri = server.uri(server.new_database())
        place = Place(uri=arguments.uri or f"sqlite:///{folder}/catalog.db", warehouse=folder)
        if arguments.kind == "many":
            report: Any = many_writers(place, arguments.writers, arguments.commits, arguments.version)
        else:
            kinds = [getattr(signal, f"SIG{name}") for name in arguments.signal.split(",")]
            report = stop_writers(place, arguments.rounds, arguments.seed, kinds, full_each=arguments.full_each)
        print(json.dumps(vars(report)))


if __name__ == "__main__":
    main()
