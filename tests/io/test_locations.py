"""The path and scheme of a location string."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import InvalidInputError
from icefloe.io.locations import join, local_path, scheme_of


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
def test_an_absolute_path_is_unchanged(text: str) -> None:
    assert local_path("/" + text) == "/" + text
