"""Processes that commit to several tables at once and are killed at random moments, on SQLite and PostgreSQL: each commit is in all its tables or in none."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_stress(*arguments: object) -> dict[str, Any]:
    """Run `python -m tests.stress_tables` and return its report."""
    command = [sys.executable, "-m", "tests.stress_tables", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_commits_to_several_tables_are_atomic_when_writers_are_killed() -> None:
    result = run_stress("--rounds", 3)
    assert result["rounds"] == 3
    assert result["acknowledged"] > 0


@pytest.mark.slow
def test_commits_to_several_tables_are_atomic_under_long_stress() -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    assert run_stress("--rounds", rounds, "--seed", 2)["rounds"] == rounds


@pytest.mark.slow
@pytest.mark.postgres
def test_commits_to_several_tables_on_postgresql_are_atomic_under_long_stress(postgres_uri: str) -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    assert run_stress("--uri", postgres_uri, "--rounds", rounds, "--seed", 3)["rounds"] == rounds
