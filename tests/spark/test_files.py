"""Files of every format and kind in one table: Spark's rows are those of the in-process reader, and the reason is told where Spark's own scan is not used."""

import logging

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.comparing import plan_of, same_rows
from tests.spark.merge_on_read import delete_positions

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark


def test_files_of_other_formats_are_read_by_tasks_and_parquet_by_sparks_own_scan(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{number}" for number in range(10)]})
    table = lake.create_table("db.t", rows.schema, properties={"format-version": "3"})
    for form in ("parquet", "orc", "avro"):
        table.set_properties({"write.format.default": form})
        table.append(rows)
    delete_positions(table, {task.file.file_path: [1, 8] for task in table.scan().plan_files()})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = same_rows(table, "id > 2", "*", "_pos", "_row_id", "_deleted", "_file")
    assert frame.count() == 21
    assert caplog.text.count("2 files of") == 1
    assert "no Parquet file" in caplog.text
    assert plan_of(frame).count("FileScan parquet") == 1
