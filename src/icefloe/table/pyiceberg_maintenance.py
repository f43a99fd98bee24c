"""`table.maintenance`: PyIceberg's names for what `Table` does by itself.

Spec: none.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self

from icefloe.table.expiry.expire_report import ExpireReport

Expire = Callable[..., ExpireReport]


class ExpireSnapshotsBuilder:
    """`table.maintenance.expire_snapshots().by_id(17).commit()`. Unlike PyIceberg, which changes the metadata alone, this deletes files that nothing needs."""

    def __init__(self, expire: Expire) -> None:
        self._expire = expire
        self._ids: list[int] = []
        self._older_than: datetime | int | None = None

    def by_id(self, snapshot_id: int) -> Self:
        """This snapshot is to go."""
        return self.by_ids([snapshot_id])

    def by_ids(self, snapshot_ids: Iterable[int]) -> Self:
        """These snapshots are to go."""
        self._ids += snapshot_ids
        return self

    def older_than(self, dt: datetime | int) -> Self:
        """Snapshots older than this are to go, as far as the retention policy lets them. The time needs a time zone."""
        self._older_than = dt
        return self

    def commit(self) -> ExpireReport:
        """Does it; raises as `table.expire_snapshots`. Without an id or a time, by the retention policy alone."""
        return self._expire(older_than=self._older_than, snapshot_ids=self._ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit()


class MaintenanceTable:
    """What keeps a table small."""

    def __init__(self, expire: Expire) -> None:
        self._expire = expire

    def expire_snapshots(self) -> ExpireSnapshotsBuilder:
        """Begins an expiry of snapshots."""
        return ExpireSnapshotsBuilder(self._expire)
