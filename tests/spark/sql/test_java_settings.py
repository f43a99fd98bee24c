"""Every session setting and option of Java's Iceberg has an effect, is refused, or causes a warning that it has none and why."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from tests.java_names import READ_OPTIONS, SESSION_SETTINGS, WRITE_OPTIONS
from tests.spark.comparing import plan_of
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.errors import InvalidPropertyError
from icefloe.operations import warnings_once
from icefloe.spark.scan.read_options import (
    ACTED_ON_OPTIONS,
    ACTED_ON_SETTINGS,
    SESSION_PREFIX,
    STREAM_OPTION_NAMES,
    UNUSED_BY_QUERIES,
    UNUSED_READ_OPTIONS,
    UNUSED_SETTINGS,
    planning_mode,
)
from icefloe.spark.write.write_options import KNOWN_OPTIONS, REFUSED_OPTIONS, SETTINGS, SNAPSHOT_PROPERTY, UNUSED_WRITE_OPTIONS
from icefloe.table import Table

# What Spark itself does with the options of a read, and `operations/rows/write_context.py` with settings.
OF_SPARK = {"path", "versionAsOf", "timestampAsOf"}
OF_WAP = {"spark.wap.id", "spark.wap.branch"}


def test_every_java_setting_has_an_effect_or_a_reason_for_none() -> None:
    acted_on = {SESSION_PREFIX + name for name in (*ACTED_ON_SETTINGS, *SETTINGS)} | OF_WAP
    unused = {SESSION_PREFIX + name for name in UNUSED_SETTINGS}
    assert [name for name in SESSION_SETTINGS if name not in acted_on | unused] == []
    assert acted_on & unused == set()


def test_every_java_read_option_has_an_effect_or_a_reason_for_none() -> None:
    acted_on = {*ACTED_ON_OPTIONS, *STREAM_OPTION_NAMES} | OF_SPARK
    assert [name for name in READ_OPTIONS if name not in acted_on | UNUSED_READ_OPTIONS.keys()] == []
    assert acted_on & UNUSED_READ_OPTIONS.keys() == set()


def test_every_java_write_option_has_an_effect_or_is_refused() -> None:
    known = {*KNOWN_OPTIONS, SNAPSHOT_PROPERTY.rstrip(".")}
    assert [name for name in WRITE_OPTIONS if name.lower() not in known] == []
    assert set(REFUSED_OPTIONS) <= known


@pytest.fixture
def table(sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two files of 1000 rows, a third of them deleted; and no warning logged yet."""
    monkeypatch.setattr(warnings_once, "_WARNED", set())
    made = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("v", pa.string())]), properties={"write.delete.mode": "merge-on-read"})
    for first in (0, 1000):
        made.append(pa.table({"id": range(first, first + 1000), "v": ["text"] * 1000}))
    made.delete(f"id in ({', '.join(str(number) for number in range(0, 2000, 3))})")
    return made


@contextmanager
def settings(spark: SparkSession, **given: str) -> Iterator[None]:
    """Set Iceberg's session settings for the block; two underscores are a dot, one is a hyphen."""
    names = {SESSION_PREFIX + name.replace("__", ".").replace("_", "-"): value for name, value in given.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def warned(caplog: pytest.LogCaptureFixture, kind: str) -> list[str]:
    begin = f"the {kind} "
    return [line.removeprefix(begin).split(" ")[0] for line in caplog.messages if line.startswith(begin) and " has no effect: " in line]


@pytest.mark.spark
def test_settings_and_options_without_effect_log_one_warning_per_session(
    spark: SparkSession, sql: Run, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for name in UNUSED_SETTINGS:
        spark.conf.set(SESSION_PREFIX + name, "true")
    try:
        options = dict.fromkeys([*UNUSED_BY_QUERIES, "Lookback"], "1")
        assert spark.read.options(**options).table("lake.db.t").count() == 1333
        assert sorted(warned(caplog, "setting")) == sorted(SESSION_PREFIX + name for name in UNUSED_SETTINGS)
        assert sorted(warned(caplog, "read option")) == sorted(UNUSED_BY_QUERIES)
        caplog.clear()
        assert spark.read.options(**options).table("lake.db.t").count() == 1333
        sql("INSERT INTO lake.db.t VALUES (1, 'a')")
        assert sql("SELECT count(*) FROM lake.db.t.files WHERE content = 0") == [(3,)]
        assert [line for line in caplog.messages if "has no effect" in line] == []
        warnings_once._WARNED.clear()
        rows = spark.createDataFrame([(2, "b")], "id BIGINT, v STRING")
        rows.writeTo("lake.db.t").options(**dict.fromkeys(UNUSED_WRITE_OPTIONS, "true")).append()
        assert f"{SESSION_PREFIX}locality.enabled" in warned(caplog, "setting")
        assert warned(caplog, "write option") == list(UNUSED_WRITE_OPTIONS)
    finally:
        for name in UNUSED_SETTINGS:
            spark.conf.unset(SESSION_PREFIX + name)


@pytest.mark.spark
def test_option_setting_and_property_choose_vectorized_reads(spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table) -> None:
    query = "SELECT sum(id), count(_pos), max(_pos) FROM lake.db.t WHERE id > 10"
    expected = sql(query)
    assert expected[0][0] == sum(number for number in range(11, 2000) if number % 3)

    def batched(**options: str) -> str:
        frame = spark.read.options(**options).table("lake.db.t").where("id > 10").selectExpr("sum(id)", "count(_pos)", "max(_pos)")
        assert [tuple(row) for row in frame.collect()] == expected
        return plan_of(frame).split("Batched: ")[1][:5]

    assert batched() == "true,"
    assert batched(**{"vectorization-enabled": "false"}) == "false"
    with settings(spark, vectorization__enabled="false"):
        assert batched() == "false"
        assert batched(**{"vectorization-enabled": "true", "batch-size": "7"}) == "true,"
    table.set_properties({"read.parquet.vectorization.enabled": "false"})
    assert batched() == "false"
    with settings(spark, vectorization__enabled="true"):
        assert batched() == "true,"
    with pytest.raises((IllegalArgumentException, PySparkException), match=r"the read option vectorization-enabled is 'perhaps'"):
        batched(**{"vectorization-enabled": "perhaps"})


@pytest.mark.spark
def test_option_and_property_determine_the_rows_of_a_batch(spark: SparkSession, sql: Run, table: Table) -> None:
    def batches(**options: str) -> int:
        frame = spark.read.options(**options).table("lake.db.t").select("v")
        frame.collect()
        scans, found = [frame._jdf.queryExecution().executedPlan()], 0
        while scans:
            node = scans.pop()
            found += node.metrics().apply("numInputBatches").value() if node.metrics().contains("numInputBatches") else 0
            scans += [node.children().apply(place) for place in range(node.children().length())]
        return found

    assert batches() == 2
    assert batches(**{"batch-size": "100"}) == 20
    table.set_properties({"read.parquet.vectorization.batch-size": "500"})
    assert batches() == 4


@pytest.mark.spark
def test_aggregates_are_computed_from_metadata_unless_option_or_setting_turns_it_off(
    spark: SparkSession, sql: Run, lake: SqlCatalog
) -> None:
    lake.create_table("db.plain", pa.schema([("id", pa.int64())])).append(pa.table({"id": range(9)}))

    def reads_files(**options: str) -> bool:
        frame = spark.read.options(**options).table("lake.db.plain").selectExpr("max(id)", "count(*)")
        assert [tuple(row) for row in frame.collect()] == [(8, 9)]
        return "FileScan" in plan_of(frame)

    assert not reads_files()
    assert reads_files(**{"aggregate-push-down-enabled": "false"})
    with settings(spark, aggregate_push_down__enabled="false"):
        assert reads_files()
        assert not reads_files(**{"Aggregate-Push-Down-Enabled": "true"})


@pytest.mark.spark
def test_settings_and_properties_determine_the_number_of_tasks(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made = lake.create_table("db.many", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    for first in range(6):
        made.append(pa.table({"id": [first], "v": ["text"]}))
    cost = {"file-open-cost": "1048576"}

    def tasks(**options: str) -> int:
        return spark.read.options(**cost, **options).table("lake.db.many").rdd.getNumPartitions()

    # The default is the number of processors of the session, which another test may have started.
    with settings(spark, read__adaptive_split_size__parallelism=str(spark.sparkContext.defaultParallelism)):
        by_processors = tasks()
    assert tasks() == by_processors > 1
    with settings(spark, read__adaptive_split_size__parallelism="6"):
        assert tasks() == 6
    with settings(spark, read__adaptive_split_size__enabled="false", read__adaptive_split_size__parallelism="6"):
        assert tasks() == 1
    made.set_properties({"read.split.adaptive-size.enabled": "false"})
    assert tasks() == 1
    with settings(spark, read__adaptive_split_size__enabled="true"):
        assert tasks() == by_processors
    with settings(spark, read__split_size="1048576"):
        assert tasks() == 6
        assert tasks(**{"split-size": "134217728"}) == 1


@pytest.mark.spark
def test_statistics_of_columns_reach_the_optimizer_unless_a_setting_turns_them_off(spark: SparkSession, sql: Run, table: Table) -> None:
    table.compute_statistics()
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        text = "EXPLAIN COST SELECT id FROM lake.db.t WHERE id = 7"
        counted = sql(text)[0][0]
        with settings(spark, report_column_stats="false"):
            assert sql(text)[0][0] != counted
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


@pytest.mark.spark
def test_a_wrong_mode_of_planning_is_refused(spark: SparkSession, sql: Run, table: Table) -> None:
    name = r"the setting spark\.sql\.iceberg\.data-planning-mode"
    with settings(spark, data_planning_mode="somewhere"), pytest.raises(PySparkException, match=rf"{name} is 'somewhere'"):
        sql("SELECT sum(id) FROM lake.db.t")


@pytest.mark.parametrize(
    ("options", "session", "named"),
    [
        ({}, {"spark.icefloe.planning.mode": "locl"}, "the setting spark.icefloe.planning.mode is 'locl'"),
        ({"planning-mode": "locl"}, {"spark.icefloe.planning.mode": "auto"}, "the read option planning-mode is 'locl'"),
        ({}, {}, "the property read.data-planning-mode is 'lcl'"),
    ],
)
def test_a_wrong_mode_of_planning_is_refused_by_the_name_that_has_it(options: dict[str, str], session: dict[str, str], named: str) -> None:
    query: Any = {"options": options, "settings": session}
    with pytest.raises(InvalidPropertyError, match=re.escape(named)):
        planning_mode(query, {"read.data-planning-mode": "lcl"})
