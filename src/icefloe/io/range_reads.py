"""`RangeReads`: an open file in an object store that reads with as few requests as possible.

A request takes as long as the transfer of a megabyte. So the columns that a reader needs are requested together: the reader states their ranges in advance
(`ObjectInput.will_read`), ranges with small gaps are merged, and all ranges of a step are requested at once. A small file is read as a whole, and the end of
any file in one request, because Parquet and ORC have their footers there. Every other read fetches a block, whose length grows while reads are sequential.

The size costs a request too, unless the caller has it from a manifest. That size is used only if the bytes before it are the ending that the file format
requires.
Spec: File System Operations (seekable reads).
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from icefloe.errors import IcefloeError, NoSuchFileError

# Bytes that are read first from a file's end. Arrow reads 64 KiB, but footers of wide files are longer, and more bytes in one request cost little.
END_BYTES = 256 * 1024
# Files up to this size are read as a whole.
SMALL_FILE_BYTES = 1024 * 1024
# The largest gap between two ranges that is read too, instead of sending another request.
GAP_BYTES = 1024 * 1024
# The number of ranges that a step requests at most, unless the gaps between them are longer than LONGEST_GAP_BYTES.
MOST_RANGES, LONGEST_GAP_BYTES = 2, 8 * 1024 * 1024
# Bytes of the first and of the longest block, for reads that were not stated in advance.
FIRST_BLOCK_BYTES, LONGEST_BLOCK_BYTES = 256 * 1024, 8 * 1024 * 1024
# The maximum of bytes in a step's ranges, all of which are in memory together; a single longer range is a step too.
STEP_BYTES = 64 * 1024 * 1024

# A byte range of a file: the first byte, and the one after the last.
Range = tuple[int, int]


def merged_ranges(ranges: Sequence[Range], gap: int = GAP_BYTES) -> list[Range]:
    """Sort byte ranges and merge those with at most `gap` bytes between them.

    While more than MOST_RANGES are left, the two ranges with the smallest gap between them are merged too, unless the gap is longer than LONGEST_GAP_BYTES.
    """
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
    """An open file in an object store, which is read with as few requests as possible.

    Only one thread uses it at a time, because Arrow locks a Python file.

    Args of the constructor: `fetch` requests ranges in parallel and returns their bytes; `size` requests the file's size from the store; `expected_size` is the
    size from a manifest, which is used only if the file ends with the bytes `ending` there.
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
        """Return True if the file ends with these bytes at the expected size, and keep the bytes that were read for this."""
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
        """State the ranges that will be read, one step for each row group, in order. Steps of small row groups are requested together.

        The ranges come from the file's own metadata, which may be wrong, so that ranges beyond the end of the file are ignored.
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
        """Return the next bytes as an Arrow buffer, without a copy if one request returned all of them. Arrow calls this method instead of `read`."""
        start = self._position
        end = self._size if size < 0 else min(self._size, start + size)
        content = self._bytes(start, end) if end > start else pa.py_buffer(b"")
        self._position += len(content)
        return content

    def read(self, size: int = -1, /) -> bytes:
        """Return the next `size` bytes, or fewer at the end of the file."""
        return bytes(self.read_buffer(size).to_pybytes())

    def readall(self) -> bytes:
        """Return all bytes from the current position to the end."""
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
        """Return bytes that are in memory from an earlier read; None if some of them are not."""
        for first, content in (*reversed(self._blocks), (self._size - len(self._end), self._end)):
            if first <= start and end <= first + len(content):
                return pa.py_buffer(content).slice(start - first, end - start)
        return None

    def _fetch_step(self, start: int, end: int) -> bool:
        """Read the ranges of the step that contains these bytes, and drop the bytes of earlier steps. Return False if no step contains them."""
        for number, ranges in enumerate(self._steps):
            if any(first <= start and end <= last for first, last in ranges):
                self._blocks = []
                missing = [missing_range for missing_range in ranges if self._bytes_read(*missing_range) is None]
                self._blocks = [(first, content) for (first, _), content in zip(missing, self._fetch(missing), strict=True)]
                self._steps = self._steps[number + 1 :]
                return True
        return False

    def _fetch_block(self, start: int, end: int) -> Any:
        """Read a block that begins with these bytes. It is twice as long as the block before if it follows that block."""
        # The first of these bytes may be in the block before, if a record crosses the end of that block.
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
    """An open file in an object store, for Arrow; implements `spec.ports.PlannedInput`."""

    def __init__(self, reads: RangeReads, mode: str) -> None:  # noqa: ARG002  Arrow's own constructor reads both first
        self._reads = reads

    def will_read(self, steps: Sequence[Sequence[Range]]) -> None:
        """State the ranges that will be read; see `RangeReads.will_read`."""
        self._reads.will_read(steps)
