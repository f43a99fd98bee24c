"""Stress tests of maintenance with real processes: beside writers of one table, and killed at random moments.

    python -m tests.maintenance_stress beside [--seconds 600] [--writers 3] [--version 3]   numbers of commits and of maintenance operations
    python -m tests.maintenance_stress cdc [--seconds 600 | --conversions 3] [--writers 3]  `maintain` beside streams of upserts by equality deletes
    python -m tests.maintenance_stress kill [--rounds 200]                                  numbers of rounds, and of files that were left

`maintenance/test_stress.py` runs them. Writers are those of `tests/stress.py`: every writer has its own rows, and none may fail.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from tests.stress import Place, checked, fork, rows_after, write
from tests.table.reachable import everything, on_disk

from icefloe.errors import CommitConflictError, CommitInvalidatedError
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.table import Table

REWRITE = {"rewrite-all": True, "remove-dangling-deletes": True}
KEPT_SNAPSHOTS = 40


def expire(table: Table) -> Any:
    return table.expire_snapshots(older_than=datetime.now(UTC), retain_last=KEPT_SNAPSHOTS)


def maintained(table: Table, **arguments: Any) -> None:
    report = table.maintenance.maintain(**arguments)
    assert not report.has_failures, str(report)


# Every procedure that changes a table, by name.
PROCEDURES: dict[str, Callable[[Table], Any]] = {
    "compact small files": lambda table: table.maintenance.rewrite_data_files(options={"min-input-files": 2}),
    "compact all in parts": lambda table: table.maintenance.rewrite_data_files(options={**REWRITE, "partial-progress.enabled": True}),
    "sort": lambda table: table.maintenance.rewrite_data_files(sort_order="number DESC", options=REWRITE),
    "z-order": lambda table: table.maintenance.rewrite_data_files(sort_order="zorder(number, copy)", options=REWRITE),
    "convert equality deletes": lambda table: table.maintenance.convert_equality_deletes(),
    "maintain": lambda table: maintained(table, min_age_minutes=0),
    "maintain, and leave young partitions": maintained,
    "convert in parts": lambda table: table.maintenance.convert_equality_deletes(options={"partial-progress.enabled": True}),
    "rewrite position deletes": lambda table: table.maintenance.rewrite_position_delete_files(options={"min-input-files": 2}),
    "rewrite position deletes in parts": lambda table: table.maintenance.rewrite_position_delete_files(
        options={"rewrite-all": True, "partial-progress.enabled": True}
    ),
    "remove dangling deletes": lambda table: table.maintenance.remove_dangling_deletes(),
    "rewrite manifests": lambda table: table.rewrite_manifests(),
    "expire": expire,
}


def remove_orphans(table: Table, mode: str = "delete", *, dry_run: bool = False) -> Any:
    return table.maintenance.remove_orphan_files(
        datetime.now(UTC) + timedelta(minutes=1), mode=mode, dry_run=dry_run, force=True, purge_delay=timedelta(0)
    )


# Beside writers these would delete files of commits that are under way: only its age shows whether a file is one.
ALONE: dict[str, Callable[[Table], Any]] = {
    "remove orphan files": remove_orphans,
    "quarantine orphan files": partial(remove_orphans, mode="quarantine"),
    "purge orphan files": partial(remove_orphans, mode="purge"),
}


@dataclass(kw_only=True)
class BesideReport:
    """The result of writers beside maintenance."""

    commits: int
    seconds: float
    operations: dict[str, int] = field(default_factory=dict)
    given_up: dict[str, int] = field(default_factory=dict)


def maintain(place: Place, seed: int, seconds: float, pipe: int) -> None:
    """Run random procedures for so long; write the counts of those that ended and of those that lost against writers to the pipe."""
    chance, ends = random.Random(seed), time.monotonic() + seconds
    done, lost = Counter[str](), Counter[str]()
    while time.monotonic() < ends:
        name = chance.choice(sorted(PROCEDURES))
        try:
            result = PROCEDURES[name](place.table())
        except (CommitConflictError, CommitInvalidatedError):
            lost[name] += 1
            continue
        done[name] += 1
        lost[name] += len(getattr(result, "failed", ()))
    os.write(pipe, (json.dumps([done, lost]) + "\n").encode())


def write_for(place: Place, writer: str, seconds: float, pipe: int) -> None:
    """Commit as a writer for so long."""
    ends = time.monotonic() + seconds
    write(place, writer, 10**9, pipe, is_over=lambda: time.monotonic() > ends)


def beside(place: Place, writers: int, seconds: float, version: int, seed: int) -> BesideReport:
    """Run writers and maintenance at once, and check the rows of every writer."""
    checked(lambda: place.create(version))
    names = [f"w{number}" for number in range(writers)]
    children = [fork(name, partial(write_for, place, name, seconds)) for name in names]
    maintenance = fork("maintenance", partial(maintain, place, seed, seconds))
    for child in [*children, maintenance]:
        child.end()
        assert child.status == 0, f"{child.writer} failed: see above"
    commits = {child.writer: len(child.acknowledged) for child in children}
    checked(lambda: check_rows(place, commits, 0))
    done, lost = json.loads(maintenance.text)
    return BesideReport(commits=sum(commits.values()), seconds=seconds, operations=done, given_up=lost)


KEYS = 20  # of each stream, so that most upserts replace a row
# Streams wait for a moment between two commits, as those of Flink do.
WAIT_S = 0.2


def upsert_until(place: Place, writer: str, is_over: Callable[[], bool], pipe: int) -> None:
    """Upsert until the end: each commit has an equality delete of a key, and mostly a new row of it."""
    table, number = place.table(), 0
    while not is_over():
        key = pa.table({"writer": [writer], "copy": pa.array([number % KEYS], pa.int64())})
        with table.transaction() as tx:
            tx.delete_keys(key, ["writer", "copy"])
            if number % 7:
                tx.append(key.append_column("number", pa.array([number], pa.int64())).select(["writer", "number", "copy"]))
        os.write(pipe, f"{number} 1\n".encode())
        number += 1
        time.sleep(WAIT_S)


def upserted(writer: str, commits: int) -> set[tuple[str, int, int]]:
    """Return the rows of a stream after a number of its commits."""
    last = {number % KEYS: number for number in range(commits)}
    return {(writer, number, key) for key, number in last.items() if number % 7}


# Rounds of `maintain` within which a number of conversions is expected.
MOST_ROUNDS = 40
CONVERSION = "convert-equality-deletes"


def maintain_beside(place: Place, seconds: float, conversions: int | None, pipe: int) -> None:
    """Run `maintain` again and again, in turn with its own rule about young partitions and without; write the counts of actions to the pipe.

    Args:
        place: the table.
        seconds: how long; not used with `conversions`.
        conversions: the number of conversions of equality deletes after which it ends, and after `MOST_ROUNDS` rounds in any case.
        pipe: where to write.
    """
    done, left, ends, number = Counter[str](), Counter[str](), time.monotonic() + seconds, 0
    while time.monotonic() < ends if conversions is None else done[CONVERSION] < conversions and number < MOST_ROUNDS:
        report = place.table().maintenance.maintain(min_age_minutes=None if number % 2 else 0)
        assert not report.has_failures, str(report)
        done.update(one.action.value for one in report.actions if one.state == "done")
        left.update(one.action.value for one in report.actions if one.left_count)
        number += 1
        if conversions is not None:
            time.sleep(WAIT_S)  # for a commit of each stream
    os.write(pipe, (json.dumps([done, left]) + "\n").encode())


def cdc(place: Place, writers: int, seconds: float, conversions: int | None, version: int) -> BesideReport:
    """Run streams of upserts and `maintain` at once: no stream fails, every row is that of its last upsert, and all deletes are converted in the end.

    The streams commit from before the first round of `maintain` until its last one has ended.
    """
    checked(lambda: place.create(version))
    names, is_over, starts = [f"w{number}" for number in range(writers)], multiprocessing.Event(), time.monotonic()
    children = [fork(name, partial(upsert_until, place, name, is_over.is_set)) for name in names]
    for child in children:
        while not child.acknowledged and child.read(None):
            pass
    maintenance = fork("maintenance", partial(maintain_beside, place, seconds, conversions))
    maintenance.end()
    is_over.set()
    for child in children:
        child.end()
    for child in [*children, maintenance]:
        assert child.status == 0, f"{child.writer} failed: see above"
    commits = {child.writer: len(child.acknowledged) for child in children}

    def check() -> None:
        expected = {row for writer, count in commits.items() for row in upserted(writer, count)}
        for _ in range(2):
            table = place.table()
            rows = [tuple(row.values()) for row in table.scan().select("writer", "number", "copy").to_arrow().to_pylist()]
            assert sorted(rows) == sorted(expected), f"{set(rows) ^ expected}"
            table.maintenance.maintain()  # the partition is young
        assert "EQUALITY_DELETES" not in {FileContent(one).name for one in place.table().inspect.delete_files()["content"].to_pylist()}

    checked(check)
    done, left = json.loads(maintenance.text)
    return BesideReport(commits=sum(commits.values()), seconds=time.monotonic() - starts, operations=done, given_up=left)


def check_rows(place: Place, commits: dict[str, int], unknown: int) -> int:
    """Check that the table has the rows of so many commits of each writer, once each, and of all snapshots; return the number of rows.

    Args:
        place: the table.
        commits: the number of acknowledged commits by writer.
        unknown: how many commits more a writer may have.
    """
    table = place.table()
    read = [tuple(row.values()) for row in table.scan().select("writer", "number", "copy").to_arrow().to_pylist()]
    assert len(read) == len(set(read)), "rows are in the table twice"
    for writer, count in commits.items():
        actual = {row for row in read if row[0] == writer}
        assert any(rows_after(writer, count + more) == actual for more in range(unknown + 1)), f"{writer} after {count} commits: {actual}"
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    if table.format_version > 2:
        ids = table.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
        assert len(ids) == len(set(ids)), "two rows have the same row id"
    return len(read)


@dataclass(kw_only=True)
class KillReport:
    """The result of maintenance that was killed."""

    rounds: int = 0
    ended: int = 0  # procedures that ended before the signal
    orphans: int = 0  # files that no snapshot names, which the last removal of each table deletes
    rounds_by_procedure: dict[str, int] = field(default_factory=dict)


def run_one(place: Place, name: str, pipe: int) -> None:
    table = place.table()
    os.write(pipe, b"0 1\n")
    {**PROCEDURES, **ALONE}[name](table)


def grow(place: Place, turn: int) -> None:
    """Commit a few times more as the only writer, so that there is something to maintain."""
    with open(os.devnull, "wb") as nowhere:
        write(place, "w", COMMITS, nowhere.fileno(), first=turn * COMMITS)


COMMITS = 4
ROUNDS_OF_A_TABLE = 10


def kill(place: Place, rounds: int, seed: int) -> KillReport:
    """Kill a procedure at a random moment in each round: the table has all rows, and orphan files are exactly those that nothing names."""
    chance, result, counts = random.Random(seed), KillReport(), Counter[str]()
    for number in range(rounds):
        turn = number % ROUNDS_OF_A_TABLE
        here = Place(uri=place.uri, warehouse=place.warehouse, name=f"db.t{number // ROUNDS_OF_A_TABLE}")
        if turn == 0:
            checked(partial(here.create, chance.choice([2, 3])))
        checked(partial(grow, here, turn))
        name = chance.choice(sorted({**PROCEDURES, **ALONE}))
        child = fork(name, partial(run_one, here, name))
        child.read(20)
        time.sleep(1.2 * chance.random() ** 2)
        os.kill(child.pid, signal.SIGKILL)
        child.end()
        assert child.status in (0, signal.SIGKILL), f"{name} failed: see above"
        result.ended += child.status == 0
        counts[name] += 1
        left = checked(partial(check_left, here, (turn + 1) * COMMITS))
        if turn == ROUNDS_OF_A_TABLE - 1 or number == rounds - 1:
            checked(partial(grow, here, turn + 1))  # its commit decides those that were under way
            checked(partial(check_left, here, (turn + 2) * COMMITS, removes=True))
            result.orphans += left
        result.rounds, result.rounds_by_procedure = number + 1, dict(counts)
        print(f"{result.rounds} of {rounds} rounds", file=sys.stderr, flush=True)
    return result


def check_left(place: Place, commits: int, *, removes: bool = False) -> int:
    """Check the rows, that every file that a snapshot names is there, and which files are orphans.

    Args:
        place: the table.
        commits: the number of its writer's commits.
        removes: whether to delete all orphans, of which no file may remain.

    Returns:
        The number of files that no snapshot names.
    """
    check_rows(place, {"w": commits}, 0)
    table = place.table()
    named, present = everything(table.metadata), on_disk(table.metadata.location)
    assert named <= present, f"files are missing: {named - present}"
    result = remove_orphans(table, dry_run=not removes)
    found = {path for path in result.files["path"].to_pylist() if ".metadata.json" not in path}
    assert not found & named, f"orphans that a snapshot names: {found & named}"
    # A commit whose process was killed before its compare-and-swap ended may still happen: its files are kept.
    assert result.pending or present - named == found, f"files that nothing names, and that are no orphans: {present - named - found}"
    if removes:
        assert not result.pending
        assert on_disk(table.metadata.location) == named
        check_rows(place, {"w": commits}, 0)
    return len(present - named)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance_stress")
    parser.add_argument("kind", choices=["beside", "cdc", "kill"])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--conversions", type=int)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--version", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
        if arguments.kind == "beside":
            report: Any = beside(place, arguments.writers, arguments.seconds, arguments.version, arguments.seed)
        elif arguments.kind == "cdc":
            report = cdc(place, arguments.writers, arguments.seconds, arguments.conversions, arguments.version)
        else:
            report = kill(place, arguments.rounds, arguments.seed)
        print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
