"""`Table`: one Iceberg table in a catalog as its users hold it.

It joins the pointer, the files and the kernel's rules. What can be read of it is `table_reader.py`; what can be changed, `row_mutations.py` and
`metadata_mutations.py`; how a change is committed, `commit_loop.py`. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Callable, Sequence
from typing import Any

from icefloe.catalog_store.identifier import Identifier
from icefloe.kernel.commit.attempt import Action
from icefloe.table.changes.metadata_mutations import MetadataMutations
from icefloe.table.changes.mutation_context import MutationContext, R
from icefloe.table.changes.ref_mutations import RefMutations
from icefloe.table.changes.row_mutations import RowMutations
from icefloe.table.changes.statement_mutations import StatementMutations
from icefloe.table.column_statistics import TableStatistics, compute_statistics
from icefloe.table.commits.commit_loop import commit
from icefloe.table.expiry.expire_snapshots import ExpiresSnapshots
from icefloe.table.partition_statistics import compute_partition_statistics
from icefloe.table.rows.table_writes import PreparedWrite
from icefloe.table.table_handle import LoadedMetadata, TableHandle, reload_metadata
from icefloe.table.table_reader import TableReader
from icefloe.table.transaction import Transaction
from icefloe.table.write_result import WriteResult


class Table(TableReader, RowMutations, StatementMutations, MetadataMutations, RefMutations, ExpiresSnapshots):
    """A table in a catalog. After a write the object holds the newest metadata it committed; `refresh()` sees other writers' commits."""

    def __init__(self, handle: TableHandle, loaded: LoadedMetadata) -> None:
        super().__init__(loaded, handle.io, handle.table_name)
        self._handle = handle

    @property
    def handle(self) -> TableHandle:
        """Where the table's pointer is kept."""
        return self._handle

    def name(self) -> Identifier:
        """The namespace levels and the table's name."""
        return self._handle.identifier

    def refresh(self) -> "Table":
        """Loads the metadata the catalog names now. Raises `NoSuchTableError` where the table was dropped, or another has its name now."""
        self._loaded = reload_metadata(self._handle, self.metadata)
        return self

    def transaction(self) -> Transaction:
        """Several changes of rows and metadata as one commit: `with table.transaction() as tx: tx.delete("day = 3"); tx.append(rows)`."""
        return Transaction(self.metadata, self._commit, self._handle, self.metadata_location)

    def compute_statistics(self, columns: Sequence[str] | None = None, snapshot_id: int | None = None) -> TableStatistics | None:
        """Counts the distinct values of columns in a snapshot (the current one by default) and keeps them as its statistics, for planners of joins.

        All top-level columns of primitive types by default; fields of structs by dotted name. The columns are read in this process, in a stream. What was
        counted before of other columns of the snapshot is kept. None for a table without a snapshot.

        Raises:
            InvalidSchemaError: a column is not there.
            InvalidInputError: a column is no primitive, or within a list or map.
            NoSuchSnapshotError: The snapshot does not exist.
            CommitConflictError: Other writers won the race too often, or changed the same thing.
            CommitUnknownError: The catalog did not answer, and the commit may or may not have happened.
        Spec: Table Statistics; Puffin file format.
        """
        snapshot = self.metadata.current_snapshot() if snapshot_id is None else None
        scan = self.scan(snapshot_id=snapshot.snapshot_id if snapshot else snapshot_id)
        file = compute_statistics(scan, columns, self._handle.ids, self._commit)
        return None if file is None else self.statistics(file.snapshot_id)

    def compute_partition_statistics(self, snapshot_id: int | None = None) -> Any:
        """Counts rows, files and deletes of each partition of a snapshot (the current one by default) and keeps them as its partition statistics.

        Only manifests are read, and only those since the nearest ancestor that has partition statistics. Returns the rows, as `partition_statistics` does;
        None for a table without a snapshot.

        Raises:
            InvalidInputError: the table was never partitioned.
            NoSuchSnapshotError: The snapshot does not exist.
            CommitConflictError: Other writers won the race too often, or changed the same thing.
            CommitUnknownError: The catalog did not answer, and the commit may or may not have happened.
        Spec: Partition Statistics.
        """
        file = compute_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id, self._handle.ids, self._commit)
        return None if file is None else self.partition_statistics(file.snapshot_id)

    def _start(self) -> MutationContext:
        return MutationContext(handle=self._handle, metadata=self.metadata, metadata_location=self.metadata_location)

    def _commit(self, action: Action) -> None:
        self._loaded = commit(self._handle, action, self._loaded).loaded

    def _commit_then(self, action: Action, afterwards: Callable[[], R]) -> R:
        self._commit(action)
        return afterwards()

    def _write(self, write: PreparedWrite) -> WriteResult:
        report = commit(self._handle, write.action, self._loaded)
        self._loaded = report.loaded
        return write.result(report.attempt, report.attempts)
