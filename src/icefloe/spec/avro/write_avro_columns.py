"""Encoding of Arrow columns as records: by the compiled writer, which runs steps over Arrow's buffers, or value by value with `avro_encoder.py`.

The compiled writer can also splice: copy encoded records and replace a few spans in each of them, if only some fields of the records change. The header and all
other fields, including unknown ones, keep their bytes. `avro_columns.py` reads records.
Spec: Apache Avro, Binary Encoding; Apache Avro, Object Container Files.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import UnsupportedFeatureError
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_columns import read_spans
from icefloe.spec.avro.avro_container import block_bytes, open_container, split_into_blocks
from icefloe.spec.avro.avro_encoder import encoder
from icefloe.spec.avro.avro_errors import broken_avro
from icefloe.spec.avro.avro_schema import NUMBERS, AvroType, kind_of, parse_schema
from icefloe.spec.avro.compiled_codec import AVAILABLE
from icefloe.spec.avro.projection_tree import Struct, matched_fields

_BYTES = frozenset({"bytes", "string"})


class Put(IntEnum):
    """The opcodes of the compiled writer: `enum Put` of native/write.c."""

    PUT_NUMBER = 1
    PUT_BYTES = 2
    PUT_WIDTH = 3
    PUT_OPTIONAL = 4
    PUT_LIST = 5
    PUT_SIZED_LIST = 6


class Records(NamedTuple):
    """Encoded records in a buffer `data`, one directly after the other; `ends` has the end of each record in it."""

    data: Any
    ends: NDArray[np.int64]


class Cut(NamedTuple):
    """The replacement of one span of bytes in every record: the start and the end of the span in each record, and the new bytes for each record."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    pieces: Records


def write_records(schema: AvroType, columns: Mapping[int, Any], count: int, *, by_compiled: bool = compiled_codec.AVAILABLE) -> Records:
    """Encode Arrow arrays as records.

    Integers are written as numbers, binary and text as bytes, lists as arrays, Arrow maps as arrays of key-value records with their size in bytes.

    Args:
        schema: the record schema, resolved as by `parse_schema`.
        columns: arrays of `count` rows by field id, including the fields of nested records.
        count: the number of records.
        by_compiled: whether the compiled writer is used.

    Raises:
        KeyError: there is no column for a field.
        ValueError, OverflowError: a value does not fit its field, or the value of a required field is null.
    """
    if not by_compiled:
        encode = encoder(schema)
        encoded = [encode(row) for row in _rows(schema, columns, count)]
        if len(encoded) != count:
            raise ValueError(f"a column contradicts itself (at byte or row {len(encoded)})")
        return Records(b"".join(encoded), np.cumsum([len(record) for record in encoded], dtype=np.int64))
    steps = _Steps()
    code = steps.record(schema, columns)
    data, ends = compiled_codec.native().write_records(array("i", code).tobytes(), tuple(steps.sources), count)
    return Records(data, np.frombuffer(ends, np.int64))


def splice_records(
    blocks: Sequence[bytes],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    cuts: Sequence[Cut],
) -> Records:
    """Copy the records between `starts` and `stops`; each span in `cuts` is replaced by its new bytes.

    Args:
        blocks: uncompressed blocks. Positions are those in the concatenation of all blocks; each record is within one block.
        starts: the start of each record, in order.
        stops: the end of each record.
        cuts: the spans to replace, in their order within a record.

    Raises:
        ValueError: positions contradict each other.
    """
    native_cuts = tuple(
        (np.ascontiguousarray(cut.starts), np.ascontiguousarray(cut.stops), cut.pieces.ends, cut.pieces.data) for cut in cuts
    )
    copied, ends = compiled_codec.native().splice_records(
        tuple(blocks), np.ascontiguousarray(starts), np.ascontiguousarray(stops), native_cuts
    )
    return Records(copied, np.frombuffer(ends, np.int64))


# ---- the compiled writer's steps ----


@dataclass(slots=True)
class _Steps:
    """A compiler of steps for the compiled writer. `sources` are the columns that the steps refer to by number."""

    sources: list[tuple[Any, ...]] = field(default_factory=list)

    def record(self, schema: AvroType, columns: Mapping[int, Any]) -> list[int]:
        code: list[int] = []
        for part in schema["fields"]:
            if kind_of(part["type"]) == "record":
                code += self.record(part["type"], columns)
            else:
                code += self.value(part["type"], columns[part["field-id"]])
        return code

    def value(self, kind: AvroType, values: Any) -> list[int]:
        form = kind_of(kind)
        if form == "union":
            value_steps = self._required_steps(kind[1], kind_of(kind[1]), values)
            return [Put.PUT_OPTIONAL, value_steps[1], len(value_steps), *value_steps]
        if form == "null" and values.null_count == len(values):
            return []  # such a value takes no bytes
        if values.null_count:
            raise ValueError(f"{values.null_count} values are null where a {form} is required")
        return self._required_steps(kind, form, values)

    def _required_steps(self, kind: AvroType, form: str, values: Any) -> list[int]:
        if form in NUMBERS:
            return [Put.PUT_NUMBER, self._add(values.cast(pa.int64()), 8)]
        if form in _BYTES:
            return [Put.PUT_BYTES, self._add(values.cast(pa.binary()), 0)]
        if form == "array":
            return self._list(kind, values)
        return [Put.PUT_WIDTH, self._add(*_fixed_width(kind, form, values))]

    def _list(self, kind: AvroType, values: Any) -> list[int]:
        number = self._add(values, 0)
        if kind.get("logicalType") == "map":
            key, value = (part["type"] for part in kind["items"]["fields"])
            items = [*self.value(key, values.keys), *self.value(value, values.items)]
            return [Put.PUT_SIZED_LIST, number, len(items), *items]
        items = self.value(kind["items"], values.values)
        return [Put.PUT_LIST, number, len(items), *items]

    def _add(self, values: Any, width: int) -> int:
        buffers = values.buffers()
        has_offsets = pa.types.is_binary(values.type) or pa.types.is_list(values.type) or pa.types.is_map(values.type)
        data = None if pa.types.is_list(values.type) or pa.types.is_map(values.type) else buffers[-1]
        self.sources.append((len(values), values.offset, width, buffers[0], buffers[1] if has_offsets else None, data))
        return len(self.sources) - 1


def _fixed_width(kind: AvroType, form: str, values: Any) -> tuple[Any, int]:
    if form == "boolean":
        return values.cast(pa.uint8()), 1
    if form in ("float", "double"):
        return (values.cast(pa.float32()), 4) if form == "float" else (values.cast(pa.float64()), 8)
    if form == "fixed":
        size = int(kind["size"])
        return values.cast(pa.binary(size)), size
    raise ValueError(f"{form} is not written from columns")


# ---- value by value ----


def _rows(schema: AvroType, columns: Mapping[int, Any], count: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the columns as tuples that `avro_encoder.encoder` can encode."""
    if not schema["fields"]:
        return iter([()] * count)
    field_values: list[Any] = []
    for part in schema["fields"]:
        kind = part["type"]
        field_values.append(_rows(kind, columns, count) if kind_of(kind) == "record" else _values(kind, columns[part["field-id"]]))
    return zip(*field_values, strict=True)


def _values(kind: AvroType, values: Any) -> list[Any]:
    form = kind_of(kind)
    if form == "union":
        kind = kind[1]
    elif values.null_count and form != "null":
        raise ValueError(f"{values.null_count} values are null where a {form} is required")
    if pa.types.is_map(values.type):
        return [None if pairs is None else dict(pairs) for pairs in values.to_pylist()]
    return list(values.to_pylist())


# A function from the columns that were read to the new values of fields, by field id.
NewValues = Callable[[Mapping[str, Any]], Mapping[int, Any]]


def spliced_file(content: bytes, path: str, projection: Struct, spans: Mapping[int, str], new_values: NewValues) -> bytes:
    """Return an Avro file with new values of some fields.

    Args:
        content: The file.
        path: Its location, for errors.
        projection: The columns that `new_values` needs, and the spans of all fields in `spans`.
        spans: The names of the spans to replace, by field id. The first field of the record must be among them.
        new_values: Returns arrays of new values by field id, with one value for each record.

    Raises:
        AvroFormatError: The file is damaged.
        UnsupportedFeatureError: The compiled codec is not installed.
    """
    if not AVAILABLE:
        raise UnsupportedFeatureError(
            "paths in manifests are replaced by the compiled Avro codec, which this installation lacks",
            next_step="install Icefloe from a wheel of this platform",
        )
    container = open_container(content, path)
    records = read_spans([container], projection)
    count = records.counts[0]
    if not count:
        return content
    if any(records.columns[f"{name}.start"].null_count not in (0, count) for name in spans.values()):
        raise broken_avro(path, container.body_start, "some of its records lack a field that others have")
    positions = {
        field_id: (numpy_of(records.columns[f"{name}.start"]), numpy_of(records.columns[f"{name}.stop"]))
        for field_id, name in spans.items()
        if not records.columns[f"{name}.start"].null_count
    }
    # Records follow each other without gaps, so that each ends where the next one begins.
    starts = min((begin for begin, _ in positions.values()), key=lambda begin: int(begin[0]))
    if int(starts[0]):
        raise broken_avro(path, container.body_start, "its records do not begin with a field that the format defines")
    stops = np.append(starts[1:], sum(memoryview(block).nbytes for block in records.blocks))
    schema = parse_schema(container.schema_text, "manifest_schema_types")
    fields = dict(_fields(schema, projection))
    values = {field_id: column for field_id, column in new_values(records.columns).items() if field_id in positions}
    try:
        pieces = {
            field_id: write_records({**schema, "fields": [fields[field_id]]}, {field_id: column}, count)
            for field_id, column in values.items()
        }
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise broken_avro(path, container.body_start, f"a field has another type than the format defines: {error}") from error
    cuts = [Cut(*positions[field_id], encoded) for field_id, encoded in pieces.items()]
    cuts.sort(key=lambda cut: int(cut.starts[0]))
    spliced = splice_records(records.blocks, starts, stops, cuts)
    blocks = [
        block_bytes(length, bytes(data), container.codec, container.sync)
        for length, data in split_into_blocks([(spliced.data, spliced.ends)])
    ]
    return b"".join((content[: container.body_start], *blocks))


def _fields(record: AvroType, projection: Struct) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield pairs of a field id and the JSON of the field for the projected fields of a record, and of records in it. Fields without id are found by name."""
    for place, projected in matched_fields(record, projection.fields).items():
        field = record["fields"][place]
        if isinstance(projected.shape, Struct):
            yield from _fields(field["type"], projected.shape)
        else:
            yield projected.field_id, {**field, "field-id": projected.field_id}
