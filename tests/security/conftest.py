"""The catalog and the statements of the Spark tests, for attacks on what runs there."""

from tests.spark.conftest import lake
from tests.spark.sql.conftest import sql

__all__ = ["lake", "sql"]  # fixtures
