"""`Table`: one Iceberg table in a catalog, as users hold it.

Reads are in `icefloe.operations.loaded_table`, changes in `table_mutations.py`. UPDATE and MERGE are only in this class, not in transactions: Spark runs them,
and they commit at once.
Spec: Table Metadata; Snapshots.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icefloe.lazy_imports import lazy_module
from icefloe.operations.data_scan import DataScan
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.statistics_plan import StatisticsPlan
from icefloe.operations.write_result import WriteResult
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.merge_statement import Merge, merge_statement, run_statement, update_statement
from icefloe.table.table_mutations import TableMutations
from icefloe.table.transaction import Transaction

if TYPE_CHECKING:  # imported at first use, so that opening a table is quick
    from icefloe.maintenance import table_maintenance
    from icefloe.metadata_tables import table_inspection
    from icefloe.operations import available_engines, column_statistics, partition_statistics
    from icefloe.repair import repair_plan, repairs
else:
    available_engines = lazy_module("icefloe.operations.available_engines")
    column_statistics = lazy_module("icefloe.operations.column_statistics")
    partition_statistics = lazy_module("icefloe.operations.partition_statistics")
    table_maintenance = lazy_module("icefloe.maintenance.table_maintenance")
    table_inspection = lazy_module("icefloe.metadata_tables.table_inspection")
    repair_plan = lazy_module("icefloe.repair.repair_plan")
    repairs = lazy_module("icefloe.repair.repairs")


class Table(LoadedTable, TableMutations):
    """A table in a catalog. After a write the object holds the metadata that it committed; `refresh()` loads other writers' commits."""

    @property
    def inspect(self) -> "table_inspection.TableInspection":
        """The metadata tables of the table as Arrow, such as `table.inspect.files()`."""
        return table_inspection.TableInspection(self)

    @property
    def maintenance(self) -> "table_maintenance.TableMaintenance":
        """The maintenance operations of the table, such as `table.maintenance.rewrite_data_files()`."""
        return table_maintenance.TableMaintenance(self)

    def transaction(self) -> Transaction:
        """Start a transaction: several changes in one commit. `with table.transaction() as tx: tx.delete("day = 3"); tx.append(rows)`.

        Returns:
            The transaction, which is committed at the end of its `with` block.
        """
        return Transaction(self.metadata, self.apply, self._handle, self.metadata_location, self)

    def update(
        self,
        assignments: Mapping[str, str],
        where: str | None = None,
        branch: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Set columns of rows, as Spark's `UPDATE t SET ...` does: `table.update({"v": "v + 1", "s.a": "NULL"}, where="kind = 'a'")`.

        The table property `write.update.mode` chooses copy-on-write or merge-on-read; from format version 3 on, updated rows keep their row ids.

        Args:
            assignments: the new value of each column, as a Spark SQL expression over the table's columns; a field of a struct has a dotted name.
            where: a condition of Spark SQL; all rows by default.
            branch: the branch to write to.
            snapshot_properties: entries for the snapshot's summary.

        Returns:
            The number of rows and files changed.

        Raises:
            UnsupportedFeatureError: no Spark session runs; or `write.update.mode` is merge-on-read and the table has format version 1.
            InvalidInputError: no column is assigned.
            CommitInvalidatedError, CommitConflictError, CommitUnknownError: as for `append`.
            pyspark.errors.AnalysisException: Spark cannot resolve an expression.
        """
        return run_statement(self, update_statement(assignments, where, branch, snapshot_properties))

    def merge(self, source: Any, on: str, branch: str = MAIN, snapshot_properties: Mapping[str, str] | None = None) -> Merge:
        """Start the statement `MERGE INTO t USING s ON ...`, where `t` is the table and `s` is `source`. Nothing runs until its method `merge` is called.

            table.merge(df, "t.id = s.id").when_matched("s.gone").delete().when_matched().update_all().when_not_matched().insert_all().merge()

        The first clause that applies to a row is used. The methods have the names of PySpark's `df.mergeInto`; expressions are Spark SQL over `t` and `s`.

        Args:
            source: a Spark DataFrame.
            on: the join condition.
            branch: the branch to write to.
            snapshot_properties: entries for the snapshot's summary.

        Returns:
            The statement, without clauses.

        Raises:
            UnsupportedFeatureError: no classic Spark session runs in this process.
        """
        available_engines.engine_choice().for_statements("merge")  # raises before the statement is built if nothing could run it
        return merge_statement(lambda statement: run_statement(self, statement), source, on, branch, snapshot_properties)

    def compute_statistics(
        self, columns: Sequence[str] | None = None, snapshot_id: int | None = None, *, engine: str | None = None
    ) -> "column_statistics.TableStatistics | None":
        """Count the distinct values of columns in a snapshot and commit the counts as its statistics file. Engines plan joins with them.

        Spark's tasks or this process read the columns batch by batch. Statistics that the snapshot already has for other columns are kept.

        Args:
            columns: names of columns of primitive types; a field of a struct has a dotted name. By default all top-level columns of primitive types.
            snapshot_id: the snapshot; the current one by default.
            engine: `spark` or `in-process`; by default Spark if a session runs already or the files are large.

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
        file = column_statistics.compute_statistics(self._scan_of(snapshot_id), columns, self._handle.ids, self.apply, engine)
        return None if file is None else self.statistics(file.snapshot_id)

    def plan_statistics(self, columns: Sequence[str] | None = None, snapshot_id: int | None = None) -> StatisticsPlan | None:
        """Return what `compute_statistics` with the same arguments would read, and compute nothing.

        Returns:
            The columns, and the data files that have them; None for a table without a snapshot.

        Raises:
            InvalidSchemaError, InvalidInputError, NoSuchSnapshotError: as `compute_statistics` does.
        """
        return column_statistics.plan_statistics(self._scan_of(snapshot_id), self.full_name, columns)

    def plan_partition_statistics(self, snapshot_id: int | None = None) -> StatisticsPlan | None:
        """Return what `compute_partition_statistics` with the same arguments would read, and compute nothing.

        Returns:
            The manifests to read, and the snapshot whose statistics the computation would start from; None for a table without a snapshot. If these statistics
            turn out not to match the manifests, the computation reads every manifest instead.

        Raises:
            InvalidInputError, NoSuchSnapshotError: as `compute_partition_statistics` does.
        """
        return partition_statistics.plan_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id)

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
        file = partition_statistics.compute_partition_statistics(
            self.metadata, self.io, self.full_name, snapshot_id, self._handle.ids, self.apply
        )
        return None if file is None else self.partition_statistics(file.snapshot_id)

    def repair(
        self, *, only: str | Sequence[str] = (), branch: str = MAIN, files: bool = True, data: bool = False
    ) -> "repair_plan.RepairPlan":
        """Find faults of the table and plan their repair: `plan = table.repair(); print(plan); plan.apply()`. Only `apply` changes anything.

        Args:
            only: ids of repairs, or of validation rules whose findings are repaired; by default all repairs except those that run only when they are named
                here.
            branch: the branch whose newest snapshot is repaired.
            files: check that each file exists and has its size.
            data: also check the footers of data files, and read delete files and statistics files.

        Returns:
            The plan.

        Raises:
            NoSuchSnapshotError: the table has no such branch.
            InvalidInputError: `only` has a name that is neither a repair nor a rule.
            StorageUnavailableError: the storage does not respond.
        """
        return repairs.plan(self, only=only, branch=branch, files=files, data=data)

    def _scan_of(self, snapshot_id: int | None) -> DataScan:
        """Return a scan of a snapshot; by default of the table's current snapshot, even if reads are redirected to a branch."""
        snapshot = self.metadata.current_snapshot() if snapshot_id is None else None
        return self.scan(snapshot_id=snapshot.snapshot_id if snapshot else snapshot_id)
