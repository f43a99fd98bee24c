"""Parameters of tests that combine values: the default run has each value at least once, and `make test-all` every combination."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def repetitions(values: Sequence[Any], *default: Any) -> list[Any]:
    """Return values as parameters. Those that are not in the default run are marked `slow`.

    Args:
        values: The values.
        default: Those of the default run.
    """
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=() if value in default else pytest.mark.slow)
        for value in values
    ]


def combinations(*values: Sequence[Any]) -> list[Any]:
    """Return all combinations as parameters. Those whose values are all in the default run without them are marked `slow`.

    Args:
        values: The values of each parameter.
    """
    longest = max(map(len, values))
    shown = [tuple(options[index % len(options)] for options in values) for index in range(longest)]
    return [pytest.param(*chosen, marks=() if chosen in shown else pytest.mark.slow) for chosen in product(*values)]
