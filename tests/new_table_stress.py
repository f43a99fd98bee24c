"""Stress test of the procedures that make a table of files or metadata of others, killed at their operations on files and on the catalog.

    python -m tests.new_table_stress [--rounds 60]      numbers of rounds and kills, and of files that were left

After each kill there is no table or a whole one. The procedure can be repeated, and an orphan run then deletes what the killed process left, and nothing else.
`maintenance/test_stress.py` runs it.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.kill_points import COMMIT_FAULTS, KilledProcess, KillPoint, KillSchedule, kill_at
from tests.maintenance_stress import remove_orphans
from tests.stress import Place, checked, fork
from tests.table.reachable import everything, on_disk

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.migration.migrate_table import migrate_table
from icefloe.migration.snapshot_table import snapshot_table
from icefloe.table import Table
from icefloe.testing.fault_injection import FaultyStore

NUMBERS = list(range(12))
PROPERTIES = {"commit.retry.min-wait-ms": "2"}


@dataclass(frozen=True, kw_only=True)
class Round:
    """One table and its source.

    Attributes:
        place: the catalog and the name of the table.
        source: a folder of Parquet files, or of a table whose name was dropped.
    """

    place: Place
    source: str


def write_files(one: Round, catalog: SqlCatalog) -> None:
    """Write a folder of Parquet files of two partitions."""
    for kind in "ab":
        folder = Path(one.source, f"kind={kind}")
        folder.mkdir(parents=True)
        for start in range("ab".index(kind), len(NUMBERS), 4):
            pq.write_table(pa.table({"number": pa.array(NUMBERS[start : start + 4 : 2], pa.int64())}), folder / f"{start}.parquet")


def write_dropped_table(one: Round, catalog: SqlCatalog) -> None:
    """Create a table and drop its name."""
    rows = pa.table({"number": pa.array(NUMBERS, pa.int64()), "kind": ["a", "b"] * (len(NUMBERS) // 2)})
    table = catalog.create_table("db.dropped", rows.schema, location=one.source, partition_spec=["kind"], properties=PROPERTIES)
    table.append(rows)
    catalog.drop_table("db.dropped")


def write_dropped_and_other(one: Round, catalog: SqlCatalog) -> None:
    """Create a table and drop its name, and an older table that has the name of the new one."""
    write_dropped_table(one, catalog)
    catalog.create_table(one.place.name, pa.schema([("other", pa.int64())])).append(pa.table({"other": [1]}))


def newest_metadata(one: Round) -> str:
    return str(max(Path(one.source, "metadata").glob("*.metadata.json")))


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """A procedure that makes a table.

    Attributes:
        prepare: writes the source.
        run: makes the table.
        retry: makes the table after a kill that left none; the same as `run`, except where the error of `run` names a step before it.
    """

    prepare: Callable[[Round, SqlCatalog], None]
    run: Callable[[Round, SqlCatalog], Any]
    retry: Callable[[Round, SqlCatalog], Any] | None = None


def migrate(one: Round, catalog: SqlCatalog) -> Any:
    return migrate_table(catalog, one.source, one.place.name, properties=PROPERTIES)


def migrate_again(one: Round, catalog: SqlCatalog) -> Any:
    """Migrate a folder in which a killed migration may have left metadata, which the error names."""
    try:
        return migrate(one, catalog)
    except InvalidInputError as error:
        if "if a migration was killed there, delete the folder metadata" not in str(error.next_step):
            raise
        rmtree(Path(one.source, "metadata"))
        return migrate(one, catalog)


PROCEDURES: dict[str, Procedure] = {
    "snapshot": Procedure(
        prepare=write_files, run=lambda one, catalog: snapshot_table(catalog, one.source, one.place.name, properties=PROPERTIES)
    ),
    "migrate": Procedure(prepare=write_files, run=migrate, retry=migrate_again),
    "register table": Procedure(
        prepare=write_dropped_table, run=lambda one, catalog: catalog.register_table(one.place.name, newest_metadata(one))
    ),
    "register over a table": Procedure(
        prepare=write_dropped_and_other,
        run=lambda one, catalog: catalog.register_table(one.place.name, newest_metadata(one), overwrite=True),
    ),
}


@dataclass(kw_only=True)
class NewTableReport:
    """The result of procedures that were killed."""

    rounds: int = 0
    ended: int = 0  # procedures that ended before the operation at which they were to be killed
    repeated: int = 0  # procedures that had made no table and were repeated
    orphans: int = 0  # files that no snapshot names, which the orphan run deletes
    kills_by_procedure: dict[str, int] = field(default_factory=dict)
    kills_by_operation: dict[str, int] = field(default_factory=dict)


def prepare(one: Round, procedure: Procedure) -> dict[str, str]:
    """Write the source; return its files with their checksums."""
    catalog = one.place.catalog()
    catalog.create_namespace_if_not_exists("db")
    procedure.prepare(one, catalog)
    return checksums(one.source)


def checksums(folder: str) -> dict[str, str]:
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in Path(folder).rglob("*") if path.is_file()}


def run_killed(one: Round, procedure: Procedure, point: KillPoint, folder: str, pipe: int) -> None:
    """Run a procedure in a process that is killed at one of its operations; write the number of each kind to the pipe if it has fewer."""
    catalog, faults, counts = one.place.catalog(), KilledProcess(), Counter[str]()
    if point.operation in COMMIT_FAULTS:
        for operation in ("commit", "create"):
            faults.order(operation, COMMIT_FAULTS[point.operation], after=point.number)
    catalog.store = FaultyStore(catalog.store, faults)
    kill_at(point, folder, counts)
    procedure.run(one, catalog)
    commits = sum(event.operation in ("commit", "create") for event in faults.log)
    os.write(pipe, json.dumps({**counts, "commit": commits, "after commit": commits}).encode())
    if point.operation not in COMMIT_FAULTS and counts[point.operation] > point.number:
        signal.pause()  # the kill is under way


def is_made(one: Round) -> bool:
    """Return whether the table is there; if so, it is whole."""
    catalog = one.place.catalog()
    if not catalog.table_exists(one.place.name):
        return False
    rows = catalog.load_table(one.place.name).scan().to_arrow()
    if rows.column_names == ["other"]:
        assert rows["other"].to_pylist() == [1]
        return False
    assert sorted(zip(rows["number"].to_pylist(), rows["kind"].to_pylist(), strict=True)) == [(n, "ab"[n % 2]) for n in NUMBERS]
    return True


def check_made(one: Round, procedure: Procedure, source: dict[str, str]) -> tuple[bool, int]:
    """Check the table after a kill, or make it; return whether it had to be made, and the number of orphan files."""
    is_missing = not is_made(one)
    check_source(source)
    if is_missing:
        (procedure.retry or procedure.run)(one, one.place.catalog())
        assert is_made(one)
    table = one.place.table()
    if table.properties.get("gc.enabled") == "false":
        table.set_properties({"gc.enabled": "true"})  # its own folder has no file of the source
    table.append(pa.table({"number": [-1], "kind": ["a"]}))  # its commit decides those that were under way
    orphans = check_orphans(table)
    check_source(source)
    table = one.place.table()
    assert sorted(table.scan().to_arrow()["number"].to_pylist()) == [-1, *NUMBERS]
    return is_missing, orphans


def check_orphans(table: Table) -> int:
    """Delete the orphan files, which are exactly those that nothing names; return their number."""
    named, location = everything(table.metadata), table.location()
    log = {entry.metadata_file for entry in table.metadata.metadata_log} | {table.metadata_location}
    of_log = {path for path in log if path.startswith(f"{location}/")}
    before = {str(path) for path in Path(location).rglob("*") if path.is_file()}
    assert all(Path(path).exists() for path in named), f"files are missing: {named - before}"
    result = remove_orphans(table)
    assert not result.pending
    found = set(result.files["path"].to_pylist())
    assert found == before - named - of_log, f"{found ^ (before - named - of_log)}"
    remaining = {str(path) for path in Path(location).rglob("*") if path.is_file()}
    assert remaining == before - found
    assert on_disk(location) <= named
    return len(found)


def check_source(source: dict[str, str]) -> None:
    changed = [path for path, checksum in source.items() if sha256(Path(path).read_bytes()).hexdigest() != checksum]
    assert not changed, f"files of the source were changed: {changed}"


def kill(folder: str, rounds: int, seed: int) -> NewTableReport:
    """Kill a procedure at one of its operations in each round, and check what is there afterwards."""
    chance, result = random.Random(seed), NewTableReport()
    schedule, by_procedure, by_operation = KillSchedule(PROCEDURES, chance), Counter[str](), Counter[str]()
    for number in range(rounds):
        place = Place(uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse", name=f"db.t{number}")
        one = Round(place=place, source=f"{folder}/sources/{number}")
        name, point = schedule.next()
        procedure = PROCEDURES[name]
        source = checked(partial(prepare, one, procedure))
        child = fork(name, partial(run_killed, one, procedure, point, folder))
        child.end()
        assert child.status in (0, signal.SIGKILL), f"{name} failed: see above"
        if child.status == 0:
            result.ended += 1
            schedule.learn(name, json.loads(child.text))
            assert checked(partial(is_made, one)), f"{name} ended, and made no table"
        else:
            by_procedure[name] += 1
            by_operation[point.operation] += 1
        is_repeated, orphans = checked(partial(check_made, one, procedure, source))
        result.repeated += is_repeated
        result.orphans += orphans
        result.rounds, result.kills_by_procedure, result.kills_by_operation = number + 1, dict(by_procedure), dict(by_operation)
        print(f"{result.rounds} of {rounds} rounds, {sum(by_procedure.values())} kills", file=sys.stderr, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.new_table_stress")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(kill(folder, arguments.rounds, arguments.seed))))


if __name__ == "__main__":
    main()
