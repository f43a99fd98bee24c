"""The interface of the compiled reader: blocks as Arrow columns or Python values.

If the C module is missing, or was built from older sources, `AVAILABLE` is false and `fastavro_reader.py` is used. Spec: Apache Avro, Binary Encoding.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.kernel.avro.avro_container import Container, RawBlock, unpacked_blocks
from icefloe.kernel.avro.avro_errors import broken_avro, broken_column, wrong_block_end
from icefloe.kernel.avro.decode_steps import ProjectedColumn, Steps
from icefloe.kernel.limits import limits

_native: Any = None
try:
    from icefloe.kernel.avro.native import _manifest

    _native = _manifest
except ImportError:  # installed without a C compiler
    pass

# `INTERFACE` of native/module.c: a module with another number has other arguments.
_INTERFACE = 6
AVAILABLE = _native is not None and _native.INTERFACE == _INTERFACE
# An older module may lack this one function.
ENCODES_OBJECTS = AVAILABLE and hasattr(_native, "encode_objects")

# Uncompressed bytes after which a batch ends: far below the largest 32-bit offset.
_BATCH_BYTES = 256 * 1024 * 1024

# The number of records of a batch, and the buffers of each of the reader's columns.
Batch = tuple[int, tuple[Any, ...]]


def native() -> Any:
    """Return the C module, which must be `AVAILABLE`."""
    return _native


def run_steps(opened: Iterable[tuple[Container, Steps]], batch_records: int | None) -> Iterator[tuple[Steps, Batch]]:
    """Yield the columns of all blocks, in batches of about `batch_records` records of the same steps; files without records have no batch.

    Raises:
        AvroFormatError: the container is damaged, or a block does not match the schema; the error names the field, the record and the byte.
    """
    reader: Any = None
    current_steps: Any = None
    records = size = 0
    for container, steps in opened:
        if steps is not current_steps:
            if records:
                yield current_steps, (records, reader.take())
            reader, current_steps = _reader(steps), steps
            records = size = 0
        for block, data in unpacked_blocks(container):
            _run(reader, steps, container, block, data)
            records += block.count
            size += len(data)
            if size >= _BATCH_BYTES or (batch_records is not None and records >= batch_records):
                yield steps, (records, reader.take())
                records = size = 0
    if records:
        yield current_steps, (records, reader.take())


def run_blocks(opened: Sequence[tuple[Container, list[tuple[RawBlock, bytes]]]], steps: Steps) -> Batch:
    """Return the columns of files of one schema, from their uncompressed blocks. Raises as `run_steps`."""
    reader = _reader(steps)
    records = 0
    for container, blocks in opened:
        for block, data in blocks:
            _run(reader, steps, container, block, data)
            records += block.count
    return records, reader.take()


def _reader(steps: Steps) -> Any:
    return _native.Reader(steps.code, steps.columns, steps.most_slots, limits().avro_block_bytes)


def _run(reader: Any, steps: Steps, container: Container, block: RawBlock, data: bytes) -> None:
    try:
        reader.run(data, block.count)
    except (ValueError, OverflowError) as error:
        what, position, record, step = error.args
        field = steps.field_at(step)
        inside = wrong_block_end(position, len(data)) if field is None else f"{what}, in the field {field} of record {record}"
        message = f"{inside}, {position} bytes into the block that begins here"
        if isinstance(error, OverflowError):
            raise broken_column(container.path, block.offset, message) from error
        raise broken_avro(container.path, block.offset, message) from error


def arrow_columns(steps: Steps, batch: Batch) -> dict[str, Any]:
    """Return the columns of a batch as Arrow arrays over the reader's memory."""
    records, columns = batch
    return {name: _array(projected, columns, records) for name, projected in steps.projected.items()}


def _array(projected: ProjectedColumn, columns: Any, length: int) -> Any:
    kind = projected.kind
    if pa.types.is_null(kind):
        return pa.nulls(length)
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
