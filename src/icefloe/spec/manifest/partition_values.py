"""Partition values in Avro: their types and names in a manifest's schema, and the conversion between physical values and Avro values.

Spec: Appendix A, Avro; Partition Transforms.
"""

import uuid
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.errors import InvalidInputError
from icefloe.spec.arrow_values import MALLOC, array_of, numpy_of, validity_buffer
from icefloe.spec.avro.avro_schema import AvroType, field, record
from icefloe.spec.byte_columns import DECIMAL_WIDTH, decimal_words, spans_of
from icefloe.spec.partitioning.partition_spec import UntypedPartition
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
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
)
from icefloe.spec.values import unscaled_value

_AVRO_TYPES: dict[type[PrimitiveType], AvroType] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
    UnknownType: "null",
    StringType: "string",
    BinaryType: "bytes",
    UUIDType: {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
}
# The context for decimals of 38 digits, the largest precision.
_WIDE = Context(prec=38)
# For each type of the Avro reader, the types that it may be converted to. Others are refused, because Arrow would also convert text to numbers.
_CONVERSIONS = (
    (pa.types.is_integer, (pa.types.is_integer,)),
    (pa.types.is_floating, (pa.types.is_floating,)),
    (pa.types.is_binary, (pa.types.is_string, pa.types.is_decimal)),
    (pa.types.is_fixed_size_binary, (pa.types.is_string, pa.types.is_binary, pa.types.is_decimal)),
    (pa.types.is_list, (pa.types.is_list,)),
)


def primitive(kind: IcebergType) -> PrimitiveType:
    """Return the result type of a partition field as a primitive type.

    Raises:
        InvalidInputError: the type is not primitive.
    """
    if not isinstance(kind, PrimitiveType):
        raise InvalidInputError(f"a partition value cannot be of type {kind}")
    return kind


def decimal_width(precision: int) -> int:
    """Return the least number of bytes that can represent every decimal of this precision, such as 4 for 9 digits."""
    return int(10**precision).bit_length() // 8 + 1


def avro_type(kind: PrimitiveType) -> AvroType:
    """Return the Avro type of a partition value."""
    if isinstance(kind, FixedType):
        return {"type": "fixed", "name": f"fixed_{kind.length}", "size": kind.length}
    if isinstance(kind, DecimalType):
        name = f"decimal_{kind.precision}_{kind.scale}"
        shape = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "fixed", "name": name, "size": decimal_width(kind.precision), **shape}
    return _AVRO_TYPES[type(kind)]


def avro_name(name: str) -> str:
    """Return a partition field's name in a form that Avro allows, as Java does: `_` before a leading digit, and `_x` with the hex code for other characters.

    Java keeps letters beyond ASCII, which Avro does not allow and some readers refuse; here they are replaced too. No reader uses this name.
    """
    signs = [sign if _is_allowed(sign, index) else _replace_sign(sign, index) for index, sign in enumerate(name)]
    return "".join(signs)


def _is_allowed(sign: str, index: int) -> bool:
    return sign == "_" or (sign.isalpha() and sign.isascii()) or (index > 0 and sign.isdigit() and sign.isascii())


def _replace_sign(sign: str, index: int) -> str:
    if index == 0 and sign.isdigit() and sign.isascii():
        return f"_{sign}"
    # Java works on UTF-16 units, so a character beyond the basic plane becomes two codes.
    units = sign.encode("utf-16-be")
    return "".join(f"_x{int.from_bytes(units[at : at + 2], 'big'):X}" for at in range(0, len(units), 2))


def partition_record(partition_type: StructType) -> AvroType:
    """Return the Avro record `r102` of partition tuples. A named type that occurs again is referenced by its name, as Avro requires."""
    named: set[str] = set()
    fields = []
    for part in partition_type.fields:
        kind = avro_type(primitive(part.field_type))
        if isinstance(kind, dict) and "name" in kind:
            type_name = kind["name"]
            kind = type_name if type_name in named else kind
            named.add(type_name)
        name = avro_name(part.name)
        original = {"iceberg-field-name": part.name} if name != part.name else {}
        # A value of unknown type is always null, so its Avro type is null, without a union.
        fields.append(field(part.field_id, name, kind, required=kind == "null", **original))
    return record("r102", fields)


def _decimal_reader(scale: int) -> Callable[[bytes], Decimal]:
    return lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _WIDE)


def value_reader(part: NestedField) -> Callable[[Any], Any] | None:
    """Return a function that converts a value of a partition field from the Avro reader to the physical value; None if no conversion is needed."""
    if isinstance(part, UntypedPartition):
        return _as_text
    kind = primitive(part.field_type)
    if isinstance(kind, StringType):
        return lambda raw: str(raw, "utf-8")
    if isinstance(kind, UUIDType):
        return lambda raw: uuid.UUID(bytes=raw)
    if isinstance(kind, DecimalType):
        return _decimal_reader(kind.scale)
    return None


def written_array(part: NestedField, array: Any) -> Any:
    """Convert a column of physical values (see `values.physical_arrow_type`) to what the Avro writer takes: decimals become big-endian bytes of fixed width.

    Raises:
        pyarrow.ArrowException: a value does not fit.
    """
    kind = primitive(part.field_type)
    if not isinstance(kind, DecimalType):
        return array
    plain = array.cast(pa.decimal128(kind.precision, kind.scale))
    words = np.frombuffer(plain.buffers()[1], np.uint8).reshape(-1, DECIMAL_WIDTH)[plain.offset : plain.offset + len(plain)]
    size = decimal_width(kind.precision)
    data = np.ascontiguousarray(words[:, :size][:, ::-1])
    return pa.Array.from_buffers(pa.binary(size), len(plain), [validity_buffer(numpy_of(plain.is_valid())), pa.py_buffer(data)])


def untyped_array(array: Any) -> Any:
    """Return a column of an `UntypedPartition` as an Arrow string array, whatever type the writer of the manifest used."""
    return array_of([None if value is None else _as_text(value) for value in array.to_pylist()], pa.string())


def typed_array(array: Any, kind: Any) -> Any:
    """Convert a column from the Avro reader's type (integers of 64 bits, text as binary, decimals as big-endian fixed) to an Arrow type.

    Raises:
        pyarrow.ArrowException: a value does not fit.
    """
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind, memory_pool=MALLOC)
    if not any(is_source(array.type) and any(is_target(kind) for is_target in targets) for is_source, targets in _CONVERSIONS):
        raise pa.ArrowTypeError(f"the writer has {array.type}")
    if not pa.types.is_decimal(kind):
        return array.cast(kind, memory_pool=MALLOC)
    words, valid = decimal_words(spans_of(array))
    wide = pa.Array.from_buffers(pa.decimal128(_WIDE.prec, kind.scale), len(valid), [validity_buffer(valid), pa.py_buffer(words)])
    return wide.cast(kind, memory_pool=MALLOC)


def _as_text(raw: Any) -> str:
    """Convert a value to text. Different values of one type have different texts."""
    if not isinstance(raw, bytes):
        return str(raw)
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        return f"0x{raw.hex()}"


def convert_values(read: Callable[[Any], Any] | None, values: list[Any]) -> list[Any]:
    """Apply a result of `value_reader` to the values of a column. None values stay None. If the result is None, all values are unchanged."""
    return values if read is None else [None if value is None else read(value) for value in values]


def is_written_as_it_is(partition_type: StructType) -> bool:
    """Return True if the Avro encoder accepts the physical values of every field, so that `tuple_writer` is not needed."""
    return not any(_writer(primitive(part.field_type)) for part in partition_type.fields)


def tuple_writer(partition_type: StructType) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """Return a function that converts a tuple of physical values to the values that the Avro encoder takes, in the same order."""
    writers = [_writer(primitive(part.field_type)) for part in partition_type.fields]
    if not any(writers):
        return lambda values: values

    def write(values: tuple[Any, ...]) -> list[Any]:
        pairs = zip(writers, values, strict=True)
        return [value if value is None or writer is None else writer(value) for writer, value in pairs]

    return write


def _writer(kind: PrimitiveType) -> Callable[[Any], Any] | None:
    if isinstance(kind, UUIDType):
        return lambda value: value.bytes
    if isinstance(kind, DecimalType):
        size, scale = decimal_width(kind.precision), kind.scale
        return lambda value: unscaled_value(value, scale).to_bytes(size, "big", signed=True)
    return None
