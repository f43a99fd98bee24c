"""One Spark session for all tests of this folder, and a catalog of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark.runtime.start_session import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings about sockets that PySpark leaves to the garbage collector (4.0 in every `collect`)."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4", "spark.default.parallelism": "2"}
    started = session(conf, master="local[2]", app_name="icefloe tests")
    yield started
    started.stop()


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog
