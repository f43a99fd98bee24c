"""The functions of a catalog, such as `lake.system.bucket(16, id)`: beside the transforms of `spec`, and as filters that prune."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from tests.combinations import repetitions
from tests.repetitions import ALL
from tests.spark.sql.conftest import append

from icefloe import SqlCatalog, __version__
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.scan.scan_plan import FileCounts
from icefloe.spark.attach_catalog import attach
from icefloe.spark.functions.portable_transforms import PortableTransforms
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.partitioning.transforms import parse_transform
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

pytestmark = pytest.mark.spark

_MOMENTS = (
    "0001-01-01",
    "1582-10-10",
    "1969-12-31T23:59:59.999999",
    "1970-01-01",
    "2017-11-16T22:31:08.000001",
    "2024-02-29T23:00:00",
    "9999-12-31T23:59:59",
)
_UTC = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in _MOMENTS]
_BIG = 10**38 - 1
COLUMNS: dict[str, tuple[PrimitiveType, pa.DataType, list[Any]]] = {
    "i": (IntegerType(), pa.int32(), [-(2**31), -(2**31) + 9, -11, -1, 0, 7, 34, 2**31 - 1]),
    "l": (LongType(), pa.int64(), [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 34, 2**63 - 1]),
    "day": (DateType(), pa.date32(), [one.date() for one in _UTC]),
    "ts": (TimestampType(), pa.timestamp("us"), [one.replace(tzinfo=None) for one in _UTC]),
    "tz": (TimestamptzType(), pa.timestamp("us", "UTC"), _UTC),
    "n": (DecimalType(9, 2), pa.decimal128(9, 2), [Decimal("14.20"), Decimal("-0.01"), Decimal("0.00"), Decimal("-9999998.99"), Decimal("9999999.99")]),
    "w": (DecimalType(38, 10), pa.decimal128(38, 10), [Decimal(f"{one}e-10") for one in (0, 1, -1, -128, 128, 2**64, -(2**64), _BIG, 10**6 - _BIG)]),
    "f": (DecimalType(38, 38), pa.decimal128(38, 38), [Decimal(f"{one}e-38") for one in (0, 7, -7, _BIG)]),
    "s": (StringType(), pa.string(), ["", "a", "iceberg", "naïve", "日本語テキスト", "\U0001f9ca\U0001f30a-floe", "a\U0001f9caé"]),
    "x": (BinaryType(), pa.binary(), [b"", b"\0", b"\0\1\2\3", b"\xff\xfe\x80abc\x7f"]),
}  # fmt: skip
_TIME_NAMES = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
# Calls and the transforms that they are, by column.
CALLS = [
    *((name, f"{call}({name})", transform) for name in ("day", "ts", "tz") for call, transform in _TIME_NAMES.items() if name != "day" or call != "hours"),
    *((name, f"bucket({n}, {name})", f"bucket[{n}]") for name in COLUMNS for n in ((1, 16, 2**31 - 1) if ALL else (16, 2**31 - 1))),
    *((name, f"truncate({n}, {name})", f"truncate[{n}]") for name in ("i", "l", "n", "w", "f", "s", "x") for n in ((1, 3, 10) if ALL else (3,))),
    *((name, f"truncate({n}, {name})", f"truncate[{n}]") for name in ("i", "l") for n in (1000, 2**31 - 1)),
]  # fmt: skip


def _rows() -> pa.Table:
    longest = max(len(values) for _, _, values in COLUMNS.values()) + 1
    return pa.table({name: pa.array([*values, *[None] * (longest - len(values))], kind) for name, (_, kind, values) in COLUMNS.items()})


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlCatalog]:
    """Create the rows as the table `lake.db.t`, and as the view `plain` of Spark alone."""
    folder: Path = tmp_path_factory.mktemp("functions")
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("db")
    lake.create_table("db.t", _rows().schema).append(_rows())
    attach(spark, "lake", lake)
    spark.createDataFrame(_rows()).createOrReplaceTempView("plain")
    yield lake
    for view in ("plain", "days_rows", "shards"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize(
    ("source", "zone"), repetitions([("lake.db.t", "America/Los_Angeles"), ("plain", "UTC")], ("lake.db.t", "America/Los_Angeles"))
)
def test_functions_return_the_values_of_the_transforms(spark: SparkSession, lake: SqlCatalog, source: str, zone: str) -> None:
    """Compute them in tasks by generated code, and for rows that Spark computes while it plans."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = spark.sql(f"SELECT {', '.join(f'lake.system.{call} AS `{call}`' for _, call, _ in CALLS)} FROM {source}").toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = _rows()
    for name, call, text in CALLS:
        kind, transform = COLUMNS[name][0], parse_transform(text)
        expected = transform.apply_array(kind, rows[name])
        assert found[call].combine_chunks().cast(expected.type).equals(expected), call


@pytest.mark.slow
def test_transforms_without_a_jvm_return_the_same_values(spark: SparkSession, lake: SqlCatalog) -> None:
    """Spark Connect sorts and distributes rows by these transforms."""
    calls = {(name, text) for name, _, text in CALLS if not (text.startswith("truncate") and name in ("n", "w", "f"))}
    columns = {
        f"{text} {name}": PortableTransforms().transform(F.col(name), COLUMNS[name][0], parse_transform(text)) for name, text in calls
    }
    found = spark.table("lake.db.t").select(*(column.alias(name) for name, column in columns.items())).toArrow()
    for name, text in calls:
        expected = parse_transform(text).apply_array(COLUMNS[name][0], _rows()[name])
        assert found[f"{text} {name}"].combine_chunks().cast(expected.type).equals(expected), (text, name)


def test_buckets_are_those_of_the_specification(spark: SparkSession, lake: SqlCatalog) -> None:
    """Appendix B; the calls are computed while Spark plans."""
    hashes = {
        "34": 2017239379,
        "34L": 2017239379,
        "CAST(34 AS TINYINT)": 2017239379,
        "14.20BD": -500754589,
        "DATE'2017-11-16'": -653330422,
        "TIMESTAMP_NTZ'2017-11-16 22:31:08'": -2047944441,
        "TIMESTAMP'2017-11-16 14:31:08-08:00'": -2047944441,
        "TIMESTAMP_NTZ'2017-11-16 22:31:08.000001'": -1207196810,
        "'iceberg'": 1210000089,
        "X'00010203'": -188683207,
    }
    found = spark.sql(f"SELECT {', '.join(f'lake.system.bucket(2147483647, {value})' for value in hashes)}").collect()[0]
    assert list(found) == [(one & 0x7FFFFFFF) % 0x7FFFFFFF for one in hashes.values()]
    calls = (
        "lake.bucket(100, 34), lake.system.BUCKET(CAST(16 AS SMALLINT), CAST(null AS INT)), lake.system.truncate(CAST(10 AS TINYINT), -1L)"
    )
    assert tuple(spark.sql(f"SELECT {calls}").collect()[0]) == (79, None, -10)


TYPES = [
    ("years(DATE'1969-05-05')", "int", -1),
    ("months(DATE'1969-12-31')", "int", -1),
    ("days(TIMESTAMP_NTZ'1969-12-31 00:00:01')", "date", date(1969, 12, 31)),
    ("hours(TIMESTAMP_NTZ'1969-12-31 23:59:59')", "int", -1),
    ("bucket(16, 'iceberg')", "int", 9),
    ("truncate(10, CAST(-1 AS TINYINT))", "tinyint", -10),
    ("truncate(100, CAST(-127 AS TINYINT))", "tinyint", 56),  # past the least tinyint, as Java's
    ("truncate(1000, CAST(-32768 AS SMALLINT))", "smallint", 32536),
    ("truncate(10, 12.34BD)", "decimal(4,2)", Decimal("12.30")),
    ("truncate(2, 'iceberg')", "string", "ic"),
    ("truncate(2, X'010203')", "binary", b"\1\2"),
    ("iceberg_version()", "string", f"Icefloe {__version__}"),
]  # fmt: skip


def test_results_have_the_types_of_the_specification(spark: SparkSession, lake: SqlCatalog) -> None:
    frame = spark.sql(f"SELECT {', '.join(f'lake.system.{call} AS `{call}`' for call, _, _ in TYPES)}")
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {call: kind for call, kind, _ in TYPES}
    assert frame.collect()[0].asDict() == {call: value for call, _, value in TYPES}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("bucket(16, 1.5D)", r"bucket\(n, x\) does not support values of type double\s+Next: give one of date, timestamp"),
        ("bucket('a', 1)", r"the first argument of bucket\(n, x\) is of type string\s+Next: give a tinyint, smallint or int"),
        ("bucket(16L, 1)", "is of type bigint"),
        ("bucket(16)", r"bucket\(n, x\) takes 2 arguments, not 1"),
        ("truncate(1, true)", r"truncate\(n, x\) does not support values of type boolean"),
        ("days('2024-01-01')", r"days\(x\) does not support values of type string"),
        ("days(null)", r"days\(x\) does not support values of type void"),
        ("hours(DATE'2024-01-01')", r"hours\(x\) does not support values of type date\s+Next: give one of timestamp, timestamp_ntz"),
        ("days()", r"days\(x\) takes one argument, not 0"),
        ("iceberg_version(1)", r"iceberg_version\(\) takes no arguments, not 1"),
        ("bucket(0, 1)", "bucket: the first argument must be above 0, and it is 0"),
        ("truncate(-3, 'a')", "truncate: the first argument must be above 0, and it is -3"),
        ("decades(1)", r"lake.*decades"),
        ("truncate(10, -9999999.99BD)", "NUMERIC_VALUE_OUT_OF_RANGE"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(spark: SparkSession, lake: SqlCatalog, call: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(f"SELECT lake.system.{call}").collect()


@pytest.mark.slow
def test_functions_are_used_in_every_place_of_an_expression(spark: SparkSession, lake: SqlCatalog) -> None:
    """Grouping, joins, views, inline tables, MERGE, and numbers of buckets that are columns."""
    run = lambda text: [tuple(row) for row in spark.sql(text).collect()]  # noqa: E731
    call = "lake.system.bucket(4, l)"
    assert run(f"SELECT {call} AS k, count(*) FROM lake.db.t GROUP BY {call} ORDER BY k NULLS FIRST")[0] == (None, 3)
    assert run("SELECT * FROM VALUES (lake.system.truncate(10, 17)), (lake.system.truncate(10, -3))") == [(10,), (-10,)]
    joined = "SELECT count(*) FROM lake.db.t a JOIN lake.db.t b ON lake.system.days(a.ts) = lake.system.days(b.tz)"
    assert run(joined) == [(7,)]
    with_columns = "SELECT lake.system.bucket(id, id) < id FROM (SELECT CAST(id AS INT) + 1 AS id FROM range(5))"
    assert run(with_columns) == [(True,)] * 5
    run("CREATE TABLE lake.db.u (id INT, k INT)")
    run("INSERT INTO lake.db.u SELECT i, lake.system.bucket(4, i) FROM lake.db.t WHERE lake.system.truncate(10, i) = 0")
    run(
        "MERGE INTO lake.db.u USING (SELECT 7 AS id) s ON u.k = lake.system.bucket(4, s.id) WHEN MATCHED THEN UPDATE SET k = lake.system.truncate(5, 9)"
    )
    run("UPDATE lake.db.u SET k = lake.system.truncate(5, k + 1) WHERE k <> 5")
    assert sorted(run("FROM lake.db.u")) == [(0, 0), (7, 5)]
    run("DROP TABLE lake.db.u")


def test_the_current_catalog_need_not_be_named(spark: SparkSession, lake: SqlCatalog) -> None:
    """In a catalog that is current, names of its namespaces are enough."""
    session = spark.newSession()
    attach(session, "lake", lake)
    session.sql("USE lake")
    assert session.sql("SELECT bucket(100, 34), system.bucket(100, 34)").collect() == [(79, 79)]
    with pytest.raises(AnalysisException, match="decades"):
        session.sql("SELECT decades(1)")
    assert session.sql("SELECT upper('a')").collect() == [("A",)]


def test_functions_are_listed_and_described(spark: SparkSession, lake: SqlCatalog) -> None:
    run = lambda text: [tuple(row) for row in spark.sql(text).collect()]  # noqa: E731
    names = ["bucket", "days", "hours", "iceberg_version", "months", "truncate", "years"]
    assert run("SHOW FUNCTIONS IN lake.system") == run("SHOW USER FUNCTIONS FROM lake") == [(f"lake.system.{name}",) for name in names]
    assert run("SHOW FUNCTIONS IN lake.system LIKE 'Y*|da*'") == [("lake.system.days",), ("lake.system.years",)]
    assert run("SHOW FUNCTIONS IN lake.db") == []
    assert len(run("SHOW FUNCTIONS LIKE 'upp*'")) == 1
    described = run("DESCRIBE FUNCTION EXTENDED lake.system.bucket")
    assert described == [("Function: lake.system.bucket",), ("Usage: bucket(n, x) - the hash of a value, modulo n",)]
    assert "upper" in str(run("DESCRIBE FUNCTION upper"))


def ids_by_filter(spark: SparkSession, table: str, predicates: Iterable[str]) -> Counter[tuple[str, int | None]]:
    """Return the ids that each filter keeps, in one query for all of them."""
    parts = [f"SELECT '{number}' AS number, id FROM {table} WHERE {predicate}" for number, predicate in enumerate(predicates)]
    return Counter(tuple(row) for row in spark.sql(" UNION ALL ".join(parts)).collect())


# Filters, and the number of files that they leave of eight.
ON_DAYS = {
    "lake.system.days(at) = DATE'2024-01-03'": 1,
    "lake.system.days(at) IN (DATE'2024-01-03', DATE'2024-01-05')": 2,
    "lake.system.hours(at) < 473376": 1,  # before 2024-01-02
    "NOT lake.system.hours(at) >= 473376": 1,
    "lake.system.months(at) = 648": 8,
    "54 > lake.system.years(at)": 0,
    "lake.system.bucket(16, id) = 3": 8,  # the table is not partitioned by it: every file is read
    "lake.system.truncate(4, id) = 4": 4,  # ids in files, by their bounds
    "lake.system.truncate(4, id) <> 4": 4,
}


def test_filters_on_functions_prune_files(spark: SparkSession, lake: SqlCatalog) -> None:
    spark.sql("CREATE TABLE lake.db.days (id INT, at TIMESTAMP) PARTITIONED BY (days(at))")
    rows = [(number, datetime(2024, 1, 1 + number, 12, tzinfo=UTC)) for number in range(8)]
    append(lake, rows, "db.days")
    spark.createDataFrame(rows, "id INT, at TIMESTAMP").createOrReplaceTempView("days_rows")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        for predicate, files in ON_DAYS.items():
            assert len(spark.sql(f"SELECT id FROM lake.db.days WHERE {predicate}").inputFiles()) == files, predicate
        assert ids_by_filter(spark, "lake.db.days", ON_DAYS) == ids_by_filter(spark, "days_rows", ON_DAYS)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


# Filters, and the number of files that they leave of four, and of the one of another spec.
ON_BUCKETS = {
    "lake.system.bucket(4, id) = 2": 1 + 1,
    "2 = lake.system.bucket(4, id) AND id < 1000": 1 + 1,
    "lake.system.bucket(4, id) <=> 2": 1 + 1,
    "lake.system.bucket(4, id) IN (0, 3)": 2 + 1,
    "lake.system.bucket(4, id) = 9": 0 + 1,
    "lake.system.bucket(4, id) = 2 OR id = 5": 5 + 1,
    "NOT lake.system.bucket(4, id) = 2": 5 + 1,
    "lake.system.bucket(8, id) = 2": 5 + 1,
    "lake.system.bucket(4, id) IS NULL": 1,  # the other file has no null
    "lake.system.bucket(4, id) = CAST(null AS INT)": 0,
    "lake.system.bucket(4, id) = 2 AND lake.system.bucket(4, id) = 3": 0 + 1,
}


def test_filters_on_buckets_prune_files_of_other_buckets(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = pa.table({"id": [*range(100), None]})
    table = lake.create_table("db.shards", rows.schema, partition_spec=["bucket(4, id)"])
    table.append(rows)
    with table.update_spec() as update:
        update.remove_field("id_bucket")
    table.append(rows.slice(0, 50))
    spark.createDataFrame(pa.concat_tables([rows, rows.slice(0, 50)])).createOrReplaceTempView("shards")
    for predicate, files in ON_BUCKETS.items():
        assert len(spark.sql(f"SELECT id FROM lake.db.shards WHERE {predicate}").inputFiles()) == files, predicate
    assert ids_by_filter(spark, "lake.db.shards", ON_BUCKETS) == ids_by_filter(spark, "shards", ON_BUCKETS)


def test_filters_on_buckets_prune_delete_files_of_other_buckets(spark: SparkSession, lake: SqlCatalog) -> None:
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    table = lake.create_table("db.marked", pa.schema([("id", pa.int64())]), partition_spec=["bucket(4, id)"], properties=properties)
    table.append(pa.table({"id": range(1000)}))
    spark.sql("DELETE FROM lake.db.marked WHERE id % 3 = 0")
    plan = lake.load_table("db.marked").scan().plan()
    for buckets in ({2}, {0, 3}, {9}, {0, 1, 2, 3}):
        masks = [pc.is_in(part.entries[partition_column(1000)], pa.array(sorted(buckets), pa.int32())).to_numpy() for part in plan.parts]
        chosen = plan.without_partitions(masks)
        rows = [row for task in chosen.tasks() for row in DeleteLoader(lake.load_table("db.marked").io).positions_of(task).bitmap]
        assert len(chosen.delete_files) == chosen.kept.files == len(buckets & {0, 1, 2, 3})
        assert chosen.records_after_deletes == chosen.records_before_deletes - len(rows)
        wanted = f"lake.system.bucket(4, id) IN ({', '.join(map(str, buckets))})"
        assert spark.sql(f"SELECT count(id) FROM lake.db.marked WHERE {wanted}").collect()[0][0] == chosen.records_after_deletes
        left_out = [task.file for task in plan.tasks() if task.file.file_path not in {kept.file.file_path for kept in chosen.tasks()}]
        assert chosen.skipped_by_partition == FileCounts(
            files=len(left_out),
            bytes=sum(file.file_size_in_bytes for file in left_out),
            records=sum(file.record_count for file in left_out),
        )


def test_the_bucket_of_a_uuids_text_prunes_no_file_of_uuids(spark: SparkSession, lake: SqlCatalog) -> None:
    uuids = pa.array([number.to_bytes(16, "big") for number in range(50)], pa.binary(16)).cast(pa.uuid())
    lake.create_table("db.uuids", pa.schema([("u", pa.uuid())]), partition_spec=["bucket(4, u)"]).append(pa.table({"u": uuids}))
    counts = [
        spark.sql(f"SELECT count(u) FROM lake.db.uuids WHERE lake.system.bucket(4, u) = {bucket}").collect()[0][0] for bucket in range(4)
    ]
    by_bucket = dict(spark.sql("SELECT lake.system.bucket(4, u), count(*) FROM lake.db.uuids GROUP BY 1").collect())
    assert counts == [by_bucket.get(bucket, 0) for bucket in range(4)]
    assert sum(counts) == 50


def test_rows_of_a_bucket_are_deleted_and_changed(spark: SparkSession, lake: SqlCatalog) -> None:
    for mode in ("copy-on-write", "merge-on-read") if ALL else ("merge-on-read",):  # the other mode is that of `test_row_level.py`
        spark.sql(
            f"CREATE OR REPLACE TABLE lake.db.changed PARTITIONED BY (bucket(4, id)) TBLPROPERTIES "
            f"('format-version' = '2', 'write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}') AS SELECT id, 0 AS x FROM range(100)"
        )
        spark.sql("UPDATE lake.db.changed SET x = 1 WHERE lake.system.bucket(4, id) = 2")
        spark.sql("DELETE FROM lake.db.changed WHERE lake.system.bucket(4, id) = 1")
        found = spark.sql(
            "SELECT lake.system.bucket(4, id) AS b, min(x), max(x), count(*) FROM lake.db.changed GROUP BY 1 ORDER BY 1"
        ).collect()
        counts = dict(spark.sql("SELECT lake.system.bucket(4, id) AS b, count(*) FROM range(100) GROUP BY 1").collect())
        assert [tuple(row) for row in found] == [(b, int(b == 2), int(b == 2), counts[b]) for b in (0, 2, 3)]


def test_a_join_on_a_function_prunes_files_at_run_time(spark: SparkSession, lake: SqlCatalog) -> None:
    spark.sql("CREATE TABLE lake.db.keyed (i INT, k INT, v INT) PARTITIONED BY (k)")
    append(lake, [(1, 0, 1), (2, 1, 2)], "db.keyed")
    found = "(SELECT * FROM VALUES (1, 11), (4, 14) AS s(i, v)) s ON t.i = s.i AND t.k = lake.system.bucket(1, s.i)"
    assert spark.sql(f"SELECT t.i, s.v FROM lake.db.keyed t JOIN {found} WHERE s.v < 20").collect() == [(1, 11)]
    spark.sql(
        f"MERGE INTO lake.db.keyed t USING {found} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (i, v) VALUES (s.i, s.v)"
    )
    assert sorted(spark.sql("SELECT i, v FROM lake.db.keyed").collect()) == [(1, 11), (2, 2), (4, 14)]
