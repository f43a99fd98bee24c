"""Mutation tests: do the tests see a fault? `python -m tests.mutation draw`, then `map`, then `run`; `report` prints what survived.

`draw` copies the source into a folder with mutants behind switches; with `--again OTHER` those of another folder, found again after code has moved.
`map` runs the tests once with no mutant active, and records which of them reach which mutant; it also shows what each test costs. `run` makes one mutant after
the other active and runs the tests that reach it, the cheap ones first, until one fails. A run that was stopped is continued.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant, drawn, found_again, with_switches

ROOT = Path(__file__).parents[2]
PACKAGES = ("spec", "scan", "commit", "operations", "table", "stores", "datafile", "spark", "maintenance")
DEFAULT_TESTS = "not oracle and not slow"
# Tests of one mutant run in portions of so many seconds by the map, the nearest and cheapest first: a mutant that these kill costs little.
PORTIONS_S = (5, 60, float("inf"))
MODULE_S = 0.3  # to import and collect one module of tests


def main() -> int:
    """Do one step."""
    arguments = _arguments()
    folder: Path = arguments.folder.resolve()
    match arguments.step:
        case "draw":
            again = _mutants(arguments.again) if arguments.again else None
            _draw(folder, arguments.seed, arguments.count, again)
        case "map":
            return _map(folder, arguments.processes, arguments.pytest)
        case "run":
            _run(folder, arguments.processes, arguments.most_seconds)
            _report(folder)
        case "report":
            _report(folder)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("draw", "map", "run", "report"))
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants", help="where the copy and the results are")
    parser.add_argument("--seed", type=int, default=7, help="of the draw")
    parser.add_argument("--count", type=int, default=400, help="mutants to draw")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="the mutants of this folder, found again in the source of now")
    parser.add_argument("--processes", type=int, default=2, help="so many side by side")
    parser.add_argument(
        "--most-seconds",
        type=float,
        default=float("inf"),
        help="for `run`: of tests for a mutant; one that survives them is run to its end by a later call",
    )
    parser.add_argument("--pytest", action="append", default=[], metavar="ARGUMENT", help="for `map`, such as a path of tests")
    return parser.parse_args()


def _draw(folder: Path, seed: int, count: int, again: list[Mutant] | None) -> None:
    source = ROOT / "src"
    if again is None:
        mutants: list[Mutant | None] = [*drawn(source, [f"icefloe/{package}" for package in PACKAGES], count, seed)]
    else:
        mutants = found_again(source, again)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(Path(__file__).with_name("icefloe_mutant_switch.py"), folder / "src")
    numbers = {mutant: number for number, mutant in enumerate(mutants) if mutant is not None}
    for file in {mutant.file for mutant in numbers}:
        path = folder / "src" / file
        path.write_text(with_switches(path.read_text(), file, numbers))
    rows = [None if mutant is None else asdict(mutant) for mutant in mutants]
    (folder / "mutants.json").write_text(json.dumps(rows, indent=1))
    print(f"{len(numbers)} mutants in {folder}; {mutants.count(None)} were not found again")


def _mutants(folder: Path) -> list[Any]:
    rows = json.loads((folder / "mutants.json").read_text())
    return [None if row is None else Mutant(**row) for row in rows]


def _environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder / "src"), **more}


def _map(folder: Path, processes: int, pytest: Sequence[str]) -> int:
    record = folder / "record"
    shutil.rmtree(record, ignore_errors=True)
    # fmt: off
    command = [
        *(sys.executable, "-m", "pytest", "-p", "tests.mutation.reached_mutants", "-p", "no:cacheprovider", "-n", str(processes)),
        *("-m", DEFAULT_TESTS, "-v"), *pytest,
    ]
    # fmt: on
    code = subprocess.run(command, cwd=ROOT, env=_environment(folder, ICEFLOE_MUTANT_RECORD=str(record)), check=False).returncode
    tests = [row for path in sorted(record.glob("*/tests.jsonl")) for row in map(json.loads, path.read_text().splitlines())]
    (folder / "tests.json").write_text(json.dumps(tests, indent=0))
    print(f"{len(tests)} tests, {sum(test['seconds'] for test in tests):.0f} s of processor time")
    return code


def _run(folder: Path, processes: int, most_seconds: float) -> None:
    mutants, tests = _mutants(folder), json.loads((folder / "tests.json").read_text())
    reaching: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for test in tests:
        for number in test["reached"]:
            if test["outcome"] == "passed":
                reaching[number].append(test)
    undecided = {row["mutant"]: row["tests"] for row in _results(folder) if row["state"] == "undecided"}
    done = {row["mutant"] for row in _results(folder)} - ({*undecided} if most_seconds == float("inf") else set())
    with ThreadPoolExecutor(processes) as pool:
        left = [number for number, mutant in enumerate(mutants) if mutant is not None and number not in done]
        for result in as_completed(
            pool.submit(_result, folder, number, _ordered(reaching[number], mutants[number].file), undecided.get(number, 0), most_seconds)
            for number in left
        ):
            row = result.result()
            with (folder / "results.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['mutant']}: {row['state']} {row.get('by', '')}", flush=True)


def _result(folder: Path, number: int, tests: list[dict[str, Any]], passed: int, most_seconds: float) -> dict[str, Any]:
    """Run the tests that reach a mutant until one fails, after the `passed` cheapest ones, and return what became of it."""
    if not tests:
        return {"mutant": number, "state": "not reached"}
    for portion in _portions(tests[passed:]):
        if most_seconds < sum(test["seconds"] for test in portion):
            return {"mutant": number, "state": "undecided", "tests": passed}
        passed += len(portion)
        (folder / "portions").mkdir(exist_ok=True)
        names = folder / "portions" / f"{number}.txt"
        names.write_text("\n".join(test["test"] for test in portion))
        limit = 120 + 10 * sum(test["seconds"] for test in portion)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"@{names}"]
        try:
            # fmt: off
            run = subprocess.run(
                command, cwd=ROOT, env=_environment(folder, ICEFLOE_MUTANT=str(number)), capture_output=True, text=True, timeout=limit, check=False
            )
            # fmt: on
        except subprocess.TimeoutExpired:
            return {"mutant": number, "state": "killed", "by": "no end"}
        failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR tests/"))]
        if run.returncode == 1 or run.returncode < 0 or failed:  # also a module of tests that cannot be imported
            return {"mutant": number, "state": "killed", "by": failed[0][:300] if failed else f"exit code {run.returncode}"}
        if run.returncode != 0:
            return {"mutant": number, "state": "unclear", "by": run.stdout[-300:] + run.stderr[-300:]}
    return {"mutant": number, "state": "survived", "tests": len(tests)}


def _ordered(tests: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    """Return tests in the order in which they run: without Spark, of the mutated module, of its package, and the cheap ones first."""
    path = Path(source)

    def key(test: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        module = Path(test["test"].partition("::")[0])
        return "spark" in test["test"], module.stem != f"test_{path.stem}", path.parts[1] not in module.parts, test["seconds"]

    return sorted(tests, key=key)


def _portions(tests: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    left = [*tests]
    for limit in PORTIONS_S:
        portion: list[dict[str, Any]] = []
        modules: set[str] = set()
        seconds = 0.0
        while left and (not portion or seconds < limit):
            portion.append(left.pop(0))
            module = portion[-1]["test"].partition("::")[0]
            seconds += portion[-1]["seconds"] + (0 if module in modules else MODULE_S)
            modules.add(module)
        if portion:
            yield portion


def _results(folder: Path) -> list[dict[str, Any]]:
    """Return the last result of each mutant."""
    path = folder / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({row["mutant"]: row for row in rows}.values())


def _report(folder: Path) -> None:
    mutants, results = _mutants(folder), _results(folder)
    for row in sorted(results, key=lambda row: row["mutant"]):
        if row["state"] != "killed":
            mutant = mutants[row["mutant"]]
            place = f"{mutant.file}:{mutant.line} {mutant.function}"
            print(f"{row['mutant']:4} {row['state']:12} {place}: {mutant.before[:80]!r} -> {mutant.after[:80]!r}")
    print(", ".join(f"{count} {state}" for state, count in Counter(row["state"] for row in results).most_common()))


if __name__ == "__main__":
    sys.exit(main())
