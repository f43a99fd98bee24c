"""`UpdateStatistics`: what `table.update_statistics()` gives: which statistics files the snapshots of a table have.

What is in such a file, and how it is computed, is not known here. Spec: Table Statistics; Partition Statistics.
"""

from collections.abc import Callable, Sequence
from typing import Self

from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import AssertTableUUID
from icefloe.kernel.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.kernel.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.pending_change import Commit, PendingChange

_Change = SetStatistics | RemoveStatistics | SetPartitionStatistics | RemovePartitionStatistics


class UpdateStatistics(PendingChange):
    """Statistics files given to snapshots and taken from them, committed together: in a `with` statement, or with `commit()`."""

    def __init__(self, base: TableMetadata, commit: Commit) -> None:
        self._base = base
        self._commit = commit
        self._changes: list[_Change] = []

    def set_statistics(self, statistics_file: StatisticsFile) -> Self:
        """The statistics file of its snapshot, in place of the one it has. Raises `NoSuchSnapshotError`."""
        return self._add(SetStatistics(statistics_file))

    def remove_statistics(self, snapshot_id: int) -> Self:
        """The snapshot has no statistics file any longer; the file itself stays. None to take away is no error."""
        return self._add(RemoveStatistics(snapshot_id))

    def set_partition_statistics(self, partition_statistics_file: PartitionStatisticsFile) -> Self:
        """The partition statistics file of its snapshot, in place of the one it has. Raises `NoSuchSnapshotError`."""
        return self._add(SetPartitionStatistics(partition_statistics_file))

    def remove_partition_statistics(self, snapshot_id: int) -> Self:
        """The snapshot has no partition statistics file any longer; the file itself stays. None to take away is no error."""
        return self._add(RemovePartitionStatistics(snapshot_id))

    def commit(self) -> None:
        """Commits the changes together, beside any other change of the table.

        Raises:
            NoSuchSnapshotError: another writer took the snapshot away.
        """
        self._commit(MetadataChange(self._updates, (AssertTableUUID(self._base.table_uuid),)))

    def _add(self, change: _Change) -> Self:
        change.apply(self._base, self._base.last_updated_ms)
        self._changes.append(change)
        return self

    def _updates(self, base: TableMetadata) -> Sequence[Update]:
        """The changes, without those that change nothing."""
        kept: list[Update] = []
        working = base
        for change in self._changes:
            apply: Callable[[TableMetadata, int], TableMetadata] = change.apply
            changed = apply(working, base.last_updated_ms)
            if _files(changed) != _files(working):
                kept.append(change)
            working = changed
        return kept


def _files(metadata: TableMetadata) -> tuple[list[StatisticsFile], list[PartitionStatisticsFile]]:
    return list(metadata.statistics), list(metadata.partition_statistics)
