"""Running one measured program in a process of its own, medians, and the table that is printed. Nothing here knows what is measured."""

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
BUILD = ROOT / ".benchmarks"  # tables that are made once, and what runs leave behind
PYTHON_OF = {"icefloe": Path(sys.executable), "pyiceberg": ROOT / ".venvs" / "pyiceberg" / "bin" / "python"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the result: medians of ours and theirs, in the same unit. The ratio is the one that the goal speaks of."""

    what: str
    ours: str
    theirs: str
    ratio: float
    goal: str


def say(text: str) -> None:
    """Progress, beside the result."""
    print(text, file=sys.stderr, flush=True)


def child(engine: str, program: str, *arguments: str) -> Mapping[str, Any]:
    """Runs `benchmarks/<program>` under the engine's own Python and returns the JSON object it prints last."""
    command = [str(PYTHON_OF[engine]), str(ROOT / "benchmarks" / program), engine, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BUILD)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr[-4000:]}")
    return dict(json.loads(result.stdout.splitlines()[-1]))


def interleaved(repeats: int, sides: Mapping[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Every side once a round, so that whatever else the machine does falls on all of them; the order turns round each time."""
    taken: dict[str, list[Any]] = {name: [] for name in sides}
    for turn in range(repeats):
        names = list(sides)
        for name in names if turn % 2 == 0 else reversed(names):
            taken[name].append(sides[name]())
    return taken


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def seconds(value: float) -> str:
    """A duration in the unit that reads well."""
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def as_markdown(comparisons: Sequence[Comparison]) -> str:
    """The table for the README."""
    lines = ["| what | Icefloe | the other | ratio | goal |", "|---|---|---|---|---|"]
    lines += [f"| {c.what} | {c.ours} | {c.theirs} | {c.ratio:.2f} | {c.goal} |" for c in comparisons]
    return "\n".join(lines)


def machine() -> str:
    """What this ran on."""
    cpu = next((line.split(":")[1].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = next((int(line.split()[1]) / 2**20 for line in read_lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow"))
    return f"{os.cpu_count()} x {cpu}, {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}, {packages}"


def read_lines(path: str) -> list[str]:
    """Lines of a file, none where it is not there."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
