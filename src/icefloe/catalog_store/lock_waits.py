"""`report_after`: a message where a block of code takes longer than it should, such as a transaction that waits for the lock of another process.

One thread watches all blocks of the process: a thread of its own for each transaction took a tenth of the time of a commit. It ends where there is nothing to
watch, and begins again with the next block, also in a forked process.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds without a block after which the thread ends.
_IDLE_S = 10.0


class _Watch:
    """The blocks that run, by an object of their own: when each is to be reported, in the time of `time.monotonic`, and by what."""

    def __init__(self) -> None:
        self.blocks: dict[object, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._wakes_s = math.inf

    def add(self, block: object, due_s: float, report: Callable[[], None]) -> None:
        """Watch a block; the thread is started, or woken, where it would look too late."""
        self.blocks[block] = (due_s, report)  # before the thread is looked at, which ends only where there is no block
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="icefloe-lock-waits", daemon=True)
                    self._thread.start()
        if due_s < self._wakes_s:
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            self._wakes_s = math.inf  # a block that is added while the time is computed wakes the thread
            due_s = min((due_s for due_s, _ in list(self.blocks.values())), default=time.monotonic() + _IDLE_S)
            self._wakes_s = due_s
            is_woken = self._wake.wait(max(due_s - time.monotonic(), 0.0))
            now_s = time.monotonic()
            for block, (due_s, report) in list(self.blocks.items()):
                if due_s <= now_s and self.blocks.pop(block, None) is not None:
                    report()
            if not is_woken and not self.blocks and self._ends():
                return

    def _ends(self) -> bool:
        """Return whether the thread may end: no block begins to rely on it meanwhile."""
        with self._lock:
            self._thread = None
            if not self.blocks:
                return True
            self._thread = threading.current_thread()
            return False


class _Process:
    """The watch of this process."""

    watch = _Watch()


def _forget() -> None:
    _Process.watch = _Watch()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # The blocks of the parent's other threads never end in the child, and one of these threads may have held the lock.
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def report_after(wait_s: float, report: Callable[[], None]) -> Iterator[None]:
    """Run the block; call `report` once, in another thread, if it still runs after `wait_s` seconds.

    Args:
        wait_s: The seconds.
        report: What is called; it must raise nothing.
    """
    block = object()
    watch = _Process.watch
    watch.add(block, time.monotonic() + wait_s, report)
    try:
        yield
    finally:
        watch.blocks.pop(block, None)
