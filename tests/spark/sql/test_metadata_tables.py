"""Metadata tables in SQL: each by its name, at a snapshot, filtered, joined, with the same rows as `icefloe.inspect`."""

from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.metadata_tables.metadata_table_registry import METADATA_TABLES, metadata_table

pytestmark = pytest.mark.spark


@pytest.fixture
def written(sql: Run, lake: SqlCatalog) -> Run:
    sql(
        "CREATE TABLE lake.db.t (id BIGINT, kind STRING, s STRUCT<a: INT>) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '3')"
    )
    append(lake, [(number, "ab"[number % 2], {"a": 1}) for number in range(10)])
    append(lake, [(number, "c", None) for number in range(5)])
    return sql


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_every_metadata_table_has_the_rows_of_the_python_api(written: Run, spark: SparkSession, lake: SqlCatalog, name: str) -> None:
    expected, rows = metadata_table(lake.load_table("db.t"), name), spark.table(f"lake.db.t.{name}")
    assert rows.columns == expected.schema.names
    assert len(rows.collect()) == expected.to_arrow().num_rows


def test_every_metadata_table_is_counted(written: Run, lake: SqlCatalog) -> None:
    table = lake.load_table("db.t")
    counts = written(f"SELECT {', '.join(f'(SELECT count(*) FROM lake.db.t.{name}) AS {name}' for name in METADATA_TABLES)}")[0]
    assert dict(zip(METADATA_TABLES, counts, strict=True)) == {
        name: metadata_table(table, name).to_arrow().num_rows for name in METADATA_TABLES
    }
    assert [field[0] for field in written("DESCRIBE lake.db.t.files")] == metadata_table(table, "files").schema.names


@pytest.mark.parametrize(
    "name",
    [
        "entries",
        *repetitions(["delete_files", "all_data_files", "files", "data_files", "all_files", "all_delete_files", "all_entries"]),
    ],
)
def test_a_spark_job_returns_the_same_rows(written: Run, spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.spark.scan.metadata_table_job.BYTES_OF_A_TASK", 1)  # each manifest on its own
    written("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(4, id)")
    written("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    written("DELETE FROM lake.db.t WHERE id = 3")
    reader = spark.read.option("planning-mode", "distributed")
    here, there = spark.table(f"lake.db.t.{name}"), reader.table(f"lake.db.t.{name}")
    assert "MapInArrow" in there._jdf.queryExecution().toString()
    assert "MapInArrow" not in here._jdf.queryExecution().toString()
    assert sorted(map(str, there.collect())) == sorted(map(str, here.collect())) != []
    assert there.count() == here.count()
    wanted = "data_file.record_count" if name.endswith("entries") else "record_count"
    assert sorted(there.where(f"{wanted} > 1").select(wanted).collect()) == sorted(here.where(f"{wanted} > 1").select(wanted).collect())


def test_a_job_over_no_manifest_has_no_rows(written: Run, spark: SparkSession) -> None:
    reader = spark.read.option("planning-mode", "distributed")
    for name in ("delete_files", "all_delete_files"):
        rows = reader.table(f"lake.db.t.{name}")
        assert "MapInArrow" in rows._jdf.queryExecution().toString()
        assert (rows.collect(), rows.count(), rows.where("record_count > 1").select("file_path").collect()) == ([], 0, [])
        assert rows.schema == spark.table(f"lake.db.t.{name}").schema


def test_many_manifests_are_read_by_a_job_unless_a_table_property_prevents_it(
    written: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan() -> str:
        return str(spark.table("lake.db.t.files")._jdf.queryExecution().toString())

    assert "MapInArrow" not in plan()
    monkeypatch.setattr("icefloe.spark.scan.metadata_table_job.MOST_BYTES_HERE", 1)
    assert "MapInArrow" in plan()
    written("ALTER TABLE lake.db.t SET TBLPROPERTIES ('read.data-planning-mode' = 'local')")
    assert "MapInArrow" not in plan()


def test_the_error_of_a_job_names_a_missing_manifest(written: Run, spark: SparkSession, lake: SqlCatalog) -> None:
    path = metadata_table(lake.load_table("db.t"), "manifests").to_arrow()["path"][0].as_py()
    rows = spark.read.option("planning-mode", "distributed").table("lake.db.t.files")
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(PySparkException, match=Path(path).name):
        rows.collect()


def test_metadata_tables_are_filtered_joined_and_read_at_snapshots(written: Run, lake: SqlCatalog) -> None:
    first = lake.load_table("db.t").snapshots()[0].snapshot_id
    assert sorted(written("SELECT partition.kind, sum(record_count) FROM lake.db.t.files GROUP BY 1")) == [("a", 5), ("b", 5), ("c", 5)]
    assert written(f"SELECT sum(record_count) FROM lake.db.t.files VERSION AS OF {first}") == [(10,)]
    assert written("SELECT max(readable_metrics.id.upper_bound) FROM lake.db.t.data_files WHERE record_count > 1") == [(9,)]
    joined = (
        "SELECT count(*) FROM lake.db.t.snapshots s JOIN lake.db.t.history h ON s.snapshot_id = h.snapshot_id WHERE h.is_current_ancestor"
    )
    assert written(joined) == [(2,)]
    assert written("SELECT operation FROM lake.db.t.snapshots ORDER BY committed_at") == [("append",), ("append",)]


def test_metadata_tables_cannot_be_written(written: Run) -> None:
    with pytest.raises(PySparkException, match=r"(?i)append|write"):
        written("INSERT INTO lake.db.t.refs SELECT * FROM lake.db.t.refs")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        written("SELECT * FROM lake.db.t.nonsense")


@pytest.fixture
def changed(sql: Run, lake: SqlCatalog) -> list[tuple[int, int]]:
    """Three snapshots of `lake.db.t`, as ids and times: rows 1 and 2 come, 2 changes and is copied with 1, 3 comes."""
    sql("CREATE TABLE lake.db.t (id BIGINT, v STRING) USING iceberg")
    append(lake, [(1, "a"), (2, "b")])
    sql("UPDATE lake.db.t SET v = 'c' WHERE id = 2")
    append(lake, [(3, "d")])
    return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in lake.load_table("db.t").snapshots()]


def test_changes_are_read_between_snapshots_and_times(spark: SparkSession, sql: Run, changed: list[tuple[int, int]]) -> None:
    def ordinals(**options: int) -> list[int]:
        rows = spark.read.options(**{name.replace("_", "-"): value for name, value in options.items()}).table("lake.db.t.changes")
        found = [row[0] for row in rows.select("_commit_snapshot_id").collect()]
        assert rows.count() == len(found)
        return sorted({[one for one, _ in changed].index(snapshot_id) for snapshot_id in found})

    (first, t1), (second, t2), (third, t3) = changed
    assert ordinals() == [0, 1, 2]
    assert ordinals(start_snapshot_id=first) == [1, 2]
    assert ordinals(start_snapshot_id=first, end_snapshot_id=second) == ordinals(start_timestamp=t1, end_timestamp=t2) == [1]
    assert ordinals(end_snapshot_id=second) == ordinals(end_timestamp=t3 - 1) == [0, 1]
    assert ordinals(start_timestamp=t1 - 1) == [0, 1, 2]
    assert ordinals(start_timestamp=t3) == ordinals(end_timestamp=t1 - 1) == ordinals(start_snapshot_id=third) == []
    for options, words in (
        ({"start-snapshot-id": first, "start-timestamp": t1}, "start-snapshot-id and start-timestamp"),
        ({"end-snapshot-id": first, "snapshot-id": first}, "end-snapshot-id and a snapshot"),
        ({"end-timestamp": "now"}, "end-timestamp is 'now'"),
        ({"start-snapshot-id": third, "end-snapshot-id": first}, "is not an ancestor of snapshot"),
    ):
        with pytest.raises(PySparkException, match=words):
            spark.read.options(**options).table("lake.db.t.changes").collect()


def test_a_changelog_view_leaves_out_copies_and_finds_updates(sql: Run, changed: list[tuple[int, int]]) -> None:
    first = changed[0][0]
    assert sql("CALL lake.system.create_changelog_view('db.t')") == [("`t_changes`",)]
    assert sql("SELECT id, v, _change_type FROM t_changes ORDER BY _change_ordinal, id, _change_type") == [
        *((1, "a", "INSERT"), (2, "b", "INSERT")),
        *((2, "b", "DELETE"), (2, "c", "INSERT"), (3, "d", "INSERT")),
    ]
    call = f"table => 'db.t', changelog_view => 'seen', options => map('start-snapshot-id', '{first}'), identifier_columns => array('id')"
    assert sql(f"CALL lake.system.create_changelog_view({call})") == [("seen",)]
    assert sql("SELECT id, v, _change_type FROM seen ORDER BY _change_ordinal, id, _change_type DESC") == [
        *((2, "b", "UPDATE_BEFORE"), (2, "c", "UPDATE_AFTER"), (3, "d", "INSERT")),
    ]
    sql("CALL lake.system.create_changelog_view(table => 'db.t', changelog_view => 'net', net_changes => true)")
    assert sorted(sql("SELECT id, v, _change_type FROM net")) == [(1, "a", "INSERT"), (2, "c", "INSERT"), (3, "d", "INSERT")]
    with pytest.raises(PySparkException, match="no identifier fields"):
        sql("CALL lake.system.create_changelog_view(table => 'db.t', compute_updates => true)")
    sql("ALTER TABLE lake.db.t CREATE BRANCH audit")
    sql("INSERT INTO lake.db.t.branch_audit VALUES (9, 'z')")
    last = changed[-1][0]
    call = "CALL lake.system.create_changelog_view(table => 'db.t', changelog_view => 'of_branch', options => map({}))"
    sql(call.format(f"'branch', 'audit', 'start-snapshot-id', '{last}'"))
    assert sql("SELECT id, v, _change_type FROM of_branch") == [(9, "z", "INSERT")]
    sql(call.format(f"'snapshot-id', '{first}'"))
    assert sorted(sql("SELECT id, v, _change_type FROM of_branch")) == [(1, "a", "INSERT"), (2, "b", "INSERT")]
    for options, words in (
        (f"'start-snapshotid', '{last}'", "write 'start-snapshot-id'"),
        (f"'branch', 'audit', 'end-snapshot-id', '{last}'", "end-snapshot-id and a snapshot, branch or tag"),
    ):
        with pytest.raises(PySparkException, match=words):
            sql(call.format(options))
    if pyspark.__version__ >= "4.1":  # older versions do not have the statement
        assert ("create_changelog_view",) in [row[-1:] for row in sql("SHOW PROCEDURES IN lake.system")]


@pytest.mark.parametrize("version", ["2", "3"])
def test_position_deletes_without_rows_are_read_where_columns_are_required_and_partitions_changed(
    sql: Run, lake: SqlCatalog, version: str
) -> None:
    sql(
        "CREATE TABLE lake.db.r (id INT NOT NULL, data STRING NOT NULL) USING iceberg PARTITIONED BY (data)"
        f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    append(lake, [(number, "a") for number in range(3)], "db.r")
    sql("DELETE FROM lake.db.r WHERE id = 1")
    sql("ALTER TABLE lake.db.r DROP PARTITION FIELD data")
    append(lake, [(number, "b") for number in range(3, 6)], "db.r")
    sql("DELETE FROM lake.db.r WHERE id = 5")
    assert len(sql("SELECT * FROM lake.db.r.position_deletes")) == 2
    wanted = "SELECT spec_id, partition.data, pos, row FROM lake.db.r.position_deletes"
    assert sql(f"{wanted} WHERE partition.data = 'a' AND pos >= 0") == [(0, "a", 1, None)]
    assert sql(f"{wanted} WHERE partition.data IS NULL AND pos >= 0") == [(1, None, 2, None)]
    assert sql(f"{wanted} WHERE row.id IS NOT NULL") == []


def test_changes_of_null_structs_with_required_members_are_read(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.s (id INT NOT NULL, s STRUCT<a: INT NOT NULL, l: ARRAY<STRUCT<b: INT NOT NULL>>>) USING iceberg")
    append(lake, [(1, None), (2, {"a": 1, "l": [None, {"b": 2}]})], "db.s")
    expected = [(1, None), (2, (1, [None, (2,)]))]
    assert sorted(sql("SELECT id, s FROM lake.db.s.changes")) == expected
    assert sql("CALL lake.system.create_changelog_view('db.s')") == [("`s_changes`",)]
    assert sorted(sql("SELECT id, s FROM s_changes")) == expected
