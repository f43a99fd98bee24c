"""Every pair of concurrent operations through Java's core API: it commits and refuses the same as Icefloe, and the same files are live afterwards."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.table.isolation_pairs import CHECKED, OPERATIONS, base_table, run_pair

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
SCRIPT = Path(__file__).with_name("java_pairs.py")
# Java commits these only on the snapshot that they were planned on; docs/commits.md describes the difference.
STALE = {"schema", "partition spec"}


@pytest.mark.parametrize("version", [2, 3])
def test_every_pair_ends_as_in_java(version: int, java_script: Callable[..., str], tmp_path: Path) -> None:
    printed = java_script(f"VERSION = {version}\n{SCRIPT.read_text()}", str(tmp_path))
    java_outcomes = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert len(java_outcomes) == (len(OPERATIONS) + len(CHECKED)) * len(OPERATIONS) if version > 2 else 52
    base, different = base_table(version), []
    for pair in java_outcomes:
        icefloe_outcome = run_pair(base, pair["planned"], pair["first"], pair["level"])
        if pair["planned"] in STALE:
            assert pair["refused"]
            continue
        files = tuple((path, tuple(deletes)) for path, deletes in pair["files"])
        if (bool(icefloe_outcome.refused), icefloe_outcome.files) != (bool(pair["refused"]), files):
            different.append(
                (pair["planned"], pair["first"], pair["level"], icefloe_outcome.refused, icefloe_outcome.files, pair["refused"], files)
            )
    assert different == []
