"""`ORDER BY column LIMIT n`: which planned files may have one of the first n rows, by the bounds, counts and partition values of the column.

Each file certainly has some rows up to a place in the order. Once files together have n rows up to a place, a file whose first row can only be after that place
is not read. Rows count only if they certainly exist: as many as the deletes of the file may delete do not count, and none of a file in which a row may not
match the filter. In doubt a file is kept. Spark sorts NaN above all other numbers, and both zeros as equal.
Spec: Scan Planning; Appendix D (the order of values).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.scan.pruning import column_range, known_counts, strict_mask
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.metrics_evaluator import ColumnRange, Mask, is_float, range_of_values
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest.manifest_columns import ManifestColumns, partition_column, statistic_column
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

# The types that Spark sorts in the order of their bounds. Uuids are texts in Spark.
_SORTED_AS_BOUNDS = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
_Counts = NDArray[np.float64]  # numbers of rows, of which some are infinite
_Places = NDArray[np.int64]
_NOWHERE = 2**62  # the place of the first row of a file without rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The first column of an ORDER BY.

    Attributes:
        field_id: The column.
        kind: Its type, for which `is_sorted_as_bounds` is true.
        is_descending: Whether the order is descending.
        nulls_first: Whether nulls are before all other values.
        is_only_column: Whether no further column orders the rows with equal values, so that any of them may be among the first.
    """

    field_id: int
    kind: PrimitiveType
    is_descending: bool
    nulls_first: bool
    is_only_column: bool


def is_sorted_as_bounds(kind: IcebergType) -> bool:
    """Return whether Spark sorts the values of a type in the order of their bounds."""
    return isinstance(kind, _SORTED_AS_BOUNDS)


def files_of_first_rows(
    plan: ScanPlan, order: RowOrder, count: int, *, row_filter: BooleanExpression, specs: Mapping[int, PartitionSpec]
) -> list[Mask]:
    """Return for each part of a plan a mask of the files that may have one of the first rows.

    Args:
        plan: The planned files, with the statistics of the column. Statistics that the plan does not have are unknown.
        order: The order of the rows.
        count: The number of first rows, at least 1.
        row_filter: The bound filter that rows must match.
        specs: The partition specs, by id.
    """
    if not plan.parts:
        return []
    files = [_SortedFiles.of(part, specs[part.spec_id], order, row_filter, plan) for part in plan.parts]
    first, rows = _Ranks.of(files, order).rows_by_place(files, order)
    places = np.concatenate([place for place, _ in rows])
    certain = np.concatenate([number for _, number in rows])
    numbers = np.tile(np.arange(len(first)), len(rows))
    sequence = np.argsort(places, kind="stable")
    enough = int(np.searchsorted(np.cumsum(certain[sequence]), count))
    if enough == len(sequence):
        is_needed = np.ones(len(first), np.bool_)
    else:
        place = places[sequence[enough]]
        is_needed = first < place if order.is_only_column else first <= place
        counted = sequence[: enough + 1]
        is_needed[numbers[counted][certain[counted] > 0]] = True
    return np.split(is_needed, np.cumsum([len(part) for part in plan.parts])[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _SortedFiles:
    """What is known of the sorted column in the files of a part, as arrays.

    Attributes:
        values: The range of the column in each file.
        rows: The number of rows that certainly exist and match the filter.
        least_nulls: The least number of rows of these with null.
        most_nulls: The greatest number of rows with null.
        least_nans: The least number of rows of these with NaN.
        most_nans: The greatest number of rows with NaN.
    """

    values: ColumnRange
    rows: _Counts
    least_nulls: _Counts
    most_nulls: _Counts
    least_nans: _Counts
    most_nans: _Counts

    @classmethod
    def of(cls, part: PlannedFiles, spec: PartitionSpec, order: RowOrder, row_filter: BooleanExpression, plan: ScanPlan) -> "_SortedFiles":
        columns = ManifestColumns(part.entries)
        records = known_counts(columns, "record_count")[0].astype(np.float64)
        # Of the partition fields only identity fields have the values of the rows.
        identities = PartitionSpec(*(item for item in spec.fields if isinstance(item.transform, IdentityTransform)), spec_id=spec.spec_id)
        matches = strict_mask(columns, row_filter, identities, plan.schema)
        deleted = np.where(matches, _most_deleted(part), np.inf)
        identity = next((item.field_id for item in identities.fields if item.source_id == order.field_id), None)
        if identity is None:
            values = column_range(columns, order.field_id, order.kind)
            nulls, nans = (_counts_of_rows(columns, name, order) for name in ("null_value_count", "nan_value_count"))
        else:
            values = range_of_values(order.kind, part.entries[partition_column(identity)])
            nulls, nans = np.where(values.may_have_null, records, 0), np.where(values.may_have_nan, records, 0)
        return cls(
            values=values,
            rows=np.maximum(records - deleted, 0),
            least_nulls=np.fmax(nulls - deleted, 0),
            most_nulls=np.where(np.isnan(nulls), records, nulls),
            least_nans=np.fmax(nans - deleted, 0),
            most_nans=np.where(np.isnan(nans), records, nans),
        )


def _most_deleted(part: PlannedFiles) -> _Counts:
    """Return the number of rows of each file that its deletes delete at most; infinite for equality deletes."""
    if part.delete_offsets is None or part.delete_indices is None:
        return np.zeros(len(part))
    rows = np.array(
        [np.inf if file.content is FileContent.EQUALITY_DELETES else file.record_count for file in part.delete_files], np.float64
    )
    files = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
    return np.bincount(files, weights=rows[part.delete_indices], minlength=len(part)).astype(np.float64)


def _counts_of_rows(columns: ManifestColumns, statistic: str, order: RowOrder) -> _Counts:
    """Return a count of the column in each file; NaN where it is unknown, or the values that were counted are not the rows."""
    if statistic == "nan_value_count" and not is_float(order.kind):
        return np.zeros(len(columns))
    records, _ = known_counts(columns, "record_count")
    values, are_known = known_counts(columns, statistic_column("value_count", order.field_id))
    counts, is_known = known_counts(columns, statistic_column(statistic, order.field_id))
    return np.where(is_known & (counts <= records) & (~are_known | (values == records)), counts, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranks:
    """Places in the order of rows. 0 is before all values that are bounds, and `end` after them.

    Attributes:
        first: The place of the first value of each file, besides null and NaN; the value may be later.
        last: The place of its last value; the value may be earlier.
        end: The place after all values.
    """

    first: _Places
    last: _Places
    end: int

    @classmethod
    def of(cls, files: list[_SortedFiles], order: RowOrder) -> "_Ranks":
        kind = files[0].values.lower.type
        bounds = pa.concat_arrays([getattr(part.values, name).cast(kind) for name in ("lower", "upper") for part in files])
        # Both zeros have one rank.
        ranks = np.where(numpy_of(pc.is_valid(bounds)), numpy_of(pc.rank(bounds, tiebreaker="dense").cast(pa.int64())), 0)
        lower, upper = np.split(ranks, 2)
        end = int(ranks.max(initial=0)) + 1
        if order.is_descending:
            lower, upper = (np.where(bound > 0, end - bound, 0) for bound in (upper, lower))
        return cls(first=lower, last=np.where(upper > 0, upper, end), end=end)

    def rows_by_place(self, files: list[_SortedFiles], order: RowOrder) -> tuple[_Places, list[tuple[_Places, _Counts]]]:
        """Return the place of the first row of each file; and pairs of a place of each file and the number of rows that it certainly has there or before.

        The rows of a pair are not counted in the pairs before it.
        """
        may_have = {kind: np.concatenate([getattr(part.values, f"may_have_{kind}") for part in files]) for kind in ("null", "nan", "value")}
        rows, least_nulls, most_nulls, least_nans, most_nans = (
            np.concatenate([getattr(part, name) for part in files])
            for name in ("rows", "least_nulls", "most_nulls", "least_nans", "most_nans")
        )
        null, nan = -1 if order.nulls_first else self.end + 1, 0 if order.is_descending else self.end
        first = np.where(may_have["value"], self.first, _NOWHERE)
        first = np.where(may_have["nan"], np.minimum(first, nan), first)
        first = np.where(may_have["null"], np.minimum(first, null), first)
        # The kinds of rows in their order: the place of the last of them, and how many rows there are at least and at most.
        nothing = np.zeros(len(rows))
        kinds = [(self.last, nothing, nothing + np.inf)]
        kinds.insert(0 if order.is_descending else 1, (np.full_like(first, nan), least_nans, most_nans))
        kinds.insert(0 if order.nulls_first else 2, (np.full_like(first, null), least_nulls, most_nulls))
        pairs, total = [], nothing
        for number, (place, least, _) in enumerate(kinds):
            later = sum((most for _, _, most in kinds[number + 1 :]), nothing)
            certain = np.maximum(rows - later, total + least)
            pairs.append((place, certain - total))
            total = certain
        return first, pairs
