"""Concurrent processes on one table, and processes killed, terminated or interrupted at random moments, on SQLite and PostgreSQL.

Each stress test runs in a separate process (`tests/stress.py`), which forks the writers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_stress(*arguments: object, seconds: int = 3600) -> dict[str, Any]:
    """Run `python -m tests.stress` and return its report."""
    command = [sys.executable, "-m", "tests.stress", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
def test_commits_of_a_few_concurrent_writers_are_all_applied() -> None:
    """Run three writers; two are in the default run, in `test_processes.py`."""
    assert run_stress("many", "--writers", 3, "--commits", 4)["commits"] == 12


def test_a_table_is_intact_after_writers_are_stopped() -> None:
    result = run_stress("kill", "--rounds", 3, "--signal", "KILL,TERM,INT")
    assert result["rounds"] == 3
    assert result["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_a_hundred_commits_of_each_of_eight_writers_are_all_applied(version: int) -> None:
    assert run_stress("many", "--version", version)["commits"] == 800


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["KILL", "TERM", "INT"])
def test_a_table_is_intact_under_long_stress(kind: str) -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    assert run_stress("kill", "--rounds", rounds, "--signal", kind)["rounds"] == rounds


@pytest.mark.slow
@pytest.mark.postgres
def test_commits_of_eight_writers_on_postgresql_are_all_applied(postgres_uri: str) -> None:
    assert run_stress("many", "--uri", postgres_uri)["commits"] == 800


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["KILL", "TERM", "INT"])
def test_a_table_on_postgresql_is_intact_under_long_stress(postgres_uri: str, kind: str) -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    assert run_stress("kill", "--uri", postgres_uri, "--rounds", rounds, "--signal", kind)["rounds"] == rounds
