"""Reads by a range of snapshots, of appended rows and of changes; and the metadata columns with the place of a row and whether it is deleted."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append

import icefloe.spark
from icefloe import SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark


@pytest.fixture
def table(sql: Run, lake: SqlCatalog) -> Table:
    """Rows 0 to 9 by ten appends of one row, of which 3 and 4 are deleted in the middle; then the branch `side` with row 90."""
    made = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("v", pa.string())]), properties={"format-version": "3"})
    for number in range(10):
        made.append(pa.table({"id": [number], "v": [f"v{number}"]}))
        if number == 5:
            made.delete("id = 3 or id = 4")
    made.manage_snapshots().create_branch(branch_name="side").commit()
    made.append(pa.table({"id": [90], "v": ["side"]}), branch="side")
    return lake.load_table("db.t")


def numbers(frame: DataFrame) -> list[int]:
    """Return the ids, after a comparison with their number and the largest as Spark computes them, or Icefloe of metadata."""
    found = sorted(row[0] for row in frame.select("id").collect())
    assert frame.agg({"*": "count", "id": "max"}).first() == (len(found), max(found, default=None))
    return found


def test_appended_rows_are_read_after_the_start_up_to_the_end(spark: SparkSession, table: Table) -> None:
    snapshots = [snapshot.snapshot_id for snapshot in table.snapshots()]
    of_row = [*snapshots[:6], *snapshots[7:11]]  # the seventh is the delete
    for start, end in ((0, None), (2, 3), (2, 9), (8, 9)):
        options = {"start-snapshot-id": str(of_row[start])} | ({} if end is None else {"End-Snapshot-Id": str(of_row[end])})
        expected = list(range(start + 1, 10 if end is None else end + 1))
        assert numbers(spark.read.options(**options).table("lake.db.t")) == expected
        assert numbers(spark.read.format("icefloe").options(**options).load("lake.db.t")) == expected
    assert numbers(spark.read.option("start-snapshot-id", of_row[1]).table("lake.db.t").where("id < 4 OR v = 'v9'")) == [2, 3, 9]
    assert numbers(spark.read.option("start-snapshot-id", of_row[7]).table("lake.db.t.branch_side")) == [8, 9, 90]
    assert numbers(spark.read.option("start-snapshot-id", of_row[7]).option("branch", "side").table("lake.db.t")) == [8, 9, 90]
    assert numbers(spark.read.option("start-snapshot-id", of_row[9]).table("lake.db.t")) == []
    assert numbers(icefloe.spark.table(spark, table, start_snapshot_id=of_row[4], end_snapshot_id=of_row[6])) == [5, 6]


# Options that are refused together with the name of what they read, and a part of the message; {1} and {2} are snapshots.
REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"end-snapshot-id": "{2}"}, "lake.db.t", "is read with end-snapshot-id but without start-snapshot-id"),
    ({"start-timestamp": "1"}, "lake.db.t", "is read with start-timestamp, options of its metadata table .changes"),
    ({"start-snapshot-id": "{1}", "end-timestamp": "1"}, "lake.db.t", "is read with end-timestamp"),
    ({"start-snapshot-id": "{1}", "snapshot-id": "{2}"}, "lake.db.t", "beside a snapshot, a tag or a time"),
    ({"start-snapshot-id": "{1}", "versionAsOf": "{2}"}, "lake.db.t", "beside a snapshot, a tag or a time"),
    ({"start-snapshot-id": "{1}"}, "lake.db.t.snapshot_id_{2}", "beside a snapshot, a tag or a time"),
    ({"start-snapshot-id": "{1}", "end-snapshot-id": "{2}", "branch": "side"}, "lake.db.t", "a branch and with end-snapshot-id"),
    ({"start-snapshot-id": "{2}", "end-snapshot-id": "{1}"}, "lake.db.t", "is no ancestor of snapshot {1}"),
    ({"start-snapshot-id": "7"}, "lake.db.t", "snapshot 7 of .* is no ancestor"),
    ({"start-snapshot-id": "{1}", "end-snapshot-id": "7"}, "lake.db.t", "no snapshot 7"),
    ({"start-snapshot-id": "one"}, "lake.db.t", "start-snapshot-id is 'one', not a whole number of 64 bits"),
    ({"start-snapshot-id": "{1}"}, "lake.db.t.files", r"metadata table lake\.db\.t\.files cannot be read by start-snapshot-id"),
    ({"start-timestamp": "2", "end-timestamp": "1"}, "lake.db.t.changes", "from 2 ms to 1 ms, and a range begins before it ends"),
    ({"start-timestamp": "1", "end-timestamp": "1"}, "lake.db.t.changes", "from 1 ms to 1 ms"),
    ({"start-snapshot-id": "{2}", "end-snapshot-id": "{1}"}, "lake.db.t.changes", "is not an ancestor of snapshot {1}"),
]


def test_a_range_that_cannot_be_is_refused(spark: SparkSession, table: Table) -> None:
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]

    def with_ids(text: str) -> str:
        return text.replace("{1}", str(ids[1])).replace("{2}", str(ids[2]))

    for options, name, words in REFUSED:
        with pytest.raises((IllegalArgumentException, PySparkException), match=with_ids(words)):
            spark.read.options(**{key: with_ids(value) for key, value in options.items()}).table(with_ids(name)).collect()


def test_changes_have_the_place_of_each_row(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql(
        "CREATE TABLE lake.db.p (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    sql("INSERT INTO lake.db.p SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    sql("DELETE FROM lake.db.p WHERE id = 2")
    sql("DELETE FROM lake.db.p WHERE part = 'b'")
    found = sql(
        "SELECT id, _change_type, _file, _pos, _deleted, _spec_id, _partition.part FROM lake.db.p.changes ORDER BY _change_ordinal, id"
    )
    assert [(row[0], row[1], *row[4:]) for row in found] == [
        *((1, "INSERT", False, 0, "a"), (2, "INSERT", False, 0, "a"), (3, "INSERT", False, 0, "b")),
        *((2, "DELETE", False, 0, "a"), (3, "DELETE", False, 0, "b")),
    ]
    for row in found:
        assert pq.read_table(row[2], partitioning=None)["id"][row[3]].as_py() == row[0]
    assert [field.name for field in spark.table("lake.db.p.changes").schema] == [
        *("id", "part", "_change_type", "_change_ordinal", "_commit_snapshot_id")
    ]
    assert sql("SELECT count(*), count(_file) FROM lake.db.p.changes WHERE NOT _deleted AND _pos >= 0") == [(5, 5)]
    assert sql("SELECT _partition, _pos FROM lake.db.p.changes WHERE id = 3 AND _change_type = 'DELETE'") == [((("b",)), 0)]
    sql("CREATE TABLE lake.db.bare (id BIGINT, _file STRING) USING iceberg")
    append(lake, [(1, "own")], "db.bare")
    assert sql("SELECT id, _file, _pos, _spec_id, _partition FROM lake.db.bare.changes") == [(1, "own", 0, 0, None)]


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_deleted_rows_are_returned_with_the_column_deleted(spark: SparkSession, sql: Run, lake: SqlCatalog, version: int) -> None:
    properties = {"format-version": str(version), "write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
    made = lake.create_table("db.d", pa.schema([("id", pa.int64()), ("v", pa.string())]), properties=properties)
    made.append(pa.table({"id": range(6), "v": ["a"] * 6}))
    assert sorted(sql("SELECT id, _deleted FROM lake.db.d")) == [(number, False) for number in range(6)]
    made.delete("id = 1 or id = 4")
    deleted = [False, True, False, False, True, False]
    assert sorted(sql("SELECT id, _deleted FROM lake.db.d")) == list(enumerate(deleted))
    assert sorted(sql("SELECT id FROM lake.db.d WHERE _deleted")) == [(1,), (4,)]
    assert sorted(sql("SELECT id FROM lake.db.d WHERE NOT _deleted AND id < 3")) == [(0,), (2,)]
    assert sql("SELECT count(*), count_if(_deleted), max(id) FROM lake.db.d") == [(6, 2, 5)]
    assert len(sql("SELECT _deleted FROM lake.db.d LIMIT 3")) == 3
    assert sorted(sql("SELECT id FROM lake.db.d")) == [(0,), (2,), (3,), (5,)]
    assert spark.table("lake.db.d").columns == ["id", "v"]
    # A statement that changes rows never finds deleted ones: it would bring them back.
    sql("UPDATE lake.db.d SET v = 'b' WHERE NOT _deleted AND id < 3")
    sql("UPDATE lake.db.d SET v = 'never' WHERE _deleted OR id = -1")
    assert sorted(sql("SELECT id, v FROM lake.db.d")) == [(0, "b"), (2, "b"), (3, "a"), (5, "a")]
    sql("DELETE FROM lake.db.d WHERE _deleted OR id = 5")
    assert sorted(sql("SELECT id FROM lake.db.d")) == [(0,), (2,), (3,)]
    made = lake.load_table("db.d")
    made.delete_keys(pa.table({"id": [3]}), ["id"])
    assert (3, True) in sql("SELECT id, _deleted FROM lake.db.d")
    assert sorted(sql("SELECT id FROM lake.db.d")) == [(0,), (2,)]
