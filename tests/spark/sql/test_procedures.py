"""`CALL lake.system...`: arguments by name and by position, rows with Java's columns, errors with their reason; and the same procedures from Python."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append, stored

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.procedures import call, procedure_names
from icefloe.table.table import Table

pytestmark = pytest.mark.spark


@pytest.fixture
def table(lake: SqlCatalog) -> Table:
    """Three appends of one row."""
    made = lake.create_table("db.t", pa.schema([("id", pa.int64())]))
    for number in range(3):
        made.append(pa.table({"id": [number]}))
    return made


def test_procedures_move_branches(sql: Run, lake: SqlCatalog, table: Table) -> None:
    first, second, third = (snapshot.snapshot_id for snapshot in table.snapshots())
    assert sql(f"CALL lake.system.rollback_to_snapshot('db.t', {second})") == [(third, second)]
    assert sql("SELECT count(*) FROM lake.db.t") == [(2,)]
    assert sql(f"CALL lake.system.set_current_snapshot(table => 'lake.db.t', snapshot_id => {third})") == [(second, third)]
    at = datetime.fromtimestamp(table.snapshots()[1].timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert sql(f"CALL lake.system.rollback_to_timestamp('db.t', TIMESTAMP '{at}')") == [(third, first)]
    assert sql("CALL lake.system.ancestors_of('db.t')") == [(first, table.snapshots()[0].timestamp_ms)]
    assert [row[0] for row in sql(f"CALL lake.system.ancestors_of(table => '`db`.`t`', snapshot_id => {third})")] == [third, second, first]
    lake.load_table("db.t").manage_snapshots().create_branch(third, "ahead").commit()
    assert sql("CALL lake.system.fast_forward('db.t', 'main', 'ahead')") == [("main", first, third)]


def test_staged_changes_are_published(sql: Run, table: Table) -> None:
    table.set_properties({"write.wap.enabled": "true"})
    staged = table.append(pa.table({"id": [9]}), {"wap.id": "w1"}).snapshot_id
    assert sql("SELECT count(*) FROM lake.db.t") == [(3,)]
    assert sql("CALL lake.system.publish_changes('db.t', 'w1')")[0][0] == staged
    assert sql("SELECT count(*) FROM lake.db.t") == [(4,)]
    with pytest.raises(PySparkException, match="picked"):
        sql(f"CALL lake.system.cherrypick_snapshot('db.t', {staged})")


def test_procedures_expire_snapshots_and_rewrite_manifests(spark: SparkSession, sql: Run, table: Table) -> None:
    assert sql("CALL lake.system.rewrite_manifests(table => 'db.t', dry_run => true)") == [(3, 1)]
    assert sql("CALL lake.system.rewrite_manifests('db.t')") == [(3, 1)]
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    found = spark.sql(f"CALL lake.system.expire_snapshots(table => 'db.t', retain_last => 1, snapshot_ids => ARRAY({ids[0]}L))")
    assert found.columns == [
        "deleted_data_files_count",
        "deleted_position_delete_files_count",
        "deleted_equality_delete_files_count",
        "deleted_manifest_files_count",
        "deleted_manifest_lists_count",
        "deleted_statistics_files_count",
    ]
    counts = found.collect()[0]
    assert (counts["deleted_data_files_count"], counts["deleted_manifest_lists_count"]) == (0, 1)
    planned = spark.sql(f"CALL lake.system.expire_snapshots(table => 'db.t', snapshot_ids => ARRAY({ids[1]}L), dry_run => true)").collect()[
        0
    ]
    assert (planned["deleted_data_files_count"], planned["deleted_manifest_lists_count"]) == (0, 1)
    table.refresh()
    assert ids[1] in [snapshot.snapshot_id for snapshot in table.snapshots()]
    assert len(sql("CALL lake.system.ancestors_of('db.t')")) == 3


def test_a_filter_of_a_procedure_is_a_condition_of_spark(sql: Run, lake: SqlCatalog) -> None:
    """Each file has one row, so that a condition chooses as many files as it has rows."""
    sql("CREATE TABLE lake.db.w (id BIGINT, Kind STRING, s STRUCT<x: INT>, d DATE, ts TIMESTAMP) USING iceberg PARTITIONED BY (days(d))")
    for number in range(5):
        sql(
            f"INSERT INTO lake.db.w SELECT {number}, {'NULL' if number == 4 else repr('ab'[number % 2])}, named_struct('x', {number}),"
            f" date_add(DATE '2023-12-30', {number}), timestamp_seconds(1700000000 + 86400 * {number})"
        )

    def files(condition: str) -> int:
        literal = condition.replace("'", "\\'")
        options = "map('rewrite-all', 'true', 'min-input-files', '1')"
        call = f"CALL lake.system.rewrite_data_files(table => 'db.w', where => '{literal}', options => {options}, dry_run => true)"
        return int(sql(call)[0][0])

    conditions = (
        'kind = "a"',
        "KIND IN ('a', 'c')",
        "s.X >= 3",
        'id = "3" OR kind IS NULL',
        "NOT (kind <=> 'a')",
        "d > '2023-12-31' AND id < 1 + 3",
        "year(d) = 2023",
        "lake.system.days(d) = DATE '2024-01-01'",
        "to_date(ts) = DATE '2023-11-15'",
        'Kind LIKE "b%"',
        "1 = 1",
        "id = 1 AND 1 = 0",
    )
    for condition in conditions:
        assert files(condition) == sql(f"SELECT count(*) FROM lake.db.w WHERE {condition}")[0][0], condition
    for refused in ("length(kind) = 1", "id IN (SELECT 1)", "lake.system.bucket(4, id) = 1", "rand() < 0.5", "nothing = 1", "id ="):
        with pytest.raises(PySparkException, match="filter"):
            files(refused)
    sql("SET spark.sql.caseSensitive = true")
    try:
        with pytest.raises(PySparkException, match="refers to column 'kind', which the table does not have"):
            files("kind = 'a'")
    finally:
        sql("RESET spark.sql.caseSensitive")


def test_a_filter_of_a_procedure_may_leave_out_columns_for_which_spark_has_no_type(sql: Run, lake: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns"))])
    table = lake.create_table("db.nanos", schema, properties={"format-version": "3"})
    for number in range(4):
        table.append(pa.table({"id": [number], "at": pa.array([number * 86_400 * 10**9], pa.timestamp("ns"))}))
    for condition in ("ID > 1", "at >= TIMESTAMP \\'1970-01-03 00:00:00\\'"):
        options = "options => map('rewrite-all', 'true'), dry_run => true"
        assert sql(f"CALL lake.system.rewrite_data_files(table => 'db.nanos', where => '{condition}', {options})")[0][0] == 2, condition


def test_an_argument_that_cannot_be_parsed_is_named_with_its_text(sql: Run, table: Table) -> None:
    with pytest.raises(IllegalArgumentException, match=r"cannot parse 'id ASC none' in an argument of rewrite_data_files: .* near 'none'"):
        sql("CALL lake.system.rewrite_data_files(table => 'db.t', strategy => 'sort', sort_order => 'id ASC none')")


def test_procedures_compact_data_files(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.c (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '3')")
    sql("ALTER TABLE lake.db.c SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    for number in range(6):
        append(lake, [(one * 7 % 100 + number, "ab"[one % 2]) for one in range(100)], "db.c")
    sql("DELETE FROM lake.db.c WHERE id % 10 = 3")
    query = "SELECT id, kind, _row_id, _last_updated_sequence_number FROM lake.db.c ORDER BY _row_id"
    before = sql(query)
    assert sql("""CALL lake.system.rewrite_data_files(table => 'db.c', where => "kind = 'a'", dry_run => true)""")[0][:2] == (6, 1)
    assert sql("""CALL lake.system.rewrite_data_files(table => 'db.c', where => "kind = 'a'")""")[0][:2] == (6, 1)
    assert sql(query) == before
    ((rewritten, added, size, failed, deletes),) = sql(
        "CALL lake.system.rewrite_data_files(table => 'db.c', strategy => 'sort', sort_order => 'id DESC NULLS LAST', options => map('rewrite-all', 'true'))"
    )
    assert (rewritten, added, failed, deletes) == (7, 2, 0, 3)
    assert size > 0
    assert sql(query) == before
    for kind in ("a", "b"):
        ids = [row[0] for row in sql(f"SELECT id FROM lake.db.c WHERE kind = '{kind}'")]
        assert ids == sorted(ids, reverse=True)
    with pytest.raises(PySparkException, match="has no option min-files"):
        sql("CALL lake.system.rewrite_data_files(table => 'db.c', options => map('min-files', '1'))")


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_procedures_convert_equality_deletes(sql: Run, lake: SqlCatalog, version: int) -> None:
    name = f"db.converted{version}"
    sql(
        f"CREATE TABLE lake.{name} (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '{version}')"
    )
    for number in range(4):
        append(lake, [(one * 4 + number, "ab"[one % 2]) for one in range(100)], name)
    lake.load_table(name).delete_keys(pa.table({"id": [1, 2, 3, 398]}), ["id"])
    before = stored(lake, "id", "kind", name=name)
    assert len(before) == 396
    call = f"CALL lake.system.convert_equality_deletes(table => '{name}'"
    assert sql(f"{call}, dry_run => true)") == [(1, 0, 0, 0, 0)]
    assert sql(f"""{call}, where => "kind = 'a'")""") == [(0, 3, 0, 1, 0)]
    assert stored(lake, "id", "kind", name=name) == before
    assert sql(f"{call}, options => map('partial-progress.enabled', 'true'))") == [(1, 1, 0, 0, 0)]
    assert stored(lake, "id", "kind", name=name) == before
    assert sql(f"{call})") == [(0, 0, 0, 0, 0)]
    with pytest.raises(PySparkException, match="has no option min-files"):
        sql(f"{call}, options => map('min-files', '1'))")


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_procedures_rewrite_position_delete_files(sql: Run, lake: SqlCatalog, version: int) -> None:
    name = f"db.merged{version}"
    properties = f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition'"
    sql(f"CREATE TABLE lake.{name} (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ({properties})")
    for start in (0, 100):
        append(lake, [(start + one, "ab"[one % 2]) for one in range(100)], name)
    for number in range(6):
        lake.load_table(name).delete(f"id IN ({10 * number}, {10 * number + 101})")
    before = stored(lake, "id", "kind", name=name)
    assert len(before) == 188
    call = f"CALL lake.system.rewrite_position_delete_files(table => '{name}'"
    files = len(lake.load_table(name).inspect.delete_files())
    ((planned, expected, size, none),) = sql(f"{call}, options => map('rewrite-all', 'true'), dry_run => true)")
    assert (planned, none) == (files, 0)
    assert size > 0
    assert expected == 2
    rewritten, added, _, bytes_added = sql(f"""{call}, where => "kind = 'a'", options => map('min-input-files', '2'))""")[0]
    assert (rewritten, added) == ((6, 1) if version == 2 else (0, 0))
    assert stored(lake, "id", "kind", name=name) == before
    rewritten, added, _, bytes_added = sql(f"{call}, options => map('rewrite-all', 'true'))")[0]
    after = lake.load_table(name).inspect.delete_files().to_pylist()
    assert (added, len(after)) == (2, 2)
    assert bytes_added == sum(file["content_size_in_bytes"] or file["file_size_in_bytes"] for file in after)
    assert stored(lake, "id", "kind", name=name) == before
    assert sql(f"{call})") == [(0, 0, 0, 0)]
    with pytest.raises(PySparkException, match="has no option min-files"):
        sql(f"{call}, options => map('min-files', '1'))")


def test_procedures_add_files(sql: Run, lake: SqlCatalog, table: Table, tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / "in" / f"kind={part}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "in" / f"kind={part}" / "x.parquet")
    sql("CREATE TABLE lake.db.added (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    assert sql(f"CALL lake.system.add_files('db.added', '`parquet`.`{tmp_path}/in`', map('kind', 'b'))") == [(1, 1)]
    assert sorted(sql("SELECT id, kind FROM lake.db.added")) == [(1, "b"), (2, "b")]
    with pytest.raises(PySparkException, match="kind=c"):
        sql(f"CALL lake.system.add_files('db.added', '{tmp_path}/in', map('kind', 'c'))")
    assert sql(f"CALL lake.system.register_table('db.again', '{table.metadata_location}')") == [
        (table.current_snapshot().snapshot_id, 3, 3)
    ]
    assert lake.load_table("db.again").scan().count() == 3


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (name)", "PARTITIONED BY (truncate(1, name))"])
def test_files_in_folders_that_the_table_is_not_partitioned_by_are_refused(
    sql: Run, lake: SqlCatalog, tmp_path: Path, partitioned: str
) -> None:
    (tmp_path / "in" / "id=1").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "in" / "id=1" / "x.parquet")
    sql(f"CREATE TABLE lake.db.other (id BIGINT, name STRING) USING iceberg {partitioned}")
    for given in ("", ", map('id', '1')"):
        with pytest.raises(PySparkException, match=r"no partition spec .* matches the partition columns \[id\]"):
            sql(f"CALL lake.system.add_files('db.other', '`parquet`.`{tmp_path}/in`'{given})")
    assert sql(f"CALL lake.system.add_files('db.other', '`parquet`.`{tmp_path}/empty`')") == [(0, 0)]
    assert lake.load_table("db.other").snapshots() == []
    sql("DROP TABLE lake.db.other")


def test_wrong_calls_are_refused_with_the_reason(sql: Run, lake: SqlCatalog, table: Table) -> None:
    with pytest.raises(PySparkException, match=r"routine lake\.system\.nothing cannot be found"):
        sql("CALL lake.system.nothing()")
    with pytest.raises(PySparkException, match=r"lake\.system"):
        sql("CALL lake.other.expire_snapshots('db.t')")
    with pytest.raises(PySparkException, match="REQUIRED_PARAMETER_NOT_FOUND"):
        sql("CALL lake.system.rollback_to_snapshot('db.t')")
    with pytest.raises(PySparkException, match=r"no snapshot 1|has no snapshot"):
        sql("CALL lake.system.rollback_to_snapshot('db.t', 1)")
    with pytest.raises(InvalidInputError, match="its arguments are table, snapshot_id"):
        call(lake, "rollback_to_snapshot", table="db.t", snapshot=1)
    assert call(lake, "ancestors_of", table="db.t")[0]["snapshot_id"] == table.current_snapshot().snapshot_id
    assert "expire_snapshots" in procedure_names()


def test_arguments_are_any_expressions_of_constants(sql: Run, table: Table) -> None:
    sql("CALL lake.system.expire_snapshots('db.t', current_timestamp() - INTERVAL 5 DAYS)")
    sql("CALL lake.system.expire_snapshots(table => concat('db', '.t'), older_than => now() - INTERVAL 5 DAYS, retain_last => 1 + 1)")
    assert len(table.refresh().snapshots()) == 3


@pytest.mark.parametrize("name", ["", "1", "db..t"])
def test_a_text_that_is_not_a_table_name_is_refused(sql: Run, name: str) -> None:
    with pytest.raises(PySparkException, match=f"'{name}' is not the name of a table"):
        sql(f"CALL lake.system.ancestors_of('{name}')")


def test_a_table_of_the_current_namespace_is_found_at_any_depth(sql: Run, lake: SqlCatalog) -> None:
    lake.create_namespace(("outer", "inner"))
    lake.create_table(("outer", "inner", "t"), pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    sql("USE lake.`outer`.`inner`")
    try:
        assert sql("CALL lake.system.rewrite_manifests('t')")
    finally:
        sql("USE spark_catalog.default")


def test_orphan_files_are_listed_by_a_view_or_a_folder_and_removed(spark: SparkSession, sql: Run, table: Table) -> None:
    paths = [Path(table.location().removeprefix("file://"), "data", f"lost {number}.parquet") for number in range(2)]
    for path in paths:
        path.write_bytes(b"lost")
        os.utime(path, (1_700_000_000,) * 2)
    spark.sql(f"SELECT '{paths[0]}' AS file_path, TIMESTAMP '2020-01-01 00:00:00' AS last_modified").createOrReplaceTempView("files")
    call_text = "CALL lake.system.remove_orphan_files(table => 'db.t'"
    assert sorted(row[0] for row in sql(f"{call_text}, dry_run => true)")) == list(map(str, paths))
    assert len(sql(f"{call_text}, file_list_view => 'files', equal_schemes => map('s3a', 's3'))")) == 1
    assert [path.exists() for path in paths] == [False, True]
    assert len(sql(f"{call_text}, mode => 'quarantine')")) == 1
    assert "_orphan-files-" in sql(f"{call_text}, mode => 'undo')")[0][0]
    for wrong, text in (
        ("older_than => current_timestamp()", "24 hours"),
        ("mode => 'erase'", "there are"),
        ("file_list_view => 'none'", "cannot be used"),
    ):
        with pytest.raises(PySparkException, match=text):
            sql(f"{call_text}, {wrong})")
    assert len(sql(f"{call_text})")) == 1
    assert sql("SELECT count(*) FROM lake.db.t") == [(3,)]


def test_a_retried_commit_is_explained_with_the_snapshot_of_the_other_writer(
    spark: SparkSession, sql: Run, lake: SqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.snapshots()[-1].snapshot_id
    commit, others = type(lake.store).commit, []

    def late(store: Any, *arguments: Any, **named: Any) -> Any:
        if not others:  # the other writer commits between the attempt's look at the table and its commit
            others.append(None)
            others[0] = table.append(pa.table({"id": [8]})).snapshot_id
        return commit(store, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.store), "commit", late)
        sql("INSERT INTO lake.db.t VALUES (9)")
    mine = lake.load_table("db.t").current_snapshot()
    assert mine is not None
    explained = spark.sql("CALL lake.system.explain_commit('db.t')")
    assert explained.columns == [
        "part",
        "attempt",
        "snapshot_id",
        "timestamp",
        "operation",
        "added_rows",
        "deleted_rows",
        "engine",
        "message",
    ]
    rows = explained.collect()
    assert [(row["part"], row["attempt"], row["snapshot_id"], row["operation"]) for row in rows] == [
        ("commit", 2, mine.snapshot_id, "append"),
        ("lost attempt", 1, before, None),
        ("won by", 1, others[0], "append"),
    ]
    assert rows[0]["message"].startswith("attempts: 2")
    assert (rows[2]["added_rows"], rows[2]["deleted_rows"]) == (1, None)
    assert rows[2]["timestamp"] <= rows[0]["timestamp"]
    assert sql(f"CALL lake.system.explain_commit(table => 'lake.db.t', snapshot => '{others[0]}')")[0][:3] == ("commit", 1, others[0])
    with pytest.raises(PySparkException, match="no snapshot, branch or tag 'nowhere'"):
        sql("CALL lake.system.explain_commit('db.t', 'nowhere')")
