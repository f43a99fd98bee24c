"""How often tests of random values repeat: a fifth in the default run, all in `make test-all`."""

import os

ALL = "ICEFLOE_ALL_EXAMPLES" in os.environ


def examples(count: int, least: int = 10) -> int:
    """Return how many of so many random examples this run makes: all of them, or else a fifth.

    Args:
        count: The examples of `make test-all`.
        least: The fewest of the default run: less than 10 where one example is expensive.
    """
    return count if ALL else min(count, max(least, count // 5))
