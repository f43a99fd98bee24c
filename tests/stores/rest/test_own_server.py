"""A REST catalog against `icefloe serve`: the suites that every catalog must pass, over the wire."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores.rest.own_server import own_server

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.testing.catalog_suite import CatalogSuite
from icefloe.testing.view_suite import ViewSuite


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a server for an empty SQL catalog."""
    with own_server(tmp_path) as address:
        yield address


@pytest.fixture
def opened(address: str, tmp_path: Path) -> Callable[..., RestCatalog]:
    return lambda **properties: RestCatalog("own", uri=address, warehouse=str(tmp_path / "lake"), **properties)


@pytest.fixture
def catalog(opened: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    catalog = opened()
    yield catalog
    catalog.close()


class TestTablesOfTheOwnServer(CatalogSuite):
    names_of_server = True

    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened


class TestViewsOfTheOwnServer(ViewSuite):
    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened
