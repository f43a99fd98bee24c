"""A REST catalog against `icefloe serve`: the suites that every catalog must pass, over the wire."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.server.application import application
from icefloe.server.served_locations import strict_properties
from icefloe.server.server_settings import ServerLimits, ServerSettings
from icefloe.testing.catalog_suite import CatalogSuite
from icefloe.testing.view_suite import ViewSuite


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a server for an empty SQL catalog."""
    warehouse = tmp_path / "lake"
    warehouse.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(warehouse))
    catalog.properties = strict_properties(catalog.properties, ())
    limits = ServerLimits(requests_per_second=0, refused_per_second=0)
    app = application(ServerSettings(catalog=catalog, users=None, limits=limits, key=b"k" * 32))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    listening.close()
    catalog.close()


@pytest.fixture
def opened(address: str, tmp_path: Path) -> Callable[..., RestCatalog]:
    return lambda **properties: RestCatalog("own", uri=address, warehouse=str(tmp_path / "lake"), **properties)


@pytest.fixture
def catalog(opened: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    catalog = opened()
    yield catalog
    catalog.close()


class TestTablesOfTheOwnServer(CatalogSuite):
    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened


class TestViewsOfTheOwnServer(ViewSuite):
    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened
