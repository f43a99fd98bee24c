"""UPDATE, MERGE and DELETE by Spark SQL: every clause, copy-on-write and merge-on-read, three format versions, branches, and refusals."""

from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, SparkRuntimeException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from tests.combinations import combinations, repetitions
from tests.spark.sql.conftest import Run, append, create, stored

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

FORMS = [(1, "copy-on-write"), *product((2, 3), ("copy-on-write", "merge-on-read"))]


def made(lake: SqlCatalog, version: int, mode: str, *, partitioned: bool = True, **more: str) -> None:
    """The table `lake.db.t` with ids 0 to 9 in two partitions."""
    properties = {"format_version": str(version), **{f"write.{command}.mode": mode for command in ("delete", "update", "merge")}, **more}
    columns = "id BIGINT, kind STRING, v DOUBLE, s STRUCT<a: INT, b: ARRAY<STRING>>"
    create(lake, columns, partition=["kind"] if partitioned else (), **properties)
    append(lake, [(number, "ab"[number % 2], number / 2, {"a": number, "b": ["x"]}) for number in range(10)])


def row_ids(lake: SqlCatalog) -> dict[Any, Any]:
    return dict(stored(lake, "id", "_row_id"))


@pytest.mark.parametrize(("version", "mode"), repetitions(FORMS, (3, "merge-on-read")))
def test_update_sets_columns_and_members_of_structs(sql: Run, lake: SqlCatalog, version: int, mode: str) -> None:
    made(lake, version, mode)
    before = row_ids(lake)
    sql("UPDATE lake.db.t SET s.a = s.a + 100, kind = 'c' WHERE v < 1 OR id IN (SELECT max(id) FROM lake.db.t)")
    assert sorted(sql("SELECT id, kind, v, s.a, s.b FROM lake.db.t WHERE kind = 'c'")) == [
        (0, "c", 0.0, 100, ["x"]),
        (1, "c", 0.5, 101, ["x"]),
        (9, "c", 4.5, 109, ["x"]),
    ]
    rows = stored(lake, "id", "s")
    assert (len(rows), sum(members["a"] for _, members in rows)) == (10, 345)
    assert row_ids(lake) == before  # nulls before version 3
    summary = lake.load_table("db.t").current_snapshot().summary
    assert summary["operation"] == "overwrite"
    assert ("added-delete-files" in summary) == (mode == "merge-on-read")
    assert summary.get("added-dvs") == ("2" if version == 3 and mode == "merge-on-read" else None)


@pytest.mark.parametrize(("version", "mode"), repetitions(FORMS, (1, "copy-on-write")))
def test_delete_by_a_subquery(sql: Run, lake: SqlCatalog, version: int, mode: str) -> None:
    made(lake, version, mode)
    before = row_ids(lake)
    sql("DELETE FROM lake.db.t WHERE id NOT IN (SELECT id + 1 FROM lake.db.t WHERE id < 6)")
    assert stored(lake, "id") == [(1,), (2,), (3,), (4,), (5,), (6,)]
    assert row_ids(lake).items() <= before.items()
    assert lake.load_table("db.t").current_snapshot().summary["total-delete-files"] == ("0" if mode == "copy-on-write" else "2")


@pytest.mark.parametrize(("version", "mode"), repetitions(FORMS, (2, "merge-on-read")))
def test_a_subquery_used_several_times_has_one_value(sql: Run, lake: SqlCatalog, version: int, mode: str) -> None:
    made(lake, version, mode)
    most = "(SELECT max(id) FROM lake.db.t)"
    sql(f"UPDATE lake.db.t SET s.a = {most} WHERE id = {most} OR v = {most} / 4")
    assert [number for number, members in stored(lake, "id", "s") if members["a"] == 9] == [9]
    sql(f"DELETE FROM lake.db.t WHERE id = {most} OR id < {most} - 5")
    assert stored(lake, "id") == [(4,), (5,), (6,), (7,), (8,)]


@pytest.mark.parametrize(("version", "mode"), repetitions(FORMS, (3, "merge-on-read")))
def test_merge_with_every_clause(sql: Run, lake: SqlCatalog, version: int, mode: str) -> None:
    made(lake, version, mode, partitioned=version != 3)
    before = row_ids(lake)
    sql("""MERGE INTO lake.db.t t USING (SELECT id, 'new' AS kind, -1D AS v, CAST(NULL AS STRUCT<a: INT, b: ARRAY<STRING>>) AS s FROM range(4, 14)) s
           ON t.id = s.id
           WHEN MATCHED AND t.id = 4 THEN DELETE
           WHEN MATCHED AND t.id = 5 THEN UPDATE SET v = t.v * 10, s.a = NULL
           WHEN MATCHED AND t.id < 8 THEN UPDATE SET *
           WHEN NOT MATCHED AND s.id = 10 THEN INSERT (id, v) VALUES (s.id, 77)
           WHEN NOT MATCHED AND s.id < 13 THEN INSERT *
           WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE
           WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET kind = 'left'""")
    assert sorted(sql("SELECT id, kind, v, s.a FROM lake.db.t")) == [
        (1, "left", 0.5, 1),
        (2, "a", 1.0, 2),
        (3, "b", 1.5, 3),
        (5, "b", 25.0, None),
        (6, "new", -1.0, None),
        (7, "new", -1.0, None),
        (8, "a", 4.0, 8),
        (9, "b", 4.5, 9),
        (10, None, 77.0, None),
        (11, "new", -1.0, None),
        (12, "new", -1.0, None),
    ]
    after = row_ids(lake)
    assert {key: value for key, value in after.items() if key < 10} == {key: before[key] for key in (1, 2, 3, 5, 6, 7, 8, 9)}
    if version == 3:
        assert len(set(after.values())) == len(after)
        assert dict(sql("SELECT id, _last_updated_sequence_number FROM lake.db.t WHERE id < 10")) == {  # type: ignore[arg-type]
            **dict.fromkeys((2, 3, 8, 9), 1),
            **dict.fromkeys((1, 5, 6, 7), 2),
        }


@pytest.mark.slow
def test_a_row_that_matches_several_source_rows_is_refused_with_the_error_of_spark(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read")
    before = lake.load_table("db.t").metadata_location
    with pytest.raises(SparkRuntimeException, match="MERGE_CARDINALITY_VIOLATION"):
        sql("MERGE INTO lake.db.t t USING (SELECT 3 AS id FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 0")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("UPDATE lake.db.t SET nothing = 1")
    assert lake.load_table("db.t").metadata_location == before


def test_statements_that_change_no_row_make_no_snapshot(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "copy-on-write")
    before = lake.load_table("db.t").metadata_location
    sql("UPDATE lake.db.t SET v = 1 WHERE id > 1000")
    sql("DELETE FROM lake.db.t WHERE id IN (SELECT 1000)")
    sql("MERGE INTO lake.db.t t USING (SELECT 1000 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    sql("EXPLAIN UPDATE lake.db.t SET v = 1")
    assert lake.load_table("db.t").metadata_location == before


def test_deletes_of_whole_files_and_partitions_change_metadata_only(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read")
    paths = {task.file.file_path for task in lake.load_table("db.t").scan().plan_files()}
    sql("DELETE FROM lake.db.t WHERE kind = 'a'")
    append(lake, [(50, "c", 0.0, None)])
    sql("DELETE FROM lake.db.t WHERE id >= 50")  # by the bounds, every row of the file matches
    table = lake.load_table("db.t")
    first, second = table.snapshots()[1], table.snapshots()[-1]
    assert {task.file.file_path for task in table.scan().plan_files()} < paths
    for snapshot, rows in ((first, 5), (second, 1)):
        summary = snapshot.summary
        assert (summary["operation"], summary["deleted-data-files"], summary["deleted-records"]) == ("delete", "1", str(rows))
        assert not {"added-data-files", "added-delete-files"} & set(summary)


@pytest.mark.parametrize(
    "condition",
    [pytest.param("length(kind) = 1 AND id % 2 = 0", marks=pytest.mark.slow), "upper(kind) = 'A'", "kind || 'x' <> 'bx' AND id >= 0"],
)
def test_a_partition_filter_without_an_iceberg_expression_deletes_rows(sql: Run, lake: SqlCatalog, condition: str) -> None:
    made(lake, 2, "copy-on-write")
    sql(f"DELETE FROM lake.db.t WHERE {condition}")
    assert stored(lake, "id") == [(1,), (3,), (5,), (7,), (9,)]


@pytest.mark.parametrize(("version", "mode"), repetitions(FORMS, (3, "copy-on-write"), (3, "merge-on-read")))
def test_updates_can_use_the_file_and_position_of_rows(sql: Run, lake: SqlCatalog, version: int, mode: str) -> None:
    made(lake, version, mode)
    before = row_ids(lake)
    sql("UPDATE lake.db.t SET v = _pos WHERE _file LIKE '%kind=a%' AND _pos > 1")
    assert stored(lake, "id", "v")[::2] == [(0, 0.0), (2, 1.0), (4, 2.0), (6, 3.0), (8, 4.0)]
    if version > 2:
        sql("UPDATE lake.db.t SET v = -1 WHERE _row_id >= 0")
        assert set(stored(lake, "v")) == {(-1.0,)}
    assert row_ids(lake) == before


def test_a_merge_that_uses_the_position_of_rows_is_refused(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read")
    with pytest.raises(UnsupportedOperationException, match="look for the keys of these rows in the source"):
        sql("MERGE INTO lake.db.t t USING (SELECT 1 AS id) s ON t.id = s.id AND t._pos >= 0 WHEN MATCHED THEN UPDATE SET v = 7")
    sql("MERGE INTO lake.db.t t USING (SELECT id FROM lake.db.t WHERE _pos = 0) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 7")
    assert [number for number, v in stored(lake, "id", "v") if v == 7] == [0, 1]


def test_a_file_without_remaining_rows_is_removed(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 3, "merge-on-read")
    sql("DELETE FROM lake.db.t WHERE id IN (SELECT id FROM lake.db.t WHERE kind = 'a')")
    summary = lake.load_table("db.t").current_snapshot().summary
    assert (summary["operation"], summary["deleted-data-files"], summary["total-delete-files"]) == ("delete", "1", "0")


def test_changing_a_branch_changes_no_other(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read")
    lake.load_table("db.t").manage_snapshots().create_branch(branch_name="b").commit()
    sql("UPDATE lake.db.t.branch_b SET v = -1 WHERE id = 3")
    sql("DELETE FROM lake.db.t.branch_b WHERE id IN (SELECT 4)")
    sql("MERGE INTO lake.db.t.branch_b t USING (SELECT 5 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = -2")
    assert sorted(sql("SELECT id, v FROM lake.db.t.branch_b WHERE id IN (3, 4, 5)")) == [(3, -1.0), (5, -2.0)]
    assert sum(v for _, v in stored(lake, "id", "v")) == 22.5


def test_changing_a_tag_is_refused(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read")
    lake.load_table("db.t").manage_snapshots().create_tag(tag_name="x").commit()
    with pytest.raises(IllegalArgumentException, match="takes no writes"):
        sql("UPDATE lake.db.t.tag_x SET v = -1 WHERE id = 3")


def test_merge_on_read_in_version_1_is_refused(sql: Run, lake: SqlCatalog) -> None:
    made(lake, 1, "merge-on-read")
    with pytest.raises(
        UnsupportedOperationException, match=r"(?s)format version 1.*write.update.mode.*SET TBLPROPERTIES \('format-version' = '2'\)"
    ):
        sql("UPDATE lake.db.t SET v = 1 WHERE id = 1")
    with pytest.raises(UnsupportedOperationException, match=r"write.delete.mode is merge-on-read"):
        sql("DELETE FROM lake.db.t WHERE id IN (SELECT 1)")
    sql("DELETE FROM lake.db.t WHERE kind = 'a'")
    assert len(stored(lake, "id")) == 5


def test_columns_with_names_of_metadata_columns_are_refused(sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, _pos BIGINT) USING iceberg")
    with pytest.raises(UnsupportedOperationException, match=r"(?s)columns of its own called _pos.*RENAME COLUMN"):
        sql("UPDATE lake.db.t SET id = 1")


@pytest.mark.slow
def test_merge_into_and_data_frames(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, 3, "merge-on-read")
    source = spark.sql("SELECT id AS other, 9D AS v FROM range(8, 12)")
    merging = source.alias("s").mergeInto("lake.db.t", F.expr("s.other = t.id"))
    merging.whenMatched().update({"v": F.expr("s.v")}).whenNotMatched().insert({"id": F.expr("s.other")}).merge()
    assert stored(lake, "id", "v")[7:] == [(7, 3.5), (8, 9.0), (9, 9.0), (10, None), (11, None)]


def test_updated_rows_are_distributed_and_sorted_by_the_table_s_properties(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read")
    table = lake.load_table("db.t")
    with table.update_sort_order() as update:
        update.desc("id")
    spark.range(2000).selectExpr("id", "CAST(id % 3 AS STRING) AS kind", "0D AS v", "NULL AS s").repartition(4).createOrReplaceTempView(
        "source"
    )
    sql("MERGE INTO lake.db.t t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    table.refresh()
    added = [task.file for task in table.scan().plan_files() if task.file.sort_order_id == table.metadata.default_sort_order_id]
    assert sum(file.record_count for file in added) == 2000
    ids = [number for file in added for number in pq.read_table(file.file_path.removeprefix("file://"))["id"].to_pylist()]
    places = [0, *(sum(file.record_count for file in added[: end + 1]) for end in range(len(added)))]
    for start, end in pairwise(places):
        assert ids[start:end] == sorted(ids[start:end], reverse=True)
    assert len(added) <= 12


def test_the_advisory_partition_size_splits_changed_rows_into_more_files(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("""CREATE TABLE lake.db.a (id BIGINT, kind STRING, v DOUBLE) USING iceberg PARTITIONED BY (kind)
           TBLPROPERTIES ('write.update.mode' = 'merge-on-read')""")
    chance = Random(1)
    for start in range(0, 20_000, 5_000):
        append(lake, [(number, f"p{number % 2}", chance.random()) for number in range(start, start + 5_000)], "db.a")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "40000")  # a task for each file: rows of one task stay together
    try:
        sql("UPDATE lake.db.a SET v = v + 1 WHERE id < 10000")
        sql("ALTER TABLE lake.db.a SET TBLPROPERTIES ('write.spark.advisory-partition-size-bytes' = '30000')")
        sql("UPDATE lake.db.a SET v = v + 1 WHERE id >= 10000")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    table = lake.load_table("db.a")
    assert [len(list(table.scan(where).plan_files())) for where in ("id < 10000", "id >= 10000")] == [2, 4]


def test_statements_use_the_settings_of_their_session(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, 2, "merge-on-read", partitioned=False)
    table = lake.load_table("db.t")
    settings = {"snapshot-property.who": "me", "compression-codec": "gzip"}
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.iceberg.{name}", value)
    try:
        for statement in (
            "UPDATE lake.db.t SET v = 0 WHERE id = 1",
            "MERGE INTO lake.db.t USING (SELECT 2L AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 0",
            "DELETE FROM lake.db.t WHERE id IN (SELECT 3)",
            "DELETE FROM lake.db.t WHERE id = 4",
            "TRUNCATE TABLE lake.db.t",
        ):
            sql(statement)
            assert table.refresh().current_snapshot().summary["who"] == "me", statement
            if statement.startswith(("UPDATE", "MERGE")):
                newest = max(table.scan().plan_files(), key=lambda task: task.sequence_number).file.file_path
                assert pq.ParquetFile(newest.removeprefix("file://")).metadata.row_group(0).column(0).compression == "GZIP"
    finally:
        for name in settings:
            spark.conf.unset(f"spark.sql.iceberg.{name}")
    append(lake, [(1, None, None, None)])
    sql("UPDATE lake.db.t SET v = 0")
    assert "who" not in table.refresh().current_snapshot().summary


def test_delete_files_have_the_table_s_granularity(sql: Run, lake: SqlCatalog) -> None:
    for granularity, expected in (("file", "2"), ("partition", "1")):
        made(lake, 2, "merge-on-read", partitioned=False, **{"write.delete.granularity": granularity})
        append(lake, [(number, None, None, None) for number in range(10, 20)])
        sql("UPDATE lake.db.t SET v = -1 WHERE id IN (SELECT id FROM range(1, 20, 9))")
        assert [number for number, v in stored(lake, "id", "v") if v == -1] == [1, 10, 19]
        files = {task.file.file_path for task in lake.load_table("db.t").scan().plan_files() if task.delete_files}
        assert len(files) >= 2
        assert lake.load_table("db.t").current_snapshot().summary["added-position-delete-files"] == (
            str(len(files)) if expected == "2" else "1"
        )
        sql("DROP TABLE lake.db.t")


@pytest.mark.parametrize(
    ("mode", "statement", "test"),
    combinations(
        ["copy-on-write", "merge-on-read"],
        ["DELETE FROM lake.db.t t", "UPDATE lake.db.t t SET v = -1"],
        ["lake.system.bucket(4, id) = 2", "lake.system.bucket(4, id) IN (1, 2)"],
    ),
)
def test_files_of_other_buckets_are_not_read(sql: Run, lake: SqlCatalog, tmp_path: Path, mode: str, statement: str, test: str) -> None:
    modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update"))
    sql(f"CREATE TABLE lake.db.t (id BIGINT, v BIGINT) PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ('format-version' = '2', {modes})")
    append(lake, [(number, 0) for number in range(40)])
    wanted = [row[0] for row in sql(f"SELECT id FROM lake.db.t WHERE {test}")]
    away = [path for (path,) in sql(f"SELECT DISTINCT _file FROM lake.db.t WHERE NOT {test}")]
    assert len(away) > 1
    for path in away:
        Path(path.removeprefix("file:")).rename(f"{path.removeprefix('file:')}.away")
    try:
        sql(f"{statement} WHERE {test} AND t.id IN (SELECT id FROM range(0, 40, 2))")
    finally:
        for path in away:
            Path(f"{path.removeprefix('file:')}.away").rename(path.removeprefix("file:"))
    changed = sorted(number for number in wanted if number % 2 == 0)
    assert changed
    left = dict(stored(lake, "id", "v"))
    assert left == {number: -1 if number in changed else 0 for number in range(40) if "UPDATE" in statement or number not in changed}


CORRELATED = "(SELECT max(s.x) FROM s WHERE s.y < t.id)"


CORRELATED_STATEMENTS = [
    (f"UPDATE lake.db.t t SET v = 9 WHERE v < {CORRELATED}", ((1, 1), (2, 2), (3, 3), (4, 9))),
    (f"UPDATE lake.db.t t SET v = {CORRELATED} WHERE id > 2", ((1, 1), (2, 2), (3, 3), (4, 5))),
    (f"DELETE FROM lake.db.t t WHERE v < {CORRELATED}", ((1, 1), (2, 2), (3, 3))),
]


@pytest.mark.parametrize(
    ("case", "mode"),
    repetitions(
        list(product(CORRELATED_STATEMENTS, ["copy-on-write", "merge-on-read"])),
        (CORRELATED_STATEMENTS[1], "copy-on-write"),
        (CORRELATED_STATEMENTS[2], "merge-on-read"),
    ),
)
def test_correlated_scalar_subqueries_need_no_equality(
    spark: SparkSession, sql: Run, lake: SqlCatalog, mode: str, case: tuple[str, Any]
) -> None:
    """A rule of Spark 4.3 refuses them, unless it is excluded."""
    statement, expected = case
    modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update"))
    sql(f"CREATE TABLE lake.db.t (id INT, v INT) TBLPROPERTIES ('format-version' = '2', {modes})")
    append(lake, [(number, number) for number in range(1, 5)])
    spark.sql("SELECT * FROM VALUES (3, 2), (5, 3), (1, 9) AS s (x, y)").createOrReplaceTempView("s")
    rule = "org.apache.spark.sql.execution.dynamicpruning.RowLevelOperationRuntimeGroupFiltering"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    try:
        sql(statement)
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")
    assert stored(lake, "id", "v") == list(expected)
