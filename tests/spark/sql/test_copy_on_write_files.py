"""The number of files that copy-on-write statements write: rewritten and new rows are in the same files, by the advisory size, in the table's sort order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.combinations import combinations
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.spec.manifest.data_file import DataFile

pytestmark = pytest.mark.spark

ADVISORY = "spark.sql.iceberg.advisory-partition-size"


@pytest.fixture
def advise(spark: SparkSession) -> Iterator[Any]:
    yield lambda size: spark.conf.set(ADVISORY, str(size))
    spark.conf.unset(ADVISORY)


def live(lake: SqlCatalog, name: str = "db.t") -> list[DataFile]:
    return [task.file for task in lake.load_table(name).scan().plan_files()]


def made(spark: SparkSession, sql: Run, *, partitioned: bool = False, files: int = 1, more: str = "") -> None:
    """A table of 100 rows in each file."""
    sql(
        f"CREATE TABLE lake.db.t (id INT, salary INT, dep STRING) {'PARTITIONED BY (dep)' if partitioned else ''} TBLPROPERTIES ('x' = '1'{more})"
    )
    for _ in range(files):
        spark.range(100).selectExpr("int(id) AS id", "100 AS salary", "'hr' AS dep").coalesce(1).writeTo("lake.db.t").append()


@pytest.mark.parametrize(("partitioned", "version"), combinations([False, True], [1, 2, 3]))
def test_a_data_file_is_replaced_by_one_data_file_in_updates_and_merges(
    spark: SparkSession, sql: Run, lake: SqlCatalog, version: int, partitioned: bool
) -> None:
    made(spark, sql, partitioned=partitioned, more=f", 'format-version' = '{version}'")
    before = dict(sql("SELECT id, _row_id FROM lake.db.t"))
    expected = dict.fromkeys(range(100), 100)
    for turn in range(1, 4):
        sql(f"UPDATE lake.db.t SET salary = {turn} WHERE id IN ({turn}, {turn + 10})")
        expected.update({turn: turn, turn + 10: turn})
        assert len(live(lake)) == 1
        sql(
            f"MERGE INTO lake.db.t t USING (SELECT * FROM VALUES ({turn + 20}), ({turn + 200}) AS s (id)) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET salary = -{turn} WHEN NOT MATCHED THEN INSERT (id, salary, dep) VALUES (s.id, 0, 'hr')"
        )
        expected.update({turn + 20: -turn, turn + 200: 0})
        assert len(live(lake)) == 1
    assert dict(sql("SELECT id, salary FROM lake.db.t")) == expected
    assert live(lake)[0].record_count == len(expected) == 103
    after = dict(sql("SELECT id, _row_id FROM lake.db.t"))
    assert {number: after[number] for number in before} == before
    if version == 3:
        assert len(set(after.values())) == 103
        last = dict(sql("SELECT id, _last_updated_sequence_number FROM lake.db.t"))
        assert (last[50], last[1], last[201], last[23]) == (1, 2, 3, 7)
    # What was written on the way is deleted: the files that stay are those that snapshots name.
    table = lake.load_table("db.t")
    named = {row.file_path for row in spark.sql("SELECT file_path FROM lake.db.t.all_files").collect()}
    found = sql("SELECT count(*) FROM lake.db.t.snapshots")
    assert found == [(7,)]
    folder = table.location().removeprefix("file://")
    on_disk = {str(path) for path in Path(folder, "data").rglob("*.parquet")}
    assert {path.removeprefix("file://") for path in named} == on_disk


STATEMENTS = {
    "update": "UPDATE lake.db.t SET salary = -1 WHERE mod(id, 2) = 0",
    "delete": "DELETE FROM lake.db.t WHERE mod(id, 2) = 0",
    "merge": "MERGE INTO lake.db.t t USING (SELECT id FROM range(100)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET salary = -1",
}


@pytest.mark.parametrize(
    ("statement", "partitioned", "size", "files"),
    [
        pytest.param(chosen.values[0], *chosen.values[1], marks=chosen.marks)
        for chosen in combinations(list(STATEMENTS), [(False, 256 * 1024 * 1024, 1), (True, 100, 4)])
    ],
)
def test_the_advisory_partition_size_determines_the_number_of_files(
    spark: SparkSession, sql: Run, lake: SqlCatalog, advise: Any, statement: str, partitioned: bool, size: int, files: int
) -> None:
    made(spark, sql, partitioned=partitioned, files=4, more=", 'read.split.open-file-cost' = '2147483647'")
    advise(size)
    sql(STATEMENTS[statement])
    summary = lake.load_table("db.t").current_snapshot().summary
    assert (summary["added-data-files"], summary["deleted-data-files"]) == (str(files), "4")
    changed = {"update": (400, 200), "delete": (200, 0), "merge": (400, 400)}[statement]
    assert sql("SELECT count(*), count_if(salary = -1) FROM lake.db.t") == [changed]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_rewritten_files_of_a_sorted_table_are_sorted_and_have_its_sort_order_id(
    spark: SparkSession, sql: Run, lake: SqlCatalog, statement: str
) -> None:
    made(spark, sql, files=2)
    sql("ALTER TABLE lake.db.t WRITE ORDERED BY salary DESC, id")
    sql(STATEMENTS[statement])
    order = lake.load_table("db.t").sort_order().order_id
    files = live(lake)
    assert [(file.sort_order_id, order > 0) for file in files] == [(order, True)]
    rows = pq.read_table(files[0].file_path.removeprefix("file://")).select(["salary", "id"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: (-row["salary"], row["id"]))


def test_the_distribution_mode_of_a_statement_overrides_the_table_s(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    modes = "'write.distribution-mode' = 'none', 'write.merge.mode' = 'merge-on-read', 'read.split.open-file-cost' = '2147483647'"
    made(spark, sql, partitioned=True, files=4, more=f", {modes}")
    for mode, files in (("none", "4"), ("hash", "1")):
        sql(f"ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.merge.distribution-mode' = '{mode}')")
        sql(STATEMENTS["merge"])
        assert lake.load_table("db.t").current_snapshot().summary["added-data-files"] == files
        sql("DELETE FROM lake.db.t")
        for _ in range(4):
            spark.range(100).selectExpr("int(id) AS id", "100 AS salary", "'hr' AS dep").coalesce(1).writeTo("lake.db.t").append()
    with pytest.raises(PySparkException, match=r"write\.update\.distribution-mode is 'sideways'"):
        sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.update.distribution-mode' = 'sideways')")
