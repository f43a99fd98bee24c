"""Metadata tables in SQL: each by its name, at a snapshot, filtered, joined, and the same rows as `icefloe.inspect` gives."""

import pytest
from pyspark.errors import PySparkException
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.inspect.metadata_tables.registry import METADATA_TABLES, metadata_table

pytestmark = pytest.mark.spark


@pytest.fixture
def written(sql: Run) -> Run:
    sql(
        "CREATE TABLE lake.db.t (id BIGINT, kind STRING, s STRUCT<a: INT>) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '3')"
    )
    sql("INSERT INTO lake.db.t SELECT id, if(id % 2 = 0, 'a', 'b'), named_struct('a', 1) FROM range(10)")
    sql("INSERT INTO lake.db.t SELECT id, 'c', NULL FROM range(5)")
    return sql


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_every_metadata_table_has_the_rows_that_are_told_elsewhere(written: Run, lake: SqlCatalog, name: str) -> None:
    expected = metadata_table(lake.load_table("db.t"), name)
    columns = [field[0] for field in written(f"DESCRIBE lake.db.t.{name}")]
    assert columns == expected.schema.names
    assert len(written(f"SELECT * FROM lake.db.t.{name}")) == expected.arrow().num_rows
    assert written(f"SELECT count(*) FROM lake.db.t.{name}") == [(expected.arrow().num_rows,)]


def test_they_are_read_like_any_table(written: Run, lake: SqlCatalog) -> None:
    first = lake.load_table("db.t").snapshots()[0].snapshot_id
    assert written("SELECT partition.kind, sum(record_count) FROM lake.db.t.files GROUP BY 1 ORDER BY 1") == [("a", 5), ("b", 5), ("c", 5)]
    assert written(f"SELECT sum(record_count) FROM lake.db.t.files VERSION AS OF {first}") == [(10,)]
    assert written("SELECT max(readable_metrics.id.upper_bound) FROM lake.db.t.data_files WHERE record_count > 1") == [(9,)]
    joined = (
        "SELECT count(*) FROM lake.db.t.snapshots s JOIN lake.db.t.history h ON s.snapshot_id = h.snapshot_id WHERE h.is_current_ancestor"
    )
    assert written(joined) == [(2,)]
    assert written("SELECT operation FROM lake.db.t.snapshots ORDER BY committed_at") == [("append",), ("append",)]


def test_they_cannot_be_written(written: Run) -> None:
    with pytest.raises(PySparkException, match=r"(?i)append|write"):
        written("INSERT INTO lake.db.t.refs SELECT * FROM lake.db.t.refs")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        written("SELECT * FROM lake.db.t.nonsense")
