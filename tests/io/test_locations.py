"""The path and scheme of a location string."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import InvalidInputError
from icefloe.io.locations import (
    LocationScope,
    Place,
    folders_of,
    is_same_folder,
    join,
    local_path,
    place_of_file,
    place_of_folder,
    qualify,
    scheme_of,
)


@pytest.mark.parametrize("location", ["/a/b", "file:/a/b", "file:///a/b", "file://localhost/a/b", "FILE:/a/b"])
def test_every_form_of_a_local_location_is_the_same_path(location: str) -> None:
    assert local_path(location) == "/a/b"


def test_percent_signs_are_literal() -> None:
    assert local_path("file:///t/data/time=10%3A00/x.parquet") == "/t/data/time=10%3A00/x.parquet"


def test_a_relative_path_starts_at_the_working_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("data/x") == os.path.join(os.getcwd(), "data/x")


def test_a_colon_in_a_relative_path_is_not_a_scheme() -> None:
    assert scheme_of("a:b/c") == "file"


@pytest.mark.parametrize(
    ("location", "scheme"), [("s3://b/x", "s3"), ("S3A://b/x", "s3a"), ("memory://x", "memory"), ("/x", "file"), ("file:/x", "file")]
)
def test_the_scheme_is_returned_in_lower_case(location: str, scheme: str) -> None:
    assert scheme_of(location) == scheme


@pytest.mark.parametrize("location", ["", "/a\0b", "file:", "file://otherhost/a", "s3://b/x"])
def test_a_location_that_names_no_local_file_is_refused(location: str) -> None:
    with pytest.raises(InvalidInputError):
        local_path(location)


@pytest.mark.parametrize(
    ("parts", "joined"),
    [(("/a", "b", "c"), "/a/b/c"), (("/a/", "/b/"), "/a/b"), (("s3://b", "x"), "s3://b/x"), (("/a", "", "c"), "/a/c"), (("/", "a"), "/a")],
)
def test_parts_are_joined_by_one_slash(parts: tuple[str, ...], joined: str) -> None:
    assert join(*parts) == joined


@given(st.text(alphabet=st.characters(exclude_characters="\0"), min_size=1))
def test_an_absolute_path_is_unchanged_but_for_doubled_slashes_at_its_beginning(text: str) -> None:
    assert local_path("/" + text) == "/" + text.lstrip("/")


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """Return a folder with the folder `lake/db`, and the link `link` to `other/inner`."""
    for name in ("lake/db", "other/inner", "other/lake/db"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "other" / "inner")
    return tmp_path.resolve()


SPELLINGS = [
    "{}/lake",
    "{}/./lake/.",
    "/{}//lake/",
    "{}/lake/db/..",
    "{}/other/../lake",
    "file:{}/lake/",
    "file://{}/./lake",
    "file:///{}/lake",
]


@pytest.mark.parametrize("spelling", [*SPELLINGS, "file://localhost{}/lake//", "FILE:{}/lake"])
def test_every_spelling_of_a_local_folder_is_one_folder_and_its_normal_form_has_no_dots(linked: Path, spelling: str) -> None:
    location = spelling.format(linked)
    assert is_same_folder(location, f"{linked}/lake")
    assert place_of_folder(location) == Place("file", f"{linked}/lake")
    assert place_of_file(f"{location}/x") == Place("file", f"{linked}/lake/x")
    assert qualify(location).endswith(f"{linked}/lake")
    assert local_path(qualify(location)) == f"{linked}/lake"
    assert not is_same_folder(location, f"{linked}/lake2")
    assert not is_same_folder(location, f"{linked}/other/lake")


def test_two_dots_after_a_link_lead_where_the_file_system_leads(linked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = f"{linked}/link/../lake/./db"
    assert qualify(location) == f"{linked}/other/lake/db"
    assert is_same_folder(location, f"{linked}/other/lake/db")
    assert not is_same_folder(location, f"{linked}/lake/db")
    assert not LocationScope(folders_of([f"{linked}/lake"])).contains(f"{location}/x")
    assert LocationScope(folders_of([f"{linked}/other"]), folders_of([f"/{linked}/other/lake"])).contains(f"{location}/x") is False
    monkeypatch.chdir(linked)
    assert qualify("link/../lake/db") == f"{linked}/other/lake/db"
    assert qualify("link/./x/") == f"{linked}/link/x", "a link stays: the user may lead it elsewhere"


@pytest.mark.parametrize(
    ("location", "other", "is_same"),
    [
        ("s3://b/t", "s3a://b/t/", True),
        ("s3://b//t", "s3://b/t", False),
        ("s3://b/x/../t", "s3://b/t", False),
        ("s3://b/x/../t", "s3://b/x/../t", True),
        ("s3://b/./t", "s3://b/t", False),
        ("file://elsewhere/t", "/t", False),
    ],
)
def test_names_in_an_object_store_are_literal(location: str, other: str, is_same: bool) -> None:
    assert is_same_folder(location, other) is is_same
