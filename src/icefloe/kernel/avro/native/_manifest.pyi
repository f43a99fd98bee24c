"""What the C module offers. What steps and columns are is told by `steps.py`."""

from typing import Any

INTERFACE: int

# Length, validity, offsets, values: buffers as Arrow lays them out, None for one that the column does not have.
Taken = tuple[int, Any, Any, Any]

class Reader:
    def __new__(cls, steps: bytes, columns: bytes, most_slots: int, /) -> Reader: ...
    def run(self, block: bytes, count: int, /) -> None: ...
    def take(self) -> tuple[Taken, ...]: ...
