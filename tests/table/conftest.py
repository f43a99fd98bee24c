"""What the tests of tables share: they run in this process, also where another test has started Spark in it."""

import pytest

from icefloe.spark.spark_engine import SparkEngine


@pytest.fixture(autouse=True)
def spark_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkEngine, "is_active", lambda _: False)
