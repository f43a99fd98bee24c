"""The number of files that copy-on-write statements write: rewritten and new rows are in the same files, by the advisory size, in the table's sort order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.combinations import combinations, repetitions
from tests.repetitions import ALL
from tests.spark.sql.conftest import Run, append, stored

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


def made(lake: SqlCatalog, sql: Run, *, partitioned: bool = False, files: int = 1, more: str = "") -> None:
    """A table of 100 rows in each file."""
    sql(
        f"CREATE TABLE lake.db.t (id INT, salary INT, dep STRING) {'PARTITIONED BY (dep)' if partitioned else ''} TBLPROPERTIES ('x' = '1'{more})"
    )
    for _ in range(files):
        append(lake, [(number, 100, "hr") for number in range(100)])


@pytest.mark.parametrize(
    ("partitioned", "version"),
    repetitions([(partitioned, version) for partitioned in (False, True) for version in (1, 2, 3)], (False, 3), (True, 2)),
)
def test_a_data_file_is_replaced_by_one_data_file_in_updates_and_merges(
    spark: SparkSession, sql: Run, lake: SqlCatalog, version: int, partitioned: bool
) -> None:
    made(lake, sql, partitioned=partitioned, more=f", 'format-version' = '{version}'")
    before = dict(stored(lake, "id", "_row_id"))
    expected = dict.fromkeys(range(100), 100)
    turns = 3 if ALL else 1
    for turn in range(1, turns + 1):
        sql(f"UPDATE lake.db.t SET salary = {turn} WHERE id IN ({turn}, {turn + 10})")
        expected.update({turn: turn, turn + 10: turn})
        assert len(live(lake)) == 1
        sql(
            f"MERGE INTO lake.db.t t USING (SELECT * FROM VALUES ({turn + 20}), ({turn + 200}) AS s (id)) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET salary = -{turn} WHEN NOT MATCHED THEN INSERT (id, salary, dep) VALUES (s.id, 0, 'hr')"
        )
        expected.update({turn + 20: -turn, turn + 200: 0})
        assert len(live(lake)) == 1
    assert dict(stored(lake, "id", "salary")) == expected
    assert live(lake)[0].record_count == len(expected) == 100 + turns
    after = dict(sql("SELECT id, _row_id FROM lake.db.t"))
    assert {number: after[number] for number in before} == before
    if version == 3:
        assert len(set(after.values())) == 100 + turns
        last = dict(sql("SELECT id, _last_updated_sequence_number FROM lake.db.t"))
        assert (last[50], last[1], last[201], last[20 + turns]) == (1, 2, 3, 1 + 2 * turns)
    # What was written on the way is deleted: the files that stay are those that snapshots name.
    table = lake.load_table("db.t")
    named = {row.file_path for row in spark.sql("SELECT file_path FROM lake.db.t.all_files").collect()}
    found = sql("SELECT count(*) FROM lake.db.t.snapshots")
    assert found == [(1 + 2 * turns,)]
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
    made(lake, sql, partitioned=partitioned, files=4, more=", 'read.split.open-file-cost' = '2147483647'")
    advise(size)
    sql(STATEMENTS[statement])
    summary = lake.load_table("db.t").current_snapshot().summary
    assert (summary["added-data-files"], summary["deleted-data-files"]) == (str(files), "4")
    changed = {"update": (400, 200), "delete": (200, 0), "merge": (400, 400)}[statement]
    salaries = [salary for _, salary in stored(lake, "id", "salary")]
    assert (len(salaries), salaries.count(-1)) == changed


@pytest.mark.parametrize("statement", repetitions(list(STATEMENTS), "update", "merge"))
def test_rewritten_files_of_a_sorted_table_are_sorted_and_have_its_sort_order_id(
    spark: SparkSession, sql: Run, lake: SqlCatalog, statement: str
) -> None:
    made(lake, sql, files=2)
    sql("ALTER TABLE lake.db.t WRITE ORDERED BY salary DESC, id")
    sql(STATEMENTS[statement])
    order = lake.load_table("db.t").sort_order().order_id
    files = live(lake)
    assert [(file.sort_order_id, order > 0) for file in files] == [(order, True)]
    rows = pq.read_table(files[0].file_path.removeprefix("file://")).select(["salary", "id"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: (-row["salary"], row["id"]))


def test_the_distribution_mode_of_a_statement_overrides_the_table_s(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    modes = "'write.distribution-mode' = 'none', 'write.merge.mode' = 'merge-on-read', 'read.split.open-file-cost' = '2147483647'"
    made(lake, sql, partitioned=True, files=4, more=f", {modes}")
    for mode, files in (("none", "4"), ("hash", "1")):
        sql(f"ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.merge.distribution-mode' = '{mode}')")
        sql(STATEMENTS["merge"])
        assert lake.load_table("db.t").current_snapshot().summary["added-data-files"] == files
        lake.load_table("db.t").delete()
        for _ in range(4):
            append(lake, [(number, 100, "hr") for number in range(100)])
    with pytest.raises(PySparkException, match=r"write\.update\.distribution-mode is 'sideways'"):
        sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.update.distribution-mode' = 'sideways')")
