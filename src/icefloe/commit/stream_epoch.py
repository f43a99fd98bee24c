"""`EpochCommit`: the commit of one epoch of a stream, at most once. An epoch is a micro-batch; after a crash, a stream writes its last epoch again.

The snapshot of an epoch has the id of the query and the number of the epoch in its summary, as in Java. Java's writer finds the last epoch by a search of the
history at every epoch. That search is long if other writers commit too, and finds nothing once the snapshot has expired. So the same commit also sets a table
property for the query, which is found at once. Spec: Snapshots (`summary`). JAVA: SparkWrite.BaseStreamingWrite.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from icefloe.commit.attempt import Action, Attempt, Read
from icefloe.commit.staged_snapshot import WAP_ID
from icefloe.errors import InvalidPropertyError
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.snapshot import SOURCE_SNAPSHOT_ID, Snapshot, count_of
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.snapshot_updates import AddSnapshot
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import RemoveProperties, SetProperties

# The keys of summaries, as in Java.
QUERY_ID, EPOCH_ID = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
# The table properties of queries: this prefix, and the id of the query.
PREFIX = "icefloe.stream."
# The number of queries whose last epochs a table has. The query whose last epoch is the oldest loses its property first.
MOST_QUERIES = 100
# The number of snapshots that the search of the history looks at.
MOST_SEARCHED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEpoch:
    """One epoch of a query that writes to a branch."""

    query_id: str
    epoch: int
    branch: str

    @property
    def summary(self) -> Mapping[str, str]:
        """The entries of the snapshot's summary."""
        return {QUERY_ID: self.query_id, EPOCH_ID: str(self.epoch)}


def epoch_of(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return the id of the query and the number of the epoch that a snapshot was committed for, as in its summary; None for other snapshots."""
    query_id, number = (snapshot.summary.get(key) for key in (QUERY_ID, EPOCH_ID))
    return None if query_id is None or number is None else (query_id, number)


class LastEpoch(msgspec.Struct, frozen=True, rename="kebab"):
    """The last epoch of a query that was committed, as the table property has it, and the snapshot that this commit added to a branch."""

    epoch: int
    branch: str
    snapshot_id: int
    sequence_number: int
    timestamp_ms: int


def last_epoch(properties: Mapping[str, str], query_id: str) -> LastEpoch | None:
    """Return the last epoch of a query by the table property; None if the table does not have it. Raises `InvalidPropertyError` for another value."""
    name = PREFIX + query_id
    if name not in properties:
        return None
    try:
        return msgspec.json.decode(properties[name], type=LastEpoch)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidPropertyError(
            f"the table property {name} does not contain the last epoch of a stream: {error}",
            next_step="compare the rows of the table with the source of the stream, then remove the property with ALTER TABLE ... UNSET TBLPROPERTIES, "
            "and start the stream with a new checkpoint",
        ) from error


def is_committed(base: TableMetadata, epoch: StreamEpoch, *, searches_history: bool) -> bool:
    """Return whether the table has the rows of an epoch already, or those of a later epoch of the query.

    An epoch that was rolled back is not committed: the branch that it was written to no longer has its snapshot.

    Args:
        base: the table.
        epoch: the epoch.
        searches_history: whether to search the history for the epoch if the property does not have it, because Java may have written it.

    Raises:
        InvalidPropertyError: the property of the query has an invalid value.
    """
    last = last_epoch(base.properties, epoch.query_id)
    if last is None or last.epoch < epoch.epoch:
        return searches_history and _newest_in_history(base, epoch, last) >= epoch.epoch
    return _may_be_in_branch(base, last) or _newest_in_history(base, epoch) >= epoch.epoch


def _newest_in_history(base: TableMetadata, epoch: StreamEpoch, after: LastEpoch | None = None) -> int:
    """Return the newest epoch of the query among the snapshots of its branch; -1 if there is none.

    With `after` only snapshots after that of an earlier epoch are searched: those that other writers added since then.
    """
    for snapshot in islice(_history(base, epoch.branch), MOST_SEARCHED):
        if after is not None and (snapshot.snapshot_id == after.snapshot_id or snapshot.sequence_number < after.sequence_number):
            break
        number = count_of(snapshot.summary.get(EPOCH_ID))
        if number is not None and snapshot.summary.get(QUERY_ID) == epoch.query_id:
            return number
    return -1


def _history(base: TableMetadata, branch: str) -> Iterator[Snapshot]:
    """Yield the snapshots of a branch, newest first. A staged write to a branch that was dropped creates it from main again."""
    ref = base.refs.get(branch) or base.refs.get(MAIN)
    return ancestors(base, None if ref is None else ref.snapshot_id)


def _may_be_in_branch(base: TableMetadata, last: LastEpoch) -> bool:
    """Return False if the snapshot of an epoch is certainly not in the history of its branch: it was rolled back.

    A snapshot that was expired is older than the oldest snapshot that its branch still has. The snapshot may also have been cherry-picked to its branch.
    """
    snapshot = base.snapshot_by_id(last.snapshot_id)
    if snapshot is not None and WAP_ID in snapshot.summary:
        return True
    oldest = None
    for oldest in _history(base, last.branch):
        if oldest.snapshot_id == last.snapshot_id or oldest.summary.get(SOURCE_SNAPSHOT_ID) == str(last.snapshot_id):
            return True
    if snapshot is not None or oldest is None or oldest.parent_snapshot_id is None:
        return False
    if last.sequence_number:
        return oldest.sequence_number > last.sequence_number
    return oldest.timestamp_ms >= last.timestamp_ms  # version 1 has no sequence numbers


class EpochCommit:
    """The action of another action whose snapshot contains the rows of an epoch. It commits nothing if the epoch is committed already."""

    def __init__(self, action: Action, epoch: StreamEpoch, *, searches_history: bool = False) -> None:
        """Create the action. `searches_history` is that of `is_committed`."""
        self._action = action
        self._epoch = epoch
        self._searches_history = searches_history

    def new_data_files(self) -> Sequence[str]:
        return self._action.new_data_files()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`. Raises the errors of the action and of `is_committed`."""
        if is_committed(base, self._epoch, searches_history=self._searches_history):
            return None
        attempt = self._action.attempt(base, number=number, now_ms=now_ms, read=read)
        if attempt is None:
            return None
        return replace(attempt, updates=(*attempt.updates, *self._property_updates(base, attempt)))

    def _property_updates(self, base: TableMetadata, attempt: Attempt) -> Sequence[Update]:
        added = [update.snapshot for update in attempt.updates if isinstance(update, AddSnapshot)]
        if not added:
            return ()
        snapshot, name = added[-1], PREFIX + self._epoch.query_id
        last = LastEpoch(self._epoch.epoch, self._epoch.branch, snapshot.snapshot_id, snapshot.sequence_number, snapshot.timestamp_ms)
        others = [other for other in base.properties if other.startswith(PREFIX) and other != name]
        set_last = SetProperties({name: msgspec.json.encode(last).decode()})
        if len(others) < MOST_QUERIES:
            return (set_last,)
        others.sort(key=lambda other: _age(base.properties, other), reverse=True)
        return (set_last, RemoveProperties(tuple(others[MOST_QUERIES - 1 :])))


def _age(properties: Mapping[str, str], name: str) -> int:
    """Return the time of a query's last epoch; 0 for a property with another value."""
    try:
        last = last_epoch(properties, name.removeprefix(PREFIX))
    except InvalidPropertyError:
        return 0
    return 0 if last is None else last.timestamp_ms
