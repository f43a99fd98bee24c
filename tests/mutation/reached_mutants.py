"""A pytest plugin that records which mutants each test reaches, and how many seconds of processor time the test takes with all its processes.

`-p tests.mutation.reached_mutants`, with `ICEFLOE_MUTANT_RECORD`, a folder: each xdist worker writes to a folder of its own there.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

_names: list[str] = []
_seconds: list[float] = []
_outcomes: dict[str, str] = {}


def _folder() -> Path:
    return Path(os.environ["ICEFLOE_MUTANT_RECORD"]) / os.environ.get("PYTEST_XDIST_WORKER", "main")


if "ICEFLOE_MUTANT_RECORD" in os.environ:
    # Before any module of the mutated source is loaded: it reads where to write.
    _folder().mkdir(parents=True, exist_ok=True)
    (_folder() / "test").write_bytes(bytes(8))
    os.environ["ICEFLOE_MUTANT_FOLDER"] = str(_folder())


def _cpu_seconds() -> float:
    """Return the processor time of this process and of all that it has started, also of those that have ended."""
    total = 0.0
    for process in [own := psutil.Process(), *own.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Number the test, so that what it reaches is kept apart from what others reach."""
    _names.append(_without_group(item.nodeid))
    with (_folder() / "test").open("r+b") as file:
        file.write(len(_names).to_bytes(8, "little"))
    before = _cpu_seconds()
    result = yield
    _seconds.append(_cpu_seconds() - before)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst outcome of a test's phases."""
    test = _without_group(report.nodeid)
    if report.failed or test not in _outcomes:
        _outcomes[test] = report.outcome


def _without_group(nodeid: str) -> str:
    """Return the id of a test without the name of its group, which xdist appends after the parameters."""
    return nodeid[: nodeid.rfind("@")] if nodeid.rfind("@") > nodeid.rfind("]") else nodeid


def pytest_sessionfinish() -> None:
    """Write what was reached: one line a test."""
    if not _names:
        return
    reached: list[set[int]] = [set() for _ in range(len(_names) + 1)]
    log = _folder() / "reached"
    for line in log.read_text().splitlines() if log.exists() else ():
        test, mutant = map(int, line.split())
        reached[test].add(mutant)
    with (_folder() / "tests.jsonl").open("w") as file:
        for name, seconds, mutants in zip(_names, _seconds, reached[1:], strict=False):
            row = {"test": name, "seconds": round(seconds, 3), "outcome": _outcomes.get(name), "reached": sorted(mutants)}
            file.write(json.dumps(row) + "\n")
