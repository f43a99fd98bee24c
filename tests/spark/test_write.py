"""DataFrames written through a catalog's table, and read back in this process."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.combinations import combinations, repetitions

from icefloe import SqlCatalog
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import EngineError, SchemaMismatchError, StoragePermissionError, UnsupportedFeatureError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.spark_engine import SparkEngine
from icefloe.spark.write.data_file_job import ready_to_write
from icefloe.spark.write.distribution import SourceColumns
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_spec_from_text
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder
from icefloe.spec.partitioning.transforms import BucketTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

pytestmark = pytest.mark.spark

ENGINE = SparkEngine()
UTC = dt.UTC
EVENTS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "kind", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "wall", TimestampType()),
)


def events(spark: SparkSession, count: int = 2000) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr(
        "id",
        "nullif(element_at(array('a', 'b', 'c', 'd'), cast(id % 4 + 1 AS int)), 'd') AS kind",
        "timestamp_micros(-86400000001 * 40 + id * 3600000000) AS at",
        "TIMESTAMP_NTZ'1969-11-20 23:59:59.999999' + make_dt_interval(0, cast(id AS int)) AS wall",
    )


def target(folder: Path, schema: Schema = EVENTS, spec: PartitionSpec = UNPARTITIONED_SPEC, **more: Any) -> WriteTarget:
    location = str(folder / "data")
    return WriteTarget(
        table_name="lake.db.t", schema=schema, data_location=location, io=LocalFileIO(), operation_uuid="0f0f", spec=spec, **more
    )


def stored(files: list[DataFile]) -> pa.Table:
    return pa.concat_tables([pq.read_table(file.file_path, partitioning=None) for file in files])


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_every_type_is_written_and_read_back(spark: SparkSession, lake: SqlCatalog, zone: str) -> None:
    inner = StructType(NestedField(11, "u", UUIDType()), NestedField(12, "f", FixedType(2)), NestedField(13, "n", LongType()))
    schema = Schema(
        NestedField(1, "i", IntegerType()),
        NestedField(2, "l", LongType()),
        NestedField(3, "d", DecimalType(12, 4)),
        NestedField(4, "day", DateType()),
        NestedField(5, "at", TimestamptzType()),
        NestedField(6, "wall", TimestampType()),
        NestedField(7, "u", UUIDType()),
        NestedField(8, "f", FixedType(3)),
        NestedField(9, "s", ListType(element_id=10, element=inner, element_required=False)),
        NestedField(14, "absent", StringType()),
        NestedField(15, "b", BinaryType()),
    )
    table = lake.create_table("db.all", schema)
    key = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.sql(
            f"""SELECT struct.* FROM VALUES
            (named_struct('f', X'616263', 'i', 7Y, 'l', 8, 'd', 1.50BD, 'day', DATE'0001-01-01', 'u', '{key}', 'at', timestamp_micros(1),
              'wall', TIMESTAMP_NTZ'1500-01-02 03:04:05.000006', 'b', X'', 's', array(named_struct('n', 1L, 'f', X'6162', 'u', upper('{key}')), null))),
            (named_struct('f', null, 'i', null, 'l', null, 'd', null, 'day', null, 'u', null, 'at', null, 'wall', null, 'b', null, 's', null)) AS (struct)
            """
        )
        result = table.append(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (result.engine, result.added_records) == ("spark", 2)
    first, second = table.scan().to_arrow().sort_by("i").to_pylist()
    assert first == {
        "i": 7,
        "l": 8,
        "d": Decimal("1.5000"),
        "day": dt.date(1, 1, 1),
        "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        "wall": dt.datetime(1500, 1, 2, 3, 4, 5, 6),
        "u": key,
        "f": b"abc",
        "s": [{"u": key, "f": b"ab", "n": 1}, None],
        "absent": None,
        "b": b"",
    }
    assert set(second.values()) == {None}
    assert [row["u"] for row in table.scan().to_spark().orderBy("i").collect()] == [None, str(key)]


@pytest.mark.parametrize("mode", repetitions([None, "none", "hash", "range"], None, "none", "range"))
def test_each_partition_s_rows_are_in_its_own_files(spark: SparkSession, tmp_path: Path, mode: str | None) -> None:
    spec = partition_spec_from_text(EVENTS, ["kind", "bucket(4, id)", "month(at)"])
    properties = {} if mode is None else {"write.distribution-mode": mode}
    files = ENGINE.write(events(spark), target(tmp_path, spec=spec, properties=properties))
    assert sum(file.record_count for file in files) == 2000
    assert sorted(stored(files)["id"].to_pylist()) == list(range(2000))
    partitions = {file.partition for file in files}
    assert partitions == {(kind, bucket, month) for kind in ("a", "b", "c", None) for bucket in range(4) for month in (-2, -1, 0, 1)}
    for file in files[:5]:
        ids = pq.read_table(file.file_path, partitioning=None)["id"].to_pylist()
        assert {BucketTransform(4).apply(LongType(), number) for number in ids} == {file.partition[1]}
    if mode != "none":
        assert len(files) < 1.5 * len(partitions)  # one file each, except for a partition whose rows are in two tasks


TRANSFORMS = (
    *("year(at)", "month(wall)", "day(at)", "hour(wall)", "hour(at)", "day(wall)", "truncate(7, id)", "truncate(1, kind)"),
    *("bucket(5, id)", "bucket(5, wall)", "bucket(5, at)", "bucket(5, kind)", "kind"),
)


def test_spark_has_one_key_for_each_partition_in_any_time_zone(spark: SparkSession) -> None:
    specs = {text: partition_spec_from_text(EVENTS, [text]) for text in TRANSFORMS}
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        frame = events(spark).union(spark.sql("SELECT -9L, null, null, null"))
        keys = {
            text: SourceColumns(frame, EVENTS).transform(spec.fields[0].source_id, spec.fields[0].transform) for text, spec in specs.items()
        }
        physical = ("id", "kind", F.unix_micros("at").alias("at"), F.expr("cast(wall AS string)").alias("wall"))
        rows = frame.select(*physical, *(key.alias(text) for text, key in keys.items())).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for text, spec in specs.items():
        field = spec.fields[0]
        name, kind = EVENTS.find_column_name(field.source_id), EVENTS.find_type(field.source_id)
        pairs = set()
        for row in rows:
            value = row[name]
            if name == "wall" and value is not None:
                value = (dt.datetime.fromisoformat(value) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
            pairs.add((field.transform.apply(kind, value), row[text]))  # type: ignore[arg-type]
        # One key for each partition, and one partition for each key.
        assert len(pairs) == len({ours for ours, _ in pairs}) == len({sparks for _, sparks in pairs}) > 1, text


DECIMALS = Schema(NestedField(1, "id", LongType()), NestedField(2, "d", DecimalType(18, 4)), NestedField(3, "wide", DecimalType(19, 4)))


@pytest.mark.parametrize(
    ("partition", "mode"), combinations([(), ("d",), ("bucket(4, d)",), ("truncate(1, d)", "id")], ["hash", "none", "range"])
)
def test_decimals_that_spark_holds_as_longs_are_written_exactly(
    spark: SparkSession, tmp_path: Path, partition: tuple[str, ...], mode: str
) -> None:
    values = [None, Decimal(0), *(sign * Decimal(number) / 10000 for number in (1, 255, 10**9, 2**53 + 1, 10**18 - 1) for sign in (1, -1))]
    rows = spark.createDataFrame(list(enumerate(values)), "id bigint, d decimal(18, 4)").withColumn("wide", F.col("d"))
    spec = partition_spec_from_text(DECIMALS, partition) if partition else UNPARTITIONED_SPEC
    files = ENGINE.write(rows.repartition(2), target(tmp_path, DECIMALS, spec, properties={"write.distribution-mode": mode}))
    read = stored(files).sort_by("id")
    assert read["d"].to_pylist() == read["wide"].to_pylist() == values
    narrow = spark.createDataFrame([(1, Decimal("-12.5")), (2, None)], "id bigint, d decimal(5, 2)")
    files = ENGINE.write(narrow, target(tmp_path / "narrow", DECIMALS, spec, properties={"write.distribution-mode": mode}))
    read = stored(files).sort_by("id")
    assert read["d"].to_pylist() == [Decimal("-12.5"), None]


@pytest.mark.parametrize(("partition", "keys"), [(["kind"], 0), (["day(at)", "kind"], 1), (["bucket(3, id)"], 1)])
def test_no_projection_copies_the_rows_between_the_shuffle_and_the_tasks(
    spark: SparkSession, tmp_path: Path, partition: list[str], keys: int
) -> None:
    where = target(tmp_path, spec=partition_spec_from_text(EVENTS, partition))
    ready, _, names = ready_to_write(events(spark), where)
    assert ready._jdf.queryExecution().optimizedPlan().nodeName() == "RebalancePartitions"
    assert (len(ready.columns), names) == (len(EVENTS.fields) + keys, ())


def test_a_column_with_the_name_of_a_shuffle_key_is_written(spark: SparkSession, tmp_path: Path) -> None:
    name = "icefloe partition key 0"
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, name, LongType()))
    rows = spark.range(100).withColumn(name, F.col("id") * 7)
    files = ENGINE.write(rows, target(tmp_path, schema, partition_spec_from_text(schema, ["bucket(3, id)"])))
    read = stored(files).sort_by("id")
    assert read[name].to_pylist() == [7 * number for number in range(100)]
    assert len(files) == 3
    files = ENGINE.write(rows.drop(name), target(tmp_path / "without", schema, partition_spec_from_text(schema, ["bucket(3, id)"])))
    assert set(stored(files)[name].to_pylist()) == {None}


def test_rows_are_sorted_in_the_table_s_order(spark: SparkSession, tmp_path: Path) -> None:
    order = SortOrder(SortField(2, null_order=NullOrder.NULLS_LAST), SortField(1, direction=SortDirection.DESC), order_id=3)
    files = ENGINE.write(events(spark), target(tmp_path, sort_order=order, sort_order_id=3))
    kinds: list[Any] = []
    for file in files:
        assert file.sort_order_id == 3
        table = pq.read_table(file.file_path, partitioning=None)
        found = [(kind is None, kind, -number) for kind, number in zip(table["kind"].to_pylist(), table["id"].to_pylist(), strict=True)]
        assert found == sorted(found, key=lambda key: (key[0], key[1] or "", key[2]))
        kinds += [found[0], found[-1]]
    assert kinds == sorted(kinds, key=lambda key: (key[0], key[1] or "", key[2]))  # by range: files do not overlap


def test_unsorted_files_have_no_sort_order_id(spark: SparkSession, tmp_path: Path) -> None:
    files = ENGINE.write(events(spark, 10), target(tmp_path, sort_order_id=3))
    assert {file.sort_order_id for file in files} == {0}


def test_columns_that_do_not_fit_are_all_named_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).select(
        F.raise_error(F.lit("this ran")).cast("string").alias("kind"),
        F.lit("x").alias("Id"),
        F.lit(1.5).alias("at"),
        F.expr("interval 1 day").alias("wall"),
    )
    with pytest.raises(SchemaMismatchError) as caught:
        ENGINE.write(frame, target(tmp_path))
    assert [(problem.where, problem.what.split(",")[0]) for problem in caught.value.problems] == [
        ("id", "is missing"),
        ("at", "is double in the DataFrame"),
        ("wall", "is interval day in the DataFrame"),
        ("Id", "is not a column of the table; there is 'id'"),
    ]
    assert not (tmp_path / "data").exists()


def test_the_error_for_a_missing_zone_names_the_type_to_cast_to(spark: SparkSession, tmp_path: Path) -> None:
    frame = events(spark, 1).select("id", F.col("wall").alias("at"))
    with pytest.raises(SchemaMismatchError, match="cast it to timestamp"):
        ENGINE.write(frame, target(tmp_path))


@pytest.mark.parametrize(
    ("column", "expression", "message"),
    [
        ("id", "CASE WHEN id = 1500 THEN NULL ELSE id END", "id: has 1 nulls, and is required"),
        *repetitions(
            [
                ("u", "CASE WHEN id = 1500 THEN 'no uuid' ELSE '00000000000000000000000000000000' END", "u: has the value 'no uuid'"),
                ("f", "CASE WHEN id = 1500 THEN X'616263' ELSE X'6162' END", r"f: has a value of 3 bytes, not of fixed\[2\]"),
            ]
        ),
    ],
)
def test_a_value_that_does_not_fit_ends_the_write_with_its_own_error(
    spark: SparkSession, tmp_path: Path, column: str, expression: str, message: str
) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(2)))
    frame = spark.range(0, 2000, 1, 2).withColumn(column, F.expr(expression))
    with pytest.raises(SchemaMismatchError, match=message):
        ENGINE.write(frame, target(tmp_path, schema=schema))


def test_a_failed_write_leaves_no_files_of_the_tasks_that_had_succeeded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More tasks than may run at once, so the first ones have finished when the last meets its null.
    frame = spark.range(0, 4000, 1, 16).withColumn("id", F.expr("nullif(id, 3999)"))
    seen: list[str] = []
    delete = LocalFileIO.delete
    monkeypatch.setattr(LocalFileIO, "delete", lambda io, location: (seen.append(location), delete(io, location))[1])
    with pytest.raises(SchemaMismatchError):
        ENGINE.write(frame, target(tmp_path))
    assert seen
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_failed_append_does_not_change_the_table(spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", EVENTS)
    table.append(events(spark, 10))
    before = table.metadata_location
    with pytest.raises(SchemaMismatchError):
        table.append(events(spark, 10).withColumn("id", F.expr("nullif(id, 7)")))
    assert table.refresh().metadata_location == before
    assert table.scan().to_spark().count() == 10


def test_a_failure_of_the_rows_themselves_is_an_engine_error_with_the_cause(spark: SparkSession, tmp_path: Path) -> None:
    frame = events(spark, 10).withColumn("id", F.expr("CASE WHEN id = 7 THEN raise_error('the seventh') ELSE id END").cast("bigint"))
    with pytest.raises(EngineError, match="the seventh") as caught:
        ENGINE.write(frame, target(tmp_path))
    assert caught.value.__cause__ is not None
    assert len(str(caught.value).splitlines()) < 15


def test_a_storage_error_of_a_task_keeps_its_class_and_message(spark: SparkSession, tmp_path: Path) -> None:
    def refuse(_: Any) -> Any:
        raise StoragePermissionError("the folder is locked", path="/locked", next_step="unlock it")

    with pytest.raises(StoragePermissionError) as caught:
        run_job(spark, "test", lambda: _carried(spark, refuse))
    assert (caught.value.path, caught.value.next_step) == ("/locked", "unlock it")


def _carried(spark: SparkSession, function: Any) -> Any:
    errors = TaskErrors()

    def task(value: Any) -> Any:
        with errors.carry():
            return function(value)

    return spark.sparkContext.parallelize([1], 1).map(task).collect()


def test_a_job_leaves_the_caller_s_job_group_in_place(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my own work")
    try:
        ENGINE.write(events(spark, 10), target(tmp_path))
        assert (context.getLocalProperty("spark.jobGroup.id"), context.getLocalProperty("spark.job.description")) == ("mine", "my own work")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_a_write_without_rows_creates_no_files(spark: SparkSession, tmp_path: Path) -> None:
    assert ENGINE.write(events(spark).where("id < 0"), target(tmp_path, spec=partition_spec_from_text(EVENTS, ["kind"]))) == []


def test_a_table_in_memory_is_refused_since_tasks_cannot_reach_it(spark: SparkSession, tmp_path: Path) -> None:
    elsewhere = WriteTarget(table_name="t", schema=EVENTS, data_location="memory://t/data", io=LocalFileIO(), operation_uuid="0")
    with pytest.raises(UnsupportedFeatureError, match="memory://t/data"):
        ENGINE.write(events(spark, 1), elsewhere)


def test_only_dataframes_are_accepted(spark: SparkSession) -> None:
    assert ENGINE.accepts(spark.range(1))
    assert not ENGINE.accepts(pa.table({}))
    assert "app-id" in ENGINE.environment()


def test_deleted_rows_are_gone_after_files_were_copied_by_tasks(spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", EVENTS, partition_spec=["kind"])
    table.append(events(spark))
    result = table.delete("id >= 100 AND id < 300 OR kind = 'b'")
    assert result.engine == "spark"
    expected = [n for n in range(2000) if not (100 <= n < 300 or n % 4 == 1)]
    assert [row["id"] for row in table.scan().to_spark().orderBy("id").collect()] == expected
    assert table.scan("kind IS NULL").to_spark().count() == sum(n % 4 == 3 for n in expected)


def test_a_read_of_a_table_can_be_written_back_to_it(spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", EVENTS, partition_spec=["bucket(3, kind)"])
    table.append(events(spark, 100))
    table.append(table.scan("id < 10").to_spark())
    assert table.scan().to_spark().count() == 110
