"""`MetadataTableAnswers`: a metadata table, such as `lake.db.t.files`, as Spark SQL reads it. Its rows are made in `icefloe.inspect.metadata_tables`.

Floor: spark. Spec: Snapshots; Manifests.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType as SparkStruct

from icefloe.inspect.metadata_tables.registry import MetadataTable, metadata_table
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.arrow_forms import to_spark_form
from icefloe.spark.filters import column_named
from icefloe.spark.sql.answers import Answers, answer
from icefloe.spark.sql.pushed_filters import pruning_filter
from icefloe.spark.sql.read_options import with_options
from icefloe.spark.sql.selectors import Selected
from icefloe.spark.types import schema_to_struct

# Bytes that a row of a metadata table is taken for; most are small, and all of them are smaller than what they tell of.
_ROW_BYTES = 200


class MetadataTableAnswers(Answers):
    """Reads alone: what a metadata table tells is changed by changing the table."""

    def __init__(self, spark: SparkSession, catalog_name: str, selected: Selected, name: str) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._selected = selected
        self._found = metadata_table(selected.table, name)

    @answer
    def describe(self, _: Any) -> dict[str, Any]:
        table = self._selected.table
        return {
            "name": f"{self._catalog_name}.{'.'.join(table.name())}.{self._found.name}",
            "version": f"{table.metadata_location} {self._selected.text()}",
            "schema": schema_to_struct(self._found.schema, field_ids=False).json(),
            "prunes_nested": False,
            "properties": {},
            "partitioning": [],
            "capabilities": ["BATCH_READ"],
            "metadata_columns": [],
        }

    @answer
    def filters(self, asked: Mapping[str, Any]) -> list[bool]:
        return [False for _ in asked["filters"]]

    @answer
    def aggregate(self, _: Any) -> str | None:
        return None

    @answer
    def scan(self, asked: Mapping[str, Any]) -> "MetadataScanAnswers":
        return MetadataScanAnswers(self._spark, with_options(self._selected, asked["options"]), self._found, asked)


class MetadataScanAnswers(Answers):
    """One read of a metadata table."""

    def __init__(self, spark: SparkSession, selected: Selected, found: MetadataTable, asked: Mapping[str, Any]) -> None:
        self._spark = spark
        self._selected = selected
        self._found = found
        self._columns = SparkStruct.fromJson(json.loads(asked["schema"])).names
        self._filter = pruning_filter(asked.get("filters") or (), found.schema)

    @answer
    def description(self, _: Any) -> str:
        return f"Icefloe {self._selected.table.full_name}.{self._found.name} [{self._filter}]"

    @answer
    def rows(self, _: Any) -> Any:
        """Read now: Spark gets the rows themselves."""
        snapshot_id = None
        if self._selected.is_past or self._selected.branch is not None:
            snapshot = self._selected.scan().snapshot()
            snapshot_id = None if snapshot is None else snapshot.snapshot_id
        rows = self._found.arrow(columns=self._columns, row_filter=self._filter, snapshot_id=snapshot_id)
        kept = Schema(*(field for field in self._found.schema.fields if field.name in self._columns))
        arrays = [to_spark_form(rows[field.name], field.field_type) for field in kept.fields]
        if not arrays:
            return self._spark.range(rows.num_rows).select()._jdf.queryExecution().optimizedPlan()
        # In one chunk: PySpark loses rows of tables whose columns are cut in several.
        whole = pa.Table.from_arrays(arrays, names=kept.names).combine_chunks()
        frame = self._spark.createDataFrame(whole, schema_to_struct(kept, field_ids=False))
        return frame.select(*map(column_named, self._columns))._jdf.queryExecution().optimizedPlan()

    @answer
    def statistics(self, _: Any) -> dict[str, Any]:
        """A guess: counting would cost as much as reading."""
        return {"rows": None, "bytes": _ROW_BYTES * 1000, "distinct": {}}
