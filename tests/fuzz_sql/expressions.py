"""Random expressions over the columns of a schema: paths into lists, maps and structs, functions that take functions, and conditions.

Every expression has the same value whatever the order in which rows are read. Those that can fail (an element that is not there, in the ANSI mode) are left
out, since an engine may evaluate them on more rows or fewer.
"""

from dataclasses import dataclass
from random import Random

from tests.fuzz_sql.rows import ValueMaker
from tests.fuzz_sql.schemas import Field, Kind, Leaf, ListOf, MapOf, Struct, quoted, sql_type, text_literal

UNORDERED = ("VARIANT", "VOID")  # no equality, no order


@dataclass(frozen=True)
class Typed:
    """An expression of SQL with its type."""

    sql: str
    kind: Kind

    def field(self, field: Field) -> "Typed":
        return Typed(f"{self.sql}.{quoted(field.name)}", field.kind)


def columns_of(schema: Struct, alias: str) -> list[Typed]:
    return [Typed(f"{alias}.{quoted(field.name)}", field.kind) for field in schema.fields]


def contains_unordered(kind: Kind) -> bool:
    match kind:
        case Leaf(name):
            return name in UNORDERED
        case ListOf(element):
            return contains_unordered(element)
        case MapOf(key, value):
            return contains_unordered(key) or contains_unordered(value)
        case Struct(_, fields):
            return any(contains_unordered(field.kind) for field in fields)


class ExpressionMaker:
    """Random expressions of one statement."""

    def __init__(self, chosen: Random, values: ValueMaker) -> None:
        self.chosen = chosen
        self.values = values
        self.variables = 0

    def variable(self, letter: str) -> str:
        self.variables += 1
        return f"{letter}{self.variables}"

    def path(self, start: Typed, *, stop: float = 0.2) -> Typed:
        """Return a random expression below another one: a field, an element, a transformed list and so on."""
        if self.chosen.random() < stop:
            return start
        match start.kind:
            case Struct(_, fields):
                return self.path(start.field(self.chosen.choice(fields)), stop=stop)
            case ListOf(element):
                return self._below_list(start, element, stop)
            case MapOf(key, value):
                return self._below_map(start, key, value, stop)
        return start

    def _below_list(self, start: Typed, element: Kind, stop: float) -> Typed:
        choice = self.chosen.choice(
            ["get", "get", "get", "field", "field", "transform", "filter", "size", "element_at", "slice", "aggregate"]
        )
        if choice == "field" and isinstance(element, Struct):
            field = self.chosen.choice(element.fields)
            return self.path(Typed(f"{start.sql}.{quoted(field.name)}", ListOf(field.kind)), stop=stop)
        if choice == "transform":
            one = self.variable("x")
            below = self.path(Typed(one, element), stop=stop)
            return self.path(Typed(f"transform({start.sql}, {one} -> {below.sql})", ListOf(below.kind)), stop=0.5)
        if choice == "filter":
            one = self.variable("x")
            return self.path(Typed(f"filter({start.sql}, {one} -> {self.condition_on(Typed(one, element))})", start.kind), stop=stop)
        if choice == "size":
            return Typed(f"size({start.sql})", Leaf("INT"))
        if choice == "slice":
            return self.path(Typed(f"slice({start.sql}, 1, {self.chosen.randint(1, 2)})", start.kind), stop=stop)
        if choice == "element_at":
            return self.path(Typed(f"try_element_at({start.sql}, {self.chosen.choice([1, 2, -1])})", element), stop=stop)
        if choice == "aggregate":
            total, one = self.variable("s"), self.variable("x")
            test = self.condition_on(Typed(one, element))
            step = f"({total}, {one}) -> {total} + CASE WHEN {test} THEN 1 ELSE 0 END"
            return Typed(f"aggregate({start.sql}, 0, {step})", Leaf("INT"))
        return self.path(Typed(f"get({start.sql}, {self.chosen.choice([0, 0, 0, 1])})", element), stop=stop)

    def _below_map(self, start: Typed, key: Kind, value: Kind, stop: float) -> Typed:
        choices = ["values", "values", "keys", "entries", "filter", "transform", "size", "element", "element", "transform_keys"]
        choice = self.chosen.choice(choices)
        if choice == "element":
            return self.path(Typed(f"try_element_at({start.sql}, {self.values.literal(key)})", value), stop=stop)
        if choice == "keys":
            return self.path(Typed(f"map_keys({start.sql})", ListOf(key)), stop=stop)
        if choice == "entries":
            entry = Struct(-1, (Field(-1, "key", key), Field(-2, "value", value)))
            return self.path(Typed(f"map_entries({start.sql})", ListOf(entry)), stop=stop)
        if choice == "size":
            return Typed(f"size({start.sql})", Leaf("INT"))
        names = self.variable("k"), self.variable("v")
        if choice == "filter":
            test = self.condition_on(Typed(*self.chosen.choice([(names[0], key), (names[1], value)])))
            return self.path(Typed(f"map_filter({start.sql}, ({names[0]}, {names[1]}) -> {test})", start.kind), stop=stop)
        if choice == "transform":
            below = self.path(Typed(names[1], value), stop=stop)
            sql = f"transform_values({start.sql}, ({names[0]}, {names[1]}) -> {below.sql})"
            return self.path(Typed(sql, MapOf(key, below.kind)), stop=0.5)
        return self.path(Typed(f"map_values({start.sql})", ListOf(value)), stop=stop)

    def leaf_below(self, start: Typed, *, tries: int = 8) -> Typed | None:
        """Return a path to a leaf that can be compared; None where none was found."""
        for _ in range(tries):
            found = self.path(start, stop=0.0)
            if isinstance(found.kind, Leaf) and found.kind.name not in UNORDERED:
                return found
        return None

    def some_leaf(self, columns: list[Typed]) -> Typed:
        """Return a path to a leaf below one of the columns; the first column if nothing else is found."""
        for _ in range(4):
            found = self.leaf_below(self.chosen.choice(columns), tries=3)
            if found is not None:
                return found
        return columns[0]

    def condition(self, columns: list[Typed]) -> str:
        """Return a condition over columns, of one to three tests."""
        tests = [self.condition_on(self.path(self.chosen.choice(columns), stop=0.1)) for _ in range(self.chosen.choice([1, 1, 2, 3]))]
        if len(tests) > 1:
            tests = [f"({self.chosen.choice([' AND ', ' OR ']).join(tests)})"]
        return f"NOT ({tests[0]})" if self.chosen.random() < 0.15 else tests[0]

    def condition_on(self, value: Typed) -> str:
        """Return a test of one value."""
        sql = value.sql
        if self.chosen.random() < 0.15:
            return f"{sql} IS {self.chosen.choice(['', 'NOT '])}NULL"
        match value.kind:
            case Leaf(name):
                return self._test_of_leaf(sql, name)
            case Struct(_, fields):
                return self.condition_on(value.field(self.chosen.choice(fields)))
            case ListOf(element):
                one = self.variable("x")
                test = self.condition_on(Typed(one, element))
                quantified = f"{self.chosen.choice(['exists', 'forall'])}({sql}, {one} -> {test})"
                return self.chosen.choice([quantified, quantified, f"size({sql}) > {self.chosen.randint(0, 2)}"])
            case MapOf(key, inner):
                one, other = self.variable("k"), self.variable("v")
                test = self.condition_on(Typed(other, inner))
                return self.chosen.choice(
                    [
                        f"size(map_filter({sql}, ({one}, {other}) -> {test})) > 0",
                        f"map_contains_key({sql}, {self.values.literal(key)})",
                        f"exists(map_values({sql}), {other} -> {test})",
                    ]
                )

    def _test_of_leaf(self, sql: str, name: str) -> str:
        kind = Leaf(name)
        if name in UNORDERED:
            return f"{sql} IS NULL"
        literals = [self.values.literal(kind) for _ in range(3)]
        tests = [
            f"{sql} = {literals[0]}",
            f"{sql} = {literals[0]}",
            f"{sql} <=> {literals[0]}",
            f"{sql} <> {literals[0]}",
            f"{sql} {self.chosen.choice(['<', '<=', '>', '>='])} {literals[0]}",
            f"{sql} {self.chosen.choice(['<', '<=', '>', '>='])} {literals[0]}",
            f"{sql} IN ({', '.join(literals)})",
            f"{sql} NOT IN ({', '.join(literals)})",
            f"{sql} BETWEEN {literals[0]} AND {literals[1]}",
        ]
        if name in ("STRING", "UUID"):
            pattern = self.chosen.choice(["a%", "%b", "%e%", "_", "a_%", "", "0%", "%\\\\%%"])
            tests += [f"{sql} LIKE {text_literal(pattern)}", f"startswith({sql}, 'a')"]
        if name in ("FLOAT", "DOUBLE"):
            tests.append(f"isnan({sql})")
        if name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            tests.append(f"year({sql}) = {self.chosen.choice([2024, 1970, 1])}")
        if name == "BOOLEAN":
            tests.append(sql)
        return self.chosen.choice(tests)

    def same_kind(self, columns: list[Typed], kind: Kind) -> str:
        """Return an expression of exactly this type: a literal, or a column that has it."""
        others = [column.sql for column in columns if sql_type(column.kind) == sql_type(kind) and column.kind == kind]
        if others and self.chosen.random() < 0.4:
            return self.chosen.choice(others)
        return f"{self.values.literal(kind)}" if self.chosen.random() < 0.85 else f"CAST(NULL AS {sql_type(kind)})"
