"""Sound tables that tests break: each is written once, and restored where it was written, because paths in it are absolute."""

import shutil
from collections.abc import Callable

import pytest
from tests.repair.broken_table import BrokenTable


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], BrokenTable]:
    """Return a function that restores a table, by the name of the function of `BrokenTable` that writes it, and the format version."""
    folder = tmp_path_factory.mktemp("tables")
    tables: dict[tuple[str, int], BrokenTable] = {}

    def restored(kind: str, version: int) -> BrokenTable:
        place, copy = folder / f"{kind}{version}", folder / f"copy of {kind}{version}"
        if (kind, version) not in tables:
            place.mkdir()
            tables[kind, version] = getattr(BrokenTable, kind)(place, version)
            shutil.copytree(place, copy)
        shutil.rmtree(place)
        shutil.copytree(copy, place)
        return tables[kind, version]

    return restored
