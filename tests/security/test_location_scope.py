"""Whether a file is inside a folder: local paths are compared with the file system itself, and object stores have a list of cases."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.io.locations import LocationScope, folders_of

NAMES = ["lake", "t", "t2", "data", "link", "away", "up", "..", ".", "", "%2e%2e", "x"]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return folders with links that stay within the table, leave it, or form a circle."""
    top = tmp_path_factory.mktemp("scope")
    for folder in ("lake/t/data", "lake/t2/data", "lake/t/%2e%2e", "away/data"):
        (top / folder).mkdir(parents=True)
    (top / "lake/t/link").symlink_to(top / "away")
    (top / "lake/t/up").symlink_to("..")
    (top / "lake/t/data/link").symlink_to(top / "lake/t")
    (top / "lake/link").symlink_to("t")
    (top / "lake/t2/link").symlink_to("link")
    (top / "away/x").symlink_to(top / "lake/t/x")
    return top


@settings(max_examples=examples(1500))
@given(
    segments=st.lists(st.sampled_from(NAMES), min_size=1, max_size=9),
    prefix=st.sampled_from(["", "file:", "file://", "file://localhost", "FILE:"]),
    root=st.sampled_from(["lake/t", "lake/t/", "lake/./t", "lake/link", "lake/t2/../t", "lake"]),
)
def test_a_local_file_is_inside_exactly_where_the_file_system_resolves_it(top: Path, segments: list[str], prefix: str, root: str) -> None:
    path = "/".join([str(top), *segments])
    folder, name = os.path.split(path)
    expected = (
        name not in ("", ".", "..") and Path(os.path.realpath(folder), name).is_relative_to(os.path.realpath(top / root)) and
        Path(os.path.realpath(folder), name) != Path(os.path.realpath(top / root))
    )  # fmt: skip
    assert LocationScope(folders_of([str(top / root) if not root.endswith("/") else f"{top}/{root}"])).contains(prefix + path) is expected


@pytest.mark.parametrize(
    ("root", "location", "expected"),
    [
        ("s3://lake/t", "s3://lake/t/a", True),
        ("s3a://lake/t/", "s3n://lake/t/a", True),
        ("s3://lake/t", "S3://lake/t//a", True),
        ("s3://lake", "s3://lake/a", True),
        ("s3://lake/t", "s3://lake/t2/a", False),
        ("s3://lake/t", "s3://lake/t", False),
        ("s3://lake/t", "s3://lake/t/", False),
        ("s3://lake/t", "s3://LAKE/t/a", False),
        ("s3://lake/t", "s3://lake2/t/a", False),
        ("s3://lake", "s3://lake2/a", False),
        ("s3://lake/t", "s3://lake/t/../u/a", False),
        ("s3://lake/t", "s3://lake/t/./a", False),
        ("s3://lake/t", "s3://lake/t/..", False),
        ("s3://lake/t", "s3://lake/t/.\n./u/a", False),
        ("s3://lake/t", "s3://lake/t/%2e%2e/a", True),
        ("s3://lake/t", "s3://lake//t/a", False),
        ("s3://lake/t", "/t/a", False),
        ("s3://lake/t", "file:/t/a", False),
        ("s3://lake/t", "gs://lake/t/a", False),
        ("gs://lake/t", "gcs://lake/t/a", True),
        ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@a.dfs.core.windows.net/t/x", True),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@b.dfs.core.windows.net/t/x", False),
        ("hdfs://a:8020/t", "hdfs://b:8020/t/x", False),
        ("memory://m/t", "memory:///m/t/x", True),
        ("memory://m/t", "memory://m/t/../x", False),
        ("/lake/t", "file://otherhost/lake/t/a", False),
        ("/lake/t", "s3://lake/t/a", False),
        ("/lake/t", "/lake/t/a\0b", False),
        ("/lake/t", "", False),
    ],
)
def test_a_file_of_a_store_is_inside_a_folder(root: str, location: str, expected: bool) -> None:
    assert LocationScope(folders_of([root])).contains(location) is expected


@pytest.mark.parametrize("folder", ["s3://b/../x", "s3://b/./x", "", "s3://b/x\ny", "file://otherhost/x", "/x\0y"])
def test_an_ambiguous_folder_is_not_used(folder: str) -> None:
    assert folders_of([folder]) == ()
