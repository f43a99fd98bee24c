"""The files of a load before they are read: search, formats, compression."""

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.loading.conftest import Load, rows_of

from icefloe.errors import InvalidInputError, NoSuchFileError, StoragePermissionError, UnsupportedFeatureError
from icefloe.loading.input_files import InputFormat, find_files, format_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.json", InputFormat.JSON),
        ("a.JSONL", InputFormat.JSON),
        ("a.b.ndjson.gz", InputFormat.JSON),
        ("a.csv", InputFormat.CSV),
        ("a.csv.bz2", InputFormat.CSV),
        ("s3://bucket/a.parquet", InputFormat.PARQUET),
        ("a.snappy.parquet", InputFormat.PARQUET),
    ],
)
def test_the_format_is_taken_from_the_ending(name: str, expected: InputFormat) -> None:
    assert format_of(name) is expected


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", ".json.d", "csv"])
def test_a_file_with_another_ending_requires_a_stated_format(name: str) -> None:
    with pytest.raises(InvalidInputError, match="has no known ending"):
        format_of(name)


def test_a_folder_is_replaced_by_its_files_without_hidden_ones() -> None:
    Path("x/deep").mkdir(parents=True)
    for name in ("x/b.csv", "x/deep/a.csv", "x/_SUCCESS", "x/.b.csv.crc", "x/_b.csv.bad-rows"):
        Path(name).write_text("a\n1\n")
    assert sorted(os.path.relpath(path) for path in find_files(["x"], None).paths) == ["x/b.csv", "x/deep/a.csv"]


def test_a_pattern_names_its_files_and_no_bad_rows() -> None:
    for name in ("a 1.csv", "a'2.csv", "b.csv", "_a 1.csv.bad-rows"):
        Path(name).write_text("a\n1\n")
    assert [os.path.basename(path) for path in find_files(["*a*"], None).paths] == ["a 1.csv", "a'2.csv"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file() -> None:
    for name in ("a[1]{x}*?.csv", "a1.csv"):
        Path(name).write_text("a\n1\n")
    assert find_files(["a[1]{x}*?.csv"], None).paths == ("a[1]{x}*?.csv",)


def test_an_empty_folder_is_refused() -> None:
    Path("x").mkdir()
    with pytest.raises(InvalidInputError, match="no files in x"):
        find_files(["x"], None)


@pytest.mark.parametrize("name", ["nothing.csv", "no*.csv"])
def test_the_error_names_a_missing_file(name: str) -> None:
    with pytest.raises(NoSuchFileError, match=r"no.*\.csv"):
        find_files([name], None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_the_error_names_an_unreadable_file() -> None:
    Path("a.csv").write_text("a\n")
    Path("a.csv").chmod(0)
    with pytest.raises(StoragePermissionError):
        find_files(["a.csv"], None)


def test_a_file_that_is_named_twice_is_refused() -> None:
    Path("a.csv").write_text("a\n1\n")
    with pytest.raises(InvalidInputError, match=r"a\.csv is named twice"):
        find_files(["a.csv", "a.csv"], None)
    with pytest.raises(InvalidInputError, match=r"a\.csv is named twice"):
        find_files(["a.csv", "*.csv"], None)


def test_files_of_several_formats_are_refused() -> None:
    Path("a.csv").write_text("a\n")
    Path("a.json").write_text("{}\n")
    with pytest.raises(InvalidInputError, match="several formats: csv, json"):
        find_files(["a.csv", "a.json"], None)
    assert find_files(["a.csv", "a.json"], InputFormat.CSV).format is InputFormat.CSV


def test_empty_files_are_refused() -> None:
    Path("a.csv").touch()
    Path("b.csv").touch()
    with pytest.raises(InvalidInputError, match=r"a\.csv is empty"):
        find_files(["a.csv"], None)
    with pytest.raises(InvalidInputError, match="every file is empty"):
        find_files(["a.csv", "b.csv"], None)


def _zstd(text: bytes) -> bytes:
    return pa.compress(text, "zstd", asbytes=True)


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", _zstd)])
def test_compressed_files_are_unpacked(load: Load, ending: str, pack: Callable[[bytes], bytes]) -> None:
    Path(f"a.csv.{ending}").write_bytes(pack(b"id,name\n1,a\n2,b\n"))
    assert rows_of(load(f"a.csv.{ending}")) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_a_gzip_file_of_several_members_is_read_to_its_end(load: Load) -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(b"id\n1\n") + gzip.compress(b"2\n"))
    assert [row["id"] for row in rows_of(load("a.csv.gz"))] == [1, 2]


def test_a_truncated_file_is_refused_by_name(load: Load, nothing_remains: Callable[[], None]) -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(b"id\n" + b"".join(b"%d\n" % number for number in range(99_999)))[:-30])
    with pytest.raises(InvalidInputError, match=r"cannot be read.*a\.csv\.gz"):
        load("a.csv.gz")
    nothing_remains()


def test_a_codec_that_is_not_known_here_is_refused(load: Load) -> None:
    Path("a.csv.snappy").write_bytes(b"id\n1\n")
    with pytest.raises(UnsupportedFeatureError, match="compressed as snappy"):
        load("a.csv.snappy")
