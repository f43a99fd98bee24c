"""Some thousands of damaged inputs of every reader; `make fuzz` runs a hundred thousand and more."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS, input_of, seeds_of
from tests.repetitions import examples

ROOT = Path(__file__).parents[2]
CASES = examples(4000, least=1000)


def test_a_damaged_input_is_read_or_refused_with_an_error_of_icefloe_in_little_memory() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--together", "--cases", str(CASES), "--seed", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.fail(ended.stdout[-6000:] + ended.stderr[-3000:], pytrace=False)
    assert ", 0 failed, seed 1" in ended.stdout
    lines = dict(line.split(maxsplit=1) for line in ended.stdout.splitlines())
    assert set(TARGETS) <= set(lines)
    # Damage that is always refused, or never, tests little.
    whole = sum(target.share for target in TARGETS.values())
    large = [name for name, target in TARGETS.items() if CASES * target.share // whole >= 30]
    assert [name for name in large if " read" not in lines[name] or "Error" not in lines[name]] == []


@pytest.mark.parametrize("name", TARGETS)
def test_a_case_is_the_same_each_time_and_mostly_differs_from_its_seeds(name: str) -> None:
    cases = [input_of(name, number, 5) for number in range(20)]
    assert cases == [input_of(name, number, 5) for number in range(20)]
    assert cases != [input_of(name, number, 6) for number in range(20)]
    assert sum(case not in seeds_of(name) for case in cases) >= 10
