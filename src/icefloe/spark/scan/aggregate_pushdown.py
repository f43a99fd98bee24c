"""Push-down of aggregates: COUNT, MIN and MAX of columns and struct fields from metadata, if metadata has exact values; otherwise Spark computes them.

Metadata has the exact count of live rows if rows are deleted only by deletion vectors. For files without deletes it also has exact null counts, and exact
bounds for types whose bounds no writer truncates.
Spec: Data File Fields; Deletion Vectors.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import StructType as SparkStruct

from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spark.scan.filter_to_spark import literal
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.manifest.manifest_columns import statistic_column
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from icefloe.spec.values import bounds_to_array

# Types whose bounds are values of rows. Bounds of texts and bytes may be truncated, and Spark orders other types differently.
_EXACT = (BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType, DateType, TimestampType, TimestamptzType)
COUNT_STAR, COUNT, LEAST, GREATEST = "CountStar", "Count", "Min", "Max"


class AggregateNotPushed(Exception):  # noqa: N818 a result, not a failure
    """Raised if metadata does not have the exact value of an aggregate, so that Spark computes the aggregate from the rows."""


def parse_aggregates(aggregation: Mapping[str, Any], schema: Schema) -> list[tuple[str, NestedField | None]]:
    """Parse the aggregates that Spark pushes.

    Args:
        aggregation: Spark's `Aggregation`, in the JSON of `bridge/java/ConnectorJson.java`.
        schema: The schema with the columns of the aggregates.

    Returns:
        For each aggregate its kind (`CountStar`, `Count`, `Min` or `Max`) and its column; the column is None for `COUNT(*)`.

    Raises:
        AggregateNotPushed: There is a GROUP BY, an unsupported function, or a column whose metadata is not exact.
    """
    if aggregation["groupByExpressions"] or not aggregation["aggregateExpressions"]:
        raise AggregateNotPushed
    return [_parse_aggregate(aggregate, schema) for aggregate in aggregation["aggregateExpressions"]]


def _parse_aggregate(aggregate: Mapping[str, Any], schema: Schema) -> tuple[str, NestedField | None]:
    kind, children = aggregate["kind"], aggregate["children"]
    if kind == COUNT_STAR:
        return kind, None
    if kind not in (COUNT, LEAST, GREATEST) or aggregate["text"].upper().startswith("COUNT(DISTINCT"):
        raise AggregateNotPushed
    if len(children) != 1 or children[0]["kind"] != "reference":
        raise AggregateNotPushed
    field = _field_at(children[0]["parts"], schema)
    if field is None or not isinstance(field.field_type, PrimitiveType) or (kind != COUNT and not isinstance(field.field_type, _EXACT)):
        raise AggregateNotPushed
    return kind, field


def _field_at(path: Sequence[str], schema: Schema) -> NestedField | None:
    """Return the column or struct field at a path of names; None if it does not exist or is inside a list or map, which has several values in a row."""
    fields: Sequence[NestedField] = schema.fields
    field = None
    for name in path:
        field = next((candidate for candidate in fields if candidate.name == name), None)
        fields = field.field_type.fields if field is not None and isinstance(field.field_type, StructType) else ()
    return field


def needs_statistics(aggregates: Sequence[tuple[str, NestedField | None]]) -> bool:
    """Return whether the aggregates need statistics of columns: True unless all of them are `COUNT(*)`, which only needs the numbers of rows."""
    return any(field is not None for _, field in aggregates)


def aggregate_values(aggregates: Sequence[tuple[str, NestedField | None]], plan: ScanPlan) -> list[Any]:
    """Compute the values of pushed aggregates from the metadata of the planned files.

    Args:
        aggregates: The result of `parse_aggregates`.
        plan: The planned files, in which all rows match the query's filters.

    Returns:
        One value for each aggregate, in their order: COUNT as an int, MIN and MAX as a physical value, or None if there are no values.

    Raises:
        AggregateNotPushed: Rows are deleted by other means than deletion vectors; an aggregate is on a column and there are deletes; or counts or bounds of a
            file are missing or not exact.
    """
    rows = plan.records_after_deletes
    if rows is None or (plan.delete_files and needs_statistics(aggregates)):
        raise AggregateNotPushed
    return [rows if field is None else _aggregate_value(kind, field, plan) for kind, field in aggregates]


def _aggregate_value(kind: str, field: NestedField, plan: ScanPlan) -> Any:
    if kind == COUNT:
        return sum(_value_count(part, field) for part in plan.parts)
    bounds = [value for part in plan.parts for value in _bounds(part, field, "lower_bound" if kind == LEAST else "upper_bound")]
    if any(isinstance(value, float) and (value == 0 or math.isnan(value)) for value in bounds):
        raise AggregateNotPushed  # a writer may store -0.0 as the bound of 0.0
    return (min if kind == LEAST else max)(bounds, default=None)


def _counts(part: PlannedFiles, field: NestedField) -> tuple[Any, Any]:
    """Return two arrays, with the number of rows and the number of nulls of each file. Raises `AggregateNotPushed` if counts are missing or inconsistent."""
    rows, nulls = numpy_of(part.entries["record_count"]), _column(part, "null_value_count", field)
    values = _column(part, "value_count", field)
    if nulls.null_count or values.null_count:
        raise AggregateNotPushed
    null_counts = numpy_of(nulls)
    if (numpy_of(values) != rows).any() or (null_counts < 0).any() or (null_counts > rows).any():
        raise AggregateNotPushed
    return rows, null_counts


def _value_count(part: PlannedFiles, field: NestedField) -> int:
    rows, nulls = _counts(part, field)
    return int((rows - nulls).sum())


def _bounds(part: PlannedFiles, field: NestedField, bound: str) -> Iterator[Any]:
    kind = field.field_type
    if not isinstance(kind, PrimitiveType):
        raise AggregateNotPushed
    rows, nulls = _counts(part, field)
    with_values = nulls < rows
    if not with_values.any():
        return
    # ORC's statistics of timestamps have only milliseconds.
    if pc.any(pc.equal(pc.utf8_upper(part.entries["file_format"]), "ORC")).as_py():
        raise AggregateNotPushed
    if isinstance(kind, FloatType | DoubleType):
        nans = _column(part, "nan_value_count", field)
        if nans.null_count or numpy_of(nans).any():
            raise AggregateNotPushed
    for value, has_values in zip(bounds_to_array(kind, _column(part, bound, field)).to_pylist(), with_values.tolist(), strict=True):
        if has_values and value is None:
            raise AggregateNotPushed
        if has_values:
            yield value


def _column(part: PlannedFiles, statistic: str, field: NestedField) -> Any:
    name = statistic_column(statistic, field.field_id)
    if name not in part.entries.column_names:
        raise AggregateNotPushed
    return part.entries[name].combine_chunks()


def one_row(spark: SparkSession, struct: SparkStruct, values: Sequence[tuple[NestedField | None, Any]]) -> DataFrame:
    """Return a DataFrame with one row: the values of pushed aggregates, as `PushedScan.aggregates` returns them, in the columns of `struct`."""
    columns = []
    for field, (column, value) in zip(struct.fields, values, strict=True):
        if value is None:
            constant = F.lit(None)
        elif column is None or not isinstance(column.field_type, PrimitiveType):
            constant = F.lit(str(value))
        else:
            constant = literal(column.field_type, value)
        columns.append(constant.cast(field.dataType).alias(field.name))
    return spark.range(1).select(*columns)
