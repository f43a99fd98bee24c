"""`snapshots_in_range`: the snapshots of a branch between two bounds, each a snapshot, a branch, a tag or a time. Spec: Snapshots."""

import datetime as dt
from collections.abc import Sequence

from icefloe.commit.ref_changes import snapshot_named
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.spec.dates_and_times import format_timestamp
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_history import ancestors, snapshots_between
from icefloe.spec.metadata.table_metadata import TableMetadata

# A snapshot id, the name of a branch or tag, or a time with a time zone.
Bound = int | str | dt.datetime
_MICROSECOND = dt.timedelta(microseconds=1)
_MICROSECONDS = 1000  # in a millisecond, the unit of the times of snapshots
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def snapshots_in_range(
    metadata: TableMetadata,
    table_name: str,
    start: Bound | None = None,
    end: Bound | None = None,
    *,
    includes_start: bool = False,
    includes_end: bool = True,
) -> Sequence[Snapshot]:
    """Return the snapshots between two bounds, oldest first: `end` and its ancestors back to `start`.

    Args:
        metadata: The metadata of the table.
        table_name: The name of the table, for errors.
        start: The first bound; None for the beginning of the table. A snapshot may have been expired if its child exists. A time excludes earlier snapshots.
        end: The last bound; None for the current snapshot. A time excludes later snapshots, and its branch is main.
        includes_start: Whether the snapshot at `start`, or those of exactly this time, are in the range.
        includes_end: Whether the snapshot at `end`, or those of exactly this time, are in the range.

    Raises:
        NoSuchSnapshotError: A snapshot, branch or tag does not exist.
        InvalidInputError: The start is not an ancestor of the end, or is a time after it; a time has no time zone; or snapshots after the start were expired.
    """
    if isinstance(start, dt.datetime) and isinstance(end, dt.datetime) and _microseconds(start) > _microseconds(end):
        raise InvalidInputError(
            f"a range of {table_name} begins at {start.isoformat()} and ends at {end.isoformat()}",
            table=table_name,
            next_step="give a start that is before the end",
        )
    line: Sequence[Snapshot] = _line_of(metadata, table_name, end)
    if isinstance(start, dt.datetime):
        _check_start(line, table_name, _microseconds(start) - includes_start)
    if isinstance(end, dt.datetime):
        line = line[_count_later(line, _microseconds(end) - (not includes_end)) :]
    if isinstance(start, dt.datetime):
        line = line[: _count_later(line, _microseconds(start) - includes_start)]
    elif start is not None:
        line = _after_snapshot(metadata, table_name, line, start, includes_start=includes_start)
    if end is not None and not isinstance(end, dt.datetime) and not includes_end:
        line = line[1:]
    return line[::-1]


def _line_of(metadata: TableMetadata, table_name: str, end: Bound | None) -> list[Snapshot]:
    """Return the last snapshot and its ancestors, newest first."""
    if end is None or isinstance(end, dt.datetime):
        return list(ancestors(metadata, metadata.current_snapshot_id))
    return list(ancestors(metadata, _find_snapshot(metadata, table_name, end).snapshot_id))


def _find_snapshot(metadata: TableMetadata, table_name: str, bound: int | str) -> Snapshot:
    try:
        return snapshot_named(metadata, bound)
    except NoSuchSnapshotError as error:
        if isinstance(bound, str):
            error.table = table_name
            raise
        raise NoSuchSnapshotError(
            f"{table_name} has no snapshot {bound}",
            table=table_name,
            snapshot_id=bound,
            next_step="choose one from table.snapshots(); expired snapshots are not listed",
        ) from error


def time_bound(microseconds: int) -> dt.datetime:
    """Return the time so many microseconds after 1970-01-01 UTC.

    Raises:
        InvalidInputError: The time is not in the years 1 to 9999.
    """
    try:
        return _EPOCH + microseconds * _MICROSECOND
    except OverflowError as error:
        raise InvalidInputError(
            f"the time {microseconds} microseconds after 1970 is not in the years 1 to 9999",
            next_step="give a time between them, or a snapshot",
        ) from error


def _count_later(line: Sequence[Snapshot], time_us: int) -> int:
    """Return how many of the first snapshots of a line, which begins with the newest, are later than a time."""
    return next((place for place, snapshot in enumerate(line) if snapshot.timestamp_ms * _MICROSECONDS <= time_us), len(line))


def _check_start(line: Sequence[Snapshot], table_name: str, start_us: int) -> None:
    """Raise `InvalidInputError` if snapshots after a time were expired. The line is that before the end of the range cuts it."""
    if line and _count_later(line, start_us) == len(line) and line[-1].parent_snapshot_id is not None:
        oldest = line[-1]
        raise InvalidInputError(
            f"snapshots of {table_name} after {format_timestamp(start_us, utc=True)} were expired, so that their changes are unknown",
            table=table_name,
            snapshot_id=oldest.parent_snapshot_id,
            next_step=f"begin at {format_timestamp(oldest.timestamp_ms * _MICROSECONDS, utc=True)}, the time of the oldest remaining snapshot, or later",
        )


def _after_snapshot(
    metadata: TableMetadata, table_name: str, line: Sequence[Snapshot], start: int | str, *, includes_start: bool
) -> Sequence[Snapshot]:
    start_id = start if type(start) is int else _find_snapshot(metadata, table_name, start).snapshot_id
    last_id = line[0].snapshot_id if line else None
    after = snapshots_between(metadata, start_id, last_id)
    if after is None or includes_start:
        _find_snapshot(
            metadata, table_name, start_id
        )  # an expired start has no changes, and is no ancestor of another snapshot than its child
    if after is None:
        raise InvalidInputError(
            f"snapshot {start_id} of {table_name} is not an ancestor of snapshot {last_id}",
            table=table_name,
            snapshot_id=start_id,
            next_step="choose a start from table.ancestors() of the end",
        )
    return line[: len(after) + includes_start]


def _microseconds(time: dt.datetime) -> int:
    if time.tzinfo is None:
        raise InvalidInputError(
            f"the time {time.isoformat()} has no time zone",
            next_step="give one, for example datetime.now(datetime.UTC) or tzinfo=datetime.UTC",
        )
    return (time - _EPOCH) // _MICROSECOND
