"""Writes Java's answers into the files: `python -m tests.spark.sql.conformance.record [SUBJECT ...]`, to be read through before they are kept.

An error that the file already names is left as it is written there, with the names that other versions of Spark have for it.
"""

import sys
from dataclasses import replace
from pathlib import Path

from tests.spark.sql.conformance.conformance import Outcome, Statement, agrees, files, statements, written
from tests.spark.sql.conformance.java import java_outcomes


def head(path: Path) -> str:
    """The remarks before the first block that holds a statement."""
    first = path.read_text().split("\n\n")[0]
    return first if all(line.startswith("--") for line in first.splitlines()) else ""


def recorded(one: Statement, found: Outcome | None) -> Statement:
    if found is None or (found.error is not None and agrees(one.expected, found, "java")):
        return one
    if found.error is not None:
        print(f"{one.file}: {one.text}\n    {found.error}: {found.words}")
    return replace(one, expected=found)


def record(*subjects: str) -> None:
    answers = java_outcomes(*subjects)
    for path in files():
        if not subjects or path.stem in subjects:
            kept = [recorded(one, answers.get((path.stem, one.line))) for one in statements(path)]
            path.write_text(written(head(path), kept))


if __name__ == "__main__":
    record(*sys.argv[1:])
