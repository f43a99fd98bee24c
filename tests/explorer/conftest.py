"""The table with six faults, made once; and clients of the server without a network."""

import time
from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient
from tests.explorer.faulty_table import faulty_table

from icefloe import SqlCatalog
from icefloe.explorer.server import CatalogTables, OneTable, application
from icefloe.operations.loaded_table import TableReader
from icefloe.table import Table

Served = Callable[[TableReader], TestClient]


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[SqlCatalog, Table]:
    return faulty_table(tmp_path_factory.mktemp("faulty"))


@pytest.fixture(scope="session")
def orders(faulty: tuple[SqlCatalog, Table]) -> Table:
    return faulty[1]


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a function that serves one table."""
    clients: list[TestClient] = []

    def client(reader: TableReader) -> TestClient:
        clients.append(TestClient(application(OneTable(lambda: reader), typed="shop.orders"), base_url="http://localhost:8080"))
        return clients[-1]

    yield client
    for one in clients:
        one.close()


@pytest.fixture
def client(served: Served, orders: Table) -> TestClient:
    return served(orders)


@pytest.fixture
def catalog_client(faulty: tuple[SqlCatalog, Table]) -> Iterator[TestClient]:
    with TestClient(application(CatalogTables(faulty[0])), base_url="http://localhost:8080") as client:
        yield client


def page(client: TestClient, path: str) -> str:
    """Return a page, loaded again as a browser does until it is complete."""
    for _ in range(600):
        response = client.get(path)
        assert response.status_code == 200, response.text
        if "refresh" not in response.headers:
            return response.text
        time.sleep(0.1)
    pytest.fail(f"{path} never was complete")


def base_of(table: TableReader) -> str:
    return f"/t/{table.full_name}"
