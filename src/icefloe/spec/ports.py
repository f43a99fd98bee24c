"""The three ports through which storage, time and randomness reach the format's rules, the planning of scans and commits.

`spec`, `scan` and `commit` open no file, read no clock and draw no random number: their callers pass implementations of these ports. They are in `icefloe.io`
(storage) and `icefloe.operations.table_handle` (the system clock and random ids).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, Protocol, runtime_checkable

# Returns the content of the file at a location, as `FileIO.read` does.
Read = Callable[[str], bytes]
# Applies a function to each item, perhaps in parallel, and returns the results in order, like `map`.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
# Bytes of a page: a multiple of what disks write at once, and of where memory must begin and end to be written without a copy by the system.
PAGE_BYTES = 4096
# A part of a file: bytes, or whole pages of memory.
Part = bytes | mmap
# What a file is written from: its bytes, or parts of them in order. Successive metadata files share most parts, and are written without a copy of the whole.
Content = bytes | list[bytes] | list[Part]

# The property for a token of Google that a catalog's server gave: always a token. The user's `gcs.oauth2.token` may name a method or a file.
VENDED_GOOGLE_TOKEN = "gcs.oauth2.vended-token"  # noqa: S105  the name of a property


def whole(content: Content) -> bytes:
    """Return the bytes of a file, for storage that does not take parts."""
    return b"".join(content) if isinstance(content, list) else content


class FileIO(Protocol):
    """Storage by full location string (`/x`, `file:/x`, `file:///x`, `memory://x`, `s3://b/x`). It must pickle, because Spark's tasks receive it.

    Every method may raise `NoSuchFileError`, `StoragePermissionError`, `StorageFullError` or `StorageUnavailableError`, with the location.
    """

    def read(self, location: str) -> bytes:
        """Read the whole file."""

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, and create parent folders. Raise `FileAlreadyExistsError` unless `overwrite`."""

    def exists(self, location: str) -> bool:
        """Return True if the file exists."""

    def size(self, location: str) -> int:
        """Return the length in bytes."""

    def delete(self, location: str) -> None:
        """Delete the file; a missing file is not an error."""

    def open_input(self, location: str) -> Any:
        """Open a seekable `pyarrow.NativeFile` for reading."""

    def open_output(self, location: str) -> Any:
        """Open a `pyarrow.NativeFile` for writing, and create parent folders. An existing file is never overwritten silently."""


@runtime_checkable
class OpensSizedFiles(Protocol):
    """A `FileIO` that spares a request where the size of a file is known; one without this requests it."""

    def open_sized_input(self, location: str, size: int, ending: bytes) -> Any:
        """Open a file as `open_input` does. The size is taken if the file ends there with these bytes."""


@runtime_checkable
class OpensUniqueFiles(Protocol):
    """A `FileIO` that spares a request where no other writer has the name of a new file; one without this requests whether the name is free."""

    def open_unique_output(self, location: str) -> Any:
        """Open a file as `open_output` does, without looking up whether it exists."""


def unique_output(io: FileIO, location: str) -> Any:
    """Open a file to write, whose name no other writer has. See `OpensUniqueFiles`."""
    # A test for the protocol takes longer than opening a file of this machine does.
    open_output = getattr(io, "open_unique_output", None) or io.open_output
    return open_output(location)


def write_unique(io: FileIO, location: str, content: Any) -> None:
    """Write a small file, whose name no other writer has. A failure may leave a part of it.

    An IO may have a method `write_unique` that takes fewer steps than opening a file does.

    Args:
        io: The storage.
        location: The location of the new file.
        content: Bytes, or an object with their buffer.

    Raises:
        OSError: The open file cannot be written; `write_unique` and opening raise as every method of an IO does.
    """
    write = getattr(io, "write_unique", None)
    if write is not None:
        write(location, content)
        return
    with unique_output(io, location) as file:
        file.write(content)


@runtime_checkable
class PlannedInput(Protocol):
    """An open file whose storage is reached by requests, so that ranges are read together if they are stated in advance."""

    def will_read(self, steps: Sequence[Sequence[tuple[int, int]]]) -> None:
        """State the ranges, each by its first byte and the one after its last, that are read next, by steps that are read one after another."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How requests for a location are sent.

    Attributes:
        properties: Properties of the storage, with credentials that are valid now.
        is_signed: Whether `StorageAccess.sign` signs the requests, because there are no credentials for them.
    """

    # Not shown: they hold keys to the store.
    properties: Mapping[str, str] = field(repr=False)
    is_signed: bool = False


class StorageAccess(Protocol):
    """What a catalog gives for the files of one table. It must pickle, and a copy in another process renews its credentials itself."""

    def settings_for(self, location: str) -> StorageSettings:
        """Return how requests for a location are sent now. Both parts are of one answer of the catalog, whatever another thread fetches meanwhile."""

    def expires_at_s(self, location: str) -> float | None:
        """Return when the credentials of a location expire, in seconds since 1970; None where that is unknown."""

    def renew(self) -> bool:
        """Get new credentials after the storage refused the present ones. Return whether there are new ones."""

    def sign(self, method: str, uri: str, region: str, headers: Mapping[str, str], body: str | None) -> tuple[str, Mapping[str, str]]:
        """Return the address and the headers with which a request to S3 is sent, so that the store accepts it."""

    def gives(self, location: str) -> bool:
        """Return whether the catalog itself gives access to a location, by credentials of its own or by signatures."""

    def reserves(self, folder: str) -> bool:
        """Return whether the catalog itself gives whole credentials, or signatures, for a folder; if so, its files are reached by these alone from now on."""

    def vends_any(self, locations: Iterable[str]) -> bool:
        """Return whether requests for one of several locations need what the catalog itself gives, so that no other library can make them."""

    def secrets(self) -> list[str]:
        """Return the texts that never appear in a message."""


class Clock(Protocol):
    """Time, in milliseconds since 1970-01-01 UTC."""

    def now_ms(self) -> int:
        """Return the current time."""


class IdSource(Protocol):
    """Fresh identifiers."""

    def uuid(self) -> str:
        """Return a random UUID in lower-case text."""

    def snapshot_id(self) -> int:
        """Return a random positive 63-bit number."""
