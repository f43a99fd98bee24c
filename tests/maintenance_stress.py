"""Stress tests of maintenance with real processes: beside writers of one table, and killed at their operations on files and commits.

    python -m tests.maintenance_stress beside [--seconds 600] [--writers 3] [--version 3]   numbers of commits and of maintenance operations
    python -m tests.maintenance_stress merge [--seconds 600] [--writers 3] [--version 3]    the same beside upserts, updates and deletes by key
    python -m tests.maintenance_stress sql [--seconds 600] [--writers 2] [--version 3]      the same beside MERGE, UPDATE and DELETE of Spark SQL
    python -m tests.maintenance_stress all [--seconds 600] [--writers 3] [--version 3]      the same beside one writer of each kind
    python -m tests.maintenance_stress cdc [--seconds 600 | --conversions 3] [--writers 3]  `maintain` beside streams of upserts by equality deletes
    python -m tests.maintenance_stress kill [--rounds 200] [--only NAME]                    numbers of rounds and kills, and of files that were left

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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.kill_points import COMMIT_FAULTS, KilledProcess, KillPoint, KillSchedule, kill_at
from tests.stress import COPIES, SCHEMA, Place, checked, fork, rows_after, void, write
from tests.table.reachable import everything, on_disk

from icefloe.errors import CommitConflictError, CommitInvalidatedError
from icefloe.operations.metadata_cache import load_metadata
from icefloe.spec.manifest.data_file import FileContent
from icefloe.table import Table
from icefloe.testing.fault_injection import FaultyStore

REWRITE = {"rewrite-all": True, "remove-dangling-deletes": True}
KEPT_SNAPSHOTS = 40
# A statement of Spark takes seconds, and must be able to read its snapshot until its end.
KEPT_FOR_STATEMENTS = timedelta(minutes=2)
# Snapshots that are read in the end, of all that there are.
READ_SNAPSHOTS = 100


def expire(table: Table, kept: timedelta = timedelta(0)) -> Any:
    return table.expire_snapshots(older_than=datetime.now(UTC) - kept, retain_last=KEPT_SNAPSHOTS)


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


LIST_NAME = "_orphan-files"


def incoming(table: Table) -> Path:
    """Return the folder in which others put files for the table."""
    return Path(table.location(), "incoming")


def put_file(table: Table) -> None:
    """Write a file for `add_newest_file`: rows of one partition, numbered so that no two files have the same."""
    batch = table.metadata.last_sequence_number
    numbers = pa.array(range(batch * COPIES, (batch + 1) * COPIES), pa.int64())
    incoming(table).mkdir(exist_ok=True)
    content = pa.table({"writer": [ADDED] * COPIES, "number": numbers, "copy": pa.array([0] * COPIES, pa.int64())})
    pq.write_table(content, incoming(table) / f"{batch:09}.parquet")


def add_newest_file(table: Table) -> Any:
    return table.add_files([str(max(incoming(table).iterdir()))])


def added_numbers(table: Table) -> list[int]:
    """Return the numbers of the rows of added files, each of which must be in the table whole or not at all."""
    numbers = sorted(table.scan(f"writer = '{ADDED}'").to_arrow()["number"].to_pylist())
    batches = {number // COPIES for number in numbers}
    assert numbers == sorted(batch * COPIES + place for batch in batches for place in range(COPIES)), numbers
    return numbers


ADD_FILES = "add files"
ADDED = "added"  # the writer of its rows

# Beside writers these would delete files of commits that are under way: only its age shows whether a file is one.
ALONE: dict[str, Callable[[Table], Any]] = {
    "remove orphan files": remove_orphans,
    "quarantine orphan files": partial(remove_orphans, mode="quarantine"),
    "purge orphan files": partial(remove_orphans, mode="purge"),
    "compute table statistics": lambda table: table.compute_statistics(),
    "compute partition statistics": lambda table: table.compute_partition_statistics() if table.spec().fields else None,
    "expire most": lambda table: table.expire_snapshots(older_than=datetime.now(UTC), retain_last=3),
    "copy elsewhere": lambda table: table.maintenance.rewrite_table_path(
        table.location(), f"{table.location()}-copy", copy=True, verify=True
    ),
    ADD_FILES: add_newest_file,
    "maintain, and orphan files": lambda table: maintained(table, min_age_minutes=0, remove_orphan_files=True),
}
# What is done before a procedure, so that it has something to do.
BEFORE: dict[str, Callable[[Table], Any]] = {
    "remove dangling deletes": lambda table: table.maintenance.rewrite_data_files(options={"rewrite-all": True}),
    "purge orphan files": partial(remove_orphans, mode="quarantine"),
    ADD_FILES: put_file,
}


KEYS = 20  # of each stream, so that most upserts replace a row


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


def write_keys_for(place: Place, writer: str, seconds: float, pipe: int) -> None:
    """Merge, update and delete rows by their keys for so long, in turn copy-on-write and merge-on-read."""
    table, ends, number = place.table(), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        change_keys(table, writer, number)
        os.write(pipe, f"{number} 1\n".encode())
        number += 1


def change_keys(table: Table, writer: str, number: int) -> None:
    key = number % KEYS
    if number % 5 == 0:
        mode = "merge-on-read" if number % 2 else "copy-on-write"
        table.set_properties({f"write.{one}.mode": mode for one in ("delete", "update", "merge")})
    elif number % 5 == 3:
        changed = pa.table({"writer": [writer], "number": [number], "copy": [key]}, schema=SCHEMA)
        table.upsert(changed, join_cols=["writer", "copy"], when_not_matched_insert_all=False)
    elif number % 5 == 4:
        table.delete(f"writer = '{writer}' and copy = {(number + 2) % KEYS}")
    else:
        changed = pa.table({"writer": [writer] * 2, "number": [number] * 2, "copy": [key, (key + 1) % KEYS]}, schema=SCHEMA)
        table.upsert(changed, join_cols=["writer", "copy"])


def rows_of_keys(writer: str, commits: int) -> set[tuple[str, int, int]]:
    """Return the rows of a writer after a number of its changes by key."""
    held: dict[int, int] = {}
    for number in range(commits):
        key = number % KEYS
        if number % 5 == 3:
            held.update({key: number} if key in held else {})
        elif number % 5 == 4:
            held.pop((number + 2) % KEYS, None)
        elif number % 5:
            held |= {key: number, (key + 1) % KEYS: number}
    return {(writer, number, key) for key, number in held.items()}


def statement_of(writer: str, number: int) -> str:
    """Return `change_keys` as a statement of SQL."""
    key = number % KEYS
    if number % 5 == 0:
        mode = "merge-on-read" if number % 2 else "copy-on-write"
        modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
        return f"ALTER TABLE lake.db.t SET TBLPROPERTIES ({modes})"
    if number % 5 == 3:
        return f"UPDATE lake.db.t SET number = {number} WHERE writer = '{writer}' AND copy = {key}"
    if number % 5 == 4:
        return f"DELETE FROM lake.db.t WHERE writer = '{writer}' AND copy = {(number + 2) % KEYS}"
    # With the writer as a literal, a serializable statement conflicts with no other writer.
    source = f"SELECT '{writer}' AS writer, {number}L AS number, explode(array({key}L, {(key + 1) % KEYS}L)) AS copy"
    return (
        f"MERGE INTO lake.db.t t USING ({source}) s ON t.writer = '{writer}' AND t.copy = s.copy WHEN MATCHED THEN UPDATE SET number = s.number"
        " WHEN NOT MATCHED THEN INSERT *"
    )


def write_statements_for(place: Place, writer: str, seconds: float, pipe: int) -> None:
    """Run statements of Spark for so long."""
    from icefloe.spark import session  # a forked process starts its own JVM

    spark = session(catalogs={"lake": place.catalog()}, **{"spark.master": "local[1]", "spark.ui.enabled": "false"})
    ends, number = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        spark.sql(statement_of(writer, number)).collect()
        os.write(pipe, f"{number} 1\n".encode())
        number += 1


# What writers do, and the rows of each after a number of its commits.
WRITERS: dict[str, tuple[Callable[[Place, str, float, int], None], Callable[[str, int], set[tuple[str, int, int]]]]] = {
    "beside": (write_for, rows_after),
    "merge": (write_keys_for, rows_of_keys),
    "sql": (write_statements_for, rows_of_keys),
}


def beside(place: Place, kinds: Sequence[str], writers: int, seconds: float, version: int, seed: int) -> BesideReport:
    """Run writers of some kinds in turn and maintenance at once, and check the rows of every writer."""
    if "sql" in kinds:
        PROCEDURES["expire"] = partial(expire, kept=KEPT_FOR_STATEMENTS)
    # Statements of Spark are planned again where maintenance has replaced their files, but not where another writer has.
    checked(partial(create_partitioned, place, version, "writer" if "sql" in kinds else None))
    of_kinds = {f"w{number}": WRITERS[kind] for number, kind in zip(range(writers), cycle(kinds), strict=False)}
    children = [fork(name, partial(write_rows, place, name, seconds)) for name, (write_rows, _) in of_kinds.items()]
    maintenance = fork("maintenance", partial(maintain, place, seed, seconds))
    for child in [*children, maintenance]:
        child.end()
        assert child.status == 0, f"{child.writer} failed: see above"
    commits = {child.writer: len(child.acknowledged) for child in children}
    checked(lambda: check_rows(place, commits, lambda writer, count: of_kinds[writer][1](writer, count)))
    done, lost = json.loads(maintenance.text)
    return BesideReport(commits=sum(commits.values()), seconds=seconds, operations=done, given_up=lost)


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


def check_rows(
    place: Place, commits: dict[str, int], expected: Callable[[str, int], set[tuple[str, int, int]]] = rows_after, *, reads_all: bool = True
) -> int:
    """Check that the table has the rows of so many commits of each writer, once each; return the number of rows.

    Args:
        place: the table.
        commits: the number of commits by writer.
        expected: returns the rows of a writer after a number of its commits.
        reads_all: whether to read older snapshots too.
    """
    table = place.table()
    read = [tuple(row.values()) for row in table.scan().select("writer", "number", "copy").to_arrow().to_pylist()]
    assert len(read) == len(set(read)), "rows are in the table twice"
    for writer, count in commits.items():
        actual = {row for row in read if row[0] == writer}
        assert expected(writer, count) == actual, f"{writer} after {count} commits: {actual}"
    snapshots = table.snapshots()
    for snapshot in snapshots[:: max(1, len(snapshots) // READ_SNAPSHOTS)] if reads_all else ():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    if table.format_version > 2:
        ids = table.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
        assert len(ids) == len(set(ids)), "two rows have the same row id"
    return len(read)


@dataclass(kw_only=True)
class KillReport:
    """The result of maintenance that was killed."""

    rounds: int = 0
    ended: int = 0  # procedures that ended before the operation at which they were to be killed
    orphans: int = 0  # files that no snapshot names, which the last removal of each table deletes
    kills_by_procedure: dict[str, int] = field(default_factory=dict)
    kills_by_operation: dict[str, int] = field(default_factory=dict)


def run_killed(place: Place, name: str, point: KillPoint, pipe: int) -> None:
    """Run a procedure in a process that is killed at one of its operations; write the number of each kind to the pipe if it has fewer."""
    table, faults, counts = place.table(), KilledProcess(), Counter[str]()
    if point.operation in COMMIT_FAULTS:
        faults.order("commit", COMMIT_FAULTS[point.operation], after=point.number)
    watched = Table(replace(table.handle, store=FaultyStore(table.handle.store, faults)), load_metadata(table.handle))
    kill_at(point, table.location(), counts)
    {**PROCEDURES, **ALONE}[name](watched)
    commits = sum(event.operation == "commit" for event in faults.log)
    os.write(pipe, json.dumps({**counts, "commit": commits, "after commit": commits}).encode())
    if point.operation not in COMMIT_FAULTS and counts[point.operation] > point.number:
        time.sleep(60)  # the kill is under way


def create_partitioned(place: Place, version: int, column: str | None) -> None:
    place.create(version)
    if column is not None:
        with place.table().update_spec() as update:
            update.add_identity(column)


def grow(place: Place, turn: int) -> None:
    """Commit a few times more as the only writer, and leave a file that nothing names, so that there is something to maintain."""
    with open(os.devnull, "wb") as nowhere:
        write(place, "w", COMMITS, nowhere.fileno(), first=turn * COMMITS)
    Path(place.table().location(), "data", f"stray-{turn}.parquet").write_bytes(b"stray")


COMMITS = 4
ROUNDS_OF_A_TABLE = 10


def kill(place: Place, rounds: int, seed: int, only: str = "") -> KillReport:
    """Kill a procedure at one of its operations in each round: the table has all rows, and orphan files are exactly those that nothing names.

    Args:
        place: the catalog.
        rounds: the number of rounds.
        seed: decides what is killed and where.
        only: the procedures whose names have this text.
    """
    chance, result, added = random.Random(seed), KillReport(), list[int]()
    names = [name for name in {**PROCEDURES, **ALONE} if only in name]
    schedule, by_procedure, by_operation = KillSchedule(names, chance), Counter[str](), Counter[str]()
    for number in range(rounds):
        turn = number % ROUNDS_OF_A_TABLE
        here = Place(uri=place.uri, warehouse=place.warehouse, name=f"db.t{number // ROUNDS_OF_A_TABLE}")
        if turn == 0:
            checked(partial(create_partitioned, here, chance.choice([2, 3]), chance.choice([None, "copy"])))
            added = []
        checked(partial(grow, here, turn))
        name, point = schedule.next()
        if name in BEFORE:
            checked(lambda name=name, here=here: void(BEFORE[name](here.table())))
        child = fork(name, partial(run_killed, here, name, point))
        child.end()
        assert child.status in (0, signal.SIGKILL), f"{name} failed: see above"
        if child.status == 0:
            result.ended += 1
            schedule.learn(name, json.loads(child.text))
        else:
            by_procedure[name] += 1
            by_operation[point.operation] += 1
        if name == ADD_FILES:
            before, added = len(added), checked(lambda here=here: added_numbers(here.table()))
            assert len(added) - before in ((COPIES,) if child.status == 0 else (0, COPIES)), f"{before} added rows became {added}"
        left = checked(partial(check_left, here, (turn + 1) * COMMITS, added))
        if turn == ROUNDS_OF_A_TABLE - 1 or number == rounds - 1:
            checked(partial(grow, here, turn + 1))  # its commit decides those that were under way
            checked(partial(check_left, here, (turn + 2) * COMMITS, added, removes=True))
            result.orphans += left
        result.rounds, result.kills_by_procedure, result.kills_by_operation = number + 1, dict(by_procedure), dict(by_operation)
        print(f"{result.rounds} of {rounds} rounds, {sum(by_procedure.values())} kills", file=sys.stderr, flush=True)
    return result


def check_left(place: Place, commits: int, added: Sequence[int], *, removes: bool = False) -> int:
    """Check the rows, that every file that a snapshot names is there, and which files are orphans.

    Args:
        place: the table.
        commits: the number of its writer's commits.
        added: the numbers of the rows of added files.
        removes: whether to delete all orphans, of which no file may remain.

    Returns:
        The number of files that no snapshot names.
    """
    check_rows(place, {"w": commits}, reads_all=removes)
    table = place.table()
    assert added_numbers(table) == list(added)
    named, present = everything(table.metadata), {path for path in on_disk(table.location()) if LIST_NAME not in path}
    assert named <= present, f"files are missing: {named - present}"
    result = remove_orphans(table, dry_run=not removes)
    found = {path for path in result.files["path"].to_pylist() if ".metadata.json" not in path}
    assert not found & named, f"orphans that a snapshot names: {found & named}"
    # A commit whose process was killed before its compare-and-swap ended may still happen: its files are kept.
    assert result.pending or present - named == found, f"files that nothing names, and that are no orphans: {present - named - found}"
    if removes:
        assert not result.pending
        remove_orphans(table, mode="undo")  # lists of orphan files are no orphans
        assert on_disk(table.location()) == named
        log = {entry.metadata_file for entry in table.metadata.metadata_log} | {table.metadata_location}
        assert {str(path) for path in Path(table.location()).rglob("*.metadata.json")} == log
        check_rows(place, {"w": commits})
        assert added_numbers(table) == list(added)
    return len(present - named)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance_stress")
    parser.add_argument("kind", choices=[*WRITERS, "all", "cdc", "kill"])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--conversions", type=int)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--version", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
        if arguments.kind in (*WRITERS, "all"):
            kinds = list(WRITERS) if arguments.kind == "all" else [arguments.kind]
            report: Any = beside(place, kinds, arguments.writers, arguments.seconds, arguments.version, arguments.seed)
        elif arguments.kind == "cdc":
            report = cdc(place, arguments.writers, arguments.seconds, arguments.conversions, arguments.version)
        else:
            report = kill(place, arguments.rounds, arguments.seed, arguments.only)
        print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
