"""Exit codes, the output of failures as text or JSON on standard error, and the description of the state after Ctrl-C."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from icefloe.cli.screen import print_json_error, print_message
from icefloe.errors import IcefloeError

# Exit codes besides 0.
REFUSED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

# Every change of a table is one commit, or several commits each of which leaves the rows unchanged.
AFTER_CHANGE = (
    "no table was left half changed: commits that were made stay, and the rest was not done. Look at `icefloe log TABLE` before you run it again; new files"
    " of the rest that are still there are found by `icefloe remove-orphan-files TABLE`."
)
# Files are deleted after the commit. A second run does not find files that were not deleted.
AFTER_EXPIRY = (
    "if `icefloe log TABLE` no longer shows the snapshots, they are expired, and files of them that were not deleted yet are found by"
    " `icefloe remove-orphan-files TABLE`. Otherwise nothing was changed."
)
AFTER_DROP = (
    "if `icefloe list` no longer shows the name, it is dropped; with --purge, files that were not deleted yet are still in the table's folder."
    " Otherwise run it again."
)


def print_failure(code: str, what: str, exit_code: int, *, as_json: bool) -> None:
    """Print why a command failed, as text or JSON, if the reason is not an `IcefloeError`.

    Args:
        code: The code of the failure for scripts, like the `code` of an `IcefloeError`.
        what: What failed.
        exit_code: The exit code of the command.
        as_json: Whether JSON is printed.
    """
    if as_json:
        print_json_error(error_content(code, what, exit_code=exit_code))
    else:
        print_message(f"icefloe: {what}")


def error_as_json(error: IcefloeError, exit_code: int = REFUSED) -> dict[str, Any]:
    """Return an error as `--json` prints it. Values that the error does not have are null.

    Args:
        error: The error. `field` and `rule` are those of its first problem; `problems` lists all of them.
        exit_code: The exit code of the command.
    """
    return error_content(
        error.code,
        error.message,
        table=error.table,
        file=error.path,
        snapshot_id=error.snapshot_id,
        problems=[{"field": problem.where or None, "rule": problem.what} for problem in error.problems],
        next_step=error.next_step,
        exit_code=exit_code,
    )


def error_content(
    code: str,
    what: str,
    *,
    table: str | None = None,
    file: str | None = None,
    snapshot_id: int | None = None,
    problems: Sequence[dict[str, str | None]] = (),
    next_step: str | None = None,
    exit_code: int,
) -> dict[str, Any]:
    """Return an error as `--json` prints it, from its parts. Parts that are not given are null."""
    first = problems[0] if problems else {"field": None, "rule": None}
    content = {"code": code, "what": what, "table": table, "file": file, "snapshot_id": snapshot_id, **first}
    return {"error": {**content, "problems": list(problems), "next_step": next_step, "exit_code": exit_code}}


@contextmanager
def state_after_interrupt(state: str) -> Iterator[None]:
    """Add a description of the state to a `KeyboardInterrupt` of a `with` block, unless it has a more precise one already."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(str(interrupt) or state) from interrupt
