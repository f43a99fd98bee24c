"""`NameMapping`: field ids by column name, for data files without field ids; and its update when the schema changes.

`spec/metadata/table_properties.py` has the table property that contains it. `icefloe.datafile` uses it to read files.
Spec: Column Projection; Appendix C, Name Mapping Serialization.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from icefloe.errors import MetadataFormatError, Problem
from icefloe.spec.limits import limits, raise_limit
from icefloe.spec.schema.json_shape import Key, a_string, an_array, an_int, array_of, kind_of, object_problems, refuse
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType, NestedField, children

# `names` is required by the format, but a missing list means the same as an empty one. JAVA: NameMappingParser accepts it.
_KEYS = (
    Key("names", array_of(a_string), required=False),
    Key("field-id", an_int, required=False),
    Key("fields", an_array, required=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedField:
    """One column of data files: its names in them, its field id (None if it is not in the schema), and its children.

    The child of a list is named `element`, the children of a map are `key` and `value`. A dot in a name is part of the name.
    """

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple["MappedField", ...] = ()


@dataclass(frozen=True)
class NameMapping:
    """A mapping from the column names in data files without field ids to field ids. `fields` are the mapped fields of the top level."""

    fields: tuple[MappedField, ...]

    def find(self, path: Sequence[str]) -> MappedField | None:
        """Return the mapped field at a path of names from the top-level column, or None."""
        return self._by_path.get(tuple(path))

    def find_id(self, path: Sequence[str]) -> int | None:
        """Return the field id of the column at a path of names, or None if it is not mapped or not in the schema."""
        mapped = self.find(path)
        return mapped.field_id if mapped is not None else None

    def walk(self) -> Iterator[tuple[tuple[str, ...], MappedField]]:
        """Yield every mapped field with its path of names, parents before children."""
        return _paths(self.fields, ())

    @cached_property
    def _by_path(self) -> Mapping[tuple[str, ...], MappedField]:
        return dict(_paths(self.fields, ()))


def _paths(fields: Iterable[MappedField], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], MappedField]]:
    for field in fields:
        for name in field.names:
            yield (*prefix, name), field
            yield from _paths(field.fields, (*prefix, name))


# ---- building and updating ----


def mapping_for(schema: Schema) -> NameMapping:
    """Return the mapping for files with the column names of a schema."""
    return NameMapping(_map_fields(schema.fields))


def _map_fields(fields: Iterable[NestedField]) -> tuple[MappedField, ...]:
    return tuple(
        MappedField(names=(field.name,), field_id=field.field_id, fields=_map_fields(children(field.field_type))) for field in fields
    )


def updated_mapping(mapping: NameMapping, old: Schema, new: Schema) -> NameMapping:
    """Return the mapping after a change of the schema.

    A renamed column keeps its old names and gets the new name in addition. A new column is added with its name. If a column gets a name that is mapped to a
    different column of the same struct, the name is removed from that column. Deleted columns stay mapped, because files still contain them. JAVA:
    MappingUtil.UpdateMapping.

    Args:
        mapping: The mapping before.
        old: The schema before.
        new: The schema after. The ids of its new columns are higher than all ids in `old`.
    """
    return NameMapping(_MappingUpdate(old, new).members(mapping.fields, None))


class _MappingUpdate:
    """The update of a mapping after a change of the schema: it finds the added and the changed columns, and `members` applies them to mapped fields."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._changed: dict[int, NestedField] = {}
        self._added: dict[int | None, list[NestedField]] = {}
        self._compare(None, new.fields, old)

    def _compare(self, owner: int | None, fields: Iterable[NestedField], old: Schema) -> None:
        for field in fields:
            if field.field_id not in old:
                self._added.setdefault(owner, []).append(field)  # mapped together with its children
                continue
            if _without_children(field) != _without_children(old.find_field(field.field_id)):
                self._changed[field.field_id] = field
            self._compare(field.field_id, children(field.field_type), old)

    def members(self, fields: tuple[MappedField, ...], owner: int | None) -> tuple[MappedField, ...]:
        """Return the mapped fields inside the field with the id `owner` (None: the top level) after the change. New fields are last, ordered by id."""
        changed = tuple(self._field(field) for field in fields)
        taken = {self._changed[field.field_id].name: field.field_id for field in changed if field.field_id in self._changed}
        added = sorted(self._added.get(owner, ()), key=lambda field: field.field_id)
        taken |= {field.name: field.field_id for field in added}
        existing = (
            replace(field, names=tuple(name for name in field.names if taken.get(name, field.field_id) == field.field_id))
            for field in changed
        )
        return (*existing, *_map_fields(added))

    def _field(self, field: MappedField) -> MappedField:
        if field.field_id is None:
            return replace(field, fields=self.members(field.fields, _NOT_IN_SCHEMA))
        update = self._changed.get(field.field_id)
        names = field.names if update is None or update.name in field.names else (*field.names, update.name)
        return replace(field, names=names, fields=self.members(field.fields, field.field_id))


# The id for the children of columns that are not in the schema, which never get new fields. None is the top level.
_NOT_IN_SCHEMA = -1


def _without_children(field: NestedField) -> tuple[object, ...]:
    """Return the attributes of a field except its id and its children, to compare the field with an earlier version."""
    kind: IcebergType | type = type(field.field_type) if children(field.field_type) else field.field_type
    return field.name, field.required, field.doc, kind, field.initial_default, field.write_default


# ---- JSON ----


def mapping_from_json(text: str) -> NameMapping:
    """Parse the name mapping in the table property.

    Raises:
        MetadataFormatError: The text is not a valid name mapping, for example if two fields of the same level have the same name. Every problem is listed with
            its JSON path.
    Spec: Appendix C, Name Mapping Serialization.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep("more levels deep than can be parsed") from None
    except ValueError as error:
        raise MetadataFormatError(f"the name mapping is not JSON: {error}", problems=[Problem(where="$", what=str(error))]) from error
    if (nesting := _nesting(value)) > limits().read_nesting:
        raise _too_deep(f"{nesting} levels deep")
    refuse(list(_level_problems(value, "$")), "the name mapping")
    return NameMapping(_fields(value))


def _nesting(value: object) -> int:
    """Return the nesting depth of a mapping's JSON, which may be invalid. It is 0 if no column has children."""
    deepest = 0
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        fields, above = waiting.pop()
        for field in fields if isinstance(fields, list) else ():
            if isinstance(field, Mapping) and isinstance(field.get("fields"), list) and field["fields"]:
                deepest = max(deepest, above + 1)
                waiting.append((field["fields"], above + 1))
    return deepest


def _too_deep(what: str) -> MetadataFormatError:
    message = f"the name mapping is {what}; the limit read_nesting is {limits().read_nesting}"
    return MetadataFormatError(message, problems=[Problem(where="$", what="nested too deeply")], next_step=raise_limit("read_nesting"))


def mapping_to_json(mapping: NameMapping) -> str:
    """Return the text of the table property.

    Spec: Appendix C, Name Mapping Serialization.
    """
    return json.dumps([_field_to_json(field) for field in mapping.fields])


def _field_to_json(field: MappedField) -> dict[str, object]:
    document: dict[str, object] = {} if field.field_id is None else {"field-id": field.field_id}
    document["names"] = list(field.names)
    if field.fields:
        document["fields"] = [_field_to_json(child) for child in field.fields]
    return document


def _level_problems(value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem(where=path, what=f"expected an array of field mappings, found {kind_of(value)}")
        return
    seen: dict[str, str] = {}
    for position, field in enumerate(value):
        here = f"{path}[{position}]"
        problems = list(object_problems(field, here, _KEYS))
        yield from problems
        if problems:
            continue
        for name in dict.fromkeys(field.get("names") or ()):
            if name in seen:
                yield Problem(where=f"{here}.names", what=f"the name {name!r} is also that of {seen[name]}")
            seen.setdefault(name, here)
        yield from _level_problems(field.get("fields") or [], f"{here}.fields")


def _fields(value: Iterable[Mapping[str, object]]) -> tuple[MappedField, ...]:
    return tuple(
        MappedField(
            names=tuple(dict.fromkeys(field.get("names") or ())),  # type: ignore[call-overload]  # the shape has been checked
            field_id=field.get("field-id"),  # type: ignore[arg-type]
            fields=_fields(field.get("fields") or ()),  # type: ignore[arg-type]
        )
        for field in value
    )
