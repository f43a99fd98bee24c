"""The metadata tables compared with Java's: the columns and every row of all sixteen, of tables that either wrote."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, StaticTable
from icefloe.metadata_tables.changes import changes
from icefloe.metadata_tables.metadata_table_registry import METADATA_TABLES, metadata_table
from icefloe.spec import types

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

JAVA_TABLES = tuple(name for name in METADATA_TABLES if name != "changes")
COLUMNS = """b boolean, i int, l bigint, f float, d double, dt date, ts timestamp, tn timestamp_ntz, s string, bin binary,
 dec decimal(10,2), place struct<lat: double, tags: array<string>>, notes map<string, bigint>""".replace("\n", "")
ROW = """id%2=0, cast(id%50 as int)-25, id*1000000007, cast(id%7 as float)/3, case when id%9=0 then double('NaN') else id/8 end,
 date_add(date'1969-12-20', cast(id%30 as int)), timestamp_micros(id*86400000001), cast(timestamp_micros(id*77) as timestamp_ntz),
 case when id%19=0 then null else concat('str', id%5) end, cast(concat('bin', id) as binary), cast(id%40 as decimal(10,2))-20.55,
 named_struct('lat', id/4, 'tags', array('a', cast(id as string))), map('k', id)"""
# An unpartitioned table with deletes; evolved specs and schemas of versions 1 and 2; vectors, branches and tags.
MAKE = f'''
q = spark.sql
MOR = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
def insert(name, first, count, more="", parts=2):
    q(f"""insert into j.db.{{name}} select {ROW}{{more}} from (select /*+ REPARTITION({{parts}}) */ id from range({{first}}, {{first + count}}))""")
q(f"create table j.db.plain ({COLUMNS}) using iceberg tblproperties('format-version'='2', {{MOR}})")
insert("plain", 0, 60)
q("delete from j.db.plain where i = 3")
insert("plain", 60, 30)
q("update j.db.plain set s = 'changed' where i = 7")
q("alter table j.db.plain set tblproperties('x'='y')")

q(f"""create table j.db.evolved ({COLUMNS}) using iceberg partitioned by (months(ts), truncate(2, s))
      tblproperties('format-version'='2', {{MOR}})""")
insert("evolved", 0, 40)
q("alter table j.db.evolved add column extra string after i")
q("alter table j.db.evolved add partition field bucket(4, l)")
q("alter table j.db.evolved rename column s to text")
q("alter table j.db.evolved alter column i type bigint")
q("alter table j.db.evolved rename column place.lat to latitude")
q(f"""insert into j.db.evolved select b, i, 'more', l, f, d, dt, ts, tn, text, bin, dec, place, notes from j.db.evolved where i < 0""")
q("delete from j.db.evolved where i in (1, -3)")
q("alter table j.db.evolved drop partition field months(ts)")
q("alter table j.db.evolved add partition field bin")
q(f"""insert into j.db.evolved select b, i, null, l, f, d, dt, ts, tn, text, bin, dec, place, notes from j.db.evolved where i = 5""")
first = q("select snapshot_id from j.db.evolved.snapshots order by committed_at limit 1").collect()[0][0]
q(f"call j.system.rollback_to_snapshot('db.evolved', {{first}})")
q(f"""insert into j.db.evolved select b, i, 'again', l, f, d, dt, ts, tn, text, bin, dec, place, notes from j.db.evolved where i > 5""")
q("delete from j.db.evolved where i = 9")
q("call j.system.rewrite_manifests('db.evolved')")

q(f"create table j.db.vectors ({COLUMNS}) using iceberg partitioned by (bucket(3, i), dt) tblproperties('format-version'='3', {{MOR}})")
insert("vectors", 0, 50)
q("delete from j.db.vectors where i = 3")
q("alter table j.db.vectors create tag first retain 7 days")
q("alter table j.db.vectors create branch side retain 5 days with snapshot retention 3 snapshots 2 days")
insert("vectors", 50, 20)
q("insert into j.db.vectors.branch_side select * from j.db.vectors where i < -20")
q("delete from j.db.vectors where i = 3 or i = 4")
q("delete from j.db.vectors where dt = date'1969-12-21'")

q(f"create table j.db.old ({COLUMNS}) using iceberg partitioned by (days(ts), i) tblproperties('format-version'='1')")
insert("old", 0, 10)
q("alter table j.db.old drop partition field i")
insert("old", 10, 10)
q("alter table j.db.old add partition field truncate(3, s)")
insert("old", 20, 10)
q("delete from j.db.old where i = -20")

q(f"create table j.db.dropped ({COLUMNS}) using iceberg partitioned by (dt, truncate(2, s)) tblproperties('format-version'='2')")
insert("dropped", 0, 20)
q("alter table j.db.dropped drop partition field dt")
q("alter table j.db.dropped drop column dt")
q("insert into j.db.dropped select * from j.db.dropped where i < -20")

q("create table j.db.cow (id bigint, kind string, value double) using iceberg partitioned by (kind) tblproperties('format-version'='2')")
q("insert into j.db.cow select id, concat('k', id % 2), id / 2 from range(12)")
q("delete from j.db.cow where id = 3")
q("update j.db.cow set value = -1 where id in (4, 5)")
q("call j.system.rewrite_data_files('db.cow')")
q("insert overwrite j.db.cow values (100, 'k0', 1.0), (101, 'k1', 2.0)")
q("insert into j.db.cow values (102, 'k0', 1.0), (103, 'k1', 2.0)")

q(f"create table j.db.empty ({COLUMNS}) using iceberg partitioned by (dt)")
'''
DUMP = """
import glob, json, os
def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return value if value is None or isinstance(value, (str, bool, int)) else repr(value) if isinstance(value, float) else str(value)
found = {}
files = {path: sorted(glob.glob(path + "/metadata/*.metadata.json"), key=os.path.getmtime)[-1] for path in glob.glob(sys.argv[1] + "/db/*")}
files |= json.load(open(sys.argv[1] + "/ours.json"))
for path, file in files.items():
    for name in NAMES:
        columns, rows = [], []
        try:
            frame = spark.read.format("iceberg").load(file + "#" + name)
            columns = [[field.name, field.dataType.simpleString()] for field in frame.schema.fields]
            # Java cannot read the column `row` of a table that has lists or maps.
            rows = [plain(row.asDict(recursive=True)) for row in frame.drop("row").collect()]
        except Exception as error:
            rows = str(error)[:500]
        found.setdefault(os.path.basename(path), {"file": file, "tables": {}})["tables"][name] = {"columns": columns, "rows": rows}
views = {
    "raw": spark.table("j.db.cow.changes"),
    "without copies": spark.table(q("call j.system.create_changelog_view(table => 'db.cow', changelog_view => 'a')").collect()[0][0]),
    "updates": spark.table(q("call j.system.create_changelog_view(table => 'db.cow', changelog_view => 'b', compute_updates => true, "
                               "identifier_columns => array('id'))").collect()[0][0]),
}
found["cow"]["changes"] = {name: {"columns": view.columns, "rows": [plain(row.asDict()) for row in view.collect()]} for name, view in views.items()}
json.dump(found, open(sys.argv[1] + "/found.json", "w"))
"""
SPARK_NAMES = {
    types.BooleanType: "boolean",
    types.IntegerType: "int",
    types.LongType: "bigint",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.DateType: "date",
    types.TimestampType: "timestamp_ntz",
    types.TimestamptzType: "timestamp",
    types.StringType: "string",
    types.BinaryType: "binary",
    types.FixedType: "binary",
}


def spark_name(kind: types.IcebergType) -> str:
    """Return the type as Spark writes it."""
    if isinstance(kind, types.StructType):
        return f"struct<{','.join(f'{field.name}:{spark_name(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, types.ListType):
        return f"array<{spark_name(kind.element)}>"
    if isinstance(kind, types.MapType):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.value_type)}>"
    if isinstance(kind, types.DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    return SPARK_NAMES[type(kind)]


def plain(value: Any) -> Any:
    """Return a value as the dump of Java's rows has it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return str(value.replace(tzinfo=None))
    return value if value is None or isinstance(value, str | bool | int) else repr(value) if isinstance(value, float) else str(value)


def in_order(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def make_ours(folder: Path) -> dict[str, str]:
    """Make tables with equality deletes, and with the features that Icefloe writes in version 3."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "ours"))
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("time", pa.timestamp("us", "UTC")), ("value", pa.float64())])
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = [{"id": n, "kind": f"k{n % 3}", "time": begin + dt.timedelta(hours=9 * n), "value": float(n)} for n in range(90)]
    found = {}
    for version in (2, 3):
        properties = {"format-version": str(version), "write.delete.mode": "merge-on-read"}
        table = catalog.create_table(f"db.keys{version}", schema, partition_spec=["kind", "hour(time)"], properties=properties)
        table.append(pa.Table.from_pylist(rows[:60], schema=schema))
        table.delete_keys(
            pa.table({"kind": ["k1"], "time": pa.array([rows[4]["time"]], schema.field("time").type), "id": [4]}),
            key_columns=["kind", "time", "id"],
        )
        table.append(pa.Table.from_pylist(rows[60:], schema=schema))
        table.delete("value > 40 and value < 44")
        table.delete_keys(pa.table({"id": [70, 71]}), key_columns=["id"])
        found[f"keys{version}"] = table.metadata_location
    return found


@pytest.fixture(scope="module")
def java(java_script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return Java's columns and rows, by table and metadata table."""
    folder = tmp_path_factory.mktemp("java")
    (folder / "ours.json").write_text(json.dumps(make_ours(folder)))
    java_script(f"NAMES = {JAVA_TABLES!r}\n{MAKE}\n{DUMP}", str(folder))
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.parametrize("table", ["plain", "evolved", "vectors", "old", "empty", "cow", "keys2", "keys3"])
@pytest.mark.parametrize("name", JAVA_TABLES)
def test_columns_and_rows_are_java_s(java: dict[str, Any], table: str, name: str) -> None:
    check(java[table], name)


@pytest.mark.parametrize("name", JAVA_TABLES)
def test_a_table_that_java_cannot_read_is_read(java: dict[str, Any], name: str) -> None:
    """Java has no type for a partition field of an older spec whose column was dropped, and fails."""
    found = java["dropped"]["tables"][name]
    if name.endswith("manifests"):
        # Java returns no bounds; the older schema still has the column.
        for row in found["rows"]:
            for summary in row["partition_summaries"]:
                if summary["lower_bound"] == "null":
                    summary |= {"lower_bound": "1969-12-20", "upper_bound": "1970-01-08"}
    if isinstance(found["rows"], list):
        check(java["dropped"], name)
        return
    assert "Cannot find source column for partition field" in found["rows"]
    ours = metadata_table(StaticTable.from_metadata(java["dropped"]["file"]), name)
    assert not found["columns"] or [[field.name, spark_name(field.field_type)] for field in ours.schema.fields] == found["columns"]
    assert len(ours.to_arrow()) or name == "position_deletes"


# The Java that runs here is 1.10; Java's own Spark tests of 1.11 prove these columns.
COLUMNS_SINCE_1_11 = {"all_manifests": ("key_metadata",)}


def check(table: dict[str, Any], name: str) -> None:
    expected = table["tables"][name]
    ours = metadata_table(StaticTable.from_metadata(table["file"]), name)
    since = COLUMNS_SINCE_1_11.get(name, ())
    fields = [[field.name, spark_name(field.field_type)] for field in ours.schema.fields if field.name not in since]
    assert fields == expected["columns"]
    columns = [column for column in ours.schema.names if column != "row" and column not in since]
    rows = plain(ours.to_arrow(columns=columns).to_pylist(maps_as_pydicts="strict"))
    assert in_order(rows) == in_order(expected["rows"])


@pytest.mark.parametrize(
    ("java_name", "options"),
    [("raw", {}), ("without copies", {"carry_overs": False}), ("updates", {"identifier_columns": ["id"]})],
)
def test_changes_are_java_s(java: dict[str, Any], java_name: str, options: dict[str, Any]) -> None:
    """The table is copy-on-write, since the changes of Java refuse delete files."""
    found = changes(StaticTable.from_metadata(java["cow"]["file"]), **options)
    expected = java["cow"]["changes"][java_name]
    assert found.column_names == expected["columns"]
    assert in_order(plain(found.to_pylist())) == in_order(expected["rows"])
    assert len(expected["rows"]) > 10
