"""Fixtures for the tests of tables."""

from tests.without_spark import spark_is_not_active

__all__ = ["spark_is_not_active"]
