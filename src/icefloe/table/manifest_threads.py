"""Work on many manifests side by side. The kernel starts no threads: it is given `in_threads` where there is a choice.

Spec: Scan Planning; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

# Threads that fetch manifests side by side: on object stores each costs a round trip.
THREADS = 4

T = TypeVar("T")
R = TypeVar("R")


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Like `map`, side by side and in order."""
    listed = list(items)
    if len(listed) < 2:
        yield from map(function, listed)
        return
    with ThreadPoolExecutor(THREADS, thread_name_prefix="icefloe") as pool:
        yield from pool.map(function, listed)
