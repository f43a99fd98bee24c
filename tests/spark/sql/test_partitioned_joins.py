"""Storage-partitioned joins: scans that report their partitions, so that joins by partition fields need no shuffle."""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from tests.combinations import combinations, repetitions
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions
from tests.spark.sql.conftest import Run, append

from icefloe import LongType, SqlCatalog
from icefloe.spark.bridge.callback import PythonCallback
from icefloe.spark.bridge.gateway import java_array, java_class
from icefloe.table import Table

pytestmark = pytest.mark.spark

SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
}
BUCKETING = "spark.sql.sources.v2.bucketing."
SHUFFLES_ONE_SIDE = f"{BUCKETING}shuffle.enabled"
PARTIALLY_CLUSTERED = f"{BUCKETING}partiallyClusteredDistribution.enabled"
COMPATIBLE = {f"{BUCKETING}pushPartValues.enabled": "true", f"{BUCKETING}allowCompatibleTransforms.enabled": "true"}
KEYS_A_SUBSET = {f"{BUCKETING}pushPartValues.enabled": "true", f"{BUCKETING}allowJoinKeysSubsetOfPartitionKeys.enabled": "true"}
JOIN = "SELECT l.id, l.name, r.name FROM lake.db.left l JOIN lake.db.right r ON l.id = r.id WHERE l.id % 7 = 0"


@pytest.fixture
def joined_by_storage(spark: SparkSession) -> Iterator[None]:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in (*SETTINGS, SHUFFLES_ONE_SIDE, PARTIALLY_CLUSTERED, *COMPATIBLE, *KEYS_A_SUBSET):
        spark.conf.unset(name)


@pytest.fixture
def planned_at_once(spark: SparkSession) -> Iterator[None]:
    """A session whose plans have their scans in them, where adaptive execution would hide them."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


def exchanges(sql: Run, text: str) -> int:
    """Return the number of shuffles by hash in a query's plan."""
    return str(sql(f"EXPLAIN {text}")[0][0]).count("hashpartitioning")


def exchanges_and_rows(spark: SparkSession, text: str) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the number of shuffles by hash in a query's plan, and its rows, sorted."""
    frame = spark.sql(text)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return plan.count("hashpartitioning"), sorted((tuple(row) for row in frame.collect()), key=repr)


def make(lake: SqlCatalog, name: str, columns: Mapping[str, Any], partition: str = "") -> None:
    """Create and fill a table in this process."""
    rows = pa.table(columns)
    lake.create_table(f"db.{name}", rows.schema, partition_spec=re.split(r", (?![^(]*\))", partition) if partition else ()).append(rows)


def tables(lake: SqlCatalog, partition: str) -> tuple[Table, Table]:
    """Create and fill two tables of one partitioning."""
    for name, step in (("left", 1), ("right", 2)):
        ids = range(0, 1000, step)
        days = [date(2024, 1, 1 + number % 4) for number in ids]
        make(lake, name, {"id": pa.array(ids, pa.int64()), "day": days, "name": [f"{name} {number}" for number in ids]}, partition)
    return lake.load_table("db.left"), lake.load_table("db.right")


def expected() -> list[tuple[Any, ...]]:
    return [(number, f"left {number}", f"right {number}") for number in range(0, 1000, 14)]


@pytest.mark.usefixtures("joined_by_storage")
def test_tables_by_the_same_buckets_are_joined_without_a_shuffle(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    tables(lake, "bucket(4, id)")
    assert exchanges_and_rows(spark, JOIN) == (0, sorted(expected(), key=repr))
    spark.conf.set("spark.sql.iceberg.planning.preserve-data-grouping", "false")
    assert exchanges_and_rows(spark, JOIN) == (2, sorted(expected(), key=repr))


@pytest.mark.slow
@pytest.mark.usefixtures("joined_by_storage")
def test_partially_clustered_partitions_are_joined_without_a_shuffle(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, _ = tables(lake, "bucket(4, id)")
    left.append(pa.table({"id": pa.array([5000], pa.int64()), "day": [date(2024, 1, 1)], "name": ["more"]}))
    spark.conf.set(PARTIALLY_CLUSTERED, "true")
    assert exchanges_and_rows(spark, JOIN) == (0, sorted(expected(), key=repr))


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("partition", repetitions(["day", "days(day)", "months(day)", "day, bucket(4, id)"], "day, bucket(4, id)"))
def test_tables_by_values_and_times_are_joined_without_a_shuffle(spark: SparkSession, sql: Run, lake: SqlCatalog, partition: str) -> None:
    tables(lake, partition)
    text = "SELECT l.name, l.day, r.id FROM lake.db.left l JOIN lake.db.right r ON l.day = r.day AND l.id = r.id WHERE l.id % 7 = 0"
    expected = [(f"left {number}", date(2024, 1, 1 + number % 4), number) for number in range(0, 1000, 14)]
    assert exchanges_and_rows(spark, text) == (0, sorted(expected, key=repr))


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("partition", repetitions(["bucket(4, id)", "days(day)", "day, bucket(4, id)"], "days(day)"))
def test_a_side_with_other_partitions_is_shuffled_by_those_of_the_other(
    spark: SparkSession, sql: Run, lake: SqlCatalog, partition: str
) -> None:
    _, right = tables(lake, partition)
    lake.create_table("db.whole", right.schema()).append(right.scan().to_arrow())
    spark.conf.set(SHUFFLES_ONE_SIDE, "true")
    text = "SELECT l.id, l.name, r.name FROM lake.db.left l JOIN lake.db.whole r ON l.id = r.id AND l.day = r.day WHERE l.id % 7 = 0"
    assert sorted(sql(text)) == expected()


@pytest.mark.slow
@pytest.mark.usefixtures("joined_by_storage")
def test_other_buckets_deletes_and_single_tables_are_read_as_before(sql: Run, lake: SqlCatalog) -> None:
    left, right = tables(lake, "bucket(4, id)")
    right.update_spec().remove_field("id_bucket").add_field("id", "bucket[8]", "id_bucket_8").commit()
    assert sorted(sql(JOIN)) == expected()
    left.delete("id = 14")
    assert sorted(sql(JOIN)) == [row for row in expected() if row[0] != 14]
    assert sql("SELECT count(*), min(name) FROM lake.db.left WHERE day = DATE'2024-01-02'") == [(250, "left 1")]


@pytest.mark.usefixtures("joined_by_storage")
def test_a_null_key_and_an_aggregate_by_the_key(sql: Run, lake: SqlCatalog) -> None:
    left, _ = tables(lake, "bucket(4, id)")
    left.append(pa.table({"id": pa.array([None], pa.int64()), "day": [date(2024, 1, 1)], "name": ["none"]}))
    assert sorted(sql(JOIN)) == expected()
    assert sql("SELECT count(*) FROM (SELECT id, count(*) FROM lake.db.left GROUP BY id)") == [(1001,)]


@pytest.mark.usefixtures("joined_by_storage")
def test_columns_are_found_by_id_where_the_session_reads_by_name(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    tables(lake, "bucket(4, id)")
    sql("ALTER TABLE lake.db.left DROP COLUMN name")
    sql("ALTER TABLE lake.db.left ADD COLUMN name STRING")
    sql("ALTER TABLE lake.db.right RENAME COLUMN name TO old")
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    try:
        text = JOIN.replace("r.name", "r.old")
        assert exchanges_and_rows(spark, text) == (0, sorted(((number, None, name) for number, _, name in expected()), key=repr))
    finally:
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")


@pytest.mark.usefixtures("joined_by_storage")
def test_zeros_of_both_signs_are_joined_across_their_partitions(sql: Run, lake: SqlCatalog) -> None:
    for name, zero in (("left", 0.0), ("right", -0.0)):
        sql(f"CREATE TABLE lake.db.{name} (x DOUBLE) USING iceberg PARTITIONED BY (x)")
        lake.load_table(f"db.{name}").append(pa.table({"x": [zero, 1.0]}))
    assert sql("SELECT count(*) FROM lake.db.left l JOIN lake.db.right r ON l.x = r.x") == [(2,)]


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("size", repetitions(["0", "-1"], "0"))
def test_a_split_size_by_which_a_file_would_have_splits_without_end_is_refused(
    spark: SparkSession, sql: Run, lake: SqlCatalog, size: str
) -> None:
    tables(lake, "bucket(4, id)")
    assert exchanges(sql, JOIN) == 0
    spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    try:
        with pytest.raises(IllegalArgumentException, match=r"maxPartitionBytes is \S+ bytes, and a split of a file has at least 1"):
            sql(JOIN)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


DELETES = ["none", "positions", "vectors", "few keys", "pairs of keys", "positions and keys", "one file"]


def with_deletes(table: Table, kind: str) -> None:
    """Delete rows in a way; ids that are multiples of 5 or 7."""
    files = [task.file for task in table.scan().plan_files()]
    if kind in ("positions", "vectors", "positions and keys", "one file"):
        rows = table.scan().select("id", "_file", "_pos").to_arrow().to_pylist()
        chosen = files[:1] if kind == "one file" else files
        positions = {
            file.file_path: [row["_pos"] for row in rows if row["_file"] == file.file_path and row["id"] % 5 == 0] for file in chosen
        }
        delete_positions(table, {path: found for path, found in positions.items() if found})
    ids = pa.array(range(0, 1000, 7), pa.int64())
    if kind in ("few keys", "positions and keys"):
        delete_keys_everywhere(table, pa.table({"id": ids}), ["id"])
    elif kind == "pairs of keys":
        delete_keys_everywhere(
            table, pa.table({"id": ids, "day": [date(2024, 1, 1 + number % 4) for number in range(0, 1000, 7)]}), ["id", "day"]
        )


def joined(left: Table, right: Table, *keys: str) -> list[tuple[Any, ...]]:
    """Return the join of two tables by columns as this process reads them: the first key, and both names."""
    rows: dict[tuple[Any, ...], list[Any]] = {}
    for row in right.scan().to_arrow().to_pylist():
        rows.setdefault(tuple(row[key] for key in keys), []).append(row["name"])
    found = []
    for row in left.scan().to_arrow().to_pylist():
        key = tuple(row[key] for key in keys)
        if None not in key:
            found += [(key[0], row["name"], name) for name in rows.get(key, ())]
    return sorted(found, key=repr)


def rows_of(sql: Run, text: str) -> list[tuple[Any, ...]]:
    return sorted(sql(text), key=repr)


def by_keys(*keys: str, columns: str = "l.name, r.name") -> str:
    condition = " AND ".join(f"l.{key} = r.{key}" for key in keys)
    return f"SELECT l.{keys[0]}, {columns} FROM lake.db.left l JOIN lake.db.right r ON {condition}"


def set_all(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def scan_rows(frame: DataFrame) -> list[int]:
    """Run a query, and return the numbers of rows that its scans of Spark's connector returned."""
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    nodes = [leaves.apply(index) for index in range(leaves.size())]
    return [node.metrics().apply("numOutputRows").value() for node in nodes if node.nodeName().startswith("BatchScan")]


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize(
    ("partition", "kind"),
    repetitions(
        list(product(["bucket(4, id)", "day", "truncate(100, id)", "months(day), bucket(2, id)"], DELETES)),
        ("bucket(4, id)", "pairs of keys"),
        ("truncate(100, id)", "vectors"),
        ("months(day), bucket(2, id)", "positions and keys"),
        ("day", "one file"),
    ),
)
def test_tables_with_deletes_are_joined_without_a_shuffle(
    spark: SparkSession, sql: Run, lake: SqlCatalog, partition: str, kind: str
) -> None:
    left, right = tables(lake, partition)
    for table in (left, right):
        if kind == "vectors":
            table.set_properties({"format-version": "3"})
        table.append(pa.table({"id": pa.array(range(2000, 2010), pa.int64()), "day": [date(2024, 1, 2)] * 10, "name": ["more"] * 10}))
        with_deletes(table, kind)
    text = by_keys("id", "day")
    # Spark 4.0 and 4.1 lose the partitions of a scan in the broadcast join that removes pairs of keys.
    first = 2 if kind == "pairs of keys" and spark.version < "4.2" else 0
    for shuffles in (first, 0) if "key" in kind else (first,):  # the second query finds positions of deleted keys that are kept
        assert exchanges_and_rows(spark, text) == (shuffles, joined(left, right, "id", "day"))


@pytest.mark.slow
@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("seed", range(6))
def test_random_tables_are_joined_to_the_rows_of_this_process(spark: SparkSession, sql: Run, lake: SqlCatalog, seed: int) -> None:
    chosen = random.Random(seed)
    version = chosen.choice([2, 3])
    partition = chosen.choice(["bucket(3, id)", "truncate(4, id)", "kind, bucket(2, id)", "truncate(1, kind)", "kind"])
    pair, keeps_partitions = [], True
    for name in ("left", "right"):
        properties = f"TBLPROPERTIES ('format-version'='{version}')"
        sql(f"CREATE TABLE lake.db.{name} (id BIGINT, kind STRING, name STRING) USING iceberg PARTITIONED BY ({partition}) {properties}")
        table = lake.load_table(f"db.{name}")
        for number in range(chosen.randint(3, 6)):
            count = chosen.randint(1, 12)
            rows = {
                "id": pa.array([chosen.choice([None, *range(10)]) for _ in range(count)], pa.int64()),
                "kind": pa.array([chosen.choice([None, "ab", "ac", "b", ""]) for _ in range(count)], pa.string()),
                "name": [f"{name} {number} {row}" for row in range(count)],
            }
            if number and chosen.random() < 0.4:
                with table.update_schema() as update:
                    update.add_column(f"more_{number}", LongType(), default_value=number if version == 3 else None)
            elif chosen.random() < 0.2:
                with table.update_spec() as update:
                    update.add_field("name", "truncate[4]", f"name_{number}")
            table.append(pa.table(rows))
            table.refresh()
            if chosen.random() < 0.5:
                files = [task.file for task in table.scan().plan_files()]
                delete_positions(table, {file.file_path: [chosen.randrange(file.record_count)] for file in files if chosen.random() < 0.6})
            if chosen.random() < 0.5:
                keys = chosen.choice([["id"], ["kind", "id"]])
                keeps_partitions &= keys == ["id"] or spark.version >= "4.2"
                values = {
                    "id": pa.array([chosen.choice([None, *range(10)])], pa.int64()),
                    "kind": pa.array([chosen.choice([None, "ab"])], pa.string()),
                }
                delete_keys_everywhere(table, pa.table({key: values[key] for key in keys}), keys)
        pair.append(table)
    spark.conf.set(PARTIALLY_CLUSTERED, chosen.choice(["true", "false"]))
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", chosen.choice(["true", "true", "false"]))
    try:
        text = by_keys("id", "kind")
        assert not keeps_partitions or exchanges(sql, text) == 0
        assert rows_of(sql, text) == joined(*pair, "id", "kind")
        with_metadata = by_keys("id", "kind", columns="l._file, l._pos, r._pos, r._spec_id, l.name")
        assert not keeps_partitions or exchanges(sql, with_metadata) == 0
        by_partition = sql(with_metadata)
        spark.conf.set("spark.sql.sources.v2.bucketing.enabled", "false")
        assert sorted(by_partition) == sorted(sql(with_metadata))
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize(
    ("other", "kind"),
    repetitions(
        list(product(["partitioned", "shuffled"], ["INT", "BIGINT", "STRING", "DECIMAL(9, 2)", "BINARY"])),
        ("partitioned", "INT"),
        ("partitioned", "STRING"),
        ("shuffled", "DECIMAL(9, 2)"),
        ("shuffled", "BINARY"),
    ),
)
def test_tables_by_truncated_values_are_joined_without_a_shuffle(
    spark: SparkSession, sql: Run, lake: SqlCatalog, kind: str, other: str
) -> None:
    value: Callable[[int], Any] = {
        "STRING": lambda number: f"{'abc'[number % 3] * 3}{number}",
        "BINARY": lambda number: str(number).encode(),
        "DECIMAL(9, 2)": lambda number: Decimal(number - 50),
    }.get(kind, lambda number: number - 50)
    for name, step in (("left", 1), ("right", 3)):
        partition = "" if name == "right" and other == "shuffled" else "PARTITIONED BY (truncate(4, v))"
        sql(f"CREATE TABLE lake.db.{name} (v {kind}, name STRING) USING iceberg {partition}")
        append(lake, [*((value(number), f"{name} {number}") for number in range(0, 100, step)), (None, "none")], f"db.{name}")
    if other == "shuffled":
        spark.conf.set(SHUFFLES_ONE_SIDE, "true")
    shuffles, rows = exchanges_and_rows(spark, by_keys("v"))
    assert shuffles == 0
    assert sorted((left, right) for _, left, right in rows) == sorted((f"left {number}", f"right {number}") for number in range(0, 100, 3))


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize(
    ("left", "right", "without"),
    [
        ("bucket(4, id)", "bucket(8, id)", 0),
        pytest.param("bucket(4, id)", "bucket(6, id)", 0, marks=pytest.mark.slow),
        ("bucket(4, id)", "bucket(3, id)", 2),
        pytest.param("hours(ts)", "days(ts)", 0, marks=pytest.mark.slow),
        ("days(ts)", "months(ts)", 0),
        pytest.param("hours(ts)", "years(ts)", 0, marks=pytest.mark.slow),
        pytest.param("months(ts)", "years(ts)", 0, marks=pytest.mark.slow),
        pytest.param("bucket(4, id)", "hours(ts)", 2, marks=pytest.mark.slow),
    ],
)
def test_compatible_partitions_are_joined_without_a_shuffle(
    spark: SparkSession, sql: Run, lake: SqlCatalog, left: str, right: str, without: int
) -> None:
    for name, partition in (("left", left), ("right", right)):
        sql(f"CREATE TABLE lake.db.{name} (id BIGINT, ts TIMESTAMP, name STRING) USING iceberg PARTITIONED BY ({partition})")
        # Also times before 1970, whose numbers are negative.
        times = [datetime.fromtimestamp(number * 2000003 - 300000000, UTC) for number in range(300)]
        append(lake, [(number, at, f"{name} {number}") for number, at in enumerate(times)], f"db.{name}")
    text = by_keys("id", "ts")
    assert exchanges(sql, text) == 2
    set_all(spark, COMPATIBLE)
    shuffles, rows = exchanges_and_rows(spark, text)
    assert shuffles == without
    assert sorted(rows) == [(number, f"left {number}", f"right {number}") for number in range(300)]


@pytest.mark.usefixtures("joined_by_storage")
def test_fields_that_only_some_specs_have_or_that_are_not_read_do_not_count(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, right = tables(lake, "day, bucket(4, id)")
    assert exchanges(sql, by_keys("id", columns="l.name")) == 0  # `day` is not read
    assert exchanges(sql, by_keys("id", columns="l.name, r.day")) == 2
    set_all(spark, KEYS_A_SUBSET)
    assert exchanges(sql, by_keys("id", columns="l.day, r.day")) == 0
    with left.update_spec() as update:
        update.add_field("name", "truncate[2]", "first")
        update.rename_field("id_bucket", "b")
    left.append(pa.table({"id": pa.array([14], pa.int64()), "day": [date(2024, 1, 1)], "name": ["again"]}))
    assert exchanges_and_rows(spark, by_keys("id")) == (0, joined(left, right, "id"))
    with left.update_spec() as update:
        update.remove_field("b")
    left.append(pa.table({"id": pa.array([14], pa.int64()), "day": [date(2024, 1, 1)], "name": ["a third"]}))
    assert exchanges_and_rows(spark, by_keys("id")) == (2, joined(left, right, "id"))


@pytest.mark.usefixtures("joined_by_storage")
def test_only_queries_that_profit_read_by_partitions(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, _ = tables(lake, "bucket(4, id)")
    for kind in ("none", "positions"):
        with_deletes(left, kind)
        for text in (
            "SELECT count(name) FROM lake.db.left WHERE id > 3",
            "SELECT day, count(*) FROM lake.db.left GROUP BY day",
            "SELECT l.id FROM lake.db.left l JOIN lake.db.right r ON l.name = r.name",
        ):
            assert "BatchScan" not in sql(f"EXPLAIN {text}")[0][0], text
        for text in (
            "SELECT id AS n, count(*) FROM lake.db.left GROUP BY id",
            "SELECT n, row_number() OVER (PARTITION BY n ORDER BY name) FROM (SELECT id AS n, name FROM lake.db.left)",
        ):
            plan = sql(f"EXPLAIN {text}")[0][0]
            assert "BatchScan" in plan, text
            assert "Exchange" not in plan, text


@pytest.mark.usefixtures("joined_by_storage")
def test_sizes_are_those_of_scans_without_partitions(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, _ = tables(lake, "bucket(4, id)")
    with_deletes(left, "positions")

    def sizes() -> list[str]:
        plan = sql(f"EXPLAIN COST {by_keys('id')}")[0][0].partition("== Physical Plan ==")[0]
        return [line.rpartition("Statistics(")[2] for line in plan.splitlines() if "Join" in line]

    partitioned = sizes()
    spark.conf.set("spark.sql.sources.v2.bucketing.enabled", "false")
    assert partitioned == sizes()
    assert any("sizeInBytes" in size for size in partitioned)


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("kind", repetitions(["none", "positions"], "positions"))
def test_filters_skip_row_groups_and_joins_skip_files_by_transforms(spark: SparkSession, sql: Run, lake: SqlCatalog, kind: str) -> None:
    left, right = tables(lake, "bucket(4, id)")
    for table in (left, right):
        table.set_properties({"write.parquet.row-group-limit": "100", "write.parquet.row-group-size-bytes": "1024"})
        table.append(
            pa.table(
                {"id": pa.array(range(5000, 25000), pa.int64()), "day": [date(2024, 1, 1)] * 20000, "name": [f"n{i}" for i in range(20000)]}
            )
        )
        with_deletes(table, kind)
    some = f"{by_keys('id')} WHERE l.id > 24900"
    rows = spark.sql(some)
    assert sorted((tuple(row) for row in rows.collect()), key=repr) == [row for row in joined(left, right, "id") if row[0] > 24900]
    assert all(0 < count < 15000 for count in scan_rows(rows))
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    make(lake, "chosen", {"id": pa.array([8, 14], pa.int64()), "kind": ["a", "b"]})
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false")
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio", "10")
    try:
        text = "SELECT l.id, l.name FROM lake.db.left l JOIN lake.db.chosen c ON l.id = c.id WHERE c.kind = 'a'"
        frame = spark.sql(text)
        assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString().lower()
        assert [tuple(row) for row in frame.collect()] == [(8, "left 8")]
        assert scan_rows(frame)[0] < 7000  # of about 21000 rows in four buckets
    finally:
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly")
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio")


def filter_at_run_time(spark: SparkSession, scan: Any, value: int, times: int = 1) -> None:
    """Filter a scan of Spark's connector by the value that a join has in the column `id` so many times."""
    connector = "org.apache.spark.sql.connector.expressions"
    column, literal = java_class(spark, f"{connector}.FieldReference").column("id"), java_class(spark, f"{connector}.LiteralValue")
    kind = java_class(spark, "org.apache.spark.sql.types.DataTypes").LongType
    every = java_class(spark, "java.util.ArrayList")(java_class(spark, "java.util.Collections").nCopies(times, literal(value, kind)))
    every.add(0, column)
    of_expressions = java_class(spark, "java.lang.Class").forName(f"[L{connector}.Expression;")
    children = java_class(spark, "java.util.Arrays").copyOf(every.toArray(), times + 1, of_expressions)
    predicate = java_class(spark, f"{connector}.filter.Predicate")("IN", children)
    scan.filter(java_array(spark, f"{connector}.filter.Predicate", [predicate]))


def files_in(scan: Any) -> int:
    """Return the number of files that the next plan of a scan reads."""
    return sum(len(split.files()) for split in scan.toBatch().planInputPartitions())


@pytest.mark.usefixtures("joined_by_storage")
def test_a_filter_at_run_time_holds_for_the_plan_of_its_thread_alone(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    tables(lake, "bucket(4, id)")
    scan = spark.sql(by_keys("id"))._jdf.queryExecution().executedPlan().collectLeaves().apply(0).scan()
    filter_at_run_time(spark, scan, 8)
    files: list[int] = []
    other = Thread(target=lambda: files.append(files_in(scan)))
    other.start()
    other.join()
    assert [*files, files_in(scan), files_in(scan)] == [4, 1, 4]


@pytest.mark.usefixtures("joined_by_storage")
def test_a_join_of_very_many_values_leaves_no_file_out(
    spark: SparkSession, sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(lake, "bucket(4, id)")
    scan = spark.sql(by_keys("id"))._jdf.queryExecution().executedPlan().collectLeaves().apply(0).scan()
    methods: list[str] = []
    apply = PythonCallback.apply
    monkeypatch.setattr(PythonCallback, "apply", lambda self, method, message: (methods.append(method), apply(self, method, message))[1])
    for times, expected in ((1, 1), (10_000, 4)):
        filter_at_run_time(spark, scan, 8, times)
        assert files_in(scan) == expected
    assert [method.split()[0] for method in methods] == ["matching_files"]


@pytest.mark.usefixtures("joined_by_storage")
def test_split_files_with_deleted_positions_are_read_by_partitions(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, right = tables(lake, "bucket(4, id)")
    left.set_properties({"write.parquet.row-group-limit": "100", "write.parquet.row-group-size-bytes": "1024"})
    left.append(
        pa.table({"id": pa.array(range(2000), pa.int64()), "day": [date(2024, 1, 1)] * 2000, "name": [f"again {i}" for i in range(2000)]})
    )
    with_deletes(left, "positions and keys")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1500")
    try:
        for clustered in ("false", "true"):
            spark.conf.set(PARTIALLY_CLUSTERED, clustered)
            assert exchanges_and_rows(spark, by_keys("id")) == (0, joined(left, right, "id"))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.usefixtures("joined_by_storage")
def test_other_widths_of_truncate_are_other_partitions(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    set_all(spark, COMPATIBLE)
    for name, width in (("left", 4), ("right", 10)):
        sql(f"CREATE TABLE lake.db.{name} (id BIGINT, name STRING) USING iceberg PARTITIONED BY (truncate({width}, id))")
        append(lake, [(number, f"{name} {number}") for number in range(100)], f"db.{name}")
    shuffles, rows = exchanges_and_rows(spark, by_keys("id"))
    assert shuffles == 2
    assert sorted(rows) == [(number, f"left {number}", f"right {number}") for number in range(100)]


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("partition", repetitions(["id", "bucket(4, id)"], "bucket(4, id)"))
def test_values_from_before_a_column_was_widened_are_the_same_partition(
    spark: SparkSession, sql: Run, lake: SqlCatalog, partition: str
) -> None:
    for name in ("left", "right"):
        kind = "INT" if name == "left" else "BIGINT"
        sql(f"CREATE TABLE lake.db.{name} (id {kind}, name STRING) USING iceberg PARTITIONED BY ({partition})")
        append(lake, [(number, f"{name} {number}") for number in range(20)], f"db.{name}")
    sql("ALTER TABLE lake.db.left ALTER COLUMN id TYPE BIGINT")
    append(lake, [(number, f"again {number}") for number in range(20)], "db.left")
    assert exchanges_and_rows(spark, by_keys("id")) == (0, joined(lake.load_table("db.left"), lake.load_table("db.right"), "id"))


@pytest.mark.usefixtures("joined_by_storage")
def test_a_join_by_run_time_values_skips_no_file_by_the_name_of_another_column(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.left (id BIGINT, key BIGINT, `key (field 5)` BIGINT) USING iceberg")
    append(lake, [(0, 0, 0)], "db.left")
    sql("ALTER TABLE lake.db.left DROP COLUMN key")
    sql("ALTER TABLE lake.db.left ADD COLUMN other BIGINT")
    sql("ALTER TABLE lake.db.left ADD COLUMN key BIGINT")
    assert lake.load_table("db.left").schema().find_field("key").field_id == 5
    sql("ALTER TABLE lake.db.left ADD PARTITION FIELD bucket(4, key)")
    append(lake, [(number, number + 1000, 0, number) for number in range(2000)], "db.left")
    make(lake, "chosen", {"id": pa.array([8, 14], pa.int64()), "kind": ["a", "b"]})
    sql("DELETE FROM lake.db.left WHERE id = 0 AND key IS NULL")
    text = "SELECT /*+ BROADCAST(c) */ l.id FROM lake.db.left l JOIN lake.db.chosen c ON l.key = c.id WHERE c.kind = 'a'"
    frame = spark.sql(text)
    assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString().lower()
    assert [tuple(row) for row in frame.collect()] == [(8,)]
    assert scan_rows(frame)[0] < 1000


@pytest.mark.usefixtures("joined_by_storage")
def test_files_that_python_reads_are_joined_by_a_shuffle(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, right = tables(lake, "bucket(4, id)")
    left.set_properties({"write.format.default": "orc"})
    left.append(pa.table({"id": pa.array([14], pa.int64()), "day": [date(2024, 1, 1)], "name": ["orc"]}))
    make(lake, "chosen", {"id": pa.array([8, 14], pa.int64()), "kind": ["a", "b"]})
    assert exchanges_and_rows(spark, by_keys("id")) == (2, joined(left, right, "id"))
    text = "SELECT /*+ BROADCAST(c) */ l.id, l.name FROM lake.db.left l JOIN lake.db.chosen c ON l.id = c.id WHERE c.kind = 'b'"
    assert sorted(sql(text)) == [(14, "left 14"), (14, "orc")]


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("change", ["missing", "damaged"])
def test_a_file_that_cannot_be_read_fails_the_join_and_is_named(sql: Run, lake: SqlCatalog, change: str) -> None:
    left, _ = tables(lake, "bucket(4, id)")
    path = Path(left.scan().plan_files()[0].file.file_path.removeprefix("file://"))
    if change == "missing":
        path.unlink()
    else:
        path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(Exception, match=path.name):
        sql(by_keys("id"))


@pytest.mark.usefixtures("planned_at_once")
@pytest.mark.parametrize(
    ("partition", "kind"),
    combinations(
        ["bucket(4, id)", "truncate(100, id)", "bucket(4, id), days(at)"], ["none", "positions", "few keys", "positions and keys"]
    ),
)
def test_a_join_skips_files_by_transforms_in_a_session_that_joins_no_partitions(
    spark: SparkSession, sql: Run, lake: SqlCatalog, partition: str, kind: str
) -> None:
    sql(f"CREATE TABLE lake.db.facts (id BIGINT, at TIMESTAMP, name STRING) USING iceberg PARTITIONED BY ({partition})")
    append(lake, [(number, datetime(2024, 1, 1, tzinfo=UTC), f"fact {number}") for number in range(2000)], "db.facts")
    with_deletes(lake.load_table("db.facts"), kind)
    make(lake, "chosen", {"id": pa.array([8, 14, 900], pa.int64()), "kind": ["a", "a", "b"]})
    text = "SELECT /*+ BROADCAST(c) */ f.id, f.name FROM lake.db.facts f JOIN lake.db.chosen c ON f.id = c.id WHERE c.kind = 'a'"
    frame = spark.sql(text)
    assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString().lower()
    stored = {row["id"]: row["name"] for row in lake.load_table("db.facts").scan().to_arrow().to_pylist()}
    assert sorted(tuple(row) for row in frame.collect()) == [(number, stored[number]) for number in (8, 14) if number in stored]
    assert scan_rows(frame)[0] <= (400 if "truncate" in partition else 1400)  # of 2000 rows: those of the partitions of two ids


@pytest.mark.usefixtures("planned_at_once")
def test_a_query_without_run_time_filters_reads_a_partitioned_table_with_sparks_own_file_scan(
    spark: SparkSession, sql: Run, lake: SqlCatalog
) -> None:
    sql("CREATE TABLE lake.db.facts (id BIGINT, name STRING) USING iceberg PARTITIONED BY (bucket(4, id))")
    append(lake, [(number, f"fact {number}") for number in range(200)], "db.facts")
    for text in ("SELECT * FROM lake.db.facts", "SELECT l.id FROM lake.db.facts l JOIN lake.db.facts r ON l.id = r.id"):
        frame = spark.sql(text)
        assert scan_rows(frame) == []
        assert len(frame.collect()) == 200
