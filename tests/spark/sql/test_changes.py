"""Changes as rows: CHANGES of Spark 4.2 and later, `create_changelog_view` and the metadata table `changes` have the rows of the feed in this process."""

import datetime as dt
from collections import Counter
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from tests.spark.sql.conftest import Run
from tests.table.change_model import new_history
from tests.table.test_change_feed import NESTED_KEY_CHANGES, with_nested_key

from icefloe import SqlCatalog
from icefloe.operations.change_feed.change_scan import DeduplicationMode
from icefloe.spark.scan import change_feed
from icefloe.spark.scan.change_feed import _FilesWithPositions, changes_frame
from icefloe.spark.scan.change_tasks import HashAdder
from icefloe.table import Table

pytestmark = pytest.mark.spark
KINDS = {"INSERT": "insert", "DELETE": "delete", "UPDATE_BEFORE": "update_preimage", "UPDATE_AFTER": "update_postimage"}


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(sorted((name, repr(value)) for name, value in row.items())) for row in rows.to_pylist())


# The ways in which rows are compared, by the limits above which there is another one.
WAYS: dict[str, dict[str, int]] = {
    "in one task": {},
    "side by side, then by a shuffle": {"MOST_COMPARED_BYTES": -1, "BYTES_PER_TASK": -1},
    "by a shuffle": {"MOST_COMPARED_BYTES": -1, "MOST_BYTES_SIDE_BY_SIDE": -1},
}


def of_frame(frame: DataFrame) -> Counter[str]:
    return counted(frame.toArrow())


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 160))])
def test_spark_has_the_changes_that_this_process_has(
    spark: SparkSession, sql: Run, lake: SqlCatalog, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = new_history(seed, 10, lake, sql)
    table = history.table
    line = [snapshot.snapshot_id for snapshot in table.ancestors()][::-1]
    start, end = (line[0], line[-1]) if len(line) > 1 else (None, line[-1])
    columns = [column.name for column in table.schema().fields]
    frames, expected = [], {}
    for mode, updates in product(DeduplicationMode, (False, True)):
        scan = table.changes(
            start,
            end,
            deduplication_mode=mode,
            compute_updates=updates and mode is not DeduplicationMode.NONE,
            identifier_columns=["id"] if updates and table.format_version < 3 else None,
        ).select("*", "_commit_timestamp")
        for way, limits in WAYS.items():
            case = f"{mode} {updates} {way}"
            with monkeypatch.context() as patch:
                for name, limit in limits.items():
                    patch.setattr(change_feed, name, limit)
                frames.append(changes_frame(spark, scan).select(F.lit(case).alias("case"), "*"))
            expected[case] = counted(scan.to_arrow())
    found = reduce(DataFrame.unionAll, frames).toArrow()  # one query for all
    for case, rows in expected.items():
        assert counted(found.filter(pc.field("case") == case).drop_columns("case")) == rows, (history.steps, case)
    filtered = table.changes(start, end, row_filter="id < 9 and part = 'a'", compute_updates=True, identifier_columns=["id"])
    filtered = filtered.select("id", "_change_type", "_row_id", "_file", "_pos")
    assert of_frame(changes_frame(spark, filtered)) == counted(filtered.to_arrow()), history.steps
    if spark.version < "4.2":
        return
    bounds = f"VERSION {end} INCLUSIVE" if start is None else f"VERSION {start} EXCLUSIVE TO VERSION {end}"
    names = ", ".join(columns)
    if start is None:
        return
    of_clauses = sql(
        " UNION ALL ".join(
            f"SELECT '{mode}', {names}, _change_type, _commit_version FROM lake.db.t CHANGES FROM {bounds} WITH (deduplicationMode = '{mode}')"
            for mode in DeduplicationMode
        )
    )
    for mode in DeduplicationMode:
        here = table.changes(start, end, deduplication_mode=mode).select(*columns, "_change_type", "_commit_snapshot_id").to_arrow()
        wanted = Counter((*row[:-2], KINDS[row[-2]], row[-1]) for row in zip(*(column.to_pylist() for column in here.columns), strict=True))
        assert Counter(row[1:] for row in of_clauses if row[0] == mode) == wanted, (history.steps, mode)


def test_python_reads_the_files_whose_delete_files_are_too_large_for_the_driver(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "MOST_DELETE_BYTES", 300)  # more than the vectors of one snapshot
    table = lake.create_table(
        "db.t", pa.schema([("id", pa.int64())]), properties={"format-version": "3", "write.delete.mode": "merge-on-read"}
    )
    for start in range(0, 400, 100):
        table.append(pa.table({"id": range(start, start + 100)}))
    first = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    for last in (7, 8):
        table.delete(f"id in ({', '.join(str(number) for number in range(last, 400, 100))})")
    scan = table.changes(first).select("id", "_change_type", "_commit_snapshot_id", "_row_id", "_pos")
    assert of_frame(changes_frame(spark, scan)) == counted(scan.to_arrow())
    files, reader = _FilesWithPositions(), scan.reader(scan.columns_to_read())
    tasks = [task for changes in scan.plan() for task in files.add(reader, changes)]
    assert (len(tasks), len(files.positions)) == (4, 4)
    assert len(list(files.tasks(range(4)))) == 4


@pytest.fixture
def people(sql: Run, lake: SqlCatalog) -> Table:
    """Return a table of version 3 with an insert, an update and a delete, an update that undoes the first, and a compaction."""
    sql(
        "CREATE TABLE lake.db.people (id BIGINT NOT NULL, name STRING, place STRUCT<city: STRING, tags: MAP<STRING, INT>>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3', 'write.update.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read')"
    )
    table = lake.load_table("db.people")
    schema = table.schema().as_arrow()
    rows = [{"id": number, "name": f"p{number}", "place": {"city": "Bonn", "tags": [("a", number)]}} for number in range(8)]
    table.append(pa.Table.from_pylist(rows, schema=schema))
    sql("UPDATE lake.db.people SET name = 'new' WHERE id = 3")
    sql("DELETE FROM lake.db.people WHERE id IN (4, 6)")
    sql("UPDATE lake.db.people SET name = 'p3' WHERE id = 3")
    table.refresh().maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    return table


def test_the_clause_changes_has_every_bound_mode_and_option(spark: SparkSession, sql: Run, people: Table) -> None:
    if spark.version < "4.2":
        pytest.skip("this Spark has no CHANGES")
    ids = [snapshot.snapshot_id for snapshot in people.snapshots()]
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in people.snapshots()}
    people.manage_snapshots().create_tag(ids[1], "first_update").create_branch(ids[2], "side").commit()

    def kinds(clause: str, columns: str = "id, name, _change_type", table: str = "lake.db.people") -> list[Any]:
        return sorted(tuple(row) for row in sql(f"SELECT {columns} FROM {table} CHANGES {clause}"))

    update = [(3, "new", "update_postimage"), (3, "p3", "update_preimage")]
    at = [dt.datetime.fromtimestamp(times[snapshot_id] / 1000, dt.UTC).isoformat() for snapshot_id in ids]
    back, deleted = [(3, "new", "delete"), (3, "p3", "insert")], [(4, "p4", "delete"), (6, "p6", "delete")]
    expected = {
        f"VERSION {ids[1]} TO VERSION {ids[1]} WITH (computeUpdates = 'true')": update,
        "VERSION 'first_update' TO VERSION 'first_update' WITH (computeUpdates = 'true')": update,
        f"VERSION {ids[0]} EXCLUSIVE TO VERSION {ids[2]} EXCLUSIVE": [(3, "new", "insert"), (3, "p3", "delete")],
        f"VERSION {ids[0]} EXCLUSIVE WITH (deduplicationMode = 'netChanges')": deleted,
        f"TIMESTAMP '{at[1]}'": sorted([(3, "new", "insert"), (3, "p3", "delete"), *deleted, *back]),
        f"TIMESTAMP '{at[1]}' EXCLUSIVE TO TIMESTAMP '{at[3]}'": [*back, *deleted],
        f"TIMESTAMP '{at[1]}' EXCLUSIVE TO TIMESTAMP '{at[3]}' EXCLUSIVE": deleted,
        f"VERSION {ids[4]}": [],  # a compaction has no changes
        f"VERSION {ids[1]} WHERE _change_type = 'delete' AND id > 3": deleted,
    }
    query = "SELECT {}, id, name, _change_type, _commit_version, unix_millis(_commit_timestamp) FROM lake.db.people CHANGES FROM {}"
    for first in range(0, len(expected), 3):
        clauses = [*expected][first : first + 3]
        found = sql(" UNION ALL ".join(query.format(number, clause) for number, clause in enumerate(clauses)))
        for number, clause in enumerate(clauses):
            assert sorted(row[1:4] for row in found if row[0] == number) == expected[clause], clause
        assert all(times[row[4]] == row[5] for row in found)
        # Each change is in one snapshot: rows 4 and 6 went in the third, and row 3 changed in the second and in the fourth.
        of_rows = {4: [ids[2]], 6: [ids[2]], 3: [ids[1], ids[3]]}
        assert all(row[4] in of_rows[row[1]] for row in found)
    assert kinds("FROM VERSION 'first_update' EXCLUSIVE", "id, place.city, place.tags['a']", "lake.db.people.branch_side") == [
        (4, "Bonn", 4),
        (6, "Bonn", 6),
    ]
    until = f"TIMESTAMP '{at[1]}' EXCLUSIVE TO TIMESTAMP '{at[4]}'"
    assert kinds(f"FROM {until}", table="lake.db.people.branch_side") == deleted
    assert kinds(f"FROM {until}") == sorted([*deleted, *back])
    read = spark.read.options(startingVersion=str(ids[0]), startingBoundInclusive="false", endingVersion=str(ids[1]), computeUpdates="true")
    assert sorted(tuple(row) for row in read.changes("lake.db.people").select("id", "name", "_change_type").collect()) == update
    of_branch = spark.read.options(branch="side", startingVersion=str(ids[1]), startingBoundInclusive="false").changes("lake.db.people")
    assert sorted(row.id for row in of_branch.collect()) == [4, 6]
    with pytest.raises(PySparkException, match="no branch or tag 'none'"):
        spark.read.options(branch="none", startingVersion=str(ids[1]), endingVersion=str(ids[1])).changes("lake.db.people").collect()
    for name in ("snapshot-id", "start-snapshot-id", "versionAsOf"):
        with pytest.raises(PySparkException, match=rf"read with the option {name.lower()}[\s\S]*Next: give startingVersion"):
            spark.read.option(name, str(ids[0])).changes("lake.db.people").collect()
    sql(f"CREATE OR REPLACE TEMP VIEW since AS SELECT * FROM lake.db.people CHANGES FROM VERSION {ids[2]}")
    assert sql("SELECT count(*), count(DISTINCT _commit_version) FROM since") == [(4, 2)]
    joined = (
        "SELECT l.id FROM lake.db.people CHANGES FROM VERSION {0} EXCLUSIVE l JOIN lake.db.people r ON l.id = r.id WHERE l.name = 'new'"
    )
    assert sql(joined.format(ids[0])) == [(3,), (3,)]
    for clause, words in (
        ("FROM VERSION 7", "has no snapshot 7"),
        ("FROM VERSION 'nothing'", "no branch or tag 'nothing'"),
        (f"FROM VERSION {ids[3]} TO VERSION {ids[1]}", "is not an ancestor of"),
        ("FROM TIMESTAMP current_timestamp() - INTERVAL 1 DAY", r"times that are literals[\s\S]*Next: write it as TIMESTAMP"),
    ):
        with pytest.raises(PySparkException, match=words):
            kinds(clause)
    with pytest.raises(PySparkException, match="CHANGES is for a table or a branch"):
        kinds("FROM VERSION 1", table="lake.db.people.files")


def test_a_changelog_view_has_net_changes_updates_and_all_types_on_every_version(sql: Run, people: Table) -> None:
    first = people.snapshots()[0].snapshot_id
    call = "CALL lake.system.create_changelog_view(table => 'db.people', changelog_view => 'seen', options => map('start-snapshot-id', '{}'), {})"
    sql(call.format(first, "compute_updates => true"))
    assert sql("SELECT id, name, _change_type, place.tags['a'] FROM seen WHERE id = 3 ORDER BY _change_ordinal, _change_type DESC") == [
        *((3, "p3", "UPDATE_BEFORE", 3), (3, "new", "UPDATE_AFTER", 3), (3, "new", "UPDATE_BEFORE", 3), (3, "p3", "UPDATE_AFTER", 3)),
    ]
    sql(call.format(first, "net_changes => true, compute_updates => true"))
    assert sorted(sql("SELECT id, place.tags['a'], _change_type FROM seen")) == [(4, 4, "DELETE"), (6, 6, "DELETE")]


def test_rows_with_equal_identifiers_are_an_error_that_names_them_where_rows_have_no_ids(
    spark: SparkSession, sql: Run, lake: SqlCatalog
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    last = {}
    for version in (2, 3):
        table = lake.create_table(f"db.twice{version}", schema, properties={"format-version": str(version)})
        with table.update_schema() as update:
            update.set_identifier_fields("id")
        table.append(pa.table({"id": [1, 1], "v": ["a", "b"]}, schema=schema))
        table.overwrite(pa.table({"id": [1], "v": ["c"]}, schema=schema))
        last[version] = table.snapshots()[-1].snapshot_id
        view = f"CALL lake.system.create_changelog_view(table => 'db.twice{version}', changelog_view => 'twice{version}'"
        sql(f"{view}, identifier_columns => array('id'))")
        with pytest.raises(PySparkException, match=r"changed several rows with id = 1.*\n.*identifier columns that are unique"):
            sql(f"SELECT * FROM twice{version}")
        sql(f"{view}, compute_updates => true)")
    assert sql("SELECT count(*) FROM twice2") == [(5,)], "the kinds of changes are not read"
    queries = ["SELECT v, lower(_change_type) FROM twice{0} WHERE _commit_snapshot_id = {1}"]
    if spark.version >= "4.2":
        queries.append("SELECT v, _change_type FROM lake.db.twice{0} CHANGES FROM VERSION {1} WITH (computeUpdates = 'true')")
    for query in queries:
        with pytest.raises(PySparkException, match="changed several rows with id = 1"):
            sql(query.format(2, last[2]))
        assert sorted(sql(query.format(3, last[3]))) == [("a", "delete"), ("b", "delete"), ("c", "insert")]


@pytest.mark.parametrize("version", [2, 3])
def test_updates_are_found_by_keys_inside_of_structs_in_every_way(
    spark: SparkSession, lake: SqlCatalog, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_nested_key(lake, "db.keys", version)
    scan = table.changes(table.snapshots()[0].snapshot_id, compute_updates=True)
    frames = []
    for limits in WAYS.values():
        with monkeypatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(change_feed, name, limit)
            frames.append(changes_frame(spark, scan).select("place.zip", "name", "_change_type"))
    rows = reduce(DataFrame.unionAll, frames).collect()
    assert sorted(tuple(row) for row in rows) == sorted(NESTED_KEY_CHANGES * len(WAYS))


def test_changes_are_counted_and_read_without_their_kinds_in_every_way(
    spark: SparkSession, sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = lake.create_table("db.t", schema, properties={"write.merge.mode": "copy-on-write"})
    table.append(pa.table({"id": range(5), "v": ["a"] * 5}, schema=schema))
    table.upsert(pa.table({"id": [2], "v": ["b"]}, schema=schema), ["id"])
    start = table.snapshots()[0].snapshot_id
    counts = []
    for limits, mode, updates in product(WAYS.values(), ("dropCarryovers", "netChanges"), (False, True)):
        scan = table.changes(start, deduplication_mode=mode, compute_updates=updates, identifier_columns=["id"])
        with monkeypatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(change_feed, name, limit)
            counts.append(changes_frame(spark, scan.select()).agg(F.count("*")))
            counts.append(changes_frame(spark, scan.select("id")).agg(F.sum("id") - 2))
    assert [row[0] for row in reduce(DataFrame.unionAll, counts).collect()] == [2] * len(counts)
    if spark.version >= "4.2":
        clause = f"lake.db.t CHANGES FROM VERSION {start} EXCLUSIVE WITH (deduplicationMode = 'netChanges')"
        assert sql(f"SELECT count(*) FROM {clause}") == [(2,)]


def test_copied_rows_of_a_table_of_maps_with_any_names_are_found_in_many_partitions(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema(
        [("m", pa.map_(pa.string(), pa.float64())), ("s.`t", pa.struct([("n", pa.map_(pa.int32(), pa.list_(pa.string())))]))]
    )
    rows = pa.Table.from_pylist(
        [{"m": [("a", float(number)), ("b", float("nan"))], "s.`t": {"n": [(number, ["x", None])]}} for number in range(400)], schema=schema
    )
    table = lake.create_table("db.maps", schema)
    table.append(rows)
    table.overwrite(rows.take([number for number in reversed(range(400)) if number not in (3, 300)]))
    scan = table.changes(table.snapshots()[0].snapshot_id)
    assert [dict(value)["a"] for value in scan.to_arrow()["m"].to_pylist()] == [3, 300]
    assert sorted(row.m["a"] for row in changes_frame(spark, scan).collect()) == [3, 300]
    for name, limit in WAYS["by a shuffle"].items():
        monkeypatch.setattr(change_feed, name, limit)
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = changes_frame(spark, scan)
        assert sorted(row.m["a"] for row in frame.collect()) == [3, 300]
        assert frame.rdd.getNumPartitions() > 1
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    add_hash = HashAdder(("m", "s.`t"))
    hashes = [batch.column(2).to_pylist() for batch in add_hash(rows.to_batches() + rows.take([3, 300]).to_batches())]
    assert (len(set(hashes[0])), hashes[1]) == (400, [hashes[0][3], hashes[0][300]])


def test_row_groups_without_changed_rows_are_not_read(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    small = {"write.parquet.row-group-limit": "1000", "write.parquet.row-group-size-bytes": "20000"}
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read", **small}
    table = lake.create_table("db.groups", pa.schema([("id", pa.int64()), ("name", pa.string())]), properties=properties)
    table.append(pa.table({"id": range(20_000), "name": [f"name {number}" for number in range(20_000)]}))
    first = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    deleted = [0, *range(3995, 4005), 11_000, 19_999]
    table.delete(f"id in ({', '.join(map(str, deleted))})")
    (task,) = table.scan().plan_files()
    footer = pq.ParquetFile(task.file.file_path).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    firsts = [sum(group.num_rows for group in groups[:number]) for number in range(len(groups))]
    with Path(task.file.file_path).open("r+b") as file:
        for group, start in zip(groups, firsts, strict=True):
            if not any(start <= row < start + group.num_rows for row in deleted):
                for column in map(group.column, range(group.num_columns)):
                    file.seek(column.dictionary_page_offset or column.data_page_offset)
                    file.write(bytes(column.total_compressed_size))
    assert sorted(table.changes(first).to_arrow()["id"].to_pylist()) == deleted
    for split_bytes in ("128m", "30k"):
        spark.conf.set("spark.sql.files.maxPartitionBytes", split_bytes)
        try:
            rows = changes_frame(spark, table.changes(first).select("id", "name", "_row_id", "_pos")).collect()
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")
        assert sorted(tuple(row) for row in rows) == [(number, f"name {number}", number, number) for number in deleted]
    with pytest.raises(Exception, match="uncompressed_page_size"):  # of another row group
        sql("SELECT sum(length(name)) FROM lake.db.groups")
