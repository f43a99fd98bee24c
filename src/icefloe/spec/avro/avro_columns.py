"""The records of container files as columns: as Python values, or as Arrow arrays without a Python object per value.

The compiled reader reads them if it is available (`compiled_codec.py`), else fastavro (`fastavro_reader.py`). Both return the same for valid files, and raise
an error with the file and the byte for damaged ones. Spec: Apache Avro, Object Container Files.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from icefloe.lazy_imports import lazy_module
from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_container import Container, count_records
from icefloe.spec.avro.avro_errors import SCHEMA_ERRORS, broken_column, broken_schema
from icefloe.spec.avro.compiled_codec import arrow_columns, python_columns, run_steps, run_whole
from icefloe.spec.avro.decode_steps import Steps, compile_steps
from icefloe.spec.avro.projection_tree import Struct

if TYPE_CHECKING:
    from icefloe.spec.avro import fastavro_reader
else:  # the compiled reader reads nearly every file
    fastavro_reader = lazy_module("icefloe.spec.avro.fastavro_reader")

# Python values are yielded in batches of this many records, so that a large manifest is never completely in memory as objects.
_BATCH_RECORDS = 16_384


def read_batches(
    container: Container, projection: Struct, *, batch_records: int = _BATCH_RECORDS, by_compiled: bool = compiled_codec.AVAILABLE
) -> Iterator[dict[str, list[Any]]]:
    """Yield the projected columns as lists, in file order.

    Args:
        container: the file.
        projection: the columns to read.
        batch_records: the approximate number of records of a batch; a file without records has no batch.
        by_compiled: whether the compiled reader is used.

    Raises:
        AvroFormatError: the file is damaged, or its schema lacks a required field. The error names the file and the byte.
    """
    steps = _steps_of(container, projection)
    if not by_compiled or not steps.is_native:
        yield from fastavro_reader.read_values(container, projection, batch_records)
        return
    for _, batch in run_steps([(container, steps)], batch_records):
        yield python_columns(steps, batch)


def read_arrays(
    containers: Iterable[Container],
    projection: Struct,
    *,
    counts: list[int] | None = None,
    by_compiled: bool = compiled_codec.AVAILABLE,
) -> Iterator[dict[str, Any]]:
    """Yield the projected columns of several files, in order, as Arrow arrays in a few large batches.

    A batch can contain the records of many files if they have the same schema. Types are those of the writer: numbers are int64, text and bytes binary,
    fixed fixed_size_binary; `Numbers` are lists, `IdMap` is a map from int64, `Rows` are lists of structs, a slot is int64 or binary. A field that the writer
    does not have has type null.

    Args:
        containers: the files.
        projection: the columns to read.
        counts: is extended by the number of records of each file.
        by_compiled: whether the compiled reader is used.

    Raises:
        AvroFormatError: see `read_batches`.
    """
    for is_native, files in groupby(_with_steps(containers, projection), lambda file: by_compiled and file[1].is_native):
        if is_native:
            for steps, batch in run_steps(files, None, counts):
                yield arrow_columns(steps, batch)
        else:
            yield from _decoded_arrays(files, projection, counts)


def _decoded_arrays(files: Iterable[tuple[Container, Steps]], projection: Struct, counts: list[int] | None) -> Iterator[dict[str, Any]]:
    for container, steps in files:
        if counts is not None:
            counts.append(count_records(container))
        for values in fastavro_reader.read_values(container, projection, _BATCH_RECORDS):
            try:
                yield fastavro_reader.arrays_of_values(steps, values)
            except OverflowError as error:
                raise broken_column(container.path, container.body_start, str(error)) from error


def _with_steps(containers: Iterable[Container], projection: Struct) -> Iterator[tuple[Container, Steps]]:
    """Yield each file with the steps of its schema. Comparing schemas of consecutive files is faster than looking up compiled steps in the cache."""
    text, steps = None, None
    for container in containers:
        if steps is None or container.schema_text != text:
            text, steps = container.schema_text, _steps_of(container, projection)
        yield container, steps


class Spans(NamedTuple):
    """Encoded records of files: the uncompressed `blocks` of each, the number of its records, and columns as `read_arrays` returns them."""

    blocks: list[Any]
    counts: list[int]
    columns: dict[str, Any]


def read_spans(containers: Sequence[Container], projection: Struct) -> Spans:
    """Return the encoded records of files with their positions, so that records can be copied without decoding.

    Args:
        containers: files of one schema; at least one. The compiled reader must be available.
        projection: the columns to read, and the spans whose positions are needed.

    Raises:
        AvroFormatError: see `read_batches`.
    """
    steps = _steps_of(containers[0], projection)
    batch, blocks, counts = run_whole(containers, steps)
    return Spans(blocks, counts, arrow_columns(steps, batch))


def _steps_of(container: Container, projection: Struct) -> Steps:
    try:
        return compile_steps(container.schema_text, projection)
    except SCHEMA_ERRORS as error:
        raise broken_schema(container.path, error) from error
