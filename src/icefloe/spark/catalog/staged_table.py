"""`StagedTable`: the table of CREATE TABLE AS SELECT, REPLACE TABLE and similar statements. Rows are written first; one commit creates or replaces the table.

If the statement fails, no table and no files are left. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_transaction import CatalogTransaction, TableInTransaction
from icefloe.errors import InvalidSchemaError
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.catalog.table_definition import definition_of
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.write.formatted_rows import RowsInForm
from icefloe.spark.write.sql_write import branch_of, options_of_write
from icefloe.spark.write.write_builder import SparkWriteBuilder
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.schema.schema import Schema
from icefloe.table.table import Table


class StagedTable(SparkTable):
    """The table of a statement that creates or replaces a table together with its rows. It is not committed yet.

    `request` is a `StagedTableDefinition`.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.StagedTable", *SparkTable.interfaces)
    is_committed_later = True

    def __init__(self, spark: SparkSession, catalog_name: str, catalog: Catalog, request: Mapping[str, Any]) -> None:
        self._transaction = catalog.transaction()
        self._is_written = False
        self._default_error: InvalidSchemaError | None = None
        try:
            self._member = _stage(self._transaction, request["how"], request["table"], definition_of(spark, request))
        except InvalidSchemaError as error:
            # The columns of a query have the defaults of their tables, which the new table need not support. Whether there is a query is known when rows are
            # written.
            self._default_error = error
            self._member = _stage(self._transaction, request["how"], request["table"], _without_defaults(definition_of(spark, request)))
        staged = Table(
            replace(self._member.handle, shown_catalog=catalog_name), LoadedMetadata(location="", metadata=self._member.table_metadata)
        )
        super().__init__(spark, catalog_name, TableSelection(table=staged))

    def write(self, spark: SparkSession, rows: Callable[[], DataFrame], builder: SparkWriteBuilder) -> WriteResult | None:
        """Write the rows of the new table. They are not committed yet; the commit of a replacement removes the old rows."""
        self._is_written = True
        name = self._selected.table.full_name
        options = options_of_write(spark, builder.options, self._member.table_metadata, name)
        branch = branch_of(options, None, name) or MAIN
        return self._member.append(RowsInForm(rows=rows(), form=options.form), options.snapshot_properties, branch)

    @connector_method
    def commit_staged_changes(self) -> None:
        """Commit the table and its rows. Raises `InvalidSchemaError` if the statement has defaults that the table's format version does not allow."""
        if self._default_error is not None and not self._is_written:
            raise self._default_error
        self._transaction.commit_transaction()

    @connector_method
    def abort_staged_changes(self) -> None:
        """Drop the staged table and delete its files."""
        self._transaction.give_up()


def _stage(transaction: CatalogTransaction, mode: str, name: Sequence[str], definition: Mapping[str, Any]) -> TableInTransaction:
    stage = {
        "create": transaction.create_table,
        "replace": transaction.replace_table,
        "create or replace": transaction.create_or_replace_table,
    }[mode]
    return stage(tuple(name), **definition)


def _without_defaults(definition: Mapping[str, Any]) -> dict[str, Any]:
    schema: Schema = definition["schema"]
    fields = (replace(field, initial_default=None, write_default=None) for field in schema.fields)
    return {**definition, "schema": Schema(*fields, identifier_field_ids=schema.identifier_field_ids)}
