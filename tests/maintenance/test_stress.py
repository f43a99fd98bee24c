"""Maintenance beside writers, and procedures killed at their operations, in processes of their own (`maintenance_stress.py`, `new_table_stress.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import new_table_stress
from tests.combinations import combinations
from tests.kill_points import EXPECTED_OPERATIONS
from tests.maintenance_stress import ALONE, PROCEDURES

ROOT = Path(__file__).parents[2]


def run_stress(*arguments: object, module: str = "tests.maintenance_stress", seconds: int = 3600) -> dict[str, Any]:
    """Run a module and return its report."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize(("version", "kind"), combinations([2, 3], ["merge", "beside"]))
def test_no_writer_fails_beside_maintenance_and_no_row_is_lost_or_doubled(version: int, kind: str) -> None:
    result = run_stress(kind, "--seconds", 1, "--writers", 2, "--version", version)
    assert result["commits"] > 0
    assert result["operations"]


@pytest.mark.slow
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
@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_no_writer_fails_beside_ten_minutes_of_maintenance(version: int) -> None:
    seconds = int(os.environ.get("ICEFLOE_STORM_SECONDS", "600"))
    result = run_stress("all", "--seconds", seconds, "--version", version)
    assert sum(result["operations"].values()) * 60 > seconds


@pytest.mark.slow
def test_a_table_is_intact_and_its_orphans_are_found_after_procedures_were_killed() -> None:
    result = run_stress("kill", "--rounds", 12)
    assert result["ended"] < 8
    assert result["orphans"] > 0


@pytest.mark.slow
def test_a_table_is_intact_and_its_orphans_are_found_after_each_procedure_was_killed_at_each_kind_of_operation() -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "200"))
    result = run_stress("kill", "--rounds", rounds)
    assert result["rounds"] == rounds
    assert result["ended"] < rounds / 2
    assert set(result["kills_by_procedure"]) == {*PROCEDURES, *ALONE}
    assert set(result["kills_by_operation"]) == set(EXPECTED_OPERATIONS)
    assert result["orphans"] > 0


@pytest.mark.slow
def test_there_is_no_table_or_a_whole_one_after_procedures_that_make_tables_were_killed_at_each_kind_of_operation() -> None:
    rounds = int(os.environ.get("ICEFLOE_STORM_ROUNDS", "60"))
    result = run_stress("--rounds", rounds, module="tests.new_table_stress")
    assert result["rounds"] == rounds
    assert result["ended"] < rounds / 2
    assert set(result["kills_by_procedure"]) == set(new_table_stress.PROCEDURES)
    assert result["repeated"] > 0
    assert result["orphans"] > 0
