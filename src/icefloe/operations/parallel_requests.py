"""Parallel requests to a storage, in threads, because each request to an object store costs a round trip.

The packages `spec`, `scan` and `commit` start no threads themselves; their callers pass `in_threads` to functions that can work in parallel.
Spec: Scan Planning; Commit Conflict Resolution and Retry.
"""

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from icefloe.io.locations import scheme_of
from icefloe.spec.avro.compiled_codec import set_small_block_lock

# The number of threads that read and decode manifests.
MANIFEST_THREADS = 4
# Manifests on the local disk or in memory of at most this many bytes are read without threads. Starting threads takes longer: 2 manifests with one file each
# take 2 ms without threads, and 6 to 9 ms with threads.
SERIAL_BYTES = 2**18
# The number of parallel requests for whole files. An object store takes some 20 ms for each, regardless of how many are in progress.
REQUEST_THREADS = 16
# The number of files from which on the memory in which their manifests were read is returned.
MANY_FILES = 2**14

T = TypeVar("T")
R = TypeVar("R")


def _set_lock() -> None:
    set_small_block_lock(Lock())


_set_lock()
# After a fork, the child needs a new lock: a lock that another thread held at the time of the fork would never be released in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_set_lock)


def serial_bytes(location: str) -> int:
    """Return the length in bytes up to which the manifests of a table at a location are read one after the other."""
    return SERIAL_BYTES if scheme_of(location) in ("file", "memory") else 0


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply a function to manifests in parallel, and yield the results in order, like `map`."""
    listed = list(items)
    if len(listed) < 2:
        yield from map(function, listed)
        return
    with ThreadPoolExecutor(MANIFEST_THREADS, thread_name_prefix="icefloe") as pool:
        yield from pool.map(function, listed)


def side_by_side(function: Callable[[T], R], items: Iterable[T], threads: int = REQUEST_THREADS) -> Iterator[R]:
    """Apply a function to many files in parallel, and yield the results in order, like `map`. After an error or Ctrl-C no further call starts."""
    listed = list(items)
    if len(listed) < 2:
        yield from map(function, listed)
        return
    pool = ThreadPoolExecutor(min(threads, len(listed)), thread_name_prefix="icefloe-files")
    try:
        yield from pool.map(function, listed)
    finally:
        pool.shutdown(cancel_futures=True)


def return_freed_memory(files: int) -> None:
    """Return the memory that was freed after the manifests of so many files were read: 10 MB of 100,000 files, in a millisecond.

    glibc otherwise keeps much of it for each thread. Another C library has no such function, and few files take little memory.
    """
    if files >= MANY_FILES:
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
