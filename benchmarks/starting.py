"""Starting: `import icefloe` and `icefloe --help` in a new process, compared with `import pyarrow` and with a Python that does nothing."""

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.measure import Comparison, interleaved, median, say, seconds

REPEATS = 11
COMMANDS = {
    "import icefloe": [sys.executable, "-c", "import icefloe"],
    "icefloe --help": [str(Path(sys.executable).with_name("icefloe")), "--help"],
    "import pyarrow": [sys.executable, "-c", "import pyarrow"],
    "python": [sys.executable, "-c", "pass"],
}


def run() -> list[Comparison]:
    """Measure the CPU time of whole processes."""
    say(f"starting: {', '.join(COMMANDS)}, {REPEATS} times in turns")
    taken = interleaved(REPEATS, {name: partial(cpu_seconds, command) for name, command in COMMANDS.items()})
    medians = {name: median(values) for name, values in taken.items()}
    pairs = [(name, other) for name in ("import icefloe", "icefloe --help") for other in ("import pyarrow", "python")]
    return [
        Comparison(
            f"starting: {name} ({other}; CPU time)", seconds(medians[name]), seconds(medians[other]), medians[name] / medians[other], goal
        )
        for (name, other), goal in zip(pairs, ("<= 0.5", "", "<= 0.8", ""), strict=True)
    ]


def cpu_seconds(command: list[str]) -> float:
    """Run a command; return the CPU time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
