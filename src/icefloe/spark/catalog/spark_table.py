"""`SparkTable`: one table as Spark SQL loaded it: what it is, and how it is scanned.

How rows are written to it is `write_builder.py`; UPDATE and MERGE are `row_level.py`. Spec: Schemas and Data Types; Partitioning.
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
from icefloe.spark.catalog.alter_table import takes_change
from icefloe.spark.catalog.table_definition import columns_struct, partitioning_of, table_properties
from icefloe.spark.row_level.operation import RowLevelTable
from icefloe.spark.scan.distributed_planning import ScanPlans
from icefloe.spark.scan.pushed_scan import PushedScan, SparkScan
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.scan_builder import ConnectorScan, metadata_columns
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.geo_types import with_geo_types

_CAPABILITIES = ("BATCH_READ", "BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
# Capabilities that a property gives; Spark before 4.1 does not know the second.
_ASKED_FOR = {"ACCEPT_ANY_SCHEMA": ACCEPT_ANY_SCHEMA, "AUTOMATIC_SCHEMA_EVOLUTION": AUTO_SCHEMA_EVOLUTION}


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
        """Two loads of the same state are the same table, so that Spark finds what it cached."""
        return f"{self.name()} {self._selected.table.metadata.table_uuid} {self._selected.table.metadata_location} {self._selected.text()}"

    def says(self) -> Mapping[str, Any]:
        metadata = self._selected.table.metadata
        return {
            "name": self.name(),
            "id": self._selected.table.metadata.table_uuid,  # Spark 4.1 and later keep rows by it, and refuse those of another table of the name
            "toString": self.name(),
            "schema": self.schema_json(),
            "properties": table_properties(metadata, self._selected.table.metadata_location),
            "capabilities": [*_CAPABILITIES, *(name for name, known in _ASKED_FOR.items() if known.read(metadata.properties))],
            "metadataColumns": metadata_columns(self.metadata_fields()),
            "canRenameConflictingMetadataColumns": True,
        }

    def name(self) -> str:
        return f"{self._catalog_name}.{'.'.join(self._selected.table.name())}"

    def parts(self) -> Sequence[str]:
        branch = self._selected.branch
        return [self._catalog_name, *self._selected.table.name(), *([] if branch is None else [f"branch_{branch}"])]

    @cached_property
    def _schema_json(self) -> str:
        scan = self._selected.scan()
        schema = scan.as_held(scan.schema())
        return with_geo_types(self._spark, columns_struct(schema), schema).json()

    def schema_json(self) -> str:
        return self._schema_json

    @connector_method
    def partitioning(self) -> Any:
        metadata = self._selected.table.metadata
        return partitioning_of(self._spark, metadata.spec(), metadata.schema())

    def metadata_fields(self) -> Sequence[NestedField]:
        partition = partition_column(table_partition_type(self._selected.table.metadata))
        own = set(self._selected.table.schema().names)
        return [column for column in (*METADATA_COLUMNS.values(), partition) if column.name not in own]

    @connector_method
    def supports_column_change(self, change: Mapping[str, Any]) -> bool:
        """Whether a statement WITH SCHEMA EVOLUTION may make a change of a column; where not, its rows are cast to the column as it is."""
        return takes_change(self._spark, self._selected.table, change)

    def filters(self, wanted: PushedQuery) -> list[bool]:
        return self._question(wanted).filters_true_of_all_rows()

    def aggregate(self, wanted: PushedQuery) -> str | None:
        return self._question(wanted).aggregate_schema()

    def scan(self, wanted: PushedQuery) -> ConnectorScan:
        question = self._question(wanted)
        if wanted["operation"] is not None:
            self._row_level_scans.append(question)
        found = SparkScan(question)
        found.owner = self
        return found

    def _question(self, wanted: PushedQuery) -> PushedScan:
        return PushedScan(spark=self._spark, selected=self._selected, query=wanted, plans=self._plans)
