"""What Ctrl-C leaves of a command that changes tables: the text that `failure_output.py` prints after "interrupted"."""

from collections.abc import Iterator
from contextlib import contextmanager

# Every change of a table is one commit, or several that each keep its rows.
AFTER_CHANGE = (
    "no table was left half changed: commits that were made stay, and the rest was not done. Look at `icefloe log TABLE` before you run it again; new files"
    " of the rest that are still there are found by `icefloe remove-orphan-files TABLE`."
)
# Files are deleted after the commit, and a second run does not find those that are left.
AFTER_EXPIRY = (
    "if `icefloe log TABLE` no longer shows the snapshots, they are expired, and files of them that were not deleted yet are found by"
    " `icefloe remove-orphan-files TABLE`. Otherwise nothing was changed."
)
AFTER_DROP = (
    "if `icefloe list` no longer shows the name, it is dropped; with --purge, files that were not deleted yet are still in the table's folder."
    " Otherwise run it again."
)


@contextmanager
def state_after_interrupt(state: str) -> Iterator[None]:
    """Add the state that Ctrl-C leaves to a `KeyboardInterrupt`, unless it has a more exact one."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(str(interrupt) or state) from interrupt
