"""How a MERGE joins its source: after a semi join with the target, where Spark's own join would read the whole target. Rows are compared with a model.

Sources by kind are in `test_merge_sources.py`, clauses in `test_row_level.py`. How a source is read, and whether it is too large, changes no result.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append, stored

from icefloe import SqlCatalog
from icefloe.operations.rows.row_level_commit import ChangedRows
from icefloe.spark.row_level import broadcast_source, operation

pytestmark = pytest.mark.spark

Row = tuple[int | None, ...]
Plans = Callable[[], str]
UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
SEMI = "Join LeftSemi"


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plans:
    """Return the optimized and the executed plan of the last statement."""
    seen: list[str] = []

    def noting(rows: DataFrame, *others: Any) -> ChangedRows:
        query = rows._jdf.queryExecution()
        seen.append(f"{query.optimizedPlan().toString()}\n{query.executedPlan().toString()}")
        return write(rows, *others)

    write = operation.write_changed_rows
    monkeypatch.setattr(operation, "write_changed_rows", noting)
    return lambda: seen[-1]


@pytest.fixture
def many(sql: Run, lake: SqlCatalog) -> None:
    """Create a table of 100,000 rows, and a view `few` with some rows of the table and some new ones."""
    sql(
        "CREATE TABLE lake.db.t (id BIGINT, v BIGINT, note STRING) TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read')"
    )
    append(lake, [(number, 0, "x" * 20) for number in range(100000)])
    sql("CREATE OR REPLACE TEMPORARY VIEW few AS SELECT id, 1L AS v, 'new' AS note FROM range(90000, 110000, 10)")


def test_the_target_is_semi_joined_before_rows_are_inserted(sql: Run, lake: SqlCatalog, plan: Plans, many: None) -> None:
    sql(f"MERGE INTO lake.db.t t USING few s ON t.id = s.id {UPSERT}")
    optimized = plan().splitlines()
    semi = next(line for line in optimized if SEMI in line)
    assert "rightHint=(strategy=broadcast)" in semi
    assert any("Join RightOuter" in line for line in optimized)
    # Only the keys are sent to the scan of the target.
    executed = plan()[plan().index("BroadcastHashJoin") :].splitlines()
    sent = next(place for place, line in enumerate(executed) if "BroadcastExchange" in line)
    assert re.search(r"Project \[id#\d+L\]$", executed[sent + 1])
    assert Counter(stored(lake, "v")) == {(0,): 99_000, (1,): 2_000}


def test_no_semi_join_is_added_where_spark_broadcasts_the_source_or_needs_all_rows(
    sql: Run, lake: SqlCatalog, plan: Plans, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("MERGE INTO lake.db.t t USING few s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v")
    assert SEMI not in plan()
    assert "Join Inner" in plan()
    sql(f"MERGE INTO lake.db.t t USING few s ON t.id = s.id {UPSERT} WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN DELETE")
    assert SEMI not in plan()
    assert "Join FullOuter" in plan()
    assert Counter(stored(lake, "v")) == {(0,): 98_990, (1,): 2_000}
    # No rows can be looked up by such a condition.
    sql(f"MERGE INTO lake.db.t t USING (SELECT * FROM few LIMIT 2) s ON t.id < s.id - 99990 {UPSERT.replace('s.v', '7')} ")
    assert SEMI not in plan()
    monkeypatch.setattr(broadcast_source, "MOST_SOURCE_BYTES", 1_000)
    sql(f"MERGE INTO lake.db.t t USING few s ON t.id = s.id {UPSERT}")
    assert SEMI not in plan()


def test_joins_of_other_queries_are_not_changed(spark: SparkSession, sql: Run, lake: SqlCatalog, plan: Plans, many: None) -> None:
    joined = spark.sql("SELECT t.id, s.v FROM lake.db.t t RIGHT JOIN few s ON t.id = s.id")
    assert "LeftSemi" not in joined._jdf.queryExecution().optimizedPlan().toString()
    # In a source too, which is read before.
    source = "(SELECT s.id, s.v, t.note FROM lake.db.t t RIGHT JOIN few s ON t.id = s.id LIMIT 5000)"
    sql(f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id {UPSERT}")
    assert plan().count(SEMI) == 1
    assert Counter(stored(lake, "v")) == {(0,): 99_000, (1,): 2_000}


def merged(target: list[Row], source: list[Row], matches: Callable[[Row, Row], bool]) -> list[Row]:
    """Return the result of MERGE by its definition: `UPDATE SET v = s.v` for an even `s.v`, DELETE for an odd one, INSERT of rows whose `v` is not 9."""
    found = []
    for row in target:
        by = [one for one in source if matches(row, one)]
        assert len(by) < 2
        found += [row] if not by else [] if by[0][2] % 2 else [(*row[:2], by[0][2])]  # type: ignore[operator]
    return found + [one for one in source if not any(matches(row, one) for row in target) and one[2] != 9]


def equal(one: int | None, other: int | None) -> bool:
    return one is not None and one == other


CONDITIONS: dict[str, Callable[[Row, Row], bool]] = {
    "t.a = s.a AND t.b = s.b": lambda t, s: equal(t[0], s[0]) and equal(t[1], s[1]),
    "t.a <=> s.a AND s.b <=> t.b": lambda t, s: t[:2] == s[:2],
    "t.a = s.a AND t.b <=> s.b AND t.v < s.v": lambda t, s: equal(t[0], s[0]) and t[1] == s[1] and t[2] < s[2],  # type: ignore[operator]
    "t.a + 1 = s.a AND t.b = s.b AND s.v > 3": lambda t, s: (
        None not in (t[0], s[0], t[1], s[1]) and t[0] + 1 == s[0] and t[1] == s[1] and s[2] > 3  # type: ignore[operator]
    ),
    "t.a * 10 + t.b = s.a * 10 + s.b": lambda t, s: None not in (*t[:2], *s[:2]) and t[:2] == s[:2],
}
WAYS = {
    "at once": {},
    "in two looks": {"_FIRST_ROWS": 5},
    "too large": {"MOST_SOURCE_BYTES": 0},
    "larger than it seemed": {"MOST_SOURCE_BYTES": 900},
}


def some_rows(chance: random.Random) -> Iterator[Row]:
    while True:
        yield (*(chance.choice([None, *range(8)]) for _ in range(2)), chance.randrange(10))


@pytest.mark.parametrize("way", ["in two looks", *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS if way != "in two looks")])
@pytest.mark.parametrize("condition", repetitions(list(CONDITIONS), *list(CONDITIONS)[1:4:2]))
def test_rows_equal_those_of_a_model_of_merge(
    spark: SparkSession, sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, condition: str, way: str
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(broadcast_source, name, value)
    chance = random.Random(condition)
    rows, matches = some_rows(chance), CONDITIONS[condition]
    target = [next(rows) for _ in range(40)]
    source: list[Row] = []
    while len(source) < 40:  # rows that match no row of the target may be there several times
        one = next(rows)
        if not any(matches(row, one) and any(matches(row, other) for other in source) for row in target):
            source += [one] if any(matches(row, one) for row in target) else [one, one]
    mode = chance.choice(["copy-on-write", "merge-on-read"])
    sql(f"CREATE TABLE lake.db.t (a BIGINT, b BIGINT, v BIGINT) TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    append(lake, target)
    # Rows from Python: Spark has no estimate of their size, by which one of the ways would not read the first of them.
    spark.createDataFrame(source, "a BIGINT, b BIGINT, v BIGINT").repartition(3).createOrReplaceTempView("given")
    sql(f"""MERGE INTO lake.db.t t USING given s ON {condition} WHEN MATCHED AND s.v % 2 = 0 THEN UPDATE SET v = s.v WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED AND s.v <> 9 THEN INSERT *""")
    assert sorted(stored(lake, "a", "b", "v"), key=repr) == sorted(merged(target, source, matches), key=repr)


@pytest.mark.parametrize("way", [pytest.param("at once", marks=pytest.mark.slow), "in two looks"])
def test_a_row_matched_twice_raises_the_error_of_spark(
    sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, many: None, way: str
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(broadcast_source, name, value)
    before = lake.load_table("db.t").metadata_location
    twice = "(SELECT * FROM few UNION ALL SELECT * FROM few WHERE id = 90010)"
    with pytest.raises(SparkRuntimeException, match="MERGE_CARDINALITY_VIOLATION"):
        sql(f"MERGE INTO lake.db.t t USING {twice} s ON t.id = s.id {UPSERT}")
    assert lake.load_table("db.t").metadata_location == before


SOURCES = {
    "a subquery": "(SELECT id, max(v) AS v FROM few_ids GROUP BY id)",
    "a view": "few_ids",
    "VALUES": "(SELECT * FROM VALUES (2L, -2L), (3L, -3L), (7L, -7L), (8L, -8L) AS (id, v))",
    "a limit": "(SELECT id, v FROM few_ids LIMIT 4)",
    "a sample": "(SELECT id, v FROM few_ids TABLESAMPLE (4 ROWS))",
    "a function of Python": "(SELECT minus(-id) AS id, v FROM few_ids)",
    "a join": "(SELECT f.id, f.v FROM few_ids f LEFT ANTI JOIN lake.db.t t ON f.id = t.id + 100)",
    "the same table": "(SELECT id + 2 AS id, -id - 2 AS v FROM lake.db.t WHERE id IN (0, 1) UNION ALL SELECT id, v FROM few_ids WHERE id > 3)",
    "a common table expression": "(WITH known AS (SELECT id, v FROM few_ids) SELECT a.id, b.v FROM known a JOIN known b ON a.id = b.id)",
}


@pytest.mark.parametrize("way", [pytest.param("at once", marks=pytest.mark.slow), "in two looks"])
@pytest.mark.parametrize(
    "kind",
    repetitions(
        list(SOURCES), *(kind for kind in SOURCES if kind not in ("a subquery", "a view", "VALUES", "a sample", "a join", "the same table"))
    ),
)
def test_sources_of_every_kind_are_semi_joined(
    spark: SparkSession, sql: Run, lake: SqlCatalog, plan: Plans, monkeypatch: pytest.MonkeyPatch, kind: str, way: str
) -> None:
    for name, value in (WAYS[way] | ({"_FIRST_ROWS": 2} if way == "in two looks" else {})).items():
        monkeypatch.setattr(broadcast_source, name, value)
    spark.udf.register("minus", lambda one: -one, LongType())
    sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT)")
    append(lake, [(number, number) for number in range(5)])
    sql("CREATE OR REPLACE TEMPORARY VIEW few_ids AS SELECT id, -id AS v FROM VALUES (2L), (3L), (7L), (8L) AS (id)")
    sql(f"MERGE INTO lake.db.t t USING {SOURCES[kind]} s ON t.id = s.id {UPSERT}")
    assert SEMI in plan()
    assert stored(lake, "id", "v") == [(0, 0), (1, 1), (2, -2), (3, -3), (4, 4), (7, -7), (8, -8)]


@pytest.mark.parametrize("way", [pytest.param("at once", marks=pytest.mark.slow), "in two looks"])
def test_random_rows_of_a_source_are_the_same_in_both_joins(
    spark: SparkSession, sql: Run, lake: SqlCatalog, plan: Plans, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(broadcast_source, name, value)
    sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT)")
    append(lake, [(number, 0) for number in range(100)])
    # Of each pair of ids one by chance, which the function hides from Spark.
    spark.udf.register("either", lambda pair: 2 * pair + random.SystemRandom().randrange(2), LongType())
    source = "(SELECT either(id) AS id, 1L AS v FROM range(0, 100, 1, 3) LIMIT 60)"
    sql(f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id {UPSERT}")
    assert SEMI in plan()
    found = sql("SELECT id, v FROM lake.db.t")
    assert len({one for one, _ in found}) == len(found)
    assert sum(v for _, v in found) == 60
    with suppress(AnalysisException):  # newer versions of Spark refuse what they know to be by chance
        sql(f"MERGE INTO lake.db.t t USING (SELECT id, 1L AS v FROM range(300) WHERE rand() < 0.5) s ON t.id = s.id {UPSERT}")
    found = sql("SELECT id FROM lake.db.t")
    assert len(set(found)) == len(found)
