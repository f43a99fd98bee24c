"""What the C module offers. What steps and columns are is told by `steps.py`."""

from typing import Any, TypeVar

INTERFACE: int

# Length, validity, offsets, values: buffers as Arrow lays them out, None for one that the column does not have.
Taken = tuple[int, Any, Any, Any]

class Reader:
    def __new__(cls, steps: bytes, columns: bytes, most_slots: int, most_filled: int, /) -> Reader: ...
    # Raises ValueError or OverflowError with the arguments what is wrong, byte of the block, number of the record, number of the step.
    def run(self, block: bytes, count: int, /) -> None: ...
    def take(self) -> tuple[Taken, ...]: ...

# Length, offset, width, validity, offsets, values.
Given = tuple[int, int, int, Any, Any, Any]

# The records' bytes, and where each ends (int64).
Records = tuple[Any, Any]

def write_records(steps: bytes, columns: tuple[Given, ...], count: int, /) -> Records: ...
def splice_records(blocks: tuple[Any, ...], starts: Any, stops: Any, cuts: tuple[tuple[Any, Any, Any, Any], ...], /) -> Records: ...

_T = TypeVar("_T")

# The descriptor of a slot, and its values: a list of one for each object, a `Given` column of text or numbers, or one object for all.
Field = tuple[Any, Any]

def make_objects(kind: type[_T], fields: tuple[Field, ...], count: int, /) -> list[_T]: ...

# A field's steps (int32), and its values: the name of an attribute, a list of one for each object, or the bytes that are the field in all of them.
def encode_objects(fields: tuple[tuple[bytes, str | list[Any] | bytes], ...], objects: list[Any], /) -> Records: ...
