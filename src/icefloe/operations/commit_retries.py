"""`commit_with_retries`: retries commits, waits between attempts, lets commits take turns, and checks the status of unknown commits.

After another writer's commit the commit is attempted again, until it is committed, the retries are used up, or its outcome remains unknown. The caller defines
what an attempt writes: `commit_loop.py` for tables, `icefloe.view.view_commit` for views.

Of concurrent attempts the quickest wins, however long the others wait in between. So a commit of tables that has lost `LOSSES` races takes a turn, during which
other commits on this host wait.
Spec: Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

import logging
import os
import random
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from icefloe.commit.outcome import Conflicted, Outcome, Refused, Unknown
from icefloe.errors import CommitConflictError, CommitUnknownError, IcefloeError, NotFoundError, StorageError
from icefloe.lazy_imports import lazy_module
from icefloe.operations.retry_waits import longest_wait_ms
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.property_kinds import Property

if TYPE_CHECKING:
    import hashlib

    import tenacity
else:  # they take 12 MB of memory, with asyncio and OpenSSL, and a process that only reads makes no commit
    hashlib = lazy_module("hashlib")
    tenacity = lazy_module("tenacity")
if sys.platform != "win32":
    import fcntl

LOG = logging.getLogger(__name__)
# Limits of the properties `commit.retry.*` and `commit.status-check.*`, which other writers or a server may have set: the longest time that a commit is tried,
# and the longest single wait.
MOST_SECONDS, LONGEST_WAIT_S = 86_400, 3_600
# The number of lost races after which a commit takes a turn (by default three more attempts follow), and how long other commits wait for a turn.
LOSSES = 2
LONGEST_TURN_S, _REPORTED_WAIT_S, _POLL_S = 60.0, 10.0, 0.01
_LOCK_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class CommitAttempts(Protocol):
    """A commit in progress, of which `commit_with_retries` makes the attempts. It is implemented for tables and for views."""

    noun: str  # `table` or `view`, for messages
    name: str  # as `catalog.namespace.name`
    gone: type[NotFoundError]  # the error if the table or view was dropped meanwhile
    number: int  # attempts made so far

    @property
    def metadata_locations(self) -> list[str]:
        """The locations of the metadata files that were written, the newest last, for errors."""

    def try_once(self) -> Outcome:
        """Make an attempt on the current metadata: write its files, and commit to the store. Called again after each conflict."""

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        """Return whether an attempt of this commit succeeded after all: its reply may have been lost, and another writer may have committed on top of it."""

    def abandon(self) -> None:
        """Delete all files that this commit wrote, after an error or Ctrl-C. Delete nothing if one of its attempts may have been committed."""


class CommitTurn:
    """Lets a commit that has lost several races take a turn: it holds a file lock, and other commits of this user on this host wait for the lock.

    The lock is advisory: only the compare-and-swap of the catalog decides what is committed. Writers of other users and hosts do not wait, and no commit waits
    if files cannot be locked. The operating system releases the lock of a process that ends, and no commit waits for a turn that began more than
    `LONGEST_TURN_S` seconds ago.

    Args:
        name: The names of the tables, for messages.
        table_uuids: The UUIDs of the tables; empty if the commit takes no turns. Commits to several tables lock them in the same order.
        folder: The folder of the lock files; by default below the folder for temporary files.
        sleep: The function that waits for some seconds.
    """

    def __init__(
        self, name: str, table_uuids: Iterable[str], folder: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._name = name
        self._files = sorted(f"{hashlib.sha256(table_uuid.encode()).hexdigest()}.turn" for table_uuid in table_uuids)
        self._folder = folder
        self._sleep = sleep
        self._locked: list[tuple[Path, int]] = []

    def before_attempt(self, losses: int) -> bool:
        """Wait while another commit has its turn. If this commit has lost `LOSSES` races, it takes the next turn.

        Returns:
            Whether this commit waited, so that the tables have probably changed.
        """
        has_waited = False
        if sys.platform == "win32" or self._locked or not self._files:
            return has_waited
        try:
            folder = self._folder or Path(tempfile.gettempdir()) / f"icefloe-turns-{os.getuid()}"
            if losses >= LOSSES:
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700)
            if _is_private(folder):
                for file in self._files:
                    has_waited |= self._lock(folder / file, takes=losses >= LOSSES)
        except OSError as error:
            LOG.debug("commits to %s take no turns: %s", self._name, error.strerror)
        return has_waited

    def end(self) -> None:
        """End the turn: unlock the files, so that other commits continue."""
        while self._locked:
            path, file = self._locked.pop()
            with suppress(OSError):
                path.unlink()
            os.close(file)

    def _lock(self, path: Path, *, takes: bool) -> bool:
        """Wait until no other commit has locked a file; if this commit `takes` its turn, lock it.

        Return whether this commit had to wait. Raises `OSError` if files cannot be locked.
        """
        begun_s, has_waited, is_reported = time.monotonic(), False, False
        while True:
            try:
                file = os.open(path, _LOCK_FLAGS | (os.O_CREAT if takes else 0), 0o600)
            except FileNotFoundError:
                return has_waited
            is_kept = False
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if takes else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                # The previous holder of the lock may have removed the file meanwhile.
                is_kept = takes and _is_file(path, file)
                if is_kept:
                    self._locked.append((path, file))
                    os.utime(file)
                if is_kept or not takes:
                    return has_waited
            except BlockingIOError:
                waited_s = time.monotonic() - begun_s
                if max(waited_s, time.time() - os.fstat(file).st_mtime) >= LONGEST_TURN_S:
                    return has_waited
                if waited_s >= _REPORTED_WAIT_S and not is_reported:
                    is_reported = True
                    LOG.warning("a commit to %s waits for another one of this host, which lost the races before", self._name)
                has_waited = True
                self._sleep(_POLL_S)
            finally:
                if not is_kept:
                    os.close(file)


def commit_with_retries(
    work: CommitAttempts, settings: Mapping[str, str], unknown_error: Callable[[Unknown], IcefloeError] | None = None
) -> None:
    """Attempt a commit until it is committed, refused, or out of retries.

    Args:
        work: the commit.
        settings: the properties of the table or view, with `commit.retry.*`.
        unknown_error: a function that returns the error for an unknown outcome; None for a general error.

    Raises:
        CommitConflictError: other writers won every retry, or changed what this commit is based on; no file of the commit remains.
        CommitUnknownError: it is unknown whether the commit happened; all its files are kept.
        StorageError: the catalog refused the commit, for example because of missing rights; no file of the commit remains.
        NotFoundError: the table or view was dropped; no file of the commit remains, as after any other error of an attempt.
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
            unknown_error(outcome)
            if unknown_error is not None
            else CommitUnknownError(
                f"the commit to {work.name} may or may not have happened: {outcome.reason}",
                table=work.name,
                path=work.metadata_locations[-1] if work.metadata_locations else None,
                next_step=f"load the {work.noun} and look whether this change is in its history before writing again; no file was deleted",
            )
        )
    if isinstance(outcome, Conflicted) and not work.is_committed_after_all(outcome):
        work.abandon()
        _raise_conflict(work, outcome)


def outcome_of_commit(commit: Callable[[], Outcome]) -> Outcome:
    """Call a store's commit, and return its outcome. If it raises a `StorageError`, which a store must not do, the outcome is `Unknown`."""
    try:
        return commit()
    except StorageError as error:
        return Unknown(reason=error.message)


def check_commit_status(load_status: Callable[[], Outcome], unknown: Unknown, settings: Mapping[str, str]) -> Outcome:
    """Check repeatedly how a commit with an unknown outcome ended. Return its outcome; `Unknown` if no check could determine it.

    The waits between checks double from the minimum to the maximum of `commit.status-check.*`, until the number of checks or the time is used up. A check that
    raises an error counts as a check without a result.

    Args:
        load_status: a function that checks once, and returns the outcome.
        unknown: the outcome of the commit so far.
        settings: the properties of the table or view.
    """

    def check_once() -> Outcome:
        try:
            status = load_status()
        except StorageError as error:
            status = Unknown(reason=error.message)
        return Unknown(reason=f"{unknown.reason}; and then: {status.reason}") if isinstance(status, Unknown) else status

    outcome: Outcome = tenacity.Retrying(
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(table_properties.STATUS_CHECK_NUM_RETRIES.read(settings) + 1),
            tenacity.stop_after_delay(_seconds(table_properties.STATUS_CHECK_TOTAL_TIMEOUT_MS, settings, MOST_SECONDS)),
        ),
        wait=tenacity.wait_exponential(
            multiplier=_seconds(table_properties.STATUS_CHECK_MIN_WAIT_MS, settings, LONGEST_WAIT_S),
            max=_seconds(table_properties.STATUS_CHECK_MAX_WAIT_MS, settings, LONGEST_WAIT_S),
        ),
        retry=tenacity.retry_if_result(lambda status: isinstance(status, Unknown)),
        retry_error_callback=_last_outcome,
    )(check_once)
    return outcome


def _retrying(settings: Mapping[str, str]) -> "tenacity.Retrying":
    """Return the retry policy of `commit.retry.*`: a number of attempts and a total time. `retry_waits.py` determines the lengths of the waits."""
    min_wait_ms = table_properties.COMMIT_MIN_WAIT_MS.read(settings)
    max_wait_ms = min(table_properties.COMMIT_MAX_WAIT_MS.read(settings), LONGEST_WAIT_S * 1000)
    begun_s = 0.0

    def begin(_: "tenacity.RetryCallState") -> None:
        nonlocal begun_s
        begun_s = time.monotonic()

    def wait_s(state: "tenacity.RetryCallState") -> float:
        attempt_ms = round((time.monotonic() - begun_s) * 1000)
        longest_ms = longest_wait_ms(state.attempt_number, attempt_ms, min_wait_ms, max_wait_ms)
        return random.SystemRandom().uniform(0, longest_ms / 1000)

    return tenacity.Retrying(
        before=begin,
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(table_properties.COMMIT_NUM_RETRIES.read(settings) + 1),
            tenacity.stop_after_delay(_seconds(table_properties.COMMIT_TOTAL_TIMEOUT_MS, settings, MOST_SECONDS)),
        ),
        wait=wait_s,
        retry=tenacity.retry_if_result(lambda outcome: isinstance(outcome, Conflicted)),
        retry_error_callback=_last_outcome,
    )


def _seconds(setting: Property[int], settings: Mapping[str, str], most: int) -> float:
    return min(setting.read(settings), most * 1000) / 1000


def _last_outcome(state: "tenacity.RetryCallState") -> Outcome:
    assert state.outcome is not None  # noqa: S101  tenacity calls this only after an attempt
    result: Outcome = state.outcome.result()
    return result


def _raise_conflict(work: CommitAttempts, outcome: Conflicted) -> None:
    if outcome.current_location is None:
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


def _is_private(folder: Path) -> bool:
    """Return whether a folder exists, belongs to this user, and is not accessible to other users, who could make commits wait."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077


def _is_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
