"""Updates of a table's statistics files and partition statistics files. A snapshot has at most one file of each kind.

Other updates are in `table_updates.py`, `layout_updates.py` and `snapshot_updates.py`; `metadata_updates.py` applies all updates of a commit.
Spec: REST catalog, TableUpdate (names and meaning); Table Statistics; Partition Statistics.
"""

from dataclasses import dataclass

from icefloe.errors import NoSuchSnapshotError
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """An update that sets or replaces the statistics file of a snapshot."""

    file: StatisticsFile

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the statistics file.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
        """
        _check_snapshot(metadata, self.file.snapshot_id, "a statistics file")
        return metadata.with_changes(now_ms, statistics=metadata.statistics.without((self.file.snapshot_id,)).with_entries(self.file))


@dataclass(frozen=True, slots=True)
class RemoveStatistics:
    """An update that removes the statistics file of a snapshot, if it has one."""

    snapshot_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the statistics file."""
        remaining = metadata.statistics.without((self.snapshot_id,))
        return metadata if remaining is metadata.statistics else metadata.with_changes(now_ms, statistics=remaining)


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics:
    """An update that sets or replaces the partition statistics file of a snapshot."""

    file: PartitionStatisticsFile

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the partition statistics file.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
        """
        _check_snapshot(metadata, self.file.snapshot_id, "a partition statistics file")
        others = metadata.partition_statistics.without((self.file.snapshot_id,))
        return metadata.with_changes(now_ms, partition_statistics=others.with_entries(self.file))


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics:
    """An update that removes the partition statistics file of a snapshot, if it has one."""

    snapshot_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the partition statistics file."""
        remaining = metadata.partition_statistics.without((self.snapshot_id,))
        return metadata if remaining is metadata.partition_statistics else metadata.with_changes(now_ms, partition_statistics=remaining)


def _check_snapshot(metadata: TableMetadata, snapshot_id: int, kind: str) -> None:
    if metadata.snapshots.position(snapshot_id) is None:
        raise NoSuchSnapshotError(f"{kind} cannot be of snapshot {snapshot_id}: it is not in the table", snapshot_id=snapshot_id)
