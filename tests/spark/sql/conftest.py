"""An Icefloe catalog of each test's own in the shared session's SQL, under the name `lake`."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark.sql.attach import attach

Run = Callable[[str], list[tuple[Any, ...]]]
InsertOfSome = Callable[[str, str], None]


@pytest.fixture
def sql(spark: SparkSession, lake: SqlCatalog) -> Run:
    """Runs a statement and returns its rows as tuples."""
    attach(spark, "lake", lake)
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]


@pytest.fixture
def insert_of_some(spark: SparkSession, sql: Run) -> InsertOfSome:
    """Runs an INSERT that leaves columns out. Spark 4.0 refuses it, as its rule for writes fills nothing in; the second names them all."""

    def insert(some: str, every: str) -> None:
        if spark.version >= "4.1":
            sql(some)
            return
        with pytest.raises(AnalysisException, match="CANNOT_FIND_DATA"):
            sql(some)
        sql(every)

    return insert
