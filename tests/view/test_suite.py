"""The suite of views on every type of catalog that supports them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import Catalog, SqlCatalog, load_catalog
from icefloe.errors import UnsupportedFeatureError
from icefloe.testing.view_suite import ViewSuite


class OpenedTwice(ViewSuite):
    """A suite in which each handle is a separate catalog object, as in another process."""

    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/catalog.db"

    @pytest.fixture
    def reopen(self, uri: str, tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
        opened: list[SqlCatalog] = []

        def another() -> Catalog:
            opened.append(SqlCatalog("lake", uri=uri, warehouse=f"{tmp_path}/warehouse"))
            return opened[-1]

        yield another
        for one in opened:
            one.close()

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


class TestSqlite(OpenedTwice):
    pass


@pytest.mark.postgres
class TestPostgres(OpenedTwice):
    @pytest.fixture
    def uri(self, emptied_postgres_uri: str) -> str:
        return emptied_postgres_uri


class TestInMemory(ViewSuite):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return load_catalog("here", type="in-memory", warehouse=str(tmp_path))


def test_a_catalog_without_views_refuses_every_operation_on_them() -> None:
    catalog = Catalog("files", StoreWithoutViews(), {})  # type: ignore[arg-type]
    assert not catalog.keeps_views
    for operation in (
        lambda: catalog.create_view("db.v", "SELECT 1", pa.schema([("n", pa.int64())])),
        lambda: catalog.load_view("db.v"),
        lambda: catalog.list_views("db"),
        lambda: catalog.drop_view("db.v"),
    ):
        with pytest.raises(UnsupportedFeatureError, match="'files' keeps no views") as refused:
            operation()
        assert "SQL catalog" in str(refused.value)


class StoreWithoutViews:
    """A catalog store without the method `views`."""

    name = "files"
