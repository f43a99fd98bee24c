"""The databases of the search for orphan files: what is compared, and what a full disk does; and the links beside referenced files."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.errors import InvalidInputError, StorageFullError
from icefloe.operations.orphans.linked_files import LinkedFiles
from icefloe.operations.orphans.path_database import LISTED, FoundOrphans, PathDatabase
from icefloe.operations.orphans.path_keys import PathKeys, PrefixMismatch


def unreferenced(listed: list[str], referenced: list[str], mismatch: PrefixMismatch) -> list[str]:
    with PathDatabase(PathKeys()) as database:
        database.add_listed(listed, [1] * len(listed), [None] * len(listed))
        database.add_referenced(referenced)
        return sorted(path for table in database.unreferenced_files(mismatch) for path in table["path"].to_pylist())


@pytest.mark.parametrize("mismatch", PrefixMismatch)
def test_files_with_equal_keys_are_one_file(mismatch: PrefixMismatch) -> None:
    assert unreferenced(["s3://b/t/x", "s3://b/t//x", "s3://b/t/y"], ["s3a://b/t/y"], mismatch) == ["s3://b/t//x"]


def test_a_file_is_referenced_without_an_authority_and_with_its_own_among_others() -> None:
    for references in (["s3:///t/x"], ["s3://b/t/x", "gs://b/t/x"]):
        for mismatch in PrefixMismatch:
            assert unreferenced(["s3://b/t/x", "s3://b/t/y"], references, mismatch) == ["s3://b/t/y"]


def test_a_file_that_is_referenced_with_another_prefix_only() -> None:
    listed, references = ["s3://b/t/x", "s3://b/t/y"], ["gs://b/t/x", "s3://other/t/x"]
    assert unreferenced(listed, references, PrefixMismatch.IGNORE) == ["s3://b/t/y"]
    assert unreferenced(listed, references, PrefixMismatch.DELETE) == listed
    with pytest.raises(InvalidInputError, match="another scheme or authority") as caught:
        unreferenced(listed, references, PrefixMismatch.ERROR)
    assert [(problem.where, problem.what) for problem in caught.value.problems] == [
        ("s3://b/t/x", "the table names its path with gs://b, s3://other")
    ]


def test_a_full_disk_is_an_error_of_the_storage() -> None:
    with FoundOrphans(PathKeys()) as orphans:
        orphans._connection.execute("PRAGMA max_page_count = 10")
        rows = pa.table([[f"/t/{number}" for number in range(10_000)], [1] * 10_000, [2] * 10_000], schema=LISTED)
        with pytest.raises(StorageFullError, match="full"):
            orphans.write(rows)


def test_links_are_searched_once_in_local_folders_and_folders_of_a_store_take_no_memory(tmp_path: Path) -> None:
    file = tmp_path.resolve() / "file"
    file.touch()
    file.with_name("link").symlink_to(file)
    locations = [*(f"s3://b/t/{number}/x" for number in range(3)), f"{file.parent}/link", f"{file.parent}/other"]
    links = LinkedFiles()
    assert list(links.behind(locations)) == [str(file)]
    assert list(links.behind(locations)) == []
    assert links._listed == {str(file.parent)}
