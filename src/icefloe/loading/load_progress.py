"""The progress of a load, for a progress bar."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """The numbers of rows and bytes that one pass over the files has read.

    Attributes:
        step: `columns` while types are inferred, `rows` while rows are written.
        rows: The number of rows read so far.
        done_bytes: The number of bytes read so far, as they are stored.
        all_bytes: The total size of the files in bytes, as they are stored.
    """

    step: str
    rows: int
    done_bytes: int
    all_bytes: int


ProgressCallback = Callable[[LoadProgress], None]


class ProgressCounter:
    """Counts the rows and bytes of one pass over all files, and reports them to a callback."""

    def __init__(self, callback: ProgressCallback | None, step: str, all_bytes: int) -> None:
        self._callback, self._step, self._all_bytes = callback, step, all_bytes
        self.rows = 0
        self._earlier_bytes = 0
        self._position = 0

    def advance(self, rows: int, position: int) -> None:
        """Add rows, and set the position in the current file in bytes."""
        self.rows += rows
        self._position = position
        if self._callback is not None:
            done = min(self._earlier_bytes + position, self._all_bytes)
            self._callback(LoadProgress(step=self._step, rows=self.rows, done_bytes=done, all_bytes=self._all_bytes))

    def end_file(self) -> None:
        """Complete the current file."""
        self._earlier_bytes += self._position
        self._position = 0
