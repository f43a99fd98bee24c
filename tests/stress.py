"""Real processes on one table: writers side by side, and writers that are killed, interrupted or terminated at random moments.

    python -m tests.stress many [--uri URI | --postgres] [--writers 8] [--commits 100]     throughput and conflict rate, as one line of JSON
    python -m tests.stress kill [--uri URI | --postgres] [--rounds 500] [--signal KILL]    how many rounds, acknowledged commits, and those never heard of

The tests are `table/test_many_writers.py`. Every commit says in its snapshot's summary who made it, and every writer has rows of its own, so that from what was
acknowledged follows what the table must hold. Children are forked from this process, which itself reads no table: a round costs milliseconds.
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

import pyarrow as pa
from tests.postgres import running_postgres

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.table import Table

SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64()), ("copy", pa.int64())])
# Nobody may give up: there are more writers than retries by default.
PATIENCE = {
    "commit.retry.num-retries": "10000",
    "commit.retry.min-wait-ms": "2",
    "commit.retry.max-wait-ms": "200",
    "write.delete.mode": "merge-on-read",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.delete-after-commit.enabled": "true",
}
COPIES = 3
# Python ignores an interrupt that it gets in the middle of a finalizer; whoever presses Ctrl-C presses it again.
PRESS_AGAIN_S = 10.0
Row = tuple[str, int, int]


@dataclass(kw_only=True)
class Place:
    """Where the table lies."""

    uri: str
    warehouse: str
    name: str = "db.t"

    def catalog(self) -> SqlCatalog:
        return SqlCatalog("storm", uri=self.uri, warehouse=self.warehouse)

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


def own(writer: str, number: int) -> str:
    return f"writer = '{writer}' and number = {number}"


def append(table: Table, writer: str, number: int, said: dict[str, str]) -> int:
    return table.append(rows(writer, number), said).attempts


def overwrite(table: Table, writer: str, number: int, said: dict[str, str]) -> int:
    return table.overwrite(rows(writer, number), own(writer, number - 1), said).attempts


def delete(table: Table, writer: str, number: int, said: dict[str, str]) -> int:
    return table.delete(f"{own(writer, number - 1)} and copy = 0", said).attempts


def delete_keys(table: Table, writer: str, number: int, said: dict[str, str]) -> int:
    keys = pa.table({"writer": [writer], "number": pa.array([number - 2], pa.int64()), "copy": pa.array([1], pa.int64())})
    return table.delete_keys(keys, ["writer", "number", "copy"], said).attempts


def together(table: Table, writer: str, number: int, said: dict[str, str]) -> int:
    with table.transaction() as tx:
        tx.append(rows(writer, number), said)
        tx.delete(f"{own(writer, number)} and copy = 2")
        tx.set_properties({f"storm.{writer}": str(number)})
    return 1


def other_mode(table: Table, writer: str, number: int, said: dict[str, str]) -> int:
    is_merged = table.refresh().properties["write.delete.mode"] == "merge-on-read"
    with table.transaction() as tx:
        tx.set_properties({"write.delete.mode": "copy-on-write" if is_merged else "merge-on-read"})
        tx.append(rows(writer, number), said)
    return 1


# What a writer does in turn: the operation, and which of its own rows are there afterwards.
OPERATIONS: list[tuple[Callable[[Table, str, int, dict[str, str]], int], Callable[[set[Row], str, int], set[Row]]]] = [
    (append, lambda held, w, n: held | full(w, n)),
    (overwrite, lambda held, w, n: {row for row in held if row[1] != n - 1} | full(w, n)),
    (delete, lambda held, w, n: held - {(w, n - 1, 0)}),
    (delete_keys, lambda held, w, n: held - {(w, n - 2, 1)}),
    (together, lambda held, w, n: held | (full(w, n) - {(w, n, 2)})),
    (delete, lambda held, w, n: held - {(w, n - 1, 0)}),
    (other_mode, lambda held, w, n: held | full(w, n)),
]


def full(writer: str, number: int) -> set[Row]:
    return {(writer, number, copy) for copy in range(COPIES)}


def held_after(writer: str, commits: int) -> set[Row]:
    """The rows of a writer after so many commits of its own."""
    held: set[Row] = set()
    for number in range(commits):
        held = OPERATIONS[number % len(OPERATIONS)][1](held, writer, number)
    return held


def write(place: Place, writer: str, commits: int, heard: int) -> None:
    """A writer: says `number attempts` after each commit that was acknowledged."""
    table = place.table()
    for number in range(commits):
        said = {"storm": f"{writer} {number}"}
        attempts = OPERATIONS[number % len(OPERATIONS)][0](table, writer, number, said)
        os.write(heard, f"{number} {attempts}\n".encode())


@dataclass(kw_only=True)
class Child:
    """A forked process and what it has said so far."""

    pid: int
    writer: str
    pipe: int
    text: bytes = b""
    status: int | None = None

    @property
    def said(self) -> list[tuple[int, int]]:
        lines = self.text.decode().split("\n")[:-1]
        return [(int(number), int(attempts)) for number, attempts in (line.split() for line in lines)]

    def listen(self, seconds: float | None) -> bool:
        """Hears something, or nothing within this time; False at the end."""
        if not select.select([self.pipe], [], [], seconds)[0]:
            return True
        part = os.read(self.pipe, 65536)
        self.text += part
        return bool(part)

    def end(self, press: Callable[[], None] | None = None) -> int:
        """Hears all there is, and waits for its end. Where it goes on for long, `press` is called again and again; how often it was."""
        pressed, ends_by = 0, time.monotonic() + PRESS_AGAIN_S
        while self.listen(None if press is None else PRESS_AGAIN_S):
            if press is not None and time.monotonic() > ends_by:
                press()
                pressed, ends_by = pressed + 1, time.monotonic() + PRESS_AGAIN_S
        os.close(self.pipe)
        self.status = os.waitpid(self.pid, 0)[1]
        return pressed


def fork(writer: str, work: Callable[[int], None]) -> Child:
    """A child that does the work, with the end of a pipe to speak into. It leaves 1 where the work fails, and 2 on Ctrl-C."""
    sys.stdout.flush()
    mine, its = os.pipe()
    pid = os.fork()
    if pid:
        os.close(its)
        return Child(pid=pid, writer=writer, pipe=mine)
    code = 1
    try:
        os.close(mine)
        work(its)
        code = 0
    except KeyboardInterrupt:
        code = 2
    except BaseException:  # noqa: BLE001  a child that goes on would be a second test run
        traceback.print_exc()
    finally:
        os._exit(code)


def check_table(place: Place, acknowledged: dict[str, int], *, finished: bool) -> dict[str, int]:
    """Every acknowledged commit is there once, none is half there, totals are right; how many commits stand by writer.

    A writer that was stopped may have one commit more than it heard of.
    """
    table = place.table()
    made = commits_made(table)
    found = Counter(tuple(row.values()) for row in table.scan().select("writer", "number", "copy").to_arrow().to_pylist())
    assert set(found.values()) <= {1}, "rows are there twice"
    stand: dict[str, int] = {}
    for writer, heard in acknowledged.items():
        its = {row for row in found if row[0] == writer}
        possible = [heard] if finished else [heard, heard + 1]
        fitting = [count for count in possible if held_after(writer, count) == its]
        assert fitting, f"{writer} was told of {heard} commits, and the table holds {sorted(its)}"
        stand[writer] = fitting[-1]
        missing = [number for number in range(heard) if f"{writer} {number}" not in made]
        assert not missing, f"{writer}: acknowledged commits {missing} are not in the history"
    check_history(table)
    return stand


def commits_made(table: Table) -> Counter[str]:
    """Every commit that the history names, each once."""
    made = Counter(snapshot.summary["storm"] for snapshot in table.snapshots() if "storm" in snapshot.summary)
    assert set(made.values()) <= {1}, f"made twice: {[name for name, count in made.items() if count > 1]}"
    return made


def check_acknowledged(place: Place, acknowledged: dict[str, int]) -> dict[str, int]:
    """As `check_table`, by the history alone and not by the rows: every acknowledged commit is in it, and none twice."""
    table = place.table()
    made = commits_made(table)
    stand: dict[str, int] = {}
    for writer, heard in acknowledged.items():
        its = {int(name.split()[1]) for name in made if name.split()[0] == writer}
        assert its in (set(range(heard)), set(range(heard + 1))), f"{writer} was told of {heard} commits, and the history has {sorted(its)}"
        stand[writer] = len(its)
    check_line(table)
    return stand


def check_line(table: Table) -> None:
    """One line of snapshots, and numbers that rise."""
    snapshots = table.snapshots()
    numbers = [snapshot.sequence_number for snapshot in snapshots]
    assert numbers == list(range(1, len(snapshots) + 1)), numbers
    assert [one.parent_snapshot_id for one in snapshots] == [None, *(one.snapshot_id for one in snapshots[:-1])][: len(snapshots)]


def check_history(table: Table) -> None:
    """One line of snapshots, numbers that rise, totals as the scan counts them."""
    check_line(table)
    snapshots = table.snapshots()
    if snapshots:
        files = {task.file.file_path for task in table.scan().plan_files()}
        assert int(snapshots[-1].summary["total-data-files"]) >= len(files)
        assert table.scan().count() == table.scan().to_arrow().num_rows


def checked(work: Callable[[], Any]) -> Any:
    """What the work returns, done by a child, so that this process stays fit to be forked."""
    child = fork("check", lambda pipe: void(os.write(pipe, (json.dumps(work()) + "\n").encode())))
    text = b""
    while part := os.read(child.pipe, 65536):
        text += part
    os.close(child.pipe)
    assert os.waitpid(child.pid, 0)[1] == 0, "the check failed: see above"
    return json.loads(text)


def void(_: object) -> None:
    """Nothing."""


@dataclass(kw_only=True)
class Report:
    """What came of writers side by side."""

    writers: int
    commits: int
    seconds: float
    attempts: int
    per_second: float = field(init=False)
    lost_races: float = field(init=False)  # of all attempts that were counted

    def __post_init__(self) -> None:
        self.per_second = round(self.commits / self.seconds, 1)
        self.lost_races = round(1 - self.commits / self.attempts, 3)


def many_writers(place: Place, writers: int, commits: int, version: int) -> Report:
    """So many writers at once, and the check of what they left."""
    checked(lambda: place.create(version))
    begun = time.monotonic()
    names = [f"w{number}" for number in range(writers)]
    children = [fork(name, partial(write, place, name, commits)) for name in names]
    hear(children, writers * commits)
    for child in children:
        child.end()
        assert child.status == 0, f"{child.writer} failed: see above"
        assert len(child.said) == commits
    seconds = time.monotonic() - begun
    checked(lambda: check_table(place, {child.writer: commits for child in children}, finished=True))
    attempts = sum(attempts for child in children for _, attempts in child.said)
    return Report(writers=writers, commits=writers * commits, seconds=round(seconds, 1), attempts=attempts)


def hear(children: Sequence[Child], total: int) -> None:
    """Hears what all of them say until they end, and tells after each tenth of the total how far they are."""
    speaking, tenths = list(children), 0
    while speaking:
        ready = select.select([child.pipe for child in speaking], [], [])[0]
        speaking = [child for child in speaking if child.pipe not in ready or child.listen(0)]
        said = sum(child.text.count(b"\n") for child in children)
        if said * 10 // total > tenths:
            tenths = said * 10 // total
            print(f"{said} of {total} commits acknowledged", file=sys.stderr, flush=True)


@dataclass(kw_only=True)
class Storm:
    """What came of writers that were stopped."""

    rounds: int = 0
    acknowledged: int = 0
    unheard: int = 0  # commits that stand, and whose writer was stopped before it heard of them
    outcomes: Counter[str] = field(default_factory=Counter)  # how the writers ended
    pressed_again: int = 0  # signals that did not end a writer


def storm(
    place: Place, rounds: int, seed: int, signals: Sequence[int] = (signal.SIGKILL,), rounds_each: int = 30, full_each: int = 1
) -> Storm:
    """Stops a writer at a random moment, again and again, and looks at the table each time: at its history, and every `full_each` rounds at its rows too.

    A new table every `rounds_each` rounds, whose last look is a full one.
    """
    chance, result = random.Random(seed), Storm()
    for first in range(0, rounds, rounds_each):
        here = Place(uri=place.uri, warehouse=place.warehouse, name=f"db.t{first // rounds_each}")
        checked(partial(here.create, chance.choice([2, 3])))
        acknowledged: dict[str, int] = {}
        for number in range(first, min(first + rounds_each, rounds)):
            child, pressed = stopped_writer(here, f"r{number}", chance, chance.choice(signals))
            result.pressed_again += pressed
            result.outcomes[str(child.status)] += 1
            assert child.status != 256, "a writer failed by itself: see above"
            acknowledged[child.writer] = len(child.said)
            is_full = (number + 1) % full_each == 0 or number + 1 in {rounds, first + rounds_each}
            look = partial(check_table, here, acknowledged, finished=False) if is_full else partial(check_acknowledged, here, acknowledged)
            stand = checked(look)
            result.rounds += 1
            result.acknowledged += acknowledged[child.writer]
            result.unheard += stand[child.writer] - acknowledged[child.writer]
            acknowledged = stand
        print(f"{result.rounds} of {rounds} rounds, {result.acknowledged} commits acknowledged", file=sys.stderr, flush=True)
    return result


def stopped_writer(place: Place, writer: str, chance: random.Random, kind: int) -> tuple[Child, int]:
    """A writer that got the signal at a random moment: mostly after its first commits, sometimes before; and how often it got it again."""
    child = fork(writer, lambda pipe: write(place, writer, 1000, pipe))
    if chance.random() < 0.8:
        child.listen(20)
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
    parser.add_argument("--full-each", type=int, default=1, help="look at the rows every so many rounds, and at the history in each")
    parser.add_argument("--version", type=int, default=3)
    parser.add_argument("--signal", default="KILL", help="one or several of KILL, TERM and INT")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell that starts this in the background has it ignore
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if given.postgres:
            server = stack.enter_context(running_postgres())
            given.uri = server.uri(server.new_database())
        place = Place(uri=given.uri or f"sqlite:///{folder}/catalog.db", warehouse=folder)
        if given.kind == "many":
            shown: Any = many_writers(place, given.writers, given.commits, given.version)
        else:
            kinds = [getattr(signal, f"SIG{name}") for name in given.signal.split(",")]
            shown = storm(place, given.rounds, given.seed, kinds, full_each=given.full_each)
        print(json.dumps(vars(shown)))


if __name__ == "__main__":
    main()
