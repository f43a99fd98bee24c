"""The records of container files as columns: as Python values, or as Arrow arrays without a Python object per value.

The compiled reader reads them if it is available (`compiled_codec.py`), else fastavro (`fastavro_reader.py`). Both return the same values for valid files; for
damaged files they raise an error with the file and the byte. Spec: Apache Avro, Object Container Files.
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
else:  # imported at first use, because the compiled reader reads nearly every file
    fastavro_reader = lazy_module("icefloe.spec.avro.fastavro_reader")

# Python values are yielded in batches of this many records, so that a large manifest is never completely in memory as objects.
_BATCH_RECORDS = 16_384


def read_batches(
    container: Container, projection: Struct, *, batch_records: int = _BATCH_RECORDS, by_compiled: bool = compiled_codec.AVAILABLE
) -> Iterator[dict[str, list[Any]]]:
    """Yield batches of records in file order: each is a dictionary from the names of the projected columns to lists with one value for each record.

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

    A batch can contain the records of many files if they have the same schema. Arrow types follow from the writer's schema: int64 for integers, binary for text
    and bytes, fixed_size_binary for fixed, a list for `Numbers`, a map from int64 for `IdMap`, a list of structs for `Rows`, int64 or binary for a slot, and
    null for a field that the writer does not have.

    Args:
        containers: the files.
        projection: the columns to read.
        counts: a list to which the number of records of each file is appended; or None.
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
    """Yield pairs of a file and the decode steps of its schema. The steps are looked up only if the schema differs from that of the preceding file."""
    text, steps = None, None
    for container in containers:
        if steps is None or container.schema_text != text:
            text, steps = container.schema_text, _steps_of(container, projection)
        yield container, steps


class Spans(NamedTuple):
    """The encoded records of several files, and columns that were decoded from them.

    Attributes:
        blocks: The uncompressed blocks of each file, as one buffer.
        counts: The number of records of each file.
        columns: The columns of all records by name, as Arrow arrays. The positions of encoded values count over all blocks.
    """

    blocks: list[Any]
    counts: list[int]
    columns: dict[str, Any]


def read_spans(containers: Sequence[Container], projection: Struct) -> Spans:
    """Read the encoded records of files, and the positions of chosen values in them, so that records can be copied without decoding them.

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
