"""Fixtures for the tests of tables: they use the in-process engine, even if another test has started Spark in this process."""

import pytest

from icefloe.spark.spark_engine import SparkEngine


@pytest.fixture(autouse=True)
def spark_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkEngine, "is_active", lambda _: False)
