"""Changes of which statistics files a table has: at most one of each kind for a snapshot.

Other changes are in `table_updates.py`, `update_layout.py` and `snapshot_updates.py`; all of one commit are joined in `update.py`.
Spec: REST catalog, TableUpdate (names and meaning); Table Statistics; Partition Statistics.
"""

from dataclasses import dataclass

from icefloe.errors import NoSuchSnapshotError
from icefloe.kernel.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.kernel.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """Gives a snapshot its statistics file, in place of the one it has."""

    file: StatisticsFile

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `NoSuchSnapshotError` where the snapshot is not in the table."""
        _check_snapshot(metadata, self.file.snapshot_id, "a statistics file")
        return metadata.changed(now_ms, statistics=metadata.statistics.without((self.file.snapshot_id,)).appended(self.file))


@dataclass(frozen=True, slots=True)
class RemoveStatistics:
    """Takes a snapshot's statistics file from it; a snapshot that has none is no error."""

    snapshot_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        kept = metadata.statistics.without((self.snapshot_id,))
        return metadata if kept is metadata.statistics else metadata.changed(now_ms, statistics=kept)


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics:
    """Gives a snapshot its partition statistics file, in place of the one it has."""

    file: PartitionStatisticsFile

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `NoSuchSnapshotError` where the snapshot is not in the table."""
        _check_snapshot(metadata, self.file.snapshot_id, "a partition statistics file")
        kept = metadata.partition_statistics.without((self.file.snapshot_id,))
        return metadata.changed(now_ms, partition_statistics=kept.appended(self.file))


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics:
    """Takes a snapshot's partition statistics file from it; a snapshot that has none is no error."""

    snapshot_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        kept = metadata.partition_statistics.without((self.snapshot_id,))
        return metadata if kept is metadata.partition_statistics else metadata.changed(now_ms, partition_statistics=kept)


def _check_snapshot(metadata: TableMetadata, snapshot_id: int, what: str) -> None:
    if metadata.snapshots.position(snapshot_id) is None:
        raise NoSuchSnapshotError(f"{what} cannot be of snapshot {snapshot_id}: it is not in the table", snapshot_id=snapshot_id)
