"""The functions of the C module. `decode_steps.py` describes steps and columns."""

from typing import Any, TypeVar

INTERFACE: int

# Returns whether blocks are decompressed with this library from now on; without one, `run_file` stops at them. Those of snappy need libdeflate too.
def open_libdeflate(path: str, /) -> bool: ...
def open_libzstd(path: str, /) -> bool: ...
def open_libsnappy(path: str, /) -> bool: ...

# Length, validity, offsets, values: buffers in Arrow's layout, None for a buffer that the column does not have.
OutputColumn = tuple[int, Any, Any, Any]

class Reader:
    def __new__(cls, steps: bytes, columns: bytes, most_slots: int, most_filled: int, keeps: bool, /) -> Reader: ...
    # Raises ValueError or OverflowError with the arguments: the error, the byte of the block, the number of the record, the number of the step, the size of
    # the block, and the byte of the file where it starts (0 from `run`).
    def run(self, block: bytes, count: int, /) -> None: ...
    # Returns the byte of the file where it stopped, and the number of records and of uncompressed bytes up to there.
    def run_file(
        self,
        content: bytes,
        start: int,
        sync: bytes,
        codec: int,
        most_block_bytes: int,
        most_file_bytes: int,
        batch_bytes: int,
        batch_records: int,
        /,
    ) -> tuple[int, int, int]: ...
    def take(self) -> tuple[OutputColumn, ...]: ...
    def take_blocks(self) -> memoryview: ...

# Length, offset, width, validity, offsets, values.
InputColumn = tuple[int, int, int, Any, Any, Any]

# The records' bytes, and where each ends (int64).
Records = tuple[Any, Any]

def write_records(steps: bytes, columns: tuple[InputColumn, ...], count: int, /) -> Records: ...
def splice_records(blocks: tuple[Any, ...], starts: Any, stops: Any, cuts: tuple[tuple[Any, Any, Any, Any], ...], /) -> Records: ...

_T = TypeVar("_T")

# The descriptor of a slot, and its values: a list with one per object, an `InputColumn` of text or numbers, or one object for all.
Field = tuple[Any, Any]

def make_objects(kind: type[_T], fields: tuple[Field, ...], count: int, /) -> list[_T]: ...

# The steps of a field (int32), and its values: the name of an attribute, a list with one per object, or the encoded bytes that are the same in all records.
def encode_objects(fields: tuple[tuple[bytes, str | list[Any] | bytes], ...], objects: list[Any], /) -> Records: ...
