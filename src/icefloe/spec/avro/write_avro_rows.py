"""Encoding of Python objects as records: by the compiled encoder, which runs steps over their attributes, or value by value with `avro_encoder.py`.

`write_avro_columns.py` encodes Arrow columns. Spec: Apache Avro, Binary Encoding.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any

import numpy as np

from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_encoder import Encoder, encoder
from icefloe.spec.avro.avro_schema import AvroType, kind_of
from icefloe.spec.avro.write_avro_columns import Records


class Encode(IntEnum):
    """The opcodes of the compiled encoder: `enum Encode` of native/encode.c."""

    ENCODE_RAW = 1
    ENCODE_LONG = 2
    ENCODE_TEXT = 3
    ENCODE_BYTES = 4
    ENCODE_OPTIONAL = 5
    ENCODE_LIST = 6
    ENCODE_ID_MAP = 7
    ENCODE_TUPLE = 8


@dataclass(frozen=True, slots=True)
class Constant:
    """The values of a field that has the same value in all records."""

    value: Any


@dataclass(frozen=True, slots=True)
class Attribute:
    """The values of a field that are the attribute `name` of the objects."""

    name: str


# The values of a field: `Constant`, `Attribute`, or a sequence with one value for each record.
Values = Constant | Attribute | Sequence[Any]

_PLAIN = {"int": Encode.ENCODE_LONG, "long": Encode.ENCODE_LONG, "string": Encode.ENCODE_TEXT, "bytes": Encode.ENCODE_BYTES}


def encode_records(
    schema: AvroType, values: Mapping[int, Values], objects: list[Any], *, by_compiled: bool = compiled_codec.AVAILABLE
) -> Records:
    """Encode objects as records.

    Args:
        schema: the record schema, resolved as by `parse_schema`.
        values: the values of each field by field id, including the fields of nested records. If a nested record itself has an entry, its values are tuples.
        objects: one object per record.
        by_compiled: whether the compiled encoder is used.

    Raises:
        KeyError: there are no values for a field.
        ValueError, TypeError, OverflowError, AttributeError: a value does not fit its field.
    """
    fields = list(_fields(schema, values))
    if by_compiled:
        try:
            native_fields = tuple(_for_compiled(kind, field_values, objects) for kind, field_values in fields)
            data, ends = compiled_codec.native().encode_objects(native_fields, objects)
            return Records(data, np.frombuffer(ends, np.int64))
        except (TypeError, ValueError, OverflowError):
            pass  # The compiled encoder does not support all types of values. The encoders below try again, and raise an error if the value is invalid.
    columns = [map(encoder(kind), _per_object(field_values, objects)) for kind, field_values in fields]
    encoded = [b"".join(row) for row in zip(*columns, strict=True)]
    return Records(b"".join(encoded), np.cumsum([len(record) for record in encoded], dtype=np.int64))


def _per_object(values: Values, objects: list[Any]) -> Iterable[Any]:
    """Return the values of a field for the objects, one for each object."""
    if isinstance(values, Constant):
        return [values.value] * len(objects)
    return map(attrgetter(values.name), objects) if isinstance(values, Attribute) else values


def _fields(schema: AvroType, values: Mapping[int, Values]) -> Any:
    """Yield pairs of the type and the values of each field, in order. A nested record without an entry in `values` is replaced by its own fields."""
    for part in schema["fields"]:
        if kind_of(part["type"]) == "record" and part["field-id"] not in values:
            yield from _fields(part["type"], values)
        else:
            yield part["type"], values[part["field-id"]]


def _for_compiled(kind: AvroType, values: Values, objects: list[Any]) -> tuple[bytes, Any]:
    if isinstance(values, Constant):
        return b"", encoder(kind)(values.value)
    steps = _steps(kind)
    if steps is not None:
        return _code(steps), values.name if isinstance(values, Attribute) else list(values)
    # The compiled encoder does not support types that are rare in manifests; their values are encoded here.
    encode, listed = encoder(kind), list(_per_object(values, objects))
    return _code([Encode.ENCODE_RAW]), _encode_distinct(encode, listed) if _is_exact(kind) else list(map(encode, listed))


def _encode_distinct(encode: Encoder, values: Sequence[Any]) -> list[bytes]:
    """Return the encoded bytes of each value. Equal values are encoded once."""
    encoded = {value: encode(value) for value in set(values)}
    return [encoded[value] for value in values]


def _is_exact(kind: AvroType) -> bool:
    """Return True if equal values of a type have the same bytes, which is false for floats: zeros can differ in their sign."""
    form = kind_of(kind)
    if form == "record":
        return all(_is_exact(part["type"]) for part in kind["fields"])
    return _is_exact(kind[1]) if form == "union" else form not in ("float", "double", "array")


def _steps(kind: AvroType) -> list[int] | None:
    form = kind_of(kind)
    if form in _PLAIN:
        return [_PLAIN[form]]
    if form == "union":
        return _around(Encode.ENCODE_OPTIONAL, kind[1])
    if form == "record":
        parts = [_steps(part["type"]) for part in kind["fields"]]
        inside = [number for part in parts if part is not None for number in (len(part), *part)]
        return None if None in parts else [Encode.ENCODE_TUPLE, len(inside), *inside]
    if form != "array":
        return None
    if kind.get("logicalType") != "map":
        return _around(Encode.ENCODE_LIST, kind["items"])
    key, value = (part["type"] for part in kind["items"]["fields"])
    return _around(Encode.ENCODE_ID_MAP, value) if kind_of(key) in ("int", "long") else None


def _around(step: Encode, inner: AvroType) -> list[int] | None:
    steps = _steps(inner)
    return None if steps is None else [step, len(steps), *steps]


def _code(steps: Sequence[int]) -> bytes:
    return array("i", [*steps, 0]).tobytes()
