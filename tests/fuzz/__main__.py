"""Runs damaged inputs through every reader: `make fuzz`, or `python -m tests.fuzz --cases 100000 --seed 0`.

Each target runs in a process of its own, with an address space only so much larger than it was after the sound seeds were read: an input that makes a reader
believe a size it claims dies of it. A case that takes longer than `--seconds` ends its process, with the stack. What fails is printed and kept in a file
under `.fuzz/`; `python -m tests.fuzz --case manifest:123 --seed 0` runs one case again, without limits.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzz.targets import TARGETS, input_of, seeds_of

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"
MORE_BYTES = 512 * 1024 * 1024  # what a case may take beyond what the process had before the first
ONE_AFTER_THE_OTHER = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000, help="how many in all; targets have their shares")
    parser.add_argument("--seed", type=int, default=0, help="of the damage; the same seed gives the same cases")
    parser.add_argument("--target", action="append", help="only this one; may be given several times")
    parser.add_argument("--seconds", type=int, default=20, help="the longest that a case may take")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--case", help="TARGET:NUMBER, one case by itself")
    parser.add_argument("--child", nargs=3, metavar=("TARGET", "FIRST", "END"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Runs what the command line asks for; 1 where a case failed."""
    asked = _arguments()
    if asked.case:
        return _one(asked.case, asked.seed)
    if asked.child:
        return _child(asked.child[0], int(asked.child[1]), int(asked.child[2]), asked.seed, asked.seconds)
    chosen = {name: target.share for name, target in TARGETS.items() if not asked.target or name in asked.target}
    whole = sum(chosen.values())
    counts = {name: -(-asked.cases * share // whole) for name, share in chosen.items()}
    failed = ran = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for name, (outcomes, failures) in zip(
            counts, pool.map(lambda name: _target(name, counts[name], asked.seed, asked.seconds), counts), strict=True
        ):
            ran += counts[name]
            failed += len(failures)
            print(
                f"{name:18} {counts[name]:7} cases: " + (", ".join(f"{count} {what}" for what, count in outcomes.most_common())), flush=True
            )
            for text in failures:
                print(text, flush=True)
    print(f"{ran} cases, {failed} failed, seed {asked.seed}")
    return 1 if failed else 0


def _target(name: str, count: int, seed: int, seconds: int) -> tuple[Counter[str], list[str]]:
    """All cases of one target; a child that dies is followed by another, from the next case on."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    first = 0
    while first < count and len(failures) < 20:
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--child",
            name,
            str(first),
            str(count),
            "--seed",
            str(seed),
            "--seconds",
            str(seconds),
        ]
        environment = os.environ | ONE_AFTER_THE_OTHER
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        reached = None
        for line in ended.stdout.splitlines():
            told: dict[str, Any] = json.loads(line)
            outcomes.update(told.get("outcomes", {}))
            reached = told.get("at", reached)
            if "failed" in told:
                failures.append(f"FAILED --case {name}:{told['failed']} --seed {seed}\n{told['why']}")
        if ended.returncode == 0:
            break
        failures.append(f"DIED ({ended.returncode}) --case {name}:{reached} --seed {seed}\n{ended.stderr[-3000:]}")
        if reached is None:  # before the first case: a seed is not sound
            break
        first = reached + 1
    return outcomes, failures


def _child(name: str, first: int, end: int, seed: int, seconds: int) -> int:
    target = TARGETS[name]
    for content in seeds_of(name):
        target_seed(name, content)
    _limit()
    outcomes: Counter[str] = Counter()
    for number in _announced(range(first, end)):
        content = input_of(name, number, seed)
        faulthandler.dump_traceback_later(seconds, exit=True)
        try:
            target.read(content)
            outcomes["read"] += 1
        except target.allowed as error:
            outcomes[type(error).__name__] += 1
            if not str(error).strip():
                _tell(failed=number, why=f"{type(error).__name__} says nothing")
        except BaseException:
            KEPT.mkdir(exist_ok=True)
            (KEPT / f"{name}-{number}-{seed}").write_bytes(content)
            _tell(failed=number, why=traceback.format_exc()[-3000:])
            outcomes["FAILED"] += 1
        faulthandler.cancel_dump_traceback_later()
    _tell(outcomes=outcomes)
    return 0


def target_seed(name: str, content: bytes) -> None:
    """A sound input is read; golden files that are there to be refused are refused with an error of ours."""
    try:
        TARGETS[name].read(content)
    except TARGETS[name].allowed as error:
        if name != "table-metadata":
            raise SystemExit(f"a seed of {name} is not sound: {error}") from error


def _limit() -> None:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _announced(numbers: range) -> Iterator[int]:
    """Says of each number that it is next, so that the parent knows which case a process died of."""
    for number in numbers:
        _tell(at=number)
        yield number


def _tell(**what: Any) -> None:
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
