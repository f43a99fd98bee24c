"""Entries of a snapshot summary in which a commit records its lost attempts and its checks against other writers.

A commit that lost no attempt and checked no newer snapshot records nothing. `icefloe.inspect.explain_commit` reads the entries of stored snapshots.
Spec: Snapshots (`summary`); Commit Conflict Resolution and Retry.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icefloe.commit.attempt import Attempt
from icefloe.spec.metadata.snapshot import Snapshot, Summary, count_of
from icefloe.spec.metadata.snapshot_updates import AddSnapshot

# Keys of the summary. Lists are separated by commas; "none" represents a branch without a snapshot.
ATTEMPTS = "icefloe.commit.attempts"
LOST_BASES = "icefloe.commit.lost-bases"
RETRY_MS = "icefloe.commit.retry-ms"
CHECKS = "icefloe.commit.checks"
CHECKED_SINCE = "icefloe.commit.checked-since"
# How many bases are recorded, those of the last attempts, because thousands of retries may be configured.
MOST_BASES = 20
_NONE = "none"
_MANIFEST_LIST = re.compile(r"snap-\d+-(?P<attempt>\d{1,9})-[^/]*\.avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecord:
    """What the summary of a snapshot records about the attempts and the checks of its commit.

    Attributes:
        attempts: How often the commit was attempted; None if that is not recorded.
        lost_bases: The snapshots that the lost attempts were based on, at most the last `MOST_BASES`; None for a branch without a snapshot.
        retry_ms: Milliseconds from the first attempt to the last.
        checks: The kinds of changes by other writers that the commit checked for, such as `added-data`.
        checked_since: The snapshot after which snapshots were checked; None for all snapshots of the branch.
    """

    attempts: int | None = None
    lost_bases: tuple[int | None, ...] = ()
    retry_ms: int | None = None
    checks: tuple[str, ...] = ()
    checked_since: int | None = None


def base_of(attempt: Attempt) -> tuple[int | None, ...]:
    """Return the id of the snapshot that an attempt is based on, in a tuple; an empty tuple if the attempt adds no snapshot."""
    return next(((update.snapshot.parent_snapshot_id,) for update in attempt.updates if isinstance(update, AddSnapshot)), ())


def with_lost_attempts(attempt: Attempt, lost_bases: Sequence[int | None], retry_ms: int) -> Attempt:
    """Return the attempt with a record of the lost attempts in the summaries of its snapshots.

    Args:
        attempt: The attempt.
        lost_bases: The snapshots that the lost attempts were based on, oldest first.
        retry_ms: Milliseconds since the first attempt.
    """
    record = {
        ATTEMPTS: str(len(lost_bases) + 1),
        LOST_BASES: ",".join(_text(base) for base in lost_bases[-MOST_BASES:]),
        RETRY_MS: str(max(0, retry_ms)),
    }
    updates = tuple(
        AddSnapshot(replace(update.snapshot, summary=Summary({**update.snapshot.summary, **record})))
        if isinstance(update, AddSnapshot)
        else update
        for update in attempt.updates
    )
    return replace(attempt, updates=updates, summary={**attempt.summary, **record} if attempt.summary else attempt.summary)


def checks_summary(checks: Sequence[str], since: int | None) -> dict[str, str]:
    """Return the summary entries of a commit that checked newer snapshots.

    Args:
        checks: The kinds of changes that the commit checked for; without any, the result is empty.
        since: The snapshot after which snapshots were checked; None for all snapshots of the branch.
    """
    return {CHECKS: ",".join(dict.fromkeys(checks)), CHECKED_SINCE: _text(since)} if checks else {}


def read_retry_record(summary: Mapping[str, str]) -> RetryRecord:
    """Return the record in the summary of a stored snapshot. Invalid values, which other writers may have written, count as missing."""
    bases = [part.strip() for part in summary.get(LOST_BASES, "").split(",")][:MOST_BASES]
    return RetryRecord(
        attempts=count_of(summary.get(ATTEMPTS)),
        lost_bases=tuple(count_of(base) for base in bases if base == _NONE or count_of(base) is not None),
        retry_ms=count_of(summary.get(RETRY_MS)),
        checks=tuple(part for part in summary.get(CHECKS, "").split(",")[:MOST_BASES] if part),
        checked_since=count_of(summary.get(CHECKED_SINCE)),
    )


def _text(snapshot_id: int | None) -> str:
    return _NONE if snapshot_id is None else str(snapshot_id)


def attempts_of(snapshot: Snapshot) -> int:
    """Return how many attempts a commit took: from its summary, else from the name of its manifest list; 1 if neither contains the number.

    In names Java counts attempts from 1, and some writers from 0, so the result from a name may be one too small.
    """
    match = _MANIFEST_LIST.fullmatch((snapshot.manifest_list or "").rpartition("/")[2])
    return max(1, read_retry_record(snapshot.summary).attempts or (0 if match is None else int(match["attempt"])))
