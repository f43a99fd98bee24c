"""Commits of several tables by real processes, two at once, that are killed at random moments: every commit is in all of its tables or in none.

    python -m tests.stress_tables [--uri URI | --postgres] [--rounds 100]     rounds, acknowledged commits, and those never heard of, as one line of JSON

How processes are forked and heard is `storm.py`; the tests are `catalog/test_transaction_storm.py`. Every commit of a writer appends a row with its name and
number to two tables; some delete the row before on both, some make a table besides.
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
from tests.stress import PATIENCE, Child, Place, Storm, checked, fork

SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])
BOTH = ("db.a", "db.b")
WRITERS = 2
Row = tuple[str, int]


def create(place: Place) -> None:
    catalog = place.catalog()
    catalog.create_namespace_if_not_exists("db")
    for name in BOTH:
        catalog.create_table(name, SCHEMA, properties=PATIENCE)


def made_by(writer: str, number: int) -> str:
    """The table that a commit makes besides."""
    return f"db.{writer}_{number}"


def makes(number: int) -> bool:
    return number % 4 == 1


def deletes(number: int) -> bool:
    return number % 3 == 2


def held_after(writer: str, commits: int) -> set[Row]:
    """A writer's rows, of each of the two tables, after so many of its commits."""
    return {(writer, number) for number in range(commits) if not (number + 1 < commits and deletes(number + 1))}


def write(place: Place, writer: str, heard: int) -> None:
    """Commits without end, and says each commit's number when it was acknowledged."""
    catalog = place.catalog()
    for number in range(10_000):
        rows = pa.table({"writer": [writer], "number": pa.array([number], pa.int64())})
        with catalog.transaction() as tx:
            for table in tx.load_tables(*BOTH):
                table.append(rows, {"storm": f"{writer} {number}"})
                if deletes(number):
                    table.delete(f"writer = '{writer}' and number = {number - 1}")
            if makes(number):
                tx.create_table(made_by(writer, number), SCHEMA).append(rows)
        os.write(heard, f"{number} 1\n".encode())


def check(place: Place, acknowledged: dict[str, int]) -> dict[str, int]:
    """How many commits of each writer stand: those that it heard of, and at most one more; the same ones in every table."""
    catalog = place.catalog()
    tables = catalog.load_tables(*BOTH)
    found = [Counter((row["writer"], row["number"]) for row in table.scan().to_arrow().to_pylist()) for table in tables]
    said = [sorted(one.summary["storm"] for one in table.snapshots() if "storm" in one.summary) for table in tables]
    assert said[0] == said[1], f"commits that are in one table alone: {set(said[0]) ^ set(said[1])}"
    assert len(set(said[0])) == len(said[0]), "a commit was made twice"
    stand: dict[str, int] = {}
    for writer, heard in acknowledged.items():
        stand[writer] = sum(name.startswith(f"{writer} ") for name in said[0])
        assert stand[writer] in (heard, heard + 1), f"{writer} was told of {heard} commits, and {stand[writer]} stand"
        expected = Counter(held_after(writer, stand[writer]))
        for name, rows in zip(BOTH, found, strict=True):
            its = Counter({row: count for row, count in rows.items() if row[0] == writer})
            assert its == expected, f"{name}: {writer} made {stand[writer]} commits, and the table holds {sorted(its)}"
        new = {made_by(writer, number) for number in range(stand[writer]) if makes(number)}
        there = {".".join(name) for name in catalog.list_tables("db") if name[1].startswith(f"{writer}_")}
        assert there == new, f"{writer}: {there ^ new} should be there, or should not"
        for name in new:
            assert catalog.load_table(name).scan().count() == 1
    return stand


def storm(place: Place, rounds: int, seed: int) -> Storm:
    """So many rounds of writers that are killed, with a look at all tables after each."""
    chance, result = random.Random(seed), Storm()
    checked(partial(create, place))
    stand: dict[str, int] = {}
    for number in range(rounds):
        children = [fork(name := f"r{number}w{index}", partial(write, place, name)) for index in range(WRITERS)]
        stop(children, chance)
        for child in children:
            result.outcomes[str(child.status)] += 1
            assert child.status == signal.SIGKILL, "a writer ended by itself: see above"
        heard = {child.writer: len(child.said) for child in children}
        # Those of the rounds before are where they were.
        found = checked(partial(check, place, heard | stand))
        assert {writer: found[writer] for writer in stand} == stand
        stand = found
        result.rounds += 1
        result.acknowledged += sum(heard.values())
        result.unheard += sum(found[writer] - count for writer, count in heard.items())
        print(f"{result.rounds} of {rounds} rounds, {result.acknowledged} commits acknowledged", file=sys.stderr, flush=True)
    return result


def stop(children: list[Child], chance: random.Random) -> None:
    """Kills each at a moment of its own: mostly after its first commits, sometimes before."""
    for child in children:
        if chance.random() < 0.8:
            child.listen(20)
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
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if given.postgres:
            server = stack.enter_context(running_postgres())
            given.uri = server.uri(server.new_database())
        place = Place(uri=given.uri or f"sqlite:///{folder}/catalog.db", warehouse=folder)
        print(json.dumps(vars(storm(place, given.rounds, given.seed))))


if __name__ == "__main__":
    main()
