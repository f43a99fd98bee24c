"""The Avro schema of a table's data files: Iceberg types as Avro types with field ids, and the schema without logical types that is used to encode records.

The schemas of manifests are in `spec/manifest/manifest_schema.py`. Spec: Appendix A, Avro.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.spec.manifest.partition_values import avro_name
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)

ORIGINAL_NAME = "iceberg-field-name"
ADJUST_TO_UTC = "adjust-to-utc"
_UUID_BYTES = 16
_PRIMITIVES: Mapping[type[IcebergType], Any] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    GeometryType: "bytes",
    GeographyType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", ADJUST_TO_UTC: False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", ADJUST_TO_UTC: True},
    TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", ADJUST_TO_UTC: False},
    TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", ADJUST_TO_UTC: True},
}


def decimal_width(precision: int) -> int:
    """Return the smallest number of bytes that can hold every number of `precision` digits in two's complement."""
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1


def record_schema(fields: tuple[NestedField, ...]) -> dict[str, Any]:
    """Return the Avro schema of a table's rows, named `table` as in Java. The caller leaves out fields of unknown type."""
    return _record("table", fields, set())


def _record(name: str, fields: tuple[NestedField, ...], named: set[str]) -> dict[str, Any]:
    members = []
    for field in fields:
        avro_field_name = avro_name(field.name)
        member: dict[str, Any] = {"name": avro_field_name, "type": _optional(field, named), "field-id": field.field_id}
        if not field.required:
            member["default"] = None
        if field.doc is not None:
            member["doc"] = field.doc
        if avro_field_name != field.name:
            member[ORIGINAL_NAME] = field.name
        members.append(member)
    return {"type": "record", "name": name, "fields": members}


def _optional(field: NestedField, named: set[str]) -> Any:
    kind = _type(field, named)
    return kind if field.required else ["null", kind]


def _type(field: NestedField, named: set[str]) -> Any:
    kind = field.field_type
    if isinstance(kind, StructType):
        return _record(f"r{field.field_id}", kind.fields, named)
    if isinstance(kind, ListType):
        return {"type": "array", "items": _optional(kind.element_field, named), "element-id": kind.element_id}
    if isinstance(kind, MapType):
        return _map(kind, named)
    if isinstance(kind, VariantType):
        members = [{"name": name, "type": "bytes"} for name in ("metadata", "value")]
        return {"type": "record", "name": f"r{field.field_id}", "fields": members, "logicalType": "variant"}
    if isinstance(kind, DecimalType):
        attributes = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return _fixed_type(f"decimal_{kind.precision}_{kind.scale}", decimal_width(kind.precision), named, attributes)
    if isinstance(kind, UUIDType):
        return _fixed_type("uuid_fixed", _UUID_BYTES, named, {"logicalType": "uuid"})
    if isinstance(kind, FixedType):
        return _fixed_type(f"fixed_{kind.length}", kind.length, named, {})
    return _PRIMITIVES[type(kind)]


def _map(kind: MapType, named: set[str]) -> dict[str, Any]:
    if isinstance(kind.key_type, StringType):
        return {"type": "map", "values": _optional(kind.value_field, named), "key-id": kind.key_id, "value-id": kind.value_id}
    pair = _record(f"k{kind.key_id}_v{kind.value_id}", (kind.key_field, kind.value_field), named)
    return {"type": "array", "items": pair, "logicalType": "map"}


def _fixed_type(name: str, size: int, named: set[str], attributes: Mapping[str, Any]) -> Any:
    # Avro defines a named type once and refers to it by name.
    if name in named:
        return name
    named.add(name)
    return {"type": "fixed", "name": name, "size": size, **attributes}


def without_logical_types(schema: Any) -> Any:
    """Return the schema without logical types, so that values are numbers, bytes and text: a date that Python cannot represent is still a number."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {
            key: without_logical_types(value) if key in ("type", "items", "values") else _members(key, value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    return schema


def _members(key: str, value: Any) -> Any:
    return [without_logical_types(member) for member in value] if key == "fields" else value
