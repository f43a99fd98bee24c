"""`PathSpill`: listed files and the keys of referenced ones in files on the local disk, divided by the hash of the key, and compared part by part.

Memory holds one part at a time, however many files there are. Of a referenced file only the hash of its key is kept: if a listed file has the hash of another
file's key, it is kept too.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError, Problem, StorageError
from icefloe.io.storage_errors import storage_error
from icefloe.operations.orphans.path_keys import Prefix, PrefixMismatch

# Listed files. Size and time are null where the listing does not show them.
LISTED = pa.schema([pa.field("path", pa.string()), pa.field("size_in_bytes", pa.int64()), pa.field("modified_ms", pa.int64())])

# Parts of the comparison: 45 million files are 700,000 in each.
PARTS = 64
# Listed files in memory before they are written.
_BUFFERED = 100_000
# Different schemes and authorities of one table; more than this are no table's.
MOST_PREFIXES = 10_000
# Examples in the error for files whose prefixes differ.
SHOWN_FILES = 5

_SPILLED = LISTED.append(pa.field("hash", pa.int64())).append(pa.field("prefix", pa.int32()))
_REFERENCED = np.dtype([("hash", np.int64), ("prefix", np.int32)])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(slots=True)
class _Part:
    listed: Any
    sink: Any
    referenced: BinaryIO


class PathSpill:
    """Files in a folder of this machine, which the caller removes."""

    def __init__(self, folder: str) -> None:
        """Create the files in an empty folder."""
        self._folder = folder
        self._stack = ExitStack()
        self._prefixes: dict[Prefix, int] = {}
        self._buffer: list[pa.Table] = []
        self._buffered = 0
        self._listed_prefixes: set[Prefix] = set()
        self._referenced_prefixes: set[Prefix] = set()
        self.listed_files = 0
        self.referenced_files = 0
        with self._stack as stack:
            self._parts = [self._opened(stack, number) for number in range(PARTS)]
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stack.close()

    def _opened(self, stack: ExitStack, number: int) -> _Part:
        sink = stack.enter_context(pa.OSFile(self._listed_path(number), "wb"))
        listed = stack.enter_context(pa.ipc.new_stream(sink, _SPILLED, options=_OPTIONS))
        return _Part(listed, sink, stack.enter_context(open(self._referenced_path(number), "wb")))

    def _listed_path(self, number: int) -> str:
        return os.path.join(self._folder, f"listed-{number}.arrows")

    def _referenced_path(self, number: int) -> str:
        return os.path.join(self._folder, f"referenced-{number}.bin")

    def add_listed(self, keys: Sequence[str], prefix: Prefix, paths: Any, sizes: Any, modified_ms: Any) -> None:
        """Add listed files: keys, and Arrow arrays of paths, sizes and times. Raises `StorageError`."""
        self._listed_prefixes.add(prefix)
        numbers = np.full(len(keys), self._number(prefix), np.int32)
        columns = [paths, sizes, modified_ms, pa.array(key_hashes(keys)), pa.array(numbers)]
        self._buffer.append(pa.table(columns, schema=_SPILLED))
        self._buffered += len(keys)
        self.listed_files += len(keys)
        if self._buffered >= _BUFFERED:
            self._flush()

    def add_referenced(self, keys: Sequence[str], prefix: Prefix) -> None:
        """Add the keys of referenced files. Raises `StorageError`."""
        self._referenced_prefixes.add(prefix)
        self.referenced_files += len(keys)
        rows = np.empty(len(keys), _REFERENCED)
        rows["hash"] = key_hashes(keys)
        rows["prefix"] = self._number(prefix)
        parts = rows["hash"] % PARTS
        order = np.argsort(parts, kind="stable")
        rows, ends = rows[order], np.cumsum(np.bincount(parts, minlength=PARTS))
        try:
            for part, start, end in zip(self._parts, [0, *ends[:-1]], ends, strict=True):
                if end > start:
                    part.referenced.write(rows[start:end].tobytes())
        except OSError as error:
            raise self._failure(error) from error

    def unreferenced(self, mismatch: PrefixMismatch) -> Iterator[Any]:
        """Yield tables of `LISTED` with the listed files that are not referenced, each once. Nothing can be added any more.

        Args:
            mismatch: The rule for a file whose path is referenced under another scheme or authority.

        Raises:
            InvalidInputError: For `ERROR` there is such a file.
            StorageError: The local disk is full or cannot be read.
        """
        self._flush()
        self._stack.close()
        by_number = {number: prefix for prefix, number in self._prefixes.items()}
        can_differ = any(not one.is_of(listed) for one in self._referenced_prefixes for listed in self._listed_prefixes)
        for number in range(PARTS):
            try:
                referenced = np.fromfile(self._referenced_path(number), _REFERENCED)
                with pa.memory_map(self._listed_path(number)) as source, pa.ipc.open_stream(source) as stream:
                    listed = stream.read_all()
                os.unlink(self._listed_path(number))
                os.unlink(self._referenced_path(number))
            except OSError as error:
                raise self._failure(error) from error
            hashes = listed["hash"].to_numpy()
            is_kept = np.isin(hashes, referenced["hash"])
            if can_differ:
                is_kept = _with_prefixes(listed, is_kept, referenced, by_number, mismatch)
            remaining = listed.filter(pa.array(~is_kept))
            if len(remaining):
                _, first = np.unique(remaining["hash"].to_numpy(), return_index=True)
                yield remaining.take(pa.array(first)).select(LISTED.names)

    def _number(self, prefix: Prefix) -> int:
        number = self._prefixes.setdefault(prefix, len(self._prefixes))
        if number >= MOST_PREFIXES:
            raise prefixes_error()
        return number

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.concat_tables(self._buffer).combine_chunks()
        self._buffer, self._buffered = [], 0
        parts = table["hash"].to_numpy() % PARTS
        table = table.take(pa.array(np.argsort(parts, kind="stable"))).combine_chunks()
        ends = np.cumsum(np.bincount(parts, minlength=PARTS))
        try:
            for part, start, end in zip(self._parts, [0, *ends[:-1]], ends, strict=True):
                if end > start:
                    part.listed.write_table(table.slice(start, end - start))
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StorageError:
        failure = storage_error(error, self._folder)
        return failure if isinstance(failure, StorageError) else StorageError(failure.message, path=self._folder)


def key_hashes(keys: Sequence[str]) -> NDArray[np.int64]:
    """Return hashes by Python's own function, whose seed is random and secret."""
    return np.fromiter(map(hash, keys), np.int64, len(keys))


def _with_prefixes(
    listed: Any, is_kept: NDArray[np.bool_], referenced: Any, by_number: dict[int, Prefix], mismatch: PrefixMismatch
) -> NDArray[np.bool_]:
    """Return which listed files are kept where prefixes can differ. Raises as `PathSpill.unreferenced`."""
    hashes, numbers = listed["hash"].to_numpy(), listed["prefix"].to_numpy()
    is_same = np.zeros(len(hashes), np.bool_)
    for number in np.unique(numbers[is_kept]):
        fitting = [other for other, prefix in by_number.items() if prefix.is_of(by_number[int(number)])]
        same = referenced["hash"][np.isin(referenced["prefix"], fitting)]
        is_same |= (numbers == number) & np.isin(hashes, same)
    differing = is_kept & ~is_same
    if mismatch is PrefixMismatch.ERROR and differing.any():
        rows = listed.filter(pa.array(differing)).slice(0, SHOWN_FILES)
        raise prefix_error(rows["path"].to_pylist(), _names_of(referenced, hashes[differing], by_number))
    return is_same if mismatch is PrefixMismatch.DELETE else is_kept


def _names_of(referenced: Any, hashes: NDArray[np.int64], by_number: dict[int, Prefix]) -> list[str]:
    numbers = np.unique(referenced["prefix"][np.isin(referenced["hash"], hashes)])
    return sorted(str(by_number[int(number)]) for number in numbers)


def prefixes_error() -> InvalidInputError:
    """Return the error for a table whose files have too many prefixes."""
    return InvalidInputError(
        f"the files name more than {MOST_PREFIXES:,} schemes and authorities, which is no table's",
        next_step="check the table's metadata with icefloe validate",
    )


def prefix_error(paths: Sequence[str], prefixes: Sequence[str]) -> InvalidInputError:
    """Return the error for listed files whose paths the table references under other prefixes."""
    return InvalidInputError(
        "nothing was deleted: files were found whose paths the table names with another scheme or authority, so they may be its files",
        problems=[Problem(where=path, what=f"the table names its path with {', '.join(prefixes[:SHOWN_FILES])}") for path in paths],
        next_step="if both name the same storage, pass equal_schemes or equal_authorities; prefix_mismatch_mode IGNORE keeps such files, and DELETE"
        " treats them as orphans",
    )
