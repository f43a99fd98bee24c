"""Files that Spark's tasks report and this process does not find, as with a local folder and workers on other machines: nothing is committed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from icefloe import LongType, NestedField, Schema, SqlCatalog, StringType
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import StorageError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.operations.rows import upsert as upsert_action
from icefloe.spark.connect.connect_options import CatalogRecipe, RegisteredCatalogs, parse_options
from icefloe.spark.connect.table_writer import TableWriter
from icefloe.spark.row_level import changed_rows_job, upsert_job, upsert_rows_source
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spark.write import data_file_job, file_job
from icefloe.spark.write.failed_attempt_cleanup import check_files_exist, delete_files_of_operation
from icefloe.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "kind", StringType()), identifier_field_ids=(1,))
Write = Callable[[Table, Any], object]


def data_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("job", "write"),
    [
        (data_file_job, lambda table, rows: table.append(rows)),
        (data_file_job, lambda table, rows: table.overwrite(rows)),
        (upsert_job, lambda table, rows: table.upsert(rows)),
        (changed_rows_job, lambda table, _: table.update({"kind": "'new'"}, "id = 1")),
        (file_job, lambda table, _: table.delete("id = 1")),
    ],
    ids=["append", "overwrite", "upsert", "update", "delete"],
)
def test_a_write_whose_files_lie_on_the_workers_own_disk_is_refused(
    spark: SparkSession, lake: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Any, write: Write
) -> None:
    table = lake.create_table("db.t", SCHEMA)
    table.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "c"]}, schema=SCHEMA.as_arrow()))
    before, run_job = data_files(tmp_path), job.run_job
    lost: list[Path] = []

    def run_elsewhere(*arguments: Any) -> Any:
        results = run_job(*arguments)
        for path in data_files(tmp_path) - before:
            path.unlink()
            lost.append(path)
        return results

    # The clean-up after a failure lists the folder once, without its waits.
    monkeypatch.setattr(delete_files_of_operation, "__defaults__", ((), (0.0,), ()))
    monkeypatch.setattr(job, "run_job", run_elsewhere)
    # Few rows are upserted in this process.
    monkeypatch.setattr(upsert_action, "MOST_BYTES_HERE", -1)
    monkeypatch.setattr(upsert_rows_source, "MOST_BYTES_HERE", -1)
    rows = spark.range(2, 6).select("id", F.lit("new").alias("kind"))
    with pytest.raises(StorageError, match=r"Spark's workers wrote to their own disk: .* nothing was committed"):
        write(table, rows)
    assert lost
    assert len(table.refresh().snapshots()) == 1
    assert table.scan().count() == 3


def test_the_data_source_commits_no_file_that_sparks_driver_does_not_find(lake: SqlCatalog, tmp_path: Path) -> None:
    table = lake.create_table("db.t", SCHEMA, partition_spec=["kind"])
    known = RegisteredCatalogs(catalogs={"lake": CatalogRecipe.of(lake)})
    writer = TableWriter(parse_options({"path": "lake.db.t"}), known, schema_to_struct(SCHEMA, field_ids=False), overwrite=False)
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "kind": ["a", "b"]}, schema=SCHEMA.as_arrow())
    messages = [writer.write(iter([batch]))]
    lost, *others = data_files(tmp_path)
    lost.unlink()
    with pytest.raises(StorageError, match=r"their own disk: 1 of the 2 files"):
        writer.commit(messages)
    assert others
    assert data_files(tmp_path) == set()
    assert table.refresh().current_snapshot() is None


def test_files_of_object_stores_are_not_looked_up() -> None:
    target = WriteTarget(table_name="lake.db.t", schema=SCHEMA, data_location="s3://lake/t/data", io=LocalFileIO(), operation_uuid="0f0f")
    check_files_exist(target, ["s3://lake/t/data/a.parquet"])
    with pytest.raises(StorageError, match="1 of the 1 files"):
        check_files_exist(target, ["file:///nowhere/a.parquet"])
