"""Positions of rows in Spark's own scan: counted where a file is read whole, Spark's where it is split or row groups are skipped, and equal in both."""

import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.comparing import in_order, same_rows
from tests.spark.merge_on_read import delete_positions

from icefloe import SqlCatalog
from icefloe.spark.bridge import java_compiler as compiled
from icefloe.spark.bridge.gateway import class_folder, executors_have_classes, gateway_of
from icefloe.spark.scan import native_scan
from icefloe.table import Table

pytestmark = pytest.mark.spark

ROWS = 30_000


def sources_of(frame: DataFrame) -> list[str]:
    """Return the classes of the file formats of a frame's scans."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return [leaves.apply(place).relation().fileFormat().getClass().getSimpleName() for place in range(leaves.size())]


@pytest.fixture(params=["2", "3"])
def table(lake: SqlCatalog, request: pytest.FixtureRequest) -> Table:
    """Files of several row groups and pages, some with deleted rows, among them the first and the last of a file."""
    properties = {"format-version": request.param, "write.parquet.row-group-size-bytes": "65536", "write.parquet.page-row-limit": "1000"}
    numbers = pa.array(range(ROWS), pa.int64())
    nested = pa.array(
        [{"a": number % 7, "b": [number]} for number in range(ROWS)], pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64()))])
    )
    rows = pa.table({"id": numbers, "text": pa.array([f"text {number}" for number in range(ROWS)]), "s": nested})
    made = lake.create_table("db.t", rows.schema, properties=properties)
    for start, length in ((0, 20_000), (20_000, 9_000), (29_000, 1_000)):
        made.append(rows.slice(start, length))
    tasks = sorted(made.scan().plan_files(), key=lambda task: -task.file.record_count)
    delete_positions(made, {tasks[0].file.file_path: [0, 1, 4095, 4096, 12_345, 19_999], tasks[1].file.file_path: [*range(0, 9_000, 3)]})
    return made


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.sql.files.maxPartitionBytes": "20000"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
        {"spark.sql.columnVector.offheap.enabled": "true"},
        {"spark.sql.parquet.columnarReaderBatchSize": "7"},
    ],
    ids=["whole", "split", "row by row", "interpreted", "off the heap", "small batches"],
)
def test_rows_and_positions_are_those_of_a_plain_reader(table: Table, settings: dict[str, str], spark: SparkSession) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        frame = same_rows(table, "TRUE", "id", "_file", "_pos", "s.b")
        same_rows(table, "id > 11000 AND id < 12500", "_pos", "id")
        same_rows(table, "text = 'text 21000'", "_pos")
        same_rows(table, "TRUE", "_pos")
        same_rows(table)
        assert set(sources_of(frame)) == {"CountedParquet"}
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_filters_and_counts_of_a_query_keep_positions(table: Table) -> None:
    expected = [
        row for row in table.scan(selected_fields=("id", "s", "_pos")).to_arrow().to_pylist() if row["s"]["a"] == 3 and row["id"] % 5
    ]
    frame = table.scan(selected_fields=("id", "s", "_pos")).to_spark()
    found = frame.where("s.a = 3 AND id % 5 > 0 AND id IS NOT NULL").collect()
    assert in_order([row.asDict(recursive=True) for row in found]) == in_order(expected)
    assert table.scan().to_spark().count() == ROWS - 3_006
    counts = Counter(table.scan(selected_fields=("_pos",)).to_arrow()["_pos"].to_pylist())
    assert frame.alias("l").join(frame.alias("r"), "_pos").count() == sum(count * count for count in counts.values())


def test_positions_are_sparks_own_where_executors_lack_the_class(
    table: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert executors_have_classes(spark)
    monkeypatch.setattr(native_scan, "executors_have_classes", lambda spark: False)
    assert set(sources_of(same_rows(table, "TRUE", "id", "_pos"))) == {"ParquetFileFormat"}


def test_the_jar_for_executors_has_the_classes_that_run_there(spark: SparkSession) -> None:
    folder = class_folder(gateway_of(spark), spark.version)
    names = zipfile.ZipFile(folder / "executors.jar").namelist()
    assert {Path(name).stem.split("$")[0] for name in names} == set(compiled.FOR_EXECUTORS)
    assert len(names) > len(set(compiled.FOR_EXECUTORS))  # with the classes inside them
