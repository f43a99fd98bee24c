"""Conversion of schemas to Arrow schemas and back.

`schema_cast.py` casts rows to a table's schema. Spec: Appendix A (the Arrow types determine the Parquet types); Schemas and Data Types.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from icefloe.errors import InvalidSchemaError, Problem, UnsupportedTypeError
from icefloe.spec.schema.arrow_extensions import extension_type
from icefloe.spec.schema.arrow_types import DOC_KEY, FIELD_ID_KEY, field_to_arrow
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import (
    MAX_DECIMAL_PRECISION,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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
)


def schema_to_arrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table's rows. The metadata of every field, including nested fields, has its field id."""
    return pa.schema([field_to_arrow(field) for field in schema.fields])


@dataclass(frozen=True, slots=True)
class _InOtherTypes:
    """A batch whose buffers are interpreted with the types of `schema`, which must have the same memory layout. It uses Arrow's C data interface."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema.__arrow_c_schema__(), self.batch.__arrow_c_array__()[1]


def with_uuid_type(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return the batch with its UUIDs as Arrow's uuid type, also inside structs, lists and maps. No value is copied.

    Args:
        batch: Rows in the types of `schema_to_arrow`. Arrow's cast is not used because it refuses null structs with required fields.
        schema: The columns of the rows.
    """
    return pa.record_batch(_InOtherTypes(batch, schema.as_arrow()))


def schema_from_arrow(schema: pa.Schema, *, keep_ids: bool) -> Schema:
    """Return the table schema of Arrow rows.

    Narrow integers are widened, seconds and milliseconds become microseconds, and dictionaries and views become the type of their values. Nanoseconds stay
    nanoseconds, and Arrow's null type becomes unknown. Both need format version 3: `version_rules.py` refuses them in older versions.

    Args:
        schema: The Arrow schema.
        keep_ids: True to use the field ids in the field metadata, which every column must then have. False to assign ids from 1 upwards.

    Raises:
        UnsupportedTypeError: The format has no type for a column, or its values would lose digits. Every such column is listed with a next step.
        InvalidSchemaError: Two columns have the same name, or with `keep_ids` a column has no field id.
    """
    problems: list[Problem] = []
    numbers = count(1)
    missing: list[str] = []

    def field_id(field: pa.Field, path: str) -> int:
        if not keep_ids:
            return next(numbers)
        text = (field.metadata or {}).get(FIELD_ID_KEY)
        if text is None or not text.lstrip(b"-").isdigit():
            missing.append(path)
            return -1 - len(missing)
        return int(text)

    fields = [_field(field, field.name, field_id, problems) for field in schema]
    if problems:
        listed = ", ".join(problem.where for problem in problems)
        raise UnsupportedTypeError(f"columns of types that a table cannot have: {listed}", problems=problems)
    if missing:
        raise InvalidSchemaError(f"columns without a field id: {', '.join(missing)}")
    table_schema = Schema(*fields)
    return table_schema if keep_ids or not fields else assign_fresh_ids(table_schema)


def to_schema(schema: object) -> Schema:
    """Return the schema that a user passed: a `Schema` is returned unchanged, and an Arrow schema is converted with ids from 1 upwards.

    Raises:
        InvalidSchemaError: The value is neither a `Schema` nor an Arrow schema.
        UnsupportedTypeError: The format has no type for a column.
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return assign_fresh_ids(schema_from_arrow(schema, keep_ids=False))
    raise InvalidSchemaError(
        f"a schema of type {type(schema).__qualname__} is not supported", next_step="pass a pyarrow.Schema or an icefloe Schema"
    )


_FieldId = Callable[[pa.Field, str], int]


def _field(field: pa.Field, path: str, field_id: _FieldId, problems: list[Problem]) -> NestedField:
    number = field_id(field, path)
    doc = (field.metadata or {}).get(DOC_KEY)
    kind = _field_type(field, path, field_id, problems)
    return NestedField(number, field.name, kind, not field.nullable, None if doc is None else doc.decode())


def _field_type(field: pa.Field, path: str, field_id: _FieldId, problems: list[Problem]) -> IcebergType:
    extension = extension_type(field)
    if isinstance(extension, str):
        problems.append(Problem(where=path, what=extension))
        return BooleanType()  # any type will do: the caller raises
    return _type(field.type, path, field_id, problems) if extension is None else extension


def _type(kind: pa.DataType, path: str, field_id: _FieldId, problems: list[Problem]) -> IcebergType:
    kind = plain_type(kind)
    if pa.types.is_struct(kind):
        inner = [kind.field(position) for position in range(kind.num_fields)]
        return StructType(*(_field(field, f"{path}.{field.name}", field_id, problems) for field in inner))
    if is_any_list(kind):
        element = _field(kind.value_field, f"{path}.element", field_id, problems)
        return ListType(element_id=element.field_id, element=element.field_type, element_required=element.required)
    if pa.types.is_map(kind):
        key = _field(kind.key_field, f"{path}.key", field_id, problems)
        value = _field(kind.item_field, f"{path}.value", field_id, problems)
        return MapType(
            key_id=key.field_id,
            key_type=key.field_type,
            value_id=value.field_id,
            value_type=value.field_type,
            value_required=value.required,
        )
    primitive = primitive_from_arrow(kind)
    if isinstance(primitive, str):
        problems.append(Problem(where=path, what=f"{kind}: {primitive}"))
        return BooleanType()  # any type will do: the caller raises
    return primitive


def is_any_list(kind: pa.DataType) -> bool:
    """Return True if the type is one of Arrow's five list types."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, without a dictionary, run-length or extension type around it. `arrow.uuid` is kept."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid":
        return plain_type(kind.storage_type)
    return kind


def primitive_from_arrow(kind: pa.DataType) -> PrimitiveType | str:
    """Return the primitive Iceberg type for all values of an Arrow type, or the reason as text if there is none."""
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid":
        return UUIDType()
    for is_kind, primitive in _SIMPLE:
        if is_kind(kind):
            return primitive
    if pa.types.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    if pa.types.is_decimal(kind):
        if kind.precision > MAX_DECIMAL_PRECISION or not 0 <= kind.scale <= kind.precision:
            return f"a decimal has at most {MAX_DECIMAL_PRECISION} digits and a scale from 0 to its precision; cast it to one"
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return TimestampNanoType() if kind.tz is None else TimestamptzNanoType()
        return TimestampType() if kind.tz is None else TimestamptzType()
    return next((why for is_kind, why in _REFUSED if is_kind(kind)), "the format has no such type; cast the column to a type of the format")


def _is_narrow_integer(kind: pa.DataType) -> bool:
    return any(kind.equals(narrow) for narrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time(kind) and kind.unit != "ns")


def _simple() -> Iterator[tuple[Callable[[pa.DataType], bool], PrimitiveType]]:
    yield pa.types.is_boolean, BooleanType()
    yield pa.types.is_null, UnknownType()
    yield _is_narrow_integer, IntegerType()
    yield lambda kind: bool(kind.equals(pa.int64()) or kind.equals(pa.uint32())), LongType()
    yield lambda kind: bool(pa.types.is_float16(kind) or pa.types.is_float32(kind)), FloatType()
    yield pa.types.is_float64, DoubleType()
    yield pa.types.is_date, DateType()
    yield _is_time, TimeType()
    yield lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)), StringType()
    yield lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)), BinaryType()


_SIMPLE = tuple(_simple())
_REFUSED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_uint64, "the largest integer of the format is signed 64-bit; cast the column to int64 or decimal(20, 0)"),
    (pa.types.is_time, "a time keeps microseconds; cast the column to time64('us')"),
)
