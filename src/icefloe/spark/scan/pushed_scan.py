"""`SparkScan`: one scan of a query: planned with the filters that Spark pushed, its rows as a plan of Spark's own, its size for Spark's optimizer.

Planning is the kernel's, the rows are `spark/scan/planned_rows.py`'s. Spark tests its filters on every row besides, save those that hold on all
(`plan_cache.py`).
What metadata answers alone is `aggregate_pushdown.py`. Spec: Scan Planning; Column Projection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.metadata.manifests import table_partition_type
from icefloe.kernel.puffin.theta_sketch import NDV_PROPERTY
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.kernel.schema.metadata_columns import DELETED, METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType, ListType, NestedField, PrimitiveType, StructType
from icefloe.kernel.types import MapType as IcebergMap
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.scan.aggregate_pushdown import NotKnown, needs_statistics, values_of, wanted_columns
from icefloe.spark.scan.bucket_pushdown import bucket_tests, in_buckets
from icefloe.spark.scan.filter_columns import column_named, literal
from icefloe.spark.scan.filter_pushdown import expressions_of, pruning_filter
from icefloe.spark.scan.local_days import LocalDays
from icefloe.spark.scan.plan_cache import ScanPlans, constant_columns, holding
from icefloe.spark.scan.planned_rows import read
from icefloe.spark.scan.read_options import answers_aggregates, planning_mode, reports_statistics, session_for, with_options
from icefloe.spark.scan.scan_builder import ConnectorScan, Wanted, statistics
from icefloe.spark.scan.table_selector import Selected
from icefloe.spark.types.geo_types import shapes_of_wkb
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.table.data_scan import DataScan
from icefloe.table.engine import ScanRequest


@dataclass(frozen=True, kw_only=True)
class PushedScan:
    """What a query wants of a table."""

    spark: SparkSession
    selected: Selected
    asked: Wanted
    plans: ScanPlans

    @cached_property
    def scan(self) -> DataScan:
        """The snapshot chosen by name or options, read by the schema that Spark has of the table, with the filter that can be said."""
        chosen = with_options(self.selected, self.asked["options"])
        found = chosen.scan()
        if chosen is not self.selected:  # an option comes after Spark learned the table's columns
            found = replace(found, by_table_schema=True)
        return found if not self.filters else found.filter(pruning_filter(self.filters, found.schema(), self.days))

    @cached_property
    def filters(self) -> Sequence[Mapping[str, Any]]:
        return self.asked.get("filters") or ()

    @property
    def days(self) -> LocalDays | None:
        """The days that timestamps lie in, for the session that asks."""
        zone = self.asked.get("zone")
        return None if zone is None else LocalDays(self.spark, zone)

    def _expressions(self, scan: DataScan) -> list[BooleanExpression | None]:
        return expressions_of(self.filters, scan.schema(), self.days)

    def plan(self, *, include_statistics: bool = False) -> ScanPlan:
        """The planned files, all columns' statistics with them where asked for."""
        mode = planning_mode(self.asked, self.selected.table.metadata.properties)
        found = self.plans.plan(self.scan, mode, include_statistics=include_statistics)
        return in_buckets(found, bucket_tests(self.filters, found.schema), self.scan.metadata)

    def held(self) -> list[bool]:
        """Of each filter whether it holds on every row that is read, so that Spark need not test it; never of rows that are about to be changed."""
        expressions = self._expressions(self.scan)
        if self.asked.get("operation") is not None or not any(expressions):
            return [False for _ in expressions]
        return holding(self.plan(), expressions, self.scan.metadata)

    def aggregates(self) -> tuple[SparkStruct, list[tuple[NestedField | None, Any]]]:
        """Columns that are answered by metadata, and their values. Raises `NotKnown`."""
        if self.asked.get("operation") is not None or not answers_aggregates(self.asked):
            raise NotKnown
        wanted = wanted_columns(self.asked["aggregation"], self.scan.schema())
        values = values_of(wanted, self.plan(include_statistics=needs_statistics(wanted)))
        counted = [None if kind.startswith("Count") else field for kind, field in wanted]
        kinds = [LongType() if field is None else schema_to_struct(Schema(field), field_ids=False)[0].dataType for field in counted]
        struct = SparkStruct([StructField(f"aggregate {place}", kind) for place, kind in enumerate(kinds)])
        return struct, list(zip(counted, values, strict=True))

    def aggregate_schema(self) -> str | None:
        """Spark's JSON of the columns of the answer; None where metadata does not know it."""
        try:
            return self.aggregates()[0].json()
        except NotKnown:
            return None


class SparkScan(ConnectorScan):
    """A scan that Spark's optimizer made; nothing is planned before its size or its rows are asked for."""

    def __init__(self, question: PushedScan) -> None:
        super().__init__(question.asked)
        self._question = question

    @cached_property
    def request(self) -> ScanRequest:
        """The planned files and the columns; no filter of rows, which is Spark's."""
        scan, plan = self._question.scan, self._question.plan()
        limit = self._question.asked.get("limit")
        plan = plan if limit is None else _enough_files(plan, limit)
        bare = replace(scan, row_filter=AlwaysTrue(), limit=None)
        columns = self._projection
        if self._hides_deleted:
            columns = Schema(*(field for field in columns.fields if field.field_id != DELETED.field_id), schema_id=columns.schema_id)
        return bare.request(columns, plan=plan)

    @cached_property
    def _projection(self) -> Schema:
        return projection_of(self._question.scan, self._struct)

    @property
    def _hides_deleted(self) -> bool:
        """Whether a statement that changes rows names `_deleted`: where a query finds deleted rows, the statement would bring them back."""
        return self._question.asked.get("operation") is not None and DELETED.field_id in self._projection

    @connector_method
    def description(self) -> str:
        return f"Icefloe {self._question.selected.table.full_name} [{self._question.scan.row_filter}]"

    @connector_method
    def rows(self) -> Any:
        question = self._question
        if "aggregation" in question.asked:
            found = _one_row(question.spark, *question.aggregates())
        else:
            session = session_for(question.spark, question.asked, question.scan.metadata.properties)
            found = read(session, self.request)
            if self._hides_deleted:
                known = set(found.columns)
                found = found.select(*(column_named(name) if name in known else F.lit(False).alias(name) for name in self._struct.names))
        return shapes_of_wkb(found, self._struct)._jdf.queryExecution().optimizedPlan()

    @connector_method
    def narrowed(self, predicates: list[Any]) -> "SparkScan":
        """The same columns, only of files that may have rows of which all these predicates are true."""
        question = self._question
        return SparkScan(replace(question, asked={**question.asked, "filters": [*question.filters, *predicates]}))

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        if "aggregation" in self._question.asked:
            return statistics(1, self._width())
        request = self.request
        records = request.plan.records_after_deletes
        rows = request.plan.records_before_deletes if records is None else records
        distinct = _distinct_values(self._question.scan, request.projection) if reports_statistics(self._question.asked) else {}
        return statistics(rows, rows * self._width(), distinct)

    @connector_method
    def filter_attributes(self) -> list[str]:
        if "aggregation" in self._question.asked:
            return []
        return constant_columns(self.request.plan, self._question.scan.metadata, self.request.projection)

    def _width(self) -> int:
        """Bytes of one row, by Spark's own reckoning of its types."""
        struct = self._question.spark._jsparkSession.parseDataType(self._schema)
        return int(struct.defaultSize()) + 8


def _one_row(spark: SparkSession, struct: SparkStruct, values: Sequence[tuple[NestedField | None, Any]]) -> DataFrame:
    columns = []
    for field, (column, value) in zip(struct.fields, values, strict=True):
        if value is None:
            found = F.lit(None)
        elif column is None or not isinstance(column.field_type, PrimitiveType):
            found = F.lit(str(value))
        else:
            found = literal(column.field_type, value)
        columns.append(found.cast(field.dataType).alias(field.name))
    return spark.range(1).select(*columns)


def _enough_files(plan: ScanPlan, limit: int) -> ScanPlan:
    """The first files that have so many rows together. Spark asks for a limit only where it has nothing to filter; rows must not be deleted either."""
    if plan.delete_files:
        return plan
    parts: list[PlannedFiles] = []
    left = limit
    for part in plan.parts:
        if left <= 0:
            break
        before = np.cumsum(numpy_of(part.entries["record_count"]))
        count = int(np.searchsorted(before, left)) + 1
        found = part if count >= len(part) else part.take(np.arange(count))
        left -= int(before[len(found) - 1])
        parts.append(found)
    return replace(plan, parts=tuple(parts))


def _distinct_values(scan: DataScan, columns: Schema) -> dict[str, int]:
    """What the statistics of the snapshot count, by column. Spec: Table Statistics."""
    snapshot = scan.snapshot()
    known = [] if snapshot is None else [file for file in scan.metadata.statistics if file.snapshot_id == snapshot.snapshot_id]
    found = {}
    for blob in (blob for file in known for blob in file.blob_metadata):
        name = next((field.name for field in columns.fields if blob.fields == (field.field_id,)), None)
        count = blob.properties.get(NDV_PROPERTY, "")
        if name is not None and count.isdigit():
            found[name] = int(count)
    return found


def projection_of(scan: DataScan, wanted: SparkStruct) -> Schema:
    """The part of the scan's schema that Spark wants, in Spark's order; metadata columns by their names."""
    schema, partition = scan.schema(), table_partition_type(scan.metadata)
    metadata = {**METADATA_COLUMNS, PARTITION_NAME: partition_column(partition)}
    own = {field.name: field for field in schema.fields}
    fields = []
    for field in wanted.fields:
        found = own.get(field.name) or metadata[field.name]
        fields.append(replace(found, field_type=_cut(found.field_type, field.dataType)))
    return Schema(*fields, schema_id=schema.schema_id)


def _cut(kind: IcebergType, wanted: DataType) -> IcebergType:
    """The type without the nested fields that Spark does not want."""
    if isinstance(kind, StructType) and isinstance(wanted, SparkStruct):
        return StructType(*_kept(kind.fields, wanted))
    if isinstance(kind, ListType) and isinstance(wanted, ArrayType):
        return replace(kind, element=_cut(kind.element, wanted.elementType))
    if isinstance(kind, IcebergMap) and isinstance(wanted, MapType):
        return replace(kind, value_type=_cut(kind.value_type, wanted.valueType), key_type=_cut(kind.key_type, wanted.keyType))
    return kind


def _kept(fields: Sequence[NestedField], wanted: SparkStruct) -> list[NestedField]:
    own = {field.name: field for field in fields}
    return [replace(own[field.name], field_type=_cut(own[field.name].field_type, field.dataType)) for field in wanted.fields]
