"""Schema evolution: applies changes to a schema, keeps field ids, and refuses invalid changes with the violated rule and the next step.

`schema_change.py` defines the changes. A union by name computes the changes after which a schema contains every column of another schema.
`schema_replacement.py` replaces schemas, `type_promotion.py` has the type promotions, and `commit/evolve_schema.py` checks partition specs and sort orders.
Spec: Schema Evolution; Identifier Field IDs. JAVA: UnionByNameVisitor.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from icefloe.errors import InvalidInputError, InvalidSchemaError, Problem
from icefloe.spec.schema.default_values import check_struct_default, to_default_value
from icefloe.spec.schema.schema import Fields, Schema, edit_field, renumbered_type, repeated_names, walk
from icefloe.spec.schema.schema_change import (
    AddColumn,
    ColumnPath,
    ColumnPosition,
    DeleteColumn,
    MoveColumn,
    RenameColumn,
    ReplaceWith,
    SchemaChange,
    SetDefault,
    SetIdentifierFields,
    UnionByName,
    UpdateColumn,
    path_text,
)
from icefloe.spec.schema.schema_replacement import SchemaReplacement
from icefloe.spec.schema.type_promotion import check_promotion, is_promotion, promoted_value, promotions
from icefloe.spec.schema.version_rules import FIRST_VERSION_OF_DEFAULTS, check_schema_version
from icefloe.spec.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType, children

_INCOMPATIBLE = "pass allow_incompatible_changes=True if every row has a value there"


def evolve_schema(
    schema: Schema,
    changes: Iterable[SchemaChange],
    last_column_id: int,
    *,
    allow_incompatible: bool = False,
    case_sensitive: bool = True,
    format_version: int = 2,
) -> tuple[Schema, int]:
    """Apply changes to a schema, in order.

    Args:
        schema: The current schema.
        changes: The changes. Each change is applied to the result of the previous changes.
        last_column_id: The highest field id that was ever assigned in the table.
        allow_incompatible: Whether required columns may be added and optional columns may become required.
        case_sensitive: Whether column names must match in letter case.
        format_version: Format version of the table.

    Returns:
        The new schema, which still has the old schema id, and the new last column id, which never decreases.

    Raises:
        InvalidSchemaError, InvalidInputError: A change violates a rule. The message contains the column, the rule and the next step.
    """
    state = SchemaUpdate(
        schema,
        last_column_id,
        allow_incompatible=allow_incompatible,
        case_sensitive=case_sensitive,
        format_version=format_version,
    )
    for change in changes:
        state.apply(change)
    return state.build(), state.last_column_id


class SchemaUpdate:
    """A schema to which changes are applied one after the other.

    Each change is applied to the result of the previous changes. A renamed column can still be found by its old name. JAVA: SchemaUpdate.
    """

    def __init__(
        self,
        schema: Schema,
        last_column_id: int,
        *,
        allow_incompatible: bool = False,
        case_sensitive: bool = True,
        format_version: int = 2,
    ) -> None:
        self._original = schema
        self._schema = Schema(*schema.fields)  # without identifier fields, which only have to be valid after the last change
        self._identifier_ids = schema.identifier_field_ids
        self._allow_incompatible = allow_incompatible
        self._case_sensitive = case_sensitive
        self._format_version = format_version
        self.last_column_id = last_column_id

    def apply(self, change: SchemaChange) -> None:
        """Apply one change completely, or not at all.

        Raises:
            InvalidSchemaError, InvalidInputError: The change violates a rule.
        """
        before = self._schema, self._identifier_ids, self.last_column_id
        try:
            self._dispatch(change)
        except InvalidInputError:
            self._schema, self._identifier_ids, self.last_column_id = before
            raise

    def _dispatch(self, change: SchemaChange) -> None:
        match change:
            case AddColumn():
                self._add(change)
            case RenameColumn():
                self._rename(change)
            case DeleteColumn():
                self._delete(change)
            case UpdateColumn():
                self._update(change)
            case SetDefault():
                self._set_default(change)
            case MoveColumn():
                self._move(change)
            case SetIdentifierFields():
                self._identifier_ids = tuple(self._find(path).field_id for path in change.paths)
            case UnionByName():
                changes = union_changes(
                    self._schema, change.schema, format_version=self._format_version, case_sensitive=self._case_sensitive
                )
                for nested_change in changes:
                    self._dispatch(nested_change)
            case ReplaceWith():
                self._replace(change.schema)

    def build(self) -> Schema:
        """Return the new schema, after checking the rules that apply to a schema as a whole.

        Raises:
            InvalidSchemaError: An identifier field was deleted or is invalid, or a struct has lost all its fields.
        """
        deleted = [field_id for field_id in self._identifier_ids if field_id not in self._schema]
        if deleted:
            names = ", ".join(self._original.find_column_name(field_id) or str(field_id) for field_id in deleted)
            raise InvalidSchemaError(
                f"column {names} is an identifier field and cannot be deleted", next_step="choose others with set_identifier_fields first"
            )
        for path, field in walk(self._schema.fields):
            original_type = self._original.find_type(field.field_id) if field.field_id in self._original else None
            if field.field_type == StructType() and original_type != StructType():
                raise InvalidSchemaError(
                    f"column {'.'.join(path)} would be a struct without fields, which data files cannot contain",
                    next_step="delete the whole column, or keep one of its fields",
                )
        try:
            return Schema(*self._schema.fields, schema_id=self._original.schema_id, identifier_field_ids=self._identifier_ids)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(
                "the changed schema would violate the format",
                problems=error.problems,
                next_step="choose other identifier fields with set_identifier_fields, or leave those columns as they are",
            ) from error

    # ---- the changes ----

    def _add(self, change: AddColumn) -> None:
        if isinstance(change.path, str):
            parent, _, name = change.path.rpartition(".")
            above: ColumnPath = parent
        else:
            above, name = change.path[:-1], change.path[-1] if change.path else ""
        if not name:
            raise InvalidSchemaError(f"a column needs a name, and {path_text(change.path)!r} is empty", next_step="give it one")
        if not isinstance(change.field_type, IcebergType):
            raise InvalidInputError(
                f"column {path_text(change.path)}: {change.field_type!r} is not an Iceberg type", next_step="pass one such as LongType()"
            )
        owner = self._struct_at(above, change.path) if above else None
        # It is also refused for tables without rows, because a concurrent writer may add rows before the commit. JAVA: SchemaUpdate.internalAddColumn.
        if change.required and change.default is None and not self._allow_incompatible:
            raise InvalidInputError(
                f"column {path_text(change.path)} cannot be added as required: existing rows have no value for it",
                next_step=f"give it a default value (from format version {FIRST_VERSION_OF_DEFAULTS} on), add it as optional, or {_INCOMPATIBLE}",
            )
        added = NestedField(self._fresh_id(), name, change.field_type, change.required, change.doc)
        added = replace(added, field_type=renumbered_type(change.field_type, self._fresh_id, {}))
        default = to_default_value(added.field_type, change.default, path_text(change.path), self._format_version)
        added = replace(added, initial_default=default, write_default=default)
        check_struct_default(added, path_text(change.path))
        check_schema_version(Schema(added), self._format_version)
        self._edit_members(owner, lambda members: (*members, added), change.path)

    def _rename(self, change: RenameColumn) -> None:
        field = self._member(change.path, "renamed")
        if not change.new_name:
            raise InvalidSchemaError(f"column {path_text(change.path)} cannot be renamed to an empty name", next_step="give it a name")
        self._edit(field.field_id, lambda current: replace(current, name=change.new_name), change.path)

    def _delete(self, change: DeleteColumn) -> None:
        field = self._member(change.path, "deleted")
        self._edit(field.field_id, lambda _: None, change.path)

    def _update(self, change: UpdateColumn) -> None:
        field = self._find(change.path)
        self._refuse_in_map_key(field, change.path)
        column = path_text(change.path)
        kind = field.field_type if change.field_type is None else change.field_type
        if kind != field.field_type:
            check_promotion(field.field_type, kind, column, self._format_version)
            kind = renumbered_type(kind, self._fresh_id, {})  # an unknown column may get a nested type
        required = field.required if change.required is None else change.required
        # If the same update added the column with a default, every row has a value. JAVA: SchemaUpdate.isDefaultedAdd.
        is_filled = field.field_id not in self._original and field.initial_default is not None
        if required and not field.required and not self._allow_incompatible and not is_filled:
            raise InvalidInputError(
                f"column {column} is optional and cannot be made required: existing rows may lack a value",
                next_step=f"leave it optional, or {_INCOMPATIBLE}",
            )
        if change.doc is not None and self._is_inner(field):
            raise InvalidSchemaError(
                f"{column} is part of a list or map and cannot have a doc of its own", next_step="give it to the list or map itself"
            )
        doc = field.doc if change.doc is None else change.doc
        initial, write = (promoted_value(field.field_type, kind, value) for value in (field.initial_default, field.write_default))
        changed = replace(field, field_type=kind, required=required, doc=doc, initial_default=initial, write_default=write)
        self._edit(field.field_id, lambda _: changed, change.path)

    def _set_default(self, change: SetDefault) -> None:
        field = self._find(change.path)
        if self._is_inner(field):
            raise InvalidSchemaError(
                f"{path_text(change.path)} is part of a list or map and cannot have a default of its own",
                next_step="give it to the list or map itself",
            )
        default = to_default_value(field.field_type, change.default, path_text(change.path), self._format_version)
        self._edit(field.field_id, lambda current: replace(current, write_default=default), change.path)

    def _replace(self, replacement: Schema) -> None:
        """Replace the whole schema. The rules of schema evolution apply to each column."""
        new = SchemaReplacement(
            self._fresh_id,
            format_version=self._format_version,
            case_sensitive=self._case_sensitive,
            allow_incompatible=self._allow_incompatible,
        ).of(self._schema, replacement)
        self._accept(new.fields, "")
        self._identifier_ids = new.identifier_field_ids

    def _move(self, change: MoveColumn) -> None:
        field = self._member(change.path, "moved")
        owner = self._owner_id(field)
        beside = self._find(change.beside) if change.beside is not None else None
        if change.place is not ColumnPosition.FIRST and (beside is None or beside == field or self._owner_id(beside) != owner):
            raise InvalidSchemaError(
                f"column {path_text(change.path)} cannot be moved {change.place} {path_text(change.beside or '')}: "
                "a column moves only among those of its own struct, and not beside itself",
                next_step="name a column of the same struct",
            )

        def move(members: Fields) -> Fields:
            others = [member for member in members if member.field_id != field.field_id]
            position = 0 if beside is None else [member.field_id for member in others].index(beside.field_id)
            others.insert(position + (change.place is ColumnPosition.AFTER), field)
            return tuple(others)

        self._edit_members(owner, move, change.path)

    # ---- finding and replacing ----

    def _fresh_id(self) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def _find(self, path: ColumnPath) -> NestedField:
        """Return the column at a path. The path may also be the column's path before the changes."""
        for schema in (self._schema, self._original):
            field_id = self._id_in(schema, path)
            if field_id is not None and field_id in self._schema:
                return self._schema.find_field(field_id)
        raise InvalidSchemaError(
            f"there is no column {path_text(path)!r} in the schema", next_step=f"use one of {', '.join(self._schema.column_names)}"
        )

    def _id_in(self, schema: Schema, path: ColumnPath) -> int | None:
        if isinstance(path, tuple):
            key = tuple(map(self._key, path))
            field_id = next((field.field_id for names, field in walk(schema.fields) if tuple(map(self._key, names)) == key), None)
            if field_id is not None:
                return field_id
        return schema.find_id(path_text(path), case_sensitive=self._case_sensitive)

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def _struct_at(self, path: ColumnPath, column: ColumnPath) -> int:
        """Return the id of the struct at a path, to which a new column is added. For a list of structs it is the element, for a map the value."""
        try:
            field = self._find(path)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(
                f"column {path_text(column)} cannot be added: {error.message}",
                next_step=f'{error.next_step}; for a top-level name with a dot in it pass a tuple, ("{path_text(column)}",)',
            ) from error
        self._refuse_in_map_key(field, column)
        column_type = field.field_type
        while isinstance(field.field_type, ListType | MapType):
            kind = field.field_type
            field = kind.element_field if isinstance(kind, ListType) else kind.value_field
        if not isinstance(field.field_type, StructType):
            raise InvalidSchemaError(
                f"column {path_text(column)} cannot be added: {path_text(path)} is {column_type}, and only a struct has fields",
                next_step="add it beside that column, under another name",
            )
        return field.field_id

    def _member(self, path: ColumnPath, verb: str) -> NestedField:
        """Return the column at a path. Refuse the children of lists and maps, which cannot be renamed, deleted or moved."""
        field = self._find(path)
        if self._is_inner(field):
            raise InvalidSchemaError(
                f"{path_text(path)} is part of its list or map and cannot be {verb}", next_step="change the list or map as a whole"
            )
        self._refuse_in_map_key(field, path)
        return field

    def _is_inner(self, field: NestedField) -> bool:
        """Return True for an element of a list, and for a key or value of a map. Their names are defined by the format."""
        owner = self._owner_id(field)
        return owner is not None and not isinstance(self._schema.find_type(owner), StructType)

    def _owner_id(self, field: NestedField) -> int | None:
        """Return the id of the parent field, or None for a top-level column."""
        for _, above in walk(self._schema.fields):
            if any(child.field_id == field.field_id for child in children(above.field_type)):
                return above.field_id
        return None

    def _refuse_in_map_key(self, field: NestedField, path: ColumnPath) -> None:
        for _, above in walk(self._schema.fields):
            if isinstance(above.field_type, MapType):
                key = above.field_type.key_field
                if field.field_id in {key.field_id, *(inner.field_id for _, inner in walk(children(key.field_type)))}:
                    raise InvalidSchemaError(
                        f"{path_text(path)} is part of the key of map {above.name}, and keys never change: equal keys would no longer be equal",
                        next_step="add a new map column",
                    )

    def _edit_members(self, owner: int | None, edit: Callable[[Fields], Fields], path: ColumnPath) -> None:
        if owner is None:
            self._accept(edit(self._schema.fields), path)
            return
        self._edit(owner, lambda field: replace(field, field_type=StructType(*edit(children(field.field_type)))), path)

    def _edit(self, field_id: int, edit: Callable[[NestedField], NestedField | None], path: ColumnPath) -> None:
        self._accept(edit_field(self._schema.fields, field_id, edit), path)

    def _accept(self, fields: Fields, path: ColumnPath) -> None:
        """Set the fields after a change. Refuse them if the change gives two columns the same name."""
        before, after = (repeated_names(columns, case_sensitive=self._case_sensitive) for columns in (self._schema.fields, fields))
        for name in sorted(after - before):
            raise InvalidSchemaError(
                f"{f'column {path_text(path)}: ' if path else ''}there would be two columns named {name}",
                next_step="choose another name, or delete or rename the other column first",
            )
        self._schema = Schema(*fields)


Path = tuple[str, ...]


def union_changes(schema: Schema, other: Schema, *, format_version: int, case_sensitive: bool = True) -> list[SchemaChange]:
    """Return the changes after which rows of the schema `other` can be written to a table with `schema`. The field ids of `other` are ignored.

    Columns with a wider type than in `other` are not changed. New columns are always optional, because existing rows lack them. A write-default of `other`
    replaces that of `schema`; a column without one in `other` keeps its own.

    Raises:
        InvalidSchemaError: Columns of the same name have incompatible types. Each is listed.
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
    """The comparison of a schema with another, for `union_changes`. It collects the changes to make and the problems."""

    def __init__(self, case_sensitive: bool, format_version: int) -> None:
        self._case_sensitive = case_sensitive
        self._format_version = format_version
        self.problems: list[Problem] = []

    def fields(self, prefix: Path, current: Sequence[NestedField], other: Sequence[NestedField]) -> Iterator[SchemaChange]:
        by_name = {self._key(field.name): field for field in current}
        # New fields inside existing columns are added before new columns, so that they get the same ids as in Java.
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
    """Return True if `current` has the same names as `other`, with the same or wider types. Field ids are ignored."""
    if current.is_primitive or other.is_primitive:
        return current == other or is_promotion(other, current, format_version)
    old, new = children(current), children(other)
    return (
        type(current) is type(other)
        and [field.name for field in old] == [field.name for field in new]
        and all(_contains(left.field_type, right.field_type, format_version) for left, right in zip(old, new, strict=True))
    )
