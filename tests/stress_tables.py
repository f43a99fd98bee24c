"""Stress test of commits of several tables: two processes at a time are killed at random moments; every commit is in all of its tables or in none.

    python -m tests.stress_tables [--uri URI | --postgres] [--rounds 100]     numbers of rounds, acknowledged and unacknowledged commits as JSON

`stress.py` forks and reads the processes; `catalog/test_transaction_stress.py` runs the rounds. Every commit of a writer appends a row with its name and
number to two tables; some also delete the previous row of both, some also create a table.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial

import pyarrow as pa
from tests.postgres import running_postgres
from tests.stress import PATIENCE, Child, KillReport, Place, checked, fork

SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])
BOTH = ("db.a", "db.b")
WRITERS = 2
Row = tuple[str, int]


def create(place: Place) -> None:
    catalog = place.catalog()
    catalog.create_namespace_if_not_exists("db")
    for name in BOTH:
        catalog.create_table(name, SCHEMA, properties=PATIENCE)


def created_table(writer: str, number: int) -> str:
    """Return the name of the table that a commit creates."""
    return f"db.{writer}_{number}"


def creates(number: int) -> bool:
    return number % 4 == 1


def deletes(number: int) -> bool:
    return number % 3 == 2


def rows_after(writer: str, commits: int) -> set[Row]:
    """Return the rows of a writer in each of the two tables after a number of its commits."""
    return {(writer, number) for number in range(commits) if not (number + 1 < commits and deletes(number + 1))}


def write(place: Place, writer: str, pipe: int) -> None:
    """Commit until the process is killed; write the number of each acknowledged commit to the pipe."""
    catalog = place.catalog()
    for number in range(10_000):
        rows = pa.table({"writer": [writer], "number": pa.array([number], pa.int64())})
        with catalog.transaction() as tx:
            for table in tx.load_tables(*BOTH):
                table.append(rows, {"stress": f"{writer} {number}"})
                if deletes(number):
                    table.delete(f"writer = '{writer}' and number = {number - 1}")
            if creates(number):
                tx.create_table(created_table(writer, number), SCHEMA).append(rows)
        os.write(pipe, f"{number} 1\n".encode())


def check(place: Place, acknowledged: dict[str, int]) -> dict[str, int]:
    """Check that all tables have the same commits: the acknowledged ones and at most one more of each writer; return their number by writer."""
    catalog = place.catalog()
    tables = catalog.load_tables(*BOTH)
    counts = [Counter((row["writer"], row["number"]) for row in table.scan().to_arrow().to_pylist()) for table in tables]
    names = [sorted(snapshot.summary["stress"] for snapshot in table.snapshots() if "stress" in snapshot.summary) for table in tables]
    assert names[0] == names[1], f"commits that are in one table only: {set(names[0]) ^ set(names[1])}"
    assert len(set(names[0])) == len(names[0]), "a commit is in the history twice"
    commits: dict[str, int] = {}
    for writer, count in acknowledged.items():
        commits[writer] = sum(name.startswith(f"{writer} ") for name in names[0])
        assert commits[writer] in (count, count + 1), f"{writer} has {count} acknowledged commits, the tables have {commits[writer]}"
        expected = Counter(rows_after(writer, commits[writer]))
        for name, rows in zip(BOTH, counts, strict=True):
            actual = Counter({row: copies for row, copies in rows.items() if row[0] == writer})
            assert actual == expected, f"{name}: {writer} has {commits[writer]} commits, but the table has the rows {sorted(actual)}"
        created = {created_table(writer, number) for number in range(commits[writer]) if creates(number)}
        existing = {".".join(name) for name in catalog.list_tables("db") if name[1].startswith(f"{writer}_")}
        assert existing == created, f"{writer}: the tables {existing ^ created} exist but must not, or must exist but do not"
        for name in created:
            assert catalog.load_table(name).scan().count() == 1
    return commits


def kill_writers(place: Place, rounds: int, seed: int) -> KillReport:
    """Kill writers in each round, and check all tables after it."""
    chance, result = random.Random(seed), KillReport()
    checked(partial(create, place))
    commits: dict[str, int] = {}
    for number in range(rounds):
        children = [fork(name := f"r{number}w{index}", partial(write, place, name)) for index in range(WRITERS)]
        stop(children, chance)
        for child in children:
            result.outcomes[str(child.status)] += 1
            assert child.status == signal.SIGKILL, "a writer ended by itself: see above"
        acknowledged = {child.writer: len(child.acknowledged) for child in children}
        checked_commits = checked(partial(check, place, acknowledged | commits))
        assert {writer: checked_commits[writer] for writer in commits} == commits, "commits of earlier rounds have changed"
        commits = checked_commits
        result.rounds += 1
        result.acknowledged += sum(acknowledged.values())
        result.unacknowledged += sum(commits[writer] - count for writer, count in acknowledged.items())
        print(f"{result.rounds} of {rounds} rounds, {result.acknowledged} commits acknowledged", file=sys.stderr, flush=True)
    return result


def stop(children: list[Child], chance: random.Random) -> None:
    """Kill each child at a random moment, mostly after its first commits."""
    for child in children:
        if chance.random() < 0.8:
            child.read(20)
        time.sleep(chance.random() * 0.15)
        os.kill(child.pid, signal.SIGKILL)
    for child in children:
        child.end()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress_tables")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--uri", help="an SQLAlchemy URL; a new SQLite file by default")
    where.add_argument("--postgres", action="store_true", help="a new PostgreSQL server of its own")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if arguments.postgres:
            server = stack.enter_context(running_postgres())
            arguments.uri = server.uri(server.new_database())
        place = Place(uri=arguments.uri or f"sqlite:///{folder}/catalog.db", warehouse=folder)
        print(json.dumps(vars(kill_writers(place, arguments.rounds, arguments.seed))))


if __name__ == "__main__":
    main()
