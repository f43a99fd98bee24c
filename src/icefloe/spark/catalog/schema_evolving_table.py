"""`SchemaEvolvingTable`: the table of a statement WITH SCHEMA EVOLUTION, with the columns that the statement adds or widens.

Spark requests the changes while it analyses the statement. The commit of its rows makes them, so that a statement that fails or is only explained changes
nothing. Spec: Schema Evolution.
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from icefloe.commit.attempt import Action
from icefloe.commit.composite_action import CompositeAction
from icefloe.operations.commits.commit_loop import commit
from icefloe.operations.pending_change import CommitReport
from icefloe.operations.table_handle import LoadedMetadata
from icefloe.operations.write_result import WriteResult
from icefloe.spark.catalog.alter_table import Change, change_columns
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.write.sql_write import Write, write_within
from icefloe.table.table import Table


class SchemaEvolvingTable(SparkTable):
    """The table of one statement. The constructor raises what the changes of columns raise."""

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection, changes: Sequence[Change]) -> None:
        table = selected.table
        self._base = LoadedMetadata(metadata=table.metadata, location=table.metadata_location)
        self._transaction = table.transaction()
        change_columns(spark, self._transaction, changes)
        evolved_table = Table(table.handle, LoadedMetadata(metadata=self._transaction.table_metadata, location=table.metadata_location))
        super().__init__(spark, catalog_name, replace(selected, table=evolved_table))

    def identity(self) -> str:
        """Return a text of the state that was read and of the evolved schema."""
        return f"{super().identity()} {self._selected.table.schema()}"

    def _run(self, write: Write) -> WriteResult | None:
        with self._transaction:
            return write_within(self._transaction, write)

    def _commit(self, action: Action) -> CommitReport:
        columns = self._transaction.end()
        action_with_columns = CompositeAction([action] if columns is None else [columns, action])
        return commit(self._selected.table.handle, action_with_columns, self._base)
