"""The reader with fastavro, for installations without the compiled reader: several times slower, with the same columns.

`avro_container.py` splits the file into blocks and checks their counts and sizes against the limits. fastavro decodes one record at a time from the
uncompressed bytes of a block. It gets a schema that is derived from the writer's: with generated names, so that no name of a file reaches fastavro, with bytes
instead of strings, and without logical types, so that fastavro does not convert values. fastavro accepts some damage that the compiled reader refuses: of
numbers with more than 64 bits it keeps the lowest bits, and negative branches of unions count from the last branch. Spec: Apache Avro, Binary Encoding;
Appendix A, Avro.
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
from icefloe.spec.arrow_values import array_of, validity_buffer
from icefloe.spec.avro.avro_container import Container, RawBlock, unpacked_blocks
from icefloe.spec.avro.avro_errors import TornDataError, above_limit, broken_avro, broken_schema, wrong_block_end
from icefloe.spec.avro.avro_schema import NUMBERS, AvroType, has_arrays_of_nothing, item_type, kind_of, parse_schema
from icefloe.spec.avro.decode_steps import ProjectedColumn, Steps
from icefloe.spec.avro.projection_tree import IdMap, Numbers, ProjectedField, Rows, Shape, Slots, Struct, Value, columns_of, matched_fields
from icefloe.spec.limits import limits

# The estimated bytes of memory per value. A record counts as one value in addition to its fields; with one field it takes 200 bytes.
_VALUE_BYTES = 100
# The number of encoded bytes after which a batch ends, even if it has few records.
_BATCH_BYTES = 16 * 1024 * 1024

# A function from one decoded value to the column values of a shape, in the order of `columns_of`.
_Take = Callable[[Any], tuple[Any, ...]]


def read_values(container: Container, projection: Struct, batch_records: int) -> Iterator[dict[str, list[Any]]]:
    """Yield batches of records in file order: each is a dictionary from the names of the projected columns to lists with one value for each record.

    A batch has at most `batch_records` records. `avro_columns.read_batches` calls this function where the compiled reader cannot be used.

    Raises:
        AvroFormatError: the file is damaged, or one of its records takes more memory than the limit `avro_block_bytes` allows.
    """
    schema, most_reads, take = _reader(container, projection)
    names = columns_of(projection)
    rows: list[tuple[Any, ...]] = []
    size = 0
    for block, data in unpacked_blocks(container):
        block_bytes, end = _block_stream(data, most_reads), 0
        for _ in range(block.count):
            try:
                rows.append(take(_decode_block(container, block, block_bytes, schema)))
            except _NullItemError as error:
                raise _torn(container, block, block_bytes.tell(), "an item, key or value of an array is null") from error
            start, end = end, block_bytes.tell()
            size += end - start
            if len(rows) >= batch_records or size >= _BATCH_BYTES:
                yield _columns(names, rows)
                rows, size = [], 0
        if end != len(data):
            raise _torn(container, block, end, wrong_block_end(end, len(data)))
    if rows:
        yield _columns(names, rows)


def _columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _block_stream(data: bytes, most_reads: int) -> BytesIO:
    """Return a stream of a block's bytes that limits reads. A block with at most `most_reads` bytes needs no limit, because a read has at least one byte."""
    return BytesIO(data) if len(data) <= most_reads else _CountedBytes(data, most_reads)


class _CountedBytes(BytesIO):
    """A stream of a block's bytes that never returns fewer bytes than requested. It limits the number of reads, and so the memory, of one record."""

    def __init__(self, data: bytes, most_reads: int) -> None:
        super().__init__(data)
        self.reads = 0
        self.most_reads = most_reads

    def read(self, size: int | None = -1, /) -> bytes:
        """Return exactly `size` bytes. Raises `TornDataError` if there are fewer, `_RecordSizeError` after too many reads for one record."""
        if size is None or size < 0:
            raise TornDataError(self.tell(), "a length is negative")
        data = super().read(size)
        if len(data) != size:
            raise TornDataError(self.tell(), "the bytes end inside a value")
        self.reads += 1
        if self.reads > self.most_reads:
            raise _RecordSizeError
        return data


class _NullItemError(ValueError):
    """The error for a null as an array item, key or value. Some writers' schemas allow null there, but the format does not."""


class _RecordSizeError(ValueError):
    """The error for a record that takes more memory than the limit allows."""


def _decode_block(container: Container, block: RawBlock, data: BytesIO, schema: Any) -> Any:
    start = data.tell()
    if isinstance(data, _CountedBytes):
        data.reads = 0
    try:
        # The schema is parsed already, so that a call only reads one record.
        return fastavro.schemaless_reader(data, schema, None)
    except TornDataError as error:
        raise _torn(container, block, data.tell(), error.what) from error
    except _RecordSizeError as error:
        what = "a record in the block that begins here takes more memory than is allowed"
        raise above_limit(container.path, block.offset, what, "avro_block_bytes") from error
    except Exception as error:  # any exception, because fastavro does not document its errors for damaged bytes
        if not isinstance(data, _CountedBytes):
            counted = _CountedBytes(data.getvalue(), len(data.getvalue()))  # its exceptions contain the reason and the position
            counted.seek(start)
            _decode_block(container, block, counted, schema)
        # All bytes that were read exist, so the index that is out of range must be that of a union branch.
        what = (
            "a union has no such branch" if isinstance(error, IndexError) else f"a record cannot be decoded: {type(error).__name__} {error}"
        )
        raise _torn(container, block, data.tell(), what) from error


def _torn(container: Container, block: RawBlock, position: int, what: str) -> AvroFormatError:
    return broken_avro(container.path, block.offset, f"{what}, {position} bytes into the block that begins here")


# ---- the schema for fastavro, and the columns of its records ----


def _reader(container: Container, projection: Struct) -> tuple[Any, int, _Take]:
    """Return the schema for fastavro, the number of reads that a record may need by the limit `avro_block_bytes`, and a function from a record to columns."""
    try:
        schema, values_per_read, take = _prepare_reader(container.schema_text, projection)
    except (ValueError, RecursionError) as error:
        raise broken_schema(container.path, error) from error
    return schema, max(int(limits().avro_block_bytes / _VALUE_BYTES / values_per_read), 1), take


@lru_cache(maxsize=128)
def _prepare_reader(schema_text: bytes, projection: Struct) -> tuple[Any, float, _Take]:
    """Return the schema as parsed by fastavro, the greatest number of values per read, and the function from a record to its projected columns.

    `compile_steps` has validated the schema before: it is a record that has all required fields, with the expected types.
    """
    schema = parse_schema(schema_text, "manifest_schema_types")
    if has_arrays_of_nothing(schema):
        raise ValueError("it has an array of items that take no bytes, so that it may claim more items than there are bytes")
    return fastavro.parse_schema(_rename_types(schema, count())), _most_values_per_read(schema), _struct(schema, projection.fields)


def _most_values_per_read(kind: AvroType) -> float:
    """Return the greatest number of values that one read can produce in the arrays of a type. Records, and fields without bytes, are values without a read."""
    form = kind_of(kind)
    if form in ("array", "map"):
        item = kind["items"] if form == "array" else kind["values"]
        values, reads = _values_and_reads(item)
        if form == "map":
            values, reads = values + 2, reads + 1
        return max(values / max(reads, 1), _most_values_per_read(item))
    parts = kind if form == "union" else [field["type"] for field in kind["fields"]] if form == "record" else []
    return max(map(_most_values_per_read, parts), default=1.0)


def _values_and_reads(kind: AvroType) -> tuple[int, int]:
    """Return the greatest number of values and the least number of reads in one value of a type, without the items of its arrays."""
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


def _rename_types(kind: AvroType, numbers: Iterator[int]) -> Any:
    """Return a type with the same encoding, in which all names of records, fields and fixed types are generated."""
    form = kind_of(kind)
    if form == "union":
        return [_rename_types(branch, numbers) for branch in kind]
    if form == "record":
        return _record([field["type"] for field in kind["fields"]], numbers)
    if form == "array":
        return {"type": "array", "items": _rename_types(kind["items"], numbers)}
    if form == "map":  # as bytes, because keys are not used and need not be UTF-8
        return {"type": "array", "items": _record(["bytes", kind["values"]], numbers)}
    if form in ("fixed", "boolean"):  # a boolean is read as its byte, and a byte other than 1 is false, as in the compiled reader
        return {"type": "fixed", "name": f"r{next(numbers)}", "size": int(kind["size"]) if form == "fixed" else 1}
    return "long" if form in NUMBERS else "bytes" if form == "string" else form


def _record(kinds: list[AvroType], numbers: Iterator[int]) -> Any:
    name = f"r{next(numbers)}"
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": _name(n), "type": _rename_types(kind, numbers)} for n, kind in enumerate(kinds)],
    }


def _name(index: int) -> str:
    return f"f{index}"


def _take(kind: AvroType, shape: Shape) -> _Take:
    """Return a function from a value of the writer's type to the values of the columns that its shape defines."""
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
        return lambda value: (tuple(map(_present, value)),)
    if isinstance(shape, Rows):
        inner = _struct(item_type(kind["items"]), shape.fields)
        return lambda value: (tuple(inner(_present(item)) for item in value),)
    if isinstance(shape, IdMap):
        return lambda value: (_id_map(value),)
    if isinstance(shape, Slots):
        field_ids = [field_id for field_id, _ in shape.columns]
        return lambda value: tuple(map(_id_map(value).get, field_ids))
    raise TypeError("fastavro does not return the position of a value")


def _id_map(pairs: list[dict[str, Any]]) -> dict[int, Any]:
    return {_present(pair["f0"]): _present(pair["f1"]) for pair in map(_present, pairs)}


def _present(value: Any) -> Any:
    if value is None:
        raise _NullItemError
    return value


def _struct(record: AvroType, fields: tuple[ProjectedField, ...]) -> _Take:
    """Return a function from a record to the values of all projected columns, with None for columns that the writer does not have."""
    indices = {field: index for index, field in matched_fields(record, fields).items()}
    parts: list[tuple[str, _Take]] = []
    for field in fields:
        index = indices.get(field)
        if index is None:
            parts.append(("", _nothing(field.shape)))
        else:
            parts.append((_name(index), _take(record["fields"][index]["type"], field.shape)))
    return lambda value: tuple(chain.from_iterable(take(value.get(name)) for name, take in parts))


def _nothing(shape: Shape) -> _Take:
    values = (None,) * len(columns_of(shape))
    return lambda _: values


# ---- values as Arrow ----


def arrays_of_values(steps: Steps, values: dict[str, list[Any]]) -> dict[str, Any]:
    """Return columns of Python values as Arrow arrays of the same types as the compiled reader's.

    Raises:
        OverflowError: a column would be too large for Arrow's 32-bit offsets, or its nulls larger than the limit `avro_block_bytes`.
    """
    return {name: _array(column, steps.projected[name]) for name, column in values.items()}


def _array(values: list[Any], projected: ProjectedColumn) -> Any:
    kind = projected.kind
    if pa.types.is_nested(projected.kind):
        return _lists(values, projected)
    if not pa.types.is_fixed_size_binary(kind):
        return array_of(values, kind)
    is_valid = np.array([value is not None for value in values], dtype=bool)
    if (len(values) - int(is_valid.sum())) * kind.byte_width > limits().avro_block_bytes:
        raise OverflowError("the nulls of a column are larger than the limit avro_block_bytes")
    data = b"".join(bytes(kind.byte_width) if value is None else value for value in values)
    return pa.Array.from_buffers(kind, len(values), [validity_buffer(is_valid), pa.py_buffer(data)])


def _lists(values: list[Any], projected: ProjectedColumn) -> Any:
    kind = projected.kind
    is_valid = np.array([value is not None for value in values], dtype=bool)
    offsets = np.fromiter(accumulate((len(value or ()) for value in values), initial=0), np.int32, len(values) + 1)
    is_map = pa.types.is_map(kind)
    items = list(chain.from_iterable((value.items() if is_map else value) for value in values if value))
    if is_map or pa.types.is_struct(kind.value_type):
        columns = [list(column) for column in zip(*items, strict=True)] or [[] for _ in projected.parts]
        parts = [_array(column, part) for column, part in zip(columns, projected.parts, strict=True)]
        entry = pa.struct([kind.key_field, kind.item_field]) if is_map else kind.value_type
        child = pa.Array.from_buffers(entry, len(items), [None], children=parts)
    else:
        child = array_of(items, kind.value_type)
    return pa.Array.from_buffers(kind, len(values), [validity_buffer(is_valid), pa.py_buffer(offsets)], children=[child])
