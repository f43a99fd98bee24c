"""Footers of Parquet files that contradict themselves are errors with the file's name; none ends the process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.hostile_footers import ALL_ROWS, CONTRADICTIONS, ONE_COLUMN, PATH

# All tests of this file run in one process of xdist, which reads each footer once.
pytestmark = pytest.mark.xdist_group("hostile footers")
ROOT = Path(__file__).parents[2]


def outcomes_of(which: str) -> list[list[str]]:
    command = [sys.executable, "-c", "from tests.security import hostile_footers; hostile_footers.main()", which]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def contradictions() -> dict[tuple[str, str], str]:
    return {(name, reader): outcome for name, reader, outcome in outcomes_of("contradictions")}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_footer_that_contradicts_itself_is_an_error_with_the_file(contradictions: dict[tuple[str, str], str], name: str) -> None:
    outcomes = {reader: outcome for (change, reader), outcome in contradictions.items() if change == name}
    assert len(outcomes) == 6
    for reader, outcome in outcomes.items():
        if outcome == "read" and reader in (ALL_ROWS, ONE_COLUMN):
            continue
        assert outcome.startswith(("DataFileFormatError", "UnsupportedFeatureError")), (reader, outcome)
        assert PATH in outcome
        assert CONTRADICTIONS[name][1] in outcome, (reader, outcome)


def test_the_footer_is_read_before_it_is_changed(contradictions: dict[tuple[str, str], str]) -> None:
    assert [outcome for (change, _), outcome in contradictions.items() if change == "nothing"] == ["read"] * 6


def test_a_contradiction_in_a_column_that_a_scan_reads_is_explained_even_without_a_filter(
    contradictions: dict[tuple[str, str], str],
) -> None:
    assert "codec 9" in contradictions["a codec that Parquet does not know", ALL_ROWS]
    assert contradictions["an encrypted column", ALL_ROWS].startswith("UnsupportedFeatureError")


@pytest.mark.slow
def test_no_wrong_byte_in_a_footer_ends_the_process() -> None:
    assert outcomes_of("flipped") == []
