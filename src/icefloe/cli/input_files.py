"""The input files of a load: search, formats, CSV headers, and the first wrong line of a file.

Spark reads the rows (`icefloe.spark.scan.input_file_rows`).
"""

import bz2
import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from icefloe.display.formatting import count_text
from icefloe.errors import InvalidInputError, InvalidSchemaError, NoSuchFileError, Problem, StoragePermissionError
from icefloe.io.locations import local_path, scheme_of


class FileFormat(StrEnum):
    """The formats that can be loaded, with Spark's names."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


ENDINGS: Mapping[str, FileFormat] = {
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".csv": FileFormat.CSV,
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
}
# Spark unpacks these by the file's ending; the first two are also unpacked here, to find a wrong line.
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Files of one format; `paths` are locations, with folders replaced by the files in them."""

    paths: tuple[str, ...]
    format: FileFormat

    @property
    def described(self) -> str:
        """The file or the number of files, for messages."""
        return self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"


def find_files(texts: Sequence[str], file_format: FileFormat | None) -> InputFiles:
    """Find the files and check that they exist and are not all empty.

    Args:
        texts: Paths of files and folders.
        file_format: The format, None to take it from the files' endings.

    Raises:
        NoSuchFileError: A file does not exist.
        StoragePermissionError: A file may not be read.
        InvalidInputError: A file has an unknown ending, the files have several formats, or all are empty.
    """
    paths = [path for text in texts for path in _expanded(text)]
    if not paths:
        raise InvalidInputError(f"there are no files in {', '.join(texts)}", next_step="name files, or a folder that contains some")
    formats = {file_format or format_of(path) for path in paths}
    if len(formats) > 1:
        raise InvalidInputError(
            f"the files have several formats: {', '.join(sorted(formats))}", next_step="load them one format at a time, or pass --format"
        )
    local = [path for path in paths if scheme_of(path) == "file"]
    if len(local) == len(paths) and not any(_size(path) for path in local):
        raise InvalidInputError(f"{local[0] if len(local) == 1 else 'every file'} is empty", next_step="name files that contain rows")
    return InputFiles(paths=tuple(paths), format=formats.pop())


def format_of(path: str) -> FileFormat:
    """Return the format of a file by its ending. Raises `InvalidInputError` for an unknown ending."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    file_format = ENDINGS.get(suffixes[-1]) if suffixes else None
    if file_format is None:
        raise InvalidInputError(
            f"{path}: its name has no known ending, so its format is unknown",
            next_step=f"pass --format json, csv or parquet; known endings: {', '.join(ENDINGS)}",
        )
    return file_format


def check_headers(files: InputFiles, separator: str) -> None:
    """Check that each CSV header names a column once, and that all headers are the same.

    Spark would rename repeated columns, and mix up the columns of files that differ.

    Raises:
        InvalidSchemaError: A name is repeated (names that differ only in case count as one), or headers differ.
    """
    first: tuple[str, list[str]] | None = None
    for path in files.paths:
        header = _header(path, separator)
        if not header:
            continue
        repeated = [name for name, count in Counter(name.lower() for name in header).items() if count > 1]
        if repeated:
            raise InvalidSchemaError(
                f"{path}: the header names {', '.join(map(repr, repeated))} more than once", next_step="rename the columns"
            )
        first = first or (path, header)
        if header != first[1]:
            raise InvalidSchemaError(
                "the files have different columns",
                problems=[Problem(where=where, what=", ".join(names)) for where, names in (first, (path, header))],
                next_step="load them one by one",
            )


def first_wrong_line(files: InputFiles, separator: str = ",") -> Problem | None:
    """Return the first line of JSON lines that is not an object, or of CSV with another number of values than the header.

    Returns None if there is no such line, or the files cannot be read here.
    """
    if files.format is FileFormat.PARQUET:
        return None
    for path in filter(_is_readable_here, files.paths):
        with _text(path) as lines:
            wrong_line = _wrong_json(lines) if files.format is FileFormat.JSON else _wrong_csv(lines, separator)
        if wrong_line is not None:
            return Problem(where=f"{path} line {wrong_line[0]}", what=wrong_line[1])
    return None


def _wrong_json(lines: Iterable[str]) -> tuple[int, str] | None:
    problems = ((number, _json_problem(line)) for number, line in enumerate(lines, start=1))
    return next(((number, problem) for number, problem in problems if problem is not None), None)


def _wrong_csv(lines: Iterable[str], separator: str) -> tuple[int, str] | None:
    reader = csv.reader(lines, delimiter=separator)
    try:
        width = len(next(reader, []))
        for row in reader:
            if row and len(row) != width:
                return reader.line_num, f"has {count_text(len(row), 'value')}, the header has {width}: {separator.join(row)[:80]}"
    except csv.Error as error:
        return reader.line_num, str(error)
    return None


def _json_problem(line: str) -> str | None:
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"{error.msg} at column {error.colno}: {line.strip()[:80]}"
    except RecursionError:
        return "is nested too deeply"
    return None if isinstance(value, dict | list) else f"is {type(value).__name__}, not an object: {line.strip()[:80]}"


def _header(path: str, separator: str) -> list[str]:
    if not _is_readable_here(path):
        return []
    with _text(path) as lines:
        try:
            return next(csv.reader(lines, delimiter=separator), [])
        except csv.Error as error:
            raise InvalidInputError(f"the header cannot be read: {error}", path=path, next_step="check that the file is CSV") from error


def _is_readable_here(path: str) -> bool:
    return scheme_of(path) == "file" and Path(path).suffix.lower() not in COMPRESSIONS[2:]


@contextmanager
def _text(path: str) -> Iterator[IO[str]]:
    """Open a file, unpacked; characters that are not UTF-8 are replaced, since only the structure of lines is checked."""
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(Path(path).suffix.lower(), open)
    try:
        with opener(local_path(path), "rt", encoding="utf-8-sig", errors="replace") as file:  # type: ignore[operator]
            yield file
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"the file cannot be read: {error}", path=path, next_step="check that it is complete") from error


def _expanded(text: str) -> list[str]:
    if scheme_of(text) != "file":
        return [text]
    path = Path(local_path(text))
    if path.is_dir():
        # Files whose names begin with a dot or an underscore are other tools' bookkeeping; Spark skips them too.
        return [str(file) for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith((".", "_"))]
    _size(str(path))
    return [str(path)]


def _size(path: str) -> int:
    try:
        with open(local_path(path), "rb"):
            return Path(local_path(path)).stat().st_size
    except FileNotFoundError as error:
        raise NoSuchFileError(f"there is no file {path}", next_step="check the path") from error
    except PermissionError as error:
        raise StoragePermissionError(f"{path} may not be read", next_step="check the file's permissions") from error
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}", next_step="check the path") from error
