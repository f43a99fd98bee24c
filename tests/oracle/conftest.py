"""Other Iceberg engines, each in an environment of its own beside the project (`../shared/oracles`); tests are skipped where it is absent."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ORACLES = Path(__file__).parents[3] / "shared" / "oracles"
Rows = list[dict[str, Any]]


def interpreter(engine: str) -> str:
    """Return the Python of an engine's environment, which is made at first use."""
    setup = ORACLES / "setup"
    if not setup.exists():
        pytest.skip(f"no oracle engines at {ORACLES}: they are kept beside the project, not in it")
    made = subprocess.run([str(setup), engine], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the environment of {engine} could not be made: {made.stderr[-300:]}")
    return made.stdout.strip().splitlines()[-1]


def run(engine: str, *arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run([interpreter(engine), *arguments], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def parsed(printed: str) -> Rows:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


@pytest.fixture(scope="session")
def duckdb_rows() -> Callable[..., Rows]:
    """Return the rows of a metadata file, at a snapshot id if given, as DuckDB reads them."""
    return lambda metadata, *snapshot, cwd=None: parsed(
        run("duckdb", str(ORACLES / "duckdb_rows.py"), metadata, *map(str, snapshot), cwd=cwd)
    )


@pytest.fixture(scope="session")
def java_rows() -> Callable[..., Rows]:
    """Return the rows of a metadata file as the Java implementation reads them."""
    return lambda metadata, *snapshot: parsed(
        run("java", str(ORACLES / "java_rows.py"), metadata, *(f"snapshot-id={number}" for number in snapshot))
    )


@pytest.fixture(scope="session")
def pyiceberg() -> Callable[..., str]:
    """Return a function that runs a script with PyIceberg and returns its output."""
    return lambda script, *arguments: run("pyiceberg", "-c", script, *arguments)


@pytest.fixture(scope="session")
def java_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse of tables that the Java implementation wrote, with `expected.json`."""
    interpreter("java")
    warehouse = tmp_path_factory.mktemp("java")
    run("java", str(ORACLES / "java_tables.py"), str(warehouse))
    return warehouse


@pytest.fixture(scope="session")
def java_script() -> Callable[..., str]:
    """Return a function that runs statements in a session `spark` of the Java implementation, whose catalog `j` is in the given folder."""
    head = "import sys; sys.path.insert(0, sys.argv[2]); from java_session import session; spark = session(sys.argv[1])\n"
    return lambda script, folder: run("java", "-c", head + script, folder, str(ORACLES))
