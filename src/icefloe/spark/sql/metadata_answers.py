"""`MetadataTableAnswers`: a metadata table, such as `lake.db.t.files`, as Spark SQL reads it. Its rows are made in `icefloe.inspect.metadata_tables`.

Floor: spark. Spec: Snapshots; Manifests.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType as SparkStruct

from icefloe.inspect.metadata_tables.file_tables import ManifestRows
from icefloe.inspect.metadata_tables.registry import MetadataTable, metadata_table
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.filters import quoted
from icefloe.spark.metadata_rows import in_spark_form, is_worth_a_job, rows_by_job
from icefloe.spark.sql.answers import Answers, HintedAnswers, answer
from icefloe.spark.sql.local_days import LocalDays
from icefloe.spark.sql.pushed_filters import pruning_filter
from icefloe.spark.sql.read_options import planning_mode, with_options
from icefloe.spark.sql.selectors import Selected
from icefloe.spark.types import schema_to_struct

# Bytes that a row of a metadata table is taken for; most are small, and all of them are smaller than what they tell of.
_ROW_BYTES = 200


class MetadataTableAnswers(HintedAnswers):
    """Reads alone: what a metadata table tells is changed by changing the table. `scans` is what a read of it is."""

    def __init__(
        self, spark: SparkSession, catalog_name: str, selected: Selected, name: str, scans: "type[MetadataScanAnswers] | None" = None
    ) -> None:
        self._scans = scans or MetadataScanAnswers
        self._takes_range = scans is not None
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
    def scan(self, asked: Mapping[str, Any]) -> "MetadataScanAnswers":
        return self._scans(self._spark, with_options(self._selected, asked["options"], takes_range=self._takes_range), self._found, asked)


class MetadataScanAnswers(Answers):
    """One read of a metadata table."""

    def __init__(self, spark: SparkSession, selected: Selected, found: MetadataTable, asked: Mapping[str, Any]) -> None:
        self._spark = spark
        self._selected = selected
        self._found = found
        self._asked = asked
        self._columns = SparkStruct.fromJson(json.loads(asked["schema"])).names
        days = LocalDays(spark, asked["zone"])
        self._filter = pruning_filter(asked.get("filters") or (), found.schema, days)

    @answer
    def description(self, _: Any) -> str:
        return f"Icefloe {self._selected.table.full_name}.{self._found.name} [{self._filter}]"

    @answer
    def rows(self, _: Any) -> Any:
        """Spark gets the rows themselves, read now; or, where they are many, a job that reads them."""
        frame = self._frame()
        return frame.select(*map(quoted, self._columns))._jdf.queryExecution().optimizedPlan()

    def _frame(self) -> DataFrame:
        """A row for each row, with the columns that are asked for at least."""
        found = self._rows()
        if isinstance(found, ManifestRows):
            mode = planning_mode(self._spark, self._asked["options"], self._selected.table.metadata.properties)
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

    @answer
    def statistics(self, _: Any) -> dict[str, Any]:
        """A guess: counting would cost as much as reading."""
        return {"rows": None, "bytes": _ROW_BYTES * 1000, "distinct": {}}


def frame_of(spark: SparkSession, rows: pa.Table, schema: Schema) -> DataFrame:
    """A `pyarrow.Table` of the columns of a schema as a DataFrame, which holds the rows."""
    return spark.createDataFrame(in_spark_form(rows, schema), schema_to_struct(schema, field_ids=False))
