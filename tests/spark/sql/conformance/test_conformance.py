"""Icefloe's SQL and Java's, each on every file of statements: the rows in the files are those of Java's Iceberg."""

from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession
from tests.spark.sql.conformance.conformance import Mismatch, agrees, files, mismatches, statements
from tests.spark.sql.conformance.java import java_outcomes
from tests.spark.sql.conftest import Run

# These subjects run with the slow tests, because other tests cover them too.
SLOW = (
    "alter_tables",
    "branches",
    "create_tables",
    "deletes",
    "inserts",
    "layouts",
    "merges",
    "metadata_columns",
    "metadata_tables",
    "overwrites",
    "procedures",
    "reading",
    "time_travel",
    "updates",
    "views",
)


def subjects() -> list[ParameterSet]:
    return [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in SLOW else ()) for path in files()]


@pytest.mark.spark
@pytest.mark.parametrize("path", subjects())
def test_icefloe_returns_the_rows_of_java(spark: SparkSession, sql: Run, path: Path, tmp_path: Path) -> None:
    def run(text: str) -> list[object]:
        return list(spark.sql(text).collect())

    found = mismatches(run, path, "icefloe", str(tmp_path), spark.version)
    assert not found, "\n".join(map(str, found))


@pytest.mark.oracle
@pytest.mark.slow
def test_java_returns_the_rows_of_the_files() -> None:
    outcomes = java_outcomes()
    expected = {
        (path.stem, statement.line): statement
        for path in files()
        for statement in statements(path)
        if statement.only != "icefloe" and not statement.until
    }
    assert outcomes.keys() == expected.keys()
    wrong = [
        Mismatch(statement=expected[key], found=found)
        for key, found in outcomes.items()
        if not agrees(expected[key].expected, found, "java")
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_suite_has_at_least_400_statements() -> None:
    every = [statement for path in files() for statement in statements(path)]
    assert len(every) >= 400
    assert all(one.expected is not None for one in every)
