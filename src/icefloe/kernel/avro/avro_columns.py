"""Reads a container's records as columns: as Python values, or as Arrow arrays without a Python object per value.

The compiled reader does it where it is there (`compiled_codec.py`), fastavro elsewhere (`fastavro_reader.py`). Of sound files both give the same,
and each refuses
what is damaged with an error that names the file and the byte.
Layer: kernel.avro. Spec: Apache Avro, Object Container Files.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from icefloe.kernel.avro import compiled_codec
from icefloe.kernel.avro.avro_container import Container, unpacked_blocks
from icefloe.kernel.avro.avro_errors import SCHEMA_ERRORS, broken_column, broken_schema
from icefloe.kernel.avro.compiled_codec import arrow_columns, python_columns, run_blocks, run_steps
from icefloe.kernel.avro.decode_steps import Steps, compile_steps
from icefloe.kernel.avro.fastavro_reader import arrays_of_values, read_values
from icefloe.kernel.avro.projection_tree import Struct

# Python values are handed over after this many records, so that a large manifest is never wholly there as objects.
_BATCH_RECORDS = 16_384


def read_batches(
    container: Container, wanted: Struct, *, batch_records: int = _BATCH_RECORDS, by_compiled: bool = compiled_codec.AVAILABLE
) -> Iterator[dict[str, list[Any]]]:
    """The wanted columns as lists, in batches of about `batch_records` records, in file order; a file without records gives no batch.

    Raises:
        AvroFormatError: the file is damaged, or its schema lacks a required field. The error names the file and the byte.
    """
    steps = _compiled(container, wanted)
    if not by_compiled:
        yield from read_values(container, wanted, batch_records)
        return
    for _, batch in run_steps([(container, steps)], batch_records):
        yield python_columns(steps, batch)


def read_arrays(
    containers: Iterable[Container], wanted: Struct, *, by_compiled: bool = compiled_codec.AVAILABLE
) -> Iterator[dict[str, Any]]:
    """The wanted columns of files one after another as Arrow arrays, in a few large batches; their types are the writer's.

    A batch may hold the records of many files, as long as these have one schema.

    Numbers are int64, text and bytes binary, fixed fixed_size_binary; `Numbers` are lists, `IdMap` is a map from int64, `Rows` are lists of structs, a slot is
    int64 or binary; a field that the writer does not have is of type null.

    Raises:
        As `read_batches`.
    """
    if by_compiled:
        for steps, batch in run_steps(_with_steps(containers, wanted), None):
            yield arrow_columns(steps, batch)
        return
    for container, steps in _with_steps(containers, wanted):
        for values in read_values(container, wanted, _BATCH_RECORDS):
            try:
                yield arrays_of_values(steps, values)
            except OverflowError as error:
                raise broken_column(container.path, container.body_start, str(error)) from error


def _with_steps(containers: Iterable[Container], wanted: Struct) -> Iterator[tuple[Container, Steps]]:
    """Each file with the steps of its schema; putting these together, or only finding them again, costs more than comparing it with the one before."""
    text, steps = None, None
    for container in containers:
        if steps is None or container.schema_text != text:
            text, steps = container.schema_text, _compiled(container, wanted)
        yield container, steps


class Spans(NamedTuple):
    """The records of files as they are encoded, one after another in `blocks`, how many each file has, and columns of them, as `read_arrays` gives them."""

    blocks: list[bytes]
    counts: list[int]
    columns: dict[str, Any]


def read_spans(containers: Sequence[Container], wanted: Struct) -> Spans:
    """What is needed to copy the records of files of one schema, at least one file, without decoding them; the compiled reader has to be available.

    Raises:
        As `read_batches`.
    """
    steps = _compiled(containers[0], wanted)
    opened = [(container, list(unpacked_blocks(container))) for container in containers]
    columns = arrow_columns(steps, run_blocks(opened, steps))
    counts = [sum(block.count for block, _ in blocks) for _, blocks in opened]
    return Spans([data for _, blocks in opened for _, data in blocks], counts, columns)


def _compiled(container: Container, wanted: Struct) -> Steps:
    try:
        return compile_steps(container.schema_text, wanted)
    except SCHEMA_ERRORS as error:
        raise broken_schema(container.path, error) from error
