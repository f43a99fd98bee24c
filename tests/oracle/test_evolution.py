"""Tables whose schema and partition spec Icefloe changed, read by PyIceberg, DuckDB and Java; and changes by PyIceberg and by Icefloe on one table."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.rows import comparable

from icefloe import DateType, DecimalType, DoubleType, LongType, SqlCatalog, StringType, TimestamptzType
from icefloe.table import Table

pytestmark = pytest.mark.oracle
Reader = Callable[..., list[dict[str, Any]]]
VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "kind": ["abc"[n % 3] for n in numbers],
            "ratio": pa.array([n / 4 for n in numbers], pa.float32()),
            "price": pa.array([Decimal(n * 25).scaleb(-2) for n in numbers], pa.decimal128(9, 2)),
            "place": pa.array([{"x": n, "y": "y"} for n in numbers], pa.struct([("x", pa.int32()), ("y", pa.string())])),
            "at": pa.array([n * 86_400_000_000 for n in numbers], pa.timestamp("us")),
            "marks": pa.array([[n, None] for n in numbers], pa.list_(pa.int32())),
        }
    )


def evolved(folder: Path, version: str) -> Table:
    """Return a table with rows of three schemas and three specs, some of them copied by deletes."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table(
        "db.t", rows(0, 1).schema, partition_spec=["bucket(2, id)", "kind"], properties={"format-version": version}
    )
    table.append(rows(0, 20))
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("ratio", DoubleType()).update_column("price", DecimalType(20, 2))
        update.rename_column("kind", "sort").add_column("place.z", StringType()).rename_column("place.x", "ex").delete_column("place.y")
        update.add_column("extra", LongType(), doc="more").move_first("extra").update_column("marks.element", LongType())
    with table.update_spec() as update:
        update.add_field("at", "month").rename_field("id_bucket", "shard")
    table.append(
        pa.table(
            {
                "extra": pa.array([5, None], pa.int64()),
                "id": [2**40, 2**40 + 1],
                "sort": ["b", None],
                "price": pa.array([Decimal("12345678901234.50"), None], pa.decimal128(20, 2)),
                "at": pa.array([0, None], pa.timestamp("us")),
            }
        )
    )
    with table.update_spec() as update:
        update.remove_field("kind").add_field("sort", "truncate[1]")
    with table.update_sort_order() as order:
        order.desc("id")
    table.set_properties(owner="me")
    table.delete("id in (3, 4) or sort = 'c' and ratio > 2")
    table.append(pa.table({"id": [100, 101], "sort": ["bb", "cc"], "ratio": [0.1, None], "marks": [[2**50], []]}))
    table.delete("id = 101")
    return table


def icefloe_rows(table: Table, snapshot_id: int | None = None) -> list[str]:
    return comparable(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist())


@VERSIONS
def test_pyiceberg_reads_an_evolved_table_as_icefloe_does(pyiceberg: Callable[..., str], tmp_path: Path, version: str) -> None:
    table = evolved(tmp_path, version)
    filters = [
        "id >= 10",
        "id = 1099511627776",
        "sort = 'a'",
        "extra is null",
        "price < 2.50",
        "ratio = 0.1",
        "at >= '1970-01-05T00:00:00'",
    ]
    printed = pyiceberg(
        """
import json, sys
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=sys.argv[1])
table = catalog.load_table("db.t")
found = {str(snapshot.snapshot_id): table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist() for snapshot in table.snapshots()}
found["now"] = table.scan().to_arrow().to_pylist()
found["schema"] = [str(field) for field in table.schema().fields]
found["spec"] = [[f.field_id, f.source_id, f.name, str(f.transform)] for f in table.spec().fields]
found["last"] = [table.metadata.last_column_id, table.metadata.last_partition_id, table.sort_order().order_id, table.properties["owner"]]
for text in sys.argv[2:]:
    found[text] = sorted(table.scan(row_filter=text).to_arrow()["id"].to_pylist())
print(json.dumps(found, default=str))
""",
        str(tmp_path),
        *filters,
    )
    theirs = json.loads(printed.splitlines()[-1])
    for snapshot in table.snapshots():
        assert comparable(theirs[str(snapshot.snapshot_id)]) == icefloe_rows(table, snapshot.snapshot_id)
    assert comparable(theirs["now"]) == icefloe_rows(table)
    assert theirs["schema"] == [str(field) for field in table.schema().fields]
    assert theirs["spec"] == [[field.field_id, field.source_id, field.name, str(field.transform)] for field in table.spec().fields]
    assert theirs["last"] == [table.metadata.last_column_id, table.metadata.last_partition_id, 1, "me"]
    for text in filters:
        assert sorted(table.scan(text).to_arrow()["id"].to_pylist()) == theirs[text], text


@VERSIONS
def test_duckdb_reads_an_evolved_table_as_icefloe_does(duckdb_rows: Reader, tmp_path: Path, version: str) -> None:
    table = evolved(tmp_path, version)
    assert comparable(duckdb_rows(table.metadata_location)) == icefloe_rows(table)


@VERSIONS
def test_java_reads_an_evolved_table_as_icefloe_does(java_rows: Reader, tmp_path: Path, version: str) -> None:
    table = evolved(tmp_path, version)
    for snapshot in (None, table.snapshots()[0].snapshot_id):
        theirs = java_rows(table.metadata_location, *([snapshot] if snapshot else []))
        assert comparable(theirs) == icefloe_rows(table, snapshot)


CHANGES = """
with table.update_schema() as update:
    update.add_column("note", StringType(), doc="free")
    update.rename_column("kind", "sort")
    update.update_column("id", LongType())
    update.move_first("ratio")
    update.move_after("price", "ratio")
    inner = StructType(NestedField(field_id=2, name="k", field_type=LongType(), required=False))
    update.add_column(("place", "z"), ListType(element_id=1, element=inner, element_required=False))
    update.delete_column(("place", "y"))
with table.update_schema() as update:
    update.union_by_name(pa.schema([("extra", pa.int64()), ("ratio", pa.float64()), ("place", pa.struct([("w", pa.string())]))]))
with table.update_spec() as update:
    update.add_field("id", BucketTransform(16))
    update.add_field("at", DayTransform(), "day")
    update.add_identity("note")
with table.update_spec() as update:
    update.remove_field("id_bucket_16")
    update.rename_field("day", "on")
with table.update_spec() as update:
    update.add_field("id", BucketTransform(16))
with table.update_schema() as update:
    update.rename_column("sort", "kind")
    update.delete_column("extra")
with table.update_sort_order() as update:
    update.asc("id", IdentityTransform(), NullOrder.NULLS_LAST)
    update.desc("at", DayTransform(), NullOrder.NULLS_FIRST)
out = {
    "schemas": [[str(f) for f in s.fields] for s in table.metadata.schemas],
    "specs": [[[f.field_id, f.source_id, f.name, str(f.transform)] for f in s.fields] for s in table.metadata.partition_specs],
    "orders": [[[f.source_id, str(f.transform), f.direction.value, f.null_order.value] for f in o.fields] for o in table.metadata.sort_orders],
    "current": [table.metadata.current_schema_id, table.metadata.default_spec_id, table.metadata.default_sort_order_id],
    "last": [table.metadata.last_column_id, table.metadata.last_partition_id],
}
"""

THEIRS = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType
catalog = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=sys.argv[1])
table = catalog.load_table("db.theirs")
"""


@VERSIONS
def test_the_same_changes_give_the_metadata_that_pyiceberg_makes(pyiceberg: Callable[..., str], tmp_path: Path, version: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    for name in ("db.theirs", "db.ours"):
        catalog.create_table(name, rows(0, 1).schema, partition_spec=["kind"], properties={"format-version": version}).append(rows(0, 9))
    theirs = json.loads(pyiceberg(THEIRS + CHANGES + "print(json.dumps(out))", str(tmp_path)).splitlines()[-1])
    names = "BucketTransform, DayTransform, IdentityTransform, ListType, LongType, NestedField, NullOrder, StringType, StructType"
    room: dict[str, Any] = {"table": catalog.load_table("db.ours")}
    exec(f"import pyarrow as pa\nfrom icefloe import {names}\n{CHANGES}", room)  # noqa: S102  the same text that PyIceberg runs
    assert json.loads(json.dumps(room["out"])) == theirs
    assert icefloe_rows(room["table"]) == icefloe_rows(catalog.load_table("db.theirs"))


# Fields that were removed in version 1 stay as void fields, so that a column may have several; version 2 keeps them, each with its id.
_VOIDS = """
import json, glob
spark.sql("CREATE TABLE j.db.t (id bigint, kind string, at timestamp_ntz) USING iceberg PARTITIONED BY (months(at), kind) TBLPROPERTIES ('format-version'='1')")
for change in (
    "DROP PARTITION FIELD months(at)", "ADD PARTITION FIELD bucket(4, id)", "ADD PARTITION FIELD months(at)", "DROP PARTITION FIELD months(at)",
    "SET TBLPROPERTIES ('format-version'='2')", "DROP PARTITION FIELD kind", "ADD PARTITION FIELD truncate(1, kind)",
    "DROP PARTITION FIELD bucket(4, id)", "ADD PARTITION FIELD kind",
):
    spark.sql("ALTER TABLE j.db.t " + change)
newest = max(glob.glob(sys.argv[1] + "/db/t/metadata/v*.metadata.json"), key=lambda name: int(name.rsplit("/v", 1)[1].split(".")[0]))
print("SPECS " + json.dumps(json.load(open(newest))["partition-specs"]))
"""


def test_void_fields_of_version_1_keep_the_ids_that_java_leaves_them(java_script: Callable[..., str], tmp_path: Path) -> None:
    printed = java_script(_VOIDS, str(tmp_path / "theirs"))
    theirs = json.loads(next(line for line in printed.splitlines() if line.startswith("SPECS ")).removeprefix("SPECS "))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    columns = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("at", pa.timestamp("us"))])
    table = catalog.create_table("db.t", columns, partition_spec=["month(at)", "kind"], properties={"format-version": "1"})
    for change in (
        lambda update: update.remove_field("at_month"),
        lambda update: update.add_field("id", "bucket[4]"),
        lambda update: update.add_field("at", "month"),
        lambda update: update.remove_field("at_month"),
        None,
        lambda update: update.remove_field("kind"),
        lambda update: update.add_field("kind", "truncate[1]"),
        lambda update: update.remove_field("id_bucket_4"),
        lambda update: update.add_field("kind", "identity"),
    ):
        if change is None:
            table.upgrade_table_version(format_version=2)
            continue
        with table.update_spec() as update:
            change(update)
    icefloe_rows = json.loads(Path(table.metadata_location).read_text())["partition-specs"]
    assert icefloe_rows == theirs
    assert [field["field-id"] for field in theirs[-1]["fields"] if field["transform"] == "void"] == [1000, 1003]
    table.append(pa.table({"id": [1, 2], "kind": ["a", "b"], "at": pa.array([0, 10**15], pa.timestamp("us"))}, schema=columns))
    assert table.scan("at > '1990-01-01'", selected_fields=("id", "_partition")).to_arrow()["id"].to_pylist() == [2]


@VERSIONS
def test_java_and_pyiceberg_read_a_table_whose_partition_column_was_dropped(
    java_rows: Reader, pyiceberg: Callable[..., str], tmp_path: Path, version: str
) -> None:
    """DuckDB 1.5 cannot read it: its binder has no type for such a field."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0, 1).schema, partition_spec=["kind"], properties={"format-version": version})
    table.append(rows(0, 9))
    with table.update_spec() as spec:
        spec.remove_field("kind")
    with table.update_schema() as update:
        update.delete_column("kind")
    table.append(rows(9, 12).drop_columns(["kind"]))
    table.delete("id = 3 or id = 10")
    script = "import json, sys\nfrom pyiceberg.table import StaticTable\nfound = StaticTable.from_metadata(sys.argv[1]).scan().to_arrow().to_pylist()\n"
    theirs = json.loads(pyiceberg(script + "print(json.dumps(found, default=str))", table.metadata_location).splitlines()[-1])
    assert comparable(theirs) == comparable(java_rows(table.metadata_location)) == icefloe_rows(table)
    assert len(theirs) == 10


def evolved_v3(folder: Path) -> Table:
    """Return a table of version 3 with columns added with a default, at the top, inside a struct and as lists, and defaults that changed since."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0, 1).schema, partition_spec=["kind"])
    table.append(rows(0, 6))
    with table.transaction() as tx:
        tx.upgrade_table_version(3)
        with tx.update_schema() as update:
            update.add_column("n", LongType(), required=True, default_value=7).add_column("place.z", StringType(), default_value="q")
            update.add_column("exact", DecimalType(9, 2), default_value=Decimal("-1.50")).add_column(
                "day", DateType(), default_value="1969-12-31"
            )
            update.add_column("stamp", TimestamptzType(), default_value="2017-11-16T22:31:08.123456+00:00")
        with tx.update_spec() as spec:
            spec.add_field("n", "bucket[4]").remove_field("kind")
    table.append(rows(6, 9))
    with table.update_schema() as update:
        update.set_default_value("n", 8).set_default_value("exact", None)
    table.append(rows(9, 12))
    return table


def test_java_reads_the_defaults_of_an_evolved_table_as_icefloe_does(java_rows: Reader, tmp_path: Path) -> None:
    table = evolved_v3(tmp_path)
    assert comparable(java_rows(table.metadata_location)) == icefloe_rows(table)


def test_duckdb_reads_the_defaults_of_an_evolved_table_as_icefloe_does(duckdb_rows: Reader, tmp_path: Path) -> None:
    table = evolved_v3(tmp_path)
    assert comparable(duckdb_rows(table.metadata_location)) == icefloe_rows(table)
