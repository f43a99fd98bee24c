"""`commit_with_retries`: the loop around every swap of a pointer: try, and on a lost race try again, until it is known how it ended or that it is not known.

What an attempt writes and swaps is its caller's: a table's `commit_loop.py`, a view's `icefloe.view.view_commit`.
Spec: Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
    wait_random_exponential,
)
from tenacity.stop import stop_any

from icefloe.errors import CommitConflictError, CommitUnknownError, IcefloeError, NotFoundError, StorageError
from icefloe.kernel.commit.outcome import Conflicted, Outcome, Refused, Unknown
from icefloe.kernel.metadata import table_properties


class Attempts(Protocol):
    """One commit in progress: `try_once` is called again after each lost race, and knows what the calls before it wrote."""

    noun: str  # what is committed to, for messages: table, view
    name: str  # catalog.namespace.name
    gone: type[NotFoundError]  # raised where the name was dropped meanwhile
    number: int  # attempts made so far

    @property
    def metadata_locations(self) -> list[str]:
        """The metadata file of each attempt, the last one's last."""

    def try_once(self) -> Outcome:
        """Builds on what the pointer names now, writes the attempt's files, and swaps."""

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        """Whether the winner of the last race built on our commit, whose reply was lost."""

    def abandon(self) -> None:
        """Deletes what this commit wrote, after an error or Ctrl-C; nothing where one of its swaps may have happened."""


def commit_with_retries(work: Attempts, settings: Mapping[str, str], unknown: Callable[[Unknown], IcefloeError] | None = None) -> None:
    """Returns when the commit stands. `settings` are the properties of the table or view, of which `commit.retry.*` are read.
    `unknown` makes the error of a commit that may or may not have happened.

    Raises:
        CommitConflictError: every attempt lost its race, or another writer changed what this commit is based on; nothing of it is left.
        CommitUnknownError: it is not known whether the commit happened; all its files are kept.
        StorageError: the catalog refused the swap, such as for want of rights; nothing of it is left.
        NotFoundError: what is committed to was dropped. Any error of an attempt, after which nothing of it is left.
    """
    try:
        outcome: Outcome = _retrying(settings)(work.try_once)
    except CommitConflictError as error:
        work.abandon()
        raise CommitConflictError(
            error.message, table=work.name, snapshot_id=error.snapshot_id, problems=error.problems, next_step=error.next_step
        ) from error
    except BaseException:
        work.abandon()
        raise
    if isinstance(outcome, Refused):
        work.abandon()
        raise outcome.error
    if isinstance(outcome, Unknown):
        raise (
            unknown(outcome)
            if unknown is not None
            else CommitUnknownError(
                f"the commit to {work.name} may or may not have happened: {outcome.reason}",
                table=work.name,
                path=work.metadata_locations[-1],
                next_step=f"load the {work.noun} and look whether this change is in its history before writing again; no file was deleted",
            )
        )
    if isinstance(outcome, Conflicted) and not work.is_committed_after_all(outcome):
        work.abandon()
        _raise_conflict(work, outcome)


def answer_of(swap: Callable[[], Outcome]) -> Outcome:
    """What a swap answers. A store that raises a `StorageError` breaks its word, and has said nothing of how the swap ended."""
    try:
        return swap()
    except StorageError as error:
        return Unknown(reason=error.message)


def check_commit_status(look: Callable[[], Outcome], unknown: Unknown, settings: Mapping[str, str]) -> Outcome:
    """How a swap ended whose outcome is unknown, by looking again as `commit.status-check.*` say; `Unknown` where that is still not known then.

    Waits double from the least to the most until the looks or the time run out. A look that fails is one that does not know.
    """

    def look_once() -> Outcome:
        try:
            found = look()
        except StorageError as error:
            found = Unknown(reason=error.message)
        return Unknown(reason=f"{unknown.reason}; and then: {found.reason}") if isinstance(found, Unknown) else found

    settled: Outcome = Retrying(
        stop=stop_any(
            stop_after_attempt(table_properties.STATUS_CHECK_NUM_RETRIES.read(settings) + 1),
            stop_after_delay(table_properties.STATUS_CHECK_TOTAL_TIMEOUT_MS.read(settings) / 1000),
        ),
        wait=wait_exponential(
            multiplier=table_properties.STATUS_CHECK_MIN_WAIT_MS.read(settings) / 1000,
            max=table_properties.STATUS_CHECK_MAX_WAIT_MS.read(settings) / 1000,
        ),
        retry=retry_if_result(lambda found: isinstance(found, Unknown)),
        retry_error_callback=_last_outcome,
    )(look_once)
    return settled


def _retrying(settings: Mapping[str, str]) -> Retrying:
    """Waits double from the least to the most, with jitter, until the tries or the time run out."""
    return Retrying(
        stop=stop_any(
            stop_after_attempt(table_properties.COMMIT_NUM_RETRIES.read(settings) + 1),
            stop_after_delay(table_properties.COMMIT_TOTAL_TIMEOUT_MS.read(settings) / 1000),
        ),
        wait=wait_random_exponential(
            multiplier=table_properties.COMMIT_MIN_WAIT_MS.read(settings) / 1000,
            max=table_properties.COMMIT_MAX_WAIT_MS.read(settings) / 1000,
        ),
        retry=retry_if_result(lambda outcome: isinstance(outcome, Conflicted)),
        retry_error_callback=_last_outcome,
    )


def _last_outcome(state: RetryCallState) -> Outcome:
    assert state.outcome is not None  # noqa: S101  tenacity calls this only after an attempt
    result: Outcome = state.outcome.result()
    return result


def _raise_conflict(work: Attempts, outcome: Conflicted) -> None:
    if outcome.found is None:
        which = f"{work.noun} {outcome.table}" if outcome.table and "," in work.name else f"{work.noun} {work.name}"
        raise work.gone(
            f"{which} was dropped or renamed while this commit was under way",
            table=work.name,
            next_step=f"a retry makes no sense: load the {work.noun} by the name that it has now; it was not changed",
        )
    message = f"other writers won all {work.number} attempts to commit to {work.name}"
    if outcome.reason is not None:
        message = f"the catalog took none of {work.number} attempts to commit to {work.name}: {outcome.reason}"
    elif outcome.table is not None and "," in work.name:
        message += f", the last on {outcome.table}"
    raise CommitConflictError(
        message,
        table=work.name,
        next_step=f"repeat the operation: a retry makes sense; or raise the {work.noun} property commit.retry.num-retries",
    )
