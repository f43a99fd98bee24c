"""Records of Python objects, field by field: the compiled encoder runs steps over their attributes; the encoders of `avro_encoder.py` do the same,
value by value.

From Arrow columns it is `write_columns.py`. Spec: Apache Avro, Binary Encoding.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any

import numpy as np

from icefloe.kernel.avro import compiled_codec
from icefloe.kernel.avro.avro_encoder import Encoder, encoder
from icefloe.kernel.avro.avro_schema import AvroType, kind_of
from icefloe.kernel.avro.write_avro_columns import Records


class Encode(IntEnum):
    """As `enum Encode` of native/encode.c."""

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
    """A field that has one value in all records."""

    value: Any


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field that the objects have under this name."""

    name: str


# What a field is in all records: a value, where to find it, or one for each.
Values = Constant | Attribute | Sequence[Any]

_PLAIN = {"int": Encode.ENCODE_LONG, "long": Encode.ENCODE_LONG, "string": Encode.ENCODE_TEXT, "bytes": Encode.ENCODE_BYTES}


def encode_records(
    schema: AvroType, values: Mapping[int, Values], objects: list[Any], *, by_compiled: bool = compiled_codec.ENCODES_OBJECTS
) -> Records:
    """A record of each object, of a schema (resolved, as `schema.parse_schema` gives it), from its fields by field id, those of a record inside too.

    A record inside that has an entry of its own is given as tuples, one a record, and encoded as a whole.

    Raises:
        KeyError: there are no values for a field.
        ValueError, TypeError, OverflowError, AttributeError: a value does not fit its field.
    """
    fields = list(_fields(schema, values))
    if by_compiled:
        try:
            given = tuple(_for_compiled(kind, one, objects) for kind, one in fields)
            data, ends = compiled_codec.native().encode_objects(given, objects)
            return Records(data, np.frombuffer(ends, np.int64))
        except (TypeError, ValueError, OverflowError):
            pass  # perhaps only of another type than the quick way takes: the slow one tells
    columns = [map(encoder(kind), _each(one, objects)) for kind, one in fields]
    encoded = [b"".join(row) for row in zip(*columns, strict=True)]
    return Records(b"".join(encoded), np.cumsum([len(one) for one in encoded], dtype=np.int64))


def _each(values: Values, objects: list[Any]) -> Iterable[Any]:
    """The values one by one."""
    if isinstance(values, Constant):
        return [values.value] * len(objects)
    return map(attrgetter(values.name), objects) if isinstance(values, Attribute) else values


def _fields(schema: AvroType, values: Mapping[int, Values]) -> Any:
    """The schema's fields in order, records inside taken apart where they have no values of their own."""
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
    # A type that is rare here is encoded one by one.
    encode, found = encoder(kind), list(_each(values, objects))
    return _code([Encode.ENCODE_RAW]), _encoded(encode, found) if _is_exact(kind) else list(map(encode, found))


def _encoded(encode: Encoder, values: Sequence[Any]) -> list[bytes]:
    """Equal values are encoded once."""
    known = {value: encode(value) for value in set(values)}
    return [known[value] for value in values]


def _is_exact(kind: AvroType) -> bool:
    """Whether values that are equal have the same bytes: zeros of a float can differ in their sign."""
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
