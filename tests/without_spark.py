"""A fixture for tests of the in-process engine: another test may have started Spark in their process, which would then do the work."""

import pytest

from icefloe.spark.spark_engine import SparkEngine


@pytest.fixture(autouse=True)
def spark_is_not_active(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setattr(SparkEngine, "is_active", lambda _: False)
