"""Maintenance by Icefloe and by Java in turn on tables of either: no step changes a row, a row id or the number of its last change.

The tables are in one catalog, which both open: SQLite behind `SqlCatalog` and `JdbcCatalog`. A fixture runs all steps, and the tests compare what was read.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.conftest import ORACLES, run
from tests.oracle.java_jdbc import java_jdbc
from tests.oracle.rows import comparable

from icefloe import LongType, SqlCatalog
from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("note", pa.string()), ("amount", pa.float64())])
PYICEBERG_REFUSES = "PyIceberg does not yet support equality deletes"
# An internal error of DuckDB 1.5.5, if a null is among the partition values and Java wrote equality deletes of a partition.
DUCKDB_FAILS = "https://duckdb.org/docs/stable/dev/internal_errors"
LINEAGE = ("_row_id", "_last_updated_sequence_number")
MERGE_ON_READ = dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), "merge-on-read")
EVERYTHING = {"rewrite-all": True}
# Written by Icefloe and first maintained by Icefloe; written by Icefloe and first maintained by Java; written by Java.
OURS = ["ours_v1_parted", "ours_v2_plain", "ours_v2_parted", "ours_v3_plain", "ours_v3_parted"]
OURS_FOR_JAVA = ["lent_v1_plain", "lent_v2_parted", "lent_v3_parted"]
JAVAS = ["java_v2_plain", "java_v3_parted"]

# Java 1.10 loses inherited first row ids when it rewrites manifests (apache/iceberg#16699), so for version 3 it does that last: then data files hold the ids.
JAVA_STEPS = """
def java_maintains(name):
    call = lambda procedure, more="": rows(f"call lake.system.{procedure}(table => 'db.{name}'{more})")
    everything = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    done = {}
    done["positions"] = call("rewrite_position_delete_files", ", options => map('rewrite-all', 'true')")
    done["binpack"] = call("rewrite_data_files", ", options => map('min-input-files', '2', 'delete-file-threshold', '1')")
    if "v3" not in name:
        done["manifests"] = call("rewrite_manifests")
    done["sort"] = call("rewrite_data_files", f", strategy => 'sort', sort_order => 'part desc nulls last, id', options => {everything}")
    done["zorder"] = call("rewrite_data_files", f", strategy => 'sort', sort_order => 'zorder(id, part)', options => {everything}")
    done["manifests at the end"] = call("rewrite_manifests")
    results["steps of " + name] = done
"""

JAVA_WRITES = """
jvm, gateway = spark._jvm, spark.sparkContext._gateway
COLUMNS = "id, if(id % 7 = 6, null, if(id % 2 = 0, 'a', 'b')) as part, if(id % 5 = 4, null, concat('n', id)) as note, if(id % 3 = 2, null, id / 4D) as amount"

def equality_deletes(name, part, *ids):
    table = jdbc.loadTable(parse("db." + name))
    field = gateway.new_array(jvm.int, 1)
    field[0] = table.schema().findField("id").fieldId()
    key, parquet = table.schema().select(["id"]), iceberg.FileFormat.PARQUET
    partition = None
    if table.spec().isPartitioned():
        row = iceberg.data.GenericRecord.create(table.schema())
        row.setField("part", part)
        partition = iceberg.PartitionKey(table.spec(), table.schema())
        partition.partition(row)
    files = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(parquet).build()
    file = files.newOutputFile(partition) if partition else files.newOutputFile()
    writer = iceberg.data.GenericAppenderFactory(table.schema(), table.spec(), field, key, None).newEqDeleteWriter(file, parquet, partition)
    for number in ids:
        longs = spark.sql(f"select map('id', {number}L)")._jdf.collectAsList().get(0).getJavaMap(0)
        writer.write(iceberg.data.GenericRecord.create(key).copy(longs))
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()

def java_writes(name, version, parted):
    t = "lake.db." + name
    by = "partitioned by (part)" if parted else ""
    more = "" if version == 1 else "".join(f", 'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
    spark.sql(f"create table {t} (id bigint, part string, note string, amount double) using iceberg {by} "
              f"tblproperties ('format-version' = '{version}'{more})")
    for start, stop in ((0, 30), (30, 40)):
        spark.sql(f"insert into {t} select {COLUMNS} from range({start}, {stop})")
    spark.sql(f"delete from {t} where id in (3, 13, 31)")
    if version > 1:
        equality_deletes(name, "b", 5, 7)
    spark.sql(f"alter table {t} rename column note to label")
    spark.sql(f"alter table {t} add column extra bigint")
    if version > 1:
        equality_deletes(name, "a", 8, 10)
    if parted:
        spark.sql(f"alter table {t} add partition field bucket(2, id)")
    for start, stop in ((40, 50), (50, 60)):
        spark.sql(f"insert into {t} select {COLUMNS}, id * 2 from range({start}, {stop})")
    spark.sql(f"update {t} set label = 'changed' where id in (2, 44, 53)")
    spark.sql(f"delete from {t} where id in (14, 41)")
    spark.sql(f"insert into {t} select {COLUMNS}, id * 3 from range(7, 9)")
"""

JAVA_READS = """
for path, snapshots, lineage in json.load(open(folder + "/reads.json")):
    for snapshot in snapshots:
        read = spark.read.format("iceberg").option("snapshot-id", snapshot).load(path)
        read = read.select("*", "_row_id", "_last_updated_sequence_number") if lineage else read
        results[f"{path} {snapshot}"] = [row.asDict(recursive=True) for row in read.collect()]
"""

_DUCKDB = """
import json, sys
sys.path.insert(0, sys.argv[1])
from duckdb_rows import connect
def connected():
    # DuckDB 1.5.5 reads the first of two vectors twice from its file cache, if a later one in the Puffin file was read before them.
    connection = connect()
    connection.execute("set enable_external_file_cache = false")
    return connection
duckdb = connected()
for path, snapshots, _ in json.load(open(sys.argv[2])):
    for snapshot in snapshots:
        try:
            relation = duckdb.sql(f"select * from iceberg_scan('{path}', snapshot_from_id={snapshot})")
            found = [dict(zip(relation.columns, row)) for row in relation.fetchall()]
        except Exception as error:
            found, duckdb = str(error), connected()  # a connection is of no use after an internal error
        print(json.dumps([f"{path} {snapshot}", found]))
"""

_PYICEBERG = """
import json, sys
from pyiceberg.table import StaticTable
for path, snapshots, lineage in json.load(open(sys.argv[1])):
    for snapshot in [] if lineage else snapshots:
        try:
            found = StaticTable.from_metadata(path).scan(snapshot_id=snapshot).to_arrow().to_pylist()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        print(json.dumps([f"{path} {snapshot}", found]))
"""


def rows(start: int, stop: int, label: str = "note") -> pa.Table:
    found = [
        {
            "id": n,
            "part": None if n % 7 == 6 else "ab"[n % 2],
            "note": None if n % 5 == 4 else f"n{n}",
            "amount": None if n % 3 == 2 else n / 4,
        }
        for n in range(start, stop)
    ]
    return pa.Table.from_pylist(found, schema=SCHEMA).rename_columns({"note": label})


def later_rows(start: int, stop: int, factor: int = 2) -> pa.Table:
    """Return rows of the evolved schema."""
    return rows(start, stop, "label").append_column("extra", pa.array([n * factor for n in range(start, stop)], pa.int64()))


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def write(catalog: SqlCatalog, name: str, version: int, *, parted: bool) -> None:
    properties = {"format-version": str(version)} | (MERGE_ON_READ if version > 1 else {})
    table = catalog.create_table(f"db.{name}", SCHEMA, partition_spec=["part"] if parted else [], properties=properties)
    table.append(rows(0, 30))
    table.append(rows(30, 40))
    table.delete("id in (3, 13, 31)")
    if version > 1:
        table.delete_keys(keys(5, 7, 8), ["id"])
    with table.update_schema() as update:
        update.rename_column("note", "label").add_column("extra", LongType())
    if parted:
        with table.update_spec() as update:
            update.add_field("id", "bucket[2]", "shard")
    table.append(later_rows(40, 50))
    table.append(later_rows(50, 60))
    table.overwrite(later_rows(44, 46, 5), "id = 44 or id = 45")
    table.delete("id in (14, 41)")
    table.append(later_rows(7, 9, 3))


def change(table: Table, start: int) -> None:
    """Append rows, and delete rows of old and of new files in each way that the version has."""
    table.append(later_rows(start, start + 6))
    table.delete(f"id in ({start % 40}, {start + 1})")
    if table.format_version > 1:
        table.delete_keys(keys(start % 40 + 1, start + 2), ["id"])
    table.append(later_rows(start + 1, start + 2, 7))


def read(table: Table, snapshot_id: int | None = None) -> list[str]:
    columns = ("*", *LINEAGE) if table.format_version == 3 else ("*",)
    return comparable(table.scan(snapshot_id=snapshot_id, selected_fields=columns).to_arrow().to_pylist())


def head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def age(folder: Path) -> None:
    """Make every file ten days old, which the age limits of orphan files do not protect."""
    before = time.time() - 10 * 24 * 3600
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (before, before))


def plant(table: Table) -> Path:
    """Write a file that no snapshot names into the table's folder."""
    orphan = Path(table.location().removeprefix("file://")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"nobody's")
    age(orphan.parent.parent)
    return orphan


@dataclass
class Lake:
    """A catalog that both implementations open, and what was found."""

    folder: Path
    catalog: SqlCatalog
    differences: list[tuple[str, str, list[str], list[str]]] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    by_duckdb: dict[str, Any] = field(default_factory=dict)
    by_pyiceberg: dict[str, Any] = field(default_factory=dict)
    by_java: dict[str, Any] = field(default_factory=dict)
    by_icefloe: dict[str, list[str]] = field(default_factory=dict)
    ends: set[str] = field(default_factory=set)
    java_steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        return self.catalog.load_table(f"db.{name}")

    def compare(self, name: str, step: str, before: list[str], after: list[str]) -> None:
        self.steps.append((name, step))
        if before != after:
            self.differences.append((name, step, sorted(set(before) - set(after)), sorted(set(after) - set(before))))

    def icefloe_maintains(self, name: str, start: int) -> list[int]:
        """Run every operation on changed rows, and return the snapshots since the first one."""
        table = self.table(name)
        first = head(table)
        operations: list[tuple[str, Callable[[], Any]]] = [
            ("conversion", table.maintenance.convert_equality_deletes),
            ("positions", lambda: table.maintenance.rewrite_position_delete_files(options={"rewrite-all": True})),
            ("binpack", lambda: table.maintenance.rewrite_data_files(options={"min-input-files": 2, "delete-file-threshold": 1})),
            ("sort", lambda: table.maintenance.rewrite_data_files(sort_order="part desc nulls last, id", options=EVERYTHING)),
            ("zorder", lambda: table.maintenance.rewrite_data_files(sort_order="zorder(id, part)", options=EVERYTHING)),
            ("dangling", table.maintenance.remove_dangling_deletes),
            ("manifests", table.rewrite_manifests),
        ]
        for number, (step, operation) in enumerate(operations):
            if step in ("conversion", "positions", "binpack", "sort", "zorder"):
                change(table, start + 10 * number)
            before = read(table)
            operation()
            self.compare(name, f"Icefloe's {step}", before, read(table.refresh()))
        before, orphan = read(table), plant(table)
        table.maintenance.remove_orphan_files()
        assert not orphan.exists()
        self.compare(name, "Icefloe's orphans", before, read(table))
        snapshots = [snapshot.snapshot_id for snapshot in table.snapshots()]
        return snapshots[snapshots.index(first) :]

    def java(self, script: str) -> dict[str, Any]:
        results: dict[str, Any] = java_jdbc(script, self.folder)
        return results

    def list_reads(self, snapshots: dict[str, list[int]]) -> None:
        """Read snapshots, and write a list of them for the other engines."""
        reads = []
        for name, ids in snapshots.items():
            table = self.table(name)
            reads.append([table.metadata_location, ids, table.format_version == 3])
            self.ends.add(f"{table.metadata_location} {ids[-1]}")
            for snapshot_id in ids:
                self.by_icefloe[f"{table.metadata_location} {snapshot_id}"] = read(table, snapshot_id)
        (self.folder / "reads.json").write_text(json.dumps(reads))

    def read_by_others(self, pyiceberg: Callable[..., str]) -> None:
        reads = str(self.folder / "reads.json")
        self.by_duckdb |= dict(map(json.loads, run("duckdb", "-c", _DUCKDB, str(ORACLES), reads).splitlines()))
        self.by_pyiceberg |= dict(json.loads(line) for line in pyiceberg(_PYICEBERG, reads).splitlines() if line.startswith("["))

    def java_maintains(self, names: list[str], script: str) -> None:
        """Let Java maintain tables, and compare the rows of every snapshot that it made with those before."""
        before = {name: (head(self.table(name)), read(self.table(name))) for name in names}
        results = self.java(script)
        self.by_java |= {key: value for key, value in results.items() if " of " not in key}
        for name in names:
            self.java_steps.setdefault(name, []).append(results[f"steps of {name}"])
            table = self.table(name)
            known, rows_before = before[name]
            ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
            for snapshot_id in ids[ids.index(known) + 1 :] if known in ids else ids:
                self.compare(name, f"Java's {table.snapshot_by_id(snapshot_id)}", rows_before, read(table, snapshot_id))
            self.compare(name, "Java's head", rows_before, read(table))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, pyiceberg: Callable[..., str]) -> Lake:
    folder = tmp_path_factory.mktemp("both")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace("db")
    found = Lake(folder, catalog)
    for name in (*OURS, *OURS_FOR_JAVA):
        write(catalog, name, int(name.split("_")[1][1:]), parted="parted" in name)
    writes = "".join(f"java_writes({name!r}, {name.split('_')[1][1:]}, {'parted' in name})\n" for name in JAVAS)
    maintains = "".join(f"java_maintains({name!r})\n" for name in OURS_FOR_JAVA)
    found.java_maintains(OURS_FOR_JAVA, JAVA_STEPS + JAVA_WRITES + writes + maintains)

    every = [*OURS, *OURS_FOR_JAVA, *JAVAS]
    found.list_reads({name: found.icefloe_maintains(name, 100) for name in every})
    found.read_by_others(pyiceberg)
    orphans = [plant(found.table(name)) for name in every]
    script = JAVA_STEPS + JAVA_READS
    for name in every:
        script += f"results['orphans of {name}'] = rows(\"call lake.system.remove_orphan_files(table => 'db.{name}')\")\njava_maintains({name!r})\n"
        script += f"rows(\"call lake.system.expire_snapshots('db.{name}', timestamp'2100-01-01', 3)\")\n"
    found.java_maintains(every, script)
    assert not any(orphan.exists() for orphan in orphans)

    found.list_reads({name: found.icefloe_maintains(name, 200)[-3:] for name in every})
    found.read_by_others(pyiceberg)
    found.by_java |= found.java(JAVA_READS)
    return found


def test_no_step_of_either_changes_rows_or_their_lineage(lake: Lake) -> None:
    assert len(lake.steps) > 150
    assert lake.differences == []


def test_java_reads_every_snapshot_as_icefloe_does(lake: Lake) -> None:
    assert lake.by_java.keys() == lake.by_icefloe.keys()
    wrong = [key for key, found in lake.by_java.items() if comparable(found) != lake.by_icefloe[key]]
    assert wrong == []


def without_lineage(lines: list[str]) -> list[str]:
    return comparable([{key: value for key, value in json.loads(line).items() if key not in LINEAGE} for line in lines])


def differing(lake: Lake, found: dict[str, Any], refusals: Callable[[str], str | None]) -> list[tuple[str, Any]]:
    """Return the snapshots that an engine reads otherwise, or refuses for no known reason or after all maintenance."""
    wrong = []
    for key, value in found.items():
        if isinstance(value, str):
            reason = refusals(key)
            right = reason is not None and reason in value and key not in lake.ends
        else:
            right = comparable(value) == without_lineage(lake.by_icefloe[key])
        if not right:
            wrong.append((key, value))
    return wrong


def test_duckdb_reads_every_snapshot_as_icefloe_does(lake: Lake) -> None:
    assert lake.by_duckdb.keys() == lake.by_icefloe.keys()
    assert differing(lake, lake.by_duckdb, lambda key: DUCKDB_FAILS if "/java_v3_parted/" in key else None) == []


def test_pyiceberg_reads_every_snapshot_of_versions_1_and_2_as_icefloe_does(lake: Lake) -> None:
    """PyIceberg reads no equality deletes; once they are rewritten and removed, it reads the tables."""
    assert len(lake.by_pyiceberg) > 40
    assert differing(lake, lake.by_pyiceberg, lambda key: PYICEBERG_REFUSES if "_v2_" in key else None) == []


def test_java_rewrote_files_of_every_table(lake: Lake) -> None:
    assert lake.java_steps.keys() == {*OURS, *OURS_FOR_JAVA, *JAVAS}
    for name, rounds in lake.java_steps.items():
        assert all(steps[step][0][0] > 0 for steps in rounds for step in ("sort", "zorder", "manifests at the end")), name
    assert all(lake.java_steps[name][0]["binpack"][0][0] > 0 for name in OURS_FOR_JAVA)
