"""Writes by SQL and DataFrames: every method, and the options of writes."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.combinations import combinations, repetitions
from tests.named_case import named
from tests.spark.sql.conftest import InsertOfSome, Run, append, stored

from icefloe import SqlCatalog
from icefloe.errors import CommitInvalidatedError
from icefloe.table.table import Table

pytestmark = pytest.mark.spark

CREATE = "CREATE TABLE lake.db.t (id BIGINT, kind STRING, v DOUBLE) USING iceberg PARTITIONED BY (kind)"
TABLE = "lake.db.t"


@pytest.fixture
def table(sql: Run, lake: SqlCatalog) -> Table:
    """Rows 1 to 3 of the kinds a, b and c."""
    sql(CREATE)
    append(lake, [(1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)])
    return lake.load_table("db.t")


def frame(spark: SparkSession, *rows: tuple[Any, ...], schema: str = "id BIGINT, kind STRING, v DOUBLE") -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def content(lake: SqlCatalog) -> list[tuple[Any, ...]]:
    return stored(lake, "id", "kind")


def test_rows_are_inserted_by_position_and_by_name(sql: Run, lake: SqlCatalog, insert_of_some: InsertOfSome, table: Table) -> None:
    by_name = "INSERT INTO lake.db.t BY NAME SELECT 'd' AS kind, 4L AS id"
    insert_of_some(by_name, f"{by_name}, NULL AS v")
    insert_of_some("INSERT INTO lake.db.t (kind, id) VALUES ('e', 5)", "INSERT INTO lake.db.t (kind, v, id) VALUES ('e', NULL, 5)")
    sql("INSERT INTO lake.db.t PARTITION (kind = 'f') VALUES (6, 6)")
    assert content(lake)[3:] == [(4, "d"), (5, "e"), (6, "f")]
    assert sql("SELECT v FROM lake.db.t WHERE id > 3 ORDER BY id") == [(None,), (None,), (6.0,)]
    table.refresh()
    assert [snapshot.operation for snapshot in table.snapshots()] == ["append"] * 4


@pytest.mark.parametrize("conf", ["static", "dynamic"])
def test_insert_overwrite_replaces_the_table_or_the_partitions_of_its_rows(
    spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table, conf: str
) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", conf)
    try:
        sql("INSERT OVERWRITE lake.db.t VALUES (10, 'a', 1)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert content(lake) == ([(10, "a")] if conf == "static" else [(2, "b"), (3, "c"), (10, "a")])
    assert table.refresh().snapshots()[-1].operation == "overwrite"


def test_overwrite_by_a_condition_replaces_the_matching_rows(sql: Run, lake: SqlCatalog, table: Table) -> None:
    sql("INSERT INTO lake.db.t REPLACE WHERE kind IN ('a', 'b') SELECT 10, 'b', 1D")
    assert content(lake) == [(3, "c"), (10, "b")]
    sql("TRUNCATE TABLE lake.db.t")
    assert content(lake) == []
    assert len(table.refresh().snapshots()) == 3


VERBS: dict[str, tuple[Callable[[DataFrame], Any], list[tuple[int, str]]]] = {
    "append": (lambda df: df.writeTo(TABLE).append(), [(1, "a"), (2, "b"), (3, "c"), (10, "a")]),
    "partitions": (lambda df: df.writeTo(TABLE).overwritePartitions(), [(2, "b"), (3, "c"), (10, "a")]),
    "condition": (lambda df: df.writeTo(TABLE).overwrite(F.col("id") > 1), [(1, "a"), (10, "a")]),
    "everything": (lambda df: df.writeTo(TABLE).overwrite(F.lit(True)), [(10, "a")]),
    "dynamic option": (lambda df: df.write.mode("overwrite").option("overwrite-mode", "dynamic").insertInto(TABLE), [(2, "b"), (3, "c"), (10, "a")]),
    "insertInto": (lambda df: df.write.insertInto(TABLE), [(1, "a"), (2, "b"), (3, "c"), (10, "a")]),
    "insertInto over": (lambda df: df.write.insertInto(TABLE, overwrite=True), [(10, "a")]),
    "saveAsTable append": (lambda df: df.write.mode("append").saveAsTable(TABLE), [(1, "a"), (2, "b"), (3, "c"), (10, "a")]),
    "saveAsTable ignore": (lambda df: df.write.mode("ignore").saveAsTable(TABLE), [(1, "a"), (2, "b"), (3, "c")]),
    "saveAsTable over": (lambda df: df.write.mode("overwrite").saveAsTable(TABLE), [(10, "a")]),
    "replace": (lambda df: df.writeTo(TABLE).using("iceberg").option("write-format", "avro").replace(), [(10, "a")]),
}  # fmt: skip


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("verb", repetitions(list(VERBS), *(verb for verb in VERBS if verb not in ("insertInto", "saveAsTable append"))))
def test_every_write_method_of_a_dataframe_writes_its_rows(spark: SparkSession, sql: Run, lake: SqlCatalog, verb: str) -> None:
    write, wanted = VERBS[verb]
    write(frame(spark, (10, "a", 1.0)))
    assert content(lake) == wanted


def test_a_table_without_partitions_is_one_partition(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, kind STRING) USING iceberg")
    append(lake, [(1, "a")])
    spark.sql("SELECT 2L AS id, 'b' AS kind").writeTo(TABLE).overwritePartitions()
    assert content(lake) == [(2, "b")]


def test_options_apply_to_one_write_only(spark: SparkSession, sql: Run, table: Table) -> None:
    rows = spark.range(0, 3000, 1, 1).selectExpr("id", "'a' AS kind", "rand(1) AS v")
    write = rows.writeTo(TABLE).option("compression-codec", "gzip").option("snapshot-property.Reason", "why not")
    write.option("target-file-size-bytes", "10000").option("DISTRIBUTION-MODE", "none").append()
    added = [task.file for task in table.refresh().scan("id >= 10").plan_files()]
    assert len(added) > 1
    assert pq.read_metadata(added[0].file_path).row_group(0).column(0).compression == "GZIP"
    assert table.snapshots()[-1].summary["Reason"] == "why not"
    frame(spark, (10_000, "d", 1.0)).writeTo(TABLE).option("write-format", "orc").append()
    assert sorted(sql("SELECT file_format, count(*) FROM lake.db.t.files WHERE partition.kind <> 'a' GROUP BY 1")) == [
        ("ORC", 1),
        ("PARQUET", 2),
    ]
    assert not [name for name in table.refresh().properties if name.startswith("write.target")]


def test_session_settings_apply_without_an_option(spark: SparkSession, table: Table) -> None:
    settings = {"compression-codec": "snappy", "snapshot-property.team": "blue"}
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.iceberg.{name}", value)
    try:
        frame(spark, (10, "x", 1.0)).writeTo(TABLE).append()
        frame(spark, (11, "y", 1.0)).writeTo(TABLE).option("compression-codec", "uncompressed").option(
            "snapshot-property.team", "red"
        ).append()
    finally:
        for name in settings:
            spark.conf.unset(f"spark.sql.iceberg.{name}")
    codecs = [
        pq.read_metadata(task.file.file_path).row_group(0).column(0).compression
        for kind in "xy"
        for task in table.refresh().scan(f"kind = '{kind}'").plan_files()
    ]
    assert codecs == ["SNAPPY", "UNCOMPRESSED"]
    assert [snapshot.summary["team"] for snapshot in table.snapshots()[-2:]] == ["blue", "red"]


WRONG = [
    ("write-format", "csv", "write-format is 'csv', which is not one of parquet, avro, orc"),
    ("target-file-size-bytes", "big", "target-file-size-bytes is 'big'"),
    ("distribution-mode", "round", "one of none, hash, range"),
    ("fanout-enabled", "perhaps", "true or false"),
    ("overwrite-mode", "all", "one of static, dynamic"),
    ("isolation-level", "none", "one of serializable, snapshot"),
    ("output-spec-id", "7", "not one of the table's: 0"),
    ("validate-from-snapshot-id", "5", "validate-from-snapshot-id is '5'"),
    ("compression-strategy", "speed", "not an option of parquet files"),
    ("compression-level", "99", "zstd has levels"),
    ("compresion-codec", "zstd", "write 'compression-codec'"),
    ("snapshot-id", "1", "give the option branch"),
    ("branch", "nowhere", "has no branch 'nowhere'"),
    ("delete-granularity", "file", "set the table property write.delete.granularity"),
]


def test_wrong_options_are_named_and_nothing_is_written(spark: SparkSession, table: Table) -> None:
    rows = frame(spark, (10, "a", 1.0))
    for name, value, words in WRONG:
        with named(name), pytest.raises(Exception, match=re.escape(words)):
            rows.writeTo(TABLE).option(name, value).append()
        assert len(table.refresh().snapshots()) == 1, name


def test_options_of_other_data_sources_are_ignored(spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table) -> None:
    frame(spark, (10, "a", 1.0)).writeTo(TABLE).option("header", "true").option("my.own", "1").append()
    assert content(lake)[-1] == (10, "a")
    assert len(table.refresh().snapshots()) == 2


def test_branches_are_written_by_option_and_by_name(spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table) -> None:
    table.manage_snapshots().create_branch(table.snapshots()[-1].snapshot_id, "audit").commit()
    frame(spark, (10, "a", 1.0)).writeTo(TABLE).option("branch", "audit").append()
    sql("INSERT INTO lake.db.t.branch_audit VALUES (11, 'b', 1)")
    assert sorted(sql("SELECT id FROM lake.db.t.branch_audit WHERE id > 9")) == [(10,), (11,)]
    assert len(content(lake)) == 3
    with pytest.raises(Exception, match="named with the branch 'audit'"):
        frame(spark, (12, "a", 1.0)).writeTo(f"{TABLE}.branch_audit").option("branch", "other").append()


def test_writes_are_staged_by_the_settings_of_the_session(spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table) -> None:
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.id", "nightly")
    try:
        sql("INSERT INTO lake.db.t VALUES (10, 'a', 1)")
        assert len(content(lake)) == 3
    finally:
        spark.conf.unset("spark.wap.id")
    assert table.refresh().snapshots()[-1].summary["wap.id"] == "nightly"
    spark.conf.set("spark.wap.branch", "audit")
    try:
        sql("INSERT INTO lake.db.t VALUES (11, 'a', 1)")
        assert content(lake)[-1] == (11, "a")
    finally:
        spark.conf.unset("spark.wap.branch")
    assert len(content(lake)) == 3


@pytest.mark.parametrize("named", repetitions(["x", "main"], "main"))
def test_a_named_branch_overrides_the_session_s_branch(spark: SparkSession, sql: Run, lake: SqlCatalog, named: str) -> None:
    sql("CREATE TABLE lake.db.w (id BIGINT) USING iceberg TBLPROPERTIES ('write.wap.enabled' = 'true')")
    append(lake, [(0,)], "db.w")
    lake.load_table("db.w").manage_snapshots().create_branch(branch_name="x").commit()
    target = f"lake.db.w.branch_{named}"
    spark.conf.set("spark.wap.branch", "audit")
    try:
        sql(f"INSERT INTO {target} VALUES (1), (2), (3), (4)")
        sql(f"UPDATE {target} SET id = 11 WHERE id = 1")
        sql(f"DELETE FROM {target} WHERE id IN (SELECT 2L)")
        sql(f"DELETE FROM {target} WHERE id = 0")
        sql(f"MERGE INTO {target} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 13")
        spark.range(5, 6).writeTo("lake.db.w").option("branch", named).append()
        assert sorted(sql(f"SELECT id FROM {target}")) == [(4,), (5,), (11,), (13,)]
        assert [row.id for row in spark.read.option("branch", named).table(target).orderBy("id").collect()] == [4, 5, 11, 13]
        assert "audit" not in lake.load_table("db.w").refs()
        sql("INSERT INTO lake.db.w VALUES (6)")
        assert "audit" in lake.load_table("db.w").refs()
    finally:
        spark.conf.unset("spark.wap.branch")


def test_the_main_branch_of_a_table_without_snapshots_is_read_and_written(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.m (id BIGINT) USING iceberg")
    main = "lake.db.m.branch_main"
    sql(f"DELETE FROM {main} WHERE id IN (1)")
    sql(f"UPDATE {main} SET id = 2 WHERE id = 1")
    assert sql(f"SELECT * FROM {main}") == spark.read.option("branch", "main").table("lake.db.m").collect() == []
    with pytest.raises(Exception, match="has no branch or tag 'test'"):
        sql("DELETE FROM lake.db.m.branch_test WHERE id IN (1)")
    spark.range(1, 2).writeTo(main).append()
    sql(f"INSERT INTO {main} VALUES (2)")
    assert sorted(sql(f"SELECT id FROM {main}")) == [(1,), (2,)]
    assert list(lake.load_table("db.m").refs()) == ["main"]


def test_an_option_writes_an_older_partition_spec(spark: SparkSession, table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]")
    frame(spark, (10, "a", 1.0)).writeTo(TABLE).option("output-spec-id", "0").append()
    frame(spark, (11, "a", 1.0)).writeTo(TABLE).append()
    specs = {task.file.record_count and task.file.spec_id for task in table.refresh().scan("id = 10").plan_files()}
    assert specs == {0}
    assert {task.file.spec_id for task in table.scan("id = 11 and v = 1.0").plan_files() if task.file.spec_id} == {1}


ISOLATION = [("snapshot", "append", False), ("serializable", "append", True), ("snapshot", "delete", True), (None, "delete", False)]


@pytest.mark.parametrize(("isolation", "verb"), combinations(ISOLATION, ["partitions", "condition"]))
def test_the_isolation_level_determines_which_concurrent_commits_are_allowed(
    spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table, verb: str, isolation: tuple[str | None, str, bool]
) -> None:
    level, other, fails = isolation
    append(lake, [(5, "a", 5.0)])
    since = str(table.refresh().snapshots()[-1].snapshot_id)
    append(lake, [(6, "b", 6.0)])  # of another partition: no conflict
    if other == "append":
        append(lake, [(4, "a", 4.0)])
    else:
        table.refresh().delete("id = 5")
    write = frame(spark, (10, "a", 1.0)).writeTo(TABLE).option("validate-from-snapshot-id", since)
    if level is not None:
        write = write.option("isolation-level", level)
    run = write.overwritePartitions if verb == "partitions" else lambda: write.overwrite(F.col("kind") == "a")
    if fails:
        with pytest.raises(PySparkException, match="rows") as raised:
            run()
        origin = raised.value._origin
        assert origin.getClass().getName() == "org.apache.iceberg.exceptions.ValidationException"
        assert (10, "a") not in content(lake)
    else:
        run()
        assert [row for row in content(lake) if row[1] == "a"] == [(10, "a")]


def test_the_isolation_level_is_an_argument_in_python(spark: SparkSession, table: Table) -> None:
    since = table.snapshots()[-1].snapshot_id
    rows = frame(spark, (10, "a", 1.0))
    table.append(rows)
    with pytest.raises(CommitInvalidatedError):
        table.overwrite(rows, "kind = 'a'", isolation_level="serializable", validate_from_snapshot_id=since)
    table.overwrite(rows, "kind = 'b'", isolation_level="serializable", validate_from_snapshot_id=since)
    with pytest.raises(CommitInvalidatedError):
        table.dynamic_partition_overwrite(rows, isolation_level="serializable", validate_from_snapshot_id=since)


def test_columns_are_merged_in_the_commit_of_the_rows(spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table) -> None:
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    before = len(table.refresh().metadata.metadata_log)
    rows = frame(spark, (10, "a", 1.0, "new"), schema="ID BIGINT, kind STRING, v DOUBLE, extra STRING")
    with pytest.raises(Exception, match="extra: is not a column of the table"):
        rows.writeTo(TABLE).append()
    rows.writeTo(TABLE).option("mergeSchema", "true").append()
    assert len(table.refresh().metadata.metadata_log) == before + 1
    assert table.schema().names == ["id", "kind", "v", "extra"]
    assert sorted(sql("SELECT id, extra FROM lake.db.t")) == [(1, None), (2, None), (3, None), (10, "new")]
    wider = frame(spark, (11, "a", "x", 1.0), schema="id BIGINT, kind STRING, extra STRING, w DOUBLE")
    wider.writeTo(TABLE).option("merge-schema", "true").overwritePartitions()
    assert content(lake) == [(2, "b"), (3, "c"), (11, "a")]
    with pytest.raises(Exception, match="in the order w, id, the table's in id, w"):
        wider.select("w", "id").writeTo(TABLE).append()
    wider.select("w", "id").writeTo(TABLE).option("check-ordering", "false").append()
    with pytest.raises(Exception, match=r"(?s)kind.*int.*string|string.*int"):
        frame(spark, (1, 2), schema="id BIGINT, kind INT").writeTo(TABLE).option("mergeSchema", "true").append()
    assert len(content(lake)) == 4


def test_columns_inside_columns_are_merged_without_regard_to_case(spark: SparkSession, sql: Run, table: Table) -> None:
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    sql("ALTER TABLE lake.db.t ADD COLUMN s ARRAY<STRUCT<a: INT, in: MAP<STRUCT<k: INT>, STRUCT<b: INT>>>>")
    rows = spark.sql(
        "SELECT 9L AS ID, 'a' AS kind, 1D AS V, array(named_struct('A', 5, 'IN', map(named_struct('K', 6), named_struct('B', 7, 'new', 8)))) AS S"
    )
    rows.writeTo(TABLE).option("merge-schema", "true").append()
    inner = "array<struct<a:int,in:map<struct<k:int>,struct<b:int,new:int>>>>"
    assert spark.table(TABLE).schema["s"].dataType.simpleString() == inner
    rows.withColumn("id", rows.ID + 1).writeTo(TABLE).append()
    query = "SELECT id, s[0].a, map_keys(s[0].in)[0].k, map_values(s[0].in)[0].b, s[0].in[named_struct('k', 6)].new FROM lake.db.t WHERE id > 8 ORDER BY id"
    assert sql(query) == [(9, 5, 6, 7, 8), (10, 5, 6, 7, 8)]


def test_columns_are_merged_by_the_settings_of_the_session_that_writes(spark: SparkSession, sql: Run, table: Table) -> None:
    """A copy of a session, as in `foreachBatch`, has the same catalogs and its own settings."""
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    rows = copy.createDataFrame([(10, "a")], "ID BIGINT, kind STRING")
    rows.writeTo(TABLE).option("merge-schema", "true").option("check-ordering", "false").append()
    assert table.refresh().schema().names == ["id", "kind", "v"]
    copy.conf.set("spark.sql.caseSensitive", "true")
    rows.writeTo(TABLE).option("merge-schema", "true").option("check-ordering", "false").append()
    assert table.refresh().schema().names == ["id", "kind", "v", "ID"]
    found = copy.sql("SELECT id, ID, kind FROM lake.db.t WHERE kind = 'a' ORDER BY id NULLS FIRST").collect()
    assert [tuple(row) for row in found] == [(None, 10, "a"), (1, None, "a"), (10, None, "a")]


def test_a_merge_that_fails_in_a_task_adds_no_column(spark: SparkSession, sql: Run, table: Table) -> None:
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    rows = frame(spark, (10, "a", 1.0)).selectExpr("id", "kind", "v", "raise_error('no such luck') AS extra")
    with pytest.raises(Exception, match="no such luck"):
        rows.selectExpr("id", "kind", "v", "cast(extra AS STRING) AS extra").writeTo(TABLE).option("mergeSchema", "true").append()
    assert "extra" not in table.refresh().schema().names


def test_nulls_in_required_columns_are_refused(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, kind STRING) USING iceberg")
    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        sql("INSERT INTO lake.db.t VALUES (null, 'a')")
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    rows = spark.createDataFrame([(None, "a")], "id BIGINT, kind STRING")
    with pytest.raises(Exception, match="id: may be null, and the table requires it"):
        rows.writeTo(TABLE).append()
    with pytest.raises(Exception, match=r"(?s)id.*null"):
        rows.writeTo(TABLE).option("check-nullability", "false").append()
    rows.where("false").writeTo(TABLE).option("check-nullability", "false").append()
    assert content(lake) == []
    assert lake.load_table("db.t").scan().plan_files() == []


def test_rows_are_written_in_the_table_s_sort_order_unless_it_is_turned_off(spark: SparkSession, table: Table) -> None:
    with table.update_sort_order() as update:
        update.desc("id")
    rows = spark.range(100, 400, 1, 2).selectExpr("id", "'s' AS kind", "0D AS v")
    rows.writeTo(TABLE).append()
    rows.selectExpr("id", "'u' AS kind", "v").writeTo(TABLE).option("use-table-distribution-and-ordering", "false").append()
    table.refresh()

    def ids(kind: str) -> list[list[int]]:
        return [pq.read_table(task.file.file_path)["id"].to_pylist() for task in table.scan(f"kind = '{kind}'").plan_files()]

    assert [one == sorted(one, reverse=True) for one in ids("s")] == [True] * len(ids("s"))
    assert [one == sorted(one) for one in ids("u")] == [True] * 2
    assert {task.file.sort_order_id for task in table.scan("kind = 's'").plan_files()} == {1}
    assert {task.file.sort_order_id for task in table.scan("kind = 'u'").plan_files()} == {0}


def test_the_advisory_partition_size_splits_a_partition_into_more_files(spark: SparkSession, table: Table) -> None:
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id", "concat('p', pmod(id, 2)) AS kind", "rand(1) AS v")
    rows.writeTo(TABLE).append()
    few = len(list(table.refresh().scan("kind like 'p%'").plan_files()))
    rows.selectExpr("id", "concat('q', kind) AS kind", "v").writeTo(TABLE).option("advisory-partition-size", "30000").append()
    assert len(list(table.refresh().scan("kind like 'q%'").plan_files())) > few
    assert "30000" not in str(spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes"))


def test_a_dynamic_overwrite_without_rows_changes_nothing(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.whole (id BIGINT) USING iceberg")
    sql("CREATE TABLE lake.db.parts (id BIGINT) USING iceberg PARTITIONED BY (id)")
    for name in ("whole", "parts"):
        append(lake, [(1,), (2,)], f"db.{name}")
        spark.table(f"lake.db.{name}").where("id > 5").writeTo(f"lake.db.{name}").overwritePartitions()
        assert stored(lake, "id", name=f"db.{name}") == [(1,), (2,)]
        spark.table(f"lake.db.{name}").where("id = 2").writeTo(f"lake.db.{name}").overwritePartitions()
    assert stored(lake, "id", name="db.whole") == [(2,)]
    assert stored(lake, "id", name="db.parts") == [(1,), (2,)]


def test_the_query_of_a_dynamic_overwrite_runs_once(spark: SparkSession, sql: Run) -> None:
    sql("CREATE TABLE lake.db.parts (id BIGINT, drawn DOUBLE) USING iceberg PARTITIONED BY (id)")
    twice = "WITH once AS (SELECT id, rand() AS drawn FROM range(3)) SELECT a.id, b.drawn FROM once a JOIN once b ON a.id = b.id AND a.drawn = b.drawn"
    spark.sql(twice).writeTo("lake.db.parts").overwritePartitions()
    assert sorted(sql("SELECT id FROM lake.db.parts")) == [(0,), (1,), (2,)]
    most = "(SELECT max(id) FROM lake.db.parts)"
    spark.sql(f"SELECT id, 7D AS drawn FROM range(3) WHERE id = {most} OR id + 1 = {most}").writeTo("lake.db.parts").overwritePartitions()
    assert sorted(sql("SELECT id FROM lake.db.parts WHERE drawn = 7")) == [(1,), (2,)]
