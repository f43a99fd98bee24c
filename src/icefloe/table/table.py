"""`Table`: one Iceberg table in a catalog, as users hold it.

Reads are `table_reader.py`, changes `table_mutations.py`; a change is committed, and retried, by `commits/commit_loop.py`. UPDATE and MERGE are only here: they
are run by Spark and commit at once. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from icefloe.commit.attempt import Action
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.stores.identifier import Identifier
from icefloe.table.changes.merge_statement import Merge, check_runs_statements, merge_statement, run_statement, update_statement
from icefloe.table.column_statistics import TableStatistics, compute_statistics, plan_statistics
from icefloe.table.commits.commit_loop import commit
from icefloe.table.data_scan import DataScan
from icefloe.table.partition_statistics import compute_partition_statistics, plan_partition_statistics
from icefloe.table.pending_change import MutationContext
from icefloe.table.rows.table_writes import PreparedWrite
from icefloe.table.statistics_plan import StatisticsPlan
from icefloe.table.table_handle import LoadedMetadata, TableHandle, reload_metadata
from icefloe.table.table_mutations import R, TableMutations
from icefloe.table.table_reader import TableReader
from icefloe.table.transaction import Transaction
from icefloe.table.write_result import WriteResult


class Table(TableReader, TableMutations):
    """A table in a catalog. After a write the object holds the metadata that it committed; `refresh()` loads other writers' commits."""

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

    def refresh(self) -> "Table":
        """Load the metadata that the catalog names now.

        Returns:
            This table.

        Raises:
            NoSuchTableError: the table was dropped, or another table has its name now.
        """
        self._loaded = reload_metadata(self._handle, self.metadata)
        return self

    def transaction(self) -> Transaction:
        """Start several changes as one commit: `with table.transaction() as tx: tx.delete("day = 3"); tx.append(rows)`.

        Returns:
            The transaction, which is committed at the end of its `with` block.
        """
        return Transaction(self.metadata, self._commit, self._handle, self.metadata_location, self)

    def update(
        self,
        assignments: Mapping[str, str],
        where: str | None = None,
        branch: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Set columns of rows by Spark, as `UPDATE t SET ...` does: `table.update({"v": "v + 1", "s.a": "NULL"}, where="kind = 'a'")`.

        `write.update.mode` decides between copy-on-write and merge-on-read; from format version 3 on rows keep their ids.

        Args:
            assignments: expressions of Spark SQL over the table's columns, by column; columns inside structs by dotted name.
            where: a condition of Spark SQL; all rows by default.
            branch: the branch to write to.
            snapshot_properties: entries for the snapshot's summary.

        Returns:
            The number of rows and files changed.

        Raises:
            UnsupportedFeatureError: no Spark session runs; or merge-on-read in a table of format version 1.
            InvalidInputError: no column is assigned.
            CommitInvalidatedError, CommitConflictError, CommitUnknownError: as for `append`.
            pyspark.errors.AnalysisException: Spark cannot resolve an expression.
        """
        return run_statement(self, update_statement(assignments, where, branch, snapshot_properties))

    def merge(self, source: Any, on: str, branch: str = MAIN, snapshot_properties: Mapping[str, str] | None = None) -> Merge:
        """Start `MERGE INTO t USING s ON ...`, where `t` is the table and `s` the Spark DataFrame `source`; nothing runs before `merge()`.

            table.merge(df, "t.id = s.id").when_matched("s.gone").delete().when_matched().update_all().when_not_matched().insert_all().merge()

        Clauses apply in their order. The methods have the names of PySpark's `df.mergeInto`; expressions are Spark SQL over `t` and `s`.

        Args:
            source: a Spark DataFrame.
            on: the join condition.
            branch: the branch to write to.
            snapshot_properties: entries for the snapshot's summary.

        Returns:
            The MERGE without clauses.

        Raises:
            UnsupportedFeatureError: no classic Spark session runs in this process.
        """
        check_runs_statements("merge")
        return merge_statement(lambda statement: run_statement(self, statement), source, on, branch, snapshot_properties)

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
        file = compute_statistics(self._scan_of(snapshot_id), columns, self._handle.ids, self._commit, engine)
        return None if file is None else self.statistics(file.snapshot_id)

    def plan_statistics(self, columns: Sequence[str] | None = None, snapshot_id: int | None = None) -> StatisticsPlan | None:
        """Return what `compute_statistics` with the same arguments would read, and compute nothing.

        Returns:
            The columns, and the data files that have them; None for a table without a snapshot.

        Raises:
            InvalidSchemaError, InvalidInputError, NoSuchSnapshotError: as `compute_statistics` does.
        """
        return plan_statistics(self._scan_of(snapshot_id), columns)

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
        file = compute_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id, self._handle.ids, self._commit)
        return None if file is None else self.partition_statistics(file.snapshot_id)

    def repair(self, *, only: str | Sequence[str] = (), branch: str = MAIN, files: bool = True, data: bool = False) -> Any:
        """Find what is wrong in the table and plan its repair: `plan = table.repair(); print(plan); plan.apply()`. Nothing is changed until then.

        Args:
            only: ids of repairs, or of rules of validation; by default all repairs that need not be named.
            branch: the branch whose newest snapshot is repaired.
            files: check that each file exists and has its size.
            data: check also footers of data files, delete files and statistics files.

        Returns:
            The plan, an `icefloe.repair.repair_plan.RepairPlan`.

        Raises:
            NoSuchSnapshotError: the table has no such branch.
            InvalidInputError: `only` names no repair.
            StorageUnavailableError: the storage does not respond.
        """
        return import_module("icefloe.repair.repairs").plan(self, only=only, branch=branch, files=files, data=data)

    def _scan_of(self, snapshot_id: int | None) -> DataScan:
        """Return a scan of a snapshot, by default of the current one whichever branch is read."""
        snapshot = self.metadata.current_snapshot() if snapshot_id is None else None
        return self.scan(snapshot_id=snapshot.snapshot_id if snapshot else snapshot_id)

    def _start(self) -> MutationContext:
        return MutationContext(handle=self._handle, metadata=self._loaded.metadata, metadata_location=self._loaded.location)

    def _commit(self, action: Action) -> None:
        self._loaded = commit(self._handle, action, self._loaded).loaded

    def _commit_then(self, action: Action, afterwards: Callable[[], R]) -> R:
        self._commit(action)
        return afterwards()

    def _write(self, write: PreparedWrite) -> WriteResult:
        report = commit(self._handle, write.action, self._loaded)
        self._loaded = report.loaded
        return write.result(report.attempt, report.attempts)
