"""One schema in place of another: columns of the same name stay the same column, and everything that would not fit is found in one pass.

Spec: Schema Evolution. JAVA: TypeUtil.assignFreshIds, which matches by full name too but checks nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from icefloe.errors import InvalidSchemaError, Problem
from icefloe.kernel.schema.default_values import check_struct_default, to_default_value
from icefloe.kernel.schema.schema import Fields, Schema, renumbered_type
from icefloe.kernel.schema.type_promotion import is_promotion, promoted_value
from icefloe.kernel.schema.version_rules import check_schema_version
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, StructType, children

Path = tuple[str, ...]


class SchemaReplacement:
    """One replacement. `fresh_id` gives the ids of new columns; ids of the schema that replaces mean nothing."""

    def __init__(self, fresh_id: Callable[[], int], *, format_version: int, case_sensitive: bool, allow_incompatible: bool) -> None:
        self._fresh_id = fresh_id
        self._format_version = format_version
        self._case_sensitive = case_sensitive
        self._allow_incompatible = allow_incompatible
        self._ids: dict[int, int] = {}  # from those of the schema that replaces
        self._problems: list[Problem] = []

    def of(self, known: Schema, wanted: Schema) -> Schema:
        """The schema with the columns, order, texts and identifier fields of `wanted` and the ids of `known`.

        Raises:
            InvalidSchemaError: what would not fit the rows that are there, each listed, unless incompatible changes are allowed: a type that does not widen,
                a column that becomes required, a new required one without a default. A default that is wrong, or a type too new, is never allowed.
        """
        fields = self._fields((), known.fields, wanted.fields)
        if self._problems:
            raise InvalidSchemaError(
                f"the schema cannot be replaced, because of {', '.join(problem.where for problem in self._problems)}",
                problems=self._problems,
                next_step="leave those columns as they are, or pass allow_incompatible_changes=True: a column of another type is a new one then",
            )
        return Schema(*fields, identifier_field_ids=[self._ids[field_id] for field_id in wanted.identifier_field_ids])

    def _fields(self, prefix: Path, known: Fields, wanted: Fields) -> Fields:
        by_name = {self._key(field.name): field for field in known}
        matched = [(field, by_name.get(self._key(field.name))) for field in wanted]
        # New columns get their ids after those inside the known ones, as in a union.
        found = {field.name: self._field((*prefix, field.name), old, field) for field, old in matched if old is not None}
        return tuple(found[field.name] if old is not None else self._added((*prefix, field.name), field) for field, old in matched)

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def _field(self, path: Path, old: NestedField, new: NestedField) -> NestedField:
        """The field of a struct that is there under this name, or a new one in its place."""
        found = self._same(path, old, new)
        if found is None:
            if self._allow_incompatible:
                return self._added(path, new)
            self._problem(path, f"is {old.field_type} and would become {new.field_type}")
            return old
        column = ".".join(path)
        initial = promoted_value(old.field_type, found.field_type, old.initial_default)
        if new.initial_default is not None and new.initial_default != initial:
            raise InvalidSchemaError(
                f"column {column} cannot have another initial default: the rows that are already there have it",
                next_step="leave it as it is; set_default_value changes what new rows have",
            )
        write = to_default_value(found.field_type, new.write_default, column, self._format_version)
        return replace(found, initial_default=initial, write_default=write)

    def _same(self, path: Path, old: NestedField, new: NestedField) -> NestedField | None:
        """The field with the known id, where its type is a change of the old one."""
        kind = self._type(path, old.field_type, new.field_type)
        if kind is None:
            return None
        if new.required and not old.required and not self._allow_incompatible:
            self._problem(path, "is optional and would become required")
        self._ids[new.field_id] = old.field_id
        return replace(new, field_id=old.field_id, field_type=kind)

    def _type(self, path: Path, old: IcebergType, new: IcebergType) -> IcebergType | None:
        """The new type with known ids where it is a change of the old one. A list or map with other elements or keys is another column as a whole."""
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
                if value is None or not _is_same(old.key_type, new.key_type):  # equal keys would no longer be equal
                    return None
                self._ids |= _paired(old.key_field, new.key_field)
                return replace(old, value_type=value.field_type, value_required=value.required)
        if old == new:
            return new
        return renumbered_type(new, self._fresh_id, self._ids) if is_promotion(old, new, self._format_version) else None

    def _added(self, path: Path, new: NestedField) -> NestedField:
        if new.required and new.initial_default is None and not self._allow_incompatible:
            self._problem(path, "is new and required, and the rows that are already there have no value in it")
        field_id = self._ids[new.field_id] = self._fresh_id()
        added = replace(new, field_id=field_id, field_type=renumbered_type(new.field_type, self._fresh_id, self._ids))
        check_struct_default(added, ".".join(path))
        check_schema_version(Schema(added), self._format_version)
        return added

    def _problem(self, path: Path, what: str) -> None:
        self._problems.append(Problem(where=".".join(path), what=what))


def _is_same(old: IcebergType, new: IcebergType) -> bool:
    """Whether two types differ by nothing but their ids."""
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


def _paired(old: NestedField, new: NestedField) -> dict[int, int]:
    """The ids of one field and all inside it by those of another of the same shape."""
    found = {new.field_id: old.field_id}
    for left, right in zip(children(old.field_type), children(new.field_type), strict=True):
        found |= _paired(left, right)
    return found
