"""Older snapshots, branches, tags and times, by name, by clause and by option; and metadata columns of rows and their files."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import LongType, SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark


@pytest.fixture
def table(sql: Run, lake: SqlCatalog) -> Table:
    """First 1 and 2 (tag `first`), then 3 on main; 4 on the branch `audit`; and then a renamed column and one more."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    found = lake.create_table("db.t", rows.schema, properties={"format-version": "3", "write.wap.enabled": "true"})
    found.append(rows)
    first = found.current_snapshot()
    assert first is not None
    found.manage_snapshots().create_tag(tag_name="first", snapshot_id=first.snapshot_id).commit()
    found.append(pa.table({"id": pa.array([3], pa.int64())}))
    found.manage_snapshots().create_branch(branch_name="audit").commit()
    found.append(pa.table({"id": pa.array([4], pa.int64())}), branch="audit")
    with found.update_schema() as update:
        update.rename_column("id", "number")
        update.add_column("more", LongType())
    return lake.load_table("db.t")


def _first(table: Table) -> tuple[int, int]:
    """Return the id of the first snapshot, and a time in milliseconds at which it was current."""
    snapshot = min(table.snapshots(), key=lambda one: one.sequence_number)
    return snapshot.snapshot_id, snapshot.timestamp_ms


def test_options_read_older_rows_with_the_current_columns(spark: SparkSession, sql: Run, table: Table) -> None:
    snapshot_id, at = _first(table)
    chosen = {
        "snapshot-id": (snapshot_id, [1, 2]),
        "tag": ("first", [1, 2]),
        "as-of-timestamp": (at, [1, 2]),
        "branch": ("audit", [1, 2, 3, 4]),
    }
    for option, (value, expected) in chosen.items():
        rows = spark.read.option(option, value).table("lake.db.t").orderBy("number").collect()
        assert [tuple(row) for row in rows] == [(number, None) for number in expected], option
    assert spark.read.option("tag", "first").table("lake.db.t").where("number = 2").count() == 1


def test_clauses_and_names_read_older_rows_with_the_columns_of_the_snapshot(sql: Run, table: Table) -> None:
    snapshot_id, at = _first(table)
    time = datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    for text in (
        f"lake.db.t VERSION AS OF {snapshot_id}",
        "lake.db.t VERSION AS OF 'first'",
        f"lake.db.t TIMESTAMP AS OF '{time}'",
        "lake.db.t.tag_first",
        f"lake.db.t.snapshot_id_{snapshot_id}",
        f"lake.db.t.at_timestamp_{at}",
    ):
        assert sorted(sql(f"SELECT id FROM {text}")) == [(1,), (2,)], text
        assert sql(f"SELECT count(*), max(id) FROM {text} WHERE id > 0") == [(2, 2)], text
    assert sql("SELECT max(number) FROM lake.db.t VERSION AS OF 'audit'") == [(4,)]
    assert sql("SELECT max(number) FROM lake.db.t.branch_audit") == [(4,)]
    assert sql("SELECT max(number), count(more) FROM lake.db.t") == [(3, 0)]


def test_a_snapshots_id_wins_over_a_tag_or_branch_of_that_name(spark: SparkSession, sql: Run, table: Table) -> None:
    snapshot_id, _ = _first(table)
    latest = table.current_snapshot()
    assert latest is not None
    table.manage_snapshots().create_tag(tag_name=str(snapshot_id), snapshot_id=latest.snapshot_id).commit()
    table.manage_snapshots().create_branch(branch_name="12", snapshot_id=snapshot_id).commit()
    for text in (f"VERSION AS OF {snapshot_id}", f"VERSION AS OF '{snapshot_id}'", f"FOR SYSTEM_VERSION AS OF '{snapshot_id}'"):
        assert sorted(sql(f"SELECT id FROM lake.db.t {text}")) == [(1,), (2,)], text
    for option in ("versionAsOf", "snapshot-id"):
        assert spark.read.option(option, str(snapshot_id)).table("lake.db.t").count() == 2, option
        assert spark.read.format("icefloe").option(option, str(snapshot_id)).load("lake.db.t").count() == 2, option
    assert sql(f"SELECT count(*) FROM lake.db.t.snapshot_id_{snapshot_id}") == [(2,)]
    # The selector tag_ means a tag even where its name is the id of a snapshot; a number that is no id of a snapshot is a name.
    assert sql(f"SELECT count(*) FROM lake.db.t.tag_{snapshot_id}") == [(3,)]
    assert spark.read.option("tag", str(snapshot_id)).table("lake.db.t").count() == 3
    assert sql("SELECT count(*) FROM lake.db.t VERSION AS OF '12'") == [(2,)]


def test_the_branch_of_the_session_is_read(spark: SparkSession, sql: Run, table: Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    try:
        assert sql("SELECT max(number) FROM lake.db.t") == [(4,)]
        assert sql("SELECT max(id) FROM lake.db.t.tag_first") == [(2,)]
    finally:
        spark.conf.unset("spark.wap.branch")


def test_the_branch_of_the_session_is_read_by_a_frame_that_was_read_before(spark: SparkSession, sql: Run, table: Table) -> None:
    frame = spark.table("lake.db.t")
    assert sorted(row.number for row in frame.select("number").collect()) == [1, 2, 3]
    spark.conf.set("spark.wap.branch", "audit")
    try:
        assert sorted(row.number for row in frame.select("number").collect()) == [1, 2, 3, 4]
        assert sorted(sql("SELECT number FROM lake.db.t")) == [(1,), (2,), (3,), (4,)]
    finally:
        spark.conf.unset("spark.wap.branch")
    assert sorted(row.number for row in frame.select("number").collect()) == [1, 2, 3]


def test_refs_whose_names_look_like_other_selections_have_rows_of_their_own(spark: SparkSession, sql: Run, table: Table) -> None:
    snapshots = table.manage_snapshots().create_branch(branch_name="None").create_branch(branch_name="None/x")
    snapshots.create_tag(tag_name="x/None", snapshot_id=_first(table)[0]).commit()
    table.refresh().append(pa.table({"number": pa.array([5], pa.int64())}), branch="None")
    assert sorted(sql("SELECT number FROM lake.db.t")) == [(1,), (2,), (3,)]
    assert sorted(sql("SELECT number FROM lake.db.t.branch_None")) == [(1,), (2,), (3,), (5,)]
    assert sorted(sql("SELECT number FROM lake.db.t VERSION AS OF 'None/x'")) == [(1,), (2,), (3,)]
    assert sorted(sql("SELECT * FROM lake.db.t VERSION AS OF 'x/None'")) == [(1,), (2,)]


def test_a_missing_or_doubly_named_snapshot_is_refused(spark: SparkSession, sql: Run, table: Table) -> None:
    with pytest.raises(IllegalArgumentException, match="is read with branch, tag; a read is of one snapshot"):
        spark.read.option("tag", "first").option("branch", "audit").table("lake.db.t").collect()
    with pytest.raises(
        IllegalArgumentException, match="is read with branch beside the selector of its name or clause; a read is of one snapshot"
    ):
        spark.read.option("branch", "audit").table("lake.db.t.tag_first").collect()
    with pytest.raises(IllegalArgumentException, match="is read with as-of-timestamp, snapshot-id; a read is of one snapshot"):
        spark.read.option("As-Of-Timestamp", "1").option("snapshot-id", "1").table("lake.db.t").collect()
    with pytest.raises(IllegalArgumentException, match="no branch or tag 'nothing'"):
        spark.read.option("tag", "nothing").table("lake.db.t").collect()
    with pytest.raises(IllegalArgumentException, match="snapshot-id is 'x'"):
        spark.read.option("snapshot-id", "x").table("lake.db.t").collect()
    with pytest.raises((AnalysisException, IllegalArgumentException), match="7"):
        sql("SELECT * FROM lake.db.t VERSION AS OF 7")


def test_metadata_columns_have_the_file_and_position_of_a_row(sql: Run, table: Table) -> None:
    rows = sql("SELECT number, _row_id, _last_updated_sequence_number, _pos, _spec_id, _file FROM lake.db.t ORDER BY number")
    assert [row[:5] for row in rows] == [(1, 0, 1, 0, 0), (2, 1, 1, 1, 0), (3, 2, 2, 0, 0)]
    assert {row[5] for row in rows} == {task.file.file_path for task in table.scan().plan_files()}
    assert sql("SELECT number FROM lake.db.t WHERE _row_id = 1") == [(2,)]
    assert sql(f"SELECT count(*) FROM lake.db.t WHERE _file = '{rows[2][5]}'") == [(1,)]
