"""Random queries over one table. `{t}` is the place of the table, so that the same text reads the table of Iceberg and the judge's."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz_sql.expressions import ExpressionMaker, Typed, columns_of, contains_unordered
from tests.fuzz_sql.rows import ValueMaker
from tests.fuzz_sql.schemas import Kind, Leaf, ListOf, MapOf, Struct, quoted

TABLE = "{t}"


@dataclass(frozen=True)
class Query:
    """A query that reads `{t}`.

    Attributes:
        label: What kind of query it is.
        outputs: The columns of its result, each with its name.
        source: The text from FROM on, without the condition.
        where: The condition; empty for none.
        tail: What follows the condition.
        head: What is before the columns.
        exact_zeros: Whether 0.0 and -0.0 are different results. Keys of groups and joins, and extremes, may be either.
        version: The version of the table that it reads, by its place in the history; None is the newest.
        by_time: Whether the version is named by the time of its commit; else by its number.
        through: "table" where the rows are written to a new table, "view" or "temporary view" where the query is that of a new view, which is then compared.
    """

    label: str
    outputs: tuple[str, ...]
    source: str
    where: str = ""
    tail: str = ""
    head: str = "SELECT"
    exact_zeros: bool = True
    version: int | None = None
    by_time: bool = False
    through: str = ""

    @property
    def sql(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        return f"{self.head} {', '.join(self.outputs)} {self.source}{where}{self.tail}"


def shown(value: Typed) -> str | None:
    """Return a column of results; None for a value that cannot be compared. Variants are shown as JSON: the same value has several encodings."""
    if not contains_unordered(value.kind):
        return value.sql
    return f"to_json(named_struct('v', {value.sql}))" if not _has_odd_keys(value.kind) else None


def _has_odd_keys(kind: Kind) -> bool:
    match kind:
        case MapOf(key, value):
            return key != Leaf("STRING") or _has_odd_keys(value)
        case ListOf(element):
            return _has_odd_keys(element)
        case Struct(_, fields):
            return any(_has_odd_keys(field.kind) for field in fields)
    return False


def everything(schema: Struct) -> Query:
    """Return the query of all rows and columns."""
    columns = [(shown(column), field.name) for column, field in zip(columns_of(schema, "t"), schema.fields, strict=True)]
    return Query("all rows", tuple(f"{sql} AS {quoted(name)}" for sql, name in columns if sql is not None), f"FROM {TABLE} t")


class QueryMaker:
    """Random queries over a table with a schema."""

    def __init__(self, chosen: Random, values: ValueMaker, schema: Struct) -> None:
        self.chosen = chosen
        self.schema = schema
        self.make = ExpressionMaker(chosen, values)
        self.columns = columns_of(schema, "t")

    def query(self) -> Query:
        makers: tuple[tuple[int, Callable[[], Query]], ...] = (
            (6, self.projection),
            (5, self.filtered),
            (3, self.aggregate),
            (4, self.exploded),
            (2, self.derived),
            (2, self.joined),
            (2, self.with_subquery),
            (2, self.window),
            (1, self.ordered),
        )
        weights, choices = zip(*makers, strict=True)
        return self.chosen.choices(choices, weights)[0]()

    def created(self) -> Query:
        """Return a query whose rows are written to a new table."""
        query = self.query()
        return replace(query, label=f"create table as select, {query.label}", through="table")

    def of_version(self, place: int) -> Query:
        """Return a query of an earlier version of the table, whose schema this maker has."""
        query = self.query()
        return replace(query, label="time travel", version=place)

    def outputs(self, columns: list[Typed], most: int = 3, *, first: str = "") -> tuple[str, ...]:
        """Return columns of results: paths below some columns, after one that is given or often the key."""
        texts = [first] if first else []
        for _ in range(self.chosen.randint(1, most)):
            text = shown(self.make.path(self.chosen.choice(columns)))
            if text is not None:
                texts.append(text)
        if not texts or (not first and self.chosen.random() < 0.4):
            texts.append(self.columns[0].sql if columns is self.columns else "1")
        return tuple(f"{text} AS c{place}" for place, text in enumerate(texts))

    def condition_or_none(self, columns: list[Typed], share: float) -> str:
        return self.make.condition(columns) if self.chosen.random() < share else ""

    def projection(self) -> Query:
        return Query("projection", self.outputs(self.columns), f"FROM {TABLE} t")

    def filtered(self) -> Query:
        return Query("filter", self.outputs(self.columns, 2), f"FROM {TABLE} t", self.make.condition(self.columns))

    def aggregate(self) -> Query:
        """Return extremes, counts and sums. Sums are of whole numbers, as those of floating-point numbers depend on the order."""
        functions = ["count(*) AS c0"] if self.chosen.random() < 0.6 else []
        for _ in range(self.chosen.randint(1, 3)):
            leaf = self.make.some_leaf(self.columns)
            name = self.chosen.choice(["min", "max", "min", "max", "count", "count_if", "count distinct", "sum"])
            texts = {
                "count distinct": f"count(DISTINCT {leaf.sql})",
                "count_if": f"count_if({self.make.condition_on(leaf)})",
                "sum": f"sum(CAST({leaf.sql} AS DECIMAL(28, 0)))" if leaf.kind in (Leaf("INT"), Leaf("BIGINT")) else f"count({leaf.sql})",
            }
            functions.append(f"{texts.get(name, f'{name}({leaf.sql})')} AS c{len(functions)}")
        where = self.condition_or_none(self.columns, 0.3)
        if self.chosen.random() < 0.5:
            key = self.make.some_leaf(self.columns).sql
            return Query("groups", (f"{key} AS g", *functions), f"FROM {TABLE} t", where, f" GROUP BY {key}", exact_zeros=False)
        return Query("aggregate", tuple(functions), f"FROM {TABLE} t", where, exact_zeros=False)

    def exploded(self) -> Query:
        """Return the rows of a list or map below the table's rows."""
        for _ in range(12):
            found = self.make.path(self.chosen.choice(self.columns), stop=0.4)
            outer = self.chosen.choice(["", "", "OUTER "])
            match found.kind:
                case ListOf(Struct(_, fields)) if self.chosen.random() < 0.3:
                    names = [f"f{place}" for place in range(len(fields))]
                    columns = [Typed(f"v.{name}", field.kind) for name, field in zip(names, fields, strict=True)]
                    view = f"LATERAL VIEW {outer}inline({found.sql}) v AS {', '.join(names)}"
                case ListOf(element):
                    columns = [Typed("v.e", element)]
                    view = f"LATERAL VIEW {outer}explode({found.sql}) v AS e"
                    if self.chosen.random() < 0.3:
                        view = f"LATERAL VIEW {outer}posexplode({found.sql}) v AS p, e"
                case MapOf(key, value):
                    columns = [Typed("v.k", key), Typed("v.e", value)]
                    view = f"LATERAL VIEW {outer}explode({found.sql}) v AS k, e"
                case _:
                    continue
            outputs = self.outputs(columns, 2, first=self.columns[0].sql)
            return Query("explode", outputs, f"FROM {TABLE} t {view}", self.condition_or_none(columns, 0.4))
        return self.projection()

    def derived(self) -> Query:
        """Return a query over a query, whose columns are new names for parts of the table's, or structs that are made of them."""
        first, second = self.make.path(self.chosen.choice(self.columns), stop=0.4), self.chosen.choice(self.columns)
        inner = f"SELECT {self.columns[0].sql} AS k, {first.sql} AS p, named_struct('m', {second.sql}) AS q FROM {TABLE} t"
        columns = [Typed("d.k", self.columns[0].kind), Typed("d.p", first.kind), Typed("d.q.m", second.kind)]
        outputs, where = self.outputs(columns), self.condition_or_none(columns, 0.5)
        if self.chosen.random() < 0.4:
            return Query("common table expression", outputs, "FROM d", where, head=f"WITH d AS ({inner}) SELECT")
        return Query("derived table", outputs, f"FROM ({inner}) d", where)

    def joined(self) -> Query:
        """Return a join of the table with itself, by a key that is somewhere in its columns."""
        others = columns_of(self.schema, "u")
        key = self.make.some_leaf(self.columns).sql if self.chosen.random() < 0.5 else self.columns[0].sql
        kind = self.chosen.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN"])
        right = f"(SELECT * FROM {TABLE} u WHERE {self.make.condition(others)}) u" if self.chosen.random() < 0.5 else f"{TABLE} u"
        columns = self.columns if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else self.columns + others
        source = f"FROM {TABLE} t {kind} {right} ON {key} = {_of_other(key)}"
        return Query("join", self.outputs(columns), source, exact_zeros=False)

    def with_subquery(self) -> Query:
        others = columns_of(self.schema, "u")
        key = quoted(self.schema.fields[0].name)
        inner, test = self.make.some_leaf(others), self.make.condition(others)
        match self.chosen.choice(["exists", "not exists", "in", "scalar", "scalar column"]):
            case "in":
                leaf = self.make.some_leaf(self.columns)
                condition = f"{leaf.sql} IN (SELECT {_of_other(leaf.sql)} FROM {TABLE} u WHERE {test})"
            case "scalar":
                condition = f"t.{key} >= (SELECT count({inner.sql}) FROM {TABLE} u WHERE {test})"
            case "scalar column":
                scalar = f"(SELECT max({inner.sql}) FROM {TABLE} u WHERE u.{key} = t.{key})"
                return Query("subquery", self.outputs(self.columns, 2, first=scalar), f"FROM {TABLE} t", exact_zeros=False)
            case negation:
                exists = f"EXISTS (SELECT 1 FROM {TABLE} u WHERE u.{key} = t.{key} AND {test})"
                condition = exists if negation == "exists" else f"NOT {exists}"
        return Query("subquery", self.outputs(self.columns, 2), f"FROM {TABLE} t", condition, exact_zeros=False)

    def window(self) -> Query:
        part, order = self.make.some_leaf(self.columns), self.make.some_leaf(self.columns)
        function = self.chosen.choice(["rank()", "dense_rank()", f"count({order.sql})", f"max({order.sql})"])
        over = f"{function} OVER (PARTITION BY {part.sql} ORDER BY {order.sql}{self.chosen.choice(['', ' DESC', ' NULLS LAST'])})"
        return Query("window", self.outputs(self.columns, 2, first=over), f"FROM {TABLE} t", exact_zeros=False)

    def ordered(self) -> Query:
        leaf = self.make.some_leaf(self.columns)
        head = self.chosen.choice(["SELECT", "SELECT DISTINCT"])
        order = f" ORDER BY c0{self.chosen.choice(['', ' DESC', ' NULLS LAST'])} LIMIT {self.chosen.randint(1, 5)}"
        return Query(
            "order", (f"{leaf.sql} AS c0",), f"FROM {TABLE} t", "", order if self.chosen.random() < 0.7 else "", head, exact_zeros=False
        )


def _of_other(sql: str) -> str:
    """Return an expression over the table `t` as one over `u`."""
    return sql.replace("t.`", "u.`")
