"""`CatalogSuite` on every catalog of Icefloe."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icefloe import Catalog, InMemoryCatalog, SqlCatalog, load_catalog
from icefloe.testing.catalog_suite import CatalogSuite


class TestInMemory(CatalogSuite):
    @pytest.fixture
    def catalog(self) -> Catalog:
        return InMemoryCatalog("lake")


class TestSqliteInMemory(CatalogSuite):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        catalog = SqlCatalog("lake", uri="sqlite://", warehouse=str(tmp_path))
        yield catalog
        catalog.close()


class TestFileSystem(CatalogSuite):
    renames_tables = takes_locations = keeps_namespace_properties = commits_several_tables = keeps_files_of_dropped_tables = False

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Catalog]:
        return lambda: load_catalog("lake", type="file-system", warehouse=str(tmp_path / "warehouse"))

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


class OpenedTwice(CatalogSuite):
    """A suite in which each handle is a catalog object with its own connection, as in another process."""

    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/catalog.db"

    @pytest.fixture
    def reopen(self, uri: str, tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
        catalogs: list[SqlCatalog] = []

        def another() -> Catalog:
            catalogs.append(SqlCatalog("lake", uri=uri, warehouse=str(tmp_path / "warehouse")))
            return catalogs[-1]

        yield another
        for catalog in catalogs:
            catalog.close()

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


class TestSqliteFile(OpenedTwice):
    pass


@pytest.mark.postgres
class TestPostgres(OpenedTwice):
    @pytest.fixture
    def uri(self, emptied_postgres_uri: str) -> str:
        return emptied_postgres_uri
