"""Pages of a table with many files, manifests and partitions are aggregated by the server: none is large, and each shows all files."""

from typing import Any

import pytest
from benchmarks import planning_table
from starlette.testclient import TestClient
from tests.explorer.conftest import Served, base_of, page

from icefloe.explorer.page import MOST_BYTES, SECTIONS
from icefloe.explorer.standalone import standalone
from icefloe.scan import decisions
from icefloe.scan.decisions import Decision
from icefloe.table.static_table import StaticTable

# All tests of this file run in one process of xdist, which writes the large table once.
pytestmark = pytest.mark.xdist_group("large table")
MANIFESTS, FILES_PER_MANIFEST = 300, 10
FILES = MANIFESTS * FILES_PER_MANIFEST
# Bytes that a page of this table needs at most; a page whose size grows with the files would need more.
LARGEST_PAGE = 400_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> StaticTable:
    """Return a table of metadata only, with more manifests, files and partitions than a picture has blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning_table, "MANIFESTS", MANIFESTS)
        patch.setattr(planning_table, "FILES_PER_MANIFEST", FILES_PER_MANIFEST)
        return StaticTable.from_metadata(str(planning_table.metadata_path(tmp_path_factory.mktemp("large") / "planned")))


@pytest.fixture
def many(served: Served, large: StaticTable) -> TestClient:
    return served(large)


@pytest.mark.parametrize(
    "path",
    [*(section.name for section in SECTIONS), f"query?where={planning_table.ID_FILTER.replace(' ', '+')}", "contents?kind=manifest-list"],
)
def test_no_page_is_large(many: TestClient, large: StaticTable, path: str) -> None:
    assert len(page(many, f"{base_of(large)}/{path}").encode()) < LARGEST_PAGE


def test_neighbouring_manifests_share_a_block_that_opens(many: TestClient, large: StaticTable) -> None:
    content = page(many, f"{base_of(large)}/overview")
    assert "manifests=1-2" in content
    assert f"{FILES:,} live" in content
    opened = page(many, f"{base_of(large)}/overview?manifests=1-2")
    assert "manifests=1-1" in opened
    assert "kind=file" in opened


def test_every_file_is_counted_where_files_are_drawn_in_groups(many: TestClient, large: StaticTable) -> None:
    assert f"{FILES:,} data files" in page(many, f"{base_of(large)}/files")
    assert f"{FILES:,} files by their lower bounds" in page(many, f"{base_of(large)}/clustering?column=1")
    assert "more partitions: " in page(many, f"{base_of(large)}/partitions")


def test_the_file_of_a_large_table_is_bounded_too(large: StaticTable) -> None:
    content = standalone(large, 0, typed="planned", where=planning_table.DAY_FILTER)
    assert len(content.encode()) < MOST_BYTES
    assert f"of {FILES:,} data files" in content


def test_a_query_makes_no_object_for_a_file_that_it_does_not_show(
    many: TestClient, large: StaticTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def counted(**facts: Any) -> Decision:
        nonlocal count
        count += 1
        return Decision(**facts)

    monkeypatch.setattr(decisions, "Decision", counted)
    content = page(many, f"{base_of(large)}/query?where={planning_table.ID_FILTER.replace(' ', '+')}")
    assert f"of {FILES:,} data files" in content
    assert 0 < count < FILES // 4
