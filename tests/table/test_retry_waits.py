"""Waits after lost races, by writers in simulated time: what they share a table among them, with these waits and with waits that only double."""

import heapq
import random
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from icefloe.operations.retry_waits import LONGEST, longest_wait_ms

Waits = Callable[[int, int, int, int], int]
MINUTES = 60_000
DATA_MS = 20  # a writer writes its data files so long before the first attempt
MIN_WAIT_MS, MAX_WAIT_MS = 100, 60_000  # the defaults


def doubling(losses: int, _: int, min_wait_ms: int, max_wait_ms: int) -> int:
    """Return the wait of Java's policy, which only doubles."""
    return min(min_wait_ms * 2 ** (losses - 1), max_wait_ms)


def operations(waits: Waits, attempts_ms: Sequence[int], min_wait_ms: int, minutes: float) -> tuple[list[int], float]:
    """Let writers commit one operation after the other, and return the operations of each and the longest that one took, in milliseconds.

    An attempt commits if no other writer committed since it began; a first attempt builds on what the writer last committed itself.
    """
    drawn, numbers, version = random.Random(7), count(), 0
    writers = range(len(attempts_ms))
    done, losses, begun_ms, base, committed = ([0] * len(writers) for _ in range(5))
    slowest_ms, now_ms = 0, 0
    events = [(drawn.randrange(50), next(numbers), writer, "operation") for writer in writers]
    heapq.heapify(events)
    while now_ms < minutes * MINUTES:
        now_ms, _, writer, event = heapq.heappop(events)
        taken_ms = round(attempts_ms[writer] * drawn.uniform(0.7, 1.3))
        if event == "operation":
            begun_ms[writer], losses[writer], base[writer] = now_ms, 0, committed[writer]
            later = (now_ms + DATA_MS + taken_ms, next(numbers), writer, "commit")
        elif event == "retry":
            base[writer] = version
            later = (now_ms + taken_ms, next(numbers), writer, "commit")
        elif base[writer] == version:
            version = committed[writer] = version + 1
            done[writer] += 1
            slowest_ms = max(slowest_ms, now_ms - begun_ms[writer])
            later = (now_ms, next(numbers), writer, "operation")
        else:
            losses[writer] += 1
            longest_ms = waits(losses[writer], taken_ms, min_wait_ms, MAX_WAIT_MS)
            later = (now_ms + round(drawn.uniform(0, longest_ms)), next(numbers), writer, "retry")
        heapq.heappush(events, later)
    return done, max(slowest_ms, *(now_ms - begun for begun in begun_ms))


@pytest.mark.parametrize(
    ("attempts_ms", "min_wait_ms", "minutes"),
    [([100] * 2, 100, 20), ([30] * 8, 100, 2), ([100] * 8, 100, 5), ([400] * 8, 100, 20), ([30] * 8, 2, 1), ([30] * 24, 100, 2)],
    ids=["two", "eight", "eight-slow", "eight-slower", "eight-short-waits", "many"],
)
def test_writers_share_a_table(attempts_ms: list[int], min_wait_ms: int, minutes: int) -> None:
    fair, slowest_ms = operations(longest_wait_ms, attempts_ms, min_wait_ms, minutes)
    unfair, slowest_of_unfair_ms = operations(doubling, attempts_ms, min_wait_ms, minutes)
    assert min(fair) / max(fair) > 0.5
    assert min(unfair) / max(unfair) < 0.5
    assert sum(fair) >= sum(unfair)
    assert slowest_ms < slowest_of_unfair_ms / 2


def test_waits_double_and_halve_again() -> None:
    short = [longest_wait_ms(losses, 20, MIN_WAIT_MS, MAX_WAIT_MS) for losses in range(1, 10)]
    assert short == [100, 200, 400, 800, 400, 200, 100, 100, 100]  # 100 to 800 are those of the 4 retries by default
    assert max(longest_wait_ms(losses, 4000, MIN_WAIT_MS, MAX_WAIT_MS) for losses in range(1, 1000)) == 25_600 <= LONGEST * 4000


@pytest.mark.parametrize(("min_wait_ms", "max_wait_ms"), [(0, 0), (0, 100), (1, 0), (500, 100), (100, 100), (100, 350), (7, 60_000)])
def test_no_wait_is_longer_than_the_longest(min_wait_ms: int, max_wait_ms: int) -> None:
    waits = [longest_wait_ms(losses, attempt_ms, min_wait_ms, max_wait_ms) for losses in range(1, 200) for attempt_ms in (0, 50, 10**9)]
    assert min(waits) == min(min_wait_ms, max_wait_ms)
    assert max(waits) <= max_wait_ms
    assert waits[0] == min(min_wait_ms, max_wait_ms)
