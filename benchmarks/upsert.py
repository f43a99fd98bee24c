"""Upserts to tables of 1,000,000 rows in ten files, compared with PyIceberg, and the growth to an upsert of as many rows as the table has.

Half of the rows of each upsert are rows of the table with another value, the others are new. Each engine creates its table once in each run.
"""

import shutil
from collections.abc import Mapping
from typing import Any

from benchmarks import measure
from benchmarks.measure import Comparison, child, say, seconds

TABLE_ROWS = 1_000_000


def run() -> list[Comparison]:
    """Measure the upserts; PyIceberg's quadratic one is measured once, at two sizes."""
    lines = []
    for rows, goal in ((1_000, ""), (100_000, "<= 0.1")):
        say(f"upsert: {rows:,} rows into {TABLE_ROWS:,}")
        ours, theirs = upserted("icefloe", rows), upserted("pyiceberg", rows)
        what = f"upsert of {rows:,} rows into {TABLE_ROWS:,}"
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, goal))
        if goal:
            for by, title in (
                ("spark-again", "of a Spark DataFrame, the second of the session"),
                ("spark", "of a Spark DataFrame, the first"),
            ):
                taken = upserted("icefloe", rows, by)
                lines.append(Comparison(f"{what}, {title}", seconds(taken), seconds(theirs), taken / theirs, goal))
            read = run_child("icefloe", rows, "spark-read")["seconds"]
            title = "its rows as Arrow by Spark alone, the first query of a session (the whole upsert)"
            lines.append(Comparison(f"{what}, {title}", seconds(read), seconds(taken), read / taken, ""))
    whole = upserted("icefloe", TABLE_ROWS)
    lines.append(
        Comparison(f"upsert of {TABLE_ROWS:,} rows into as many, beside 100,000 above", seconds(whole), seconds(theirs), whole / theirs, "")
    )
    for by, what in (("spark", "the same, of a Spark DataFrame"), ("spark-tasks", "the same, joined by Spark's tasks")):
        taken = upserted("icefloe", TABLE_ROWS, by)
        lines.append(Comparison(what, seconds(taken), seconds(theirs), taken / theirs, ""))
    return lines


def upserted(engine: str, rows: int, by: str = "arrow") -> float:
    """Return the seconds of the upsert without creating the table."""
    found = run_child(engine, rows, by)
    assert (found["updated"], found["inserted"]) == (rows // 2, rows - rows // 2), found
    return float(found["seconds"])


def run_child(engine: str, rows: int, by: str) -> Mapping[str, Any]:
    """Run the child process in a new folder, and return what it prints."""
    folder = measure.BUILD / "upsert"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "warehouse").mkdir(parents=True)
    return child(engine, "upsert_child.py", str(folder), str(TABLE_ROWS), str(rows), by)
