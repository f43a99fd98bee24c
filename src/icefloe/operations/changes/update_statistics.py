"""`UpdateStatistics`: changes of snapshots' statistics files by `table.update_statistics()`.

`column_statistics.py` and `partition_statistics.py` write and read such files. Spec: Table Statistics; Partition Statistics.
"""

from collections.abc import Callable, Sequence
from typing import Self

from icefloe.commit.metadata_change import MetadataChange
from icefloe.operations.pending_change import Commit, PendingChange
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import AssertTableUUID
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_metadata import TableMetadata

_Change = SetStatistics | RemoveStatistics | SetPartitionStatistics | RemovePartitionStatistics


class UpdateStatistics(PendingChange):
    """Changes that set or remove the statistics files of snapshots, committed at the end of a `with` block or by `commit()`."""

    def __init__(self, base: TableMetadata, commit: Commit) -> None:
        self._base = base
        self._commit = commit
        self._changes: list[_Change] = []

    def set_statistics(self, statistics_file: StatisticsFile) -> Self:
        """Set the statistics file of a snapshot. It replaces the snapshot's previous statistics file, if there is one.

        Args:
            statistics_file: the file, with the id of its snapshot.

        Returns:
            This update.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
        """
        return self._add(SetStatistics(statistics_file))

    def remove_statistics(self, snapshot_id: int) -> Self:
        """Remove the statistics file of a snapshot from the metadata; the file itself stays. A snapshot without a statistics file is no error.

        Args:
            snapshot_id: the snapshot.

        Returns:
            This update.
        """
        return self._add(RemoveStatistics(snapshot_id))

    def set_partition_statistics(self, partition_statistics_file: PartitionStatisticsFile) -> Self:
        """Set the partition statistics file of a snapshot. It replaces the snapshot's previous file, if there is one.

        Args:
            partition_statistics_file: the file, with the id of its snapshot.

        Returns:
            This update.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
        """
        return self._add(SetPartitionStatistics(partition_statistics_file))

    def remove_partition_statistics(self, snapshot_id: int) -> Self:
        """Remove the partition statistics file of a snapshot from the metadata; the file itself stays. A snapshot without such a file is no error.

        Args:
            snapshot_id: the snapshot.

        Returns:
            This update.
        """
        return self._add(RemovePartitionStatistics(snapshot_id))

    def commit(self) -> None:
        """Commit the changes; other writers' changes of the table do not conflict with them.

        Raises:
            NoSuchSnapshotError: another writer removed the snapshot.
            CommitConflictError: other writers won every retry.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        self._commit(MetadataChange(self._updates, (AssertTableUUID(self._base.table_uuid),)))

    def _add(self, change: _Change) -> Self:
        change.apply(self._base, self._base.last_updated_ms)
        self._changes.append(change)
        return self

    def _updates(self, base: TableMetadata) -> Sequence[Update]:
        """Return the changes that have an effect on the metadata `base`, as updates to commit."""
        updates: list[Update] = []
        working = base
        for change in self._changes:
            apply: Callable[[TableMetadata, int], TableMetadata] = change.apply
            changed = apply(working, base.last_updated_ms)
            if _files(changed) != _files(working):
                updates.append(change)
            working = changed
        return updates


def _files(metadata: TableMetadata) -> tuple[list[StatisticsFile], list[PartitionStatisticsFile]]:
    return list(metadata.statistics), list(metadata.partition_statistics)
