"""`NameMapping`: which field id a column of a data file has when the file itself holds no field ids, and how the mapping follows the schema.

The table property that holds it is in `kernel/metadata/table_properties.py`; files are read in `icefloe.datafile`.
Spec: Column Projection; Appendix C, Name Mapping Serialization.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from icefloe.errors import MetadataFormatError, Problem
from icefloe.kernel.limits import limits, raise_limit
from icefloe.kernel.schema.json_shape import Key, a_string, an_array, an_int, array_of, kind_of, object_problems, refuse
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType, NestedField, children

# `names` is required by the format, but a missing list says no more than an empty one. JAVA: NameMappingParser takes it so.
_KEYS = (
    Key("names", array_of(a_string), required=False),
    Key("field-id", an_int, required=False),
    Key("fields", an_array, required=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedField:
    """One column of files: the names it has there, its field id (None: it is not in the schema), and its children.

    The child of a list is named `element`, those of a map `key` and `value`. Names are literal: a dot in one leads nowhere.
    """

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple["MappedField", ...] = ()


@dataclass(frozen=True)
class NameMapping:
    """The mapped fields of the top level, in order."""

    fields: tuple[MappedField, ...]

    def find(self, path: Sequence[str]) -> MappedField | None:
        """What is mapped at these names, from the top-level column down, or None."""
        return self._by_path.get(tuple(path))

    def find_id(self, path: Sequence[str]) -> int | None:
        """The field id of the column at these names, or None where it is not mapped or not in the schema."""
        found = self.find(path)
        return found.field_id if found is not None else None

    @cached_property
    def _by_path(self) -> Mapping[tuple[str, ...], MappedField]:
        return dict(_paths(self.fields, ()))


def _paths(fields: Iterable[MappedField], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], MappedField]]:
    for field in fields:
        for name in field.names:
            yield (*prefix, name), field
            yield from _paths(field.fields, (*prefix, name))


# ---- making and changing ----


def mapping_for(schema: Schema) -> NameMapping:
    """The mapping under which files have the schema's own names."""
    return NameMapping(_mapped(schema.fields))


def _mapped(fields: Iterable[NestedField]) -> tuple[MappedField, ...]:
    return tuple(MappedField(names=(field.name,), field_id=field.field_id, fields=_mapped(children(field.field_type))) for field in fields)


def updated_mapping(mapping: NameMapping, old: Schema, new: Schema) -> NameMapping:
    """The mapping after the schema changed from `old` to `new`, whose ids go on from those of `old`.

    A changed column keeps its names and gets its new one, a new column is added under its name, and a name that another column beside it had moves there.
    Deleted columns stay mapped: files still hold them. JAVA: MappingUtil.UpdateMapping.
    """
    return NameMapping(_Following(old, new).members(mapping.fields, None))


class _Following:
    """The columns that one change of the schema added, by the field right above them, and those it changed."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._changed: dict[int, NestedField] = {}
        self._added: dict[int | None, list[NestedField]] = {}
        self._note(None, new.fields, old)

    def _note(self, owner: int | None, fields: Iterable[NestedField], old: Schema) -> None:
        for field in fields:
            if field.field_id not in old:
                self._added.setdefault(owner, []).append(field)  # mapped with all that is in it
                continue
            if _by_itself(field) != _by_itself(old.find_field(field.field_id)):
                self._changed[field.field_id] = field
            self._note(field.field_id, children(field.field_type), old)

    def members(self, fields: tuple[MappedField, ...], owner: int | None) -> tuple[MappedField, ...]:
        """The mapped fields under `owner` after the change. New ones go to the end in the order of their ids, which is that of their making."""
        changed = tuple(self._field(field) for field in fields)
        taken = {self._changed[field.field_id].name: field.field_id for field in changed if field.field_id in self._changed}
        added = sorted(self._added.get(owner, ()), key=lambda field: field.field_id)
        taken |= {field.name: field.field_id for field in added}
        kept = (
            replace(field, names=tuple(name for name in field.names if taken.get(name, field.field_id) == field.field_id))
            for field in changed
        )
        return (*kept, *_mapped(added))

    def _field(self, field: MappedField) -> MappedField:
        if field.field_id is None:
            return replace(field, fields=self.members(field.fields, _NOWHERE))
        update = self._changed.get(field.field_id)
        names = field.names if update is None or update.name in field.names else (*field.names, update.name)
        return replace(field, names=names, fields=self.members(field.fields, field.field_id))


# Under a column that is not in the schema nothing is ever added; None stands for the top level.
_NOWHERE = -1


def _by_itself(field: NestedField) -> tuple[object, ...]:
    """The field without those inside it."""
    kind: IcebergType | type = type(field.field_type) if children(field.field_type) else field.field_type
    return field.name, field.required, field.doc, kind, field.initial_default, field.write_default


# ---- JSON ----


def mapping_from_json(text: str) -> NameMapping:
    """The mapping that the table property's text describes.

    Raises:
        MetadataFormatError: with every problem, named by its JSON path; a name that two fields of one level have is one.
    Spec: Appendix C, Name Mapping Serialization.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep("more levels deep than can be parsed") from None
    except ValueError as error:
        raise MetadataFormatError(f"the name mapping is no JSON: {error}", problems=[Problem(where="$", what=str(error))]) from error
    if (nesting := _nesting(value)) > limits().read_nesting:
        raise _too_deep(f"{nesting} levels deep")
    refuse(list(_level_problems(value, "$")), "the name mapping")
    return NameMapping(_fields(value))


def _nesting(value: object) -> int:
    """Return how many levels of fields the JSON of a mapping has, well-formed or not. A mapping of columns without members has none."""
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
    found = f"the name mapping is {what}; the limit read_nesting is {limits().read_nesting}"
    return MetadataFormatError(found, problems=[Problem(where="$", what="nested too deeply")], next_step=raise_limit("read_nesting"))


def mapping_to_json(mapping: NameMapping) -> str:
    """The text of the table property. Spec: Appendix C, Name Mapping Serialization."""
    return json.dumps([_field_to_json(field) for field in mapping.fields])


def _field_to_json(field: MappedField) -> dict[str, object]:
    found: dict[str, object] = {} if field.field_id is None else {"field-id": field.field_id}
    found["names"] = list(field.names)
    if field.fields:
        found["fields"] = [_field_to_json(child) for child in field.fields]
    return found


def _level_problems(value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem(where=path, what=f"expected an array of field mappings, found {kind_of(value)}")
        return
    seen: dict[str, str] = {}
    for position, field in enumerate(value):
        here = f"{path}[{position}]"
        found = list(object_problems(field, here, _KEYS))
        yield from found
        if found:
            continue
        for name in dict.fromkeys(field.get("names") or ()):
            if name in seen:
                yield Problem(where=f"{here}.names", what=f"the name {name!r} is also that of {seen[name]}")
            seen.setdefault(name, here)
        yield from _level_problems(field.get("fields") or [], f"{here}.fields")


def _fields(value: Iterable[Mapping[str, object]]) -> tuple[MappedField, ...]:
    return tuple(
        MappedField(
            names=tuple(dict.fromkeys(field.get("names") or ())),  # type: ignore[call-overload]  # the pass above saw to the shape
            field_id=field.get("field-id"),  # type: ignore[arg-type]
            fields=_fields(field.get("fields") or ()),  # type: ignore[arg-type]
        )
        for field in value
    )
