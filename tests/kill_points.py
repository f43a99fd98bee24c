"""Where a process is killed: at the n-th of its operations on files or on its catalog, of which each kind is struck in turn."""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from icefloe.testing.fault_injection import Fault, Faults

# Operations at which a procedure is killed, and how many of each it is expected to have until one has ended.
EXPECTED_OPERATIONS = {"open to read": 20, "open to write": 4, "publish": 3, "delete": 3, "commit": 1, "after commit": 1}
COMMIT_FAULTS = {"commit": Fault.CRASH, "after commit": Fault.CRASH_AFTER}
# A kill follows its operation within so many seconds, so that files are left with a part of their bytes.
DELAYS_S = (0.0, 0.0005, 0.002)


class KilledProcess(Faults):
    """The faults of a process whose crash is one."""

    def crash(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("the process survived SIGKILL")


@dataclass(frozen=True, kw_only=True)
class KillPoint:
    """The operation before which a process is killed.

    Attributes:
        operation: one of `EXPECTED_OPERATIONS`.
        number: how many of this kind pass before.
        delay_s: seconds from then to the kill.
    """

    operation: str
    number: int
    delay_s: float


def operation_of(event: str, arguments: tuple[Any, ...], folder: str) -> str | None:
    """Return the kind of an event of Python's audit hooks; None for one that is no operation on a file of the folder."""
    if event not in ("open", "os.link", "os.remove"):
        return None
    path = arguments[0]
    if event == "os.remove":  # a file is also deleted by its name in an open folder
        return "delete" if isinstance(path, str) and (path.startswith(folder) or os.sep not in path) else None
    if not isinstance(path, str) or not path.startswith(folder):
        return None
    if event == "os.link":
        return "publish"
    is_write = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return "open to write" if is_write else "open to read"


def kill_at(point: KillPoint, folder: str, counts: Counter[str]) -> None:
    """Kill this process at an operation on a file of a folder, and count all operations."""

    def kill_later() -> None:
        time.sleep(point.delay_s)
        os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        operation = operation_of(event, arguments, folder)
        if operation is None:
            return
        counts[operation] += 1
        if operation == point.operation and counts[operation] == point.number + 1:
            if point.delay_s:
                threading.Thread(target=kill_later, daemon=True).start()
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


class KillSchedule:
    """Which procedure is killed next, and where: all procedures in turn, and of each all kinds of its operations in turn.

    Args:
        procedures: the names of the procedures.
        chance: where the choices come from.
    """

    def __init__(self, procedures: Iterable[str], chance: random.Random) -> None:
        self._procedures = sorted(procedures)
        self._chance = chance
        self._names: list[str] = []
        self._operations: dict[str, list[str]] = {}
        self._totals: dict[tuple[str, str], int] = {}

    def next(self) -> tuple[str, KillPoint]:
        """Return a procedure and the operation at which it is killed."""
        if not self._names:
            self._names = self._chance.sample(self._procedures, len(self._procedures))
        name = self._names.pop()
        waiting = [one for one in self._operations.get(name, ()) if self._total(name, one)]
        if not waiting:
            known = [one for one in EXPECTED_OPERATIONS if self._total(name, one)] or list(EXPECTED_OPERATIONS)
            waiting = self._chance.sample(known, len(known))
        operation = waiting.pop()
        self._operations[name] = waiting
        number = self._chance.randrange(max(1, self._total(name, operation)))
        return name, KillPoint(operation=operation, number=number, delay_s=self._chance.choice(DELAYS_S))

    def _total(self, name: str, operation: str) -> int:
        return self._totals.get((name, operation), EXPECTED_OPERATIONS[operation])

    def learn(self, name: str, counts: dict[str, int]) -> None:
        """Take note of the operations of a procedure that has ended."""
        self._totals.update({(name, operation): counts.get(operation, 0) for operation in EXPECTED_OPERATIONS})
