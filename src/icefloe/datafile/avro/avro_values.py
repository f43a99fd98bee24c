"""Conversion between Arrow rows and the values of Avro records: numbers, bytes, text, lists and dicts, without logical types.

`avro_file_schema.py` defines the schemas. Spec: Appendix A, Avro.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any
from uuid import UUID

import pyarrow as pa

from icefloe.datafile.avro.avro_file_schema import ADJUST_TO_UTC, ORIGINAL_NAME, decimal_width
from icefloe.datafile.projection import columns_by_id
from icefloe.spec.arrow_values import array_of, validity_buffer
from icefloe.spec.avro.avro_schema import AvroType, kind_of
from icefloe.spec.byte_columns import DECIMAL_WIDTH, decimal_words, spans_of
from icefloe.spec.manifest.partition_values import avro_name
from icefloe.spec.schema.arrow_types import FIELD_ID_KEY
from icefloe.spec.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
    VariantType,
)
from icefloe.spec.values import physical_arrow_type

# ---- Arrow to records ----


def avro_records(batch: pa.RecordBatch, fields: tuple[NestedField, ...]) -> Iterator[dict[str, Any]]:
    """Yield the rows as dicts by Avro field names. The batch's columns have field ids and the types of `schema_to_arrow`; a placeholder field has no column."""
    places = columns_by_id(batch.schema)
    columns = [
        _values(field.field_type, batch.column(places[field.field_id][0])) if field.field_id in places else [None] * batch.num_rows
        for field in fields
    ]
    names = [avro_name(field.name) for field in fields]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _values(kind: IcebergType, array: Any) -> list[Any]:
    """Return the values of an array of an Iceberg type as Python values, with None for null."""
    if isinstance(kind, StructType):
        return _structs(kind, array)
    if isinstance(kind, ListType):
        return _cut_lists(array, _values(kind.element, array.values))
    if isinstance(kind, MapType):
        return _maps(kind, array)
    if isinstance(kind, VariantType):
        values: list[Any] = array.to_pylist()
        return values
    if isinstance(kind, DecimalType):
        return _decimals(array, decimal_width(kind.precision))
    stored = pa.binary() if isinstance(kind, UUIDType | FixedType) else physical_arrow_type(kind)  # type: ignore[arg-type]
    plain: list[Any] = array.cast(stored).to_pylist()
    return plain


def _structs(kind: StructType, array: Any) -> list[Any]:
    by_name = {array.type.field(place).name: place for place in range(array.type.num_fields)}
    columns = [
        _values(field.field_type, array.field(by_name[field.name])) if field.name in by_name else [None] * len(array)
        for field in kind.fields
    ]
    names = [avro_name(field.name) for field in kind.fields]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None for is_valid, row in zip(array.is_valid().to_pylist(), rows, strict=True)
    ]


def _maps(kind: MapType, array: Any) -> list[Any]:
    keys, items = _values(kind.key_type, array.keys), _values(kind.value_type, array.items)
    if isinstance(kind.key_type, StringType):
        return [None if pairs is None else dict(pairs) for pairs in _cut_lists(array, list(zip(keys, items, strict=True)))]
    return _cut_lists(array, [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)])


def _cut_lists(array: Any, values: list[Any]) -> list[Any]:
    """Divide the values of all lists or maps of an array into one Python list for each row; None for a null row."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [values[offsets[row] : offsets[row + 1]] if valid[row] else None for row in range(len(array))]


def _decimals(array: Any, width: int) -> list[Any]:
    """Return the unscaled values of decimals as `width` bytes of two's complement, big endian."""
    words = (
        memoryview(array.buffers()[1])[array.offset * DECIMAL_WIDTH : (array.offset + len(array)) * DECIMAL_WIDTH] if len(array) else b""
    )
    big_endian = [bytes(words[row * DECIMAL_WIDTH : (row + 1) * DECIMAL_WIDTH])[::-1] for row in range(len(array))]
    sized = [
        value[DECIMAL_WIDTH - width :] if width <= DECIMAL_WIDTH else value.rjust(width, b"\xff" if value[0] & 0x80 else b"\x00")
        for value in big_endian
    ]
    return [value if is_valid else None for is_valid, value in zip(array.is_valid().to_pylist(), sized, strict=True)]


# ---- records to Arrow ----

_Build = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """The conversion of one field of an Avro schema to Arrow.

    Attributes:
        arrow: The Arrow field, with the field id if the Avro schema has one.
        build: A function from a sequence of Avro values to an Arrow array.
    """

    arrow: Any
    build: _Build


def avro_columns(record: AvroType) -> list[AvroColumn]:
    """Return the conversion of each field of a record schema, in order. References to named types in the schema are resolved already.

    Raises:
        ValueError: A field is a union that is not of null and one other type; Iceberg tables have no such fields.
    """
    return [_column(field["name"], field["type"], field.get("field-id"), field.get(ORIGINAL_NAME)) for field in record["fields"]]


def _column(name: str, kind: AvroType, field_id: Any, original: str | None = None) -> AvroColumn:
    optional = kind_of(kind) == "union"
    if optional:
        others = [branch for branch in kind if kind_of(branch) != "null"]
        if len(others) > 1 or len(kind) > 2:
            raise ValueError(f"the field {name!r} is a union of more than null and one type")
        kind = others[0] if others else "null"
    arrow, build = _arrow_type_and_builder(kind)
    is_id = isinstance(field_id, int) and not isinstance(field_id, bool)  # Python treats True as an int, but JSON has a type of its own
    metadata = {FIELD_ID_KEY: str(field_id).encode()} if is_id else None
    return AvroColumn(pa.field(original or name, arrow, nullable=optional or arrow == pa.null(), metadata=metadata), build)


def _arrow_type_and_builder(kind: AvroType) -> tuple[Any, _Build]:
    avro_kind = kind_of(kind)
    if avro_kind == "record":
        return _record_builder(kind)
    if avro_kind == "array":
        return _pairs_builder(kind) if kind.get("logicalType") == "map" else _list_builder(kind)
    if avro_kind == "map":
        key = _column("key", "string", kind.get("key-id"))
        item = _column("value", kind["values"], kind.get("value-id"))
        return _map_builder(key, item, lambda pairs: (list(pairs), list(pairs.values())))
    arrow, stored = _primitive(kind, avro_kind)
    if pa.types.is_null(arrow):
        return arrow, lambda values: pa.nulls(len(values))
    if pa.types.is_decimal(arrow):
        return arrow, lambda values: _decimal_array(values, arrow)
    if avro_kind == "string" and stored == pa.binary():
        return arrow, lambda values: array_of([None if text is None else UUID(text).bytes for text in values], stored).cast(arrow)
    return arrow, lambda values: array_of(values, stored).cast(arrow)


def _primitive(kind: AvroType, avro_kind: str) -> tuple[Any, Any]:
    """Return the Arrow type of a primitive type, and the Arrow type of its Avro values without the logical type."""
    attributes = kind if isinstance(kind, dict) else {}
    logical = str(attributes.get("logicalType"))
    if avro_kind in ("bytes", "fixed") and logical == "decimal":
        return pa.decimal128(attributes["precision"], attributes.get("scale", 0)), pa.binary()
    if avro_kind == "fixed":
        return pa.binary(attributes["size"]), pa.binary()
    if logical == "uuid" and avro_kind == "string":
        return pa.binary(16), pa.binary()
    if (avro_kind, logical) in _TIMES:
        arrow = _TIMES[avro_kind, logical]
        utc = attributes.get(ADJUST_TO_UTC, False) and pa.types.is_timestamp(arrow)
        return (pa.timestamp(arrow.unit, "UTC") if utc else arrow), pa.int64() if avro_kind == "long" else pa.int32()
    if avro_kind not in _PLAIN:
        raise ValueError(f"a field is of the Avro type {avro_kind!r}")
    return _PLAIN[avro_kind], _PLAIN[avro_kind]


_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_TIMES = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{local}timestamp-{word}"): pa.timestamp(unit)
        for local in ("", "local-")
        for word, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


def _record_builder(kind: AvroType) -> tuple[Any, _Build]:
    columns = avro_columns(kind)
    names = [field["name"] for field in kind["fields"]]
    arrow = pa.struct([column.arrow for column in columns])

    def build(values: Sequence[Any]) -> Any:
        missing = pa.array([value is None for value in values], pa.bool_())
        if not columns:
            return pa.array([None if value is None else {} for value in values], arrow)
        inner = [
            column.build([None if value is None else value[name] for value in values]) for column, name in zip(columns, names, strict=True)
        ]
        return pa.StructArray.from_arrays(inner, fields=list(arrow), mask=missing)

    return arrow, build


def _list_builder(kind: AvroType) -> tuple[Any, _Build]:
    element = _column("element", kind["items"], kind.get("element-id"))
    arrow = pa.list_(element.arrow)

    def build(values: Sequence[Any]) -> Any:
        inner = element.build(list(chain.from_iterable(value for value in values if value is not None)))
        return pa.Array.from_buffers(arrow, len(values), [_validity(values), _offsets(values)], children=[inner])

    return arrow, build


def _pairs_builder(kind: AvroType) -> tuple[Any, _Build]:
    """Return the Arrow type and the builder of a map that is stored as an array of records, whose two fields may have any names."""
    key, item = avro_columns(kind["items"])
    first, second = (field["name"] for field in kind["items"]["fields"])
    return _map_builder(key, item, lambda pairs: ([pair[first] for pair in pairs], [pair[second] for pair in pairs]))


def _map_builder(key: AvroColumn, item: AvroColumn, split: Callable[[Any], tuple[list[Any], list[Any]]]) -> tuple[Any, _Build]:
    arrow = pa.map_(key.arrow.with_nullable(False), item.arrow)

    def build(values: Sequence[Any]) -> Any:
        keys: list[Any] = []
        items: list[Any] = []
        for value in values:
            if value is not None:
                value_keys, value_items = split(value)
                keys += value_keys
                items += value_items
        entries = pa.StructArray.from_arrays([key.build(keys), item.build(items)], fields=[arrow.key_field, arrow.item_field])
        return pa.Array.from_buffers(arrow, len(values), [_validity(values), _offsets(values)], children=[entries])

    return arrow, build


def _validity(values: Sequence[Any]) -> Any:
    if None not in values:
        return None
    return pa.array([value is not None for value in values], pa.bool_()).buffers()[1]


def _offsets(values: Sequence[Any]) -> Any:
    lengths = (0 if value is None else len(value) for value in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32()).buffers()[1]


def _decimal_array(values: Sequence[Any], arrow: Any) -> Any:
    words, valid = decimal_words(spans_of(array_of(values, pa.binary())))
    return pa.Array.from_buffers(arrow, len(valid), [validity_buffer(valid), pa.py_buffer(words.tobytes())])
