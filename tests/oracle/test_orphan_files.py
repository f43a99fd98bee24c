"""Orphan files of a table of Icefloe: Java's procedure finds the same ones, and reads every snapshot after Icefloe has removed them."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.maintenance.test_remove_orphan_files import OLD, ROWS, age, folder_of, made, orphans, stray

from icefloe import load_catalog

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

_FIND = """
import json
rows = spark.sql("CALL j.system.remove_orphan_files(table => 'db.t', dry_run => true)").collect()
print("FOUND " + json.dumps(sorted(row[0] for row in rows)))
"""
_READ = """
import json
for snapshot in json.loads({snapshots!r}):
    rows = spark.read.format("iceberg").option("snapshot-id", snapshot).load("j.db.t").collect()
    print("READ " + json.dumps([snapshot, sorted(row[0] for row in rows)]))
"""


@pytest.mark.parametrize("version", [2, 3])
def test_java_finds_the_same_files_and_reads_what_is_left(java_script: Callable[..., str], tmp_path: Path, version: int) -> None:
    catalog = load_catalog("files", type="hadoop", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = made(tmp_path, version, catalog=catalog)
    table.set_properties({"write.delete.mode": "merge-on-read"})
    for number in range(3):
        table.append(ROWS)
        table.delete(f"id = {number}")
    table.manage_snapshots().create_branch(branch_name="b").commit()
    table.append(ROWS, branch="b")
    table.compute_statistics()
    table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=3, delete_files=False)
    for name in (
        "data/x.parquet",
        "data/a%20b.parquet",
        "data/p=1/y.parquet",
        "metadata/z-m0.avro",
        "metadata/snap-1-1-x.avro",
        "caf\u00e9/x",
        "top",
    ):
        stray(table, name)
    stray(table, "data/_SUCCESS")
    stray(table, ".tmp/x")
    age(table)
    stray(table, "data/young.parquet", at=OLD + 9 * 86_400)
    os.sync()
    expected = {path.removeprefix("file://") for path in orphans(table)}
    printed = java_script(_FIND, str(tmp_path))
    (found,) = (json.loads(line[6:]) for line in printed.splitlines() if line.startswith("FOUND "))
    assert {"/" + path.removeprefix("file:").lstrip("/") for path in found} == expected
    assert len(expected) > 7
    assert table.maintenance.remove_orphan_files().deleted_files == len(expected)
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    printed = java_script(_READ.format(snapshots=json.dumps(ids)), str(tmp_path))
    read = dict(json.loads(line[5:]) for line in printed.splitlines() if line.startswith("READ "))
    assert read == {each: sorted(table.scan(snapshot_id=each).to_arrow()["id"].to_pylist()) for each in ids}
    assert not any((folder_of(table) / "data" / name).exists() for name in ("x.parquet", "a%20b.parquet"))
