"""A catalog of its own for each test."""

from pathlib import Path

import pytest

from icefloe import SqlCatalog


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog
