"""`run_statement`: one statement of the command line."""

import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark.run_statement import run_statement

pytestmark = pytest.mark.spark


def test_names_are_those_of_the_current_catalog_and_the_session_keeps_its_own(spark: SparkSession, lake: SqlCatalog) -> None:
    lake.create_namespace("other")
    rows = run_statement(spark, "SHOW NAMESPACES", {"lake": lake}, current="lake", most=None)
    assert rows.to_pylist() == [{"namespace": "db"}, {"namespace": "other"}]
    assert run_statement(spark, "SHOW NAMESPACES", {"lake": lake}, current="lake", most=1).num_rows == 1
    assert spark.catalog.currentCatalog() == "spark_catalog"
