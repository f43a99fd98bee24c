"""Why a stored commit was retried, and against which commits of other writers it was checked.

The summary of the snapshot has a record of the lost attempts (`icefloe.commit.attempts_in_summary`). For snapshots of other writers only the number of attempts
is known, from the name of the manifest list as Java writes it. Spec: Snapshots; Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from icefloe.commit.attempts_in_summary import RetryRecord, read_retry_record
from icefloe.display.report import Column, Facts, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, time_text
from icefloe.inspect.lookup import existing_snapshot_of, snapshot_id_of
from icefloe.inspect.table_overview import summary_number
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.snapshot import Snapshot, engine_of
from icefloe.spec.metadata.table_history import ancestors, snapshots_between

_LIST_NAME = re.compile(r"snap-\d+-(\d{1,6})-[^/]*\.avro")
# The most snapshots of other writers in one list of an explanation.
_MOST_OTHERS = 1_000
_UNCONTESTED = "No other writer was first: its only attempt was committed."
# A description of each recorded check, as text for readers.
_CHECKS = {
    "added-data": "rows that others added",
    "removed-data": "files that others removed",
    "added-deletes": "rows that others deleted",
    "deletes-of-changed-files": "rows that others deleted of the files that it changed",
    "removed-files": "files of its deletes that others removed",
    "deletes-beside-vectors": "deletes of others of the files that got deletion vectors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCommit:
    """A snapshot that another writer committed."""

    snapshot_id: int
    timestamp_ms: int
    operation: str | None
    added_records: int | None
    deleted_records: int | None
    engine: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAttempt:
    """An attempt of a commit that failed because another writer committed first.

    Attributes:
        number: The number of the attempt, from 1.
        base_snapshot_id: The newest snapshot of the branch when the attempt was built; None for an empty branch.
        won_by: The snapshots that were committed before the next attempt, oldest first; empty if another writer changed only metadata.
        is_known: False if the history between the two attempts has expired or was replaced.
    """

    number: int
    base_snapshot_id: int | None
    won_by: tuple[OtherCommit, ...]
    is_known: bool

    def message(self) -> str:
        """Return a sentence about the snapshot on which the attempt was built, and the commits to which it lost."""
        base = "an empty branch" if self.base_snapshot_id is None else f"snapshot {self.base_snapshot_id}"
        begin = f"attempt {self.number:,}, built on {base}, lost"
        if not self.is_known:
            return f"{begin}; the history after it has expired, or the branch was set back."
        if not self.won_by:
            return f"{begin} to a change of metadata without a snapshot, such as of properties, the schema or a branch."
        return f"{begin} to {count_text(len(self.won_by), 'snapshot')}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitExplanation(Reportable):
    """How one commit came about: its attempts, and the checks for conflicts.

    Attributes:
        table: The name of the table.
        snapshot_id: The snapshot that was committed.
        parent_snapshot_id: The parent of the snapshot; None if it has none.
        sequence_number: The sequence number of the snapshot.
        timestamp_ms: The time of the commit in milliseconds since 1970.
        operation: The operation of the snapshot; None if unknown.
        engine: The engine that committed; None if unknown.
        attempts: The number of attempts; None if the writer did not record it.
        is_recorded: Whether the writer recorded on which snapshots the lost attempts were built.
        retry_ms: Milliseconds from the first attempt to the last; None if not recorded.
        lost: The lost attempts; empty if not recorded.
        before: The snapshots before the commit, newest first, if the commit took several attempts whose bases were not recorded; else empty.
        checks: The names of the conflicting changes for which the commit was checked.
        checked_since: The snapshot after which commits of other writers were checked; None if not recorded.
        checked: The snapshots against which the commit was checked, oldest first.
    """

    table: str
    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    engine: str | None
    attempts: int | None
    is_recorded: bool
    retry_ms: int | None
    lost: tuple[LostAttempt, ...]
    before: tuple[OtherCommit, ...]
    checks: tuple[str, ...]
    checked_since: int | None
    checked: tuple[OtherCommit, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = [
            ("operation", self.operation or "unknown"),
            ("committed", time_text(self.timestamp_ms)),
            ("on top of", "no snapshot" if self.parent_snapshot_id is None else str(self.parent_snapshot_id)),
            ("attempts", self._attempts_text()),
        ]
        facts += [("by", self.engine)] if self.engine else []
        parts: list[Part] = [Facts(tuple(facts))]
        for attempt in self.lost:
            parts += _lost_parts(attempt, most)
        if self.before:
            parts.append(_grid("the snapshots before it, which its lost attempts may have met", self.before, most))
        if self.checks:
            parts.append(Prose(self._checks_text()))
        if self.checked:
            parts.append(_grid("the snapshots that it was checked against", self.checked, most))
        if self.attempts == 1 and not self.checked:
            parts.append(Prose(_UNCONTESTED))
        return Report(f"commit of snapshot {self.snapshot_id} of {self.table}", tuple(parts))

    def summary_text(self) -> str:
        """Return in one line the number of attempts, and the conflicts for which the commit was checked."""
        sentences = [f"attempts: {self._attempts_text()}"]
        sentences += [self._checks_text()] if self.checks else []
        sentences += [_UNCONTESTED] if self.attempts == 1 and not self.checked else []
        return "; ".join(sentences)

    def _checks_text(self) -> str:
        return f"It was checked for {', '.join(_CHECKS.get(check, check) for check in self.checks)}, and none was a conflict."

    def _attempts_text(self) -> str:
        if self.attempts is None:
            return "not recorded by its writer"
        waited = "" if self.retry_ms is None else f", the last one {self.retry_ms:,} ms after the first"
        source = (
            "" if self.is_recorded or self.attempts == 1 else " by the name of its manifest list; what they were built on is not recorded"
        )
        return f"{self.attempts:,}{waited}{source}"


def explain_commit(reader: TableReader, snapshot: int | str | None = None) -> CommitExplanation:
    """Explain a stored commit: its attempts, the snapshots of other writers that came first, and the snapshots against which it was checked.

    Args:
        reader: The table.
        snapshot: A snapshot id, a branch or a tag; the current snapshot by default.

    Returns:
        The explanation, as far as the writer of the snapshot recorded it.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
    """
    chosen = existing_snapshot_of(reader, snapshot_id_of(reader, None if snapshot is None else str(snapshot)))
    record = read_retry_record(chosen.summary)
    attempts = record.attempts or _attempts_by_name(chosen)
    is_recorded = record.attempts is not None
    before = (
        () if is_recorded or (attempts or 1) == 1 else tuple(islice(ancestors(reader.metadata, chosen.parent_snapshot_id), attempts or 1))
    )
    return CommitExplanation(
        table=reader.full_name,
        snapshot_id=chosen.snapshot_id,
        parent_snapshot_id=chosen.parent_snapshot_id,
        sequence_number=chosen.sequence_number,
        timestamp_ms=chosen.timestamp_ms,
        operation=chosen.operation,
        engine=engine_of(chosen.summary),
        attempts=attempts,
        is_recorded=is_recorded,
        retry_ms=record.retry_ms,
        lost=tuple(_lost_attempts(reader, chosen, record)),
        before=_others(before),
        checks=record.checks,
        checked_since=record.checked_since,
        checked=_checked_commits(reader, chosen, record),
    )


def _attempts_by_name(snapshot: Snapshot) -> int | None:
    """Return the number of attempts by the name of the manifest list; None for other names.

    Java numbers attempts from 1. Writers that number them from 0 have a record in the summary.
    """
    match = _LIST_NAME.fullmatch((snapshot.manifest_list or "").rpartition("/")[2])
    return None if match is None else max(1, int(match[1]))


def _lost_attempts(reader: TableReader, snapshot: Snapshot, record: RetryRecord) -> Iterable[LostAttempt]:
    first = (record.attempts or 0) - len(record.lost_bases)
    for place, (base, following) in enumerate(pairwise((*record.lost_bases, snapshot.parent_snapshot_id))):
        between = [] if base == following else snapshots_between(reader.metadata, base, following)
        yield LostAttempt(
            number=max(first, 1) + place,
            base_snapshot_id=base,
            won_by=_others(reversed(between or ())),
            is_known=between is not None,
        )


def _checked_commits(reader: TableReader, snapshot: Snapshot, record: RetryRecord) -> tuple[OtherCommit, ...]:
    if not record.checks or record.checked_since is None:
        return ()
    return _others(reversed(snapshots_between(reader.metadata, record.checked_since, snapshot.parent_snapshot_id) or ()))


def _others(snapshots: Iterable[Snapshot]) -> tuple[OtherCommit, ...]:
    return tuple(
        OtherCommit(
            snapshot_id=snapshot.snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.operation,
            added_records=summary_number(snapshot.summary, "added-records"),
            deleted_records=summary_number(snapshot.summary, "deleted-records"),
            engine=engine_of(snapshot.summary),
        )
        for snapshot in islice(snapshots, _MOST_OTHERS)
    )


def _lost_parts(attempt: LostAttempt, most: int | None) -> list[Part]:
    if not attempt.won_by:
        return [Prose(attempt.message())]
    return [_grid(attempt.message(), attempt.won_by, most)]


def _grid(title: str, others: Sequence[OtherCommit], most: int | None) -> Part:
    columns = (
        Column("snapshot", whole=True),
        Column("made", whole=True, rank=1),
        Column("operation"),
        Column("rows +", is_number=True, rank=2),
        Column("rows -", is_number=True, rank=3),
        Column("by", rank=4),
    )
    rows = [
        (
            str(other.snapshot_id),
            time_text(other.timestamp_ms),
            other.operation or "unknown",
            count_text(other.added_records or 0),
            count_text(other.deleted_records or 0),
            other.engine or "",
        )
        for other in others
    ]
    return grid(title, columns, rows, most)
