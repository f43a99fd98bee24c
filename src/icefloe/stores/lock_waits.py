"""`LockWaits`: a report if a block of code takes longer than it should, for example a transaction that waits for the lock of another process.

One thread watches all blocks of the process, because a thread for each transaction would take a tenth of the time of a commit. The thread ends if there is
nothing to watch, and is started again by the next block, also in a forked process.
"""

import math
import os
import threading
import time
from collections.abc import Callable

# The maximum of seconds between two checks of the thread, and the seconds without a block after which it ends.
LOOK_S = 5.0
_IDLE_S = 600.0


class LockWaits:
    """Reports blocks of code that run too long. It has the running blocks, each with the `time.monotonic` at which it is due and the function that reports it.

    A caller that adds a block calls `wake` if the block is due before `wakes_s`, because the thread would check it too late, or if `wakes_s` is infinite,
    because the thread may not be running.
    """

    def __init__(self) -> None:
        self.blocks: dict[object, tuple[float, Callable[[], None]]] = {}
        self.wakes_s = math.inf
        self._is_running = False
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def wake(self) -> None:
        """Make the thread check the blocks now, and start it if it is not running."""
        with self._lock:
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="icefloe-lock-waits", daemon=True).start()
        self._wake.set()

    def _run(self) -> None:
        idle_since_s = time.monotonic()
        while True:
            self._wake.clear()
            self.wakes_s = math.inf  # a block that is added during the next two statements calls `wake`
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
        """Return whether the thread may end, because there are no blocks."""
        with self._lock:
            self.wakes_s = math.inf  # from now on a new block starts a thread
            self._is_running = bool(self.blocks)
            return not self._is_running


class Process:
    """Holds the `LockWaits` of this process, which a forked child replaces by a new one."""

    waits = LockWaits()


def _begin_anew() -> None:
    Process.waits = LockWaits()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # In a forked child, the blocks of the parent's other threads never end, and one of these threads may have held the lock.
    os.register_at_fork(after_in_child=_begin_anew)
