"""The numbers of modules that an append, a query and a MERGE enter, as `scripts/hops` counts them in a real run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A SELECT also chooses its storage and, by the columns of the files, its scan; estimates sizes for Spark's optimizer; keeps plans; gives nested columns the
# names of files, executors the classes that read them, and Spark's SQL tab the numbers of the plan: concepts of their own, which other flows share.
MOST_OF_A_SELECT = 33
# A copy-on-write MERGE plans two scans, and writes new rows and copies of files in one job each.
MOST_OF_A_MERGE = 65


def modules_of(flow: str) -> tuple[int, int, str]:
    """Return the number of modules of the flow, the goal, and the list that the script prints."""
    script = [sys.executable, str(ROOT / "scripts" / "hops"), flow]
    listed = subprocess.run(script, capture_output=True, text=True, check=True, timeout=300).stdout
    counts = re.search(r"(\d+) modules of the flow \(goal: at most (\d+)\)", listed)
    assert counts is not None, listed
    return int(counts[1]), int(counts[2]), listed


def test_an_append_enters_few_modules() -> None:
    count, goal, listed = modules_of("append")
    assert count <= goal, f"merge a module that is no concept of its own into its caller:\n{listed}"


@pytest.mark.spark
@pytest.mark.slow
def test_a_select_enters_few_modules() -> None:
    count, _, listed = modules_of("select")
    assert count <= MOST_OF_A_SELECT, f"a query enters a module that it does not need, or one that is no concept of its own:\n{listed}"


@pytest.mark.spark
@pytest.mark.slow
def test_a_merge_enters_few_modules_besides_the_commit() -> None:
    count, _, listed = modules_of("merge")
    assert count <= MOST_OF_A_MERGE, f"a MERGE enters a module that it does not need, or one that is no concept of its own:\n{listed}"
