"""`snapshots_in_range`: the snapshots of a branch between two bounds, each a snapshot, a branch, a tag or a time. Spec: Snapshots."""

import datetime as dt
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import dropwhile

from icefloe.commit.ref_changes import snapshot_named
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.spec.dates_and_times import format_timestamp
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_history import ancestors
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
    branch: str = MAIN,
) -> Sequence[Snapshot]:
    """Return the snapshots between two bounds, oldest first: `end` and its ancestors back to `start`.

    Args:
        metadata: The metadata of the table.
        table_name: The name of the table, for errors.
        start: The first bound; None for the beginning of the table. A snapshot may have been expired if its child exists. A time excludes earlier snapshots.
        end: The last bound; None for the newest snapshot of `branch`. A time excludes later snapshots of `branch`.
        includes_start: Whether the snapshot at `start`, or those of exactly this time, are in the range.
        includes_end: Whether the snapshot at `end`, or those of exactly this time, are in the range.
        branch: The branch of the end, if it is a time or None.

    Raises:
        NoSuchSnapshotError: A snapshot, branch or tag does not exist.
        InvalidInputError: The start is not an ancestor of the end, or is a time after it; a time has no time zone; snapshots after the start were expired; or
            the end is a snapshot or ref, and a branch is given too.
    """
    if branch != MAIN and not (end is None or isinstance(end, dt.datetime)):
        raise InvalidInputError(
            f"a range of {table_name} is of the branch {branch!r}, and ends at {end!r}",
            table=table_name,
            next_step="give one of them, or a time as the end",
        )
    if isinstance(start, dt.datetime) and isinstance(end, dt.datetime) and _microseconds(start) > _microseconds(end):
        raise InvalidInputError(
            f"a range of {table_name} begins at {start.isoformat()} and ends at {end.isoformat()}",
            table=table_name,
            next_step="give a start that is before the end",
        )
    line = ancestors(
        metadata, _last_id(metadata, table_name, branch if end is None or isinstance(end, dt.datetime) else end)
    )  # newest first; snapshots before the range are not visited
    if isinstance(start, dt.datetime):
        line = iter(_later_than(line, table_name, _microseconds(start) - includes_start))
    if isinstance(end, dt.datetime):
        line = dropwhile(partial(_is_later, time_us=_microseconds(end) - (not includes_end)), line)
    snapshots = (
        list(line)
        if start is None or isinstance(start, dt.datetime)
        else _after_snapshot(metadata, table_name, line, start, includes_start=includes_start)
    )
    if end is not None and not isinstance(end, dt.datetime) and not includes_end:
        snapshots = snapshots[1:]
    return snapshots[::-1]


def _last_id(metadata: TableMetadata, table_name: str, end: int | str) -> int | None:
    return metadata.current_snapshot_id if end == MAIN else _find_snapshot(metadata, table_name, end).snapshot_id


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


def _is_later(snapshot: Snapshot, time_us: int) -> bool:
    return snapshot.timestamp_ms * _MICROSECONDS > time_us


def _later_than(line: Iterable[Snapshot], table_name: str, start_us: int) -> list[Snapshot]:
    """Return the first snapshots of a line that are later than a time. Raises `InvalidInputError` if snapshots between them and the time were expired."""
    later: list[Snapshot] = []
    for snapshot in line:
        if not _is_later(snapshot, start_us):
            return later
        later.append(snapshot)
    if later and later[-1].parent_snapshot_id is not None:
        raise InvalidInputError(
            f"snapshots of {table_name} after {format_timestamp(start_us, utc=True)} were expired, so that their changes are unknown",
            table=table_name,
            snapshot_id=later[-1].parent_snapshot_id,
            next_step=f"begin at {format_timestamp(later[-1].timestamp_ms * _MICROSECONDS, utc=True)}, the time of the oldest remaining snapshot, or later",
        )
    return later


def _after_snapshot(
    metadata: TableMetadata, table_name: str, line: Iterable[Snapshot], start: int | str, *, includes_start: bool
) -> list[Snapshot]:
    """Return the first snapshots of a line up to one of them."""
    start_id = start if type(start) is int else _find_snapshot(metadata, table_name, start).snapshot_id
    after: list[Snapshot] = []
    for snapshot in line:
        if snapshot.snapshot_id == start_id:
            return [*after, snapshot] if includes_start else after
        after.append(snapshot)
    if after and after[-1].parent_snapshot_id == start_id and not includes_start:
        return after  # the start was expired
    _find_snapshot(metadata, table_name, start_id)  # an expired start has no changes, and is no ancestor of another snapshot than its child
    last_id = after[0].snapshot_id if after else None
    raise InvalidInputError(
        f"snapshot {start_id} of {table_name} is not an ancestor of snapshot {last_id}",
        table=table_name,
        snapshot_id=start_id,
        next_step="choose a start from table.ancestors() of the end",
    )


def _microseconds(time: dt.datetime) -> int:
    if time.tzinfo is None:
        raise InvalidInputError(
            f"the time {time.isoformat()} has no time zone",
            next_step="give one, for example datetime.now(datetime.UTC) or tzinfo=datetime.UTC",
        )
    return (time - _EPOCH) // _MICROSECOND
