"""`RenewedOutput`: an output stream for files whose writing takes longer than the credentials for the store are valid."""

from collections.abc import Callable
from typing import Any


class RenewedOutput:
    """An output stream of fsspec whose file system is replaced before each request by one with valid credentials.

    Args:
        stream: The output stream of fsspec.
        store: A function that returns the file system with the credentials that are valid at the call.
    """

    def __init__(self, stream: Any, store: Callable[[], Any]) -> None:
        self._stream = stream
        self._store = store

    def write(self, content: Any) -> int:
        """Write some bytes, and upload a part if there are enough bytes for one."""
        self._stream.fs = self._store()
        return int(self._stream.write(content))

    def flush(self) -> None:
        """Upload a part if there are enough bytes for one."""
        self._stream.fs = self._store()
        self._stream.flush()

    def close(self) -> None:
        """Upload the remaining bytes and complete the object."""
        if not self._stream.closed:
            self._stream.fs = self._store()
        self._stream.close()

    def discard(self) -> None:
        """Abandon the upload, so that no object is created."""
        self._stream.fs = self._store()
        self._stream.discard()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._stream.closed)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return int(self._stream.tell())

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False
