"""The generated program at work: blocks in, Python values out, and these as Arrow columns.

The same by compiled code is `compiled.py`. Floor: kernel.avro. Spec: Apache Avro, Object Container Files.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.kernel.arrow_values import array_of, validity_buffer
from icefloe.kernel.avro.container import Container, RawBlock, unpacked_blocks
from icefloe.kernel.avro.failure import SCHEMA_ERRORS, TornDataError, broken_avro, broken_schema
from icefloe.kernel.avro.program import Program, compile_program
from icefloe.kernel.avro.steps import Filled, Steps
from icefloe.kernel.avro.wanted import Struct
from icefloe.kernel.limits import limits

# Small blocks (PyIceberg writes one an entry) are joined up to this many bytes before the program runs over them.
_JOIN_BYTES = 128 * 1024


def read_lists(container: Container, wanted: Struct, batch_records: int) -> Iterator[dict[str, list[Any]]]:
    """As `columns.read_batches`."""
    program = _compiled(container, wanted)
    columns: dict[str, list[Any]] = {column: [] for column in program.columns}
    records = size = 0
    for joined in _joined_blocks(container):
        _run(program, container, joined, columns, size)
        size += sum(len(data) for _, data in joined)
        records += sum(block.count for block, _ in joined)
        if records >= batch_records:
            yield columns
            columns = {column: [] for column in program.columns}
            records = size = 0
    if records:
        yield columns


def run_blocks(opened: Sequence[tuple[Container, list[tuple[RawBlock, bytes]]]], wanted: Struct) -> dict[str, list[Any]]:
    """The columns of files of one schema, given with their blocks, uncompressed already. Raises as `columns.read_batches` does."""
    program = _compiled(opened[0][0], wanted)
    columns: dict[str, list[Any]] = {column: [] for column in program.columns}
    size = 0
    for container, blocks in opened:
        if blocks:
            _run(program, container, blocks, columns, size)
        size += sum(len(data) for _, data in blocks)
    return columns


def _compiled(container: Container, wanted: Struct) -> Program:
    try:
        return compile_program(container.schema_text, wanted)
    except SCHEMA_ERRORS as error:
        raise broken_schema(container.path, error) from error


def _joined_blocks(container: Container) -> Iterator[list[tuple[RawBlock, bytes]]]:
    joined: list[tuple[RawBlock, bytes]] = []
    size = 0
    for block, data in unpacked_blocks(container):
        joined.append((block, data))
        size += len(data)
        if size >= _JOIN_BYTES:
            yield joined
            joined, size = [], 0
    if joined:
        yield joined


def _run(program: Program, container: Container, joined: list[tuple[RawBlock, bytes]], columns: dict[str, list[Any]], base: int) -> None:
    data = joined[0][1] if len(joined) == 1 else b"".join(part for _, part in joined)
    spans: list[tuple[int, int]] = []
    end = 0
    for block, part in joined:
        end += len(part)
        spans.append((block.count, end))
    try:
        program.run(data, spans, [columns[column].append for column in program.columns], base)
    except TornDataError as error:
        index = min(bisect_right([end for _, end in spans], max(error.position - 1, 0)), len(joined) - 1)
        inside = error.position - (spans[index - 1][1] if index else 0)
        offset = joined[index][0].offset
        raise broken_avro(container.path, offset, f"{error.what}, {inside} bytes into the block that begins here") from error


def arrow_columns(steps: Steps, lists: dict[str, list[Any]]) -> dict[str, Any]:
    """Columns of Python values as Arrow arrays, typed as the compiled reader's."""
    return {name: _array(values, steps.wanted[name]) for name, values in lists.items()}


def _array(values: list[Any], filled: Filled) -> Any:
    kind = filled.kind
    if pa.types.is_nested(filled.kind):
        return _lists(values, filled)
    if not pa.types.is_fixed_size_binary(kind):
        return array_of(values, kind)
    known = np.array([value is not None for value in values], dtype=bool)
    if (len(values) - int(known.sum())) * kind.byte_width > limits().avro_block_bytes:
        raise OverflowError("the nulls of a column are larger than the limit avro_block_bytes")
    data = b"".join(bytes(kind.byte_width) if value is None else value for value in values)
    return pa.Array.from_buffers(kind, len(values), [validity_buffer(known), pa.py_buffer(data)])


def _lists(values: list[Any], filled: Filled) -> Any:
    kind = filled.kind
    known = np.array([value is not None for value in values], dtype=bool)
    offsets = np.fromiter(accumulate((len(value or ()) for value in values), initial=0), np.int32, len(values) + 1)
    is_map = pa.types.is_map(kind)
    items = list(chain.from_iterable((value.items() if is_map else value) for value in values if value))
    if is_map or pa.types.is_struct(kind.value_type):
        columns = [list(column) for column in zip(*items, strict=True)] or [[] for _ in filled.parts]
        parts = [_array(column, part) for column, part in zip(columns, filled.parts, strict=True)]
        entry = pa.struct([kind.key_field, kind.item_field]) if is_map else kind.value_type
        child = pa.Array.from_buffers(entry, len(items), [None], children=parts)
    else:
        child = array_of(items, kind.value_type)
    return pa.Array.from_buffers(kind, len(values), [validity_buffer(known), pa.py_buffer(offsets)], children=[child])
