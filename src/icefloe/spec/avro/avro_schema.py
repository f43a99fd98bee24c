"""Avro schemas with Iceberg's field ids: parsing the schema of a file, and building schemas for new files.

Record fields have `field-id`, arrays `element-id`; a map with integer keys is an array of key-value records. `decode_steps.py` compiles schemas into steps.
Spec: Appendix A, Avro; Apache Avro, Schema Declaration.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.spec.avro.avro_errors import SchemaSizeError
from icefloe.spec.limits import limits

# A parsed type: the name of a primitive type, the list of a union, or a JSON object. References to named types are replaced by the types themselves.
AvroType = Any

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# Types whose values are single numbers.
NUMBERS = frozenset({"int", "long", "enum"})


def parse_schema(text: bytes, limit: str = "avro_schema_types") -> AvroType:
    """Parse the schema of a file, and replace references to named types.

    Args:
        text: the schema as JSON.
        limit: the name of the limit, in `Limits`, for the number of types.

    Raises:
        ValueError: the schema is invalid; the message has the reason.
        SchemaSizeError: the schema has more types than the limit.
    """
    try:
        declared = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"avro.schema is not JSON: {error}") from error
    resolved = _resolve(declared, {}, "")
    _check_size(resolved, limit)
    return resolved


def _check_size(schema: AvroType, limit: str) -> None:
    """Raise `SchemaSizeError` if the schema has more types than the limit allows, counted at each use.

    A named type is a single object, but a traversal of the schema visits it at each use. So thirty records, each with two fields of the previous record's type,
    cause a billion visits.
    """
    largest: int = getattr(limits(), limit)
    sizes: dict[int, int] = {}  # counts by the identity of the type
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    while waiting:
        kind, parts_are_counted = waiting.pop()
        if id(kind) in sizes:
            continue
        parts = _parts(kind)
        if parts_are_counted or not parts:
            # Capped, so that the numbers stay small.
            sizes[id(kind)] = min(1 + sum(sizes[id(part)] for part in parts), largest + 1)
        else:
            waiting.append((kind, True))
            waiting += ((part, False) for part in parts)
    if sizes[id(schema)] > largest:
        raise SchemaSizeError(limit)


def _parts(kind: AvroType) -> list[AvroType]:
    form = kind_of(kind)
    if form == "union":
        return list(kind)
    if form == "record":
        return [field["type"] for field in kind["fields"]]
    return [kind["items"]] if form == "array" else [kind["values"]] if form == "map" else []


def _resolve(declared: Any, named_types: dict[str, AvroType], namespace: str) -> AvroType:
    if isinstance(declared, str):
        if declared in _PRIMITIVES:
            return declared
        named = named_types.get(declared) or named_types.get(f"{namespace}.{declared}")
        if named is None:
            raise ValueError(f"the type {declared!r} is not declared, or contains itself")
        return named
    if isinstance(declared, list):
        if not declared:
            raise ValueError("a union of no types has no value")
        return [_resolve(branch, named_types, namespace) for branch in declared]
    if not isinstance(declared, dict) or "type" not in declared:
        raise ValueError(f"{declared!r} is not an Avro type")
    kind = declared["type"]
    if kind in ("record", "fixed", "enum"):
        return _resolve_named(declared, named_types, namespace)
    if kind == "array":
        return {**declared, "items": _resolve(declared.get("items"), named_types, namespace)}
    if kind == "map":
        return {**declared, "values": _resolve(declared.get("values"), named_types, namespace)}
    resolved = _resolve(kind, named_types, namespace)
    return {**declared, "type": resolved} if isinstance(resolved, str) else resolved


def _resolve_named(declared: dict[str, Any], named_types: dict[str, AvroType], namespace: str) -> AvroType:
    name = str(declared.get("name", ""))
    namespace = name.rpartition(".")[0] or declared.get("namespace", namespace)
    resolved = dict(declared)
    if declared["type"] == "record":
        fields = declared.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) and "type" in field for field in fields):
            raise ValueError(f"the record {name!r} has no list of fields")
        resolved["fields"] = [{**field, "type": _resolve(field["type"], named_types, namespace)} for field in fields]
    elif declared["type"] == "fixed" and not (isinstance(declared.get("size"), int) and declared["size"] >= 0):
        raise ValueError(f"the fixed type {name!r} has no size")
    named_types[name] = named_types[f"{namespace}.{name}"] = resolved
    return resolved


def has_arrays_of_nothing(kind: AvroType) -> bool:
    """Return True if the type contains an array whose items take no bytes: nulls, records without fields, or fixed values of size 0."""
    return (kind_of(kind) == "array" and _is_nothing(kind["items"])) or any(map(has_arrays_of_nothing, _parts(kind)))


def _is_nothing(kind: AvroType) -> bool:
    form = kind_of(kind)
    return form == "null" or (form == "fixed" and not kind["size"]) or (form == "record" and all(map(_is_nothing, _parts(kind))))


def kind_of(kind: AvroType) -> str:
    """Return `union`, or the name of the type: `record`, `array`, `long`, `fixed`..."""
    if isinstance(kind, list):
        return "union"
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)


def varint_count(kind: AvroType) -> int | None:
    """Return the number of varints that a value of this type consists of; None if it is not a fixed number of varints."""
    form = kind_of(kind)
    if form in NUMBERS or form == "boolean":  # a boolean is a byte 0 or 1, which is also a varint
        return 1
    if form == "record":
        counts = [varint_count(field["type"]) for field in kind["fields"]]
        return None if None in counts else sum(count for count in counts if count is not None)
    return None


def item_type(kind: AvroType) -> AvroType:
    """Return the type of array items, map keys or map values, without the null branch that some writers declare although no value is null."""
    branches = [branch for branch in kind if branch != "null"] if isinstance(kind, list) else []
    return branches[0] if len(branches) == 1 else kind


def has_nullable_pairs(kind: AvroType) -> bool:
    """Return True if the schema allows null for the items of an array of key-value records, or for their keys or values."""
    items = item_type(kind["items"])
    return items is not kind["items"] or any(kind_of(part["type"]) == "union" for part in items["fields"])


def pair_value(kind: AvroType) -> str | None:
    """Return the type of the values, `number` or `bytes`, of an array of key-value records with integer keys; None if the type is not such an array."""
    items = item_type(kind["items"])
    if kind_of(items) != "record" or len(items["fields"]) != 2 or kind_of(item_type(items["fields"][0]["type"])) not in NUMBERS:
        return None
    form = kind_of(item_type(items["fields"][1]["type"]))
    return "number" if form in NUMBERS else "bytes" if form in ("bytes", "string") else None


def wire_form(kind: AvroType) -> Any:
    """Return what a schema determines about the encoded bytes and the field ids. If it is equal for two schemas, their blocks can be in one file."""
    form = kind_of(kind)
    if form == "union":
        return ("union", *(wire_form(branch) for branch in kind))
    if form == "record":
        return ("record", *((field.get("field-id"), wire_form(field["type"])) for field in kind["fields"]))
    if form == "array":
        return ("array", wire_form(kind["items"]))
    if form == "map":
        return ("map", wire_form(kind["values"]))
    if form == "fixed":
        return ("fixed", kind["size"])
    return form


def field(field_id: int, name: str, kind: AvroType, *, required: bool = True, **attributes: Any) -> dict[str, Any]:
    """Return the JSON of a record's field. The type of an optional field becomes a union with null first, and null is its default."""
    optional = {} if required else {"default": None}
    return {"name": name, "type": kind if required else ["null", kind], **optional, **attributes, "field-id": field_id}


def record(name: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a record type."""
    return {"type": "record", "name": name, "fields": list(fields)}


def array(element_id: int, items: AvroType) -> dict[str, Any]:
    """Return an array type whose element has a field id."""
    return {"type": "array", "items": items, "element-id": element_id}


def id_map(key_id: int, value_id: int, value: AvroType) -> dict[str, Any]:
    """Return the type of a map with int keys: an array of key-value records, since Avro's maps have only string keys."""
    pair = record(f"k{key_id}_v{value_id}", [field(key_id, "key", "int"), field(value_id, "value", value)])
    return {"type": "array", "items": pair, "logicalType": "map"}
