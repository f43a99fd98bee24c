"""Tables that Icefloe wrote, read by DuckDB, PyIceberg and Java at every snapshot; and tables that Java wrote, read by Icefloe."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.rows import comparable

from icefloe import SqlCatalog, StaticTable
from icefloe.table import Table

pytestmark = pytest.mark.oracle
Reader = Callable[..., list[dict[str, Any]]]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("real", pa.float32()),
        ("wide", pa.float64()),
        ("money", pa.decimal128(9, 2)),
        ("large", pa.decimal128(30, 5)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("atz", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("where", pa.struct([("x", pa.int32()), ("label", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
START = dt.datetime(2024, 1, 1)
SPECS = {
    "none": [],
    "month_and_text": ["month(at)", "text"],
    "bucket_and_truncate": ["bucket(4, id)", "truncate(2, text)"],
    "day_of_a_date": ["day(day)"],
    "hour_and_void": ["hour(atz)", "void(id)"],
    "year_and_decimal": ["year(day)", "money"],
}


def row(n: int) -> dict[str, Any]:
    if n % 11 == 0:
        return {"id": n, **dict.fromkeys(SCHEMA.names[1:])}
    moment = START + dt.timedelta(days=n * 3, hours=n, microseconds=n)
    return {
        "id": n,
        "flag": n % 2 == 0,
        "small": -n,
        "real": n / 4,
        "wide": n / 8,
        "money": Decimal(n * 7 - 50).scaleb(-2),
        "large": Decimal(n * 10**15 + 1).scaleb(-5),
        "day": moment.date(),
        "at": moment,
        "atz": moment.replace(tzinfo=dt.UTC),
        "text": ["plain", "blank and /slash", "größe=1&2", "c'quote", "x" * 40][n % 5],
        "raw": bytes([n % 256, 255]),
        "where": {"x": n, "label": None if n % 3 else "l"},
        "tags": [] if n % 4 == 0 else ["a", None, "b"][: n % 4],
        "counts": {"k": n},
    }


def rows(start: int, stop: int) -> pa.Table:
    return pa.Table.from_pylist([row(n) for n in range(start, stop)], schema=SCHEMA)


def with_maps_as_objects(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one in found:
        if isinstance(one["counts"], list):
            one["counts"] = {
                pair["key"] if isinstance(pair, dict) else pair[0]: pair["value"] if isinstance(pair, dict) else pair[1]
                for pair in one["counts"]
            }
    return found


def without_bytes(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without bytes, which each engine prints in its own way; row ids and Icefloe's own reading cover them."""
    return [{key: value for key, value in one.items() if key != "raw"} for one in with_maps_as_objects(found)]


def write(folder: Path, spec: list[str], version: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"format-version": version})
    table.append(rows(0, 40))
    table.append(rows(40, 60))
    table.delete("id >= 10 and id < 15")
    table.delete("at < '2024-02-01'")
    table.overwrite(rows(100, 105), "id > 50")
    return table


def ours(table: Table | StaticTable, snapshot_id: int | None = None) -> list[str]:
    return comparable(without_bytes(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()))


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("spec", SPECS)
def test_duckdb_reads_every_snapshot_as_icefloe_does(duckdb_rows: Reader, tmp_path: Path, spec: str, version: str) -> None:
    table = write(tmp_path, SPECS[spec], version)
    for snapshot in table.snapshots():
        other_engine_rows = duckdb_rows(table.metadata_location, snapshot.snapshot_id)
        assert comparable(without_bytes(other_engine_rows)) == ours(table, snapshot.snapshot_id)


@pytest.mark.parametrize(("spec", "version"), [("month_and_text", "2"), ("bucket_and_truncate", "1"), ("hour_and_void", "2")])
def test_java_reads_every_snapshot_as_icefloe_does(java_rows: Reader, tmp_path: Path, spec: str, version: str) -> None:
    table = write(tmp_path, SPECS[spec], version)
    for snapshot in (table.snapshots()[0], table.snapshots()[-1]):
        other_engine_rows = java_rows(table.metadata_location, snapshot.snapshot_id)
        assert comparable(without_bytes(other_engine_rows)) == ours(table, snapshot.snapshot_id)


@pytest.mark.parametrize("spec", SPECS)
def test_pyiceberg_reads_every_snapshot_as_icefloe_does(pyiceberg: Callable[..., str], tmp_path: Path, spec: str) -> None:
    table = write(tmp_path, SPECS[spec], "2")
    printed = pyiceberg(
        """
import json, sys
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata(sys.argv[1])
found = {}
for snapshot in table.snapshots():
    found[snapshot.snapshot_id] = [
        {key: value for key, value in row.items() if key != "raw"} for row in table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
    ]
found["filtered"] = sorted(table.scan(row_filter="text = 'plain' and at >= '2024-03-01T00:00:00'").to_arrow()["id"].to_pylist())
print(json.dumps(found, default=str))
""",
        table.metadata_location,
    )
    other_engine_rows = json.loads(printed.splitlines()[-1])
    for snapshot in table.snapshots():
        assert comparable(without_bytes(other_engine_rows[str(snapshot.snapshot_id)])) == ours(table, snapshot.snapshot_id)
    filtered = table.scan("text = 'plain' and at >= '2024-03-01'").to_arrow()["id"].to_pylist()
    assert sorted(filtered) == other_engine_rows["filtered"]


def test_icefloe_reads_what_java_wrote(java_tables: Path) -> None:
    expected = json.loads((java_tables / "expected.json").read_text())
    assert len(expected) == 6
    for name, lines in expected.items():
        metadata = max((java_tables / "db" / name / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        found = comparable(StaticTable.from_metadata(str(metadata)).scan().to_arrow().to_pylist())
        assert found == comparable([json.loads(line) for line in lines]), name


@pytest.mark.parametrize("version", ["1", "2"])
def test_icefloe_reads_and_changes_partitioned_and_evolved_tables_of_java(
    java_script: Callable[..., str], java_rows: Reader, tmp_path: Path, version: str
) -> None:
    java_script(
        f"""
sql = spark.sql
sql("create table j.db.t (id bigint, s string, ts timestamp_ntz, d decimal(10,2), n struct<a:int,b:string>) using iceberg "
    "partitioned by (months(ts), bucket(4, id), truncate(2, s), s) tblproperties ('format-version'='{version}')")
insert = ("insert into j.db.t select id, concat('k', id % 5), timestamp_ntz'2024-01-01 00:00:00' + make_interval(0,0,0,int(id)), "
          "cast(id as decimal(10,2)), named_struct('a', int(id), 'b', string(id)) from range({{}}, {{}})")
sql(insert.format(0, 50))
sql(insert.format(50, 100))
sql("delete from j.db.t where id % 10 = 3")
sql("alter table j.db.t rename column s to label")
sql("alter table j.db.t add column extra string")
sql("alter table j.db.t alter column d type decimal(18,2)")
sql("alter table j.db.t drop column n")
sql("insert into j.db.t select 1000, 'new', timestamp_ntz'2025-01-01 00:00:00', 1.5, 'x'")
""",
        str(tmp_path),
    )
    folder = tmp_path / "db" / "t" / "metadata"
    newest = str(max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])))
    other_engine_rows = comparable(java_rows(newest))
    static = StaticTable.from_metadata(newest)
    assert comparable(static.scan().to_arrow().to_pylist()) == other_engine_rows
    assert static.scan("label = 'k1' and id > 20").to_arrow().num_rows == sum(
        '"k1"' in line and json.loads(line)["id"] > 20 for line in other_engine_rows
    )
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.register_table("db.t", newest)
    table.delete("id < 20")
    table.append(pa.table({"id": [2000], "label": ["ours"]}))
    after = comparable(java_rows(table.metadata_location))
    assert after == comparable(table.scan().to_arrow().to_pylist())
    assert len(after) == sum(json.loads(line)["id"] >= 20 for line in other_engine_rows) + 1
