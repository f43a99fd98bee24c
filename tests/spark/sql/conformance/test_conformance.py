"""Icefloe's SQL and Java's, each on every file of statements: the rows in the files are Java's own."""

from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession
from tests.spark.sql.conformance.conformance import Mismatch, agrees, files, mismatches, statements
from tests.spark.sql.conformance.java import java_outcomes
from tests.spark.sql.conftest import Run

# These run with the slow tests, so that the others stay quick: what they are about has tests of its own.
SLOW = (
    "alter_tables",
    "branches",
    "deletes",
    "inserts",
    "layouts",
    "merges",
    "metadata_tables",
    "overwrites",
    "procedures",
    "reading",
    "updates",
    "views",
)


def subjects() -> list[ParameterSet]:
    return [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in SLOW else ()) for path in files()]


@pytest.mark.spark
@pytest.mark.parametrize("path", subjects())
def test_icefloe_answers_as_java_does(spark: SparkSession, sql: Run, path: Path, tmp_path: Path) -> None:
    def run(text: str) -> list[object]:
        return list(spark.sql(text).collect())

    found = mismatches(run, path, "icefloe", str(tmp_path), spark.version)
    assert not found, "\n".join(map(str, found))


@pytest.mark.oracle
@pytest.mark.slow
def test_java_answers_as_the_files_say() -> None:
    answers = java_outcomes()
    told = {(path.stem, one.line): one for path in files() for one in statements(path) if one.only != "icefloe" and not one.until}
    assert answers.keys() == told.keys()
    wrong = [Mismatch(statement=told[key], found=found) for key, found in answers.items() if not agrees(told[key].expected, found, "java")]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_suite_is_as_large_as_it_is_said_to_be() -> None:
    every = [one for path in files() for one in statements(path)]
    assert len(every) >= 400
    assert all(one.expected is not None for one in every)
