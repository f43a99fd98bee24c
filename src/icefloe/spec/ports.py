"""The three ports for storage, time and random ids, which are used by the format's rules, scan planning and commits.

The packages `spec`, `scan` and `commit` open no files, read no clock and create no random numbers. Their callers pass implementations of these ports, which are
in `icefloe.io` (storage) and `icefloe.operations.table_handle` (the system clock and random ids).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, Protocol, runtime_checkable

# A function that returns the content of the file at a location, as `FileIO.read` does.
Read = Callable[[str], bytes]
# A function like `map`, which may work in parallel, and returns the results in order.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
# The bytes of a page. Memory whose address and length are multiples of this can be written to a disk without a copy by the operating system.
PAGE_BYTES = 4096
# A part of a file: bytes, or whole pages of memory.
Part = bytes | mmap
# The content of a file to write: its bytes, or its parts in order. Successive metadata files share most parts, and are written without joining them.
Content = bytes | list[bytes] | list[Part]

# The property for a Google token that a catalog's server sent. It is always a token, while the user's `gcs.oauth2.token` may also be a method or a file.
VENDED_GOOGLE_TOKEN = "gcs.oauth2.vended-token"  # noqa: S105  the name of a property


def whole(content: Content) -> bytes:
    """Return the content as one `bytes` object, for storages that do not accept parts."""
    return b"".join(content) if isinstance(content, list) else content


class FileIO(Protocol):
    """A storage, whose files are addressed by full locations (`/x`, `file:/x`, `file:///x`, `memory://x`, `s3://b/x`).

    It must be picklable, because Spark's tasks receive it.

    Every method may raise `NoSuchFileError`, `StoragePermissionError`, `StorageFullError` or `StorageUnavailableError`, with the location.
    """

    def read(self, location: str) -> bytes:
        """Read the whole file."""

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, and create parent folders. Raise `FileAlreadyExistsError` if the file exists, unless `overwrite` is true."""

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
    """A `FileIO` that can open a file without requesting its size, if the caller passes the size."""

    def open_sized_input(self, location: str, size: int, ending: bytes) -> Any:
        """Open a file as `open_input` does. `size` is used as the size of the file if the bytes before it are `ending`."""


@runtime_checkable
class OpensUniqueFiles(Protocol):
    """A `FileIO` that can create a file without checking that no file has its name, if the caller guarantees that the name is unique."""

    def open_unique_output(self, location: str) -> Any:
        """Open a file as `open_output` does, without looking up whether it exists."""


def unique_output(io: FileIO, location: str) -> Any:
    """Open a new file, whose name the caller guarantees to be unique, for writing. The check for an existing file is skipped if the storage allows that."""
    # `isinstance` with the protocol is avoided, because it takes longer than opening a local file.
    open_output = getattr(io, "open_unique_output", None) or io.open_output
    return open_output(location)


def write_unique(io: FileIO, location: str, content: Any) -> None:
    """Write a small new file, whose name the caller guarantees to be unique. After an error, a part of it may remain.

    If the storage has a method `write_unique`, it is used, because it takes fewer steps than opening the file.

    Args:
        io: The storage.
        location: The location of the new file.
        content: Bytes, or an object with the buffer protocol.

    Raises:
        OSError: The open file cannot be written. `write_unique` and opening raise the errors of `FileIO`.
    """
    write = getattr(io, "write_unique", None)
    if write is not None:
        write(location, content)
        return
    with unique_output(io, location) as file:
        file.write(content)


@runtime_checkable
class PlannedInput(Protocol):
    """An open file of a storage that is accessed by requests. Ranges that are announced in advance are requested together."""

    def will_read(self, steps: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Announce the ranges that will be read next, as a sequence of steps. A range is its first byte and the byte after its last."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The settings with which files at a location are requested.

    Attributes:
        properties: Properties of the storage, with credentials that are valid now.
        is_signed: Whether `StorageAccess.sign` must sign the requests, because there are no credentials.
    """

    # Not shown, because they contain credentials of the storage.
    properties: Mapping[str, str] = field(repr=False)
    is_signed: bool = False


class StorageAccess(Protocol):
    """The access to the files of one table that a catalog's server grants, by credentials or by signing requests.

    It must be picklable. A copy in another process renews its credentials itself.
    """

    def settings_for(self, location: str) -> StorageSettings:
        """Return the present settings of requests for a location.

        The properties and `is_signed` fit together, even if another thread renews the access meanwhile: both are from the same response of the catalog.
        """

    def expires_at_s(self, location: str) -> float | None:
        """Return the time at which the credentials of a location expire, in seconds since 1970-01-01 UTC; None if it is unknown."""

    def renew(self) -> bool:
        """Request new credentials after the storage refused the present ones. Return whether there are new credentials."""

    def sign(self, method: str, uri: str, region: str, headers: Mapping[str, str], body: str | None) -> tuple[str, Mapping[str, str]]:
        """Let the catalog sign a request to S3. Return the address and the headers with which the request is sent."""

    def gives(self, location: str) -> bool:
        """Return whether the catalog grants access to a location, with credentials or by signing requests."""

    def reserves(self, folder: str) -> bool:
        """Return whether the catalog grants complete credentials, or signatures, for a folder. If so, its files are accessed with nothing else from then on."""

    def vends_any(self, locations: Iterable[str]) -> bool:
        """Return whether any of these locations needs access granted by the catalog, which other libraries do not have."""

    def secrets(self) -> list[str]:
        """Return the secret texts, such as keys, that must not appear in messages."""


class Clock(Protocol):
    """The port for the current time."""

    def now_ms(self) -> int:
        """Return the current time in milliseconds since 1970-01-01 UTC."""


class IdSource(Protocol):
    """The port for new random identifiers."""

    def uuid(self) -> str:
        """Return a random UUID in lower-case text."""

    def snapshot_id(self) -> int:
        """Return a random positive 63-bit number."""
