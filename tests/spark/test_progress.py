"""A Spark job of Icefloe shows its tasks while it runs."""

import io
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.display import progress as module

pytestmark = pytest.mark.spark


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_append_of_a_dataframe_shows_its_tasks(spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # pickled whole: workers may not find this module
        time.sleep(1)
        yield from batches

    terminal = Terminal()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdout=io.StringIO(), stderr=terminal))
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    monkeypatch.setenv("COLUMNS", "120")
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]))
    result = table.append(spark.range(0, 8, 1, 4).mapInArrow(slowly, "id long"))
    assert result.added_records == 8
    assert " of 4 tasks" in terminal.getvalue()
