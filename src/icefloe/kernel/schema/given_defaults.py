"""Defaults that a change of a schema gives to a column: which are right, in which version of the format.

Filling them into rows is `default_columns.py`; what any schema's defaults must be is checked by `Schema`. Spec: Default values.
"""

from typing import Any

from icefloe.errors import InvalidInputError, InvalidSchemaError
from icefloe.kernel.nested_values import default_problem, nested_to_physical
from icefloe.kernel.schema.version_rules import FIRST_VERSION_OF_DEFAULTS
from icefloe.kernel.types import IcebergType, NestedField, StructType


def default_of(kind: IcebergType, value: Any, column: str, format_version: int) -> Any:
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
