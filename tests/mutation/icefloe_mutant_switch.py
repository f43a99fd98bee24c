"""The switch of each mutant, copied beside the mutated source. It records which mutants a test reaches, in every process that the test uses.

`ICEFLOE_MUTANT` is the number of the active mutant. `ICEFLOE_MUTANT_FOLDER` has the file `test`, the number of the running test, and `reached`, to which
each process appends what it reached for the first time in that test.
"""

import mmap
import os

_ACTIVE = int(os.environ.get("ICEFLOE_MUTANT", "-1"))
_FOLDER = os.environ.get("ICEFLOE_MUTANT_FOLDER")
_reached: set[int] = set()
_test = b""
_log = -1
if _FOLDER:
    _number = mmap.mmap(os.open(f"{_FOLDER}/test", os.O_RDWR), 8)
    _log = os.open(f"{_FOLDER}/reached", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def is_active(number: int) -> bool:
    """Return whether a mutant is the active one."""
    global _test  # noqa: PLW0603  the fastest way, at each place of a mutant
    if _log >= 0:
        running = _number[:8]
        if running != _test:
            _reached.clear()
            _test = running
        if number not in _reached:
            _reached.add(number)
            os.write(_log, b"%d %d\n" % (int.from_bytes(running, "little"), number))
    return number == _ACTIVE
