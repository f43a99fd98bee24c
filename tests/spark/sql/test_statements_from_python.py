"""`table.update` and `table.merge`: statements from Python, run by Spark."""

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from icefloe import InvalidInputError, SqlCatalog
from icefloe.errors import StorageUnavailableError, UnsupportedFeatureError
from icefloe.table import Table

pytestmark = pytest.mark.spark


def made(lake: SqlCatalog, spark: SparkSession, version: int = 2) -> None:
    rows = spark.range(6).selectExpr("id", "if(id % 2 = 0, 'a', 'b') AS kind", "named_struct('x', 0D) AS s")
    properties = {"format-version": str(version), "write.update.mode": "merge-on-read"}
    schema = pa.schema({"id": pa.int64(), "kind": pa.string(), "s": pa.struct({"x": pa.float64()})})
    lake.create_table("db.t", schema=schema, properties=properties).append(rows)


def test_update_and_merge(spark: SparkSession, lake: SqlCatalog) -> None:
    made(lake, spark)
    table = lake.load_table("db.t")
    result = table.update({"s.x": "s.x + id", "kind": "upper(kind)"}, where="id > 3", snapshot_properties={"who": "me"})
    assert (result.operation, result.rows_updated, result.snapshot_id) == ("update", 2, table.current_snapshot().snapshot_id)
    assert table.current_snapshot().summary["who"] == "me"
    source = spark.createDataFrame([(4, True), (5, False), (9, False)], "id BIGINT, gone BOOLEAN")
    merging = table.merge(source, "t.id = s.id").when_matched("s.gone").delete().when_matched().update({"kind": "'m'"})
    merged = merging.when_not_matched().insert({"id": "s.id"}).when_not_matched_by_source("t.id = 0").delete().merge()
    assert (merged.deleted_records, merged.rows_updated, merged.rows_inserted) == (2, 1, 1)
    found = {row["id"]: (row["kind"], row["s"] and row["s"]["x"]) for row in table.scan().to_arrow().to_pylist()}
    assert found == {1: ("b", 0.0), 2: ("a", 0.0), 3: ("b", 0.0), 5: ("m", 5.0), 9: (None, None)}
    assert str(table.update({"kind": "'x'"}, where="id > 1000")) == "update: nothing to do"
    table.manage_snapshots().create_branch(branch_name="b").commit()
    table.update({"kind": "'on b'"}, branch="b")
    assert set(table.scan("kind = 'on b'").use_ref("b").to_arrow()["id"].to_pylist()) == set(found)
    assert table.scan("kind = 'on b'").to_arrow().num_rows == 0


def test_a_committed_statement_is_no_failure_because_the_table_cannot_be_loaded_again(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made(lake, spark)
    table = lake.load_table("db.t")
    refresh, calls = Table.refresh, iter(["before the statement"])

    def unreachable(loaded: Table) -> Table:
        if next(calls, None) is None:
            raise StorageUnavailableError("the catalog is gone")
        return refresh(loaded)

    monkeypatch.setattr(Table, "refresh", unreachable)
    assert table.update({"kind": "'new'"}, where="id = 1").rows_updated == 1
    assert "lake.db.t is changed, and cannot be loaded again (call refresh): the catalog is gone" in caplog.text
    monkeypatch.undo()
    assert table.refresh().scan("kind = 'new'").to_arrow()["id"].to_pylist() == [1]


def test_wrong_statements_are_refused(spark: SparkSession, lake: SqlCatalog) -> None:
    made(lake, spark, version=1)
    table = lake.load_table("db.t")
    with pytest.raises(UnsupportedFeatureError, match="format version 1"):
        table.update({"kind": "'x'"})
    with pytest.raises(InvalidInputError, match="no column is assigned"):
        table.update({})
    with pytest.raises(InvalidInputError, match="WHEN NOT MATCHED has no action delete"):
        table.merge(spark.range(1), "t.id = s.id").when_not_matched().delete()
    with pytest.raises(InvalidInputError, match="WHEN NOT MATCHED BY SOURCE has no action update_all"):
        table.merge(spark.range(1), "t.id = s.id").when_not_matched_by_source().update_all()
    with pytest.raises(InvalidInputError, match="does nothing"):
        table.merge(spark.range(1), "t.id = s.id").merge()
    clauses = table.merge(spark.range(1), "t.id = s.id")
    with pytest.raises(InvalidInputError, match="'kind': None is not a column and an expression of Spark SQL"):
        clauses.when_matched().update({"kind": None})  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match="expressions by column are a list, not a dict"):
        clauses.when_not_matched().insert(["id"])  # type: ignore[arg-type]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        table.merge(spark.range(1), "t.nothing = s.id").when_matched().delete().merge()
    assert len(table.snapshots()) == 1


def test_without_spark_the_error_names_the_missing_engine() -> None:
    script = """
import pyarrow as pa
from icefloe import InMemoryCatalog
from icefloe.errors import StorageUnavailableError, UnsupportedFeatureError
from icefloe.table import Table
catalog = InMemoryCatalog("x")
catalog.create_namespace("db")
table = catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()}))
try:
    table.update({"id": "1"})
except UnsupportedFeatureError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "UPDATE is run by Spark" in done.stdout
    assert "icefloe.spark.session()" in done.stdout
