"""Tables of all versions and formats, evolved and upgraded by Icefloe: Java and DuckDB read each snapshot alike, PyIceberg those that it supports.

Java reads all of them in one session; it also reads the row ids of version 3 and the numbers of their last changes.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.rows import comparable
from tests.oracle.test_reading_each_other import SCHEMA, SPECS, row, rows, without_bytes

from icefloe import DoubleType, LongType, SqlCatalog, StringType
from icefloe.table import Table

pytestmark = pytest.mark.oracle
Reader = Callable[..., list[dict[str, Any]]]
FORMATS = ("parquet", "orc", "avro")
LINEAGE = ("_row_id", "_last_updated_sequence_number")

_READ = """
import json
paths = json.loads({paths!r})
for path, snapshots, lineage in paths:
    for snapshot in snapshots:
        read = spark.read.format("iceberg").option("snapshot-id", snapshot).load(path)
        if lineage:
            read = read.select("*", "_row_id", "_last_updated_sequence_number")
        found = [json.dumps(row.asDict(recursive=True), default=str) for row in read.collect()]
        print("READING " + json.dumps([path, snapshot, found]))
"""


def catalog_at(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog


def evolve(table: Table) -> None:
    """Add columns (with a default where the version has them), drop, widen, rename and move them, inside structs too, and change the partitioning."""
    # Java 1.10 cannot read defaults of ORC files: "ORC cannot read default value".
    default = {"default_value": "new"} if table.format_version == 3 and table.properties["write.format.default"] != "orc" else {}
    with table.update_schema() as update:
        update.add_column("note", StringType(), **default).delete_column("flag").update_column("small", LongType())
        update.update_column("real", DoubleType()).rename_column("wide", "broad").move_first("text")
        update.add_column("where.deep", StringType(), **default).rename_column("where.x", "ex")
    with table.update_spec() as update:
        update.add_field("small", "bucket[3]", "shard")


def evolved_rows(table: Table, start: int, stop: int) -> pa.Table:
    old = rows(start, stop).drop_columns(["flag", "where"]).rename_columns({"wide": "broad"})
    where = [value and {"ex": value["x"], "label": value["label"], "deep": "d"} for value in (row(n)["where"] for n in range(start, stop))]
    kind = pa.struct([("ex", pa.int32()), ("label", pa.string()), ("deep", pa.string())])
    return old.append_column("where", pa.array(where, kind))


def write(catalog: SqlCatalog, name: str, version: int, form: str, spec: str, mode: str) -> Table:
    properties = {"format-version": str(version), "write.format.default": form}
    if version > 1:
        properties |= {"write.delete.mode": mode, "write.update.mode": mode}
    table = catalog.create_table(f"db.{name}", SCHEMA, partition_spec=SPECS[spec], properties=properties)
    table.append(rows(0, 30))
    table.delete("id >= 10 and id < 13")
    table.append(rows(30, 40))
    evolve(table)
    table.append(evolved_rows(table, 40, 50))
    table.delete("id = 5 or note = 'new' and id > 35 or id = 44")
    table.overwrite(evolved_rows(table, 100, 103), "id >= 20 and id < 25")
    table.delete("small < -47")
    return table


def upgraded(catalog: SqlCatalog) -> Table:
    """Return a table with rows of all three versions, deleted in each way."""
    table = catalog.create_table("db.upgraded", SCHEMA, partition_spec=SPECS["month_and_text"], properties={"format-version": "1"})
    table.append(rows(0, 20))
    for version, mode in ((2, "merge-on-read"), (3, "copy-on-write")):
        table.set_properties({"format-version": str(version), "write.delete.mode": mode})
        table.append(rows(version * 20, version * 20 + 10))
        table.delete(f"id = {version} or id = {version * 20 + 3}")
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id in (7, 45, 66)")
    return table


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    catalog = catalog_at(tmp_path_factory.mktemp("ours"))
    specs = iter([*SPECS, *SPECS, *SPECS])
    found = {}
    for version in (1, 2, 3):
        for form in FORMATS:
            for mode in ("copy-on-write", "merge-on-read")[: 1 if version == 1 else 2]:
                name = f"v{version}_{form}_{mode.replace('-', '_')}"
                found[name] = write(catalog, name, version, form, next(specs), mode)
    return found | {"upgraded": upgraded(catalog)}


def in_one_form(found: list[dict[str, Any]]) -> list[str]:
    return comparable(without_bytes([{key: one[key] for key in one if key != "raw"} for one in found]))


def snapshots(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.snapshots()]


def test_java_reads_every_snapshot_and_the_lineage_of_every_row_as_icefloe_does(
    tables: dict[str, Table], java_script: Callable[..., str], tmp_path: Path
) -> None:
    by_path = {table.metadata_location: (name, table) for name, table in tables.items()}
    # For Avro and ORC files, also its own, Java 1.10 reads one row id for all rows of a file; it ignores ids that are stored in ORC files.
    numbered = {path: table.format_version == 3 and "avro" not in name and "orc" not in name for path, (name, table) in by_path.items()}
    asked = [[path, snapshots(table), numbered[path]] for path, (_, table) in by_path.items()]
    printed = java_script(_READ.format(paths=json.dumps(asked)), str(tmp_path))
    told = [json.loads(line.removeprefix("READING ")) for line in printed.splitlines() if line.startswith("READING ")]
    assert len(told) == sum(len(one[1]) for one in asked)
    wrong = []
    for path, snapshot, lines in told:
        name, table = by_path[path]
        columns = ("*", *LINEAGE) if numbered[path] else ("*",)
        ours = in_one_form(table.scan(snapshot_id=snapshot, selected_fields=columns).to_arrow().to_pylist())
        java_rows = in_one_form([json.loads(line) for line in lines])
        if ours != java_rows:
            wrong.append((name, snapshot, set(ours) - set(java_rows), set(java_rows) - set(ours)))
    assert wrong == []


def test_duckdb_reads_the_parquet_tables_as_icefloe_does(tables: dict[str, Table], duckdb_rows: Reader) -> None:
    for name, table in tables.items():
        if "orc" in name or "avro" in name:
            continue  # DuckDB reads only data files in Parquet
        assert in_one_form(duckdb_rows(table.metadata_location)) == in_one_form(table.scan().to_arrow().to_pylist()), name


def test_pyiceberg_reads_the_tables_of_version_1_and_2_as_icefloe_does(tables: dict[str, Table], pyiceberg: Callable[..., str]) -> None:
    script = """
import json, sys
from pyiceberg.table import StaticTable
for path in sys.argv[1:]:
    found = StaticTable.from_metadata(path).scan().to_arrow().to_pylist()
    print(json.dumps([path, [{key: value for key, value in row.items() if key != "raw"} for row in found]], default=str))
"""
    readable = {table.metadata_location: table for name, table in tables.items() if name[:2] in ("v1", "v2") and "avro" not in name}
    printed = pyiceberg(script, *readable)
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    assert len(told) == len(readable)
    for path, java_rows in told:
        assert in_one_form(java_rows) == in_one_form(readable[path].scan().to_arrow().to_pylist()), path


def test_the_tables_are_of_all_kinds(tables: dict[str, Table]) -> None:
    assert len(tables) == 16
    for name, table in tables.items():
        files = list(table.scan().plan_files())
        assert any(task.delete_files for task in files) == ("merge_on_read" in name or name == "upgraded"), name
