"""What happens to a table: each step has the statements for the table of Iceberg, and the query by which the judge's rows are made of the rows before.

A step names fields by their numbers, so that it still applies where an earlier step was left out. One that does not raises `NotApplicableError`.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.fuzz_sql.rows import Value, rendered
from tests.fuzz_sql.schemas import (
    Field,
    Kind,
    Leaf,
    Path,
    Struct,
    converted_columns,
    dotted,
    edited,
    path_of,
    quoted,
    sql_type,
    text_literal,
    walk,
)

NAME = "{name}"  # the table of Iceberg in a step's statements
TABLE = "{t}"  # the judge's rows so far in a step's query
ROWS = "{rows}"  # in a condition: the table itself on both sides
Row = dict[int, Value]


class NotApplicableError(Exception):
    """A step names a field that the schema does not have."""


@dataclass(frozen=True)
class Step:
    """A change of a table.

    Attributes:
        label: What kind of step it is.
        may_be_refused: Whether the table may refuse it, by a rule of the format; it is left out then. Anything else has to succeed wherever the judge does.
    """

    label = "step"
    may_be_refused = False

    def changed(self, schema: Struct) -> Struct:
        """Return the schema after the step."""
        return schema

    def statements(self, schema: Struct) -> list[str]:
        """Return what is run on the table: SQL, or Python after `>>> `."""
        raise NotImplementedError

    def judge(self, schema: Struct) -> str | None:
        """Return the query of all rows after the step; None where the rows stay as they are."""
        after = self.changed(schema)
        return None if after == schema else f"SELECT {', '.join(converted_columns('t', schema, after))} FROM {TABLE} t"


def required_path(schema: Struct, number: int) -> Path:
    path = path_of(schema, number)
    if path is None:
        raise NotApplicableError(f"no field {number}")
    return path


def transformed(schema: Struct, number: int, transform: str) -> str:
    """Return a partition field as SQL names it."""
    return transform.replace("{}", dotted(required_path(schema, number)))


def values_clause(schema: Struct, rows: tuple[Row, ...], alias: str) -> str:
    """Return rows as an inline table with the columns of a schema."""
    lines = ", ".join(f"({', '.join(rendered(row.get(column.number), column.kind) for column in schema.fields)})" for row in rows)
    return f"VALUES {lines} AS {alias}({', '.join(quoted(column.name) for column in schema.fields)})"


# ---- the schema


@dataclass(frozen=True)
class AddField(Step):
    struct: int
    field: Field
    after: int | None = None
    first: bool = False
    default: str | None = None
    label = "add field"
    may_be_refused = True

    def changed(self, schema: Struct) -> Struct:
        required_path(schema, self.struct)

        def add(found: Struct) -> Struct:
            if self.field.name in [other.name for other in found.fields]:
                raise NotApplicableError(f"{self.field.name} exists")
            place = _place(found, self.after, first=self.first)
            return Struct(found.number, (*found.fields[:place], self.field, *found.fields[place:]))

        return _struct(edited(schema, self.struct, add))

    def statements(self, schema: Struct) -> list[str]:
        path = (*required_path(schema, self.struct), self.field.name)
        match self.field.kind:
            case Leaf("UUID"):
                return [f">>> update_schema({path!r}, UUIDType())"]
            case Leaf("FIXED"):
                return [f">>> update_schema({path!r}, FixedType(4))"]
        default = f" DEFAULT {self.default}" if self.default else ""
        return [
            f"ALTER TABLE {NAME} ADD COLUMN {dotted(path)} {sql_type(self.field.kind)}{default}{_position(schema, self.after, first=self.first)}"
        ]

    def judge(self, schema: Struct) -> str | None:
        sql = super().judge(schema)
        if sql is None or self.default is None:
            return sql
        null = f"CAST(NULL AS {sql_type(self.field.kind)}) AS {quoted(self.field.name)}"
        return sql.replace(null, f"CAST({self.default} AS {sql_type(self.field.kind)}) AS {quoted(self.field.name)}")


@dataclass(frozen=True)
class RenameFields(Step):
    """New names of fields; several at once may exchange their names, which takes a name in between."""

    names: tuple[tuple[int, str], ...]
    label = "rename"
    may_be_refused = True

    def changed(self, schema: Struct) -> Struct:
        for number, name in self.names:
            required_path(schema, number)
            schema = _struct(edited(schema, number, lambda found: _with_field(found, number, lambda old: replace(old, name=name))))  # noqa: B023
        for found in _structs(schema):
            names = [column.name for column in found.fields]
            if len(set(names)) < len(names):
                raise NotApplicableError("a name twice")
        return schema

    def statements(self, schema: Struct) -> list[str]:
        paths = [required_path(schema, number) for number, _ in self.names]
        if len(paths) == 1:
            return [f"ALTER TABLE {NAME} RENAME COLUMN {dotted(paths[0])} TO {quoted(self.names[0][1])}"]
        statements = []
        for place, path in enumerate(paths):
            statements.append(f"ALTER TABLE {NAME} RENAME COLUMN {dotted(path)} TO between_{place}")
        for place, (path, (_, name)) in enumerate(zip(paths, self.names, strict=True)):
            statements.append(f"ALTER TABLE {NAME} RENAME COLUMN {dotted((*path[:-1], f'between_{place}'))} TO {quoted(name)}")
        return statements


@dataclass(frozen=True)
class DropField(Step):
    number: int
    label = "drop field"
    may_be_refused = True

    def changed(self, schema: Struct) -> Struct:
        required_path(schema, self.number)

        def drop(found: Struct) -> Struct:
            kept = tuple(column for column in found.fields if column.number != self.number)
            if not kept:
                raise NotApplicableError("the last field of a struct")
            return Struct(found.number, kept)

        return _struct(edited(schema, self.number, drop))

    def statements(self, schema: Struct) -> list[str]:
        return [f"ALTER TABLE {NAME} DROP COLUMN {dotted(required_path(schema, self.number))}"]


@dataclass(frozen=True)
class WidenField(Step):
    number: int
    kind: Leaf
    label = "promote type"
    may_be_refused = True

    def changed(self, schema: Struct) -> Struct:
        required_path(schema, self.number)
        return _struct(edited(schema, self.number, lambda found: _with_field(found, self.number, lambda old: replace(old, kind=self.kind))))

    def statements(self, schema: Struct) -> list[str]:
        return [f"ALTER TABLE {NAME} ALTER COLUMN {dotted(required_path(schema, self.number))} TYPE {self.kind.name}"]


@dataclass(frozen=True)
class MoveField(Step):
    number: int
    after: int | None = None
    label = "reorder"
    may_be_refused = True

    def changed(self, schema: Struct) -> Struct:
        required_path(schema, self.number)

        def move(found: Struct) -> Struct:
            moved = next(column for column in found.fields if column.number == self.number)
            others = Struct(found.number, tuple(column for column in found.fields if column is not moved))
            place = _place(others, self.after, first=self.after is None)
            return Struct(found.number, (*others.fields[:place], moved, *others.fields[place:]))

        return _struct(edited(schema, self.number, move))

    def statements(self, schema: Struct) -> list[str]:
        path = dotted(required_path(schema, self.number))
        return [f"ALTER TABLE {NAME} ALTER COLUMN {path}{_position(schema, self.after, first=self.after is None)}"]


def _struct(kind: Kind) -> Struct:
    if not isinstance(kind, Struct):
        raise TypeError("a table's columns are a struct")
    return kind


def _structs(schema: Struct) -> list[Struct]:
    return [schema, *(kind for _, _, kind, _ in walk(schema) if isinstance(kind, Struct))]


def _with_field(found: Struct, number: int, change: Any) -> Struct:
    return Struct(found.number, tuple(change(column) if column.number == number else column for column in found.fields))


def _place(found: Struct, after: int | None, *, first: bool) -> int:
    if first:
        return 0
    numbers = [column.number for column in found.fields]
    if after is not None and after not in numbers:
        raise NotApplicableError(f"no field {after} beside it")
    return len(numbers) if after is None else numbers.index(after) + 1


def _position(schema: Struct, after: int | None, *, first: bool) -> str:
    if first:
        return " FIRST"
    return f" AFTER {quoted(required_path(schema, after)[-1])}" if after is not None else ""


# ---- rows


@dataclass(frozen=True)
class Insert(Step):
    """New rows: by position, by name in another order of columns, or in the place of all rows."""

    rows: tuple[Row, ...]
    how: str = "position"
    order: tuple[int, ...] = ()
    label = "insert"

    def statements(self, schema: Struct) -> list[str]:
        if not self.rows:
            raise NotApplicableError("no rows")
        values = values_clause(schema, self.rows, "r")
        columns = ", ".join(quoted(column.name) for column in self._reordered(schema))
        match self.how:
            case "name":
                return [f"INSERT INTO {NAME} BY NAME SELECT {columns} FROM {values}"]
            case "columns":
                return [f"INSERT INTO {NAME} ({columns}) SELECT {columns} FROM {values}"]
            case "overwrite":
                return [f"INSERT OVERWRITE {NAME} SELECT * FROM {values}"]
        return [f"INSERT INTO {NAME} SELECT * FROM {values}"]

    def _reordered(self, schema: Struct) -> list[Field]:
        places = {number: place for place, number in enumerate(self.order)}
        return sorted(schema.fields, key=lambda column: places.get(column.number, len(places)))

    def judge(self, schema: Struct) -> str | None:
        before = "" if self.how == "overwrite" else f"SELECT * FROM {TABLE} t UNION ALL "
        return f"{before}SELECT * FROM {values_clause(schema, self.rows, 'r')}"


@dataclass(frozen=True)
class CopyRows(Step):
    """Rows of the table that are added to it once more."""

    where: str
    label = "insert from itself"

    def statements(self, schema: Struct) -> list[str]:
        return [f"INSERT INTO {NAME} SELECT * FROM {NAME} t WHERE {self.where}"]

    def judge(self, schema: Struct) -> str | None:
        return f"SELECT * FROM {TABLE} t UNION ALL SELECT * FROM {TABLE} t WHERE {self.where}"


@dataclass(frozen=True)
class Delete(Step):
    where: str
    label = "delete"

    def statements(self, schema: Struct) -> list[str]:
        return [f"DELETE FROM {NAME} t WHERE {self.where.replace(ROWS, NAME)}"]

    def judge(self, schema: Struct) -> str | None:
        return f"SELECT * FROM {TABLE} t WHERE NOT coalesce({self.where.replace(ROWS, TABLE)}, false)"


@dataclass(frozen=True)
class Assignment:
    """A column, or a field of structs in it, that gets a value."""

    number: int
    value: str

    def target(self, schema: Struct) -> str:
        return f"t.{dotted(required_path(schema, self.number))}"


def assigned_columns(schema: Struct, assignments: tuple[Assignment, ...]) -> dict[int, str]:
    """Return the new values of the columns that get one, by the numbers of the columns."""
    changed = {}
    for column in schema.fields:
        values = {one.number: one.value for one in assignments if required_path(schema, one.number)[0] == column.name}
        if values:
            changed[column.number] = _assigned(f"t.{quoted(column.name)}", column, values)
    return changed


def _assigned(expression: str, column: Field, values: dict[int, str]) -> str:
    if column.number in values:
        return values[column.number]
    if not isinstance(column.kind, Struct) or not any(field is not None and field.number in values for _, field, _, _ in walk(column.kind)):
        return expression
    members = [
        f"{text_literal(inner.name)}, {_assigned(f'{expression}.{quoted(inner.name)}', inner, values)}" for inner in column.kind.fields
    ]
    return f"named_struct({', '.join(members)})"


@dataclass(frozen=True)
class Update(Step):
    assignments: tuple[Assignment, ...]
    where: str
    label = "update"

    def statements(self, schema: Struct) -> list[str]:
        changes = ", ".join(f"{one.target(schema)} = {one.value}" for one in self.assignments)
        return [f"UPDATE {NAME} t SET {changes} WHERE {self.where.replace(ROWS, NAME)}"]

    def judge(self, schema: Struct) -> str | None:
        changed = assigned_columns(schema, self.assignments)
        columns = []
        for column in schema.fields:
            old = f"t.{quoted(column.name)}"
            new = (
                f"CASE WHEN {self.where.replace(ROWS, TABLE)} THEN {changed[column.number]} ELSE {old} END"
                if column.number in changed
                else old
            )
            columns.append(f"{new} AS {quoted(column.name)}")
        return f"SELECT {', '.join(columns)} FROM {TABLE} t"


@dataclass(frozen=True)
class Clause:
    """A WHEN clause: a condition, empty for all rows, and the assignments; None deletes."""

    condition: str
    assignments: tuple[Assignment, ...] | None
    all_columns: bool = False  # UPDATE SET *


@dataclass(frozen=True)
class Merge(Step):
    """A MERGE with source rows whose keys differ, so that a row of the table is matched by one at most."""

    rows: tuple[Row, ...]
    key: int
    condition: str  # more than the equal keys; empty for none
    matched: tuple[Clause, ...] = ()
    inserts: bool = True
    insert_condition: str = ""
    by_source: Clause | None = None
    label = "merge"

    def _on(self, schema: Struct) -> str:
        key = quoted(required_path(schema, self.key)[-1])
        return f"t.{key} = s.{key}" + (f" AND {self.condition}" if self.condition else "")

    def statements(self, schema: Struct) -> list[str]:
        if not self.rows:
            raise NotApplicableError("no rows")
        parts = [f"MERGE INTO {NAME} t USING (SELECT * FROM {values_clause(schema, self.rows, 'r')}) s ON {self._on(schema)}"]
        for clause in self.matched:
            parts.append(f"WHEN MATCHED{_and(clause.condition)} THEN {self._action(schema, clause)}")
        if self.inserts:
            parts.append(f"WHEN NOT MATCHED{_and(self.insert_condition)} THEN INSERT *")
        if self.by_source:
            parts.append(f"WHEN NOT MATCHED BY SOURCE{_and(self.by_source.condition)} THEN {self._action(schema, self.by_source)}")
        return [" ".join(parts)]

    @staticmethod
    def _action(schema: Struct, clause: Clause) -> str:
        if clause.all_columns:
            return "UPDATE SET *"
        if clause.assignments is None:
            return "DELETE"
        return "UPDATE SET " + ", ".join(f"{one.target(schema)} = {one.value}" for one in clause.assignments)

    def judge(self, schema: Struct) -> str | None:
        source = f"(SELECT *, true AS is_source FROM {values_clause(schema, self.rows, 'r')}) s"
        on = self._on(schema)
        clauses = [(f"s.is_source IS NOT NULL{_and(clause.condition)}", clause) for clause in self.matched]
        if self.by_source:
            clauses.append((f"s.is_source IS NULL{_and(self.by_source.condition)}", self.by_source))
        changed = [
            {column.number: f"s.{quoted(column.name)}" for column in schema.fields}
            if clause.all_columns
            else assigned_columns(schema, clause.assignments or ())
            for _, clause in clauses
        ]
        columns = []
        for column in schema.fields:
            old = f"t.{quoted(column.name)}"
            cases = "".join(
                f" WHEN {condition} THEN {values.get(column.number, old)}" for (condition, _), values in zip(clauses, changed, strict=True)
            )
            columns.append(f"CASE{cases} ELSE {old} END AS {quoted(column.name)}" if cases else f"{old} AS {quoted(column.name)}")
        deleted = "".join(f" WHEN {condition} THEN {str(_deletes(clause)).lower()}" for condition, clause in clauses)
        kept = f" WHERE NOT (CASE{deleted} ELSE false END)" if deleted else ""
        sql = f"SELECT {', '.join(columns)} FROM {TABLE} t LEFT JOIN {source} ON {on}{kept}"
        if self.inserts:
            new = ", ".join(f"s.{quoted(column.name)}" for column in schema.fields)
            where = f" WHERE {self.insert_condition}" if self.insert_condition else ""
            sql += f" UNION ALL SELECT {new} FROM {source} LEFT ANTI JOIN {TABLE} t ON {on}{where}"
        return sql


def _and(condition: str) -> str:
    return f" AND ({condition})" if condition else ""


def _deletes(clause: Clause) -> bool:
    return clause.assignments is None and not clause.all_columns


@dataclass(frozen=True)
class DeleteKeys(Step):
    """Equality deletes, which the library writes without reading the table."""

    numbers: tuple[int, ...]
    rows: tuple[Row, ...]
    label = "equality delete"
    may_be_refused = False

    def _keys(self, schema: Struct) -> Struct:
        columns = tuple(column for column in schema.fields if column.number in self.numbers)
        if len(columns) < len(self.numbers):
            raise NotApplicableError("a key column is not there")
        return Struct(0, columns)

    def statements(self, schema: Struct) -> list[str]:
        keys = self._keys(schema)
        names = [column.name for column in keys.fields]
        query = f"SELECT * FROM {values_clause(keys, self.rows, 'r')}"
        return [f">>> delete_keys({query!r}, {names!r})"]

    def judge(self, schema: Struct) -> str | None:
        keys = self._keys(schema)
        same = " AND ".join(f"r.{quoted(column.name)} <=> t.{quoted(column.name)}" for column in keys.fields)
        return f"SELECT t.* FROM {TABLE} t LEFT ANTI JOIN (SELECT * FROM {values_clause(keys, self.rows, 'r')}) r ON {same}"


# ---- the layout


@dataclass(frozen=True)
class Layout(Step):
    """Statements that leave the rows as they are: properties, partition fields, sort orders, compaction, expiry."""

    what: str
    texts: tuple[str, ...]
    refusable: bool = field(default=True)

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.what

    @property
    def may_be_refused(self) -> bool:  # type: ignore[override]
        return self.refusable

    def statements(self, schema: Struct) -> list[str]:
        return list(self.texts)


@dataclass(frozen=True)
class PartitionField(Step):
    """A new partition field, of a column or of a field of structs in it."""

    number: int
    transform: str  # with {} for the column; alone for identity
    label = "partition field"
    may_be_refused = True

    def statements(self, schema: Struct) -> list[str]:
        return [f"ALTER TABLE {NAME} ADD PARTITION FIELD {transformed(schema, self.number, self.transform)}"]


@dataclass(frozen=True)
class SortOrder(Step):
    number: int
    clause: str  # what follows the column
    label = "sort order"
    may_be_refused = True

    def statements(self, schema: Struct) -> list[str]:
        return [f"ALTER TABLE {NAME} WRITE {self.clause.replace('{}', dotted(required_path(schema, self.number)))}"]
