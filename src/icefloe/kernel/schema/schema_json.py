"""Types and schemas in the JSON of table metadata, manifests and REST.

Every problem of a schema is found in one pass and named by its JSON path. Arrow is `arrow.py`. Floor: kernel.schema. Spec: Appendix C, Schemas.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.errors import InvalidSchemaError, Problem, UnsupportedFeatureError, UnsupportedTypeError
from icefloe.kernel.schema.json_shape import (
    Key,
    a_boolean,
    a_string,
    an_array,
    an_int,
    anything,
    array_of,
    kind_of,
    object_problems,
    one_of,
    refuse,
)
from icefloe.kernel.schema.metadata_columns import RESERVED_FIELD_IDS, is_reserved
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import (
    PRIMITIVE_NAMES,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

_BY_NAME: dict[str, PrimitiveType] = {name: kind() for kind, name in PRIMITIVE_NAMES.items()}
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
# Types that format version 3 added. Spec: Primitive Types.
_V3_TYPES = re.compile(r"(unknown|variant|timestamp_ns|timestamptz_ns|geometry|geography)\s*(\(.*\))?")

_STRUCT_KEYS = (Key("type", one_of("struct")), Key("fields", an_array))
_SCHEMA_KEYS = (*_STRUCT_KEYS, Key("schema-id", an_int, required=False), Key("identifier-field-ids", array_of(an_int), required=False))
_FIELD_KEYS = (
    Key("id", an_int),
    Key("name", a_string),
    Key("required", a_boolean),
    Key("type", anything),
    Key("doc", a_string, required=False),
)
_LIST_KEYS = (Key("element-id", an_int), Key("element-required", a_boolean), Key("element", anything))
_MAP_KEYS = (
    Key("key-id", an_int),
    Key("key", anything),
    Key("value-id", an_int),
    Key("value-required", a_boolean),
    Key("value", anything),
)


def type_to_json(kind: IcebergType) -> Any:
    """A type as JSON: text for a primitive, an object for struct, list and map. Spec: Appendix C."""
    if isinstance(kind, DecimalType):
        # Java writes the precision and scale with a blank between them; readers take both forms.
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, PrimitiveType):
        return str(kind)
    if isinstance(kind, StructType):
        return {"type": "struct", "fields": [_field_to_json(field) for field in kind.fields]}
    if isinstance(kind, ListType):
        return {
            "type": "list",
            "element-id": kind.element_id,
            "element": type_to_json(kind.element),
            "element-required": kind.element_required,
        }
    if isinstance(kind, MapType):
        return {
            "type": "map",
            "key-id": kind.key_id,
            "key": type_to_json(kind.key_type),
            "value-id": kind.value_id,
            "value": type_to_json(kind.value_type),
            "value-required": kind.value_required,
        }
    raise InvalidSchemaError(f"{kind!r} is not an Iceberg type")


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """A schema as a JSON object with `schema-id`, and `identifier-field-ids` where it has any. Spec: Appendix C."""
    found: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        found["identifier-field-ids"] = list(schema.identifier_field_ids)
    found["fields"] = [_field_to_json(field) for field in schema.fields]
    return found


def type_from_json(value: object, path: str = "$") -> IcebergType:
    """The type that parsed JSON describes.

    Raises:
        MetadataFormatError: with every problem, named by JSON path from `path` on.
        UnsupportedTypeError: a type of format version 3, with the columns named.
    Spec: Appendix C, Schemas.
    """
    _refuse_newer_types(value, path, ())
    refuse(list(_type_problems(value, path)), "the type")
    return _type(value)


def schema_from_json(value: object, path: str = "$") -> Schema:
    """The schema that parsed JSON describes; `schema-id` is 0 where absent, as in v1's `schema`.

    Raises:
        MetadataFormatError: with every problem, named by JSON path from `path` on; a repeated id or name is one.
        UnsupportedTypeError: a column has a type of format version 3.
    Spec: Appendix C, Schemas.
    """
    _refuse_newer_types(value, path, ())
    problems = list(schema_problems(value, path))
    refuse(problems, "the schema")
    assert isinstance(value, Mapping)  # noqa: S101  # the pass above refused anything else
    try:
        return _schema(value)
    except InvalidSchemaError as error:
        found = [Problem(where=f"{path} ({problem.where})", what=problem.what) for problem in error.problems]
        refuse(found or [Problem(where=path, what=error.message)], "the schema")
        raise


def schema_problems(value: object, path: str = "$") -> Iterator[Problem]:
    """Every problem of shape in a schema's JSON: missing keys, wrong kinds, unknown type names."""
    found = list(object_problems(value, path, _SCHEMA_KEYS))
    yield from found
    if isinstance(value, Mapping) and isinstance(value.get("fields"), list):
        yield from _fields_problems(value["fields"], f"{path}.fields")


def _schema(value: Mapping[str, Any]) -> Schema:
    found = Schema(
        *(_field(field) for field in value["fields"]),
        schema_id=value.get("schema-id") or 0,
        identifier_field_ids=value.get("identifier-field-ids") or (),
    )
    reserved = [
        Problem(
            where=field.name, what=f"field id {field.field_id} is reserved for the metadata column {RESERVED_FIELD_IDS[field.field_id]}"
        )
        for field in found.fields
        if is_reserved(field.field_id)
    ]
    if reserved:
        raise InvalidSchemaError("a table's columns may not have the ids of metadata columns", problems=reserved)
    return found


def _field_to_json(field: NestedField) -> dict[str, Any]:
    found = {"id": field.field_id, "name": field.name, "required": field.required, "type": type_to_json(field.field_type)}
    if field.doc is not None:
        found["doc"] = field.doc
    return found


def _field(value: Mapping[str, Any]) -> NestedField:
    if value.get("initial-default") is not None:
        # Rows of older files would read as null where the table says otherwise.
        raise UnsupportedFeatureError(
            f"column {value['name']} has an initial-default, which this version of Icefloe does not read",
            next_step="read the table with an engine that knows column defaults",
        )
    return NestedField(value["id"], value["name"], _type(value["type"]), value["required"], value.get("doc"))


def _type(value: Any) -> IcebergType:
    """The type of JSON that has been checked."""
    if isinstance(value, str):
        return _primitive(value)
    if value["type"] == "struct":
        return StructType(*(_field(field) for field in value["fields"]))
    if value["type"] == "list":
        return ListType(element_id=value["element-id"], element=_type(value["element"]), element_required=value["element-required"])
    return MapType(
        key_id=value["key-id"],
        key_type=_type(value["key"]),
        value_id=value["value-id"],
        value_type=_type(value["value"]),
        value_required=value["value-required"],
    )


def _primitive(text: str) -> PrimitiveType:
    found = _BY_NAME.get(text)
    if found is not None:
        return found
    if match := _FIXED.fullmatch(text):
        return FixedType(int(match[1]))
    if match := _DECIMAL.fullmatch(text):
        return DecimalType(int(match[1]), int(match[2]))
    raise InvalidSchemaError(f"{text!r} is not the name of a type")


def _fields_problems(fields: list[Any], path: str) -> Iterator[Problem]:
    for position, field in enumerate(fields):
        at = f"{path}[{position}]"
        yield from object_problems(field, at, _FIELD_KEYS)
        if isinstance(field, Mapping) and field.get("type") is not None:
            yield from _type_problems(field["type"], f"{at}.type")


def _type_problems(value: object, path: str) -> Iterator[Problem]:
    if isinstance(value, str):
        try:
            _primitive(value)
        except InvalidSchemaError as error:
            yield Problem(where=path, what=error.message)
        return
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "struct":
        yield from object_problems(value, path, _STRUCT_KEYS)
        if isinstance(value, Mapping) and isinstance(value.get("fields"), list):
            yield from _fields_problems(value["fields"], f"{path}.fields")
    elif kind == "list":
        yield from object_problems(value, path, _LIST_KEYS)
        yield from _inner_problems(value, path, "element")
    elif kind == "map":
        yield from object_problems(value, path, _MAP_KEYS)
        yield from _inner_problems(value, path, "key", "value")
    else:
        what = kind_of(value) if not isinstance(value, Mapping) else f"an object of type {kind_of(kind)}"
        yield Problem(where=path, what=f"expected a type, found {what}")


def _inner_problems(value: object, path: str, *keys: str) -> Iterator[Problem]:
    for key in keys:
        if isinstance(value, Mapping) and value.get(key) is not None:
            yield from _type_problems(value[key], f"{path}.{key}")


def _refuse_newer_types(value: object, path: str, names: tuple[str, ...]) -> None:
    found = [
        Problem(where=f"column {'.'.join(column)}" if column else where, what=f"type {text}")
        for where, column, text in _newer_types(value, path, names)
    ]
    if found:
        listed = ", ".join(f"{problem.where} has {problem.what}" for problem in found)
        raise UnsupportedTypeError(
            f"{listed}: a type of format version 3, which this version of Icefloe does not read or write", problems=found
        )


def _newer_types(value: object, path: str, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Where v3 types stand: JSON path, column names, the type's text. Walks anything, since the shape is not checked yet."""
    if isinstance(value, str):
        if _V3_TYPES.fullmatch(value):
            yield path, names, value
        return
    if not isinstance(value, Mapping):
        return
    fields = value.get("fields")
    for position, field in enumerate(fields if isinstance(fields, list) else ()):
        if isinstance(field, Mapping):
            yield from _newer_types(field.get("type"), f"{path}.fields[{position}].type", (*names, str(field.get("name"))))
    for key in ("element", "key", "value"):
        yield from _newer_types(value.get(key), f"{path}.{key}", (*names, key))
