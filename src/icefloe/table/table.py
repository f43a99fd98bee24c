"""`Table`: one Iceberg table in a catalog, as users hold it.

Reads are `icefloe.operations.table_reader`, changes `table_mutations.py`. UPDATE and MERGE are only here: they are run by Spark and commit at once.
Spec: Table Metadata; Snapshots.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icefloe.lazy_imports import lazy_module
from icefloe.operations.available_engines import engine_choice
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.write_result import WriteResult
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.merge_statement import Merge, merge_statement, run_statement, update_statement
from icefloe.table.table_mutations import TableMutations
from icefloe.table.transaction import Transaction

if TYPE_CHECKING:  # opening a table loads none of its tools
    from icefloe.maintenance import table_maintenance
    from icefloe.metadata_tables import table_inspection
    from icefloe.repair import repair_plan, repairs
else:
    table_maintenance = lazy_module("icefloe.maintenance.table_maintenance")
    table_inspection = lazy_module("icefloe.metadata_tables.table_inspection")
    repair_plan = lazy_module("icefloe.repair.repair_plan")
    repairs = lazy_module("icefloe.repair.repairs")


class Table(LoadedTable, TableMutations):
    """A table in a catalog. After a write the object holds the metadata that it committed; `refresh()` loads other writers' commits."""

    @property
    def inspect(self) -> "table_inspection.TableInspection":
        """The metadata tables as Arrow: `table.inspect.files()`."""
        return table_inspection.TableInspection(self)

    @property
    def maintenance(self) -> "table_maintenance.TableMaintenance":
        """Maintenance: `table.maintenance.rewrite_data_files()`."""
        return table_maintenance.TableMaintenance(self)

    def transaction(self) -> Transaction:
        """Start several changes as one commit: `with table.transaction() as tx: tx.delete("day = 3"); tx.append(rows)`.

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
        engine_choice().for_statements("merge")  # a statement that cannot run is refused before it is built
        return merge_statement(lambda statement: run_statement(self, statement), source, on, branch, snapshot_properties)

    def repair(
        self, *, only: str | Sequence[str] = (), branch: str = MAIN, files: bool = True, data: bool = False
    ) -> "repair_plan.RepairPlan":
        """Find what is wrong in the table and plan its repair: `plan = table.repair(); print(plan); plan.apply()`. Nothing is changed until then.

        Args:
            only: ids of repairs, or of rules of validation; by default all repairs that need not be named.
            branch: the branch whose newest snapshot is repaired.
            files: check that each file exists and has its size.
            data: check also footers of data files, delete files and statistics files.

        Returns:
            The plan.

        Raises:
            NoSuchSnapshotError: the table has no such branch.
            InvalidInputError: `only` names no repair.
            StorageUnavailableError: the storage does not respond.
        """
        return repairs.plan(self, only=only, branch=branch, files=files, data=data)
