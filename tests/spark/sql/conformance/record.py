"""Write the results of Java's Iceberg into the files: `python -m tests.spark.sql.conformance.record [SUBJECT ...]`. Review them before a commit.

An error that the file already names stays as it is, with the names that other versions of Spark have for it.
"""

import sys
from dataclasses import replace
from pathlib import Path

from tests.spark.sql.conformance.conformance import Outcome, Statement, agrees, files, statements, written
from tests.spark.sql.conformance.java import java_outcomes


def head(path: Path) -> str:
    """Return the comments before the first block with a statement."""
    first = path.read_text().split("\n\n")[0]
    return first if all(line.startswith("--") for line in first.splitlines()) else ""


def recorded(one: Statement, found: Outcome | None) -> Statement:
    if found is None or (found.error is not None and agrees(one.expected, found, "java")):
        return one
    if found.error is not None:
        print(f"{one.file}: {one.text}\n    {found.error}: {found.words}")
    return replace(one, expected=found)


def record(*subjects: str) -> None:
    outcomes = java_outcomes(*subjects)
    for path in files():
        if not subjects or path.stem in subjects:
            blocks = [recorded(statement, outcomes.get((path.stem, statement.line))) for statement in statements(path)]
            path.write_text(written(head(path), blocks))


if __name__ == "__main__":
    record(*sys.argv[1:])
