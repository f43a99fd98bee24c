"""COUNT, MIN and MAX of whole columns and of fields of structs out of metadata alone, where it is sure of them; otherwise no answer, and Spark computes.

Exact are counts of rows less those of deletion vectors, counts of nulls, and bounds of types that no writer cuts short, on files without deletes.
Spec: Data File Fields; Deletion Vectors.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.manifest.manifest_columns import statistic_column
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import (
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
from icefloe.kernel.values import bounds_to_array

# Types whose bounds are values of rows; texts and bytes may be cut, and Spark has its own order for others.
_EXACT = (BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType, DateType, TimestampType, TimestamptzType)
COUNT_STAR, COUNT, LEAST, GREATEST = "CountStar", "Count", "Min", "Max"


class NotKnown(Exception):  # noqa: N818 an answer, not a failure
    """Metadata does not say."""


def wanted_columns(aggregation: Mapping[str, Any], schema: Schema) -> list[tuple[str, NestedField | None]]:
    """What Spark asks for: each a kind and its column.

    Raises:
        NotKnown: something else is asked for, or of a column whose metadata cannot tell.
    """
    if aggregation["groupByExpressions"] or not aggregation["aggregateExpressions"]:
        raise NotKnown
    return [_wanted(one, schema) for one in aggregation["aggregateExpressions"]]


def _wanted(one: Mapping[str, Any], schema: Schema) -> tuple[str, NestedField | None]:
    kind, children = one["is"], one["children"]
    if kind == COUNT_STAR:
        return kind, None
    if kind not in (COUNT, LEAST, GREATEST) or one["text"].upper().startswith("COUNT(DISTINCT"):
        raise NotKnown
    if len(children) != 1 or children[0]["is"] != "reference":
        raise NotKnown
    field = _field_at(children[0]["parts"], schema)
    if field is None or not isinstance(field.field_type, PrimitiveType) or (kind != COUNT and not isinstance(field.field_type, _EXACT)):
        raise NotKnown
    return kind, field


def _field_at(path: Sequence[str], schema: Schema) -> NestedField | None:
    """Return the column, or the field of nested structs, at a path of names. Fields of lists and maps have many values in a row, and none is returned."""
    fields: Sequence[NestedField] = schema.fields
    found = None
    for name in path:
        found = next((field for field in fields if field.name == name), None)
        fields = found.field_type.fields if found is not None and isinstance(found.field_type, StructType) else ()
    return found


def needs_statistics(wanted: Sequence[tuple[str, NestedField | None]]) -> bool:
    """Whether more than the numbers of rows is asked for."""
    return any(field is not None for _, field in wanted)


def values_of(wanted: Sequence[tuple[str, NestedField | None]], plan: ScanPlan) -> list[Any]:
    """The answers: counts as ints, and physical values; None for the least and greatest of no values. The plan's files must match whole.

    Raises:
        NotKnown: there are deletes, or a file's counts or bounds are not there or not sure.
    """
    rows = plan.records_after_deletes
    if rows is None or (plan.delete_files and needs_statistics(wanted)):
        raise NotKnown
    return [rows if field is None else _of_column(kind, field, plan) for kind, field in wanted]


def _of_column(kind: str, field: NestedField, plan: ScanPlan) -> Any:
    if kind == COUNT:
        return sum(_values(part, field) for part in plan.parts)
    found = [value for part in plan.parts for value in _bounds(part, field, "lower_bound" if kind == LEAST else "upper_bound")]
    if any(isinstance(value, float) and (value == 0 or math.isnan(value)) for value in found):
        raise NotKnown  # a writer may give -0.0 for 0.0
    return (min if kind == LEAST else max)(found, default=None)


def _counts(part: PlannedFiles, field: NestedField) -> tuple[Any, Any]:
    """Rows and nulls of each file. Raises `NotKnown` where a file does not count its nulls, or not those of all rows."""
    rows, nulls = numpy_of(part.entries["record_count"]), _column(part, "null_value_count", field)
    values = _column(part, "value_count", field)
    if nulls.null_count or values.null_count:
        raise NotKnown
    known = numpy_of(nulls)
    if (numpy_of(values) != rows).any() or (known < 0).any() or (known > rows).any():
        raise NotKnown
    return rows, known


def _values(part: PlannedFiles, field: NestedField) -> int:
    rows, nulls = _counts(part, field)
    return int((rows - nulls).sum())


def _bounds(part: PlannedFiles, field: NestedField, bound: str) -> Iterator[Any]:
    kind = field.field_type
    if not isinstance(kind, PrimitiveType):
        raise NotKnown
    rows, nulls = _counts(part, field)
    with_values = nulls < rows
    if not with_values.any():
        return
    # ORC keeps times by the millisecond.
    if pc.any(pc.equal(pc.utf8_upper(part.entries["file_format"]), "ORC")).as_py():
        raise NotKnown
    if isinstance(kind, FloatType | DoubleType):
        nans = _column(part, "nan_value_count", field)
        if nans.null_count or numpy_of(nans).any():
            raise NotKnown
    for value, has_values in zip(bounds_to_array(kind, _column(part, bound, field)).to_pylist(), with_values.tolist(), strict=True):
        if has_values and value is None:
            raise NotKnown
        if has_values:
            yield value


def _column(part: PlannedFiles, statistic: str, field: NestedField) -> Any:
    name = statistic_column(statistic, field.field_id)
    if name not in part.entries.column_names:
        raise NotKnown
    return part.entries[name].combine_chunks()
