"""The three ports through which storage, time and randomness reach the kernel.

The kernel opens no file, asks no clock and draws no random number: whoever calls it hands these in. Implementations live in `icefloe.io` (storage) and
`icefloe.table.table_handle` (the real clock and ids).
"""

from typing import Any, Protocol


class FileIO(Protocol):
    """Storage by full location string (`/x`, `file:/x`, `file:///x`, `memory://x`, `s3://b/x`). Must pickle: Spark tasks carry it.

    Every method raises `NoSuchFileError`, `StoragePermissionError`, `StorageFullError` or `StorageUnavailableError`, naming the location.
    """

    def read(self, location: str) -> bytes:
        """The whole file."""

    def write(self, location: str, content: bytes, *, overwrite: bool = False) -> None:
        """Writes the whole file or nothing, making parent folders. Raises `FileAlreadyExistsError` unless `overwrite`."""

    def exists(self, location: str) -> bool:
        """Whether a file is there."""

    def size(self, location: str) -> int:
        """Length in bytes."""

    def delete(self, location: str) -> None:
        """Deletes the file; a file that is not there is not an error."""

    def open_input(self, location: str) -> Any:
        """A seekable `pyarrow.NativeFile` to read from."""

    def open_output(self, location: str) -> Any:
        """A `pyarrow.NativeFile` to write to; parent folders are made. Never overwrites a file silently."""


class Clock(Protocol):
    """Time, in milliseconds since 1970-01-01 UTC."""

    def now_ms(self) -> int:
        """Now."""


class IdSource(Protocol):
    """Fresh identifiers."""

    def uuid(self) -> str:
        """A random UUID in lower-case text."""

    def snapshot_id(self) -> int:
        """A random positive 63-bit number."""
