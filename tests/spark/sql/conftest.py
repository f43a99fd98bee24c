"""An Icefloe catalog of each test's own in the shared session's SQL, under the name `lake`."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark.sql.attach import attach

Run = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def sql(spark: SparkSession, lake: SqlCatalog) -> Run:
    """Runs a statement and returns its rows as tuples."""
    attach(spark, "lake", lake)
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]
