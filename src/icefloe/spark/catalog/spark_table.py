"""`SparkTable`: a loaded table in Spark SQL: its description, its scans and its metadata columns.

Writes are inherited from `write/write_builder.py`; UPDATE, MERGE and DELETE are inherited from `row_level/operation.py`.
Spec: Schemas and Data Types; Partitioning.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from icefloe.errors import UnsupportedTypeError
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.gateway import java_array, java_class
from icefloe.spark.bridge.messages import TableChangeMessage
from icefloe.spark.catalog.alter_table import supports_change
from icefloe.spark.catalog.column_defaults import default_texts
from icefloe.spark.row_level.operation import RowLevelTable
from icefloe.spark.scan.micro_batch_stream import SparkMicroBatchStream, StreamScan
from icefloe.spark.scan.partitioned_scan import partitioned_scan
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.read_options import PushedQuery, reports_partitions
from icefloe.spark.scan.readable_table import metadata_columns
from icefloe.spark.scan.runtime_filtered_scan import runtime_filtered_scan
from icefloe.spark.scan.scan_plans import ScanCache, ScanPlans
from icefloe.spark.scan.spark_scan import ConnectorScan, SparkScan
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.spark_types import quote_name, schema_to_struct, with_geo_types
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.sort_keys import sort_order_text
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import ACCEPT_ANY_SCHEMA, AUTO_SCHEMA_EVOLUTION
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform, TruncateTransform, VoidTransform
from icefloe.spec.schema.metadata_columns import METADATA_COLUMNS, partition_column
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField

# Spark's names for transforms, where they differ from the specification.
_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_CAPABILITIES = (
    "BATCH_READ",
    "MICRO_BATCH_READ",
    "BATCH_WRITE",
    "V1_BATCH_WRITE",
    "STREAMING_WRITE",
    "TRUNCATE",
    "OVERWRITE_BY_FILTER",
    "OVERWRITE_DYNAMIC",
)
# Capabilities that a table property enables; Spark before 4.1 does not have the second.
_CAPABILITIES_BY_PROPERTY = {"ACCEPT_ANY_SCHEMA": ACCEPT_ANY_SCHEMA, "AUTOMATIC_SCHEMA_EVOLUTION": AUTO_SCHEMA_EVOLUTION}


class SparkTable(RowLevelTable):
    """A table that a statement has loaded, or a branch, tag, snapshot or past state of it."""

    interfaces: ClassVar[tuple[str, ...]] = (
        "catalog.SupportsSchemaEvolution",  # Spark 4.2 and later
        "catalog.SupportsRowLevelOperations",
        "catalog.SupportsMetadataColumns",
        "catalog.SupportsDeleteV2",
        "catalog.SupportsWrite",
        "catalog.SupportsRead",
    )
    prunes_nested = True

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection, shared: ScanCache | None = None) -> None:
        self._spark = spark
        self._selected = selected
        self._catalog_name = catalog_name
        self._plans = ScanPlans(spark, selected.table, shared)
        self._row_level_scans = []

    def identity(self) -> str:
        """Return a text that is equal if the same state is loaded twice, so that Spark finds cached rows of the table."""
        return f"{self.name()} {self._selected.table.metadata.table_uuid} {self._selected.table.state} {self._selected.text()}"

    def state(self) -> str | None:
        """Return a text that changes with the description and the scans of the table, so that Java can cache these; None if they must not be cached."""
        state = self._plans.state
        return None if state is None else f"{state} {self._selected.text()}"

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return self._constants

    @cached_property
    def _constants(self) -> Mapping[str, Any]:
        return self._plans.get_or_compute(("table", self._selected.text()), self._description)

    def _description(self) -> Mapping[str, Any]:
        metadata = self._selected.table.metadata
        return {
            "name": self.name(),
            "id": self._selected.table.metadata.table_uuid,  # Spark 4.1 and later: distinguishes cached rows of tables with the same name
            "toString": self.name(),
            "schema": self._columns_json(),
            "properties": _shown_properties(metadata, self._selected.table.metadata_location),
            "capabilities": [
                *_CAPABILITIES,
                *(name for name, switch in _CAPABILITIES_BY_PROPERTY.items() if switch.read(metadata.properties)),
            ],
            "metadataColumns": metadata_columns(self.metadata_fields()),
            "canRenameConflictingMetadataColumns": True,
            "samplesFiles": True,
            **({} if self._selected.table.spec().fields else {"partitioning": []}),
        }

    def name(self) -> str:
        """Return the table's name in SQL, with its catalog."""
        return f"{self._catalog_name}.{'.'.join(self._selected.table.name())}"

    def parts(self) -> Sequence[str]:
        """Return the parts of the table's name in statements: catalog, namespace, table and, if a branch is selected, the branch."""
        branch = self._selected.branch
        return [self._catalog_name, *self._selected.table.name(), *([] if branch is None else [f"branch_{branch}"])]

    def _columns_json(self) -> str:
        scan = self._selected.scan()
        schema = scan.as_held(scan.schema())
        try:
            return with_geo_types(self._spark, _columns_struct(schema), schema).json()
        except UnsupportedTypeError as error:
            error.table = self._selected.table.full_name
            raise

    def schema_json(self) -> str:
        """Return the columns as a struct in Spark's JSON. Raises `UnsupportedTypeError` if this Spark has no type for a column."""
        schema: str = self._constants["schema"]
        return schema

    @connector_method
    def partitioning(self) -> Any:
        """Return the partition fields as a Java array of Spark's `Transform`s. `bucket` and `truncate` have their number before the column."""
        spec, schema = self._selected.table.spec(), self._selected.table.schema()
        expressions = java_class(self._spark, "org.apache.spark.sql.connector.expressions.Expressions")
        transforms = []
        for field in spec.fields:
            path = schema.path_of(field.source_id)
            if path is None or isinstance(field.transform, VoidTransform):
                continue
            column = ".".join(map(quote_name, path))  # Spark parses this name
            name = str(field.transform).partition("[")[0]
            # Spark has classes for `bucket` and `identity`; all other transforms are a name with arguments.
            if isinstance(field.transform, BucketTransform):
                transform = expressions.bucket(field.transform.num_buckets, java_array(self._spark, "java.lang.String", [column]))
            elif isinstance(field.transform, IdentityTransform):
                transform = expressions.identity(column)
            else:
                numbers = [expressions.literal(field.transform.width)] if isinstance(field.transform, TruncateTransform) else []
                arguments = java_array(
                    self._spark, "org.apache.spark.sql.connector.expressions.Expression", [*numbers, expressions.column(column)]
                )
                transform = expressions.apply(_TRANSFORMS.get(name, name), arguments)
            transforms.append(transform)
        return java_array(self._spark, "org.apache.spark.sql.connector.expressions.Transform", transforms)

    def metadata_fields(self) -> Sequence[NestedField]:
        """Return the metadata columns, except those whose name a column of the table has."""
        partition = partition_column(table_partition_type(self._selected.table.metadata))
        column_names = set(self._selected.table.schema().names)
        return [column for column in (*METADATA_COLUMNS.values(), partition) if column.name not in column_names]

    @connector_method
    def supports_column_change(self, change: TableChangeMessage) -> bool:
        """Return whether a column can change as a statement WITH SCHEMA EVOLUTION requires. If not, Spark casts the rows to the column's type."""
        return supports_change(self._spark, self._selected.table, change)

    def filters(self, query: PushedQuery) -> list[bool]:
        """Return for each pushed predicate whether it is true for all rows of the planned files, so that Spark need not evaluate it."""
        return self._push(query).filters_true_of_all_rows()

    def aggregate(self, query: PushedQuery) -> str | None:
        """Return the schema of the pushed aggregates in Spark's JSON if they can be computed from metadata only; otherwise None."""
        return self._push(query).aggregate_schema()

    def scan(self, query: PushedQuery) -> ConnectorScan:
        """Return the scan of a pushed query. Scans of a row-level operation are recorded, because their filters limit the conflicts of the commit."""
        pushed = self._push(query)
        if query["operation"] is not None:
            self._row_level_scans.append(pushed)
        scan: SparkScan | None = partitioned_scan(pushed) if reports_partitions(query) else None
        fields = [field for spec in pushed.scan.metadata.partition_specs for field in spec.fields]
        # Spark's own file scan can prune files by identity fields.
        if scan is None and not all(isinstance(field.transform, IdentityTransform) for field in fields):
            scan = runtime_filtered_scan(pushed)
        scan = scan or SparkScan(pushed)
        scan.owner = self
        scan.row_level_scans = self._row_level_scans
        return scan

    def stream_scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan from which Spark creates a stream of the table."""
        pushed = self._push(query)
        return StreamScan(pushed, lambda: SparkMicroBatchStream(pushed))

    def _push(self, query: PushedQuery) -> PushedScan:
        return PushedScan(spark=self._spark, selected=self._selected, query=query, plans=self._plans)


def _columns_struct(schema: Schema) -> StructType:
    """Convert a schema to a Spark struct, with the defaults of columns under the metadata keys that Spark reads."""
    fields = []
    for field, column in zip(schema_to_struct(schema, field_ids=False).fields, schema.fields, strict=True):
        has_default = column.initial_default is not None or column.write_default is not None
        texts = default_texts(column.field_type, column.initial_default, column.write_default) if has_default else {}
        fields.append(StructField(field.name, field.dataType, field.nullable, {**field.metadata, **texts}))
    return StructType(fields)


def _shown_properties(metadata: TableMetadata, metadata_location: str) -> dict[str, str]:
    """Return the properties for SHOW TBLPROPERTIES and DESCRIBE EXTENDED: the table's own, and the same additional properties as in Java's Iceberg."""
    snapshot = metadata.current_snapshot_id
    order = metadata.sort_order()
    ids = sorted(metadata.schema().identifier_field_ids)
    names = ",".join(name for name in map(metadata.schema().find_column_name, ids) if name)
    return {
        **metadata.properties,
        "provider": "iceberg",
        "format": f"iceberg/{metadata.properties.get('write.format.default', 'parquet')}",
        "format-version": str(metadata.format_version),
        "location": metadata.location,
        "current-snapshot-id": "none" if snapshot is None else str(snapshot),
        "metadata-location": metadata_location,
        **({} if order.is_unsorted else {"sort-order": sort_order_text(metadata)}),
        **({"identifier-fields": f"[{names}]"} if names else {}),
    }
