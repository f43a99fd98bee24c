"""SHOW PARTITIONS: a row for each partition with files, over all specs, at any point of the table's history."""

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

CREATE = "CREATE TABLE lake.db.t (id BIGINT, kind STRING, day DATE, n DECIMAL(5, 2)) USING iceberg"


def test_each_partition_is_a_row_and_a_partition_clause_filters_them(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql(f"{CREATE} PARTITIONED BY (kind, months(day), truncate(10, id))")
    sql(
        "INSERT INTO lake.db.t VALUES (1, 'a', DATE'2024-01-31', 1.5), (2, 'a', DATE'2024-01-01', 2), (12, NULL, DATE'2024-02-01', 3), (-1, 'x y/z', NULL, 4)"
    )
    lines = ["kind=a/day_month=2024-01/id_trunc=0", "kind=null/day_month=2024-02/id_trunc=10", "kind=x+y%2Fz/day_month=null/id_trunc=-10"]
    assert spark.sql("SHOW PARTITIONS lake.db.t").columns == ["partition"]
    assert sql("SHOW PARTITIONS lake.db.t") == [(line,) for line in lines]
    for chosen, expected in {
        "kind = 'a'": [0],
        "KIND = 'x y/z', id_trunc = -10": [2],
        "kind = NULL": [1],
        "day_month = '2024-01', id_trunc = 0": [0],
        "id_trunc = 7": [],
    }.items():
        assert sql(f"SHOW PARTITIONS lake.db.t PARTITION ({chosen})") == [(lines[place],) for place in expected], chosen
    folders = {task.file.file_path.split("/data/")[1].rpartition("/")[0] for task in lake.load_table("db.t").scan().plan_files()}
    assert folders == set(lines)


def test_partitions_of_all_specs_with_files_are_shown_also_of_old_snapshots(sql: Run, lake: SqlCatalog) -> None:
    sql(f"{CREATE} PARTITIONED BY (day)")
    sql("INSERT INTO lake.db.t VALUES (1, 'a', DATE'2024-01-31', 1.5)")
    sql("ALTER TABLE lake.db.t CREATE TAG first")
    sql("ALTER TABLE lake.db.t REPLACE PARTITION FIELD day WITH kind")
    sql("INSERT INTO lake.db.t VALUES (2, 'b', DATE'2024-01-31', 1.5)")
    assert sql("SHOW PARTITIONS lake.db.t") == [("day=2024-01-31",), ("kind=b",)]
    assert sql("SHOW PARTITIONS lake.db.t PARTITION (day = DATE'2024-01-31')") == [("day=2024-01-31",)]
    assert sql("SHOW PARTITIONS lake.db.t.tag_first") == [("day=2024-01-31",)]
    sql("DELETE FROM lake.db.t WHERE day = DATE'2024-01-31'")
    assert sql("SHOW PARTITIONS lake.db.t") == []


def test_a_table_without_partitions_is_refused(sql: Run) -> None:
    sql(CREATE)
    with pytest.raises(IllegalArgumentException, match=r"db\.t is not partitioned"):
        sql("SHOW PARTITIONS lake.db.t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SHOW PARTITIONS lake.db.nothing")
    sql("ALTER TABLE lake.db.t ADD PARTITION FIELD kind")
    assert sql("SHOW PARTITIONS lake.db.t") == []
    with pytest.raises(IllegalArgumentException, match=r"no partition field 'day'(?s:.)*its fields are kind"):
        sql("SHOW PARTITIONS lake.db.t PARTITION (day = '2024-01-01')")
    with pytest.raises(ParseException):
        sql("SHOW PARTITIONS lake.db.t PARTITION (kind)")
