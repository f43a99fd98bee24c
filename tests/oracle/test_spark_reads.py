"""Tables that Java wrote, with deletes of every kind, evolved and with row ids: Spark's own scan reads the rows that Java reads."""

import json
import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.rows import comparable
from tests.oracle.test_deletes import LINEAGE, newest
from tests.spark.comparing import plain, same_rows

from icefloe import StaticTable

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@pytest.mark.parametrize("name", ["v1_cow", "v2_posdel", "v3_dv", "evo", "eqdel", "v3x"])
def test_rows_are_those_that_java_reads(spark: SparkSession, java_tables: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    expected = [json.loads(row) for row in json.loads((java_tables / "expected.json").read_text())[name]]
    table = StaticTable.from_metadata(newest(java_tables / "db" / name))
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        found = [{key: plain(value) for key, value in row.asDict(recursive=True).items()} for row in table.scan().to_spark().collect()]
        same_rows(table, "TRUE", "id", *LINEAGE, "_pos", "_file", "_partition", "_spec_id")
    assert comparable(found) == comparable(expected)
    assert not caplog.records
