"""Tests that `test_connect.py` runs in a process of its own, because no classic session works in a process that has used Spark Connect.

One server is started for all. Rows are compared with those of the in-process reader, which the other tests of this folder compare with the classic session's.
"""

import decimal
import json
import logging
import os
import socket
import struct
import sys
import traceback
import uuid
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.pandas.types import to_arrow_schema
from tests.spark.comparing import in_order, plain
from tests.spark.merge_on_read import delete_keys, delete_positions

import icefloe.spark
from icefloe import GeometryType, InMemoryCatalog, LongType, NestedField, Schema, SqlCatalog, StringType, UnknownType, UUIDType, VariantType
from icefloe.errors import EngineError, InvalidInputError, NoSuchSnapshotError, SchemaMismatchError, UnsupportedFeatureError
from icefloe.spark.connect.python_data_source import IcefloeSource
from icefloe.spark.connect.task_partitions import IN_UTC
from icefloe.spark.runtime.java_runtime import find_java
from icefloe.table import Table

SECRET = "never-to-be-seen-7311"  # noqa: S105 the opposite of one
UUID_BYTES = 16  # no other column of these tests has as many
VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


@pytest.fixture(scope="session")
def connect() -> Iterator[SparkSession]:
    os.environ.update(JAVA_HOME=str(find_java().home), PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Another server may use Spark's default port, such as the same tests of another working copy.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]  # a builder takes no port for a server of its own
    with warnings.catch_warnings():
        # Spark 4.1 starts the server with the port, sets the port again and warns that it cannot be changed.
        warnings.filterwarnings("ignore", "Failed to set spark.connect.grpc.binding.port", UserWarning)
        started = SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.port", str(port)).getOrCreate()
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()


@pytest.fixture
def lake(tmp_path: Path, connect: SparkSession) -> SqlCatalog:
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), **{"s3.secret-access-key": SECRET}
    )
    catalog.create_namespace("db")
    icefloe.spark.register(connect, lake=catalog)
    return catalog


def rows(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table({"id": ids, "kind": [f"kind {number % 3}" for number in ids], "amount": ids / 4})


def made(lake: SqlCatalog, version: int, spec: list[str], *, files: int = 2, count: int = 60) -> Table:
    table = lake.create_table("db.t", rows(0, 1).schema, partition_spec=spec, properties={"format-version": str(version)})
    for number in range(files):
        table.append(rows(number * count, count))
    return table


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return in_order([{name: plain(value) for name, value in row.asDict(recursive=True).items()} for row in frame.collect()])


def same(
    connect: SparkSession, table: Table, way: str, where: str | None = None, columns: tuple[str, ...] = ("*",), **point: Any
) -> DataFrame:
    """Read by `icefloe.spark.table`, which must use this reader, and in this process, and compare the rows; compare those of the data source too."""
    frame = icefloe.spark.table(connect, table, where=where, columns=columns, **point)
    scan = table.scan(where, selected_fields=columns, branch=point.get("branch"), snapshot_id=point.get("snapshot_id"))
    expected = (scan.use_ref(point["tag"]) if "tag" in point else scan).to_arrow()
    assert icefloe.spark.reading_of(frame).way == way, icefloe.spark.reading_of(frame)
    assert frame.columns == expected.schema.names
    assert_same(rows_of(frame), comparable(expected))
    if way != "data source":
        options = {"where": where, "columns": None if columns == ("*",) else ",".join(columns), "path": table.metadata_location}
        options |= {key.replace("_", "-"): str(value) for key, value in point.items()}
        assert_same(comparable(through_source({key: value for key, value in options.items() if value is not None})), comparable(expected))
    return frame


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    differences = [
        (name, one[name], other[name]) for one, other in zip(found, expected, strict=True) for name in other if one[name] != other[name]
    ]
    assert differences == []


def through_source(options: dict[str, str]) -> pa.Table:
    """Return the rows of the data source, run in this process with the calls that Spark makes."""
    source = IcefloeSource(options)
    schema = source.schema()
    reader = cloudpickle.loads(cloudpickle.dumps(source)).reader(schema)
    sent = cloudpickle.loads(cloudpickle.dumps(reader))
    batches = [batch for partition in reader.partitions() for batch in sent.read(cloudpickle.loads(cloudpickle.dumps(partition)))]
    return pa.Table.from_batches(batches, to_arrow_schema(schema, **IN_UTC))


def comparable(table: pa.Table) -> list[dict[str, Any]]:
    return in_order([{name: as_spark_gives(value) for name, value in row.items()} for row in table.to_pylist()])


def as_spark_gives(value: Any) -> Any:
    """Convert a value to the form of Spark Connect: a uuid as text, an instant as a time in UTC without its zone, a map as a map."""
    if isinstance(value, uuid.UUID) or (isinstance(value, bytes) and len(value) == UUID_BYTES):
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


@pytest.mark.parametrize(("version", "spec"), [(1, []), (2, ["kind"]), (3, ["bucket(4, id)"])])
def test_plain_tables_are_read_by_sparks_parquet_reader(connect: SparkSession, lake: SqlCatalog, version: int, spec: list[str]) -> None:
    table = made(lake, version, spec)
    same(connect, table, "parquet")
    frame = same(connect, table, "parquet", "id > 30 AND kind != 'kind 1'", ("amount", "kind"))
    assert frame.columns == ["kind", "amount"]
    assert rows_of(connect.read.format("icefloe").option("catalog", "lake").option("table", "db.t").load()) == rows_of(
        icefloe.spark.table(connect, "lake.db.t")
    )


def test_a_table_without_rows_is_read(connect: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", rows(0, 1).schema)
    same(connect, table, "parquet")
    table.append(rows(0, 5))
    same(connect, table, "parquet", "id > 100")


@pytest.mark.parametrize("version", [2, 3])
def test_rows_deleted_by_position_are_left_out(connect: SparkSession, lake: SqlCatalog, version: int) -> None:
    table = made(lake, version, [], files=3)
    first, second, _ = [task.file.file_path for task in table.scan().plan_files()]
    delete_positions(table, {first: [0, 5, 7, 30], second: range(10, 20)})
    frame = same(connect, table, "parquet")
    assert frame.count() == 180 - 14
    same(connect, table, "parquet", "id < 40", ("kind",))
    same(connect, table, "data source", None, ("id", "_file", "_pos", "_spec_id"))
    assert icefloe.spark.table(connect, table, columns=["id", "_deleted"]).where("_deleted").count() == 14


def test_deleted_rows_are_found_in_files_of_any_name(connect: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b%3A=é'[x]{y}(1)+,;@&$!~"
    odd = SqlCatalog("odd", uri=f"sqlite:///{tmp_path}/odd.db", warehouse=str(folder))
    odd.create_namespace("db")
    table = odd.create_table("db.t", rows(0, 1).schema, partition_spec=["kind"], properties={"format-version": "2"})
    table.append(pa.table({"id": [1, 2, 3, 4], "kind": ["a/b?*", "c d%", "e:f#", 'ü^|`"<>'], "amount": [1.0] * 4}))
    table.append(pa.table({"id": [11, 12, 13, 14], "kind": ["a/b?*", "c d%", "e:f#", 'ü^|`"<>'], "amount": [1.0] * 4}))
    delete_positions(table, {task.file.file_path: [0] for task in table.scan("id < 10").plan_files()})
    frame = icefloe.spark.table(connect, table)
    assert icefloe.spark.reading_of(frame).way == "parquet"
    assert sorted(row.id for row in frame.collect()) == [11, 12, 13, 14]


def test_files_with_equality_deletes_are_read_through_python(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [])
    delete_keys(table, pa.table({"id": [3, 70]}), ["id"])
    frame = same(connect, table, "data source")
    assert icefloe.spark.reading_of(frame).reason == "rows are deleted by equality"


@pytest.mark.parametrize("version", [2, 3])
def test_evolved_tables_are_read_by_field_id(connect: SparkSession, lake: SqlCatalog, version: int) -> None:
    table = made(lake, version, ["kind"])
    with table.update_schema() as update:
        update.rename_column("amount", "price")
        update.add_column("amount", StringType())
        update.delete_column("id") if version == 3 else update.move_first("price")
    with table.update_spec() as update:
        update.remove_field("kind")
    table.append(pa.table({"kind": ["new"], "price": [0.5], "amount": ["text"]}))
    same(connect, table, "parquet", "kind = 'new' OR (amount IS NULL AND price > 5)", ("price", "amount", "kind"))
    first = table.snapshots()[0].snapshot_id
    assert icefloe.spark.table(connect, table, snapshot_id=first).columns == ["id", "kind", "amount"]
    same(connect, table, "parquet", snapshot_id=first)
    appended = icefloe.spark.table(connect, table, start_snapshot_id=first)
    assert_same(rows_of(appended), comparable(table.incremental_append_scan(from_snapshot_id_exclusive=first).to_arrow()))


def test_nested_fields_are_read_by_field_id_where_a_query_uses_some_of_them(connect: SparkSession, lake: SqlCatalog) -> None:
    inner = pa.struct([("x", pa.int32()), ("a", pa.float64())])
    schema = pa.schema([("id", pa.int64()), ("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    table = lake.create_table("db.nested", schema)
    value = {"x": 1, "a": 2.5}
    table.append(pa.Table.from_pylist([{"id": 1, "s": value, "l": [value], "m": [("k", value)]}], schema))
    with table.update_schema() as update:
        update.rename_column("m", "renamed").rename_column("s.x", "also_renamed")
    frame = icefloe.spark.table(connect, table)
    assert icefloe.spark.reading_of(frame).way == "parquet"
    assert frame.selectExpr("s.a", "s.also_renamed", "l[0].a", "renamed['k'].x").collect() == [(2.5, 1, 2.5, 1)]


@pytest.mark.parametrize(
    ("plugin", "columns", "reason"),
    [
        (
            "org.apache.comet.CometSparkSessionExtensions",
            ("*",),
            "Comet reads the files on Spark's server, and leaves row groups with NaN out by filters on amount",
        ),
        (
            "org.apache.spark.CometPlugin",
            ("*",),
            "Comet reads the files on Spark's server, and leaves row groups with NaN out by filters on amount",
        ),
        ("org.apache.spark.CometPlugin", ("id", "kind"), ""),
        ("org.apache.gluten.GlutenPlugin", ("id", "kind"), "Gluten reads the files on Spark's server, and finds columns by their names"),
    ],
)
def test_files_that_an_accelerator_of_the_server_would_read_wrongly_are_read_through_python(
    connect: SparkSession, lake: SqlCatalog, plugin: str, columns: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake, 2, [], files=1)
    connect.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    if plugin.endswith("Extensions"):  # a server does not let a client change its extensions
        read = type(connect.conf).get
        named = lambda conf, name, *default: plugin if name == "spark.sql.extensions" else read(conf, name, *default)  # noqa: E731
        monkeypatch.setattr(type(connect.conf), "get", named)
    else:
        connect.conf.set("spark.plugins", plugin)  # only named
    try:
        frame = same(connect, table, "data source" if reason else "parquet", columns=columns)
        assert icefloe.spark.reading_of(frame).reason.startswith(reason)
    finally:
        connect.conf.unset("spark.plugins")
        connect.conf.unset("spark.sql.legacy.setCommandRejectsSparkCoreConfs")


def test_columns_that_files_lack_have_their_defaults(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 3, [])
    with table.update_schema() as update:
        update.add_column("more", LongType(), default_value=5)
        update.add_column("word", StringType(), default_value="it's")
    table.append(pa.table({"id": [1000], "more": [6]}))
    same(connect, table, "parquet")
    same(connect, table, "parquet", "more = 5 AND word = 'it''s'", ("id", "word"))


def test_files_that_lack_a_partition_column_are_read_through_python(connect: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    table = made(lake, 2, ["kind"])
    folder = tmp_path / "given" / "kind=x"
    folder.mkdir(parents=True)
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("amount", pa.float64(), metadata={"PARQUET:field_id": "3"}),
    ]
    pq.write_table(pa.table({"id": [7, 8], "amount": [0.5, 0.25]}, schema=pa.schema(fields)), folder / "f.parquet")
    table.add_files(str(folder / "f.parquet"))
    frame = icefloe.spark.table(connect, table)
    assert rows_of(frame) == comparable(table.scan().to_arrow())
    assert "partitioned" in icefloe.spark.reading_of(frame).reason
    assert frame.where("kind = 'x'").count() == 2
    assert icefloe.spark.reading_of(icefloe.spark.table(connect, table, where="kind != 'x'")).way == "parquet"


def test_files_with_unsigned_columns_are_read_through_python(connect: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    table = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    fields = [
        pa.field("id", pa.uint64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
    pq.write_table(pa.table({"id": [7, 2**63 - 1], "name": ["a", "b"]}, schema=pa.schema(fields)), tmp_path / "f.parquet")
    table.add_files(str(tmp_path / "f.parquet"))
    frame = icefloe.spark.table(connect, table)
    assert rows_of(frame) == comparable(table.scan().to_arrow())
    assert icefloe.spark.reading_of(frame).reason == "a file has unsigned integers of 64 bits in id"
    assert icefloe.spark.reading_of(icefloe.spark.table(connect, table, columns=["name"])).way == "parquet"


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_files_of_other_formats_are_read_through_python(connect: SparkSession, lake: SqlCatalog, form: str) -> None:
    table = made(lake, 2, [], files=1)
    table.set_properties({"write.format.default": form})
    table.append(rows(100, 20))
    same(connect, table, "data source", "id > 50")


EVERY_TYPE = {
    "b": (pa.bool_(), True),
    "i": (pa.int32(), 2**31 - 1),
    "l": (pa.int64(), -(2**63)),
    "f": (pa.float32(), float("inf")),
    "d": (pa.float64(), -0.5),
    "m": (pa.decimal128(12, 3), decimal.Decimal("-123456789.125")),
    "day": (pa.date32(), date(1, 1, 1)),
    "ts": (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59, 999999)),
    "tz": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    "s": (pa.string(), "ü\U0001f600"),
    "bin": (pa.binary(), b"\x00\xff"),
    "fx": (pa.binary(3), b"abc"),
    "u": (pa.uuid(), uuid.UUID(int=1)),
    "st": (pa.struct([("x", pa.float64()), ("inner", pa.struct([("y", pa.int32())]))]), {"x": 1.5, "inner": {"y": 3}}),
    "li": (pa.list_(pa.struct([("k", pa.string())])), [{"k": "a"}, None]),
    "ma": (pa.map_(pa.string(), pa.list_(pa.int32())), [("one", [1, None])]),
}


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_is_read_and_written(connect: SparkSession, lake: SqlCatalog, version: int) -> None:
    data = pa.table({name: pa.array([_cell(value), None], kind) for name, (kind, value) in EVERY_TYPE.items()})
    table = lake.create_table("db.t", data.schema, properties={"format-version": str(version)})
    table.append(data)
    same(connect, table, "data source")
    same(connect, table, "parquet", columns=tuple(name for name in EVERY_TYPE if name != "u"))
    # Write the rows back by both writers.
    table.append(icefloe.spark.table(connect, table, where="b"))
    icefloe.spark.table(connect, table, where="b").limit(1).write.format("icefloe").mode("append").save("lake.db.t")
    table.refresh()
    found = table.scan("b").to_arrow().to_pylist()
    assert len(found) == 3
    assert found[0] == found[1] == found[2]


def _cell(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


@pytest.mark.skipif(VERSION < (4, 1), reason="Spark has times of day from 4.1 on")
def test_times_of_day_are_read(connect: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", pa.schema([("t", pa.time64("us"))]))
    table.append(pa.table({"t": pa.array([time(1, 2, 3, 4), None], pa.time64("us"))}))
    frame = icefloe.spark.table(connect, table)
    assert icefloe.spark.reading_of(frame).way == "data source"
    # By default servers do not send times of day to their clients.
    assert rows_of(frame.select(F.col("t").cast("string"))) == in_order([{"t": "01:02:03.000004"}, {"t": None}])


def test_variants_and_shapes_are_read(connect: SparkSession, lake: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "v", VariantType()),
        NestedField(3, "g", GeometryType()),
        NestedField(4, "n", UnknownType()),
    )
    table = lake.create_table("db.t", schema, properties={"format-version": "3"})
    point = struct.pack("<BIdd", 1, 1, 3.0, 4.0)
    variant = pa.array(
        [{"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}, None],
        pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]),
    )
    table.append(pa.table({"id": [1, 2], "v": variant, "g": pa.array([point, None], pa.binary())}))
    frame = same(connect, table, "data source")
    assert frame.select(F.expr("v::int")).where("id = 1").collect()[0][0] == 5
    for columns in (("id",), ("id", "v")):
        same(connect, table, "parquet" if connect.version >= "4.1" else "data source", columns=columns)


def test_a_snapshot_a_branch_a_tag_and_a_time_are_read(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=1)
    first = table.snapshots()[0]
    table.manage_snapshots().create_branch(branch_name="audit").create_tag(snapshot_id=first.snapshot_id, tag_name="v1").commit()
    table.append(rows(500, 3))
    table.append(rows(900, 2), branch="audit")
    for point in ({"snapshot_id": first.snapshot_id}, {"branch": "audit"}, {"tag": "v1"}):
        same(connect, table, "parquet", **point)
    assert icefloe.spark.table(connect, table, as_of_timestamp=first.timestamp_ms).count() == 60
    assert (
        icefloe.spark.table(connect, table, as_of_timestamp=datetime.fromtimestamp(first.timestamp_ms / 1000 + 0.0005, UTC)).count() == 60
    )
    assert connect.read.format("icefloe").option("as-of-timestamp", str(first.timestamp_ms)).load("lake.db.t").count() == 60
    with pytest.raises(NoSuchSnapshotError, match="nowhere"):
        icefloe.spark.table(connect, table, branch="nowhere")
    with pytest.raises(InvalidInputError, match="more than one"):
        icefloe.spark.table(connect, table, branch="audit", tag="v1")


def test_a_frame_keeps_the_snapshot_that_was_current_at_its_creation(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=1)
    frames = [icefloe.spark.table(connect, table), connect.read.format("icefloe").load("lake.db.t")]
    assert [frame.columns for frame in frames] == [["id", "kind", "amount"]] * 2
    table.append(rows(500, 3))
    with table.update_schema() as update:
        update.rename_column("amount", "price")
    assert [frame.count() for frame in frames[:1]] == [60]


def test_filters_of_spark_prune_files_of_the_data_source(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=3)
    for task in table.scan("id < 120").plan_files():
        Path(task.file.file_path).unlink()
    source = connect.read.format("icefloe").load("lake.db.t")
    if VERSION < (4, 1):
        pytest.skip("Spark 4.0 pushes no filters down")
    for test, count in (("id >= 120", 60), ("id > 130 AND kind = 'kind 0'", 16), ("id IN (125, 130, 500)", 2), ("id >= 120 AND amount IS NOT NULL", 60),
                        ("id >= 120 AND kind LIKE 'kind 1%'", 20), ("id >= 120 AND NOT kind = 'kind 1'", 40), ("id >= 120 AND length(kind) = 6", 60),
                        ("id >= 120 AND (kind = 'kind 1' OR amount < 31)", 23)):  # fmt: skip
        assert source.where(test).count() == count, test


def test_a_secret_of_the_catalog_is_in_no_plan(connect: SparkSession, lake: SqlCatalog, capsys: pytest.CaptureFixture[str]) -> None:
    table = made(lake, 2, [])
    delete_keys(table, pa.table({"id": [3]}), ["id"])
    for frame in (icefloe.spark.table(connect, table), connect.read.format("icefloe").load("lake.db.t")):
        frame.where("id > 4").explain(True)
        shown = capsys.readouterr().out + repr(frame) + str(frame._plan.to_proto(connect._client))
        assert "id" in shown
        assert SECRET not in shown
    with pytest.raises(UnsupportedFeatureError, match="this process"):
        icefloe.spark.register(connect, here=InMemoryCatalog("here"))


def test_a_frame_is_appended_by_its_table(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, ["bucket(4, id)"], files=1)
    frame = connect.range(1000, 1050).select("id", F.lit("k").alias("kind"), (F.col("id") / 2).alias("amount"))
    result = table.append(frame, snapshot_properties={"who": "me"})
    assert (result.engine, result.added_records) == ("spark", 50)
    assert table.scan("id >= 1000").count() == 50
    assert table.current_snapshot().summary["who"] == "me"
    table.overwrite(frame.where("id < 1010"), "id >= 1000")
    assert table.scan("id >= 1000").count() == 10
    with table.transaction() as transaction:
        transaction.delete("id < 30")
        transaction.append(frame.where("id = 1049"))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [*range(30, 60), *range(1000, 1010), 1049]
    same(connect, table, "parquet")


def test_a_write_is_staged_by_the_setting_of_the_session(connect: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.staged", pa.schema([("id", pa.int64())]), properties={"write.wap.enabled": "true"})
    connect.conf.set("spark.wap.id", "w1")
    try:
        table.append(connect.range(3))
    finally:
        connect.conf.unset("spark.wap.id")
    assert table.scan().count() == 0
    assert [snapshot.summary.get("wap.id") for snapshot in table.snapshots()] == ["w1"]


def test_a_failed_append_leaves_no_file(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=1)
    before = files_under(table)
    with pytest.raises(SchemaMismatchError, match="does not fit"):
        table.append(connect.range(3).select(F.col("id").cast("string")))
    failing = connect.range(0, 40, 1, 4).select("id", F.expr("if(id = 39, raise_error('on purpose'), 'k')").alias("kind"))
    with pytest.raises(EngineError, match="on purpose"):
        table.append(failing)
    with pytest.raises(PySparkException, match="on purpose"):
        failing.write.format("icefloe").mode("append").save("lake.db.t")
    assert files_under(table) == before
    assert table.refresh().scan().count() == 60


def test_the_data_source_appends_and_overwrites(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, ["kind"], files=1)
    table.manage_snapshots().create_branch(branch_name="audit").commit()
    frame = connect.range(1000, 1004).select("id", F.lit("kind 1").alias("kind"), F.col("id").cast("double").alias("amount"))
    writer = frame.write.format("icefloe").option("catalog", "lake").option("table", "db.t")
    writer.mode("append").option("snapshot-property.Who", "me").save()
    assert table.refresh().scan().count() == 64
    assert table.current_snapshot().summary["Who" if "Who" in table.current_snapshot().summary else "who"] == "me"
    frame.write.format("icefloe").option("branch", "audit").mode("append").save("lake.db.t")
    assert (table.refresh().scan().count(), table.scan(branch="audit").count()) == (64, 64)
    frame.write.format("icefloe").option("overwrite-mode", "dynamic").mode("overwrite").save("lake.db.t")
    assert table.refresh().scan().count() == 40 + 4
    frame.write.format("icefloe").option("where", "kind = 'kind 0'").mode("overwrite").save("lake.db.t")
    assert table.refresh().scan().count() == 20 + 4 + 4
    frame.limit(1).write.format("icefloe").mode("overwrite").save("lake.db.t")
    assert table.refresh().scan().count() == 1
    assert table.current_snapshot().summary["engine-name"] == "spark"


def test_wrong_options_are_refused_by_name(connect: SparkSession, lake: SqlCatalog) -> None:
    made(lake, 2, [], files=1)
    with pytest.raises(PySparkException, match="write 'snapshot-id'"):
        connect.read.format("icefloe").option("snapshot_id", "1").load("lake.db.t").collect()


def test_wrong_writes_are_refused_and_leave_nothing(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=1)
    before = files_under(table)
    frame = connect.range(3).select("id")
    for options, path, words in (
        ({"branch": "nowhere"}, "lake.db.t", "nowhere"),
        ({"tag": "x"}, "lake.db.t", "a write does not have the option tag"),
        ({"where": "id = 1"}, "lake.db.t", "a write does not have the option where"),
        ({}, table.metadata_location, "needs its catalog"),
    ):
        with pytest.raises(PySparkException, match=words):
            frame.write.format("icefloe").options(**options).mode("append").save(path)
    with pytest.raises(PySparkException, match="does not fit"):
        frame.select(F.lit("x").alias("id")).write.format("icefloe").mode("append").save("lake.db.t")
    assert files_under(table) == before


def test_a_frame_is_upserted(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, ["bucket(4, id)"], files=1, count=10)
    frame = connect.range(5, 15).select("id", F.lit("new").alias("kind"), F.lit(7.5).alias("amount"))
    result = table.upsert(frame, join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted, result.rows_unchanged) == (5, 5, 0)
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(15))
    assert [row["kind"] == "new" for row in found] == [row["id"] >= 5 for row in found]
    with pytest.raises(InvalidInputError, match="more than once"):
        table.upsert(frame.union(frame), join_cols=["id"])
    with pytest.raises(SchemaMismatchError):
        table.upsert(frame.select("id"), join_cols=["id"])


def test_what_needs_a_jvm_is_refused_with_what_works(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=1)
    frame = connect.range(3).select("id", F.lit("x").alias("kind"), F.lit(0.5).alias("amount"))
    for call in (
        lambda: icefloe.spark.attach(connect, "lake", lake),
        icefloe.spark.session,
        lambda: icefloe.spark.session(catalogs={"lake": lake}),
        lambda: table.scan().to_spark(),
    ):
        with pytest.raises(
            EngineError, match=r"(?s)Spark Connect.*Next: read with icefloe\.spark\.table\(spark, \.\.\.\), and write with table\.append"
        ):
            call()
    for call in (lambda: table.update({"kind": "'y'"}), lambda: table.merge(frame, on="t.id = s.id")):
        with pytest.raises(UnsupportedFeatureError, match=r"(?s)Spark Connect.*Next: .*or begin a new Python process") as refused:
            call()
        assert "start one with" not in str(refused.value)


def test_a_server_without_the_catalogs_database_creates_none(connect: SparkSession, tmp_path: Path) -> None:
    catalog = SqlCatalog("gone", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    icefloe.spark.register(connect, gone=catalog)
    catalog.close()
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(PySparkException, match="there is no database file"):
        connect.read.format("icefloe").load("gone.db.t").collect()
    assert list(tmp_path.glob("catalog.db*")) == []


def test_errors_of_tasks_are_shown_without_their_packed_form(connect: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.required", Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "u", UUIDType())))
    null = connect.sql("SELECT IF(id = 1, NULL, id) AS id, uuid() AS u FROM range(3)")
    with pytest.raises(SchemaMismatchError) as caught:
        table.append(null)
    assert "icefloe-error" not in "".join(traceback.format_exception(caught.value))
    table.append(pa.table({"id": [1], "u": [uuid.uuid4().bytes]}, schema=table.schema().as_arrow()))
    frame = icefloe.spark.table(connect, table)
    assert icefloe.spark.reading_of(frame).way == "data source"
    for task in table.scan().plan_files():
        Path(task.file.file_path.removeprefix("file:")).unlink()
    with pytest.raises(PySparkException, match=r"(?s)there is no file.*Spark's workers do not see the file") as lost:
        frame.collect()
    assert "icefloe-error" not in "".join(traceback.format_exception(lost.value))
    with pytest.raises(EngineError) as missing:
        table.append(
            connect.range(1).select(
                F.raise_error(F.lit("icefloe-error[abc")).cast("bigint").alias("id"), F.lit(None).cast("string").alias("u")
            )
        )
    assert "icefloe-error" not in "".join(traceback.format_exception(missing.value))


def test_the_reader_of_a_frame_is_logged(connect: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    table = made(lake, 2, [], files=1)
    with caplog.at_level(logging.INFO, "icefloe.spark.connect.connect_table"):
        frame = icefloe.spark.table(connect, table)
    assert [record.getMessage() for record in caplog.records] == ["lake.db.t is read by parquet"]
    with pytest.raises(InvalidInputError, match="does not come from"):
        icefloe.spark.reading_of(frame.where("id = 1"))


def test_a_catalog_of_the_servers_own_configuration_is_found(connect: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2, [], files=1)
    options = {"catalog": "other", "table": "db.t", "uri": str(lake.properties["uri"]), "warehouse": str(lake.properties["warehouse"])}
    # A database may have several catalogs, which differ in their names.
    with pytest.raises(PySparkException, match="other"):
        connect.read.format("icefloe").options(**options).load().collect()
    named = SqlCatalog("other", **lake.properties)
    named.create_namespace("db")
    named.register_table("db.t", table.metadata_location)
    assert connect.read.format("icefloe").options(**options).load().count() == 60


def run_stream(frame: DataFrame, name: str, checkpoint: Path, mode: str = "append", **options: str) -> list[int]:
    """Write what a stream has now to a table, and return the number of rows of each epoch that has any."""
    writer = frame.writeStream.format("icefloe").outputMode(mode).option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).start(name)
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def lose_commit_log(checkpoint: Path, epoch: int) -> None:
    """Leave the checkpoint as it is if the server is killed between the commit of the table and Spark's record of it."""
    (checkpoint / "commits" / str(epoch)).unlink()
    (checkpoint / "commits" / f".{epoch}.crc").unlink(missing_ok=True)


@pytest.mark.skipif(VERSION < (4, 1), reason="Spark passes the rows of a stream as Arrow since 4.1")
def test_a_table_is_copied_by_a_stream_with_every_row_once(connect: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    table = made(lake, 2, ["kind"], files=1)
    copy = lake.create_table("db.copy", table.schema())
    checkpoint, has_limits = tmp_path / "checkpoint", VERSION >= (4, 2)
    options = {"streaming-max-files-per-micro-batch": "2"} if has_limits else {}

    def copied() -> list[int]:
        return run_stream(connect.readStream.format("icefloe").options(**options).load("lake.db.t"), "lake.db.copy", checkpoint)

    assert copied() == ([40, 20] if has_limits else [60])
    table.delete("id < 5")
    table.append(rows(100, 3))
    options["streaming-skip-delete-snapshots"] = "true"
    options["streaming-skip-overwrite-snapshots"] = "true"
    last = 1 if has_limits else 0
    lose_commit_log(checkpoint, last)
    again = copied()
    if not has_limits:  # before Spark 4.2 a run of what is available is one batch, here the last one again
        assert again == [60]
        again += copied()
    assert again[1:] == ([2, 1] if has_limits else [3])
    assert copied() == []
    assert sorted(copy.refresh().scan().to_arrow()["id"].to_pylist()) == [*range(60), 100, 101, 102]
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    assert {snapshot.summary["spark.sql.streaming.queryId"] for snapshot in copy.snapshots()} == {query_id}
    assert json.loads(copy.properties[f"icefloe.stream.{query_id}"])["epoch"] == len(list((checkpoint / "commits").glob("[0-9]*"))) - 1
    assert SECRET not in "".join(path.read_text() for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc")


@pytest.mark.skipif(VERSION < (4, 1), reason="Spark passes the rows of a stream as Arrow since 4.1")
def test_a_stream_replaces_the_rows_of_a_table_and_errors_have_the_next_step(
    connect: SparkSession, lake: SqlCatalog, tmp_path: Path
) -> None:
    table = made(lake, 2, [], files=1)
    lake.create_table("db.counts", pa.schema([("kind", pa.string()), ("count", pa.int64())])).append(
        pa.table({"kind": ["z"], "count": [0]})
    )
    stream = connect.readStream.format("icefloe").option("columns", "kind").load("lake.db.t")
    for _ in range(2):
        run_stream(stream.groupBy("kind").count(), "lake.db.counts", tmp_path / "counts", "complete")
        table.append(rows(0, 3))
    counts = lake.load_table("db.counts").scan().to_arrow().to_pylist()
    assert sorted((row["kind"], row["count"]) for row in counts) == [("kind 0", 21), ("kind 1", 21), ("kind 2", 21)]
    with pytest.raises(PySparkException, match=r"(?i)update"):
        run_stream(stream.groupBy("kind").count(), "lake.db.counts", tmp_path / "update", "update")
    wrong = connect.readStream.format("icefloe").option("streaming-max-file-per-micro-batch", "1").load("lake.db.t")
    with pytest.raises(PySparkException, match="write 'streaming-max-files-per-micro-batch'"):
        run_stream(wrong, "lake.db.counts", tmp_path / "wrong")
    with pytest.raises(PySparkException, match=r"(?s)does not fit the table.*amount"):
        run_stream(connect.readStream.format("icefloe").load("lake.db.t"), "lake.db.counts", tmp_path / "unfit")


def files_under(table: Table) -> list[str]:
    return sorted(str(path) for path in Path(table.location()).rglob("*") if path.is_file())
