"""The files of a load before Spark reads them: search, formats, and the first wrong line."""

import bz2
import gzip
import os
from pathlib import Path

import pytest

from icefloe.cli.input_files import FileFormat, InputFiles, check_headers, find_files, first_wrong_line, format_of
from icefloe.errors import InvalidInputError, InvalidSchemaError, NoSuchFileError, StoragePermissionError


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.json", FileFormat.JSON),
        ("a.JSONL", FileFormat.JSON),
        ("a.b.ndjson.gz", FileFormat.JSON),
        ("a.csv", FileFormat.CSV),
        ("a.csv.bz2", FileFormat.CSV),
        ("s3://bucket/a.parquet", FileFormat.PARQUET),
        ("a.snappy.parquet", FileFormat.PARQUET),
    ],
)
def test_the_format_is_taken_from_the_ending(name: str, expected: FileFormat) -> None:
    assert format_of(name) is expected


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", ".json.d", "csv"])
def test_a_file_with_another_ending_requires_a_stated_format(name: str) -> None:
    with pytest.raises(InvalidInputError, match="has no known ending"):
        format_of(name)


def test_a_folder_is_replaced_by_its_files_without_hidden_ones() -> None:
    Path("in/deep").mkdir(parents=True)
    for name in ("in/b.csv", "in/deep/a.csv", "in/_SUCCESS", "in/.b.csv.crc"):
        Path(name).write_text("a\n1\n")
    assert [os.path.relpath(path) for path in find_files(["in"], None).paths] == ["in/b.csv", "in/deep/a.csv"]


def test_an_empty_folder_is_refused() -> None:
    Path("in").mkdir()
    with pytest.raises(InvalidInputError, match="no files in in"):
        find_files(["in"], None)


def test_the_error_names_a_missing_file() -> None:
    with pytest.raises(NoSuchFileError, match=r"no file .*nothing\.csv"):
        find_files(["nothing.csv"], None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_the_error_names_an_unreadable_file() -> None:
    Path("a.csv").write_text("a\n")
    Path("a.csv").chmod(0)
    with pytest.raises(StoragePermissionError):
        find_files(["a.csv"], None)


def test_files_of_several_formats_are_refused() -> None:
    Path("a.csv").write_text("a\n")
    Path("a.json").write_text("{}\n")
    with pytest.raises(InvalidInputError, match="several formats: csv, json"):
        find_files(["a.csv", "a.json"], None)
    assert find_files(["a.csv", "a.json"], FileFormat.CSV).format is FileFormat.CSV


def test_empty_files_are_refused() -> None:
    Path("a.csv").touch()
    Path("b.csv").touch()
    with pytest.raises(InvalidInputError, match=r"a\.csv is empty"):
        find_files(["a.csv"], None)
    with pytest.raises(InvalidInputError, match="every file is empty"):
        find_files(["a.csv", "b.csv"], None)


def csv_files(*texts: str) -> InputFiles:
    paths = [Path(f"{number}.csv") for number, _ in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return InputFiles(paths=tuple(map(str, paths)), format=FileFormat.CSV)


@pytest.mark.parametrize("header", ["id,id", "id,ID", '"a b",c,"A B"'])
def test_a_header_with_a_repeated_column_is_refused(header: str) -> None:
    with pytest.raises(InvalidSchemaError, match="more than once"):
        check_headers(csv_files(header + "\n1,2\n"), ",")


def test_headers_must_be_the_same_in_every_file() -> None:
    with pytest.raises(InvalidSchemaError, match="different columns") as refused:
        check_headers(csv_files("a,b\n1,2\n", "b,a\n1,2\n"), ",")
    assert [problem.what for problem in refused.value.problems] == ["a, b", "b, a"]
    check_headers(csv_files("a,b\n1,2\n", "", "a,b\n3,4\n"), ",")


def test_a_header_is_read_with_its_separator_and_without_a_byte_order_mark() -> None:
    check_headers(csv_files("\ufeffa;b\n", "a;b\n"), ";")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('{"a": 1}\n\n{"a": \n', 3, "Expecting value"),
        ('{"a": 1}\n17\n', 2, "is int, not an object"),
        ('{"a": 1} {"a": 2}\n', 1, "Extra data"),
    ],
)
def test_the_error_names_the_first_invalid_json_line(text: str, line: int, what: str) -> None:
    for name, opener in (("a.json", open), ("a.json.gz", gzip.open), ("a.json.bz2", bz2.open)):
        with opener(name, "wt") as file:  # type: ignore[operator]
            file.write(text)
        found = first_wrong_line(InputFiles(paths=(name,), format=FileFormat.JSON))
        assert found is not None
        assert found.where == f"{name} line {line}"
        assert what in found.what


def test_valid_lines_are_accepted() -> None:
    Path("a.json").write_text('{"a": 1}\n[{"a": 2}]\n')
    assert first_wrong_line(InputFiles(paths=("a.json",), format=FileFormat.JSON)) is None
    assert first_wrong_line(csv_files('a,b\n1,"x\ny"\n\n')) is None


def test_the_error_names_the_first_csv_line_with_another_number_of_values() -> None:
    found = first_wrong_line(csv_files('a,b\n1,"x\ny"\n3\n'))
    assert found is not None
    assert (found.where, found.what) == ("0.csv line 4", "has 1 value, the header has 2: 3")


def test_the_error_names_a_truncated_file() -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(os.urandom(5000).hex().encode())[:2000])
    with pytest.raises(InvalidInputError, match="cannot be read"):
        check_headers(InputFiles(paths=("a.csv.gz",), format=FileFormat.CSV), ",")
