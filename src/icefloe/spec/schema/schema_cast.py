"""Casts Arrow rows to a table's schema: matches columns by name, widens types if no value changes, and fills missing columns with their default or nulls.

If rows do not fit the schema, an error lists every column that does not fit, before anything is written. Spec: Schemas and Data Types; Schema Evolution (valid
type promotions); Default values.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import Problem, SchemaMismatchError
from icefloe.spec.byte_columns import rows_starting_with, spans_of
from icefloe.spec.schema.arrow_extensions import UNSPECIFIED_CRS, VARIANT_STORAGE, extension_type, variant_storage_fault
from icefloe.spec.schema.arrow_schema import is_any_list, plain_type, primitive_from_arrow, schema_to_arrow
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.schema.default_values import missing_column_problems, write_default_column
from icefloe.spec.schema.schema import Schema
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
    children,
)
from icefloe.spec.wkb import WKB_HEAD, is_wkb_head

_UUID_BYTES = 16
_SHAPES = (GeometryType, GeographyType)
# The storage of a variant as a struct type. Its field ids are never written.
_VARIANT_STRUCT = StructType(NestedField(-1, "metadata", BinaryType(), True), NestedField(-2, "value", BinaryType(), True))
_VARIANT_VERSION = 1
# A variant whose value is null.
_VARIANT_PLACEHOLDER = {"metadata": b"\x01\x00\x00", "value": b"\x00"}


def cast_to_schema(table: pa.Table, schema: Schema) -> pa.Table:
    """Cast rows to the table's columns, in the table's order and Arrow types, with field ids in the field metadata.

    Columns that already have the right type are not copied.

    Raises:
        SchemaMismatchError: A required column is missing or has nulls, a column is not in the table, or a type does not fit. Every such column is listed with
            the difference.
    """
    check_fits(table.schema, schema)
    problems: list[Problem] = []
    columns = []
    for field in schema.fields:
        position = table.schema.get_field_index(field.name)
        if position < 0:
            columns.append(_missing(field, table.num_rows))
        else:
            columns.append(_column(table.column(position), field, problems))
    _refuse(problems)
    return pa.Table.from_arrays(columns, schema=schema_to_arrow(schema))


def check_fits(rows: pa.Schema, schema: Schema) -> None:
    """Check the names and types of the columns of rows, before any row is read.

    Raises:
        SchemaMismatchError: As in `cast_to_schema`, but nulls and values are not checked.
    """
    _refuse(list(_struct_problems(list(rows), schema.fields, ())))


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise SchemaMismatchError(
            "the rows do not fit the table",
            problems=problems,
            next_step="rename, cast, add or drop these columns, or change the table's schema",
        )


# ---- names and types ----


def _struct_problems(row_fields: Sequence[pa.Field], table_fields: Sequence[NestedField], path: tuple[str, ...]) -> Iterator[Problem]:
    by_name: dict[str, pa.Field] = {}
    for field in row_fields:
        if field.name in by_name:
            yield Problem(where=".".join((*path, field.name)), what="is the name of two columns of the rows")
        by_name[field.name] = field
    names = {field.name for field in table_fields}
    for target in table_fields:
        where = (*path, target.name)
        if target.name in by_name:
            yield from _type_problems(by_name[target.name], target, where)
        else:
            for problem in missing_column_problems(target, where):
                yield Problem(where=problem.where, what=f"{problem.what}{_case_hint(target.name, by_name)}")
    for name in by_name:
        if name not in names:
            yield Problem(where=".".join((*path, name)), what=f"is not a column of the table{_case_hint(name, names)}")


def _case_hint(name: str, others: Any) -> str:
    close = next((other for other in others if other != name and other.lower() == name.lower()), None)
    return "" if close is None else f"; there is {close!r}, and names are case-sensitive"


def _type_problems(row_field: pa.Field, target: NestedField, path: tuple[str, ...]) -> Iterator[Problem]:
    kind, target_type = plain_type(row_field.type), target.field_type
    where = ".".join(path)
    if pa.types.is_null(kind) or isinstance(target_type, UnknownType):
        return  # nulls in required columns and values in unknown columns are found when the values are cast
    if isinstance(target_type, VariantType):
        problem = variant_storage_fault(kind)
        if problem is not None:
            yield Problem(where=where, what=problem)
    elif isinstance(target_type, _SHAPES) and (other := _other_shape(row_field, target_type)) is not None:
        yield Problem(where=where, what=f"is {other} in the rows, which does not fit {target_type} in the table")
    elif isinstance(target_type, PrimitiveType):
        if not _widens(kind, target_type):
            yield Problem(where=where, what=f"is {row_field.type} in the rows, which does not fit {target_type} in the table")
    elif isinstance(target_type, StructType) and pa.types.is_struct(kind):
        yield from _struct_problems([kind.field(position) for position in range(kind.num_fields)], target_type.fields, path)
    elif isinstance(target_type, ListType) and is_any_list(kind):
        yield from _type_problems(kind.value_field, target_type.element_field, (*path, "element"))
    elif isinstance(target_type, MapType) and pa.types.is_map(kind):
        yield from _type_problems(kind.key_field, target_type.key_field, (*path, "key"))
        yield from _type_problems(kind.item_field, target_type.value_field, (*path, "value"))
    else:
        yield Problem(where=where, what=f"is {row_field.type} in the rows, which does not fit {target_type} in the table")


def _other_shape(row_field: pa.Field, target: IcebergType) -> IcebergType | str | None:
    """Return why a column of shapes does not fit the table's type: its different shape type, or a fault as text. Return None if it fits, as plain WKB does."""
    shape = extension_type(row_field)
    has_no_crs = isinstance(shape, GeometryType) and shape.crs == UNSPECIFIED_CRS and isinstance(target, GeometryType)
    return None if shape == target or has_no_crs else shape


def _widens(kind: pa.DataType, target: PrimitiveType) -> bool:
    """Return True if the Arrow type can be cast to the Iceberg type without a change of values.

    Nanoseconds are accepted here, and the cast refuses values that are not whole microseconds.
    """
    if pa.types.is_timestamp(kind):
        return isinstance(target, (TimestampType, TimestampNanoType) if kind.tz is None else (TimestamptzType, TimestamptzNanoType))
    if pa.types.is_time(kind):
        return isinstance(target, TimeType)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == _UUID_BYTES and isinstance(target, UUIDType):
        return True
    source = primitive_from_arrow(kind)
    if isinstance(source, str):
        return False
    if isinstance(source, DecimalType) and isinstance(target, DecimalType):
        return source.scale == target.scale and source.precision <= target.precision
    return source == target or (type(source), type(target)) in _WIDENINGS


# The format's promotions, fixed to binary, and WKB to shapes.
_WIDENINGS = frozenset(
    {
        (IntegerType, LongType),
        (FloatType, DoubleType),
        (DateType, TimestampType),
        (DateType, TimestampNanoType),
        (FixedType, BinaryType),
        (BinaryType, GeometryType),
        (BinaryType, GeographyType),
    }
)


# ---- values ----


def _column(column: pa.ChunkedArray, field: NestedField, problems: list[Problem]) -> pa.ChunkedArray:
    chunk_problems: list[Problem] = []
    chunks = [_array(chunk, field, (field.name,), chunk_problems) for chunk in column.chunks]
    seen: set[str] = set()
    for problem in chunk_problems:  # report a problem for the column once, not for each chunk
        if str(problem) not in seen:
            seen.add(str(problem))
            problems.append(problem)
    if chunk_problems:
        return column
    return pa.chunked_array(chunks, type_to_arrow(field.field_type))


def _array(array: pa.Array, field: NestedField, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    """Cast an array to the field's Arrow type. If values do not fit, the problem is added to `problems`, and the result must not be used."""
    decoded = decoded_array(array)  # `null_count` does not count nulls in the dictionary or the runs of an encoded array
    if field.required and decoded.null_count:
        problems.append(Problem(where=".".join(path), what=f"has {decoded.null_count} nulls, and is required"))
        return array
    target = type_to_arrow(field.field_type)
    if pa.types.is_null(array.type):
        return _nulls(field.field_type, len(array))
    if isinstance(field.field_type, UnknownType):
        return _only_nulls(decoded, path, problems)
    if array.type.equals(target) and not _has_required_inside(field.field_type) and not isinstance(field.field_type, _SHAPES):
        return array
    array = decoded
    if isinstance(field.field_type, VariantType):
        return _variant(array, path, problems)
    if isinstance(field.field_type, _SHAPES):
        return _shape(array, field.field_type, path, problems)
    if isinstance(field.field_type, StructType):
        return _struct(array, field.field_type, target, path, problems)
    if isinstance(field.field_type, ListType):
        return _list(array, field.field_type, path, problems)
    if isinstance(field.field_type, MapType):
        return _map(array, field.field_type, path, problems)
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        problems.append(Problem(where=".".join(path), what=f"has values that do not fit {field.field_type}: {error}"))
        return array


def _only_nulls(array: pa.Array, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    values = len(array) - array.null_count
    if values:
        problems.append(
            Problem(
                where=".".join(path), what=f"has {values} values, and an unknown column contains only nulls; give the column a type first"
            )
        )
    return pa.nulls(len(array))


def _variant(array: pa.Array, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    """Cast variants, with `metadata` before `value`. Only the first bytes of each value are checked."""
    variants = _struct(array, _VARIANT_STRUCT, VARIANT_STORAGE, path, problems)
    if not problems:
        metadata, value = variants.drop_null().flatten()
        _, heads = rows_starting_with(spans_of(metadata), 1)
        wrong = len(metadata) - int((heads[:, 0] & 0x0F == _VARIANT_VERSION).sum()) + int((spans_of(value).lengths == 0).sum())
        if wrong:
            problems.append(
                Problem(where=".".join(path), what=f"has {wrong} values that are not variants of encoding version {_VARIANT_VERSION}")
            )
    return variants


def _shape(array: pa.Array, kind: IcebergType, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    """Cast WKB. Only the byte order and the kind of each shape are checked."""
    shapes = array.cast(pa.binary())
    _, heads = rows_starting_with(spans_of(shapes), WKB_HEAD)
    wrong = len(shapes) - shapes.null_count - int(is_wkb_head(heads).sum())
    if wrong:
        problems.append(Problem(where=".".join(path), what=f"has {wrong} values that are not shapes in ISO WKB, the form of {kind}"))
    return shapes


def _has_required_inside(kind: IcebergType) -> bool:
    return isinstance(kind, VariantType) or any((child.required or _has_required_inside(child.field_type)) for child in children(kind))


def decoded_array(array: pa.Array) -> pa.Array:
    """Return an array with a dictionary, run-length or extension type as an array of its values. Other arrays are returned unchanged."""
    if isinstance(array, pa.ExtensionArray):
        return decoded_array(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _without_views(decoded_array(array.dictionary)).take(array.indices)
    if isinstance(array, pa.RunEndEncodedArray):
        values = _without_views(decoded_array(array.values))
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(array.run_ends, values).slice(array.offset, len(array)))
    return array


def _without_views(array: pa.Array) -> pa.Array:
    """Cast string and binary views to types that Arrow's `take` supports. The dictionaries of Polars contain string views."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


def _struct(array: pa.StructArray, kind: StructType, target: pa.DataType, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    # The fields of null structs have no values, so only non-null structs are checked.
    is_valid = array.is_valid() if array.null_count else None
    present = array if is_valid is None else array.drop_null()
    names = [array.type.field(position).name for position in range(array.type.num_fields)]
    parts = dict(zip(names, present.flatten(), strict=True))
    columns = []
    for field in kind.fields:
        if field.name in parts:
            column = _array(parts[field.name], field, (*path, field.name), problems)
        else:
            column = _missing(field, len(present))
        columns.append(column)
    if problems or not columns:
        return array
    fields = list(target)
    if is_valid is None:
        return pa.StructArray.from_arrays(columns, fields=fields)
    spread = [_spread(column, field, is_valid) for column, field in zip(columns, kind.fields, strict=True)]
    return pa.StructArray.from_arrays(spread, fields=fields, mask=pc.invert(is_valid))


def _spread(column: pa.Array, field: NestedField, is_valid: pa.BooleanArray) -> pa.Array:
    """Return a struct field's values for all rows. `column` has its values in non-null structs; in null structs it is null, or a placeholder if required."""
    positions = pc.subtract(pc.cumulative_sum(is_valid.cast(pa.int64())), 1)
    filling = pa.array([_placeholder(field.field_type)], column.type) if field.required else _nulls(field.field_type, 1)
    return pa.concat_arrays([column, filling]).take(pc.if_else(is_valid, positions, len(column)))


def _missing(field: NestedField, count: int) -> pa.Array:
    return _nulls(field.field_type, count) if field.write_default is None else write_default_column(field, count)


def _nulls(kind: IcebergType, count: int) -> pa.Array:
    """Return an array of nulls that can be written to Parquet, where required fields of a null struct must not be null: they contain a placeholder."""
    target = type_to_arrow(kind)
    if isinstance(kind, VariantType):
        kind = _VARIANT_STRUCT
    if not isinstance(kind, StructType) or not _has_required_inside(kind):
        return pa.nulls(count, target)
    columns = []
    for field, inner in zip(kind.fields, target, strict=True):
        stand_ins = pa.array([_placeholder(field.field_type)] * count, inner.type) if field.required else _nulls(field.field_type, count)
        columns.append(stand_ins)
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=pa.array([True] * count, pa.bool_()))


def _placeholder(kind: IcebergType) -> Any:
    """Return an arbitrary non-null value of the type, as a Python value that Arrow accepts."""
    if isinstance(kind, StructType):
        return {field.name: _placeholder(field.field_type) if field.required else None for field in kind.fields}
    if isinstance(kind, ListType | MapType):
        return []
    if isinstance(kind, FixedType | UUIDType):
        return bytes(kind.length if isinstance(kind, FixedType) else _UUID_BYTES)
    return _PLACEHOLDERS.get(type(kind), 0)


_PLACEHOLDERS: Mapping[type[IcebergType], Any] = {
    StringType: "",
    BinaryType: b"",
    BooleanType: False,
    VariantType: _VARIANT_PLACEHOLDER,
    GeometryType: b"",
    GeographyType: b"",
}


def _list(array: pa.Array, kind: ListType, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    # `flatten` drops the values of null lists, so the offsets must be computed again.
    values = _array(array.flatten(), kind.element_field, (*path, "element"), problems)
    if problems:
        return array
    offsets = _offsets(array, pc.list_value_length(array))
    return pa.ListArray.from_arrays(offsets, values, type=type_to_arrow(kind), mask=array.is_null() if array.null_count else None)


def _map(array: pa.MapArray, kind: MapType, path: tuple[str, ...], problems: list[Problem]) -> pa.Array:
    entries = array.drop_null() if array.null_count else array
    entries = pa.concat_arrays([entries])  # a copy, because a slice still contains all keys of the original array
    start, end = (entries.offsets[0].as_py(), entries.offsets[len(entries)].as_py()) if len(entries) else (0, 0)
    keys = _array(entries.keys[start:end], kind.key_field, (*path, "key"), problems)
    items = _array(entries.items[start:end], kind.value_field, (*path, "value"), problems)
    if problems:
        return array
    mask = array.is_null() if array.null_count else None
    offsets = _offsets(array, pc.subtract(array.offsets[1:], array.offsets[:-1]))
    return pa.MapArray.from_arrays(offsets, keys, items, type=type_to_arrow(kind), mask=mask)


def _offsets(array: pa.Array, lengths: pa.Array) -> pa.Array:
    """Return new offsets for the lists or maps of an array, which start with 0 and give null lists the length 0."""
    lengths = lengths.cast(pa.int64())
    if array.null_count:
        lengths = pc.if_else(array.is_valid(), lengths, 0)
    return pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
