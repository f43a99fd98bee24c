"""Metrics of scans and writes in Spark's SQL tab, read from the store that its page reads."""

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions
from tests.spark.sql.conftest import Run
from tests.spark.sql_tab import Metrics, executions, metrics_since, of_nodes

from icefloe import SqlCatalog
from icefloe.operations import data_scan
from icefloe.spark.row_level import operation
from icefloe.table import Table

pytestmark = pytest.mark.spark

PLANNING = "total planning duration"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every plan take 5 ms: Spark shows less than a millisecond as the 0 of a plan that is used again."""
    ticks = count(step=5_000_000)
    monkeypatch.setattr(data_scan, "time", SimpleNamespace(monotonic_ns=lambda: next(ticks)))


@pytest.fixture
def shown(spark: SparkSession, sql: Run) -> Callable[[str], Metrics]:
    """Run a statement and return the metrics of the nodes in its plans."""

    def metrics(text: str) -> Metrics:
        before = executions(spark)
        sql(text)
        return metrics_since(spark, before)

    return metrics


def partitioned(lake: SqlCatalog, version: int = 2) -> Table:
    """Create a table of two partitions in each of four manifests."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("kind", pa.string())])
    table = lake.create_table("db.t", schema, partition_spec=["kind"], properties={"format-version": str(version)})
    for start in range(0, 40, 10):
        table.append(pa.table({"id": range(start, start + 10), "kind": ["a", "b"] * 5}))
    return table


def test_a_scan_shows_what_its_plan_read_and_skipped(shown: Callable[[str], Metrics], lake: SqlCatalog) -> None:
    table = partitioned(lake)
    table.append(pa.table({"id": [40], "kind": ["c"]}))
    text = "SELECT sum(id) FROM lake.db.t WHERE kind = 'a' AND id < 15"
    (scan,) = of_nodes(shown(text), "Scan")
    plan = table.scan("kind = 'a' AND id < 15").plan()
    expected = {
        "number of scanned data manifests": plan.manifests_read,
        "number of skipped data manifests": plan.manifests_skipped,
        "number of data files in skipped manifests": plan.files_in_skipped_manifests,
        "number of data files skipped by partition": plan.files_skipped_by_partition,
        "number of data files skipped by column statistics": plan.files_skipped_by_metrics,
        "number of result data files": plan.files_kept,
        "number of files read": plan.files_kept,
    }
    assert {name: int(scan[name]) for name in expected} == expected
    assert (plan.manifests_read, plan.manifests_skipped, plan.files_skipped_by_partition, plan.files_skipped_by_metrics) == (4, 1, 4, 2)
    assert scan["total data file size"] == scan["size of files read"]
    assert not any("delete" in name for name in scan)
    assert scan[PLANNING] != "0 ms" != scan["metadata time"]  # the latter has the time of Spark's own listing too
    (again,) = of_nodes(shown(text), "Scan")  # the plan is kept, so that nothing is planned
    assert {name: int(again[name]) for name in expected} == expected
    assert again[PLANNING] == "0 ms"


def test_metrics_leave_the_scan_the_node_and_the_format_of_spark(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    partitioned(lake)
    node = spark.sql("SELECT id FROM lake.db.t WHERE id > 3")._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert node.getClass().getName() == "org.apache.spark.sql.execution.FileSourceScanExec"
    assert node.metrics().contains("scanned-data-manifests")


@pytest.mark.parametrize(("version", "kind"), [(2, "positional delete files"), (3, "deletion vectors")])
def test_the_scans_of_files_with_and_without_deletes_show_each_number_once(
    shown: Callable[[str], Metrics], lake: SqlCatalog, version: int, kind: str
) -> None:
    table = partitioned(lake, version)
    path = next(iter(table.scan("kind = 'a'").plan_files())).file.file_path
    delete_positions(table, {path: [0, 2]})
    scans = of_nodes(shown("SELECT sum(id) FROM lake.db.t"), "Scan")
    assert len(scans) == 2
    shown_once = {name: value for scan in scans for name, value in scan.items() if name not in ("number of files read", "metadata time")}
    assert sum(int(scan["number of files read"]) for scan in scans) == int(shown_once["number of result data files"]) == 8
    assert (shown_once[f"number of {kind}"], shown_once["number of row deletes applied"]) == ("1", "2")
    assert (shown_once["number of equality delete files"], shown_once["number of scanned delete manifests"]) == ("0", "1")
    for name in ("number of result data files", "number of row deletes applied", PLANNING):
        assert sum(name in scan for scan in scans) == 1


def test_equality_deletes_are_shown_and_the_scans_of_subqueries_too(shown: Callable[[str], Metrics], lake: SqlCatalog) -> None:
    table = partitioned(lake)
    delete_keys_everywhere(table, pa.table({"id": pa.array([3], pa.int64())}), ["id"])
    metrics = shown("SELECT sum(id) FROM lake.db.t WHERE id < (SELECT max(id) + 1 FROM lake.db.t WHERE kind <> 'c' AND id > 35)")
    scans = [scan for scan in of_nodes(metrics, "Scan") if PLANNING in scan]
    assert sorted((scan["number of result data files"], scan["number of equality delete files"]) for scan in scans) == [
        ("2", "0"),
        ("8", "2"),
    ]


def test_a_scan_of_partitions_shows_the_files_that_a_join_skipped(
    spark: SparkSession, shown: Callable[[str], Metrics], lake: SqlCatalog
) -> None:
    spark.sql("CREATE TABLE lake.db.t (id BIGINT, name STRING) USING iceberg PARTITIONED BY (bucket(8, id))")
    lake.load_table("db.t").append(pa.table({"id": range(100), "name": [str(number) for number in range(100)]}))
    lake.create_table("db.small", pa.schema([("id", pa.int64()), ("n", pa.int64())])).append(pa.table({"id": [1, 2], "n": [7, 8]}))
    metrics = shown("SELECT t.name FROM lake.db.t JOIN lake.db.small s ON t.id = s.id WHERE s.n = 7")
    (scan,) = of_nodes(metrics, "BatchScan")
    assert (scan["number of files read"], scan["number of data files skipped by a join"]) == ("1", "7")
    assert (scan["number of result data files"], scan["number of scanned data manifests"]) == ("8", "1")
    assert int(scan["size of files read (bytes)"].replace(",", "")) < int(scan["total data file size (bytes)"].replace(",", ""))


def test_files_that_python_reads_are_shown(shown: Callable[[str], Metrics], lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]), properties={"write.format.default": "avro"})
    table.append(pa.table({"id": range(5)}))
    table.append(pa.table({"id": range(10, 15)}))
    (scan,) = of_nodes(shown("SELECT sum(id) FROM lake.db.t WHERE id > 5"), "BatchScan")
    assert (scan["number of result data files"], scan["number of data files skipped by column statistics"]) == ("1", "1")


def test_statements_show_what_they_wrote_and_how_they_were_committed(shown: Callable[[str], Metrics], lake: SqlCatalog) -> None:
    table = partitioned(lake, 3)
    table.set_properties({"write.merge.mode": "merge-on-read"})
    (insert,) = of_nodes(shown("INSERT INTO lake.db.t VALUES (100, 'c'), (101, 'd')"), "Execute")
    added = table.refresh().current_snapshot()
    assert added is not None
    assert (insert["number of inserted rows"], insert["number of added data files"], insert["number of commit attempts"]) == ("2", "2", "1")
    assert insert["total size of added files"] == f"{int(added.summary['added-files-size'])}.0 B"
    assert "ms" in insert["total commit duration"] or " s" in insert["total commit duration"]
    merge = (
        "MERGE INTO lake.db.t USING (SELECT explode(array(3L, 777L)) AS id, 'a' AS kind) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    statement, *inner = of_nodes(shown(merge), "Execute")
    assert statement in inner  # of the statement with its counts, and of the write that it runs
    assert (statement["number of inserted rows"], statement["number of deleted rows"]) == ("1", "1")
    assert (statement["number of added data files"], statement["number of added delete files"]) == ("1", "1")
    assert of_nodes(shown("DELETE FROM lake.db.t WHERE kind = 'd'"), "Execute")[0]["number of removed data files"] == "1"


def test_a_statement_that_runs_again_shows_its_last_run_and_the_number_of_runs(
    spark: SparkSession, sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, commit, compactions = partitioned(lake, 3), operation.commit, list[tuple[Any, ...]]()
    table.set_properties({"write.update.mode": "merge-on-read"})

    def overtaken_once(*arguments: Any) -> Any:
        if not compactions:
            compactions.extend(sql("CALL lake.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"))
        return commit(*arguments)

    monkeypatch.setattr(operation, "commit", overtaken_once)
    before = executions(spark)
    (counts,) = sql("WITH chosen AS (SELECT 3 AS rest) UPDATE lake.db.t SET kind = 'z' WHERE id % 7 IN (SELECT rest FROM chosen)")
    outer, *of_runs = of_nodes(metrics_since(spark, before), "Execute ")
    assert [snapshot.operation for snapshot in table.refresh().snapshots()[-2:]] == ["replace", "overwrite"]
    last = table.snapshots()[-1].summary
    labels = ("updated rows", "added data files", "removed data files", "added delete files", "statement runs", "commit attempts")
    assert [outer[f"number of {label}"] for label in labels] == ["6", last["added-data-files"], "0", last["added-dvs"], "2", "1"]
    assert (counts[2], counts[4], counts[5], counts[6]) == tuple(int(outer[f"number of {label}"]) for label in labels[:4])
    assert outer["total size of added files"] == f"{int(last['added-files-size'])}.0 B"
    assert of_runs == [{}, {label: value for label, value in outer.items() if label != "number of statement runs"}]


def test_writes_of_frames_show_the_same_and_a_failed_one_nothing(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    partitioned(lake)
    rows = spark.range(3, numPartitions=1).selectExpr("id", "'x' AS kind")
    before = executions(spark)
    rows.writeTo("lake.db.t").append()
    (write,) = of_nodes(metrics_since(spark, before), "AppendData")
    assert (write["number of inserted rows"], write["number of added data files"], write["number of commit attempts"]) == ("3", "1", "1")
    before = executions(spark)
    rows.writeTo("lake.db.t").overwritePartitions()
    (write,) = of_nodes(metrics_since(spark, before), "Execute")
    assert (write["number of inserted rows"], write["number of deleted rows"]) == ("3", "3")
    before = executions(spark)
    with pytest.raises(PySparkException, match="NULL value"):
        spark.range(1).selectExpr("CAST(NULL AS BIGINT) AS id", "'x' AS kind").writeTo("lake.db.t").append()
    assert [name for name, _ in metrics_since(spark, before) if name.startswith("AppendData")]
    assert not any(shown.get("number of inserted rows", "0") != "0" for _, shown in metrics_since(spark, before))


def test_the_time_of_planning_is_shown_once_where_a_statement_reads_a_plan_twice(shown: Callable[[str], Metrics], lake: SqlCatalog) -> None:
    partitioned(lake)
    scans = of_nodes(shown("SELECT count(*) FROM lake.db.t a JOIN lake.db.t b ON a.kind = b.kind WHERE a.id > 2 AND b.id > 2"), "Scan")
    assert len(scans) == 2
    assert sorted(scan[PLANNING] == "0 ms" for scan in scans) == [False, True]


def test_a_frame_that_runs_again_shows_the_numbers_of_its_plan_again(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    partitioned(lake)
    frame = spark.table("lake.db.t").where("id < 15").groupBy("kind").count()
    shown = []
    for _ in range(2):
        before = executions(spark)
        frame.collect()
        shown += of_nodes(metrics_since(spark, before), "Scan")
    assert [scan["number of result data files"] for scan in shown] == ["4", "4"]
    assert [scan["number of data files skipped by column statistics"] for scan in shown] == ["4", "4"]
    assert [scan[PLANNING] == "0 ms" for scan in shown] == [False, True]


def test_a_plan_that_runs_after_thousands_of_others_were_made_shows_its_numbers(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    partitioned(lake)
    frame = spark.table("lake.db.t").where("id < 15")
    jvm, others = spark._jvm, frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    for _ in range(11):
        children = jvm.java.util.ArrayList([others.clone(), others.clone()])
        others = jvm.org.apache.spark.sql.execution.UnionExec(jvm.PythonUtils.toSeq(children))
    rules = spark._jsparkSession.sessionState().columnarRules()
    (rule,) = (found for found in map(rules.apply, range(rules.size())) if found.getClass().getName().startswith("icefloe."))
    rule.postColumnarTransitions().apply(others)
    assert others.collectLeaves().last().metrics().contains("result-data-files")
    before = executions(spark)
    frame.collect()
    (scan,) = of_nodes(metrics_since(spark, before), "Scan")
    assert (scan["number of result data files"], scan["number of data files skipped by column statistics"]) == ("4", "4")
    assert scan[PLANNING] != "0 ms"


def test_a_scan_by_spark_shows_the_plan_rather_than_rows_of_python_that_spark_converts(
    shown: Callable[[str], Metrics], lake: SqlCatalog
) -> None:
    struct = pa.struct([("a", pa.int32())])
    rows = pa.table({"id": [1], "s": pa.array([{"a": 1}], struct)})
    table = lake.create_table("db.t", rows.schema, properties={"write.format.default": "avro"})
    table.append(rows)
    table.set_properties({"write.format.default": "parquet"})
    table.append(rows)
    (scan,) = of_nodes(shown("SELECT * FROM lake.db.t"), "Scan parquet")
    assert (scan["number of result data files"], scan["number of files read"]) == ("2", "1")


def test_a_write_in_a_transaction_shows_no_commit(shown: Callable[[str], Metrics], lake: SqlCatalog) -> None:
    partitioned(lake)
    (write,) = of_nodes(shown("CREATE TABLE lake.db.copy AS SELECT id FROM lake.db.t"), "AppendData")
    assert write["number of inserted rows"] == "40"
    assert not any("commit" in name for name in write)


def test_markup_in_names_of_tables_is_no_markup_of_the_page(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    name = "<img src=x onerror=alert(1)>"
    table = lake.create_table(("db", name), pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.set_properties({"write.format.default": "avro"})
    table.append(pa.table({"id": [2]}))
    before = executions(spark)
    sql(f"SELECT sum(id) FROM lake.db.`{name}`")
    names = [node for node, _ in metrics_since(spark, before) if "onerror" in node]
    assert sorted(names) == [
        "BatchScan lake.db.&lt;img src=x onerror=alert(1)&gt;",
        "Scan parquet lake.db.&lt;img src=x onerror=alert(1)&gt;",
    ]
    other = lake.create_table(("db", f"{name} b"), pa.schema([("id", pa.int64())]), partition_spec=["bucket(2, id)"])
    other.append(pa.table({"id": range(9)}))
    settings = {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.iceberg.planning.preserve-data-grouping": "true"}
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        plan = spark.sql(f"SELECT id, count(*) FROM lake.db.`{name} b` GROUP BY id")._jdf.queryExecution().sparkPlan()
    finally:
        for setting in settings:
            spark.conf.unset(setting)
    assert plan.collectLeaves().head().nodeName() == "BatchScan lake.db.&lt;img src=x onerror=alert(1)&gt; b"
