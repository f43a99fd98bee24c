"""Replacement of a schema: columns keep their field ids if the new schema has a column of the same name. All incompatible columns are reported together.

Spec: Schema Evolution. JAVA: TypeUtil.assignFreshIds, which also matches full names, but checks nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from icefloe.errors import InvalidSchemaError, Problem
from icefloe.spec.schema.default_values import check_struct_default, to_default_value
from icefloe.spec.schema.schema import Fields, Schema, renumbered_type
from icefloe.spec.schema.type_promotion import is_promotion, promoted_value
from icefloe.spec.schema.version_rules import check_schema_version
from icefloe.spec.types import IcebergType, ListType, MapType, NestedField, StructType, children

Path = tuple[str, ...]


class SchemaReplacement:
    """The replacement of one schema by another.

    Args:
        fresh_id: Returns the next id for a new column. The field ids of the replacing schema are ignored.
        format_version: Format version of the table.
        case_sensitive: Whether column names must match in letter case.
        allow_incompatible: Whether changes that do not fit existing rows are allowed.
    """

    def __init__(self, fresh_id: Callable[[], int], *, format_version: int, case_sensitive: bool, allow_incompatible: bool) -> None:
        self._fresh_id = fresh_id
        self._format_version = format_version
        self._case_sensitive = case_sensitive
        self._allow_incompatible = allow_incompatible
        self._ids: dict[int, int] = {}  # by the ids in the new schema
        self._problems: list[Problem] = []

    def of(self, current: Schema, replacement: Schema) -> Schema:
        """Return the schema with the columns, order, docs and identifier fields of `replacement`, and the field ids of `current`.

        Raises:
            InvalidSchemaError: Columns do not fit existing rows, and incompatible changes are not allowed: a change of type is not a promotion, a column
                becomes required, or a new required column has no default. Each such column is listed. A default is invalid, or the format version does not have
                a type; these are never allowed.
        """
        fields = self._fields((), current.fields, replacement.fields)
        if self._problems:
            raise InvalidSchemaError(
                f"the schema cannot be replaced, because of {', '.join(problem.where for problem in self._problems)}",
                problems=self._problems,
                next_step="leave those columns as they are, or pass allow_incompatible_changes=True: a column of another type is then a new column",
            )
        return Schema(*fields, identifier_field_ids=[self._ids[field_id] for field_id in replacement.identifier_field_ids])

    def _fields(self, prefix: Path, current: Fields, replacement: Fields) -> Fields:
        by_name = {self._key(field.name): field for field in current}
        matched = [(field, by_name.get(self._key(field.name))) for field in replacement]
        # New fields inside existing columns get their ids before new columns, as in a union by name.
        changed = {field.name: self._field((*prefix, field.name), old, field) for field, old in matched if old is not None}
        return tuple(changed[field.name] if old is not None else self._add_field((*prefix, field.name), field) for field, old in matched)

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def _field(self, path: Path, old: NestedField, new: NestedField) -> NestedField:
        """Return the field `new` with the ids of the existing field `old`.

        If the types are incompatible, `new` gets fresh ids if incompatible changes are allowed; otherwise a problem is recorded, and `old` is returned.
        """
        changed = self._same(path, old, new)
        if changed is None:
            if self._allow_incompatible:
                return self._add_field(path, new)
            self._problem(path, f"is {old.field_type} and would become {new.field_type}")
            return old
        column = ".".join(path)
        initial = promoted_value(old.field_type, changed.field_type, old.initial_default)
        if new.initial_default is not None and new.initial_default != initial:
            raise InvalidSchemaError(
                f"column {column} cannot have another initial default: existing rows have it",
                next_step="leave it as it is; set_default_value changes the default of new rows",
            )
        write = to_default_value(changed.field_type, new.write_default, column, self._format_version)
        return replace(changed, initial_default=initial, write_default=write)

    def _same(self, path: Path, old: NestedField, new: NestedField) -> NestedField | None:
        """Return the field `new` with the ids of the existing field `old`, or None if the change of its type is invalid."""
        kind = self._type(path, old.field_type, new.field_type)
        if kind is None:
            return None
        if new.required and not old.required and not self._allow_incompatible:
            self._problem(path, "is optional and would become required")
        self._ids[new.field_id] = old.field_id
        return replace(new, field_id=old.field_id, field_type=kind)

    def _type(self, path: Path, old: IcebergType, new: IcebergType) -> IcebergType | None:
        """Return the type `new` with the field ids of `old`, or None if the change of the type is invalid.

        If the change of a list's element or of a map's value is invalid, or if a map's key changes, the change of the whole list or map is invalid.
        """
        match old, new:
            case StructType(), StructType():
                return StructType(*self._fields(path, old.fields, new.fields))
            case ListType(), ListType():
                element = self._same((*path, "element"), old.element_field, new.element_field)
                if element is None:
                    return None
                return ListType(element_id=element.field_id, element=element.field_type, element_required=element.required)
            case MapType(), MapType():
                value = self._same((*path, "value"), old.value_field, new.value_field)
                if value is None or not _is_same(
                    old.key_type, new.key_type
                ):  # keys must not change, because equal keys could become different
                    return None
                self._ids |= _pair_ids(old.key_field, new.key_field)
                return replace(old, value_type=value.field_type, value_required=value.required)
        if old == new:
            return new
        return renumbered_type(new, self._fresh_id, self._ids) if is_promotion(old, new, self._format_version) else None

    def _add_field(self, path: Path, new: NestedField) -> NestedField:
        if new.required and new.initial_default is None and not self._allow_incompatible:
            self._problem(path, "is new and required, and existing rows have no value for it")
        field_id = self._ids[new.field_id] = self._fresh_id()
        added = replace(new, field_id=field_id, field_type=renumbered_type(new.field_type, self._fresh_id, self._ids))
        check_struct_default(added, ".".join(path))
        check_schema_version(Schema(added), self._format_version)
        return added

    def _problem(self, path: Path, what: str) -> None:
        self._problems.append(Problem(where=".".join(path), what=what))


def _is_same(old: IcebergType, new: IcebergType) -> bool:
    """Return True if two types differ only by their ids."""
    inner = list(zip(children(old), children(new), strict=False))
    if not inner:
        return old == new
    return (
        type(old) is type(new)
        and len(children(old)) == len(children(new))
        and all(
            (left.name, left.required) == (right.name, right.required) and _is_same(left.field_type, right.field_type)
            for left, right in inner
        )
    )


def _pair_ids(old: NestedField, new: NestedField) -> dict[int, int]:
    """Return the ids of the field `old` and its children, by the ids at the same positions in `new`, which has the same structure."""
    ids = {new.field_id: old.field_id}
    for left, right in zip(children(old.field_type), children(new.field_type), strict=True):
        ids |= _pair_ids(left, right)
    return ids
