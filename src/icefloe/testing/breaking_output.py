"""`BreakingOutput`: an output stream that fails during its first write."""

from collections.abc import Callable
from typing import Any, NoReturn


class BreakingOutput:
    """A writable file object for PyArrow that writes half of the first bytes and then fails.

    Args:
        stream: The stream to write to.
        break_off: Raises the error of the failed write.
    """

    def __init__(self, stream: Any, break_off: Callable[[], NoReturn]) -> None:
        self._stream = stream
        self._break_off = break_off
        self.closed = False

    def write(self, content: Any) -> int:
        """Write half of the content, then fail."""
        part = bytes(content)
        self._stream.write(part[: len(part) // 2])
        self._stream.flush()
        self._break_off()

    def tell(self) -> int:
        """Return 0, since no write ever completes."""
        return 0

    def flush(self) -> None:
        """Do nothing: a write flushes the stream itself."""

    def close(self) -> None:
        """Close the stream."""
        if not self.closed:
            self.closed = True
            self._stream.close()
