"""The interface of the compiled reader, a C module that reads blocks as Arrow columns or Python values.

If the module is missing, or was built from older sources, `AVAILABLE` is false and `fastavro_reader.py` is used. The module decompresses deflate blocks with
libdeflate, whose functions the package `deflate` exports, zstandard blocks with the system's libzstd, and snappy blocks with the system's libsnappy. If one of
these libraries is missing, `INFLATES`, `UNPACKS_ZSTANDARD` or `UNPACKS_SNAPPY` is false, and `avro_codec.py` decompresses such blocks with one Python call
each.

Spec: Apache Avro, Binary Encoding.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.errors import AvroFormatError
from icefloe.spec.arrow_values import MALLOC
from icefloe.spec.avro.avro_container import SYNC_LENGTH, Container, has_small_blocks, unpacked_blocks
from icefloe.spec.avro.avro_errors import broken_avro, broken_column, wrong_block_end
from icefloe.spec.avro.decode_steps import ProjectedColumn, Steps
from icefloe.spec.limits import limits

_native: Any = None
try:
    from icefloe.spec.avro.native import _manifest

    _native = _manifest
except ImportError:  # installed without a C compiler
    pass

# The version of the C functions' arguments, `INTERFACE` in native/module.c. A module with a different number is not used.
_INTERFACE = 12
AVAILABLE = _native is not None and _native.INTERFACE == _INTERFACE
# The files that may contain libdeflate, in the order of preference. On macOS only full paths are used, because a plain name is also searched in the working
# directory.
LIBDEFLATE: tuple[str, ...] = () if sys.platform == "darwin" else ("libdeflate.so.0",)
try:
    from deflate import _deflate

    LIBDEFLATE = (str(_deflate.__file__), *LIBDEFLATE)
except ImportError:  # the package is not installed, for example because this platform has no wheel
    pass
INFLATES = AVAILABLE and any(map(_native.open_libdeflate, LIBDEFLATE))

LIBZSTD: tuple[str, ...] = () if sys.platform == "darwin" else ("libzstd.so.1",)
UNPACKS_ZSTANDARD = AVAILABLE and any(map(_native.open_libzstd, LIBZSTD))

LIBSNAPPY: tuple[str, ...] = () if sys.platform == "darwin" else ("libsnappy.so.1",)
# Snappy blocks need libdeflate too, which computes their checksum.
UNPACKS_SNAPPY = AVAILABLE and any(map(_native.open_libsnappy, LIBSNAPPY)) and INFLATES

# The codecs that the module decompresses if it has the library, with their numbers in the module (`Codec` in native/decompress.h).
_CODECS = {"null": 0, "deflate": 1, "zstandard": 2, "snappy": 3}
_HAS_LIBRARY = {"null": True, "deflate": INFLATES, "zstandard": UNPACKS_ZSTANDARD, "snappy": UNPACKS_SNAPPY}


class _Current:
    small_block_lock: AbstractContextManager[Any] = nullcontext()


def set_small_block_lock(lock: AbstractContextManager[Any]) -> None:
    """Set the lock that a thread holds while it reads a file with small blocks that are decompressed by Python calls.

    Each of these calls takes the interpreter's lock. Two threads that both wait for it at each block take several times as long as one thread that reads both
    files. Since this package does not start threads, the code that starts threads sets the lock.

    Args:
        lock: A lock, or another context manager that only one thread at a time can enter. No thread may hold it during this call.
    """
    _Current.small_block_lock = lock


# The number of uncompressed bytes after which a batch ends: far below the limit of 32-bit offsets.
_BATCH_BYTES = 256 * 1024 * 1024
_MOST_RECORDS = 2**63

# A batch: its number of records, and for each of the reader's columns its buffers.
Batch = tuple[int, tuple[Any, ...]]


def native() -> Any:
    """Return the C module, which must be `AVAILABLE`."""
    return _native


def run_steps(
    opened: Iterable[tuple[Container, Steps]], batch_records: int | None, counts: list[int] | None = None
) -> Iterator[tuple[Steps, Batch]]:
    """Yield the columns of all blocks, in batches of about `batch_records` records of the same steps; files without records have no batch.

    Args:
        opened: the files, each with its decode steps.
        batch_records: the approximate number of records of a batch; None for as many as fit.
        counts: a list to which the number of records of each file is appended; or None.

    Raises:
        AvroFormatError: the container is damaged, or a block does not match the schema; the error names the field, the record and the byte.
    """
    reader: Any = None
    current_steps: Any = None
    records = size = 0
    most_records = _MOST_RECORDS if batch_records is None else batch_records
    for container, steps in opened:
        if steps is not current_steps:
            if records:
                yield current_steps, (records, reader.take())
            reader, current_steps = _reader(steps), steps
            records = size = 0
        in_file = 0
        for more_records, more_bytes in _run(reader, steps, container, most_records):
            records, size, in_file = records + more_records, size + more_bytes, in_file + more_records
            if size >= _BATCH_BYTES or records >= most_records:
                yield steps, (records, reader.take())
                records = size = 0
        if counts is not None:
            counts.append(in_file)
    if records:
        yield current_steps, (records, reader.take())


def run_whole(containers: Sequence[Container], steps: Steps) -> tuple[Batch, list[Any], list[int]]:
    """Return the columns of files of one schema, and for each file its uncompressed blocks as one buffer and its number of records.

    Raises the errors of `run_steps`.
    """
    reader = _reader(steps, keeps=True)
    blocks, counts = [], []
    for container in containers:
        counts.append(sum(records for records, _ in _run(reader, steps, container, _MOST_RECORDS)))
        blocks.append(reader.take_blocks())
    return (sum(counts), reader.take()), blocks, counts


def _reader(steps: Steps, *, keeps: bool = False) -> Any:
    return _native.Reader(steps.code, steps.columns, steps.most_slots, limits().avro_block_bytes, keeps)


def _run(reader: Any, steps: Steps, container: Container, most_records: int) -> Iterator[tuple[int, int]]:
    """Run the steps over the blocks of a file. After some blocks, yield how many records and uncompressed bytes were read since the last yield.

    The module decompresses the blocks that it can, and stops at any other block, which `_run_unpacked` reads.
    """
    size, position, end = 0, container.body_start, len(container.content)
    codec = _CODECS.get(container.codec)
    small = not _HAS_LIBRARY.get(container.codec) and has_small_blocks(container)
    while position < end:
        stop, records, more = position, 0, 0
        if codec is not None:
            bounds = (limits().avro_block_bytes, limits().avro_file_bytes - size, _BATCH_BYTES, most_records)
            try:
                stop, records, more = reader.run_file(container.content, position, container.sync, codec, *bounds)
            except (ValueError, OverflowError) as error:
                raise _block_error(steps, container, error, position) from error
        if stop == position:
            with _Current.small_block_lock if small else nullcontext():
                stop, records, more = _run_unpacked(reader, steps, container, position, size, most_records if small else 0)
        position, size = stop, size + more
        yield records, more


def _run_unpacked(reader: Any, steps: Steps, container: Container, position: int, size: int, most_records: int) -> tuple[int, int, int]:
    """Run the steps over at least one block, until `most_records` are read. `avro_container.py` decompresses the blocks and raises errors for damaged ones.

    Returns:
        The position after the last of these blocks, their number of records, and their number of uncompressed bytes.
    """
    records = more = 0
    for block, data in unpacked_blocks(container, position, size):
        try:
            reader.run(data, block.count)
        except (ValueError, OverflowError) as error:
            raise _block_error(steps, container, error, block.offset) from error
        position, records, more = block.end + SYNC_LENGTH, records + block.count, more + len(data)
        if records >= most_records or more >= _BATCH_BYTES:
            break
    return position, records, more


def _block_error(steps: Steps, container: Container, error: Exception, position: int) -> AvroFormatError:
    """Return the error for a block that does not match the schema, made from the exception of the module."""
    what, at, record, step, size, offset = error.args
    field = steps.field_at(step)
    inside = wrong_block_end(at, size) if field is None else f"{what}, in the field {field} of record {record}"
    message = f"{inside}, {at} bytes into the block that begins here"
    broken = broken_column if isinstance(error, OverflowError) else broken_avro
    return broken(container.path, offset or position, message)


def arrow_columns(steps: Steps, batch: Batch) -> dict[str, Any]:
    """Return the columns of a batch as Arrow arrays that use the reader's memory without a copy."""
    records, columns = batch
    return {name: _array(projected, columns, records) for name, projected in steps.projected.items()}


def _array(projected: ProjectedColumn, columns: Any, length: int) -> Any:
    kind = projected.kind
    if pa.types.is_null(kind):
        return pa.nulls(length, memory_pool=MALLOC)
    length, *buffers = columns[projected.column]
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    validity: Any = buffers[0]
    offsets: Any = buffers[1]
    values: Any = buffers[2]
    if pa.types.is_nested(projected.kind):
        items = int(np.frombuffer(offsets, np.int32)[-1])
        parts = [_array(part, columns, items) for part in projected.parts]
        if pa.types.is_map(kind) or pa.types.is_struct(kind.value_type):
            entry = pa.struct([kind.key_field, kind.item_field]) if pa.types.is_map(kind) else kind.value_type
            parts = [pa.Array.from_buffers(entry, items, [None], children=parts)]
        return pa.Array.from_buffers(kind, length, [validity, offsets], children=parts)
    if pa.types.is_boolean(kind):
        values = pa.py_buffer(np.packbits(np.frombuffer(values, np.uint8) == 1, bitorder="little"))
    return pa.Array.from_buffers(kind, length, [validity, values] if offsets is None else [validity, offsets, values])


def python_columns(steps: Steps, batch: Batch) -> dict[str, list[Any]]:
    """Return the columns of a batch as the Python values that `projection_tree.py` describes."""
    records, columns = batch
    return {name: _values(projected, columns, records) for name, projected in steps.projected.items()}


def _values(projected: ProjectedColumn, columns: Any, length: int) -> list[Any]:
    if pa.types.is_null(projected.kind):
        return [None] * length
    _, validity, offsets, values = columns[projected.column]
    if pa.types.is_nested(projected.kind):
        items = _lists(projected, columns, np.frombuffer(offsets, np.int32).tolist())
    elif offsets is not None:
        data = bytes(values)
        items = [data[start:end] for start, end in pairwise(np.frombuffer(offsets, np.int32).tolist())]
    elif pa.types.is_fixed_size_binary(projected.kind):
        data, width = bytes(values), projected.kind.byte_width
        items = [data[start : start + width] for start in range(0, len(data), width)] if width else [b""] * length
    elif pa.types.is_boolean(projected.kind):
        items = (np.frombuffer(values, np.uint8) == 1).tolist()
    else:
        items = np.frombuffer(values, projected.kind.to_pandas_dtype()).tolist()
    if validity is None:
        return items
    is_valid = np.unpackbits(np.frombuffer(validity, np.uint8), count=len(items), bitorder="little").tolist()
    return [value if valid else None for value, valid in zip(items, is_valid, strict=True)]


def _lists(projected: ProjectedColumn, columns: Any, offsets: list[int]) -> list[Any]:
    parts = [_values(part, columns, offsets[-1]) for part in projected.parts]
    spans = pairwise(offsets)
    if pa.types.is_map(projected.kind):
        keys, values = parts
        return [dict(zip(keys[start:end], values[start:end], strict=True)) for start, end in spans]
    if pa.types.is_struct(projected.kind.value_type):
        rows = list(zip(*parts, strict=True)) if parts else [()] * offsets[-1]
        return [tuple(rows[start:end]) for start, end in spans]
    (numbers,) = parts
    return [tuple(numbers[start:end]) for start, end in spans]
