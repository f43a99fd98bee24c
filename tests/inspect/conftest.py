"""The example table, made once: looking inside changes nothing."""

import pytest
from tests.inspect.example import make_lake

from icefloe import SqlCatalog
from icefloe.table import Table


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[SqlCatalog, Table]:
    return make_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def catalog(lake: tuple[SqlCatalog, Table]) -> SqlCatalog:
    return lake[0]


@pytest.fixture(scope="session")
def events(lake: tuple[SqlCatalog, Table]) -> Table:
    return lake[1]
