"""`SparkMetadataTable`: a metadata table, such as `lake.db.t.files`, as Spark SQL reads it. Its rows are made in `icefloe.inspect.metadata_tables`.

Spec: Snapshots; Manifests.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from icefloe.inspect.metadata_tables.file_tables import ManifestRows
from icefloe.inspect.metadata_tables.metadata_table_registry import MetadataTable, metadata_table
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.scan.filter_pushdown import pruning_filter
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.metadata_table_job import in_spark_form, is_worth_a_job, rows_by_job
from icefloe.spark.scan.read_options import PushedQuery, planning_mode
from icefloe.spark.scan.scan_builder import ConnectorScan, ReadableTable, statistics
from icefloe.spark.scan.table_selector import TableSelection, with_options
from icefloe.spark.types.spark_types import quoted, schema_to_struct

# Bytes that a row of a metadata table is taken for; most are small, and all of them are smaller than what they tell of.
_ROW_BYTES = 200


class SparkMetadataTable(ReadableTable):
    """Reads alone: what a metadata table tells is changed by changing the table."""

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection, name: str) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._selected = selected
        self._found = metadata_table(selected.table, name)

    def identity(self) -> str:
        """Of the table's state."""
        return f"{self._name()} {self._selected.table.metadata.table_uuid} {self._selected.table.metadata_location} {self._selected.text()}"

    def says(self) -> Mapping[str, Any]:
        return {
            "name": self._name(),
            "id": self._selected.table.metadata.table_uuid,
            "toString": self._name(),
            "schema": self.schema_json(),
            "capabilities": ["BATCH_READ"],
        }

    def _name(self) -> str:
        return f"{self._catalog_name}.{'.'.join(self._selected.table.name())}.{self._found.name}"

    def schema_json(self) -> str:
        return schema_to_struct(self._found.schema, field_ids=False).json()

    def scan(self, asked: PushedQuery) -> "MetadataTableScan":
        return MetadataTableScan(self._spark, with_options(self._selected, asked["options"]), self._found, asked)


class MetadataTableScan(ConnectorScan):
    """One read of a metadata table."""

    def __init__(self, spark: SparkSession, selected: TableSelection, found: MetadataTable, asked: PushedQuery) -> None:
        super().__init__(asked)
        self._spark = spark
        self._selected = selected
        self._found = found
        self._asked = asked
        self._columns = self._struct.names
        days = LocalDays(spark, asked["zone"])
        self._filter = pruning_filter(asked.get("filters") or (), found.schema, days)

    @connector_method
    def description(self) -> str:
        return f"Icefloe {self._selected.table.full_name}.{self._found.name} [{self._filter}]"

    @connector_method
    def rows(self) -> Any:
        """Spark gets the rows themselves, read now; or, where they are many, a job that reads them."""
        frame = self._frame()
        return frame.select(*map(quoted, self._columns))._jdf.queryExecution().optimizedPlan()

    def _frame(self) -> DataFrame:
        """A row for each row, with the columns that are asked for at least."""
        found = self._rows()
        if isinstance(found, ManifestRows):
            mode = planning_mode(self._asked, self._selected.table.metadata.properties)
            if is_worth_a_job(found, mode):
                return rows_by_job(self._spark, found)
            found = found.arrow()
        if not self._columns:
            return self._spark.range(found.num_rows)
        return frame_of(self._spark, found, Schema(*(field for field in self._found.schema.fields if field.name in self._columns)))

    def _rows(self) -> Any:
        """The rows, of these columns, as a `pyarrow.Table` or `ManifestRows`, perhaps with more than the filter lets through."""
        return self._found.rows(columns=self._columns, row_filter=self._filter, snapshot_id=self._snapshot_id())

    def _snapshot_id(self) -> int | None:
        """The snapshot that was chosen."""
        if not self._selected.is_past and self._selected.branch is None:
            return None
        snapshot = self._selected.scan().snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        """A guess: counting would cost as much as reading."""
        return statistics(None, _ROW_BYTES * 1000)


def frame_of(spark: SparkSession, rows: pa.Table, schema: Schema) -> DataFrame:
    """Return a DataFrame that holds the rows of a `pyarrow.Table` of the columns of a schema. Members of its structs are nullable."""
    struct = schema_to_struct(schema, field_ids=False)
    # PySpark casts the rows to the schema, and Arrow's cast refuses a null struct whose members are not nullable.
    columns = [StructField(field.name, _nullable_members(field.dataType), field.nullable, field.metadata) for field in struct.fields]
    return spark.createDataFrame(in_spark_form(rows, schema), StructType(columns))


def _nullable_members(kind: DataType) -> DataType:
    """Return a type whose structs, at every level, have nullable members."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _nullable_members(field.dataType), True, field.metadata) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable_members(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_nullable_members(kind.keyType), _nullable_members(kind.valueType), kind.valueContainsNull)
    return kind
