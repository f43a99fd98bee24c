"""`SparkMetadataTable`: a metadata table in Spark SQL, such as `lake.db.t.files`. `icefloe.metadata_tables` computes the rows.

Spec: Snapshots; Manifests.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from icefloe.errors import UnsupportedTypeError
from icefloe.metadata_tables.file_tables import ManifestRows
from icefloe.metadata_tables.metadata_table_registry import MetadataTable, metadata_table
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.scan.filter_pushdown import pruning_filter
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.metadata_table_job import in_spark_form, is_worth_a_job, rows_by_job
from icefloe.spark.scan.read_options import PushedQuery, planning_mode
from icefloe.spark.scan.readable_table import ReadableTable
from icefloe.spark.scan.spark_scan import ConnectorScan, statistics
from icefloe.spark.scan.table_selector import TableSelection, with_options
from icefloe.spark.types.spark_types import quote_name, schema_to_struct
from icefloe.spec.schema.schema import Schema

# Estimated bytes of a row of a metadata table, for Spark's optimizer.
_ROW_BYTES = 200


class SparkMetadataTable(ReadableTable):
    """A metadata table of a table, which Spark can only read."""

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection, name: str) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._selected = selected
        self._metadata_table = metadata_table(selected.table, name)

    def identity(self) -> str:
        """Return a text that is equal if the same metadata table is loaded twice for the same state of the table."""
        return f"{self._name()} {self._selected.table.metadata.table_uuid} {self._selected.table.state} {self._selected.text()}"

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {
            "name": self._name(),
            "id": self._selected.table.metadata.table_uuid,
            "toString": self._name(),
            "schema": self.schema_json(),
            "capabilities": ["BATCH_READ"],
        }

    def _name(self) -> str:
        return f"{self._catalog_name}.{'.'.join(self._selected.table.name())}.{self._metadata_table.name}"

    def schema_json(self) -> str:
        """Return the columns as a struct in Spark's JSON. Raises `UnsupportedTypeError` if this Spark has no type for a bound or partition value."""
        try:
            return schema_to_struct(self._metadata_table.schema, field_ids=False).json()
        except UnsupportedTypeError as error:
            error.table = self._selected.table.full_name
            error.next_step = f'read it in Python: icefloe.inspect.metadata_table(table, "{self._metadata_table.name}").to_arrow()'
            raise

    def scan(self, query: PushedQuery) -> "MetadataTableScan":
        """Return a scan of the metadata table at the snapshot that its name or the read options select."""
        return MetadataTableScan(self._spark, with_options(self._selected, query["options"]), self._metadata_table, query)


class MetadataTableScan(ConnectorScan):
    """A scan of a metadata table."""

    def __init__(self, spark: SparkSession, selected: TableSelection, metadata_table: MetadataTable, query: PushedQuery) -> None:
        super().__init__(query)
        self._spark = spark
        self._selected = selected
        self._metadata_table = metadata_table
        self._query = query
        self._columns = self._struct.names
        days = partial(LocalDays, spark, query["zone"])
        self._filter = pruning_filter(query.get("filters") or (), metadata_table.schema, days)

    @connector_method
    def description(self) -> str:
        """Return the text for EXPLAIN: the table, and the pushed filter, which prunes."""
        return f"Icefloe {self._selected.table.full_name}.{self._metadata_table.name} [{self._filter}]"

    @connector_method
    def rows(self) -> Any:
        """Return Spark's optimized logical plan of the rows. The rows are read now, or if there are many, by tasks when the query runs."""
        frame = self._frame()
        return frame.select(*map(quote_name, self._columns))._jdf.queryExecution().optimizedPlan()

    def _frame(self) -> DataFrame:
        """Return a DataFrame of the rows, with at least the columns of the scan."""
        rows = self._rows()
        if isinstance(rows, ManifestRows):
            mode = planning_mode(self._query, self._selected.table.metadata.properties)
            if is_worth_a_job(rows, mode):
                return rows_by_job(self._spark, rows)
            rows = rows.arrow()
        if not self._columns:
            return self._spark.range(rows.num_rows)
        return frame_of(self._spark, rows, Schema(*(field for field in self._metadata_table.schema.fields if field.name in self._columns)))

    def _rows(self) -> Any:
        """Return a `pyarrow.Table` of the rows, or `ManifestRows` if tasks can compute them. Some rows may not match the filter; Spark evaluates it again."""
        return self._metadata_table.rows(columns=self._columns, row_filter=self._filter, snapshot_id=self._selected.selected_snapshot_id())

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        """Return a constant estimate of the size, because counting the rows would cost as much as reading them."""
        return statistics(None, _ROW_BYTES * 1000)


def frame_of(spark: SparkSession, rows: pa.Table, schema: Schema) -> DataFrame:
    """Convert a `pyarrow.Table` with the columns of `schema` to a DataFrame. All fields of structs become nullable."""
    struct = schema_to_struct(schema, field_ids=False)
    # PySpark casts the rows to the schema, and Arrow refuses to cast a null struct if its members are not nullable.
    columns = [StructField(field.name, _nullable_members(field.dataType), field.nullable, field.metadata) for field in struct.fields]
    return spark.createDataFrame(in_spark_form(rows, schema), StructType(columns))


def _nullable_members(data_type: DataType) -> DataType:
    """Return the type with all fields of structs, at every level, made nullable."""
    if isinstance(data_type, StructType):
        return StructType([StructField(field.name, _nullable_members(field.dataType), True, field.metadata) for field in data_type.fields])
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable_members(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, MapType):
        return MapType(_nullable_members(data_type.keyType), _nullable_members(data_type.valueType), data_type.valueContainsNull)
    return data_type
