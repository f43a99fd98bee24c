"""Runs a program over a container's blocks and hands back columns of Python values.

Floor: kernel.avro. Spec: Apache Avro, Object Container Files.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from icefloe.kernel.avro.container import Container, RawBlock, raw_blocks, read_block
from icefloe.kernel.avro.failure import TornDataError, broken_avro
from icefloe.kernel.avro.program import Program, compile_program
from icefloe.kernel.avro.wanted import Struct

# Small blocks (PyIceberg writes one an entry) are joined up to this many bytes before the program runs over them.
_JOIN_BYTES = 128 * 1024
# Columns are handed over after this many records, so that a large manifest is never wholly there as Python values.
_BATCH_RECORDS = 16_384


def read_batches(container: Container, wanted: Struct, *, batch_records: int = _BATCH_RECORDS) -> Iterator[dict[str, list[Any]]]:
    """The wanted columns, in batches of about `batch_records` records, in file order; a file without records gives no batch.

    Raises:
        AvroFormatError: the file is damaged, or its schema lacks a required field. The error names the file and the byte.
    """
    try:
        program = compile_program(container.schema_text, wanted)
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        # The last three come of schemas that no writer of Iceberg makes: ids that are lists, arrays nested ten deep.
        raise broken_avro(container.path, 4, str(error)) from error
    columns: dict[str, list[Any]] = {column: [] for column in program.columns}
    records = 0
    for joined in _joined_blocks(container):
        _run(program, container, joined, columns)
        records += sum(block.count for block, _ in joined)
        if records >= batch_records:
            yield columns
            columns = {column: [] for column in program.columns}
            records = 0
    if records:
        yield columns


def _joined_blocks(container: Container) -> Iterator[list[tuple[RawBlock, bytes]]]:
    joined: list[tuple[RawBlock, bytes]] = []
    size = 0
    for block in raw_blocks(container):
        data = read_block(container, block)
        joined.append((block, data))
        size += len(data)
        if size >= _JOIN_BYTES:
            yield joined
            joined, size = [], 0
    if joined:
        yield joined


def _run(program: Program, container: Container, joined: list[tuple[RawBlock, bytes]], columns: dict[str, list[Any]]) -> None:
    data = joined[0][1] if len(joined) == 1 else b"".join(part for _, part in joined)
    spans: list[tuple[int, int]] = []
    end = 0
    for block, part in joined:
        end += len(part)
        spans.append((block.count, end))
    try:
        program.run(data, spans, [columns[column].append for column in program.columns])
    except TornDataError as error:
        index = min(bisect_right([end for _, end in spans], max(error.position - 1, 0)), len(joined) - 1)
        inside = error.position - (spans[index - 1][1] if index else 0)
        offset = joined[index][0].offset
        raise broken_avro(container.path, offset, f"{error.what}, {inside} bytes into the block that begins here") from error
