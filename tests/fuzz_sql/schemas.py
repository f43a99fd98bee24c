"""Random schemas, and what changes them: every field has a number that stays the same while names, places and types change.

The numbers are the judge's own. They are not the field ids of Iceberg, which the judge never sees.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

PLAIN_NAMES = ("a", "b", "c", "d", "e", "x", "y", "name", "city")
ODD_NAMES = (
    "with space",
    "dot.ted",
    "back`tick",
    "ünï",
    "数",
    "select",
    "x-y",
    "quo'te",
    'dou"ble',
    "element",
    "key",
    "value",
    "list",
    "array",
    "1st",
    "_2",
    "a/b",
    "%41",
)
COMMON_LEAVES = ("INT", "BIGINT", "STRING", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(9,2)")
RARE_LEAVES = ("FLOAT", "TIMESTAMP_NTZ", "BINARY", "DECIMAL(18,4)", "DECIMAL(38,10)", "DECIMAL(5,2)")
KEY_LEAVES = ("STRING", "STRING", "INT", "BIGINT", "DATE", "DECIMAL(9,2)", "BOOLEAN")
# Types that a table of Iceberg has and Spark does not: a column gets one by the Python API, and Spark has the values as the type on the right.
FOREIGN_LEAVES = {"UUID": "STRING", "FIXED": "BINARY"}
WIDER = {
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(5,2)": ("DECIMAL(9,2)", "DECIMAL(20,2)"),
    "DECIMAL(9,2)": ("DECIMAL(18,2)", "DECIMAL(38,2)"),
    "DECIMAL(18,4)": ("DECIMAL(20,4)",),
}
DEEPEST = 4


@dataclass(frozen=True)
class Leaf:
    name: str


@dataclass(frozen=True)
class ListOf:
    element: "Kind"


@dataclass(frozen=True)
class MapOf:
    key: "Kind"
    value: "Kind"


@dataclass(frozen=True)
class Struct:
    number: int
    fields: tuple["Field", ...]


@dataclass(frozen=True)
class Field:
    number: int
    name: str
    kind: "Kind"
    required: bool = False


Kind = Leaf | ListOf | MapOf | Struct
Path = tuple[str, ...]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def dotted(path: Path) -> str:
    return ".".join(map(quoted, path))


def text_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\0")
    return f"'{escaped}'"


def sql_type(kind: Kind) -> str:
    """Return the type as Spark's SQL has it."""
    match kind:
        case Leaf(name):
            return FOREIGN_LEAVES.get(name, name)
        case ListOf(element):
            return f"ARRAY<{sql_type(element)}>"
        case MapOf(key, value):
            return f"MAP<{sql_type(key)}, {sql_type(value)}>"
        case Struct(_, fields):
            return f"STRUCT<{', '.join(f'{quoted(field.name)}: {sql_type(field.kind)}' for field in fields)}>"


class SchemaMaker:
    """Random kinds and names of one table; numbers are never used twice."""

    def __init__(self, chosen: Random, *, case_sensitive: bool, leaves: tuple[str, ...]) -> None:
        self.chosen = chosen
        self.case_sensitive = case_sensitive
        self.leaves = leaves
        self.last_number = 0

    def number(self) -> int:
        self.last_number += 1
        return self.last_number

    def table(self) -> Struct:
        """Return the columns of a new table; the first is a number by which its rows differ."""
        columns = [Field(self.number(), self.chosen.choice(["k", "k", "id", "a key", "K.k"]), Leaf("INT"))]
        for _ in range(self.chosen.randint(2, 6)):
            names = [column.name for column in columns]
            columns.append(Field(self.number(), self.name(names), self.kind(0 if self.chosen.random() < 0.7 else DEEPEST)))
        return Struct(0, tuple(columns))

    def name(self, siblings: list[str]) -> str:
        while True:
            name = self.chosen.choice(PLAIN_NAMES if self.chosen.random() < 0.7 else ODD_NAMES)
            if self.chosen.random() < 0.1:
                name = name.upper()
            if self.chosen.random() < 0.1:
                name += str(self.chosen.randint(0, 3))
            if name not in siblings and (self.case_sensitive or name.lower() not in [other.lower() for other in siblings]):
                return name

    def kind(self, depth: int = 0) -> Kind:
        """Return a random type; `depth` is how many levels are above it."""
        if depth >= DEEPEST or self.chosen.random() < 0.12 + 0.18 * depth:
            return self.leaf()
        match self.chosen.choice(["struct", "struct", "struct", "list", "list", "map"]):
            case "struct":
                return self.struct(depth)
            case "list":
                return ListOf(self.kind(depth + 1))
            case _:
                key = self.struct(DEEPEST - 1, keys=True) if self.chosen.random() < 0.15 else Leaf(self.chosen.choice(KEY_LEAVES))
                return MapOf(key, self.kind(depth + 1))

    def struct(self, depth: int, *, keys: bool = False) -> Struct:
        number, fields = self.number(), list[Field]()
        for _ in range(self.chosen.randint(2 if depth < DEEPEST - 1 else 1, 4)):
            kind = Leaf(self.chosen.choice(KEY_LEAVES)) if keys else self.kind(depth + 1)
            fields.append(Field(self.number(), self.name([field.name for field in fields]), kind))
        return Struct(number, tuple(fields))

    def leaf(self) -> Leaf:
        return Leaf(self.chosen.choice(self.leaves))


def walk(kind: Kind, above: Path = (), *, in_key: bool = False) -> Iterator[tuple[Path, Field | None, Kind, bool]]:
    """Yield every type with its path, its field (None for elements, keys and values) and whether it is part of a map's key."""
    match kind:
        case ListOf(element):
            yield (*above, "element"), None, element, in_key
            yield from walk(element, (*above, "element"), in_key=in_key)
        case MapOf(key, value):
            yield (*above, "key"), None, key, True
            yield from walk(key, (*above, "key"), in_key=True)
            yield (*above, "value"), None, value, in_key
            yield from walk(value, (*above, "value"), in_key=in_key)
        case Struct(_, fields):
            for field in fields:
                yield (*above, field.name), field, field.kind, in_key
                yield from walk(field.kind, (*above, field.name), in_key=in_key)


def path_of(schema: Struct, number: int) -> Path | None:
    """Return the path of a field, or of the struct with this number; None where there is none any more."""
    if schema.number == number:
        return ()
    for path, field, kind, _ in walk(schema):
        if (field is not None and field.number == number) or (isinstance(kind, Struct) and kind.number == number):
            return path
    return None


def has_leaf(schema: Struct, name: str) -> bool:
    return any(kind == Leaf(name) for _, _, kind, _ in walk(schema))


def has_struct_keys(schema: Struct) -> bool:
    return any(isinstance(kind, MapOf) and isinstance(kind.key, Struct) for _, _, kind, _ in walk(schema))


def edited(kind: Kind, number: int, edit: Callable[[Struct], Struct]) -> Kind:
    """Return the type with the struct of this number, or the struct that has a field of this number, edited."""
    match kind:
        case ListOf(element):
            return ListOf(edited(element, number, edit))
        case MapOf(key, value):
            return MapOf(edited(key, number, edit), edited(value, number, edit))
        case Struct(own, fields):
            if own == number or any(field.number == number for field in fields):
                return edit(kind)
            return Struct(own, tuple(replace(field, kind=edited(field.kind, number, edit)) for field in fields))
    return kind


def converted(expression: str, old: Kind, new: Kind, depth: int = 0) -> str:
    """Return a value of the old type as one of the new type, in SQL: fields are found by their numbers, and a new one is null."""
    if old == new:
        return expression
    match old, new:
        case ListOf(before), ListOf(after):
            return f"transform({expression}, e{depth} -> {converted(f'e{depth}', before, after, depth + 1)})"
        case MapOf(_, before), MapOf(_, after) if old.key == new.key:
            return f"transform_values({expression}, (k{depth}, v{depth}) -> {converted(f'v{depth}', before, after, depth + 1)})"
        case MapOf(), MapOf():
            entry = f"e{depth}"
            key = converted(f"{entry}.key", old.key, new.key, depth + 1)
            value = converted(f"{entry}.value", old.value, new.value, depth + 1)
            return f"map_from_entries(transform(map_entries({expression}), {entry} -> named_struct('key', {key}, 'value', {value})))"
        case Struct(_, before), Struct(_, after):
            return f"CASE WHEN {expression} IS NOT NULL THEN named_struct({', '.join(_members(expression, before, after, depth))}) END"
    return f"CAST({expression} AS {sql_type(new)})"


def _members(expression: str, before: tuple[Field, ...], after: tuple[Field, ...], depth: int) -> Iterator[str]:
    by_number = {field.number: field for field in before}
    for field in after:
        old = by_number.get(field.number)
        value = f"CAST(NULL AS {sql_type(field.kind)})"
        if old is not None:
            value = converted(f"{expression}.{quoted(old.name)}", old.kind, field.kind, depth)
        yield f"{text_literal(field.name)}, {value}"


def converted_columns(alias: str, old: Struct, new: Struct) -> list[str]:
    """Return the columns of the new schema as expressions over a table of the old one."""
    by_number = {field.number: field for field in old.fields}
    columns = []
    for field in new.fields:
        before = by_number.get(field.number)
        value = f"CAST(NULL AS {sql_type(field.kind)})"
        if before is not None:
            value = converted(f"{alias}.{quoted(before.name)}", before.kind, field.kind)
        columns.append(f"{value} AS {quoted(field.name)}")
    return columns
