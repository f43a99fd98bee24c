"""Union by name: the changes after which a schema contains every column of another schema.

`schema_evolution.py` applies them. Spec: Schema Evolution. JAVA: UnionByNameVisitor.
"""

from collections.abc import Iterator, Sequence

from icefloe.errors import InvalidSchemaError, Problem
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_change import AddColumn, SchemaChange, SetDefault, UpdateColumn
from icefloe.spec.schema.type_promotion import is_promotion, promotions
from icefloe.spec.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType, children

Path = tuple[str, ...]


def union_changes(schema: Schema, other: Schema, *, format_version: int, case_sensitive: bool = True) -> list[SchemaChange]:
    """Return the changes after which `schema` accepts the rows of `other`, whose ids are ignored.

    A column that is wider already is not changed. New columns are optional, whatever their default, because existing rows lack them. Write-defaults follow
    `other` where it has them.

    Raises:
        InvalidSchemaError: Columns of one name have types that cannot be joined; each is listed.
    """
    union = _Union(case_sensitive, format_version)
    changes = list(union.fields((), schema.fields, other.fields))
    if union.problems:
        listed = ", ".join(problem.where for problem in union.problems)
        raise InvalidSchemaError(
            f"the schemas cannot be joined by name, because of {listed}",
            problems=union.problems,
            next_step="cast those columns to the table's types, or give them other names",
        )
    return changes


class _Union:
    """One comparison of two schemas, with its problems."""

    def __init__(self, case_sensitive: bool, format_version: int) -> None:
        self._case_sensitive = case_sensitive
        self._format_version = format_version
        self.problems: list[Problem] = []

    def fields(self, prefix: Path, current: Sequence[NestedField], other: Sequence[NestedField]) -> Iterator[SchemaChange]:
        by_name = {self._key(field.name): field for field in current}
        # New columns come after the new fields inside existing columns, so that they get the same ids as in Java.
        for field in other:
            existing = by_name.get(self._key(field.name))
            if existing is not None:
                yield from self._column((*prefix, existing.name), existing, field)
        for field in other:
            if self._key(field.name) not in by_name:
                path = (*prefix, field.name)
                yield AddColumn(path=path, field_type=field.field_type, doc=field.doc, default=field.initial_default)
                if field.write_default != field.initial_default:
                    yield SetDefault(path=path, default=field.write_default)

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def _column(self, path: Path, current: NestedField, other: NestedField) -> Iterator[SchemaChange]:
        if current.required and other.optional:
            yield UpdateColumn(path=path, required=False)
        if other.doc is not None and other.doc != current.doc:
            yield UpdateColumn(path=path, doc=other.doc)
        match current.field_type, other.field_type:
            case StructType() as old, StructType() as new:
                yield from self.fields(path, old.fields, new.fields)
            case ListType() as old, ListType() as new:
                yield from self._column((*path, "element"), old.element_field, new.element_field)
            case MapType() as old, MapType() as new:
                if not _contains(old.key_type, new.key_type, self._format_version):
                    self._problem((*path, "key"), f"is {old.key_type} and cannot become {new.key_type}: keys of a map never change")
                yield from self._column((*path, "value"), old.value_field, new.value_field)
            case old, new if is_promotion(old, new, self._format_version):
                yield UpdateColumn(path=path, field_type=new)
            case old, new if old != new and not isinstance(new, UnknownType) and not is_promotion(new, old, self._format_version):
                self._problem(path, f"is {old} and cannot become {new}; a type may only widen: {promotions(self._format_version)}")
        if other.write_default is not None and other.write_default != current.write_default:
            yield SetDefault(path=path, default=other.write_default)

    def _problem(self, path: Path, what: str) -> None:
        self.problems.append(Problem(where=".".join(path), what=what))


def _contains(current: IcebergType, other: IcebergType, format_version: int) -> bool:
    """Return True if the type has the same names and the same or wider types, whatever the ids."""
    if current.is_primitive or other.is_primitive:
        return current == other or is_promotion(other, current, format_version)
    old, new = children(current), children(other)
    return (
        type(current) is type(other)
        and [field.name for field in old] == [field.name for field in new]
        and all(_contains(left.field_type, right.field_type, format_version) for left, right in zip(old, new, strict=True))
    )
