"""TPC-H: the 22 queries on Iceberg tables, compared with `spark.read.parquet` on the same data files.

DuckDB generates the data and the expected rows (`tpch_child.py`), which both sides must return. The sides take turns in one JVM, in two sessions of one Spark
context. The time of a query is the best of its runs; the time of a side is the sum over the queries. `ICEFLOE_TPCH_RUNS` sets the runs of each query,
`ICEFLOE_TPCH_QUERIES` the numbers of the queries; `tpch_tables.py` has the scale and the cores. At scale 10, on 2 cores, every run counts, since a query takes
much longer there than the JVM takes to compile it.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Row, SparkSession

from benchmarks.measure import Comparison, interleaved, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.spark_scans import jvm_seconds
from benchmarks.tpch_tables import SCALE, SESSION, loaded_tables, queries_of, sides, source_files

RUNS = int(os.environ.get("ICEFLOE_TPCH_RUNS", "5"))
WARM_UP = 2 if float(SCALE) < 10 else 0  # runs before the first one that counts
GOAL_OF_SUM = {"1": 0.95, "10": 0.97}
GOAL_OF_QUERY = 1.10
Taken = Mapping[int, Mapping[str, list[tuple[float, float]]]]


def timed(spark: SparkSession, query: str) -> tuple[float, float, list[Row]]:
    """Return the seconds of the clock and of the JVM's CPU that a query takes, and its rows."""
    before, started = jvm_seconds(spark), time.perf_counter()
    rows = spark.sql(query).collect()
    return time.perf_counter() - started, jvm_seconds(spark) - before, rows


def check_rows(number: int, side: str, rows: list[Row], wanted: list[dict[str, Any]]) -> None:
    """Compare the rows of a query with DuckDB's, in any order, since no query orders rows with equal keys.

    Raises:
        SystemExit: A row differs.
    """
    ours = sorted((tuple(comparable(value) for value in row) for row in rows), key=repr)
    theirs = sorted((tuple(comparable(value) for value in row.values()) for row in wanted), key=repr)
    equal = len(ours) == len(theirs) and all(
        all(
            isclose(a, b, rel_tol=1e-6, abs_tol=0.01) if isinstance(a, float) and isinstance(b, float) else a == b
            for a, b in zip(left, right, strict=True)
        )
        for left, right in zip(ours, theirs, strict=True)
    )
    if not equal:
        raise SystemExit(f"query {number} by {side} gives other rows than DuckDB: {ours[:3]} and {theirs[:3]}")


def comparable(value: Any) -> Any:
    """Return numbers as floats, since the engines divide decimals with different scales, and dates as text."""
    if isinstance(value, int | float | Decimal):
        return round(float(value), 2)
    return str(value)[:10] if isinstance(value, date) else value


def measured(
    sessions: Mapping[str, SparkSession],
    queries: Mapping[int, str],
    expected: Mapping[str, Path | None],
    name: str,
    runs: tuple[int, int] = (WARM_UP, RUNS),
) -> Iterator[tuple[int, dict[str, list[tuple[float, float]]]]]:
    """Check and measure each query.

    Args:
        sessions: The session of each side.
        queries: The queries, by number.
        expected: The folder and prefix of the files with DuckDB's rows, by side; None where DuckDB did not run on the rows of that side.
        name: The name of the benchmark, for its progress.
        runs: How often each side runs a query before it counts, and how often it counts.
    """
    warm_up, counted = runs
    for number, query in queries.items():
        # The first side differs from query to query, as it may find the system in another state.
        names = sorted(sessions, reverse=number % 2 == 0)
        actions: dict[str, Callable[[], Any]] = {side: partial(timed, sessions[side], query) for side in names}
        runs_by_side = interleaved(warm_up + counted, actions)
        for side, results in runs_by_side.items():
            for *_, rows in results[:1] if expected[side] is not None else ():
                check_rows(number, side, rows, pq.read_table(f"{expected[side]}-{number}.parquet").to_pylist())
        taken = {side: [(clock, cpu) for clock, cpu, _ in results[warm_up:]] for side, results in runs_by_side.items()}
        clock, cpu = ({side: min(run[part] for run in results) for side, results in taken.items()} for part in (0, 1))
        shown = ", ".join(
            f"{side} {clock[side]:.3f} s ({clock[side] / clock['parquet']:.2f}), CPU {cpu[side]:.2f} s ({cpu[side] / max(cpu['parquet'], 0.01):.2f})"
            for side in sorted(clock)
        )
        say(f"{name}: query {number:2} {shown}")
        yield number, taken


def compared(taken: Taken, title: str, other: str, goal_of_sum: float | None, goal_of_query: float | None) -> list[Comparison]:
    """Return the sums of both sides, by the clock and in CPU time, and of several runs the query with the highest ratio."""
    clock, cpu = (
        {side: {n: min(run[part] for run in runs[side]) for n, runs in taken.items()} for side in ("icefloe", "parquet")} for part in (0, 1)
    )
    lines = [
        (f"{title}, {len(taken)} queries, sum ({other})", {side: sum(best.values()) for side, best in clock.items()}, goal_of_sum),
        ("the same, CPU time of the JVM", {side: sum(best.values()) for side, best in cpu.items()}, None),
    ]
    if RUNS > 1:  # of single runs, the highest ratio shows other load more than a query
        worst = max(taken, key=lambda number: clock["icefloe"][number] / clock["parquet"][number])
        lines.append(
            (f"the same, worst query ({worst}), best of {RUNS}", {side: best[worst] for side, best in clock.items()}, goal_of_query)
        )
    return [
        Comparison(what, seconds(s["icefloe"]), seconds(s["parquet"]), s["icefloe"] / s["parquet"], "" if goal is None else f"<= {goal}")
        for what, s, goal in lines
    ]


def run() -> list[Comparison]:
    """Run the benchmark."""
    source = source_files()
    with session_with_lake(f"tpch-{SCALE}", **SESSION) as (spark, catalog, _):
        sessions = sides(spark, loaded_tables(spark, catalog, source, "bench"), "bench")
        taken = dict(measured(sessions, queries_of(source), dict.fromkeys(sessions, source / "expected"), "tpch"))
    return compared(taken, f"TPC-H scale {SCALE}", "spark.read.parquet of the same files", GOAL_OF_SUM.get(SCALE), GOAL_OF_QUERY)
