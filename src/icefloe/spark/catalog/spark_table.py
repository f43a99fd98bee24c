"""`SparkTable`: a table as Spark SQL loads it: its description, its scans and its metadata columns.

It inherits writes from `write/write_builder.py`, and UPDATE, MERGE and DELETE from `row_level/operation.py`.
Spec: Schemas and Data Types; Partitioning.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from icefloe.kernel.metadata.manifests import table_partition_type
from icefloe.kernel.metadata.table_properties import ACCEPT_ANY_SCHEMA, AUTO_SCHEMA_EVOLUTION
from icefloe.kernel.schema.metadata_columns import METADATA_COLUMNS, partition_column
from icefloe.kernel.types import NestedField
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.messages import TableChange
from icefloe.spark.catalog.alter_table import supports_change
from icefloe.spark.catalog.table_definition import columns_struct, partitioning_of, table_properties
from icefloe.spark.row_level.operation import RowLevelTable
from icefloe.spark.scan.distributed_planning import ScanPlans
from icefloe.spark.scan.pushed_scan import PushedScan, SparkScan
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.scan_builder import ConnectorScan, metadata_columns
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.spark_types import with_geo_types

_CAPABILITIES = ("BATCH_READ", "BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
# Capabilities that a table property turns on; Spark before 4.1 does not have the second.
_CAPABILITIES_BY_PROPERTY = {"ACCEPT_ANY_SCHEMA": ACCEPT_ANY_SCHEMA, "AUTOMATIC_SCHEMA_EVOLUTION": AUTO_SCHEMA_EVOLUTION}


class SparkTable(RowLevelTable):
    """A table, or a branch, tag or snapshot of one."""

    interfaces: ClassVar[tuple[str, ...]] = (
        "catalog.SupportsSchemaEvolution",  # Spark 4.2 and later
        "catalog.SupportsRowLevelOperations",
        "catalog.SupportsMetadataColumns",
        "catalog.SupportsDeleteV2",
        "catalog.SupportsWrite",
        "catalog.SupportsRead",
    )
    prunes_nested = True

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection) -> None:
        super().__init__(spark, selected)
        self._catalog_name = catalog_name
        self._plans = ScanPlans(spark)

    def identity(self) -> str:
        """Return a text that is equal for two loads of the same state, so that Spark finds what it cached."""
        return f"{self.name()} {self._selected.table.metadata.table_uuid} {self._selected.table.metadata_location} {self._selected.text()}"

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        metadata = self._selected.table.metadata
        return {
            "name": self.name(),
            "id": self._selected.table.metadata.table_uuid,  # Spark 4.1 and later cache rows by it, and do not use those of another table of the same name
            "toString": self.name(),
            "schema": self.schema_json(),
            "properties": table_properties(metadata, self._selected.table.metadata_location),
            "capabilities": [
                *_CAPABILITIES,
                *(name for name, switch in _CAPABILITIES_BY_PROPERTY.items() if switch.read(metadata.properties)),
            ],
            "metadataColumns": metadata_columns(self.metadata_fields()),
            "canRenameConflictingMetadataColumns": True,
        }

    def name(self) -> str:
        """Return the table's name in SQL, with its catalog."""
        return f"{self._catalog_name}.{'.'.join(self._selected.table.name())}"

    def parts(self) -> Sequence[str]:
        """Return the name of the table in statements: catalog, namespace, table, branch."""
        branch = self._selected.branch
        return [self._catalog_name, *self._selected.table.name(), *([] if branch is None else [f"branch_{branch}"])]

    @cached_property
    def _schema_json(self) -> str:
        scan = self._selected.scan()
        schema = scan.as_held(scan.schema())
        return with_geo_types(self._spark, columns_struct(schema), schema).json()

    def schema_json(self) -> str:
        """Return the columns, in Spark's JSON."""
        return self._schema_json

    @connector_method
    def partitioning(self) -> Any:
        """Return the partition fields as Spark's transforms."""
        metadata = self._selected.table.metadata
        return partitioning_of(self._spark, metadata.spec(), metadata.schema())

    def metadata_fields(self) -> Sequence[NestedField]:
        """Return the metadata columns; a column of the table with the same name hides one."""
        partition = partition_column(table_partition_type(self._selected.table.metadata))
        column_names = set(self._selected.table.schema().names)
        return [column for column in (*METADATA_COLUMNS.values(), partition) if column.name not in column_names]

    @connector_method
    def supports_column_change(self, change: TableChange) -> bool:
        """Return False if the column cannot be changed in this way; rows of a statement WITH SCHEMA EVOLUTION are then cast to its type."""
        return supports_change(self._spark, self._selected.table, change)

    def filters(self, query: PushedQuery) -> list[bool]:
        """Return for each predicate whether it holds for all rows of the planned files, so that Spark need not test it."""
        return self._pushed(query).filters_true_of_all_rows()

    def aggregate(self, query: PushedQuery) -> str | None:
        """Return the schema of the aggregate's result if metadata alone gives it; None otherwise."""
        return self._pushed(query).aggregate_schema()

    def scan(self, query: PushedQuery) -> ConnectorScan:
        """Return the scan; one of a row-level operation is remembered, because its filter limits the conflicts of the commit."""
        pushed = self._pushed(query)
        if query["operation"] is not None:
            self._row_level_scans.append(pushed)
        scan = SparkScan(pushed)
        scan.owner = self
        return scan

    def _pushed(self, query: PushedQuery) -> PushedScan:
        return PushedScan(spark=self._spark, selected=self._selected, query=query, plans=self._plans)
