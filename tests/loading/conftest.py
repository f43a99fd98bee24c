"""A catalog in an empty working directory, and loads into it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icefloe import SqlCatalog
from icefloe.loading import LoadResult, load_files

Load = Callable[..., LoadResult]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))


@pytest.fixture
def load(catalog: SqlCatalog) -> Load:
    """Load files into `n.t`."""
    return lambda files, **request: load_files(catalog, "n.t", files, **request)


@pytest.fixture
def nothing_remains(catalog: SqlCatalog, tmp_path: Path) -> Callable[[], None]:
    """Check that a load has left no table, namespace or file."""

    def check() -> None:
        assert catalog.list_namespaces() == []
        assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file()] == []
        assert [name for name in os.listdir() if "bad-rows" in name] == []

    return check


def rows_of(result: LoadResult, key: str = "id") -> list[dict[str, Any]]:
    return result.table.scan().to_arrow().sort_by(key).to_pylist()


def types_of(result: LoadResult) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in result.table.schema().fields}
