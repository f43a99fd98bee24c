"""Conversion of types and fields to Arrow. `arrow_schema.py` converts whole schemas, and also from Arrow. Spec: Schemas and Data Types; Appendix A."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icefloe.errors import InvalidSchemaError
from icefloe.spec.schema.arrow_extensions import VARIANT_STORAGE, extension_metadata
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
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

# The key of the field id in a field's metadata, for Arrow's Parquet writer and reader.
FIELD_ID_KEY = b"PARQUET:field_id"
DOC_KEY = b"doc"
_UUID_BYTES = 16

_ARROW_TYPES: Mapping[type[PrimitiveType], Any] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    UUIDType: pa.binary(_UUID_BYTES),
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
    UnknownType: pa.null(),
}


def field_to_arrow(field: NestedField, *, uuid_type: pa.DataType | None = None) -> pa.Field:
    """Return a column as an Arrow field. Required columns are not nullable; the metadata of variants and shapes has their extension types.

    Args:
        field: The column.
        uuid_type: The type of UUIDs; by default the 16 bytes that files store.
    """
    metadata = {FIELD_ID_KEY: str(field.field_id).encode()} | extension_metadata(field.field_type)
    if field.doc is not None:
        metadata[DOC_KEY] = field.doc.encode()
    return pa.field(field.name, type_to_arrow(field.field_type, uuid_type=uuid_type), nullable=not field.required, metadata=metadata)


def type_to_arrow(kind: IcebergType, *, uuid_type: pa.DataType | None = None) -> pa.DataType:
    """Return the Arrow type of an Iceberg type's values in memory. A variant is a struct of `metadata` and `value`, and a shape is WKB.

    Args:
        kind: The Iceberg type.
        uuid_type: The type of UUIDs; by default the 16 bytes that files store.

    Raises:
        InvalidSchemaError: `kind` is not an Iceberg type.
    """
    if isinstance(kind, UUIDType) and uuid_type is not None:
        return uuid_type
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(kind.length)
    if isinstance(kind, PrimitiveType) and type(kind) in _ARROW_TYPES:
        return _ARROW_TYPES[type(kind)]
    if isinstance(kind, StructType):
        return pa.struct([field_to_arrow(field, uuid_type=uuid_type) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(field_to_arrow(kind.element_field, uuid_type=uuid_type))
    if isinstance(kind, MapType):
        return pa.map_(field_to_arrow(kind.key_field, uuid_type=uuid_type), field_to_arrow(kind.value_field, uuid_type=uuid_type))
    if isinstance(kind, VariantType):
        return VARIANT_STORAGE
    raise InvalidSchemaError(f"{kind!r} is not an Iceberg type")
