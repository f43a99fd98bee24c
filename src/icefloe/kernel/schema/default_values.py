"""Columns full of a default: what a reader sees where a file lacks the column, and what a writer puts where rows come without it.

Which rows lack a column is found by who reads (`datafile/projection.py`) or writes (`schema_cast.py`). Spec: Default values.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from icefloe.errors import FormatError, InvalidInputError, InvalidSchemaError, Problem
from icefloe.kernel.nested_values import default_problem, nested_to_physical
from icefloe.kernel.schema.arrow_schema import type_to_arrow
from icefloe.kernel.schema.version_rules import FIRST_VERSION_OF_DEFAULTS
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType, UnknownType

# Which of a field's two defaults.
_Pick = Callable[[NestedField], Any]


def to_default_value(kind: IcebergType, value: Any, column: str, format_version: int) -> Any:
    """The physical default that a Python value, or a physical one, is for a column of the type; None for none.

    Raises:
        InvalidSchemaError: the type has no such default, or the format version no defaults at all.
    """
    if value is None:
        return None
    if format_version < FIRST_VERSION_OF_DEFAULTS:
        raise InvalidSchemaError(
            f"column {column} cannot have a default value: those are of format version {FIRST_VERSION_OF_DEFAULTS}, "
            f"and the table is of version {format_version}",
            next_step=f"upgrade the table first, with set_properties({{'format-version': '{FIRST_VERSION_OF_DEFAULTS}'}})",
        )
    try:
        found = nested_to_physical(kind, value)
    except InvalidInputError as error:
        if default_problem(kind, value) is not None:  # not physical already either
            raise InvalidSchemaError(f"column {column} cannot have the default {value!r}: {error.message}") from error
        found = value
    fault = default_problem(kind, found)
    if fault is not None:
        raise InvalidSchemaError(f"column {column} cannot have the default {value!r}: {fault}")
    return found


def check_struct_default(field: NestedField, column: str) -> None:
    """Whether the default `{}` of a new struct has a value for each of its required fields, which those have as defaults of their own.

    Raises:
        InvalidSchemaError: a required field without one.
    Spec: Default values (a field missing from a struct's default has its own).
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
    """What `count` rows have in a column that their file lacks: its `initial-default`, or null; in the column's Arrow type.

    A struct that is there by default has the defaults of its fields.

    Raises:
        FormatError: the column is required and has no default, or a required field of a default struct has none.
    Spec: Column Projection; Default values.
    """
    return _filled(field, count, _initial)


def write_default_column(field: NestedField, count: int) -> pa.Array:
    """What a writer puts into `count` rows that come without the column: its `write-default`, or null; in the column's Arrow type.

    Raises:
        FormatError: as `initial_default_column`; `missing_column_problems` tells before.
    Spec: Default values.
    """
    return _filled(field, count, _write)


def missing_column_problems(field: NestedField, path: tuple[str, ...]) -> Iterator[Problem]:
    """Why rows may not come without the column at `path`; nothing where they may."""
    if field.write_default is None:
        if field.required:
            yield Problem(where=".".join(path), what=f"is missing, and is required ({field.field_type})")
    elif isinstance(field.field_type, StructType):
        for inner in field.field_type.fields:
            yield from missing_column_problems(inner, (*path, inner.name))


def constant_column(kind: IcebergType, value: Any, count: int) -> pa.Array:
    """A physical value of any type `count` times, as an array of the column's Arrow type; None is null."""
    return _repeated(kind, _as_arrow_takes(kind, value, _initial), count)


def _initial(field: NestedField) -> Any:
    return field.initial_default


def _write(field: NestedField) -> Any:
    return field.write_default


def _filled(field: NestedField, count: int, pick: _Pick) -> pa.Array:
    return _repeated(field.field_type, _default(field, pick), count)


def _repeated(kind: IcebergType, value: Any, count: int) -> pa.Array:
    target = type_to_arrow(kind)
    if value is None or isinstance(kind, UnknownType):
        return pa.nulls(count, target)
    single = pa.array([value], target)
    return pa.repeat(single[0], count) if count else single.slice(1)  # Arrow cannot repeat a list no times


def _default(field: NestedField, pick: _Pick) -> Any:
    value = pick(field)
    if value is None:
        if field.required:
            raise FormatError(
                f"column {field.name} (field id {field.field_id}) is required, is not there and has no default",
                next_step="read with the schema that the files were written with",
            )
        return None
    return _as_arrow_takes(field.field_type, value, pick)


def _as_arrow_takes(kind: IcebergType, value: Any, pick: _Pick) -> Any:
    """A physical value as `pyarrow.array` takes it for the type's Arrow type."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        given = dict(value)
        return {
            field.name: _as_arrow_takes(field.field_type, given[field.field_id], pick) if field.field_id in given else _default(field, pick)
            for field in kind.fields
        }
    if isinstance(kind, ListType):
        return [_as_arrow_takes(kind.element, inner, pick) for inner in value]
    if isinstance(kind, MapType):
        return [(_as_arrow_takes(kind.key_type, key, pick), _as_arrow_takes(kind.value_type, inner, pick)) for key, inner in value]
    if isinstance(kind, PrimitiveType) and isinstance(value, uuid.UUID):
        return value.bytes
    return value
