"""Asking a storage for many files at once: each question costs a round trip, so they are asked side by side."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Requests under way at once. An object store answers one in some 20 ms, however many there are.
THREADS = 16


def side_by_side(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Like `map`, in threads and in order. After an error or Ctrl-C those that have not begun never do."""
    listed = list(items)
    if len(listed) < 2:
        yield from map(function, listed)
        return
    pool = ThreadPoolExecutor(min(THREADS, len(listed)), thread_name_prefix="icefloe-files")
    try:
        yield from pool.map(function, listed)
    finally:
        pool.shutdown(cancel_futures=True)
