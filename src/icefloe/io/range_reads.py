"""`RangeReads`: a file of an object store that is open for reading, by as few requests as its reader allows.

A request costs as much time as a megabyte of data, so that columns that a reader needs from one file are read together: the reader states them in advance
(`ObjectInput.will_read`), ranges with small gaps become one, and all ranges of a step are requested at once. The end of a file is read in one piece, as the
footers of Parquet and ORC are there, and a small file as a whole. Other reads fetch a block, which grows while they continue where the last one ended.

The size costs a request too, unless the caller has it from a manifest. Such a size is only taken if the file has the bytes at its end that its format
demands.
Spec: File System Operations (seekable reads).
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from icefloe.errors import IcefloeError, NoSuchFileError

# Bytes at the end of a file that are read first. Arrow reads 64 KiB; footers of wide files are longer, and more bytes of one request cost little.
END_BYTES = 256 * 1024
# A file of at most so many bytes is read as a whole.
SMALL_FILE_BYTES = 1024 * 1024
# Bytes between two ranges that are read rather than starting another request.
GAP_BYTES = 1024 * 1024
# Ranges of one step that are requested, unless they are farther apart than the longest gap that is read to have no more.
MOST_RANGES, LONGEST_GAP_BYTES = 2, 8 * 1024 * 1024
# Bytes of the first block, and of the longest one, where nothing was stated in advance.
FIRST_BLOCK_BYTES, LONGEST_BLOCK_BYTES = 256 * 1024, 8 * 1024 * 1024
# Bytes of the ranges of one step: so many are in memory at once, or one range, if it is longer.
STEP_BYTES = 64 * 1024 * 1024

# A part of a file: its first byte, and the one after its last.
Range = tuple[int, int]


def merged_ranges(ranges: Sequence[Range], gap: int = GAP_BYTES) -> list[Range]:
    """Return the ranges sorted, and as one where at most `gap` bytes are between them; more than two with longer gaps become fewer."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    while len(merged) > MOST_RANGES:
        number = min(range(1, len(merged)), key=lambda index: merged[index][0] - merged[index - 1][1])
        if merged[number][0] - merged[number - 1][1] > LONGEST_GAP_BYTES:
            break
        merged[number - 1 : number + 1] = [(merged[number - 1][0], merged[number][1])]
    return merged


def _start_of_end(size: int) -> int:
    return 0 if size <= SMALL_FILE_BYTES else size - END_BYTES


class RangeReads(io.RawIOBase):
    """An open file. It is used by one thread at a time, as Arrow locks a Python file.

    Args of the constructor: `fetch` returns the bytes of ranges, requested at once; `size` requests the size of the store; `expected_size` is the manifest's,
    and `ending` are the bytes that the file must end with for that size to be taken.
    """

    def __init__(
        self,
        fetch: Callable[[Sequence[Range]], Sequence[bytes]],
        size: Callable[[], int],
        expected_size: int | None = None,
        ending: bytes = b"",
    ) -> None:
        super().__init__()
        self._fetch = fetch
        self._position = 0
        self._end = b""
        self._blocks: list[tuple[int, bytes]] = []
        self._steps: list[list[Range]] = []
        self._block_bytes = FIRST_BLOCK_BYTES
        self._last_end = -1
        if expected_size is not None and len(ending) <= expected_size and self._has_ending(expected_size, ending):
            self._size = expected_size
        else:
            self._size, self._end = size(), b""

    def _has_ending(self, expected_size: int, ending: bytes) -> bool:
        """Return True if a file of that size ends with these bytes; keep its end then."""
        start = _start_of_end(expected_size)
        try:
            (content,) = self._fetch([(start, expected_size)])
        except NoSuchFileError:
            raise
        except IcefloeError:  # the store refuses a range beyond the end of a shorter file
            return False
        self._end = content
        return len(content) == expected_size - start and content.endswith(ending)

    def will_read(self, steps: Sequence[Sequence[Range]]) -> None:
        """State what is read from now on, as the ranges of one row group after another; the ranges of small row groups are requested together.

        Ranges come from the file itself, so those that are not in it are left out.
        """
        self._blocks, self._steps = [], []
        step: list[Range] = []
        for stated in steps:
            ranges = [(start, end) for start, end in stated if 0 <= start < end <= self._size]
            if step and sum(end - start for start, end in (*step, *ranges)) > STEP_BYTES:
                self._steps.append(merged_ranges(step))
                step = []
            step += ranges
        if step:
            self._steps.append(merged_ranges(step))

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Change the position, and return it."""
        base = self._size if whence == io.SEEK_END else self._position if whence == io.SEEK_CUR else 0
        self._position = max(0, base + offset)
        return self._position

    def read_buffer(self, size: int = -1) -> Any:
        """Return the next bytes as an Arrow buffer, without a copy where one request had them all. Arrow calls it in place of `read`."""
        start = self._position
        end = self._size if size < 0 else min(self._size, start + size)
        content = self._bytes(start, end) if end > start else pa.py_buffer(b"")
        self._position += len(content)
        return content

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, fewer than `size` only at the end of the file."""
        return bytes(self.read_buffer(size).to_pybytes())

    def readall(self) -> bytes:
        """Return all bytes from the position on."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer, and return the number of bytes."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _bytes(self, start: int, end: int) -> Any:
        content = self._bytes_read(start, end)
        if content is not None:
            return content
        if self._fetch_step(start, end) and (content := self._bytes_read(start, end)) is not None:
            return content
        if start >= _start_of_end(self._size) and not self._end:
            (self._end,) = self._fetch([(_start_of_end(self._size), self._size)])
            if (content := self._bytes_read(start, end)) is not None:
                return content
        return self._fetch_block(start, end)

    def _bytes_read(self, start: int, end: int) -> Any:
        """Return bytes that were read before; None if some were not."""
        for first, content in (*reversed(self._blocks), (self._size - len(self._end), self._end)):
            if first <= start and end <= first + len(content):
                return pa.py_buffer(content).slice(start - first, end - start)
        return None

    def _fetch_step(self, start: int, end: int) -> bool:
        """Read the ranges of the step that has these bytes, and drop those of steps before it. Return False if no step has them."""
        for number, ranges in enumerate(self._steps):
            if any(first <= start and end <= last for first, last in ranges):
                self._blocks = []
                missing = [missing_range for missing_range in ranges if self._bytes_read(*missing_range) is None]
                self._blocks = [(first, content) for (first, _), content in zip(missing, self._fetch(missing), strict=True)]
                self._steps = self._steps[number + 1 :]
                return True
        return False

    def _fetch_block(self, start: int, end: int) -> Any:
        """Read a block that begins with these bytes. It is twice as long as the last one if it continues there."""
        # A part of the bytes may be at the end of the last block, where a record crosses its border.
        beginning = next((content[start - first :] for first, content in self._blocks if first <= start < first + len(content) < end), b"")
        first = start + len(beginning)
        self._block_bytes = min(2 * self._block_bytes, LONGEST_BLOCK_BYTES) if first == self._last_end else FIRST_BLOCK_BYTES
        last = min(self._size, max(end, first + self._block_bytes))
        (content,) = self._fetch([(first, last)])
        content = beginning + content if beginning else content
        self._last_end = last
        if not self._steps:
            self._blocks = []
        self._blocks.append((start, content))
        return pa.py_buffer(content).slice(0, min(len(content), end - start))


class ObjectInput(pa.PythonFile):  # type: ignore[misc]  # PyArrow has no types
    """An open file of an object store, for Arrow; a `spec.ports.PlannedInput`."""

    def __init__(self, reads: RangeReads, mode: str) -> None:  # noqa: ARG002  Arrow's own constructor reads both first
        self._reads = reads

    def will_read(self, steps: Sequence[Sequence[Range]]) -> None:
        """State the ranges that are read from now on; see `RangeReads.will_read`."""
        self._reads.will_read(steps)
