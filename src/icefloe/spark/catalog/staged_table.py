"""`StagedTable`: a table that CREATE TABLE AS, REPLACE TABLE and their kin make: its rows are written first, and one commit makes it or replaces it.

Where the statement fails nothing is left, no file either. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_transaction import CatalogTransaction, TableInTransaction
from icefloe.errors import InvalidSchemaError
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.catalog.table_definition import definition_of
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.write.formatted_rows import RowsInForm
from icefloe.spark.write.sql_write import branch_of, options_of_write
from icefloe.spark.write.write_builder import SparkWriteBuilder
from icefloe.table.table import Table
from icefloe.table.table_handle import LoadedMetadata


class StagedTable(SparkTable):
    """`asked["how"]` is `create`, `replace` or `create or replace`."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.StagedTable", *SparkTable.interfaces)

    def __init__(self, spark: SparkSession, catalog_name: str, catalog: Catalog, asked: Mapping[str, Any]) -> None:
        self._transaction = catalog.transaction()
        self._is_written = False
        self._refused: InvalidSchemaError | None = None
        try:
            self._member = _begun(self._transaction, asked["how"], asked["table"], definition_of(asked))
        except InvalidSchemaError as error:
            # Columns of a query bring the defaults of the table that they are of, which nobody asked for: that it is a query shows when rows come.
            self._refused = error
            self._member = _begun(self._transaction, asked["how"], asked["table"], _without_defaults(definition_of(asked)))
        unseen = Table(self._member.handle, LoadedMetadata(location="", metadata=self._member.table_metadata))
        super().__init__(spark, catalog_name, TableSelection(table=unseen))

    def write(self, spark: SparkSession, rows: Callable[[], DataFrame], asked: SparkWriteBuilder) -> None:
        """The rows of the new table: whatever was there before is gone with the commit already."""
        self._is_written = True
        name = self._selected.table.full_name
        how = options_of_write(spark, asked.options, self._member.table_metadata, name)
        self._member.append(RowsInForm(rows=rows(), form=how.form), how.snapshot_properties, branch_of(how, None, name) or MAIN)

    @connector_method
    def commit_staged_changes(self) -> None:
        """Raises `InvalidSchemaError` where the statement itself gives defaults that the table's version does not know."""
        if self._refused is not None and not self._is_written:
            raise self._refused
        self._transaction.commit_transaction()

    @connector_method
    def abort_staged_changes(self) -> None:
        self._transaction.give_up()


def _begun(transaction: CatalogTransaction, how: str, name: Sequence[str], definition: Mapping[str, Any]) -> TableInTransaction:
    make = {
        "create": transaction.create_table,
        "replace": transaction.replace_table,
        "create or replace": transaction.create_or_replace_table,
    }[how]
    return make(tuple(name), **definition)


def _without_defaults(definition: Mapping[str, Any]) -> dict[str, Any]:
    schema: Schema = definition["schema"]
    fields = (replace(field, initial_default=None, write_default=None) for field in schema.fields)
    return {**definition, "schema": Schema(*fields, identifier_field_ids=schema.identifier_field_ids)}
