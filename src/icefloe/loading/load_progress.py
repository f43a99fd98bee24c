"""The progress of a load, for a progress bar."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How far one pass over the files has come.

    Attributes:
        step: `columns` if the pass infers the types of columns, `rows` if it reads the rows.
        rows: The number of rows that have been read.
        done_bytes: The number of bytes that have been read, before decompression.
        all_bytes: The total size of the files in bytes, before decompression.
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
        """Add a number of rows, set the number of bytes that have been read of the current file, and report the progress."""
        self.rows += rows
        self._position = position
        if self._callback is not None:
            done = min(self._earlier_bytes + position, self._all_bytes)
            self._callback(LoadProgress(step=self._step, rows=self.rows, done_bytes=done, all_bytes=self._all_bytes))

    def end_file(self) -> None:
        """Begin the next file: add the bytes of the current file to those of earlier files."""
        self._earlier_bytes += self._position
        self._position = 0
