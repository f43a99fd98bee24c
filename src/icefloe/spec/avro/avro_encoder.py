"""Encoders of Avro values: one function per type, composed once for a schema and then called for each record.

A record is a tuple in the order of its fields, a map is a mapping, and null is None. Spec: Apache Avro, Binary Encoding.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct as Packing
from typing import Any

from icefloe.spec.avro.avro_schema import AvroType, kind_of
from icefloe.spec.avro.varint import encode_long

Encoder = Callable[[Any], bytes]

_FLOAT = Packing("<f").pack
_DOUBLE = Packing("<d").pack


def encoder(kind: AvroType) -> Encoder:
    """Return a function that encodes one value of a type. References in the type must be resolved already, as by `parse_schema`."""
    form = kind_of(kind)
    if form == "union":
        return _optional(kind)
    if form == "record":
        return _record([encoder(field["type"]) for field in kind["fields"]])
    if form == "array":
        return _id_map(kind) if kind.get("logicalType") == "map" else _array(encoder(kind["items"]))
    if form == "fixed":
        return _fixed_encoder(int(kind["size"]))
    return _PRIMITIVES[form]


def _encode_bytes(data: bytes) -> bytes:
    return encode_long(len(data)) + data


def _encode_text(text: str) -> bytes:
    return _encode_bytes(text.encode())


_PRIMITIVES: dict[str, Encoder] = {
    "null": lambda _: b"",
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "int": encode_long,
    "long": encode_long,
    "float": _FLOAT,
    "double": _DOUBLE,
    "bytes": _encode_bytes,
    "string": _encode_text,
}


def _fixed_encoder(size: int) -> Encoder:
    def encode(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes do not fit a fixed of {size}")
        return data

    return encode


def _optional(kind: Sequence[AvroType]) -> Encoder:
    if len(kind) != 2 or kind[0] != "null":
        raise ValueError("only unions of null and one type are written")
    inner = encoder(kind[1])

    def encode(value: Any) -> bytes:
        return b"\x00" if value is None else b"\x02" + inner(value)

    return encode


def _record(parts: Sequence[Encoder]) -> Encoder:
    def encode(values: Iterable[Any]) -> bytes:
        return b"".join([part(value) for part, value in zip(parts, values, strict=True)])

    return encode


def _array(item: Encoder) -> Encoder:
    def encode(values: Sequence[Any]) -> bytes:
        if not values:
            return b"\x00"
        return b"".join([encode_long(len(values)), *[item(value) for value in values], b"\x00"])

    return encode


def _id_map(kind: AvroType) -> Encoder:
    key, value = (encoder(field["type"]) for field in kind["items"]["fields"])

    def encode(pairs: Mapping[int, Any]) -> bytes:
        if not pairs:
            return b"\x00"
        body = b"".join([key(field_id) + value(data) for field_id, data in pairs.items()])
        # A negative count is followed by the size in bytes, so that readers can skip the map in one step.
        return b"".join((encode_long(-len(pairs)), encode_long(len(body)), body, b"\x00"))

    return encode
