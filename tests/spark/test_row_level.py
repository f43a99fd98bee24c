"""Deletes by Spark tasks: merge-on-read and copy-on-write, in files with older deletes, with unchanged row ids."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.comparing import same_rows

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("version", [2, 3])
def test_rows_deleted_by_spark_in_either_mode_stay_deleted_and_the_others_keep_their_ids(
    spark: SparkSession, lake: SqlCatalog, version: int
) -> None:
    rows = pa.table({"id": pa.array(range(60), pa.int64()), "kind": [f"k{number % 2}" for number in range(60)]})
    settings = {"format-version": str(version), "write.delete.mode": "merge-on-read"}
    table = lake.create_table("db.t", rows.schema, partition_spec=["kind"], properties=settings)
    table.append(rows)
    before = {row["id"]: row["_row_id"] for row in table.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()}
    removed = table.delete("id < 10 OR id = 31")
    assert (removed.engine, removed.deleted_records) == ("spark", 11)
    table.set_properties({"write.delete.mode": "copy-on-write"})
    copied = table.delete("id >= 5 AND id < 20")
    assert (copied.engine, copied.deleted_records) == ("spark", 10)
    table.append(spark.createDataFrame([(100, "k9")], "id bigint, kind string"))
    same_rows(table, "TRUE", "*", "_row_id", "_last_updated_sequence_number", "_deleted")
    left = table.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
    assert sorted(row["id"] for row in left) == [*(n for n in range(20, 60) if n != 31), 100]
    assert all(row["_row_id"] == before[row["id"]] for row in left if row["id"] < 100)


def test_rows_are_deleted_by_the_keys_of_a_dataframe(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "kind": [f"k{number % 2}" for number in range(10)]})
    table = lake.create_table("db.k", rows.schema, partition_spec=["kind"])
    table.append(rows)
    result = table.delete_keys(spark.createDataFrame([(3, "x"), (4, "y")], "id int, other string"), ["id"])
    assert (result.deleted_keys, result.added_delete_files) == (2, 1)
    same_rows(table, "TRUE")
    assert sorted(row.id for row in table.scan().to_spark().collect()) == [0, 1, 2, 5, 6, 7, 8, 9]
