"""`column_statistics`: statistics of columns from manifests, for Spark's cost-based optimizer: null counts, bounds, and numbers of distinct values.

Statistics only affect plans and never results. So bounds are used even if the row with the extreme value may have been deleted. Bounds of strings and bytes are
left out, because Spark does not use them. The average length of strings is not in manifests, so that Spark uses its default for the type.
Spec: Data File Fields; Table Statistics.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import isfinite
from typing import Any

import pyarrow.compute as pc

from icefloe.operations.data_scan import DataScan
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.manifest.manifest_columns import partition_column, statistic_column
from icefloe.spec.metadata.snapshot import Snapshot, count_of
from icefloe.spec.metadata.statistics_file import StatisticsFile
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.puffin.theta_sketch import NDV_PROPERTY
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
    TimestampType,
    TimestamptzType,
)
from icefloe.spec.values import bounds_to_array

# A number of distinct values, which is an estimate, must reach this share of the number of rows.
_ALL_DISTINCT = 0.95
# The maximum number of files whose statistics are all read to find keys: they are most of a manifest, and larger tables are rarely broadcast.
_MOST_FILES_OF_KEYS = 1000
# The maximum number of ancestors that are searched for statistics, because a history may be long.
_MOST_ANCESTORS = 200
# The types for which Spark's optimizer compares bounds.
_COMPARED = (BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType, DateType, TimestampType, TimestamptzType)


def column_statistics(
    plan: ScanPlan, metadata: TableMetadata, columns: Sequence[NestedField], *, rows: int, distinct: Mapping[int, int]
) -> dict[str, dict[str, Any]]:
    """Compute statistics of columns for Spark's optimizer. A statistic that is not known for every file is left out.

    Args:
        plan: The files, with the statistics of all columns.
        metadata: The metadata of the table.
        columns: The columns that are read.
        rows: The number of rows after deletes, which limits every count.
        distinct: The numbers of distinct values from statistics files, by field id.

    Returns:
        By column name, the known fields of Spark's `ColumnStatistics`: `nullCount`, `distinctCount`, `min` and `max`.
    """
    statistics = {}
    for column in columns:
        kind = column.field_type
        if not isinstance(kind, PrimitiveType):
            continue
        fields: dict[str, Any] = {}
        nulls = _null_count(plan, column)
        if nulls is not None:
            fields["nullCount"] = min(nulls, rows)
        values = distinct.get(column.field_id, _count_partitions(plan, metadata, column))
        if values is not None:
            fields["distinctCount"] = min(values, rows)
        if isinstance(kind, _COMPARED) and (bounds := _bounds(plan, column, kind)) is not None:
            fields["min"], fields["max"] = bounds
        if fields:
            statistics[column.name] = fields
    return statistics


def distinct_values(scan: DataScan) -> dict[int, int]:
    """Return the numbers of distinct values, by field id, from the newest statistics file of the scan's snapshot or its ancestors; empty if there is none.

    The statistics of an ancestor are used only if the table has at most doubled since, because Spark estimates joins too large if the number of distinct
    values is too small.

    Spec: Table Statistics.
    """
    snapshot, files = scan.snapshot(), {file.snapshot_id: file for file in scan.metadata.statistics}
    if snapshot is None or not files:
        return {}
    lineage = islice(ancestors(scan.metadata, snapshot.snapshot_id), _MOST_ANCESTORS)
    counted = next((candidate for candidate in lineage if candidate.snapshot_id in files), None)
    if counted is None or (counted is not snapshot and not _is_alike(counted, snapshot)):
        return {}
    return _distinct_values_of(files[counted.snapshot_id])


def exact_distinct_values(scan: DataScan) -> dict[int, int]:
    """Return the numbers of distinct values, by field id, from the statistics file of the scan's own snapshot; empty if it has no statistics file."""
    snapshot = scan.snapshot()
    file = None if snapshot is None else next((file for file in scan.metadata.statistics if file.snapshot_id == snapshot.snapshot_id), None)
    return {} if file is None else _distinct_values_of(file)


def _distinct_values_of(file: StatisticsFile) -> dict[int, int]:
    counts = {}
    for blob in file.blob_metadata:
        count = count_of(blob.properties.get(NDV_PROPERTY))
        if len(blob.fields) == 1 and count is not None:
            counts[blob.fields[0]] = count
    return counts


def _is_alike(counted: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether `snapshot` has at most twice the rows of `counted`, for which statistics exist; False if a number of rows is unknown."""
    before, now = (count_of(at.summary.get("total-records")) for at in (counted, snapshot))
    return before is not None and now is not None and now <= 2 * before


def unique_columns(plan: ScanPlan, columns: Schema, distinct: Mapping[int, int]) -> list[str]:
    """Return the names of columns that seem to have a different value in each row, so that a join on such a column matches at most one row of the table.

    A column is returned if it is the only identifier field; if it has about as many distinct values as rows; or if it has dense whole numbers without nulls, as
    generated keys do: the value ranges of the files do not overlap, and together contain exactly as many numbers as there are rows. With a looser rule, a
    column that has the same value in most rows could be returned, and Spark could then broadcast the huge result of a join on it.

    Args:
        plan: The planned files. All their rows count, including deleted rows.
        columns: The columns to test. Density is tested only for columns whose bounds and null counts are in the plan.
        distinct: The known numbers of distinct values, by field id.
    """
    rows = sum(pc.sum(part.entries["record_count"]).as_py() or 0 for part in plan.parts)
    return [
        field.name
        for field in columns.fields
        if plan.schema.identifier_field_ids == (field.field_id,)
        or distinct.get(field.field_id, -1) >= rows * _ALL_DISTINCT
        or (isinstance(field.field_type, IntegerType | LongType) and _is_dense(plan, field, field.field_type, rows))
    ]


def needs_bounds_of_keys(plan: ScanPlan, columns: Schema) -> bool:
    """Return whether it is worth planning again with all statistics, so that `unique_columns` can recognize required columns of whole numbers as keys.

    The plan has no bounds of these columns, because Spark pushes IS NOT NULL only for optional columns of a join. False if there are no such columns, or if the
    plan has over `_MOST_FILES_OF_KEYS` files.
    """
    keys = [field for field in columns.fields if field.required and isinstance(field.field_type, IntegerType | LongType)]
    return bool(keys) and sum(map(len, plan.parts)) <= _MOST_FILES_OF_KEYS


def _is_dense(plan: ScanPlan, column: NestedField, kind: PrimitiveType, rows: int) -> bool:
    if _null_count(plan, column) != 0:
        return False
    least, greatest = (list(_bounds_of_files(plan, bound, column, kind)) for bound in ("lower_bound", "upper_bound"))
    if not least or None in least or None in greatest:
        return False
    ranges = sorted(zip(least, greatest, strict=True))
    are_apart = all(before[1] < after[0] for before, after in pairwise(ranges))
    return are_apart and sum(high - low + 1 for low, high in ranges) == rows


def _null_count(plan: ScanPlan, column: NestedField) -> int | None:
    counts = [_values(part, "null_value_count", column) for part in plan.parts]
    if any(count is None or count.null_count for count in counts):
        return None
    return max(0, sum(pc.sum(count).as_py() or 0 for count in counts))


def _count_partitions(plan: ScanPlan, metadata: TableMetadata, column: NestedField) -> int | None:
    """Return the number of distinct values of a column from its partition values; None if not every spec of the plan has an identity field of the column."""
    values: set[Any] = set()
    for part in plan.parts:
        fields = metadata.spec_by_id(part.spec_id).fields
        identity = next(
            (field for field in fields if field.source_id == column.field_id and isinstance(field.transform, IdentityTransform)), None
        )
        if identity is None:
            return None
        values.update(pc.unique(part.entries[partition_column(identity.field_id)]).to_pylist())
    return len(values - {None}) if plan.parts else None


def _bounds(plan: ScanPlan, column: NestedField, kind: PrimitiveType) -> tuple[Any, Any] | None:
    """Return the least and the greatest value: dates as days and timestamps as microseconds since 1970, decimals as floats.

    Return None if no file may contain values, a file that may contain values has no bounds, or a bound is infinite.
    """
    least, greatest = (list(_bounds_of_files(plan, bound, column, kind)) for bound in ("lower_bound", "upper_bound"))
    if not least or None in least or None in greatest:
        return None
    bounds = min(least), max(greatest)
    if isinstance(kind, DecimalType | FloatType | DoubleType):
        bounds = float(bounds[0]), float(bounds[1])  # Spark compares bounds of any type as doubles
        return bounds if all(map(isfinite, bounds)) else None
    return bounds


def _bounds_of_files(plan: ScanPlan, bound: str, column: NestedField, kind: PrimitiveType) -> Iterator[Any]:
    """Yield the bound of each file that may contain values, None if it is unknown. `bound` is `lower_bound` or `upper_bound`."""
    for part in plan.parts:
        nulls, bounds = _values(part, "null_value_count", column), _values(part, bound, column)
        if bounds is None:
            yield None
            continue
        known = bounds_to_array(kind, bounds)
        has_values = pc.fill_null(pc.less(nulls, part.entries["record_count"].combine_chunks()), True) if nulls is not None else None
        yield from (known if has_values is None else known.filter(has_values)).to_pylist()


def _values(part: PlannedFiles, statistic: str, column: NestedField) -> Any:
    name = statistic_column(statistic, column.field_id)
    return part.entries[name].combine_chunks() if name in part.entries.column_names else None
