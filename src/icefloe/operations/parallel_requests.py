"""Requests to a storage side by side, in threads: on object stores each one costs a round trip.

`spec`, `scan` and `commit` start no threads: where work can be done side by side, its caller passes it `in_threads`.
Spec: Scan Planning; Commit Conflict Resolution and Retry.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from icefloe.spec.avro.compiled_codec import set_small_block_lock

# Threads that read manifests, which are decoded too.
MANIFEST_THREADS = 4
# Requests for whole files at once. An object store takes some 20 ms for one, however many there are.
REQUEST_THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def _set_lock() -> None:
    set_small_block_lock(Lock())


_set_lock()
# A lock that another thread holds while this process is forked would never be released in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_set_lock)


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply a function to manifests side by side, and yield the results in order, like `map`."""
    listed = list(items)
    if len(listed) < 2:
        yield from map(function, listed)
        return
    with ThreadPoolExecutor(MANIFEST_THREADS, thread_name_prefix="icefloe") as pool:
        yield from pool.map(function, listed)


def side_by_side(function: Callable[[T], R], items: Iterable[T], threads: int = REQUEST_THREADS) -> Iterator[R]:
    """Apply a function to many files side by side, and yield the results in order, like `map`. After an error or Ctrl-C no further call starts."""
    listed = list(items)
    if len(listed) < 2:
        yield from map(function, listed)
        return
    pool = ThreadPoolExecutor(min(threads, len(listed)), thread_name_prefix="icefloe-files")
    try:
        yield from pool.map(function, listed)
    finally:
        pool.shutdown(cancel_futures=True)
