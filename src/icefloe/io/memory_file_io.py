"""`MemoryFileIO`: files in the memory of this process, for tests and temporary tables."""

import errno
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.io.locations import scheme_of
from icefloe.io.storage_errors import storage_error
from icefloe.spec.ports import Content, whole

# One set of files for the process, as a machine has one file system: all `MemoryFileIO` objects share it, also those that were unpickled in the process.
_FILES: dict[str, bytes] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class MemoryFileIO:
    """Files at `memory://x`. Other processes, such as Spark's tasks, cannot read them."""

    def read(self, location: str) -> bytes:
        """Return the content of a file."""
        content = _FILES.get(_key(location))
        if content is None:
            raise storage_error(OSError(errno.ENOENT, "not found"), location)
        return content

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole file. Raises `FileAlreadyExistsError` unless `overwrite`."""
        with _LOCK:
            if not overwrite and _key(location) in _FILES:
                raise storage_error(OSError(errno.EEXIST, "exists"), location)
            _FILES[_key(location)] = bytes(whole(content))

    def exists(self, location: str) -> bool:
        """Return True if a file is there."""
        return _key(location) in _FILES

    def size(self, location: str) -> int:
        """Return the length in bytes."""
        return len(self.read(location))

    def delete(self, location: str) -> None:
        """Delete the file; a file that does not exist is not an error."""
        with _LOCK:
            _FILES.pop(_key(location), None)

    def open_input(self, location: str) -> Any:
        """Return a `pyarrow.BufferReader`."""
        return pa.BufferReader(self.read(location))

    def open_output(self, location: str) -> Any:
        """Return a `pyarrow.PythonFile` whose bytes become the file when it is closed."""
        self.write(location, b"")
        return pa.PythonFile(_Output(_key(location)), mode="w")


class _Output:
    """The Python object behind an open file: it collects the bytes, and stores them as a file on close."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._parts: list[bytes] = []
        self._length = 0
        self.closed = False

    def write(self, content: Any) -> int:
        part = bytes(content)
        self._parts.append(part)
        self._length += len(part)
        return len(part)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Do nothing: the bytes are stored on close."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _LOCK:
                if self._key in _FILES:  # if the file was deleted meanwhile, it stays deleted
                    _FILES[self._key] = b"".join(self._parts)


def _key(location: str) -> str:
    scheme, text = scheme_of(location), location
    return f"{scheme}://{text.partition('://')[2].lstrip('/')}"
