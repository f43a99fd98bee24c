"""The files of a load: found, told apart by format, and looked at closely enough to name the line that is wrong.

Reading them is Spark's (`icefloe.spark.scan.input_file_rows`).
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

from icefloe.errors import InvalidInputError, InvalidSchemaError, NoSuchFileError, Problem, StoragePermissionError
from icefloe.inspect.formatting import count_text
from icefloe.io.locations import local_path, scheme_of


class FileFormat(StrEnum):
    """The formats that can be loaded, by Spark's names."""

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
# Spark unpacks these by the file's ending; the first two are also unpacked here, to look for a wrong line.
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Files of one format; `paths` are locations as given, folders replaced by the files in them."""

    paths: tuple[str, ...]
    format: FileFormat

    @property
    def described(self) -> str:
        """For messages: the file, or how many of them."""
        return self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"


def find_files(given: Sequence[str], file_format: FileFormat | None) -> InputFiles:
    """The files meant, checked to be there and not empty.

    Raises:
        NoSuchFileError, StoragePermissionError
        InvalidInputError: a file's format cannot be told, files are of several formats, or none holds a byte.
    """
    paths = [path for text in given for path in _expanded(text)]
    if not paths:
        raise InvalidInputError(f"there are no files in {', '.join(given)}", next_step="name files, or a folder that holds some")
    formats = {file_format or format_of(path) for path in paths}
    if len(formats) > 1:
        raise InvalidInputError(
            f"the files are of several formats: {', '.join(sorted(formats))}", next_step="load them one format at a time, or say --format"
        )
    local = [path for path in paths if scheme_of(path) == "file"]
    if len(local) == len(paths) and not any(_size(path) for path in local):
        raise InvalidInputError(f"{local[0] if len(local) == 1 else 'every file'} is empty", next_step="name files with rows in them")
    return InputFiles(paths=tuple(paths), format=formats.pop())


def format_of(path: str) -> FileFormat:
    """The format that a file's ending tells. Raises `InvalidInputError` where it tells none."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    found = ENDINGS.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise InvalidInputError(
            f"{path}: its name does not tell its format",
            next_step=f"say --format json, csv or parquet; known endings: {', '.join(ENDINGS)}",
        )
    return found


def check_headers(files: InputFiles, separator: str) -> None:
    """CSV files must name each column once, and all the same columns: Spark would rename the one and mix up the other.

    Raises:
        InvalidSchemaError: a name stands twice (names that differ only in case count as one), or files differ.
    """
    first: tuple[str, list[str]] | None = None
    for path in files.paths:
        header = _header(path, separator)
        if not header:
            continue
        twice = [name for name, count in Counter(name.lower() for name in header).items() if count > 1]
        if twice:
            raise InvalidSchemaError(
                f"{path}: the header names {', '.join(map(repr, twice))} more than once", next_step="rename the columns"
            )
        first = first or (path, header)
        if header != first[1]:
            raise InvalidSchemaError(
                "the files have different columns",
                problems=[Problem(where=where, what=", ".join(names)) for where, names in (first, (path, header))],
                next_step="load them one by one",
            )


def first_wrong_line(files: InputFiles, separator: str = ",") -> Problem | None:
    """The first line of JSON-lines files that is not an object, or of CSV files with more or fewer values than the header.

    None where there is none, or the files cannot be looked at here.
    """
    if files.format is FileFormat.PARQUET:
        return None
    for path in filter(_can_be_looked_at, files.paths):
        with _text(path) as lines:
            found = _wrong_json(lines) if files.format is FileFormat.JSON else _wrong_csv(lines, separator)
        if found is not None:
            return Problem(where=f"{path} line {found[0]}", what=found[1])
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
                return reader.line_num, f"holds {count_text(len(row), 'value')}, the header {width}: {separator.join(row)[:80]}"
    except csv.Error as error:
        return reader.line_num, str(error)
    return None


def _json_problem(line: str) -> str | None:
    if not line.strip():
        return None
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        return f"{error.msg} at column {error.colno}: {line.strip()[:80]}"
    except RecursionError:
        return "is nested too deeply"
    return None if isinstance(found, dict | list) else f"is {type(found).__name__}, not an object: {line.strip()[:80]}"


def _header(path: str, separator: str) -> list[str]:
    if not _can_be_looked_at(path):
        return []
    with _text(path) as lines:
        try:
            return next(csv.reader(lines, delimiter=separator), [])
        except csv.Error as error:
            raise InvalidInputError(f"the header cannot be read: {error}", path=path, next_step="check that the file is CSV") from error


def _can_be_looked_at(path: str) -> bool:
    return scheme_of(path) == "file" and Path(path).suffix.lower() not in COMPRESSIONS[2:]


@contextmanager
def _text(path: str) -> Iterator[IO[str]]:
    """The lines of a file, unpacked; signs that are not UTF-8 are replaced, since only structure is looked at."""
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(Path(path).suffix.lower(), open)
    try:
        with opener(local_path(path), "rt", encoding="utf-8-sig", errors="replace") as file:  # type: ignore[operator]
            yield file
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"the file cannot be read: {error}", path=path, next_step="check that it is whole") from error


def _expanded(text: str) -> list[str]:
    if scheme_of(text) != "file":
        return [text]
    path = Path(local_path(text))
    if path.is_dir():
        # Names that begin with a dot or an underscore are other tools' bookkeeping, which Spark leaves out too.
        return [str(found) for found in sorted(path.rglob("*")) if found.is_file() and not found.name.startswith((".", "_"))]
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
