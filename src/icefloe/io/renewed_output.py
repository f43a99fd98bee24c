"""`RenewedOutput`: a file that is written longer than the credentials of its store are valid."""

from collections.abc import Callable
from typing import Any


class RenewedOutput:
    """A stream of fsspec whose file system is replaced before each request, by one with credentials that are valid then.

    Args:
        stream: The stream.
        store: Returns the file system as it is now.
    """

    def __init__(self, stream: Any, store: Callable[[], Any]) -> None:
        self._stream = stream
        self._store = store

    def write(self, content: Any) -> int:
        """Write some bytes; a part is uploaded where enough have been written."""
        self._stream.fs = self._store()
        return int(self._stream.write(content))

    def flush(self) -> None:
        """Upload a part where enough has been written."""
        self._stream.fs = self._store()
        self._stream.flush()

    def close(self) -> None:
        """Upload what remains; the object appears."""
        if not self._stream.closed:
            self._stream.fs = self._store()
        self._stream.close()

    def discard(self) -> None:
        """Give the file up; nothing appears."""
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
