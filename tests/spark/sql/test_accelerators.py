"""The plans that accelerators receive: the conditions by which each takes a scan over are those of its sources; none of them is loaded here.

`comet_cases.py` runs Comet. Without an accelerator Spark reads the scans, so that their rows are compared with those of plans without one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.spark.bridge import gateway
from icefloe.spark.bridge.accelerators import accelerator_of
from icefloe.spark.scan import native_scan, read_strategy
from icefloe.spark.scan.footer_field_ids import stored_fields
from icefloe.table import Table

pytestmark = pytest.mark.spark

COMET, RAPIDS, GLUTEN = "org.apache.spark.CometPlugin", "com.nvidia.spark.SQLPlugin", "org.apache.gluten.GlutenPlugin"
# The classes by which a session can have them without their plugins.
EXTENSIONS = {
    COMET: "org.apache.comet.CometSparkSessionExtensions",
    RAPIDS: "com.nvidia.spark.rapids.SQLExecPlugin",
    GLUTEN: "org.apache.gluten.extension.GlutenSessionExtensions",
}
QUERY = "SELECT id, s.b FROM lake.db.t WHERE r > 1 AND id < 9"


@contextmanager
def plugin(spark: SparkSession, name: str, setting: str = "spark.plugins") -> Iterator[None]:
    """Name a plugin in the session's settings beside another class, without loading it."""
    conf = spark._jsparkSession.sessionState().conf()
    before = conf.getConfString(setting, "")
    conf.setConfString(setting, f"{before or 'com.example.Other'} , {name}")
    gateway._ACCELERATED.clear()  # which has no accelerator so far
    try:
        yield
    finally:
        conf.setConfString(setting, before) if before else conf.unsetConf(setting)
        gateway._ACCELERATED.clear()


@pytest.fixture
def table(sql: Run, lake: SqlCatalog) -> Table:
    """A table whose names in its file are not those of today, at two levels."""
    inner = pa.struct([("a", pa.int64()), ("other", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("r", pa.float64()), ("s", inner)])
    table = lake.create_table("db.t", schema, properties={"write.delete.mode": "merge-on-read"})
    rows = [{"id": number, "r": float("nan") if number == 3 else number / 2, "s": {"a": number, "other": "x"}} for number in range(10)]
    table.append(pa.Table.from_pylist(rows, schema))
    with table.update_schema() as update:
        update.rename_column("s.a", "b").rename_column("s.other", "a")
    return table


def scan_of(spark: SparkSession, text: str) -> Any:
    """Return the node of Spark's plan that reads files."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        return spark.sql(text)._jdf.queryExecution().sparkPlan().collectLeaves().head()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize("name", [COMET, RAPIDS])
def test_a_scan_without_deletes_has_sparks_own_class_and_the_ids_of_all_fields(
    spark: SparkSession, sql: Run, table: Table, name: str
) -> None:
    expected = sql(QUERY)
    with plugin(spark, name):
        scan = scan_of(spark, QUERY)
        assert scan.getClass().getName() == "org.apache.spark.sql.execution.FileSourceScanExec"
        assert scan.relation().fileFormat().getClass().getName() == "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
        assert [root.toUri().getScheme() for root in (scan.relation().location().rootPaths().apply(0),)] == ["file"]
        assert scan.tableIdentifier().get().unquotedString() == "lake.db.t"
        for struct in (scan.requiredSchema(), scan.relation().dataSchema()):
            inner = struct.apply("s").dataType()
            assert inner.json().count("parquet.field.id") == len(inner.fieldNames())
        assert "r (field 2)" not in scan.dataFilters().toString()  # statistics leave NaN out
        assert "id" in scan.dataFilters().toString()
        assert sql(QUERY) == expected


@pytest.mark.parametrize(
    ("settings", "text", "reason"),
    [
        ({}, "SELECT _pos, id FROM lake.db.t", "the query reads positions of rows"),
        ({"spark.comet.exec.enabled": "false"}, QUERY, "spark.comet.exec.enabled is false"),
        ({"spark.sql.parquet.fieldId.read.enabled": "false"}, QUERY, "spark.sql.parquet.fieldId.read.enabled is not true"),
        ({"spark.sql.parquet.fieldId.read.ignoreMissing": "true"}, QUERY, "spark.sql.parquet.fieldId.read.ignoreMissing is true"),
    ],
)
def test_a_scan_that_an_accelerator_cannot_read_has_the_reason_in_its_name(
    spark: SparkSession, sql: Run, table: Table, settings: dict[str, str], text: str, reason: str
) -> None:
    assert table.metadata.current_snapshot_id is not None
    expected = sql(text)
    before = {setting: spark.conf.get(setting, None) for setting in settings}
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        with plugin(spark, COMET):
            assert scan_of(spark, text).tableIdentifier().get().unquotedString() == f"lake.db.t (Comet does not read it: {reason})"
            assert sql(text) == expected
    finally:
        for setting, old in before.items():
            spark.conf.unset(setting) if old is None else spark.conf.set(setting, old)


def test_files_with_deletes_stay_with_spark_and_the_rest_does_not(spark: SparkSession, sql: Run, table: Table) -> None:
    table.append(table.scan("id < 3").to_arrow())
    table.delete("id = 5")
    expected = sql("SELECT sum(id) FROM lake.db.t")
    with plugin(spark, COMET):
        plan = spark.sql("SELECT id FROM lake.db.t")._jdf.queryExecution().sparkPlan()
        names = [scan.tableIdentifier().get().unquotedString() for scan in _each(plan.collectLeaves())]
        assert sorted(names) == ["lake.db.t", "lake.db.t (Comet does not read it: rows are deleted by position)"]
        assert sql("SELECT sum(id) FROM lake.db.t") == expected


def test_rows_that_no_filter_keeps_are_not_copied_for_comet(spark: SparkSession, sql: Run, table: Table) -> None:
    """Comet copies batches of files with deletes, which it does before it tests filters. Here Spark tests them, on the same batches."""
    with table.update_schema() as update:
        update.rename_column("r", "ratio").add_column("d", "decimal(12, 2)").add_column("text", "string")
    rows = [
        {"id": number, "ratio": float("nan"), "s": {"b": number, "a": None}, "d": Decimal(number), "text": None if number % 3 else "x"}
        for number in range(100, 5_000)
    ]
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
    table.delete("id = 5 OR id = 200 OR id = 201")
    tests = [
        "id < 150",
        "ratio > 3",
        "ratio = 'NaN' AND id > 4990",
        "d BETWEEN 199 AND 203",
        "text = 'x' AND id IN (3, 199, 200, 201, 300)",
        "NOT (text <=> 'x') OR id IS NULL",
        "s.b = 300",
        "CAST(id AS STRING) LIKE '4_' OR text LIKE 'x%'",
        "id > 9999",
    ]
    query = " UNION ALL ".join(
        f"SELECT {number} AS test, count(*), sum(id), max(d) FROM lake.db.t WHERE {test}" for number, test in enumerate(tests)
    )
    expected = sorted(sql(query))
    spark.conf.set("spark.comet.convert.parquet.enabled", "true")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        with plugin(spark, COMET):
            assert sorted(sql(query)) == expected
            plan = spark.sql("SELECT id FROM lake.db.t WHERE id < 150 AND text = 'x'")._jdf.queryExecution().executedPlan()
            plan.executeCollect()
    finally:
        spark.conf.unset("spark.comet.convert.parquet.enabled")
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert sum(scan.metrics().apply("numOutputRows").value() for scan in _each(plan.collectLeaves())) == len(range(102, 150, 3))


def test_a_plan_that_was_made_without_an_accelerator_stays_with_spark(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its footers were not read for unsigned integers; a later statement reads them."""
    query = "SELECT id FROM lake.db.t WHERE id < 4"
    off = "lake.db.t (Comet does not read it: it was off when the query was planned, so that no footer was read for unsigned integers)"
    read = []
    monkeypatch.setattr(read_strategy, "stored_fields", lambda *arguments, **_: read.append(arguments) or stored_fields(*arguments, **_))
    with plugin(spark, COMET):
        spark.conf.set("spark.comet.enabled", "false")
        try:
            frame = spark.sql(query)
            frame._jdf.queryExecution().optimizedPlan()
            assert scan_of(spark, query).tableIdentifier().get().unquotedString() == "lake.db.t"
            assert not read
        finally:
            spark.conf.unset("spark.comet.enabled")
        scan = frame._jdf.queryExecution().sparkPlan().collectLeaves().head()
        assert scan.tableIdentifier().get().unquotedString() == off
        assert scan_of(spark, query).tableIdentifier().get().unquotedString() == "lake.db.t"
        assert read
        assert table.scan("id < 4").count() == 4


@pytest.mark.parametrize("name", [COMET, RAPIDS, GLUTEN])
def test_an_accelerator_is_found_by_its_extension_alone(spark: SparkSession, table: Table, name: str) -> None:
    with plugin(spark, name):
        by_plugin = accelerator_of(spark), scan_of(spark, QUERY).relation().fileFormat().getClass().getName()
    with plugin(spark, f"x{EXTENSIONS[name]}", "spark.sql.extensions"):
        assert accelerator_of(spark) is None
        assert not gateway.has_accelerator(spark)
    with plugin(spark, EXTENSIONS[name], "spark.sql.extensions"):
        assert (accelerator_of(spark), scan_of(spark, QUERY).relation().fileFormat().getClass().getName()) == by_plugin
        assert gateway.has_accelerator(spark)
    assert by_plugin[0] is not None


def test_gluten_finds_columns_by_name_and_is_offered_no_scan(spark: SparkSession, sql: Run, table: Table) -> None:
    expected = sql(QUERY)
    with plugin(spark, GLUTEN):
        accelerator = accelerator_of(spark)
        assert accelerator is not None
        assert str(accelerator) == "Gluten does not read Icefloe's files: it finds columns by their names, and not by their ids"
        scan = scan_of(spark, QUERY)
        assert scan.relation().fileFormat().getClass().getSimpleName() == "SignedParquet"
        assert "Gluten does not read it" in scan.tableIdentifier().get().unquotedString()
        assert sql(QUERY) == expected
        spark._jsparkSession.sessionState().conf().setConfString("spark.gluten.enabled", "false")
        assert accelerator_of(spark) is None
        spark._jsparkSession.sessionState().conf().unsetConf("spark.gluten.enabled")


@pytest.mark.parametrize("name", [GLUTEN, "com.example.Unknown"])
def test_no_accelerator_takes_over_what_executors_without_icefloes_classes_read(
    spark: SparkSession, sql: Run, table: Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (native_scan, read_strategy):
        monkeypatch.setattr(module, "executors_have_classes", lambda spark: False)
    query = "SELECT id FROM lake.db.t WHERE id > 7"  # has no nested fields
    with plugin(spark, name):
        assert scan_of(spark, query).relation().fileFormat().getClass().getSimpleName() == "ParquetById"
        assert sql(query) == [(8,), (9,)]


def test_scans_by_partitions_by_joins_and_by_python_have_the_reason_too(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    for name, properties in (("p", {}), ("avro", {"write.format.default": "avro"})):
        lake.create_table(f"db.{name}", schema, partition_spec=["bucket(8, id)"], properties=properties)
        lake.load_table(f"db.{name}").append(pa.table({"id": range(50), "n": range(50)}))
    lake.create_table("db.small", schema).append(pa.table({"id": [1, 2], "n": [7, 8]}))
    grouping = {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.iceberg.planning.preserve-data-grouping": "true"}
    for text, settings, name in (
        ("SELECT id, count(*) FROM lake.db.p GROUP BY id", grouping, "p (Comet does not read it: it is read by partitions)"),
        (
            "SELECT p.n FROM lake.db.p JOIN lake.db.small s ON p.id = s.id WHERE s.n = 7",
            {},
            "p (Comet does not read it: a join filters its files)",
        ),
        ("SELECT n FROM lake.db.avro", {}, "avro (Comet does not read it: Python does, since a file is no Parquet file)"),
    ):
        for setting, value in settings.items():
            spark.conf.set(setting, value)
        try:
            expected = sorted(sql(text))
            assert scan_of(spark, text).nodeName() == f"BatchScan lake.db.{name.partition(' ')[0]}"
            with plugin(spark, COMET):
                assert scan_of(spark, text).nodeName() == f"BatchScan lake.db.{name}"
                assert sorted(sql(text)) == expected
        finally:
            for setting in settings:
                spark.conf.unset(setting)


def test_scans_by_partitions_are_right_beside_rules_of_other_libraries(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    table = lake.create_table("db.p", pa.schema([("id", pa.int64())]), partition_spec=["bucket(2, id)"], properties={"format-version": "3"})
    table.append(pa.table({"id": range(20)}))
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id > 16 OR id = 3")
    settings = {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.iceberg.planning.preserve-data-grouping": "true"}
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    state = spark._jsparkSession.sessionState()
    rules = state.getClass().getDeclaredField("columnarRules")
    rules.setAccessible(True)
    before = rules.get(state)
    rules.set(state, before.prepended(spark._jvm.org.apache.spark.sql.execution.ColumnarRule()))
    query = "SELECT id, count(*) FROM lake.db.p WHERE id > 1 GROUP BY id"
    try:
        assert sorted(sql(query)) == [(number, 1) for number in range(2, 17) if number != 3]
        assert scan_of(spark, query).nodeName() == "BatchScan lake.db.p"
        assert sql("SELECT count(*) FROM lake.db.p WHERE id < 5") == [(4,)]
    finally:
        rules.set(state, before)
        for setting in settings:
            spark.conf.unset(setting)


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
