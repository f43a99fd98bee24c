"""Finds the input files of a load, with their formats and sizes, and reads their content as a stream of decompressed bytes.

`csv_input.py`, `json_input.py` and `parquet_input.py` interpret the bytes.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa

from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.listing import files_of
from icefloe.io.locations import local_path, qualify, scheme_of
from icefloe.io.storage_errors import storage_error
from icefloe.spec.ports import FileIO


class InputFormat(StrEnum):
    """The formats of files that can be loaded. The values are Spark's names of the formats."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


ENDINGS: Final[Mapping[str, InputFormat]] = {
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
    ".pq": InputFormat.PARQUET,
}
# The endings of compressed files, each with Arrow's name of the codec. Only CSV and JSON files have such endings; Parquet is compressed inside the file.
CODECS: Final[Mapping[str, str]] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
# Only Spark can decompress these, because they have Hadoop's framing of the codec.
_SPARK_CODECS = (".snappy",)
# The ending of files to which `bad_rows.py` writes bad rows. Folders and patterns do not include them.
BAD_ROWS_ENDING = ".bad-rows"

BLOCK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """The input files of a load, all of one format.

    Attributes:
        paths: The locations of the files; folders and patterns are replaced by the files in them.
        format: The format of all files.
        io: The storage of the files.
        sizes: The size of each file in bytes, before decompression.
    """

    paths: tuple[str, ...]
    format: InputFormat
    io: FileIO
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """The total size of the files in bytes, before decompression."""
        return sum(self.sizes)

    @property
    def fingerprint(self) -> str:
        """A hash that identifies the files: of their locations and sizes, and for local files also the times of their last change. Their order is ignored.

        Raises:
            StorageError, NoSuchFileError: A local file no longer exists, or cannot be accessed.
        """
        marks = sorted(zip(map(qualify, self.paths), self.sizes, map(_changed_ns, self.paths), strict=True))
        return sha256("\0".join(f"{place}\0{size}\0{time}" for place, size, time in marks).encode()).hexdigest()[:16]

    @property
    def described(self) -> str:
        """A text for messages: the path if there is one file, else the number of files."""
        return self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"


def find_files(texts: Sequence[str], file_format: InputFormat | None, properties: Mapping[str, str] | None = None) -> InputFiles:
    """Find the input files, and check that they exist, have one format and are not all empty.

    Args:
        texts: Paths of files and folders, patterns with `*`, `?` or `[`, and locations such as `s3://bucket/folder`.
        file_format: The format of the files; None to derive it from their endings.
        properties: The properties of the catalog, which have the keys and addresses of object stores; None for no properties.

    Raises:
        NoSuchFileError: A file does not exist, or no file matches a pattern.
        StorageError: Access to a file or folder is denied.
        InvalidInputError: A file occurs twice, `file_format` is None and a file has an unknown ending, the files have several formats, or all files are empty.
    """
    io = load_file_io(properties or {}, texts[0] if texts else None, is_trusted=True)
    paths: list[str] = []
    for text in texts:
        if scheme_of(text) == "file" and os.path.exists(local_path(text)) and not os.path.isdir(local_path(text)):
            # This raises a clear error for pipes and devices. The name of the file may contain characters of patterns.
            size_of(io, text)
        locations = files_of(io, text)
        paths += locations if locations == [text] else [path for path in locations if not path.endswith(BAD_ROWS_ENDING)]
    if not paths:
        raise InvalidInputError(f"there are no files in {', '.join(texts)}", next_step="name files, or a folder that contains some")
    places = Counter(map(qualify, paths))
    repeated = next((path for path in paths if places[qualify(path)] > 1), None)
    if repeated is not None:
        raise InvalidInputError(f"{repeated} is named twice, and its rows would be loaded twice", next_step="name each file once")
    formats = {file_format or format_of(path) for path in paths}
    if len(formats) > 1:
        raise InvalidInputError(
            f"the files have several formats: {', '.join(sorted(formats))}", next_step="load them one format at a time, or pass --format"
        )
    sizes = [size_of(io, path) for path in paths]
    if not any(sizes):
        raise InvalidInputError(f"{paths[0] if len(paths) == 1 else 'every file'} is empty", next_step="name files that contain rows")
    return InputFiles(paths=tuple(paths), format=formats.pop(), io=io, sizes=tuple(sizes))


def _changed_ns(path: str) -> int:
    """Return when a local file was last changed, in nanoseconds since 1970. Return 0 for other files, because not all object stores have such a time."""
    if scheme_of(path) != "file":
        return 0
    try:
        return os.stat(local_path(path)).st_mtime_ns
    except OSError as error:
        raise storage_error(error, path) from error


def size_of(io: FileIO, path: str) -> int:
    """Return the size of a file in bytes. The file is opened, so that a file which cannot be read raises the errors of `FileIO.open_input`."""
    with io.open_input(path) as source:
        return int(source.size())


def format_of(path: str) -> InputFormat:
    """Return the format of a file that its ending names, such as CSV for `a.csv.gz`.

    Raises:
        InvalidInputError: The ending is unknown.
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes]
    while suffixes and suffixes[-1] in (*CODECS, *_SPARK_CODECS):
        suffixes.pop()
    file_format = ENDINGS.get(suffixes[-1]) if suffixes else None
    if file_format is None:
        raise InvalidInputError(
            f"{path}: its name has no known ending, so its format is unknown",
            next_step=f"pass --format json, csv or parquet; known endings: {', '.join(ENDINGS)}",
        )
    return file_format


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert errors of Arrow and of the operating system in a `with` block that reads the file `path` to an error with this path.

    Raises:
        InvalidInputError: The file cannot be read: it is damaged or not complete.
    """
    try:
        yield
    except (OSError, EOFError, UnicodeError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"the file cannot be read: {error}", path=path, next_step="check that it is complete, and that its name has the right ending"
        ) from error


class ByteSource:
    """A stream of the decompressed bytes of a file, which is read once from its start to its end."""

    def __init__(self, raw: Any, stream: Any, path: str, decode: Callable[[bytes, bool], bytes] | None, block_bytes: int) -> None:
        self._raw = raw
        self._stream = stream
        self._path = path
        self._decode = decode
        self._block_bytes = block_bytes

    @property
    def position(self) -> int:
        """The number of bytes of the stored file that have been read so far, before decompression."""
        return int(self._raw.tell())

    def read(self) -> bytes:
        """Return the next block of decompressed bytes, converted to UTF-8 if there is a decoder; empty at the end of the file.

        Raises:
            InvalidInputError: The file is damaged.
        """
        with reading(self._path):
            block = bytes(self._stream.read(self._block_bytes))
            while self._decode is not None:
                decoded = self._decode(block, not block)
                # If a block ends within a character, the decoder can return nothing yet.
                if decoded or not block:
                    return decoded
                block = bytes(self._stream.read(self._block_bytes))
            return block


@contextmanager
def open_bytes(
    io: FileIO, path: str, decode: Callable[[bytes, bool], bytes] | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[ByteSource]:
    """Open a file as a stream of decompressed bytes, for a `with` block.

    Args:
        io: The storage of the file.
        path: The location of the file, whose ending names the codec.
        decode: Converts a block of decompressed bytes to UTF-8. Its second argument is True for the call after the last block, with an empty block. None to
            leave the bytes as they are.
        block_bytes: The most bytes of a block, before `decode`.

    Raises:
        UnsupportedFeatureError: The file is compressed with Snappy, which only Spark can decompress.
        StorageError: The file cannot be opened.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _SPARK_CODECS:
        raise UnsupportedFeatureError(
            f"{path} is compressed as {suffix[1:]}, which is not unpacked here",
            path=path,
            next_step=f"compress it as one of {', '.join(CODECS)}, or unpack it",
        )
    codec = CODECS.get(suffix)
    with io.open_input(path) as raw:
        if codec is None:
            yield ByteSource(raw, raw, path, decode, block_bytes)
            return
        with reading(path):
            stream = pa.CompressedInputStream(raw, codec)
        with stream:
            yield ByteSource(raw, stream, path, decode, block_bytes)
