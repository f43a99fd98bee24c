"""`LockWaits`: a message where a block of code takes longer than it should, such as a transaction that waits for the lock of another process.

One thread watches all blocks of the process: a thread of its own for each transaction took a tenth of the time of a commit. It ends where there is nothing to
watch, and begins again with the next block, also in a forked process.
"""

import math
import os
import threading
import time
from collections.abc import Callable

# Seconds between two looks of the thread at most, and without a block until it ends.
LOOK_S = 5.0
_IDLE_S = 600.0


class LockWaits:
    """The blocks that run, by an object of their own: when each is to be reported, in the time of `time.monotonic`, and by what.

    A caller that adds a block which is due before `wakes_s`, or while it is infinite, calls `wake`: then the thread does not run, or would look too late.
    """

    def __init__(self) -> None:
        self.blocks: dict[object, tuple[float, Callable[[], None]]] = {}
        self.wakes_s = math.inf
        self._is_running = False
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def wake(self) -> None:
        """Let the thread look at the blocks now; it is started if it does not run."""
        with self._lock:
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="icefloe-lock-waits", daemon=True).start()
        self._wake.set()

    def _run(self) -> None:
        idle_since_s = time.monotonic()
        while True:
            self._wake.clear()
            self.wakes_s = math.inf  # a block that is added while the time is computed wakes the thread
            now_s = time.monotonic()
            self.wakes_s = min([now_s + LOOK_S, *(due_s for due_s, _ in list(self.blocks.values()))])
            self._wake.wait(max(self.wakes_s - now_s, 0.0))
            now_s = time.monotonic()
            for block, (due_s, report) in list(self.blocks.items()):
                if due_s <= now_s and self.blocks.pop(block, None) is not None:
                    report()
            if self.blocks:
                idle_since_s = now_s
            elif now_s - idle_since_s >= _IDLE_S and self._ends():
                return

    def _ends(self) -> bool:
        """Return whether the thread may end: no block relies on it."""
        with self._lock:
            self.wakes_s = math.inf  # from here on a new block starts a thread
            self._is_running = bool(self.blocks)
            return not self._is_running


class Process:
    """The waits of this process."""

    waits = LockWaits()


def _begin_anew() -> None:
    Process.waits = LockWaits()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # The blocks of the parent's other threads never end in the child, and one of these threads may have held the lock.
    os.register_at_fork(after_in_child=_begin_anew)
