"""TABLESAMPLE SYSTEM reads a sample of the files; a plain TABLESAMPLE is Spark's own sample of rows."""

import re

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run
from tests.spark.sql_tab import executions, metrics_since, of_nodes

from icefloe import SqlCatalog
from icefloe.spark.runtime.spark_versions import is_older

pytestmark = pytest.mark.spark

FILES = 12


@pytest.fixture
def files(lake: SqlCatalog) -> None:
    """Create a table of ten rows in each of twelve files."""
    table = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("file", pa.int64())]))
    for file in range(FILES):
        table.append(pa.table({"id": range(10 * file, 10 * file + 10), "file": [file] * 10}))


@pytest.mark.usefixtures("files")
def test_a_sample_of_files_has_whole_files_and_opens_no_others(spark: SparkSession, sql: Run) -> None:
    if is_older(spark.version, "4.2"):
        with pytest.raises(ParseException, match="SYSTEM"):
            sql("SELECT * FROM lake.db.t TABLESAMPLE SYSTEM (50 PERCENT)")
        return
    before = executions(spark)
    frame = spark.sql("SELECT id, file FROM lake.db.t TABLESAMPLE SYSTEM (50 PERCENT) WHERE id % 10 < 9")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    rows = [tuple(row) for row in frame.collect()]
    drawn = sorted({file for _, file in rows})
    assert sorted(rows) == [(10 * file + number, file) for file in drawn for number in range(9)]
    skipped = re.search(r"FileScan parquet lake\.db\.t \((\d+) files skipped by TABLESAMPLE\)", plan)
    assert FILES - len(drawn) == (0 if skipped is None else int(skipped[1]))
    (scan,) = of_nodes(metrics_since(spark, before), "Scan")
    assert int(scan["number of files read"]) == len(drawn)
    assert int(scan.get("number of data files skipped by TABLESAMPLE", 0)) == FILES - len(drawn)
    counts = "SELECT 'all', count(*), count(DISTINCT file) FROM lake.db.t TABLESAMPLE SYSTEM (100 PERCENT)"
    for share in (0, 30, 30, 30, 30):
        counts += f" UNION ALL SELECT '{share}', count(*), max(file) FROM lake.db.t TABLESAMPLE SYSTEM ({share} PERCENT)"
    totals = sql(counts)
    assert totals[:2] == [("all", 10 * FILES, FILES), ("0", 0, None)]
    assert all(count % 10 == 0 for _, count, _ in totals)
    assert len(set(totals[2:])) > 1  # each draws its own files
    # The greatest id comes from the metadata of the drawn files, and the limit plans only these.
    assert sql("SELECT max(id) IS NULL FROM lake.db.t TABLESAMPLE SYSTEM (0 PERCENT)") == [(True,)]
    assert len(sql("SELECT id FROM lake.db.t TABLESAMPLE SYSTEM (100 PERCENT) LIMIT 15")) == 15


@pytest.mark.usefixtures("files")
def test_a_sample_of_rows_stays_that_of_spark(sql: Run) -> None:
    text = "SELECT id, file FROM lake.db.t TABLESAMPLE (50 PERCENT) REPEATABLE (3)"
    rows = sql(text)
    assert len({file for _, file in rows}) == FILES
    assert len(rows) < 10 * FILES
    assert rows == sql(text)


@pytest.mark.usefixtures("files")
def test_a_metadata_table_has_no_sample_of_files(spark: SparkSession, sql: Run) -> None:
    if not is_older(spark.version, "4.2"):
        with pytest.raises(AnalysisException, match="TABLESAMPLE SYSTEM"):
            sql("SELECT * FROM lake.db.t.files TABLESAMPLE SYSTEM (50 PERCENT)")
