"""How often tests of random values repeat: a fifth in the default run, all in `make test-all`."""

import os

ALL = "ICEFLOE_ALL_EXAMPLES" in os.environ


def examples(count: int) -> int:
    """Return how many of so many random examples this run makes: all of them, or else a fifth and at least 10.

    Args:
        count: The examples of `make test-all`.
    """
    return count if ALL else min(count, max(10, count // 5))
