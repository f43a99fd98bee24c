"""Processes side by side on one table, and processes killed, terminated or interrupted at random moments, on SQLite and PostgreSQL.

Each storm runs in a process of its own (`tests/storm.py`), which forks the writers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def storm(*arguments: object, seconds: int = 3600) -> dict[str, Any]:
    """What `python -m tests.stress` says came of it."""
    command = [sys.executable, "-m", "tests.stress", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_a_few_writers_at_once_lose_nothing() -> None:
    assert storm("many", "--writers", 3, "--commits", 7)["commits"] == 21


def test_a_table_outlives_stopped_writers() -> None:
    result = storm("kill", "--rounds", 5, "--signal", "KILL,TERM,INT")
    assert result["rounds"] == 5
    assert result["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_eight_writers_of_a_hundred_commits_lose_nothing(version: int) -> None:
    assert storm("many", "--version", version)["commits"] == 800


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["KILL", "TERM", "INT"])
def test_a_table_outlives_a_storm(kind: str) -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    assert storm("kill", "--rounds", rounds, "--signal", kind)["rounds"] == rounds


@pytest.mark.slow
@pytest.mark.postgres
def test_eight_writers_on_postgresql_lose_nothing(postgres_uri: str) -> None:
    assert storm("many", "--uri", postgres_uri)["commits"] == 800


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["KILL", "TERM", "INT"])
def test_a_table_on_postgresql_outlives_a_storm(postgres_uri: str, kind: str) -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    assert storm("kill", "--uri", postgres_uri, "--rounds", rounds, "--signal", kind)["rounds"] == rounds
