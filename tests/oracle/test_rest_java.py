"""A REST catalog against Java's own server: the suites that every catalog must pass, over the wire."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.oracle.java_rest_server import java_rest_server

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.testing.catalog_suite import CatalogSuite
from icefloe.testing.view_suite import ViewSuite

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    warehouse = tmp_path_factory.mktemp("java-rest") / "lake"
    warehouse.mkdir()
    with java_rest_server(warehouse) as address:
        yield address, warehouse


@pytest.fixture
def opened(server: tuple[str, Path]) -> Callable[..., RestCatalog]:
    address, warehouse = server
    return lambda **properties: RestCatalog("java", uri=address, warehouse=str(warehouse), **properties)


@pytest.fixture
def catalog(opened: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    """A catalog that is empty before and after each test: the server lasts longer."""
    catalog = opened()
    yield catalog
    for namespace in reversed(list(every_namespace(catalog))):
        for view in catalog.list_views(namespace):
            catalog.drop_view(view)
        for table in catalog.list_tables(namespace):
            catalog.drop_table(table)
        catalog.drop_namespace(namespace)
    catalog.close()


def every_namespace(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(parent):
        yield namespace
        yield from every_namespace(catalog, namespace)


class TestTablesOfJavasServer(CatalogSuite):
    names_of_server = True
    creates_in_transactions = False  # its endpoint of transactions loads every table first
    isolates_transactions = False  # it commits the tables one after another
    refused_names = frozenset({"per%cent"})  # Jetty takes %25 in a path for an attack

    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened


class TestViewsOfJavasServer(ViewSuite):
    keeps_summaries = False  # its handler makes the first version again, without the summary
    keeps_files_of_dropped_views = False  # Java's JDBC catalog deletes them

    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened
