"""Maintenance beside writers, and maintenance killed at random moments, in processes of their own (`tests/maintenance_stress.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_stress(*arguments: object, seconds: int = 3600) -> dict[str, Any]:
    """Run `python -m tests.maintenance_stress` and return its report."""
    command = [sys.executable, "-m", "tests.maintenance_stress", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("version", [2, 3])
def test_no_writer_fails_beside_maintenance_and_no_row_is_lost_or_doubled(version: int) -> None:
    result = run_stress("beside", "--seconds", 2, "--writers", 2, "--version", version)
    assert result["commits"] > 0
    assert result["operations"]


@pytest.mark.parametrize("version", [2, 3])
def test_no_stream_of_upserts_fails_beside_maintain_and_its_deletes_are_converted(version: int) -> None:
    result = run_stress("cdc", "--conversions", 1, "--writers", 2, "--version", version)
    assert result["commits"] > 0
    assert result["operations"].get("convert-equality-deletes", 0) == 1


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_no_stream_of_upserts_fails_beside_ten_minutes_of_maintain(version: int) -> None:
    seconds = int(os.environ.get("ICEFLOE_STORM_SECONDS", "600"))
    result = run_stress("cdc", "--seconds", seconds, "--version", version)
    assert result["operations"]["convert-equality-deletes"] * 60 > seconds


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_no_writer_fails_beside_ten_minutes_of_maintenance(version: int) -> None:
    seconds = int(os.environ.get("ICEFLOE_STORM_SECONDS", "600"))
    result = run_stress("beside", "--seconds", seconds, "--version", version)
    assert sum(result["operations"].values()) * 60 > seconds


@pytest.mark.slow
def test_a_table_is_intact_and_its_orphans_are_found_after_maintenance_is_killed() -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "200"))
    result = run_stress("kill", "--rounds", rounds)
    assert result["rounds"] == rounds
    assert result["orphans"] > 0
