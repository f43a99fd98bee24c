"""`table.maintenance`: expiry of snapshots under the names of PyIceberg.

Spec: none.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self

from icefloe.table.expiry.expire_report import ExpireReport

Expire = Callable[..., ExpireReport]


class ExpireSnapshotsBuilder:
    """`table.maintenance.expire_snapshots().by_id(17).commit()`.

    Unlike PyIceberg, which changes only the metadata, this also deletes the files that nothing needs any more.
    """

    def __init__(self, expire: Expire) -> None:
        self._expire = expire
        self._ids: list[int] = []
        self._older_than: datetime | int | None = None

    def by_id(self, snapshot_id: int) -> Self:
        """Expire this snapshot.

        Args:
            snapshot_id: its id.

        Returns:
            This builder.
        """
        return self.by_ids([snapshot_id])

    def by_ids(self, snapshot_ids: Iterable[int]) -> Self:
        """Expire these snapshots.

        Args:
            snapshot_ids: their ids.

        Returns:
            This builder.
        """
        self._ids += snapshot_ids
        return self

    def older_than(self, dt: datetime | int) -> Self:
        """Expire snapshots older than a time, as far as the retention policy allows.

        Args:
            dt: a time, or milliseconds since 1970-01-01 UTC. A time without a zone is in local time, as `datetime.now()` is.

        Returns:
            This builder.
        """
        self._older_than = dt.astimezone() if isinstance(dt, datetime) and dt.tzinfo is None else dt
        return self

    def commit(self) -> ExpireReport:
        """Expire the snapshots; without an id or a time, the retention policy alone decides.

        Returns:
            What was removed.

        Raises:
            IcefloeError: as for `table.expire_snapshots`.
        """
        return self._expire(older_than=self._older_than, snapshot_ids=self._ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit()


class MaintenanceTable:
    """The maintenance operations of a table."""

    def __init__(self, expire: Expire) -> None:
        self._expire = expire

    def expire_snapshots(self) -> ExpireSnapshotsBuilder:
        """Start an expiry of snapshots."""
        return ExpireSnapshotsBuilder(self._expire)
