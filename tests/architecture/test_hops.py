"""The number of modules that an append enters, as `scripts/hops` counts them in a real run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_append_enters_few_modules() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "hops"), "append"]
    listed = subprocess.run(script, capture_output=True, text=True, check=True, timeout=120).stdout
    counts = re.search(r"(\d+) modules of the flow \(goal: at most (\d+)\)", listed)
    assert counts is not None, listed
    assert int(counts[1]) <= int(counts[2]), f"merge a module that is no concept of its own into its caller:\n{listed}"
