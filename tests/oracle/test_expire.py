"""Tables of Icefloe, expired by Java and by Icefloe from the same state: both remove the same snapshots and files; Java and DuckDB read the rest."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.table.reachable import everything, on_disk, taken_out

from icefloe import SqlCatalog, StringType
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.staging import write_audit_publish
from icefloe.operations.table_handle import TableHandle
from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
DAY = 86_400_000
NOW = time.time_ns() // 1_000_000

# One line for each table: how it is expired. Ages are in days; both implementations use the machine's clock.
CASES: dict[str, dict[str, Any]] = {
    "policy": {},
    "age": {"age": 12},
    "last": {"age": 0, "last": 3},
    "ids": {"age": 10_000, "named": 2},
    "everything": {"age": 0},
    "unused": {"age": 0, "clean": True},
}
SHAPES = ("plain", "branches", "staged", "v1", "v3")

_EXPIRE = """
import json, pathlib
jvm = spark.sparkContext._jvm
for name, case in json.loads({cases!r}).items():
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db." + name)
    work = table.expireSnapshots().cleanExpiredMetadata(bool(case["clean"]))
    if case["older_than"] is not None:
        work = work.expireOlderThan(case["older_than"])
    if case["last"] is not None:
        work = work.retainLast(case["last"])
    for one in case["named"]:
        work = work.expireSnapshotId(one)
    work.commit()
    table.refresh()
    refs = sorted(table.refs().keySet().toArray())
    ids = [snapshot.snapshotId() for snapshot in table.snapshots()]
    folder = pathlib.Path(table.location().replace("file:", "", 1))
    files = [str(path) for path in folder.rglob("*") if path.is_file() and ".metadata.json" not in path.name]
    print("EXPIRED " + json.dumps([name, ids, refs, files, sorted(table.specs().keySet().toArray()), sorted(table.schemas().keySet().toArray())]))
"""

_READ = """
import json
for path, snapshot in json.loads({snapshots!r}):
    rows = spark.read.format("iceberg").option("snapshot-id", snapshot).load(path).select("a").collect()
    print("READ " + json.dumps([path, snapshot, sorted(row[0] for row in rows)]))
"""


class Clock:
    def __init__(self) -> None:
        self.now = NOW - 40 * DAY

    def now_ms(self) -> int:
        self.now += DAY // 2
        return self.now


def make(catalog: SqlCatalog, name: str, shape: str) -> Table:
    """Make a dozen snapshots, the oldest forty days old, each half a day or more after the one before."""
    version = {"v1": "1", "v3": "3"}.get(shape, "2")
    properties = {
        "format-version": version,
        "write.wap.enabled": "true",
        "commit.manifest.min-count-to-merge": "4",
        "write.parquet.compression-codec": "snappy",
        "write.delete.mode": "copy-on-write" if shape == "v1" else "merge-on-read",
        "history.expire.max-snapshot-age-ms": str(9 * DAY),
    }
    made = catalog.create_table(f"db.{name}", pa.schema([("a", pa.int64())]), properties=properties)
    # The table is created now, but its history has to be older.
    location = Path(made.metadata_location)
    document = json.loads(location.read_text())
    location.write_text(json.dumps({**document, "last-updated-ms": NOW - 50 * DAY}))
    clock = Clock()
    handle = TableHandle(identifier=made.name(), store=made.handle.store, io=made.io, clock=clock)
    table = Table(handle, load_metadata(handle))
    for number in range(3):
        table.append(pa.table({"a": list(range(number * 10, number * 10 + 10))}))
    table.delete("a in (3, 13)")
    if shape == "branches":
        ids = [one.snapshot_id for one in table.snapshots()]
        with table.manage_snapshots() as update:
            update.create_tag(ids[0], "kept").create_tag(ids[1], "old", max_ref_age_ms=DAY)
            update.create_branch(ids[1], "side", min_snapshots_to_keep=2).create_branch(ids[2], "stale", max_ref_age_ms=DAY)
            update.create_branch(ids[2], "young", max_snapshot_age_ms=20 * DAY)
        for branch in ("side", "young", "stale"):
            table.append(pa.table({"a": [100]}), branch=branch)
        table.overwrite(pa.table({"a": [200]}), "a < 5", branch="side")
    if shape == "staged":
        with write_audit_publish(wap_id="one"):
            table.append(pa.table({"a": [50]}))
        with write_audit_publish(wap_id="two"):
            table.append(pa.table({"a": [60]}))
        table.append(pa.table({"a": [70]}))
        with table.manage_snapshots() as update:
            update.publish_changes("one")
        before = table.metadata.current_snapshot_id
        table.overwrite(pa.table({"a": [80]}), "a < 20")
        with table.manage_snapshots() as update:
            update.rollback_to_snapshot(before or 0)
    if shape != "v1":
        table.compute_statistics()
    with table.update_spec() as update:
        update.add_field("a", "bucket[4]")
    table.overwrite(pa.table({"a": [300, 301]}), "a < 25")
    with table.update_spec() as update:
        update.remove_field("a_bucket_4")
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.overwrite(pa.table({"a": [400], "note": ["x"]}), "a < 400")
    table.append(pa.table({"a": [401], "note": ["y"]}))
    assert table.metadata.last_updated_ms < NOW
    return table


def as_hadoop(table: Table) -> None:
    """Copy the metadata file to the name that Java's Hadoop catalog expects."""
    folder = Path(table.metadata_location).parent
    shutil.copy(table.metadata_location, folder / "v1.metadata.json")
    (folder / "version-hint.text").write_text("1")


def hidden(path: str) -> bool:
    return Path(path).name.startswith(".") or path.endswith("version-hint.text")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, java_script: Callable[..., str]) -> dict[str, tuple[Table, Any, Any, set[str]]]:
    """Return each table after Icefloe's expiry, the report, what Java's expiry left (ids, refs, files, specs, schemas), and the files before."""
    folder = tmp_path_factory.mktemp("expire") / "warehouse"
    folder.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    tables, cases, ours = {}, {}, {}
    for shape in SHAPES:
        for kind, case in CASES.items():
            name = f"{shape}_{kind}"
            table = make(catalog, name, shape)
            tables[name] = table
            named = [one.snapshot_id for one in table.snapshots()][2 : 2 + case.get("named", 0)]
            refs = {ref.snapshot_id for ref in table.refs().values()}
            older_than = NOW - case["age"] * DAY if "age" in case else None
            ours[name] = {
                "older_than": older_than,
                "retain_last": case.get("last"),
                "snapshot_ids": [one for one in named if one not in refs],
            }
            cases[name] = {
                "older_than": older_than,
                "last": case.get("last"),
                "clean": case.get("clean"),
                "named": ours[name]["snapshot_ids"],
            }
            as_hadoop(table)
    before = tmp_path_factory.mktemp("before") / "warehouse"
    shutil.copytree(folder / "db", before)
    java = {}
    for line in java_script(_EXPIRE.format(cases=json.dumps(cases)), str(folder)).splitlines():
        if line.startswith("EXPIRED "):
            name, *left = json.loads(line.removeprefix("EXPIRED "))
            java[name] = left
    shutil.rmtree(folder / "db")
    shutil.copytree(before, folder / "db")
    found = {}
    for name, arguments in ours.items():
        files = on_disk(tables[name].location())
        table = catalog.load_table(f"db.{name}")
        report = table.expire_snapshots(**arguments, clean_expired_metadata=bool(cases[name]["clean"]))
        found[name] = (table, report, java[name], files)
    return found


def test_java_and_icefloe_expire_the_same_snapshots_and_references(compared: dict[str, Any]) -> None:
    assert len(compared) == len(SHAPES) * len(CASES)
    wrong = {}
    for name, (table, report, (ids, refs, *_), _) in compared.items():
        kept = [one.snapshot_id for one in table.snapshots()]
        if sorted(kept) != sorted(ids) or sorted(table.refs()) != refs:
            wrong[name] = (len(report.snapshot_ids), len(kept), len(ids), sorted(table.refs()), refs)
    assert not wrong
    assert len({len(report.snapshot_ids) for _, report, *_ in compared.values()}) > 3


def test_java_and_icefloe_remove_the_same_specs_and_schemas(compared: dict[str, Any]) -> None:
    for name, (table, _, (*_, specs, schemas), _) in compared.items():
        assert (sorted(table.specs()), sorted(table.schemas())) == (specs, schemas), name


def test_java_deletes_the_same_files_or_leaves_some_for_later(compared: dict[str, Any]) -> None:
    differences = {}
    for name, (table, report, (_, _, files, *_), before) in compared.items():
        ours = {path for path in on_disk(table.location()) if not hidden(path)}
        java = {path for path in files if not hidden(path)}
        assert ours == everything(table.metadata), name
        assert before - ours - {path for path in before if hidden(path)} == set(report.files["path"].to_pylist()), name
        assert not ours - java, name  # Java deletes nothing that we keep
        if java - ours:
            differences[name] = java - ours
            assert java - ours <= taken_out(table.metadata), name
    # If only main was expired, Java deletes the files that expired snapshots removed: files that the oldest kept snapshot removed stay until it expires too.
    assert {name.partition("_")[0] for name in differences} <= {"plain", "v1", "v3"}


def test_java_and_duckdb_read_the_rest(
    compared: dict[str, Any], java_script: Callable[..., str], duckdb_rows: Callable[..., Any], tmp_path: Path
) -> None:
    own = {}
    for table, *_ in compared.values():
        for snapshot in table.snapshots():
            own[table.metadata_location, snapshot.snapshot_id] = sorted(
                table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["a"].to_pylist()
            )
    java = {}
    for line in java_script(_READ.format(snapshots=json.dumps(list(own))), str(tmp_path)).splitlines():
        if line.startswith("READ "):
            path, snapshot, values = json.loads(line.removeprefix("READ "))
            java[path, snapshot] = values
    assert java == own
    for name in ("branches_everything", "staged_last", "v1_policy", "v3_everything"):
        table = compared[name][0]
        found = sorted(row["a"] for row in duckdb_rows(table.metadata_location))
        assert found == own[table.metadata_location, table.metadata.current_snapshot_id], name
