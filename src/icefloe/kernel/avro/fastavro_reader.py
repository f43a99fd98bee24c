"""Reads records by fastavro, where the compiled reader is missing: several times slower, into the same columns.

A file is taken apart by `container.py`, which holds every count and size of a block against the limits. fastavro decodes one record at a time out of the
unpacked bytes of a block, by a schema made of the writer's: its names are ours, so that no name out of a file reaches fastavro, strings are bytes, and no
logical type makes fastavro convert a value. fastavro accepts some damage that the compiled reader refuses: numbers of more than 64 bits, of which the lowest
count, and negative branches of unions, which count from the last one.
Layer: kernel.avro. Spec: Apache Avro, Binary Encoding; Appendix A, Avro.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BytesIO
from itertools import accumulate, chain, count
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from icefloe.errors import AvroFormatError
from icefloe.kernel.arrow_values import array_of, validity_buffer
from icefloe.kernel.avro.avro_container import Container, RawBlock, unpacked_blocks
from icefloe.kernel.avro.avro_errors import TornDataError, above_limit, broken_avro, broken_schema, left_over
from icefloe.kernel.avro.avro_schema import NUMBERS, AvroType, has_arrays_of_nothing, kind_of, parse_schema
from icefloe.kernel.avro.decode_steps import Filled, Steps
from icefloe.kernel.avro.projection_tree import IdMap, Numbers, Rows, Shape, Slots, Struct, Value, WantedField, columns_of, matched_fields
from icefloe.kernel.limits import limits

# Bytes of memory that a value is counted with: a record is a value besides those of its fields, and takes 200 bytes with one.
_VALUE_BYTES = 100
# Encoded bytes after which a batch ends, however few records it has.
_BATCH_BYTES = 16 * 1024 * 1024

# Gives the columns of a shape, in the order of `wanted.columns_of`, out of one decoded value.
_Take = Callable[[Any], tuple[Any, ...]]


def read_values(container: Container, wanted: Struct, batch_records: int) -> Iterator[dict[str, list[Any]]]:
    """Yield the wanted columns as lists, as `columns.read_batches` does.

    Raises:
        AvroFormatError: The file is damaged, or a record of it takes more memory than the limit `avro_block_bytes` allows.
    """
    schema, most_reads, take = _reader(container, wanted)
    names = columns_of(wanted)
    rows: list[tuple[Any, ...]] = []
    size = 0
    for block, data in unpacked_blocks(container):
        block_bytes, end = _opened(data, most_reads), 0
        for _ in range(block.count):
            rows.append(take(_decoded(container, block, block_bytes, schema)))
            start, end = end, block_bytes.tell()
            size += end - start
            if len(rows) >= batch_records or size >= _BATCH_BYTES:
                yield _columns(names, rows)
                rows, size = [], 0
        if end != len(data):
            raise _torn(container, block, end, left_over(end, len(data)))
    if rows:
        yield _columns(names, rows)


def _columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _opened(data: bytes, most_reads: int) -> BytesIO:
    """Return the bytes of a block for fastavro. Every read takes a byte at least, so that those of a small block need no counting, which takes its time."""
    return BytesIO(data) if len(data) <= most_reads else _CountedBytes(data, most_reads)


class _CountedBytes(BytesIO):
    """The bytes of a block, of which exactly those that are asked for are read, and no more pieces for a record than memory is allowed for it."""

    def __init__(self, data: bytes, most_reads: int) -> None:
        super().__init__(data)
        self.reads = 0
        self.most_reads = most_reads

    def read(self, size: int | None = -1, /) -> bytes:
        """Return exactly so many bytes. Raises `TornDataError` where they are not there, `_RecordSizeError` for a record of too many pieces."""
        if size is None or size < 0:
            raise TornDataError(self.tell(), "a length is negative")
        data = super().read(size)
        if len(data) != size:
            raise TornDataError(self.tell(), "the bytes end inside a value")
        self.reads += 1
        if self.reads > self.most_reads:
            raise _RecordSizeError
        return data


class _RecordSizeError(ValueError):
    """A record has more values than memory is allowed for it."""


def _decoded(container: Container, block: RawBlock, data: BytesIO, schema: Any) -> Any:
    start = data.tell()
    if isinstance(data, _CountedBytes):
        data.reads = 0
    try:
        # The schema is parsed already, so that a call reads one record and no more.
        return fastavro.schemaless_reader(data, schema, None)
    except TornDataError as error:
        raise _torn(container, block, data.tell(), error.what) from error
    except _RecordSizeError as error:
        what = "a record in the block that begins here takes more memory than is allowed"
        raise above_limit(container.path, block.offset, what, "avro_block_bytes") from error
    except Exception as error:  # fastavro promises no errors of its own for damaged bytes
        if not isinstance(data, _CountedBytes):
            counted = _CountedBytes(data.getvalue(), len(data.getvalue()))  # whose errors tell what is wrong, and where
            counted.seek(start)
            _decoded(container, block, counted, schema)
        # The bytes that are read are there, so that the index is one of a list of types.
        what = (
            "a union has no such branch" if isinstance(error, IndexError) else f"a record cannot be decoded: {type(error).__name__} {error}"
        )
        raise _torn(container, block, data.tell(), what) from error


def _torn(container: Container, block: RawBlock, position: int, what: str) -> AvroFormatError:
    return broken_avro(container.path, block.offset, f"{what}, {position} bytes into the block that begins here")


# ---- the schema that fastavro gets, and what is taken out of its records ----


def _reader(container: Container, wanted: Struct) -> tuple[Any, int, _Take]:
    """Return the schema for fastavro, how many reads a record may take by the limit `avro_block_bytes`, and what takes the wanted columns out of it."""
    try:
        schema, values_a_read, take = _compiled(container.schema_text, wanted)
    except (ValueError, RecursionError) as error:
        raise broken_schema(container.path, error) from error
    return schema, max(int(limits().avro_block_bytes / _VALUE_BYTES / values_a_read), 1), take


@lru_cache(maxsize=128)
def _compiled(schema_text: bytes, wanted: Struct) -> tuple[Any, float, _Take]:
    """Return the schema as fastavro parsed it, how many values a read may make, and what takes the wanted columns out of a record.

    The schema has been read once, by `steps.compile_steps`, so that it is a record with every field that is required, in the form that is wanted.
    """
    schema = parse_schema(schema_text, "manifest_schema_types")
    if has_arrays_of_nothing(schema):
        raise ValueError("it has an array of items that take no bytes, so that it may claim more items than there are bytes")
    return fastavro.parse_schema(_renamed(schema, count())), _most_values_a_read(schema), _struct(schema, wanted.fields)


def _most_values_a_read(kind: AvroType) -> float:
    """Return how many values a read makes at most in the arrays of a type: records in records, and fields that take no bytes, are values without a read."""
    form = kind_of(kind)
    if form in ("array", "map"):
        item = kind["items"] if form == "array" else kind["values"]
        values, reads = _values_and_reads(item)
        if form == "map":
            values, reads = values + 2, reads + 1
        return max(values / max(reads, 1), _most_values_a_read(item))
    parts = kind if form == "union" else [field["type"] for field in kind["fields"]] if form == "record" else []
    return max(map(_most_values_a_read, parts), default=1.0)


def _values_and_reads(kind: AvroType) -> tuple[int, int]:
    """Return how many values one value of a type is made of at most, and how many reads it takes at least, both without the items of its arrays."""
    form = kind_of(kind)
    if form == "null" or (form == "fixed" and not kind["size"]):
        return 1, 0
    if form == "union":
        branches = [_values_and_reads(branch) for branch in kind]
        return max(values for values, _ in branches), 1 + min(reads for _, reads in branches)
    if form == "record":
        fields = [_values_and_reads(field["type"]) for field in kind["fields"]]
        return 1 + sum(values for values, _ in fields), sum(reads for _, reads in fields)
    return 1, 1


def _renamed(kind: AvroType, numbers: Iterator[int]) -> Any:
    """Return a type of the same bytes, with names made of numbers."""
    form = kind_of(kind)
    if form == "union":
        return [_renamed(branch, numbers) for branch in kind]
    if form == "record":
        return _record([field["type"] for field in kind["fields"]], numbers)
    if form == "array":
        return {"type": "array", "items": _renamed(kind["items"], numbers)}
    if form == "map":  # keys are not looked at, and need not be UTF-8
        return {"type": "array", "items": _record(["bytes", kind["values"]], numbers)}
    if form in ("fixed", "boolean"):  # a boolean of another byte than 0 or 1 is false, as for the compiled reader
        return {"type": "fixed", "name": f"r{next(numbers)}", "size": int(kind["size"]) if form == "fixed" else 1}
    return "long" if form in NUMBERS else "bytes" if form == "string" else form


def _record(kinds: list[AvroType], numbers: Iterator[int]) -> Any:
    name = f"r{next(numbers)}"
    return {"type": "record", "name": name, "fields": [{"name": _name(n), "type": _renamed(kind, numbers)} for n, kind in enumerate(kinds)]}


def _name(index: int) -> str:
    return f"f{index}"


def _take(kind: AvroType, shape: Shape) -> _Take:
    """Return what takes a shape's columns out of a value of the writer's type."""
    form = kind_of(kind)
    if form == "union":
        present = [_take(branch, shape) for branch in kind if branch != "null"]
        nothing = _nothing(shape)
        return lambda value: (nothing if value is None else present[0])(value)
    if isinstance(shape, Value):
        return (lambda value: (value == b"\x01",)) if form == "boolean" else lambda value: (value,)
    if isinstance(shape, Struct):
        return _struct(kind, shape.fields)
    if form == "null":
        return _nothing(shape)
    if isinstance(shape, Numbers):
        return lambda value: (tuple(value),)
    if isinstance(shape, Rows):
        inner = _struct(kind["items"], shape.fields)
        return lambda value: (tuple(map(inner, value)),)
    if isinstance(shape, IdMap):
        return lambda value: (_id_map(value),)
    if isinstance(shape, Slots):
        field_ids = [field_id for field_id, _ in shape.columns]
        return lambda value: tuple(map(_id_map(value).get, field_ids))
    raise TypeError("fastavro does not tell where the bytes of a value are")


def _id_map(pairs: list[dict[str, Any]]) -> dict[int, Any]:
    return {pair["f0"]: pair["f1"] for pair in pairs}


def _struct(record: AvroType, wanted: tuple[WantedField, ...]) -> _Take:
    """Return what takes all columns of a record; those that the writer does not have are None."""
    places = {want: index for index, want in matched_fields(record, wanted).items()}
    parts: list[tuple[str, _Take]] = []
    for want in wanted:
        index = places.get(want)
        if index is None:
            parts.append(("", _nothing(want.shape)))
        else:
            parts.append((_name(index), _take(record["fields"][index]["type"], want.shape)))
    return lambda value: tuple(chain.from_iterable(take(value.get(name)) for name, take in parts))


def _nothing(shape: Shape) -> _Take:
    values = (None,) * len(columns_of(shape))
    return lambda _: values


# ---- values as Arrow ----


def arrays_of_values(steps: Steps, values: dict[str, list[Any]]) -> dict[str, Any]:
    """Return columns of Python values as Arrow arrays, typed as the compiled reader's.

    Raises:
        OverflowError: A column would be larger than Arrow's offsets can count, or its nulls larger than the limit `avro_block_bytes`.
    """
    return {name: _array(column, steps.wanted[name]) for name, column in values.items()}


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
