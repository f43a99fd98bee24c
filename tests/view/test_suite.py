"""The suite of views against every kind of catalog that keeps them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe import Catalog, SqlCatalog, load_catalog
from icefloe.testing.view_suite import ViewSuite


class TestSqlite(ViewSuite):
    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Catalog]:
        return lambda: SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


class TestInMemory(ViewSuite):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return load_catalog("here", type="in-memory", warehouse=str(tmp_path))
