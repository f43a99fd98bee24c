"""`ChangeFollower`: the changes of a branch, snapshot by snapshot, from a position that can be stored, also while the table grows.

A position is stored only after the rows up to it were passed on, so that a consumer that starts again receives every change at least once. It needs the
snapshot of the position, or the snapshot after it, and none before: older snapshots may be expired. Spec: Snapshots; Snapshot References.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import msgspec

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.operations.change_feed.change_scan import ChangeScan
from icefloe.operations.change_feed.snapshot_range import Bound, snapshots_in_range
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.dates_and_times import format_timestamp
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.schema.metadata_columns import CHANGE_TYPE, COMMIT_SNAPSHOT_ID
from icefloe.spec.schema.schema import Schema

_MICROSECONDS = 1000  # in a millisecond, the unit of the times of snapshots
_BEGIN_AGAIN = "remove the position, and begin with all current rows or at a snapshot that exists"


class FeedPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The last snapshot of a branch whose changes were passed on.

    Attributes:
        table_uuid: The UUID of the table.
        branch: The branch.
        snapshot_id: The snapshot; None before the first snapshot of the table.
        timestamp_ms: The time of the snapshot, in milliseconds since 1970.
        lacks_rows: Whether all rows of the snapshot are still to be passed on, before later changes.
    """

    table_uuid: str
    branch: str = MAIN
    snapshot_id: int | None = None
    timestamp_ms: int | None = None
    lacks_rows: bool = False

    def encode(self) -> bytes:
        """Return the position as a line of JSON."""
        return msgspec.json.encode(self) + b"\n"


def decode_position(content: bytes, path: str) -> FeedPosition:
    """Return the position in the content of a file.

    Args:
        content: The content.
        path: The path of the file, for the error.

    Raises:
        InvalidInputError: The content is not that of a position.
    """
    try:
        return msgspec.json.decode(content, type=FeedPosition)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} is not the position of a reader of changes: {error}", next_step="name another file, or remove it to begin again"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedChanges:
    """The changes of one snapshot.

    Attributes:
        snapshot: The snapshot.
        columns: The columns.
        rows: A `pyarrow.RecordBatchReader` of the changed rows with these columns, which reads the files when it is iterated.
        position: The position after this snapshot.
    """

    snapshot: Snapshot
    columns: Schema
    rows: Any
    position: FeedPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFollower:
    """A reader of the changes of a branch that continues at a position.

    Attributes:
        table: The table; `refresh` it to see newer snapshots.
        scan: A scan of changes with the columns, the filter and the modes; its snapshots are not used. The columns of `*` are those of the table, the kind of
            the change and the snapshot.
    """

    table: TableReader
    scan: ChangeScan

    def position_at(self, start: Bound | None, branch: str = MAIN) -> FeedPosition:
        """Return the position after which changes begin.

        Args:
            start: A snapshot id, a branch or tag, or a time with a time zone; None for the beginning of the table.
            branch: The branch that is followed.

        Raises:
            NoSuchSnapshotError: A snapshot, branch or tag does not exist.
            InvalidInputError: The start is not in the history of the branch, or snapshots after it were expired.
        """
        metadata = self.table.metadata
        position = FeedPosition(table_uuid=str(metadata.table_uuid), branch=branch)
        head_id = self._head(branch)
        newer = snapshots_in_range(metadata, self.table.full_name, start, _end(branch))
        # Before the oldest snapshot is its parent, which may be expired, or the beginning of the table.
        last_id = newer[0].parent_snapshot_id if newer else head_id
        last = None if last_id is None else metadata.snapshot_by_id(last_id)
        return msgspec.structs.replace(position, snapshot_id=last_id) if last is None else _position_after(position, last)

    def head(self, branch: str = MAIN) -> FeedPosition:
        """Return the position after all changes that are committed now. Raises `NoSuchSnapshotError` if the branch does not exist."""
        position = FeedPosition(table_uuid=str(self.table.metadata.table_uuid), branch=branch)
        snapshot_id = self._head(branch)
        snapshot = None if snapshot_id is None else self.table.metadata.snapshot_by_id(snapshot_id)
        return position if snapshot is None else _position_after(position, snapshot)

    def rows_at(self, position: FeedPosition) -> CommittedChanges:
        """Return all rows of the snapshot of a position as if it had inserted them.

        Raises:
            InvalidInputError: The position is that of another table, or its snapshot was expired.
        """
        self._check_table(position)
        snapshot = None if position.snapshot_id is None else self.table.metadata.snapshot_by_id(position.snapshot_id)
        if snapshot is None:
            raise InvalidInputError(
                f"the rows of {self.table.full_name} at snapshot {position.snapshot_id} cannot be read: the snapshot was expired",
                table=self.table.full_name,
                snapshot_id=position.snapshot_id,
                next_step=_BEGIN_AGAIN,
            )
        scan = self._scan()
        after = msgspec.structs.replace(position, lacks_rows=False)
        return CommittedChanges(snapshot=snapshot, columns=scan.projection(), rows=scan.initial_rows(snapshot), position=after)

    def changes_after(self, position: FeedPosition, last: FeedPosition | None = None) -> Iterator[CommittedChanges]:
        """Yield the changes of each snapshot after a position, oldest first. A compaction has no changes, and is returned too: its position is newer.

        Args:
            position: The position.
            last: The position up to which changes are returned; None for all that are committed.

        Raises:
            InvalidInputError: The position is that of another table; its snapshot is not in the history of the branch any more, because the branch was rolled
                back or snapshots were expired; or rows that a snapshot removed cannot be read.
            NoSuchSnapshotError: The branch does not exist.
            IcefloeError: A file of a snapshot cannot be read.
        """
        self._check_table(position)
        if self._head(position.branch) is None or (last is not None and self._is_reached(last, position)):
            return
        for snapshot in self._snapshots_after(position):
            position = _position_after(position, snapshot)
            scan = replace(self._scan(), snapshots=(snapshot,))
            yield CommittedChanges(snapshot=snapshot, columns=scan.projection(), rows=scan.to_arrow_batch_reader(), position=position)
            if last is not None and snapshot.snapshot_id == last.snapshot_id:
                return

    def _scan(self) -> ChangeScan:
        """Return the scan for the current metadata. `*` is without `_change_ordinal`, which numbers the snapshots of one read."""
        metadata, names = self.table.metadata, self.scan.selected_fields
        if "*" in names:
            names = (*metadata.schema().names, CHANGE_TYPE.name, COMMIT_SNAPSHOT_ID.name, *(name for name in names if name != "*"))
        return replace(self.scan, metadata=metadata, io=self.table.io, selected_fields=names)

    def _check_table(self, position: FeedPosition) -> None:
        table_uuid, name = str(self.table.metadata.table_uuid), self.table.full_name
        if position.table_uuid != table_uuid:
            raise InvalidInputError(
                f"the position is that of the table with the UUID {position.table_uuid}, and {name} has {table_uuid}",
                table=name,
                next_step="remove the position to begin with the table that has the name now",
            )

    def _is_reached(self, last: FeedPosition, position: FeedPosition) -> bool:
        """Return whether a position is not before another one. Only as many snapshots are visited as are between the two."""
        if last.snapshot_id in (None, position.snapshot_id):
            return True
        metadata = self.table.metadata
        for before, after in zip_longest(ancestors(metadata, position.snapshot_id), ancestors(metadata, last.snapshot_id)):
            if before is not None and before.parent_snapshot_id == last.snapshot_id:
                return True
            if after is not None and after.parent_snapshot_id == position.snapshot_id:
                return False
        return False

    def _snapshots_after(self, position: FeedPosition) -> Sequence[Snapshot]:
        metadata, name = self.table.metadata, self.table.full_name
        try:
            newer = snapshots_in_range(metadata, name, position.snapshot_id, _end(position.branch))
        except (InvalidInputError, NoSuchSnapshotError) as error:
            if position.snapshot_id is None:
                raise
            time = "" if position.timestamp_ms is None else f" of {_time(position.timestamp_ms)}"
            oldest = list(ancestors(metadata, self._head(position.branch)))[-1]
            is_there = metadata.snapshot_by_id(position.snapshot_id) is not None
            what = f"is not in the history of {position.branch!r}: it was rolled back or replaced" if is_there else "was expired"
            if oldest.parent_snapshot_id is not None:
                what += ", or" if is_there else ", and so were"
                what += f" snapshots after it{' were expired' if is_there else ''}: the oldest of {position.branch!r} is {oldest.snapshot_id} of "
                what += _time(oldest.timestamp_ms)
            raise InvalidInputError(
                f"the changes of {name} after snapshot {position.snapshot_id}{time} are unknown: the snapshot {what}",
                table=name,
                snapshot_id=position.snapshot_id,
                next_step=_BEGIN_AGAIN,
            ) from error
        if position.snapshot_id is None and newer and newer[0].parent_snapshot_id is not None:
            raise InvalidInputError(
                f"the changes of {name} since its beginning are unknown: snapshots before {newer[0].snapshot_id} were expired",
                table=name,
                snapshot_id=newer[0].parent_snapshot_id,
                next_step=_BEGIN_AGAIN,
            )
        return newer

    def _head(self, branch: str) -> int | None:
        return self.table.scan().use_ref(branch).snapshot_id


def _position_after(position: FeedPosition, snapshot: Snapshot) -> FeedPosition:
    return msgspec.structs.replace(position, snapshot_id=snapshot.snapshot_id, timestamp_ms=snapshot.timestamp_ms)


def _end(branch: str) -> str | None:
    return None if branch == MAIN else branch


def _time(timestamp_ms: int) -> str:
    return format_timestamp(timestamp_ms * _MICROSECONDS, utc=True)
