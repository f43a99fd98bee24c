"""Statements leave no broadcast, cached relation, RDD, proxy or file behind: after some hundred of them a session holds what it held before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WARM_UP, STATEMENTS = 90, 500
# What a statement that leaves one object behind adds many times over.
MOST_MORE_OBJECTS = 50
MOST_MORE_HEAP_BYTES = 48 * 1024 * 1024


@pytest.mark.slow
@pytest.mark.spark
def test_five_hundred_statements_leave_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.security.statements_without_end", str(tmp_path), str(WARM_UP), str(STATEMENTS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600, cwd=ROOT)
    remaining = [line.removeprefix("found ") for line in ended.stdout.splitlines() if line.startswith("found ")]
    assert remaining, ended.stderr[-4000:]
    before, after = json.loads(remaining[0])
    for name in ("persistent RDDs", "cached relations", "temporary views"):
        assert after[name] == before[name] == 0, name
    for name in ("Python proxies", "broadcast blocks", "temporary files", "Python threads"):
        assert after[name] <= before[name] + MOST_MORE_OBJECTS // 5, (name, before[name], after[name])
    assert after["heap"] <= before["heap"] + MOST_MORE_HEAP_BYTES
    for kind in ("JVM objects", "Python objects"):
        more = {name: (before[kind].get(name, 0), count) for name, count in after[kind].items()}
        assert {name: counts for name, counts in more.items() if counts[1] > counts[0] + MOST_MORE_OBJECTS} == {}
