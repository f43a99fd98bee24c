"""What the C module offers. What steps and columns are is told by `steps.py`."""

from typing import Any

INTERFACE: int

# Length, validity, offsets, values: buffers as Arrow lays them out, None for one that the column does not have.
Taken = tuple[int, Any, Any, Any]

class Reader:
    def __new__(cls, steps: bytes, columns: bytes, most_slots: int, /) -> Reader: ...
    def run(self, block: bytes, count: int, /) -> None: ...
    def take(self) -> tuple[Taken, ...]: ...

# Length, offset, width, validity, offsets, values.
Given = tuple[int, int, int, Any, Any, Any]

# The records' bytes, and where each ends (int64).
Records = tuple[Any, Any]

def write_records(steps: bytes, columns: tuple[Given, ...], count: int, /) -> Records: ...
def splice_records(data: Any, starts: Any, stops: Any, cuts: tuple[tuple[Any, Any, Any, Any], ...], /) -> Records: ...
