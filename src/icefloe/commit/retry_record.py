"""What a commit records of its lost attempts and of the checks against other writers, in the summary of its snapshot; nothing if there was neither.

`icefloe.inspect.explain_commit` reads it from stored snapshots. Spec: Snapshots (`summary`); Commit Conflict Resolution and Retry.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icefloe.commit.attempt import Attempt
from icefloe.spec.metadata.snapshot import Snapshot, Summary, count_of
from icefloe.spec.metadata.snapshot_updates import AddSnapshot

# Keys of the summary. Values are lists with commas, and "none" where a branch had no snapshot.
ATTEMPTS = "icefloe.commit.attempts"
LOST_BASES = "icefloe.commit.lost-bases"
RETRY_MS = "icefloe.commit.retry-ms"
CHECKS = "icefloe.commit.checks"
CHECKED_SINCE = "icefloe.commit.checked-since"
# The bases of so many attempts are recorded, the last ones: retries may be set to thousands.
MOST_BASES = 20
_NONE = "none"
_MANIFEST_LIST = re.compile(r"snap-\d+-(?P<attempt>\d{1,9})-[^/]*\.avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecord:
    """The record of a stored snapshot.

    Attributes:
        attempts: How often the commit was attempted; None if its writer recorded none.
        lost_bases: The snapshots that the lost attempts were built on, at most the last `MOST_BASES`; None for a branch without snapshot.
        retry_ms: Milliseconds from the first attempt to the last.
        checks: The changes of other writers that the commit looked for, such as `added-data`.
        checked_since: The snapshot after which it looked; None for all snapshots of the branch.
    """

    attempts: int | None = None
    lost_bases: tuple[int | None, ...] = ()
    retry_ms: int | None = None
    checks: tuple[str, ...] = ()
    checked_since: int | None = None


def base_of(attempt: Attempt) -> tuple[int | None, ...]:
    """Return the snapshot that an attempt is built on, as a tuple of one; an empty one for an attempt that adds no snapshot."""
    return next(((update.snapshot.parent_snapshot_id,) for update in attempt.updates if isinstance(update, AddSnapshot)), ())


def with_lost_attempts(attempt: Attempt, lost_bases: Sequence[int | None], retry_ms: int) -> Attempt:
    """Return an attempt whose snapshots record the attempts before it.

    Args:
        attempt: The attempt.
        lost_bases: The snapshots that the lost attempts were built on, oldest first.
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
    """Return the entries of the summary of a commit that checked newer snapshots.

    Args:
        checks: The changes that it looked for.
        since: The snapshot after which it looked; None for all snapshots of the branch.
    """
    return {CHECKS: ",".join(dict.fromkeys(checks)), CHECKED_SINCE: _text(since)} if checks else {}


def read_retry_record(summary: Mapping[str, str]) -> RetryRecord:
    """Return the record in a stored summary, which any writer may have written: what is not valid counts as missing."""
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
    """Return how many attempts a commit took: as its summary records it, else by the name of its manifest list; 1 where neither has it.

    Java counts from 1, and some writers from 0: in a name only a second attempt is certain.
    """
    match = _MANIFEST_LIST.fullmatch((snapshot.manifest_list or "").rpartition("/")[2])
    return max(1, read_retry_record(snapshot.summary).attempts or (0 if match is None else int(match["attempt"])))
