"""Another file at the path of a data file: where Python reads it in Spark's tasks, the error of the reader reaches the user of SQL and of DataFrames."""

import shutil

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def test_another_orc_file_is_refused_with_its_path_both_counts_and_the_next_step(sql: Run, spark: SparkSession, lake: SqlCatalog) -> None:
    paths = {}
    for name, count in (("t", 100), ("other", 50)):
        table = lake.create_table(f"db.{name}", SCHEMA, properties={"write.format.default": "orc"})
        table.append(pa.table({"id": range(count), "kind": ["a"] * count}, schema=SCHEMA))
        paths[name] = next(iter(table.scan().plan_files())).file.file_path
    copy = lake.create_table("db.copy", SCHEMA)
    shutil.copy(paths["other"], paths["t"])
    for read in (
        lambda: sql("SELECT kind FROM lake.db.t"),
        lambda: sql("SELECT sum(id) FROM lake.db.t"),
        lambda: sql("INSERT INTO lake.db.copy SELECT * FROM lake.db.t"),
        lambda: lake.load_table("db.t").scan().to_spark().collect(),
    ):
        with pytest.raises(PySparkException) as refused:
            read()
        assert (
            f"DataFileFormatError: {paths['t']} is not the file that was committed: it has 50 rows, and its manifest entry states 100"
            in str(refused.value)
        )
        assert "Next: restore the file from a copy" in str(refused.value)
    assert copy.refresh().current_snapshot() is None
