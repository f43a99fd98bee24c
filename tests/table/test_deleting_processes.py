"""Several processes that delete rows of the same data files, and killed processes: no delete is lost or applied in part."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.combinations import repetitions

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spec.manifest.data_file import FileContent
from icefloe.table import Table

DELETER = Path(__file__).with_name("deleting.py")
ROWS = 400


def make_table(warehouse: Path, version: int) -> Table:
    lake = SqlCatalog("test", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    lake.create_namespace("db")
    settings = {
        "format-version": str(version),
        "write.delete.mode": "merge-on-read",
        "commit.retry.num-retries": "1000",
        "commit.retry.min-wait-ms": "5",
    }
    table = lake.create_table("db.t", pa.schema([("number", pa.int64())]), properties=settings)
    for start in (0, ROWS // 2):
        table.append(pa.table({"number": pa.array(range(start, start + ROWS // 2), pa.int64())}))
    return table


def start(warehouse: Path, first: int, step: int, count: int) -> subprocess.Popen[str]:
    arguments = [str(warehouse), "db.t", str(first), str(step), str(count)]
    return subprocess.Popen([sys.executable, str(DELETER), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def remaining_numbers(table: Table) -> set[int]:
    result = table.refresh().scan().select("number", "_row_id").to_arrow()
    if table.format_version == 3:
        assert result["_row_id"].to_pylist() == result["number"].to_pylist()  # rows were appended in the order of their numbers
    assert table.scan().count() == result.num_rows
    return set(result["number"].to_pylist())


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_concurrent_deletes_of_two_processes_are_all_committed(tmp_path: Path, version: int) -> None:
    table = make_table(tmp_path, version)
    deleters = [start(tmp_path, first, 2, 4) for first in (196, 197)]  # numbers of both data files, alternating
    for deleter in deleters:
        out, err = deleter.communicate(timeout=240)
        assert deleter.returncode == 0, err[-2000:]
        assert [line.split()[1] for line in out.splitlines()] == ["1"] * 4
    assert remaining_numbers(table) == set(range(ROWS)) - set(range(196, 204))
    assert len(table.snapshots()) == 10
    snapshot = table.current_snapshot()
    assert snapshot is not None
    entries = [entry.data_file for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]
    deletes = [file for file in entries if file.content is not FileContent.DATA]
    assert sum(file.record_count for file in deletes) == 8
    if version == 3:
        assert len({file.referenced_data_file for file in deletes}) == len(deletes) == 2


@pytest.mark.slow
def test_a_table_is_intact_after_deleting_processes_are_killed_at_random_moments(tmp_path: Path) -> None:
    chance, table, acknowledged, first = random.Random(5), make_table(tmp_path, 3), set[int](), 0
    while len(acknowledged) < 12:
        deleter = start(tmp_path, first, 1, 40)
        assert deleter.stdout is not None
        line = deleter.stdout.readline()
        assert line, deleter.communicate()[1][-2000:]
        time.sleep(chance.random() * 0.15)
        deleter.kill()
        out, _ = deleter.communicate()
        acknowledged |= {int(line.split()[0]) for line in (line + out).splitlines() if len(line.split()) == 2}
        gone = set(range(ROWS)) - remaining_numbers(table)
        assert acknowledged <= gone, "an acknowledged delete is lost"
        assert gone <= set(range(first + 40)), "a row is missing that no process deleted"
        first = max(gone) + 1
    table.delete("number >= 390")
    assert remaining_numbers(table) == set(range(first, 390))
