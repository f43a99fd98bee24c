"""`Schema`: a table's columns, which can be found by id or dotted name; and the assignment of new field ids.

`schema_json.py` has its JSON, `arrow_schema.py` its conversion to Arrow, and `schema_evolution.py` its changes.
Spec: Schemas and Data Types; Column Projection; Identifier Field IDs.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import pyarrow as pa

from icefloe.errors import InvalidSchemaError, Problem, visible
from icefloe.formatting import MOST_SHOWN, count_text, short_text
from icefloe.notebook import ShownInNotebooks
from icefloe.spec.nested_values import default_problem, with_field_ids
from icefloe.spec.schema.arrow_types import field_to_arrow
from icefloe.spec.schema.metadata_columns import COMMIT_TIMESTAMP, MAX_USER_FIELD_ID, RESERVED_FIELD_IDS, is_reserved, with_lineage
from icefloe.spec.types import DoubleType, FloatType, IcebergType, ListType, MapType, NestedField, StructType, UnknownType, children

Fields = tuple[NestedField, ...]


@dataclass(frozen=True, init=False, repr=False)
class Schema(ShownInNotebooks):
    """The columns of a table: `Schema(field, field, ..., schema_id=0, identifier_field_ids=())`.

    Schemas are equal if their columns and identifier fields are equal, even if their schema ids differ.

    The schema of a scan's rows, or of rows that are copied into a file, may contain metadata columns. A table's schema may not (`schema_from_json` refuses it).

    Raises:
        InvalidSchemaError: An argument is not a `NestedField`, a type is not an `IcebergType`, a field id or a full name is repeated, a default is not a value
            of its type, or an identifier field violates the rules. Every problem is listed.
    """

    fields: tuple[NestedField, ...]
    schema_id: int = dataclasses.field(compare=False)
    identifier_field_ids: tuple[int, ...]

    def __init__(self, *fields: NestedField, schema_id: int = 0, identifier_field_ids: Iterable[int] = ()) -> None:
        object.__setattr__(self, "fields", StructType(*fields).fields)
        object.__setattr__(self, "schema_id", schema_id)
        object.__setattr__(self, "identifier_field_ids", tuple(identifier_field_ids))
        problems = list(_wrong_types(self)) or list(_problems(self))
        if problems:
            raise InvalidSchemaError("the schema violates the format", problems=problems)

    @cached_property
    def _by_id(self) -> Mapping[int, tuple[tuple[str, ...], NestedField]]:
        return {field.field_id: (path, field) for path, field in walk(self.fields)}

    @cached_property
    def type_classes(self) -> frozenset[type[IcebergType]]:
        """The classes of the types of all columns, including nested columns."""
        return frozenset(type(field.field_type) for _, field in walk(self.fields))

    @cached_property
    def _by_name(self) -> Mapping[str, int]:
        names: dict[str, int] = {}
        for path, field in walk(self.fields):
            names.setdefault(".".join(path), field.field_id)
        # The names of fields in a list's or map's struct may omit `element` and `value`, as in Java. Full names have precedence.
        for path, field in _walk_short(self.fields):
            names.setdefault(".".join(path), field.field_id)
        return names

    @cached_property
    def ambiguous_names(self) -> frozenset[str]:
        """The dotted names that more than one column has, because a name that itself contains a dot can equal the path of a struct's field.

        Icefloe never creates such a schema.
        """
        return repeated_names(self.fields)

    @cached_property
    def _by_lower_name(self) -> Mapping[str, Mapping[int, str]]:
        """For each dotted name in lower case, the fields with this name in any case: their dotted names by field id."""
        names: dict[str, dict[int, str]] = {}
        for name, field_id in self._by_name.items():
            names.setdefault(name.lower(), {}).setdefault(field_id, name)
        return names

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Every field id, including nested fields, parents before children."""
        return tuple(self._by_id)

    @property
    def highest_field_id(self) -> int:
        """The highest field id, or 0 for an empty schema."""
        return max(self._by_id, default=0)

    @property
    def column_names(self) -> list[str]:
        """The full dotted name of every field, including nested fields."""
        return [".".join(path) for path, _ in self._by_id.values()]

    @property
    def columns(self) -> tuple[NestedField, ...]:
        """The top-level columns in order. It is PyIceberg's name of `fields`."""
        return self.fields

    def identifier_field_names(self) -> set[str]:
        """Return the full dotted names of the identifier fields."""
        return {".".join(self._by_id[field_id][0]) for field_id in self.identifier_field_ids}

    @property
    def names(self) -> list[str]:
        """The top-level names in order."""
        return [field.name for field in self.fields]

    def as_struct(self) -> StructType:
        """Return the columns as a struct type."""
        return StructType(*self.fields)

    def as_arrow(self) -> pa.Schema:
        """Return the Arrow schema of the rows that scans return. The metadata of fields has their ids, and UUIDs have Arrow's uuid type."""
        return pa.schema([field_to_arrow(field, uuid_type=pa.uuid()) for field in self.fields])

    def find_id(self, name: str, case_sensitive: bool = True) -> int | None:
        """Return the field id of a dotted name, or None.

        JAVA: Schema.caseInsensitiveFindField, which refuses every name if any two names of the schema differ only by case.

        Args:
            name: The dotted name.
            case_sensitive: Whether names must match in letter case. If not, a field with exactly this name has precedence.

        Raises:
            InvalidSchemaError: Two columns have the name.
        """
        if self.ambiguous_names:
            self._refuse_ambiguous(name, case_sensitive)
        if case_sensitive or name in self._by_name:
            return self._by_name.get(name)
        fields = self._by_lower_name.get(name.lower(), {})
        if len(fields) > 1:
            spelled = list(fields.values())
            raise InvalidSchemaError(
                f"{name} is the name of {len(fields)} fields that differ by case: {', '.join(spelled)}",
                problems=[Problem(where=text, what=f"field id {field_id}") for field_id, text in fields.items()],
                next_step=f"write the name as one of them is spelled, such as {spelled[0]}",
            )
        return next(iter(fields), None)

    def _refuse_ambiguous(self, name: str, case_sensitive: bool) -> None:
        ambiguous = self.ambiguous_names if case_sensitive else frozenset(map(str.lower, self.ambiguous_names))
        if (name if case_sensitive else name.lower()) in ambiguous:
            raise InvalidSchemaError(
                f"two columns have the name {name}: one with the dot in its own name, and a field of a struct",
                problems=[
                    Problem(where=" > ".join(path), what=f"field id {field.field_id}")
                    for path, field in walk(self.fields)
                    if ".".join(path) in ambiguous
                ],
                next_step=f"rename one of them: update_schema().rename_column(({name!r},), ...) is the one with the dot",
            )

    def find_field(self, name_or_id: str | int, case_sensitive: bool = True) -> NestedField:
        """Return the field with an id or a dotted name.

        Args:
            name_or_id: The field id or the dotted name.
            case_sensitive: Whether names must match in letter case.

        Raises:
            InvalidSchemaError: There is no such field.
        """
        field_id = name_or_id if isinstance(name_or_id, int) else self.find_id(name_or_id, case_sensitive=case_sensitive)
        path_and_field = self._by_id.get(field_id) if field_id is not None else None
        if path_and_field is None:
            raise InvalidSchemaError(
                f"there is no field {name_or_id!r} in the schema", next_step=f"use one of {', '.join(self.column_names)}"
            )
        return path_and_field[1]

    def find_type(self, name_or_id: str | int, case_sensitive: bool = True) -> IcebergType:
        """Return the type of the field with an id or a dotted name.

        Args:
            name_or_id: As in `find_field`.
            case_sensitive: As in `find_field`.

        Raises:
            InvalidSchemaError: As in `find_field`.
        """
        return self.find_field(name_or_id, case_sensitive=case_sensitive).field_type

    def find_column_name(self, field_id: int) -> str | None:
        """Return the full dotted name of the field with an id, or None."""
        path = self.path_of(field_id)
        return ".".join(path) if path else None

    def path_of(self, field_id: int) -> tuple[str, ...] | None:
        """Return the names from the top-level column to the field, or None."""
        path_and_field = self._by_id.get(field_id)
        return path_and_field[0] if path_and_field else None

    def __contains__(self, field_id: object) -> bool:
        return field_id in self._by_id

    def select(self, *names: str, case_sensitive: bool = True) -> "Schema":
        """Return the schema with only these columns, in the table's order.

        Args:
            names: Dotted names. The name of a struct's field selects only this field of the struct. `*` selects every column.
            case_sensitive: Whether names are matched by letter case.

        Raises:
            InvalidSchemaError: A column does not exist.
        """
        if "*" in names:
            return self
        selected_ids = {self.find_field(name, case_sensitive=case_sensitive).field_id for name in names}
        selected = tuple(field for field in (_prune(field, selected_ids) for field in self.fields) if field is not None)
        identifiers = tuple(i for i in self.identifier_field_ids if i in {f.field_id for _, f in walk(selected)})
        return Schema(*selected, schema_id=self.schema_id, identifier_field_ids=identifiers)

    def __repr__(self) -> str:
        lines = [f"  {short_text(str(field))}" for field in self.fields[:MOST_SHOWN]]
        more = [f"  … and {len(self.fields) - MOST_SHOWN:,} more"] if len(self.fields) > MOST_SHOWN else []
        return visible("\n".join([f"Schema {self.schema_id}, {count_text(len(self.fields), 'column')}", *lines, *more]))

    def __str__(self) -> str:
        return "table {\n" + "\n".join(f"  {field}" for field in self.fields) + "\n}"


def walk(fields: Iterable[NestedField], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    """Yield every field with its path of names, parents before children.

    Fields inside a metadata column are left out, because the ids in `_partition` are partition field ids.
    """
    for field in fields:
        path = (*prefix, field.name)
        yield path, field
        if not is_reserved(field.field_id):
            yield from walk(children(field.field_type), path)


def repeated_names(fields: Iterable[NestedField], *, case_sensitive: bool = True) -> frozenset[str]:
    """Return the dotted names that more than one field has."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for path, _ in walk(fields):
        name = ".".join(path) if case_sensitive else ".".join(path).lower()
        (repeated if name in seen else seen).add(name)
    return frozenset(repeated)


def check_unambiguous(schema: Schema, known: frozenset[str] = frozenset()) -> None:
    """Refuse a new schema in which two columns have the same dotted name.

    JAVA: TypeUtil.indexByName, which does not load such a table.

    Args:
        schema: The new schema.
        known: Names that are allowed because they are already ambiguous in the table's schema.

    Raises:
        InvalidSchemaError: Two columns have the same name.
    """
    names = sorted(schema.ambiguous_names - known)
    if names:
        raise InvalidSchemaError(
            f"two columns would have the name {names[0]}: one with the dot in its own name, and a field of a struct; other engines do not load such a table",
            problems=[Problem(where=name, what="is the name of two columns") for name in names],
            next_step="choose another name for one of them",
        )


def _walk_short(fields: Iterable[NestedField], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    """Yield fields as `walk` does, with paths that omit `element` and `value` if these are structs. JAVA: TypeUtil.indexByName.

    Each field has one short path, which omits all of these names. A path for every combination of omitted names would be 2**n paths for n nested lists of
    structs.
    """
    for field in fields:
        path = (*prefix, field.name)
        yield path, field
        for child in children(field.field_type):
            is_left_out = isinstance(child.field_type, StructType) and not isinstance(field.field_type, StructType) and child.name != "key"
            inner = child.field_type.fields if is_left_out and isinstance(child.field_type, StructType) else (child,)
            yield from _walk_short(inner, path)


def assign_fresh_ids(schema: Schema, *, first_id: int = 1) -> Schema:
    """Return the schema with new ids from `first_id` upwards. The fields of a level get ids before their children, as in Java's new tables."""
    numbers = count(first_id)
    new_ids: dict[int, int] = {}
    fields = _renumber_fields(schema.fields, lambda: next(numbers), new_ids)
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=tuple(new_ids[i] for i in schema.identifier_field_ids))


def _renumber_fields(fields: tuple[NestedField, ...], fresh: Callable[[], int], new_ids: dict[int, int]) -> tuple[NestedField, ...]:
    fresh_ids = [fresh() for _ in fields]
    new_ids.update({field.field_id: fresh_id for field, fresh_id in zip(fields, fresh_ids, strict=True)})
    return tuple(_renumber_field(field, fresh_id, fresh, new_ids) for field, fresh_id in zip(fields, fresh_ids, strict=True))


def _renumber_field(field: NestedField, fresh_id: int, fresh: Callable[[], int], new_ids: dict[int, int]) -> NestedField:
    """Return the field with its new id. Its defaults are converted too, because structs in them contain field ids."""
    kind = renumbered_type(field.field_type, fresh, new_ids)
    return replace(
        field,
        field_id=fresh_id,
        field_type=kind,
        initial_default=with_field_ids(field.field_type, field.initial_default, new_ids),
        write_default=with_field_ids(field.field_type, field.write_default, new_ids),
    )


def renumbered_type(kind: IcebergType, fresh: Callable[[], int], new_ids: dict[int, int]) -> IcebergType:
    """Return the type with a new id for each field inside it. The fields of a level get ids before their children.

    Args:
        kind: The type.
        fresh: Returns the next id.
        new_ids: The new ids by old id, which this function adds to.
    """
    if isinstance(kind, StructType):
        return StructType(*_renumber_fields(kind.fields, fresh, new_ids))
    if isinstance(kind, ListType):
        element_id = new_ids[kind.element_id] = fresh()
        return replace(kind, element_id=element_id, element=renumbered_type(kind.element, fresh, new_ids))
    if isinstance(kind, MapType):
        key_id = new_ids[kind.key_id] = fresh()
        value_id = new_ids[kind.value_id] = fresh()
        return replace(
            kind,
            key_id=key_id,
            value_id=value_id,
            key_type=renumbered_type(kind.key_type, fresh, new_ids),
            value_type=renumbered_type(kind.value_type, fresh, new_ids),
        )
    return kind


def edit_field(fields: Fields, field_id: int, edit: Callable[[NestedField], NestedField | None]) -> Fields:
    """Return the fields with one field, at any depth, replaced by the result of `edit` for it. The field is removed if `edit` returns None."""
    edited: list[NestedField] = []
    for field in fields:
        changed = edit(field) if field.field_id == field_id else replace(field, field_type=_edit_type(field.field_type, field_id, edit))
        if changed is not None:
            edited.append(changed)
    return tuple(edited)


def _edit_type(kind: IcebergType, field_id: int, edit: Callable[[NestedField], NestedField | None]) -> IcebergType:
    inner = edit_field(children(kind), field_id, edit)
    if isinstance(kind, StructType):
        return StructType(*inner)
    if isinstance(kind, ListType):
        return replace(kind, element=inner[0].field_type, element_required=inner[0].required)
    if isinstance(kind, MapType):
        return replace(kind, value_type=inner[1].field_type, value_required=inner[1].required)
    return kind


def _prune(field: NestedField, selected_ids: set[int]) -> NestedField | None:
    if field.field_id in selected_ids:
        return field
    if isinstance(field.field_type, StructType):
        selected = tuple(child for child in (_prune(child, selected_ids) for child in field.field_type.fields) if child is not None)
        return replace(field, field_type=StructType(*selected)) if selected else None
    if any(inner.field_id in selected_ids for _, inner in walk(children(field.field_type))):
        return field  # lists and maps are never read in part
    return None


def fields_to_read(schema: Schema, projection: Schema, tested_ids: Set[int]) -> Fields:
    """Return the columns that a read needs, in the schema's order: the projection and the columns of its filter.

    Projected lists and maps are returned exactly as in the projection, because filters never test fields inside lists and maps.

    Spec: Column Projection.
    """
    return _needed_fields(schema.fields, projection.fields, tested_ids)


def _needed_fields(fields: Fields, projected_fields: Iterable[NestedField], tested_ids: Set[int]) -> Fields:
    projected = {field.field_id: field for field in projected_fields}
    needed: list[NestedField] = []
    for field in fields:
        part = projected.get(field.field_id)
        if part is None:
            needed += select_fields((field,), tested_ids)
        elif isinstance(field.field_type, StructType) and isinstance(part.field_type, StructType) and part.field_type.fields:
            needed.append(
                replace(field, field_type=StructType(*_needed_fields(field.field_type.fields, part.field_type.fields, tested_ids)))
            )
        elif isinstance(field.field_type, StructType):
            needed.append(field)
        else:
            needed.append(part)
    return tuple(needed)


def schema_with_lineage(schema: Schema) -> Schema:
    """Return the schema of copied rows: the columns followed by the two lineage columns. Spec: Row Lineage."""
    return Schema(*with_lineage(schema.fields), schema_id=schema.schema_id)


def select_fields(fields: Fields, field_ids: Set[int]) -> Fields:
    """Return the fields with these ids, complete with their children. A struct with another id is reduced to those of its fields that have one of these ids."""
    selected = []
    for field in fields:
        if field.field_id in field_ids:
            selected.append(field)
        elif isinstance(field.field_type, StructType) and (inner := select_fields(field.field_type.fields, field_ids)):
            selected.append(replace(field, field_type=StructType(*inner)))
    return tuple(selected)


def _wrong_types(schema: Schema) -> Iterator[Problem]:
    for path, field in walk(schema.fields):
        if not isinstance(field.field_type, IcebergType):
            yield Problem(where=".".join(path), what=f"{field.field_type!r} is not a type; pass one such as LongType()")


def _problems(schema: Schema) -> Iterator[Problem]:
    seen_ids: dict[int, str] = {}
    seen_names: set[tuple[str, ...]] = set()
    for path, field in walk(schema.fields):
        name = ".".join(path)
        if field.field_id in seen_ids:
            yield Problem(where=name, what=f"field id {field.field_id} is also that of {seen_ids[field.field_id]}")
        if path in seen_names:
            yield Problem(where=name, what="two columns have this name; rename one of them")
        if not field.name:
            yield Problem(where=name, what=f"field {field.field_id} has an empty name")
        if is_reserved(field.field_id) and ((field.field_id not in RESERVED_FIELD_IDS and field != COMMIT_TIMESTAMP) or len(path) > 1):
            yield Problem(where=name, what=f"field id {field.field_id} is reserved (ids above {MAX_USER_FIELD_ID} are)")
        seen_ids.setdefault(field.field_id, name)
        seen_names.add(path)
        if field.required and isinstance(field.field_type, UnknownType):
            yield Problem(where=name, what="a column of type unknown is optional, because its values are all null")
        for word, default in (("initial-default", field.initial_default), ("write-default", field.write_default)):
            problem = default_problem(field.field_type, default) if default is not None else None
            if problem is not None:
                yield Problem(where=name, what=f"{word}: {problem}")
    for field_id in schema.identifier_field_ids:
        path, field_at = next(((path, field) for path, field in walk(schema.fields) if field.field_id == field_id), ((), None))
        if field_at is None:
            yield Problem(where="identifier-field-ids", what=f"there is no field {field_id}")
        elif not field_at.field_type.is_primitive or isinstance(field_at.field_type, FloatType | DoubleType):
            yield Problem(where=field_at.name, what=f"an identifier field may not be of type {field_at.field_type}")
        elif not field_at.required or not _reachable(schema.fields, path):
            yield Problem(where=field_at.name, what="an identifier field is required, as is every struct around it, outside lists and maps")


def _reachable(fields: tuple[NestedField, ...], path: tuple[str, ...]) -> bool:
    """Return True if every parent of the field at `path` is a required struct."""
    for part in path[:-1]:
        field = next(field for field in fields if field.name == part)
        if not field.required or not isinstance(field.field_type, StructType):
            return False
        fields = field.field_type.fields
    return True
