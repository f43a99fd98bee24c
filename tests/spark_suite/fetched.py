"""Spark's tests and what they need, in a folder that git ignores."""

import zipfile
from pathlib import Path

from tests.jvm_suite.fetched import Fetched

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".spark-suite"
FETCHED = Fetched(HERE, FOLDER, "Spark's tests")
INPUTS, GOLDEN, DATA = FOLDER / "sql-tests/inputs", FOLDER / "sql-tests/results", FOLDER / "test-data/postgresql"


def fetch() -> None:
    """Fetch the jars, compile our Java sources and unpack Spark's files of SQL, unless all is there and nothing changed. Raises as `Fetched.fetch`."""
    FETCHED.fetch(_prepare)


def class_path() -> str:
    """Everything in front of Spark's own jars."""
    return FETCHED.class_path()


def _prepare() -> None:
    FETCHED.run_java("icefloe.sparksuite.Prepare", str(FETCHED.changed))
    with zipfile.ZipFile(next(FETCHED.jars.glob("spark-sql_*-tests.jar"))) as jar:
        jar.extractall(
            FOLDER,
            [name for name in jar.namelist() if name.startswith(("sql-tests/inputs/", "sql-tests/results/", "test-data/postgresql/"))],
        )
