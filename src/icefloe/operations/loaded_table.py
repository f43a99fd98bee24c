"""`LoadedTable`: a table of a catalog whose metadata is loaded. Maintenance, checks, repair and the public `Table` work on it.

Reads are `table_reader.py`; a change is committed, and retried, by `commits/commit_loop.py`. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

from icefloe.commit.attempt import Action
from icefloe.operations.column_statistics import TableStatistics, compute_statistics, plan_statistics
from icefloe.operations.commits.commit_loop import commit
from icefloe.operations.data_scan import DataScan
from icefloe.operations.partition_statistics import compute_partition_statistics, plan_partition_statistics
from icefloe.operations.pending_change import ChangeTarget, CommitReport, MutationContext
from icefloe.operations.statistics_plan import StatisticsPlan
from icefloe.operations.table_handle import LoadedMetadata, TableHandle, reload_metadata
from icefloe.operations.table_reader import TableReader
from icefloe.stores.identifier import Identifier


class LoadedTable(TableReader, ChangeTarget):
    """A table in a catalog. After a commit the object holds the metadata that was committed; `refresh()` loads other writers' commits."""

    def __init__(self, handle: TableHandle, loaded: LoadedMetadata) -> None:
        super().__init__(loaded, handle.io, handle.table_name)
        self._handle = handle
        self.planner = handle.planner
        self.reporter = handle.reporter()

    @property
    def handle(self) -> TableHandle:
        """The table's entry in its catalog store, and the storage of its files."""
        return self._handle

    def name(self) -> Identifier:
        """Return the namespace levels and the table's name."""
        return self._handle.identifier

    def refresh(self) -> Self:
        """Load the metadata that the catalog names now.

        Returns:
            This table.

        Raises:
            NoSuchTableError: the table was dropped, or another table has its name now.
        """
        self._loaded = reload_metadata(self._handle, self.metadata)
        return self

    def mutation_context(self) -> MutationContext:
        """Return the metadata that the next change is based on, and the table's entry in its catalog store."""
        return MutationContext(handle=self._handle, metadata=self._loaded.metadata, metadata_location=self._loaded.location)

    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:
        """Commit an action at once, then call `afterwards`.

        Args:
            action: the action.
            afterwards: is called once the action is committed.

        Returns:
            The last attempt, and the number of attempts.

        Raises:
            CommitConflictError, CommitInvalidatedError, CommitUnknownError: as `commits.commit_loop.commit`.
        """
        report = commit(self._handle, action, self._loaded)
        self._loaded = report.loaded
        if afterwards is not None:
            afterwards()
        return report

    def compute_statistics(
        self, columns: Sequence[str] | None = None, snapshot_id: int | None = None, *, engine: str | None = None
    ) -> TableStatistics | None:
        """Count the distinct values of columns in a snapshot and commit them as its statistics file, for the planning of joins.

        The columns are read in streams, by Spark's tasks or in this process. Statistics that the snapshot already has for other columns are kept.

        Args:
            columns: top-level columns, or fields of structs by dotted name, of primitive types; by default all top-level columns of primitive types.
            snapshot_id: the snapshot; the current one by default.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.

        Returns:
            The statistics; None for a table without a snapshot.

        Raises:
            InvalidSchemaError: a column does not exist.
            InvalidInputError: a column is not of a primitive type, or within a list or map.
            NoSuchSnapshotError: the snapshot does not exist.
            EngineError: there is no such engine, or its job failed.
            CommitConflictError: other writers won every retry, or changed the same statistics.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        Spec: Table Statistics; Puffin file format.
        """
        file = compute_statistics(self._scan_of(snapshot_id), columns, self._handle.ids, self.apply, engine)
        return None if file is None else self.statistics(file.snapshot_id)

    def plan_statistics(self, columns: Sequence[str] | None = None, snapshot_id: int | None = None) -> StatisticsPlan | None:
        """Return what `compute_statistics` with the same arguments would read, and compute nothing.

        Returns:
            The columns, and the data files that have them; None for a table without a snapshot.

        Raises:
            InvalidSchemaError, InvalidInputError, NoSuchSnapshotError: as `compute_statistics` does.
        """
        return plan_statistics(self._scan_of(snapshot_id), self.full_name, columns)

    def plan_partition_statistics(self, snapshot_id: int | None = None) -> StatisticsPlan | None:
        """Return what `compute_partition_statistics` with the same arguments would read, and compute nothing.

        Returns:
            The manifests, and the snapshot on whose statistics it would build, or which has them already; None for a table without a snapshot.
            Where those statistics do not match the manifests, the computation reads every manifest.

        Raises:
            InvalidInputError, NoSuchSnapshotError: as `compute_partition_statistics` does.
        """
        return plan_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id)

    def compute_partition_statistics(self, snapshot_id: int | None = None) -> Any:
        """Count rows, files and deletes of each partition of a snapshot and commit them as its partition statistics file.

        Only manifests are read, and only those since the nearest ancestor that has partition statistics.

        Args:
            snapshot_id: the snapshot; the current one by default.

        Returns:
            The rows, as `partition_statistics` returns them; None for a table without a snapshot.

        Raises:
            InvalidInputError: the table was never partitioned.
            NoSuchSnapshotError: the snapshot does not exist.
            CommitConflictError: other writers won every retry, or changed the same statistics.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        Spec: Partition Statistics.
        """
        file = compute_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id, self._handle.ids, self.apply)
        return None if file is None else self.partition_statistics(file.snapshot_id)

    def _scan_of(self, snapshot_id: int | None) -> DataScan:
        """Return a scan of a snapshot, by default of the current one whichever branch is read."""
        snapshot = self.metadata.current_snapshot() if snapshot_id is None else None
        return self.scan(snapshot_id=snapshot.snapshot_id if snapshot else snapshot_id)
