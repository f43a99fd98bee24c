"""`swap_until_settled`: the loop around every swap of a pointer: try, and on a lost race try again, until it is known how it ended or that it is not known.

What an attempt writes and swaps is its caller's: a table's `commit_loop.py`, a view's `icefloe.view.commit`. Floor: table.
Spec: Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping
from typing import Protocol

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, stop_after_delay, wait_random_exponential
from tenacity.stop import stop_any

from icefloe.errors import CommitConflictError, CommitUnknownError, NotFoundError
from icefloe.kernel.commit.outcome import Conflicted, Outcome, Unknown
from icefloe.kernel.metadata import properties


class Attempts(Protocol):
    """One commit in progress: `try_once` is called again after each lost race, and knows what the calls before it wrote."""

    noun: str  # what is committed to, for messages: table, view
    name: str  # catalog.namespace.name
    gone: type[NotFoundError]  # raised where the name was dropped meanwhile
    number: int  # attempts made so far
    metadata_locations: list[str]  # the metadata file of each attempt

    def try_once(self) -> Outcome:
        """Builds on what the pointer names now, writes the attempt's files, and swaps."""

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        """Whether the winner of the last race built on our commit, whose reply was lost."""

    def abandon(self) -> None:
        """Deletes what this commit wrote, after an error or Ctrl-C; nothing where one of its swaps may have happened."""


def swap_until_settled(work: Attempts, settings: Mapping[str, str]) -> None:
    """Returns when the commit stands. `settings` are the properties of the table or view, of which `commit.retry.*` are read.

    Raises:
        CommitConflictError: every attempt lost its race, or another writer changed what this commit is based on; nothing of it is left.
        CommitUnknownError: it is not known whether the commit happened; all its files are kept.
        NotFoundError: what is committed to was dropped. Any error of an attempt, after which nothing of it is left.
    """
    try:
        outcome: Outcome = _retrying(settings)(work.try_once)
    except CommitConflictError as error:
        work.abandon()
        raise CommitConflictError(error.message, table=work.name, next_step=error.next_step) from error
    except BaseException:
        work.abandon()
        raise
    if isinstance(outcome, Unknown):
        raise CommitUnknownError(
            f"the commit to {work.name} may or may not have happened: {outcome.reason}",
            table=work.name,
            path=work.metadata_locations[-1],
            next_step=f"load the {work.noun} and look whether this change is in its history before writing again; no file was deleted",
        )
    if isinstance(outcome, Conflicted) and not work.is_committed_after_all(outcome):
        work.abandon()
        _raise_conflict(work, outcome)


def _retrying(settings: Mapping[str, str]) -> Retrying:
    """Waits double from the least to the most, with jitter, until the tries or the time run out."""
    return Retrying(
        stop=stop_any(
            stop_after_attempt(properties.COMMIT_NUM_RETRIES.read(settings) + 1),
            stop_after_delay(properties.COMMIT_TOTAL_TIMEOUT_MS.read(settings) / 1000),
        ),
        wait=wait_random_exponential(
            multiplier=properties.COMMIT_MIN_WAIT_MS.read(settings) / 1000,
            max=properties.COMMIT_MAX_WAIT_MS.read(settings) / 1000,
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
        raise work.gone(f"{work.noun} {work.name} was dropped while this commit was under way", table=work.name)
    raise CommitConflictError(
        f"other writers won all {work.number} attempts to commit to {work.name}",
        table=work.name,
        next_step=f"repeat the operation, or raise the {work.noun} property commit.retry.num-retries",
    )
