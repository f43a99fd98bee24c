"""Default values of columns: their validation, and arrays of them for readers and writers.

`initial-default` is the value of rows in files that lack the column. `write-default` is written for rows without the column. The reader
(`datafile/projection.py`) and the writer (`schema_cast.py`) find the rows that lack a column. `Schema` checks the defaults of every schema. Spec: Default
values.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from icefloe.errors import FormatError, InvalidInputError, InvalidSchemaError, Problem
from icefloe.spec.nested_values import default_problem, nested_to_physical
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.schema.version_rules import FIRST_VERSION_OF_DEFAULTS
from icefloe.spec.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType, UnknownType

# Returns one of the two defaults of a field.
_Pick = Callable[[NestedField], Any]


def to_default_value(kind: IcebergType, value: Any, column: str, format_version: int) -> Any:
    """Convert a default, as a Python value or a physical value, to a physical value of the type. None stays None.

    Args:
        kind: The column's type.
        value: The Python value, or the physical value.
        column: Name of the column, for errors.
        format_version: Format version of the table.

    Raises:
        InvalidSchemaError: The value is not a valid default of the type, or the format version has no defaults.
    """
    if value is None:
        return None
    if format_version < FIRST_VERSION_OF_DEFAULTS:
        raise InvalidSchemaError(
            f"column {column} cannot have a default value: these need format version {FIRST_VERSION_OF_DEFAULTS}, "
            f"and the table has version {format_version}",
            next_step=f"upgrade the table first, with set_properties({{'format-version': '{FIRST_VERSION_OF_DEFAULTS}'}})",
        )
    try:
        physical = nested_to_physical(kind, value)
    except InvalidInputError as error:
        if default_problem(kind, value) is not None:  # neither a Python value nor a physical value of the type
            raise InvalidSchemaError(f"column {column} cannot have the default {value!r}: {error.message}") from error
        physical = value
    problem = default_problem(kind, physical)
    if problem is not None:
        raise InvalidSchemaError(f"column {column} cannot have the default {value!r}: {problem}")
    return physical


def check_struct_default(field: NestedField, column: str) -> None:
    """Check that every required field of a new struct with the default `{}` has a default of its own.

    Raises:
        InvalidSchemaError: A required field has no default.
    Spec: Default values (a field that is missing in a struct's default has its own default).
    """
    if not isinstance(field.field_type, StructType) or field.initial_default is None:
        return
    for inner in field.field_type.fields:
        if inner.required and inner.initial_default is None:
            raise InvalidSchemaError(
                f"column {column} cannot have the default {{}}: its field {inner.name} is required and has no default",
                next_step="give the field a default, or make it optional",
            )
        check_struct_default(inner, f"{column}.{inner.name}")


def initial_default_column(field: NestedField, count: int) -> pa.Array:
    """Return the values of a column for rows of a file without this column: its `initial-default`, or null.

    If the default of a struct is not null, its fields have their own defaults.

    Args:
        field: The column.
        count: Number of rows.

    Returns:
        `count` values in the column's Arrow type.

    Raises:
        FormatError: The column is required and has no default, or a required field of a struct's default has none.
    Spec: Column Projection; Default values.
    """
    return _fill_column(field, count, _initial)


def write_default_column(field: NestedField, count: int) -> pa.Array:
    """Return the values that a writer stores for rows without the column: its `write-default`, or null.

    Raises:
        FormatError: As in `initial_default_column`. `missing_column_problems` finds such columns without raising.
    Spec: Default values.
    """
    return _fill_column(field, count, _write)


def missing_column_problems(field: NestedField, path: tuple[str, ...]) -> Iterator[Problem]:
    """Yield the problem if rows must not lack the column at `path`, because it is required and has no default. Yield nothing if they may."""
    if field.write_default is None:
        if field.required:
            yield Problem(where=".".join(path), what=f"is missing, and is required ({field.field_type})")
    elif isinstance(field.field_type, StructType):
        for inner in field.field_type.fields:
            yield from missing_column_problems(inner, (*path, inner.name))


def constant_column(kind: IcebergType, value: Any, count: int) -> pa.Array:
    """Return an array that repeats a physical value `count` times, in the type's Arrow type. None is null."""
    return _repeat_value(kind, _to_arrow_value(kind, value, _initial), count)


def _initial(field: NestedField) -> Any:
    return field.initial_default


def _write(field: NestedField) -> Any:
    return field.write_default


def _fill_column(field: NestedField, count: int, pick: _Pick) -> pa.Array:
    return _repeat_value(field.field_type, _default(field, pick), count)


def _repeat_value(kind: IcebergType, value: Any, count: int) -> pa.Array:
    target = type_to_arrow(kind)
    if value is None or isinstance(kind, UnknownType):
        return pa.nulls(count, target)
    single = pa.array([value], target)
    return pa.repeat(single[0], count) if count else single.slice(1)  # Arrow cannot repeat a list zero times


def _default(field: NestedField, pick: _Pick) -> Any:
    value = pick(field)
    if value is None:
        if field.required:
            raise FormatError(
                f"column {field.name} (field id {field.field_id}) is required, is missing and has no default",
                next_step="read with the schema that the files were written with",
            )
        return None
    return _to_arrow_value(field.field_type, value, pick)


def _to_arrow_value(kind: IcebergType, value: Any, pick: _Pick) -> Any:
    """Convert a physical value to a Python value that `pyarrow.array` accepts for the type's Arrow type."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        values_by_id = dict(value)
        return {
            field.name: _to_arrow_value(field.field_type, values_by_id[field.field_id], pick)
            if field.field_id in values_by_id
            else _default(field, pick)
            for field in kind.fields
        }
    if isinstance(kind, ListType):
        return [_to_arrow_value(kind.element, inner, pick) for inner in value]
    if isinstance(kind, MapType):
        return [(_to_arrow_value(kind.key_type, key, pick), _to_arrow_value(kind.value_type, inner, pick)) for key, inner in value]
    if isinstance(kind, PrimitiveType) and isinstance(value, uuid.UUID):
        return value.bytes
    return value
