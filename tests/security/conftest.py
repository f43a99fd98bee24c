"""The Spark session and the catalog of the Spark tests, for attacks on what runs there."""

from tests.spark.conftest import lake, pytest_collection_modifyitems, spark
from tests.spark.sql.conftest import sql

__all__ = ["lake", "pytest_collection_modifyitems", "spark", "sql"]  # fixtures and a hook
