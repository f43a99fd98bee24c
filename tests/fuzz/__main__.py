"""A run of damaged inputs through every reader: `make fuzz`, or `python -m tests.fuzz --cases 100000 --seed 0`.

Each target runs in a process of its own, whose address space may grow by a fixed amount after the sound seeds were read: a reader that allocates the size that
an input claims, without a check, ends its process. A case that takes longer than `--seconds` ends its process too, with the stack. Failures are printed and
kept in files under `.fuzz/`; `python -m tests.fuzz --case manifest:123 --seed 0` runs one case again, without limits.
"""

import argparse
import faulthandler
import json
import os
import resource
import subprocess
import sys
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS, input_of, seeds_of

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"
MORE_BYTES = 512 * 1024 * 1024  # what a case may take beyond what the process had before the first
MOST_FAILURES = 20  # of a process; it stops after so many
ONE_AFTER_THE_OTHER = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000, help="how many in all; targets have their shares")
    parser.add_argument("--seed", type=int, default=0, help="of the damage; the same seed gives the same cases")
    parser.add_argument("--target", action="append", help="only this one; may be given several times")
    parser.add_argument("--seconds", type=int, default=20, help="the longest that a case may take")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--case", help="TARGET:NUMBER, one case by itself")
    parser.add_argument("--together", action="store_true", help="all targets in one process, which starts sooner")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run the cases of the command line, and return 1 if one failed."""
    arguments = _arguments()
    if arguments.case:
        return _one(arguments.case, arguments.seed)
    if arguments.child:
        return _child(json.loads(arguments.child), arguments.seed, arguments.seconds)
    shares = {name: target.share for name, target in TARGETS.items() if not arguments.target or name in arguments.target}
    whole = sum(shares.values())
    counts = {name: -(-arguments.cases * share // whole) for name, share in shares.items()}
    groups = [counts] if arguments.together else [{name: count} for name, count in counts.items()]
    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for outcomes, failures in pool.map(lambda group: _group(group, arguments.seed, arguments.seconds), groups):
            failed += len(failures)
            for name, found in outcomes.items():
                summary = ", ".join(f"{count} {what}" for what, count in found.most_common())
                print(f"{name:18} {counts[name]:7} cases: {summary}", flush=True)
            for text in failures:
                print(text, flush=True)
    print(f"{sum(counts.values())} cases, {failed} failed, seed {arguments.seed}")
    return 1 if failed else 0


def _group(counts: dict[str, int], seed: int, seconds: int) -> tuple[dict[str, Counter[str]], list[str]]:
    """Run all cases of some targets in one process; after a crash another process continues with the next case."""
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in counts}
    failures: list[str] = []
    remaining_jobs = {name: (0, count) for name, count in counts.items()}
    while remaining_jobs and len(failures) < MOST_FAILURES:
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--child",
            json.dumps(remaining_jobs),
            "--seed",
            str(seed),
            "--seconds",
            str(seconds),
        ]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | ONE_AFTER_THE_OTHER, capture_output=True, text=True, check=False)
        reached: tuple[str, int] | None = None
        for line in ended.stdout.splitlines():
            match json.loads(line):
                case {"at": [name, number]}:
                    reached = (name, number)
                case {"of": name, "outcomes": found}:
                    outcomes[name].update(found)
                    del remaining_jobs[name]
                case {"failed": [name, number], "why": why}:
                    failures.append(f"FAILED --case {name}:{number} --seed {seed}\n{why}")
        if ended.returncode == 0:
            break
        failures.append(f"DIED ({ended.returncode}) at {reached}, seed {seed}\n{ended.stderr[-3000:]}")
        if reached is None:  # before the first case: a seed is not sound
            break
        remaining_jobs[reached[0]] = (reached[1] + 1, counts[reached[0]])
    return outcomes, failures


def _child(ranges: dict[str, tuple[int, int]], seed: int, seconds: int) -> int:
    for name in ranges:
        for content in seeds_of(name):
            _read_seed(name, content)
    _limit()
    for name, (first, end) in ranges.items():
        outcomes: Counter[str] = Counter()
        for number in range(first, end):
            _print_event(at=(name, number))  # so that the parent can name the case in which a process crashed
            content = input_of(name, number, seed)
            faulthandler.dump_traceback_later(seconds, exit=True)
            outcome, why = _outcome(name, content)
            faulthandler.cancel_dump_traceback_later()
            outcomes[outcome] += 1
            if why:
                KEPT.mkdir(exist_ok=True)
                (KEPT / f"{name}-{number}-{seed}").write_bytes(content)
                _print_event(failed=(name, number), why=why)
        _print_event(of=name, outcomes=outcomes)
    return 0


def _outcome(name: str, content: bytes) -> tuple[str, str | None]:
    """Return the outcome of a case, and the reason if it failed."""
    target = TARGETS[name]
    try:
        target.read(content)
    except target.allowed as error:
        return type(error).__name__, None if str(error).strip() else "the error has no text"
    except Exception:  # noqa: BLE001  # any other error is a failure of the reader
        return "FAILED", traceback.format_exc()[-3000:]
    return "read", None


def _read_seed(name: str, content: bytes) -> None:
    """Read a sound input. Golden metadata files may be refused, since some of them are made to be."""
    try:
        TARGETS[name].read(content)
    except TARGETS[name].allowed as error:
        if TARGETS[name].seeds is not corpus.metadata_files:
            raise SystemExit(f"a seed of {name} is not sound: {error}") from error


def _limit() -> None:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _print_event(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def _one(case: str, seed: int) -> int:
    name, _, number = case.partition(":")
    content = input_of(name, int(number), seed)
    print(f"{len(content)} bytes: {content[:2000]!r}")
    try:
        TARGETS[name].read(content)
        print("is read")
    except TARGETS[name].allowed as error:
        print(f"is refused: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
