"""Helpers of all benchmarks: child processes, interleaved runs, medians, and the printed table."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / ".benchmarks"  # tables that are created once, and files of the runs
PYTHON_OF = {"icefloe": Path(sys.executable)}
PYTHON_OF |= {name: ROOT / ".venvs" / name / "bin" / "python" for name in ("pyiceberg", "duckdb", "object-stores")}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the result.

    Attributes:
        what: What is measured.
        ours: The median of Icefloe, with its unit.
        theirs: The median of the other side, with the same unit.
        ratio: The ratio that the goal refers to.
        goal: The condition for the ratio; empty where there is none.
    """

    what: str
    ours: str
    theirs: str
    ratio: float
    goal: str


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def child(engine: str, program: str, *arguments: str) -> Mapping[str, Any]:
    """Run `benchmarks/<program>` in the Python environment of the engine and return the JSON object in its last line of output."""
    command = [str(PYTHON_OF[engine]), str(ROOT / "benchmarks" / program), engine, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # some children use modules of the benchmarks and tests
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BUILD, env=environment)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr[-4000:]}")
    return dict(json.loads(result.stdout.splitlines()[-1]))


def interleaved(repeats: int, sides: Mapping[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Run every side once a round, in alternating order, so that other load of the machine affects all sides; return the results by side."""
    taken: dict[str, list[Any]] = {name: [] for name in sides}
    for turn in range(repeats):
        names = list(sides)
        for name in names if turn % 2 == 0 else reversed(names):
            taken[name].append(sides[name]())
    return taken


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def seconds(value: float) -> str:
    """Format a duration in a readable unit."""
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def as_markdown(comparisons: Sequence[Comparison]) -> str:
    """Format the comparisons as a Markdown table."""
    lines = ["| what | Icefloe | the other | ratio | goal |", "|---|---|---|---|---|"]
    lines += [f"| {c.what} | {c.ours} | {c.theirs} | {c.ratio:.{2 if c.ratio >= 0.01 else 3}f} | {c.goal} |" for c in comparisons]
    return "\n".join(lines)


def machine() -> str:
    """Describe the machine."""
    cpu = next((line.split(":")[1].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = next((int(line.split()[1]) / 2**20 for line in read_lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow"))
    return f"{os.cpu_count()} x {cpu}, {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}, {packages}"


def read_lines(path: str) -> list[str]:
    """Return the lines of a file, or none if it does not exist."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
