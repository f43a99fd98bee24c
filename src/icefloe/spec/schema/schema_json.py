"""JSON of types and schemas in table metadata, manifests and REST, with the defaults of columns.

All problems of a schema are reported together, with their JSON paths. `arrow_schema.py` converts schemas to Arrow. `version_rules.py` has the types of each
format version. Spec: Appendix C, Schemas.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.errors import FormatError, InvalidSchemaError, Problem
from icefloe.spec.nested_values import ALWAYS_NULL_BY_DEFAULT, default_problem, nested_from_json, nested_to_json
from icefloe.spec.schema.json_shape import (
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
from icefloe.spec.schema.metadata_columns import RESERVED_FIELD_IDS, is_reserved
from icefloe.spec.schema.nesting import refuse_deep_json
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    VariantType,
    type_from_text,
)

_DEFAULT_KEYS = ("initial-default", "write-default")

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
    """Return a type as JSON: a string for primitive types and variant, and an object for structs, lists and maps.

    Spec: Appendix C.
    """
    if isinstance(kind, DecimalType):
        # Java writes a space between the precision and the scale. Readers accept both forms.
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, PrimitiveType | VariantType):
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
    """Return a schema as a JSON object with `schema-id`, and with `identifier-field-ids` if there are any.

    Spec: Appendix C.
    """
    document: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        document["identifier-field-ids"] = list(schema.identifier_field_ids)
    document["fields"] = [_field_to_json(field) for field in schema.fields]
    return document


def type_from_json(value: object, path: str = "$") -> IcebergType:
    """Return the type that parsed JSON describes.

    Raises:
        MetadataFormatError: Every problem is listed with its JSON path, starting with `path`.
    Spec: Appendix C, Schemas.
    """
    refuse_deep_json(value, path)
    refuse(list(_type_problems(value, path)), "the type")
    return _type(value)


def schema_from_json(value: object, path: str = "$") -> Schema:
    """Return the schema that parsed JSON describes. A missing `schema-id`, as in the field `schema` of v1, is read as 0.

    The format version is not checked: schemas in existing tables may contain any type. `version_rules.py` checks schemas that are added.

    Raises:
        MetadataFormatError: The JSON is not a valid schema. Every problem, such as a repeated id or name, is listed with its JSON path, starting with `path`.
    Spec: Appendix C, Schemas.
    """
    refuse_deep_json(value, path)
    problems = list(schema_problems(value, path))
    refuse(problems, "the schema")
    assert isinstance(value, Mapping)  # noqa: S101  # anything else has been refused
    try:
        return _schema(value)
    except InvalidSchemaError as error:
        problems = [Problem(where=f"{path} ({problem.where})", what=problem.what) for problem in error.problems]
        refuse(problems or [Problem(where=path, what=error.message)], "the schema")
        raise


def schema_problems(value: object, path: str = "$") -> Iterator[Problem]:
    """Yield every structural problem in a schema's JSON: missing keys, wrong JSON types, unknown type names."""
    yield from object_problems(value, path, _SCHEMA_KEYS)
    if isinstance(value, Mapping) and isinstance(value.get("fields"), list):
        yield from _fields_problems(value["fields"], f"{path}.fields")


def _schema(value: Mapping[str, Any]) -> Schema:
    schema = Schema(
        *(_field(field) for field in value["fields"]),
        schema_id=value.get("schema-id") or 0,
        identifier_field_ids=value.get("identifier-field-ids") or (),
    )
    reserved = [
        Problem(
            where=field.name, what=f"field id {field.field_id} is reserved for the metadata column {RESERVED_FIELD_IDS[field.field_id]}"
        )
        for field in schema.fields
        if is_reserved(field.field_id)
    ]
    if reserved:
        raise InvalidSchemaError("a table's columns may not have the ids of metadata columns", problems=reserved)
    return schema


def _field_to_json(field: NestedField) -> dict[str, Any]:
    document = {"id": field.field_id, "name": field.name, "required": field.required, "type": type_to_json(field.field_type)}
    if field.doc is not None:
        document["doc"] = field.doc
    for key, default in zip(_DEFAULT_KEYS, (field.initial_default, field.write_default), strict=True):
        if default is not None:
            document[key] = nested_to_json(field.field_type, default)
    return document


def _field(value: Mapping[str, Any]) -> NestedField:
    kind = _type(value["type"])
    defaults = (nested_from_json(kind, value.get(key)) for key in _DEFAULT_KEYS)
    return NestedField(value["id"], value["name"], kind, value["required"], value.get("doc"), *defaults)


def _type(value: Any) -> IcebergType:
    """Convert the JSON of a type, which was already checked."""
    if isinstance(value, str):
        return type_from_text(value)
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


def _fields_problems(fields: list[Any], path: str) -> Iterator[Problem]:
    for position, field in enumerate(fields):
        at = f"{path}[{position}]"
        yield from object_problems(field, at, _FIELD_KEYS)
        if isinstance(field, Mapping) and field.get("type") is not None:
            problems = list(_type_problems(field["type"], f"{at}.type"))
            yield from problems
            if not problems:
                yield from _default_problems(field, at)


def _default_problems(field: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Yield the problems of the defaults of a field with a valid type."""
    kind = _type(field["type"])
    for key in _DEFAULT_KEYS:
        value = field.get(key)
        if value is None:
            continue
        if isinstance(kind, ALWAYS_NULL_BY_DEFAULT):
            yield Problem(where=f"{at}.{key}", what=f"a column of type {kind} has no default except null")
            continue
        try:
            problem = default_problem(kind, nested_from_json(kind, value))
        except FormatError as error:
            problem = error.message
        if problem is not None:
            yield Problem(where=f"{at}.{key}", what=problem)


def _type_problems(value: object, path: str) -> Iterator[Problem]:
    if isinstance(value, str):
        try:
            type_from_text(value)
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
