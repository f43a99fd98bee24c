"""Queries beyond those of `queries.py`: of sets, with several groupings, with frames of windows, of views, and of a time in the past."""

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz_sql.expressions import columns_of
from tests.fuzz_sql.queries import TABLE, Query, QueryMaker
from tests.fuzz_sql.schemas import Leaf


class WiderQueryMaker(QueryMaker):
    """Random queries of more kinds over a table with a schema."""

    def query(self) -> Query:
        if self.chosen.random() < 0.75:
            return super().query()
        makers: list[Callable[[], Query]] = [self.combined, self.grouped, self.framed, self.lateral, self.of_times]
        return self.chosen.choice(makers)()

    def created(self) -> Query:
        """Return a query whose rows come out of a new table, or out of a view."""
        if self.chosen.random() < 0.4:
            return super().created()
        query = self.query()
        through = self.chosen.choice(["view", "temporary view"])
        return replace(query, label=f"{through}, {query.label}", through=through)

    def of_version(self, place: int) -> Query:
        return replace(super().of_version(place), by_time=self.chosen.random() < 0.5)

    def combined(self) -> Query:
        """Return rows of two queries as sets or multisets."""
        leaves = [self.make.some_leaf(self.columns) for _ in range(2)]
        columns = tuple(f"{leaf.sql} AS c{place}" for place, leaf in enumerate(leaves))
        operator = self.chosen.choice(["UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT"])
        test, other = (self.make.condition(self.columns) for _ in range(2))
        right = f" {operator} SELECT {', '.join(columns)} FROM {TABLE} t WHERE {other}"
        return Query("sets", columns, f"FROM {TABLE} t", test, right, exact_zeros=False)

    def grouped(self) -> Query:
        """Return several groupings at once."""
        first, second = (self.make.some_leaf(self.columns).sql for _ in range(2))
        groups = self.chosen.choice(["ROLLUP(g, h)", "CUBE(g, h)", "GROUPING SETS ((g), (h), ())", "g, h"])
        having = f" HAVING count(*) > {self.chosen.randint(0, 2)}" if self.chosen.random() < 0.4 else ""
        measured = self.make.some_leaf(self.columns).sql
        inner = f"FROM (SELECT {first} AS g, {second} AS h, {measured} AS m FROM {TABLE} t{self._where(0.3)}) d"
        return Query("groupings", ("g", "h", "count(*) AS n", "max(m) AS m"), inner, "", f" GROUP BY {groups}{having}", exact_zeros=False)

    def framed(self) -> Query:
        """Return a count or an extreme over rows whose numbers are near."""
        key = next((column.sql for column in self.columns if column.kind == Leaf("INT")), None)
        if key is None:
            return self.window()
        leaf = self.make.some_leaf(self.columns)
        function = self.chosen.choice([f"count({leaf.sql})", f"max({leaf.sql})", f"min({leaf.sql})"])
        frame = self.chosen.choice(["2 PRECEDING AND CURRENT ROW", "UNBOUNDED PRECEDING AND 1 FOLLOWING"])
        over = f"{function} OVER (ORDER BY CAST({key} AS BIGINT) RANGE BETWEEN {frame})"
        return Query("window frame", self.outputs(self.columns, 2, first=over), f"FROM {TABLE} t", exact_zeros=False)

    def lateral(self) -> Query:
        """Return rows beside those of a query that refers to them."""
        key = self.make.some_leaf(self.columns).sql
        inner = self.make.some_leaf(columns_of(self.schema, "u")).sql
        test = self.make.condition(columns_of(self.schema, "u"))
        counted = f"LATERAL (SELECT count(*) AS n, max({inner}) AS m FROM {TABLE} u WHERE {key.replace('t.`', 'u.`')} = {key} AND {test}) l"
        return Query("lateral", (*self.outputs(self.columns, 1), "l.n AS n", "l.m AS m"), f"FROM {TABLE} t, {counted}", exact_zeros=False)

    def of_times(self) -> Query:
        """Return rows of some years, months or days, as reports have them."""
        times = [column for column in self.columns if column.kind in (Leaf("DATE"), Leaf("TIMESTAMP"), Leaf("TIMESTAMP_NTZ"))]
        if not times:
            return self.filtered()
        time = self.chosen.choice(times)
        part = self.chosen.choice(["year({})", "month({})", "CAST({} AS DATE)", "date_trunc('MONTH', {})", "CAST({} AS STRING)"]).replace(
            "{}", time.sql
        )
        if self.chosen.random() < 0.5:
            return Query("groups of times", (f"{part} AS p", "count(*) AS n"), f"FROM {TABLE} t", "", f" GROUP BY {part}")
        low, high = (self.make.values.literal(time.kind) for _ in range(2))
        return Query(
            "range of times", self.outputs(self.columns, 2, first=part), f"FROM {TABLE} t", f"{time.sql} >= {low} AND {time.sql} < {high}"
        )

    def _where(self, share: float) -> str:
        condition = self.condition_or_none(self.columns, share)
        return f" WHERE {condition}" if condition else ""
