"""MERGE, UPDATE and DELETE of a table that has the partitions of their source, without a shuffle; rows are compared with a model."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.merge_on_read import delete_keys_everywhere
from tests.spark.sql.conftest import Run, append, stored
from tests.spark.sql.test_partitioned_joins import PARTIALLY_CLUSTERED, SETTINGS

from icefloe import SqlCatalog
from icefloe.datafile.write_target import WriteTarget
from icefloe.spark.row_level import changed_rows_job, large_source, partitioned_join
from icefloe.spark.row_level.changed_rows_job import RowOrdinals
from icefloe.spec.metadata.table_properties import DISTRIBUTION_MODE

pytestmark = pytest.mark.spark

Plans = Callable[[], str]
UPSERT = "WHEN MATCHED AND s.v < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture(autouse=True)
def _joined_by_storage(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(partitioned_join, "LEAST_SOURCE_ROWS", 1)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in SETTINGS:
        spark.conf.unset(name)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plans:
    """Return the plan of the rows that the last statement has written, and how they are distributed: without adaptive execution, Spark ignores this."""
    seen: list[str] = []
    spread = changed_rows_job._spread

    def noting(rows: DataFrame, ordinals: RowOrdinals, target: WriteTarget) -> DataFrame:
        ready = spread(rows, ordinals, target)
        distribution = DISTRIBUTION_MODE.read(target.properties)
        seen.append(f"distribution: {distribution}\n{ready._jdf.queryExecution().executedPlan().toString()}")
        return ready

    monkeypatch.setattr(changed_rows_job, "_spread", noting)
    return lambda: seen[-1]


def tables(sql: Run, lake: SqlCatalog, mode: str, partition: str = "bucket(4, id)", version: int = 3) -> None:
    """Create a target with the ids from 0 to 99 in two files of each bucket, and a source with every fifth of them and new ones."""
    for name, fields in (("t", partition), ("s", "bucket(4, id)")):
        sql(
            f"""CREATE TABLE lake.db.{name} (id BIGINT, v BIGINT, kind STRING) USING iceberg PARTITIONED BY ({fields})
            TBLPROPERTIES ('format-version'='{version}', 'write.merge.mode'='{mode}', 'write.update.mode'='{mode}', 'write.delete.mode'='{mode}')"""
        )
    for start in (0, 50):
        append(lake, [(number, 0, "a") for number in range(start, start + 50)])
    append(lake, [(number, -1 if number % 10 == 5 else number, "b") for number in range(0, 130, 5)], "db.s")


def expected_rows() -> list[tuple[int, int, str]]:
    rows = {number: (number, 0, "a") for number in range(100)}
    for number in range(0, 130, 5):
        if number % 10 == 5 and number < 100:
            del rows[number]
        elif number < 100:
            rows[number] = (number, number, "a")
        else:
            rows[number] = (number, -1 if number % 10 == 5 else number, "b")
    return sorted(rows.values())


@pytest.mark.parametrize(("mode", "version"), [("merge-on-read", 3), ("copy-on-write", 2)])
def test_a_merge_of_the_same_buckets_has_no_shuffle(sql: Run, lake: SqlCatalog, plan: Plans, mode: str, version: int) -> None:
    tables(sql, lake, mode, version=version)
    sql(f"MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id {UPSERT}")
    assert "Exchange" not in plan()
    assert plan().startswith("distribution: none")
    assert "ShuffledHashJoin" in plan()
    assert "Sort" not in below_join(plan())
    assert stored(lake, "id", "v", "kind") == expected_rows()
    # Each partition has been written by one task.
    (summary,) = sql("SELECT summary['added-data-files'] FROM lake.db.t.snapshots ORDER BY committed_at DESC LIMIT 1")
    assert mode == "copy-on-write" or summary == ("4",)


def below_join(plan: str) -> str:
    return plan[plan.index("ShuffledHashJoin") :]


def test_rows_that_leave_their_partition_are_distributed_and_pruned_targets_stay_partitioned(
    sql: Run, lake: SqlCatalog, plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(sql, lake, "merge-on-read")
    monkeypatch.setattr(large_source, "LEAST_TARGET_BYTES", 0)
    sql(
        "MERGE INTO lake.db.t t USING (SELECT * FROM lake.db.s WHERE id < 30) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id + 1000, v = 1"
    )
    assert "Exchange" not in below_join(plan())
    assert plan().startswith("distribution: hash")
    assert "<= 25" in below_join(plan())
    changed = [(1000 + number, 1, "a") if number % 5 == 0 and number < 30 else (number, 0, "a") for number in range(100)]
    assert stored(lake, "id", "v", "kind") == sorted(changed)


def test_tables_that_changed_are_merged_by_the_partition_fields_of_all_their_specs(
    spark: SparkSession, sql: Run, lake: SqlCatalog, plan: Plans
) -> None:
    tables(sql, lake, "merge-on-read", "bucket(4, id), kind")
    table = lake.load_table("db.t")
    delete_keys_everywhere(table, pa.table({"id": pa.array([10, 11], pa.int64())}), ["id"])
    sql("DELETE FROM lake.db.t WHERE id = 12")
    sql("ALTER TABLE lake.db.t DROP PARTITION FIELD kind")
    sql("ALTER TABLE lake.db.t RENAME COLUMN v TO value")
    append(lake, [(200, 0, "a"), (None, 0, "a")])
    append(lake, [(None, 5, "b"), (200, 6, "b")], "db.s")
    before = {row[0]: row for row in stored(lake, "id", "value", "kind") if row[0] is not None}
    sql(
        """MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET value = s.v WHEN NOT MATCHED THEN INSERT (id, value, kind) VALUES (s.id, s.v, s.kind)"""
    )
    rows = {**before}
    for number, value, kind in stored(lake, "id", "v", "kind", name="db.s"):
        if number is not None:
            rows[number] = (number, value, rows[number][2] if number in rows else kind)
    assert "Exchange" not in plan()
    assert stored(lake, "id", "value", "kind") == [(None, 0, "a"), (None, 5, "b"), *sorted(rows.values())]


def test_a_target_row_that_several_source_rows_match_is_refused(spark: SparkSession, sql: Run, lake: SqlCatalog, plan: Plans) -> None:
    tables(sql, lake, "merge-on-read")
    append(lake, [(20, 7, "twice")], "db.s")
    text = "MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    for value in ("false", "true", "TRUE"):
        spark.conf.set(PARTIALLY_CLUSTERED, value)
        try:
            with pytest.raises(SparkRuntimeException, match="MERGE_CARDINALITY_VIOLATION"):
                sql(text)
        finally:
            spark.conf.unset(PARTIALLY_CLUSTERED)
        assert ("ShuffledHashJoin" in plan()) == (value == "false")
    assert {row[0] for row in stored(lake, "v")} == {0}


def test_rows_without_a_source_row_are_found_without_a_shuffle(sql: Run, lake: SqlCatalog, plan: Plans) -> None:
    tables(sql, lake, "merge-on-read")
    clauses = "WHEN MATCHED THEN UPDATE SET v = 1 WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id < 90 THEN DELETE"
    sql(f"MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id {clauses}")
    assert "Exchange" not in plan()
    sources = stored(lake, "id", "v", "kind", name="db.s")
    kept = [(number, 1, "a") if number % 5 == 0 else (number, 0, "a") for number in range(100) if number % 5 == 0 or number >= 90]
    assert stored(lake, "id", "v", "kind") == [*kept, *(row for row in sources if row[0] >= 100)]


def test_a_source_in_one_partition_of_many_is_hashed_only_if_one_task_can_hold_it(
    sql: Run, lake: SqlCatalog, plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(sql, lake, "merge-on-read")
    text = "MERGE INTO lake.db.t t USING (SELECT id, v FROM lake.db.s WHERE id = 20) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    for most, join in ((16, "ShuffledHashJoin"), (15, "SortMergeJoin")):  # a row of the source has 16 bytes
        monkeypatch.setattr(partitioned_join, "_MOST_HASHED_BYTES", most)
        sql(text)
        assert join in plan()
    assert stored(lake, "id", "v") == [(number, 20 if number == 20 else 0) for number in range(100)]


def test_a_source_whose_largest_partition_is_too_large_is_sorted(
    sql: Run, lake: SqlCatalog, plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(sql, lake, "merge-on-read")
    append(lake, [(200, 7, "c")] * 74, "db.s")  # 100 rows in four partitions, of which one has most
    monkeypatch.setattr(partitioned_join, "_MOST_HASHED_BYTES", 16 * 50)  # for the average partition more than enough
    text = "MERGE INTO lake.db.t t USING (SELECT id, v FROM lake.db.s) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    sql(text)
    assert "SortMergeJoin" in plan()
    assert "Exchange" not in plan()
    monkeypatch.setattr(partitioned_join, "_MOST_HASHED_BYTES", 16 * 100)
    sql(text)
    assert "ShuffledHashJoin" in plan()


def test_other_sources_are_merged_as_before(sql: Run, lake: SqlCatalog, plan: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    tables(sql, lake, "merge-on-read")
    sql("CREATE TABLE lake.db.whole USING iceberg AS SELECT * FROM lake.db.s WHERE v >= 0")
    sql("MERGE INTO lake.db.t t USING lake.db.whole s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + 1")
    assert "ShuffledHashJoin" not in plan()
    monkeypatch.setattr(partitioned_join, "LEAST_SOURCE_ROWS", 1000)
    sql(f"MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id {UPSERT}")
    assert "BroadcastHashJoin" in plan()
    assert stored(lake, "id", "v", "kind") == expected_rows()
