"""Single values of any type, including nested types, as physical, JSON and Python values. They are used for column defaults.

`values.py` has primitive values, which also have a binary form. Nested physical values are hashable: a list is a tuple of values, a map is a tuple of (key,
value) pairs in order, and a struct is a tuple of (field id, value) pairs for the fields that are present, in the struct's order. So `()` is the default `{}` of
a struct, the empty list, and the empty map. Spec: Default values; Appendix D, JSON single-value serialization.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import FormatError, InvalidInputError
from icefloe.spec.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
    VariantType,
)
from icefloe.spec.values import from_json_value, to_json_value, to_physical

# Types of columns whose default must be null. Spec: Default values.
ALWAYS_NULL_BY_DEFAULT = (UnknownType, VariantType, GeometryType, GeographyType)


def nested_to_json(kind: IcebergType, value: Any) -> Any:
    """Return a physical value of any type as JSON; None for null.

    Raises:
        InvalidInputError: The value cannot be represented in JSON, such as a variant or an infinite float.
    Spec: Appendix D, JSON single-value serialization.
    """
    if value is None:
        return None
    if isinstance(kind, PrimitiveType):
        return to_json_value(kind, value)
    if isinstance(kind, StructType):
        return {str(field_id): nested_to_json(kind.by_id[field_id].field_type, inner) for field_id, inner in value}
    if isinstance(kind, ListType):
        return [nested_to_json(kind.element, inner) for inner in value]
    if isinstance(kind, MapType):
        keys = [nested_to_json(kind.key_type, key) for key, _ in value]
        return {"keys": keys, "values": [nested_to_json(kind.value_type, inner) for _, inner in value]}
    raise InvalidInputError(f"a value of type {kind} has no form in JSON")


def nested_from_json(kind: IcebergType, value: Any) -> Any:
    """Return the physical value of a JSON value of any type; None for null.

    A struct's keys are field ids; other ids are ignored.

    Raises:
        FormatError: The JSON value is not a value of the type; the message names the wrong part.
    Spec: Appendix D, JSON single-value serialization.
    """
    if value is None:
        return None
    if isinstance(kind, PrimitiveType):
        return from_json_value(kind, value)
    if isinstance(kind, StructType):
        if not isinstance(value, Mapping):
            raise FormatError(f"{value!r} is not a struct in JSON, which is an object of values by field id")
        pairs = ((field, value[str(field.field_id)]) for field in kind.fields if str(field.field_id) in value)
        return tuple((field.field_id, nested_from_json(field.field_type, inner)) for field, inner in pairs)
    if isinstance(kind, ListType):
        if not isinstance(value, list | tuple):
            raise FormatError(f"{value!r} is not a list in JSON")
        return tuple(_check_required(kind.element_field, nested_from_json(kind.element, inner)) for inner in value)
    if isinstance(kind, MapType):
        return _map_from_json(kind, value)
    raise FormatError(f"a value of type {kind} has no form in JSON, so {value!r} is not one")


def nested_to_physical(kind: IcebergType, value: Any) -> Any:
    """Return a Python value as the physical value of any type; None for null.

    A struct is passed as a dict by field name, a list as a list or tuple, a map as a dict.

    Raises:
        InvalidInputError: The value is not exactly a value of the type.
    """
    if value is None:
        return None
    if isinstance(kind, PrimitiveType):
        return to_physical(kind, value)
    if isinstance(kind, StructType) and isinstance(value, Mapping):
        names = {field.name for field in kind.fields}
        unknown = [name for name in value if name not in names]
        if unknown:
            raise InvalidInputError(f"{unknown[0]!r} is not a field of {kind}")
        fields = (field for field in kind.fields if field.name in value)
        return tuple((field.field_id, nested_to_physical(field.field_type, value[field.name])) for field in fields)
    if isinstance(kind, ListType) and isinstance(value, list | tuple):
        return tuple(_check_required_input(kind.element_field, nested_to_physical(kind.element, inner)) for inner in value)
    if isinstance(kind, MapType) and isinstance(value, Mapping):
        return tuple(
            (
                _check_required_input(kind.key_field, nested_to_physical(kind.key_type, key)),
                _check_required_input(kind.value_field, nested_to_physical(kind.value_type, inner)),
            )
            for key, inner in value.items()
        )
    raise InvalidInputError(f"{value!r} cannot be a value of type {kind}")


def with_field_ids(kind: IcebergType, value: Any, new_ids: Mapping[int, int]) -> Any:
    """Return a physical value in which field ids of structs are replaced. `new_ids` has the new id for each field id in `kind`."""
    if value is None or isinstance(kind, PrimitiveType):
        return value
    if isinstance(kind, StructType):
        return tuple((new_ids[field_id], with_field_ids(kind.by_id[field_id].field_type, inner, new_ids)) for field_id, inner in value)
    if isinstance(kind, ListType):
        return tuple(with_field_ids(kind.element, inner, new_ids) for inner in value)
    if isinstance(kind, MapType):
        return tuple((with_field_ids(kind.key_type, key, new_ids), with_field_ids(kind.value_type, inner, new_ids)) for key, inner in value)
    return value


def default_problem(kind: IcebergType, value: Any) -> str | None:
    """Return the reason why a physical value cannot be the default of a column of this type; None if it can.

    Spec: Default values.
    """
    if value is None:
        return None
    if isinstance(kind, ALWAYS_NULL_BY_DEFAULT):
        return f"a column of type {kind} has no default except null"
    if isinstance(kind, StructType) and value != ():
        return "the default of a struct is null or {}, and its fields have defaults of their own"
    try:
        is_physical = nested_from_json(kind, nested_to_json(kind, value)) == value
    except (FormatError, InvalidInputError, AttributeError, TypeError, ValueError, ArithmeticError, KeyError) as error:
        return f"{value!r} cannot be a default of type {kind}: {error}"
    return None if is_physical else f"{value!r} is not a physical value of type {kind}"


def _map_from_json(kind: MapType, value: Any) -> tuple[tuple[Any, Any], ...]:
    keys, values = (value.get("keys"), value.get("values")) if isinstance(value, Mapping) else (None, None)
    if not isinstance(keys, list | tuple) or not isinstance(values, list | tuple) or len(keys) != len(values):
        raise FormatError(f"{value!r} is not a map in JSON, which is an object of as many keys as values")
    return tuple(
        (
            _check_required(kind.key_field, nested_from_json(kind.key_type, key)),
            _check_required(kind.value_field, nested_from_json(kind.value_type, inner)),
        )
        for key, inner in zip(keys, values, strict=True)
    )


def _check_required(field: NestedField, value: Any) -> Any:
    if value is None and field.required:
        raise FormatError(f"null is not allowed as the {field.name} of this list or map, which is required")
    return value


def _check_required_input(field: NestedField, value: Any) -> Any:
    if value is None and field.required:
        raise InvalidInputError(f"None is not allowed as the {field.name} of this list or map, which is required")
    return value
