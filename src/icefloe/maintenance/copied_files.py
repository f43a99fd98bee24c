"""Parallel copies of files to new locations. An existing file is never replaced. If it is equal it is kept, so that an interrupted copy can be continued.

Spec: none.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow.compute as pc

from icefloe.display.progress import BYTES, progress
from icefloe.errors import DataFileFormatError, FileAlreadyExistsError
from icefloe.io.whole_output import whole_output
from icefloe.operations.parallel_requests import side_by_side
from icefloe.spec.ports import FileIO

# Files up to this size are copied in one write, which writes the whole file or nothing on every storage.
WHOLE_BYTES = 8 * 1024 * 1024
# Files whose copies are started together, so that a list of millions of files never becomes Python objects at once.
_AT_ONCE = 4096


class Copied(NamedTuple):
    """A copied file: its size in bytes, and whether it was at the target already."""

    size: int
    was_there: bool


def copy_files(io: FileIO, copies: Any) -> Iterator[Copied]:
    """Copy files, given as a table with the schema `staged_copy.COPIES`.

    Raises:
        NoSuchFileError: A file does not exist.
        DataFileFormatError: The size of a file differs from the size in the table's metadata.
        FileAlreadyExistsError: A different file is at the new location.
        StorageError: A file cannot be read or written. No part of the file remains at the new location.
    """
    with progress(f"copy {len(copies):,} files", BYTES, pc.sum(copies["size"]).as_py() or 0) as work:
        for start in range(0, len(copies), _AT_ONCE):
            rows = copies.slice(start, _AT_ONCE)
            names = zip(*(rows[name].to_pylist() for name in ("source", "target", "size")), strict=True)
            for copied in side_by_side(lambda row: _copy(io, *row), names):
                work.advance(copied.size)
                yield copied


def digest_of(io: FileIO, location: str) -> tuple[int, bytes]:
    """Return the size and the SHA-256 of a file. Raises `NoSuchFileError` and `StorageError`."""
    digest, size = hashlib.sha256(), 0
    with io.open_input(location) as source:
        while part := source.read(WHOLE_BYTES):
            digest.update(part)
            size += len(part)
    return size, digest.digest()


def _are_equal(io: FileIO, source: str, target: str) -> bool:
    with io.open_input(source) as expected, io.open_input(target) as there:
        while part := there.read(WHOLE_BYTES):
            if expected.read(len(part)) != part:
                return False
        return not expected.read(1)


def _copy(io: FileIO, source: str, target: str, size: int | None) -> Copied:
    actual = io.size(source)
    if size is not None and size != actual:
        raise DataFileFormatError(
            f"{source} has {actual:,} bytes, and the metadata of the table has {size:,}",
            path=source,
            next_step="check the table; a copy of another file would not read equal",
        )
    if io.exists(target):
        if not _are_equal(io, source, target):
            raise FileAlreadyExistsError(
                f"another file is at {target}",
                path=target,
                next_step="choose an empty target prefix, or delete that file if it is not needed",
            )
        return Copied(actual, was_there=True)
    try:
        if actual <= WHOLE_BYTES:
            io.write(target, io.read(source))
        else:
            _copy_in_parts(io, source, target)
    except FileAlreadyExistsError:
        # Another run at the same time may have copied the file meanwhile.
        if not _are_equal(io, source, target):
            raise
        return Copied(actual, was_there=True)
    return Copied(actual, was_there=False)


def _copy_in_parts(io: FileIO, source: str, target: str) -> None:
    """Copy a large file in parts. Raises `FileAlreadyExistsError` if the name is taken, `NoSuchFileError` and `StorageError`."""
    with io.open_input(source) as opened, whole_output(io, target) as output:
        while part := opened.read(WHOLE_BYTES):
            output.write(part)
