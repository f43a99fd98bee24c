"""`BreakingOutput`: the Python side of a stream that breaks at its first write."""

from collections.abc import Callable
from typing import Any, NoReturn


class BreakingOutput:
    """Takes half of the first bytes, and then `break_off` says how it fails."""

    def __init__(self, stream: Any, break_off: Callable[[], NoReturn]) -> None:
        self._stream = stream
        self._break_off = break_off
        self.closed = False

    def write(self, content: Any) -> int:
        part = bytes(content)
        self._stream.write(part[: len(part) // 2])
        self._stream.flush()
        self._break_off()

    def tell(self) -> int:
        return 0

    def flush(self) -> None:
        """What was written is with the storage."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()
