"""Pruning by the filter of a `ScanContext`: which manifests may have files with matching rows, which files may have matching rows, and which match entirely.

A manifest is tested by its partition summaries, under the partition spec that it was written with; all manifests of a spec are tested in one call. A data file
is tested by its partition value, column bounds and counts; all files of a manifest are tested in one call. `spec/manifest/manifest_columns.py` describes the
columns; `spec/expressions/metrics_evaluator.py` compares a predicate with bounds. Spec: Scan Planning; Manifest Lists.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import ManifestFormatError
from icefloe.scan.decisions import Reason
from icefloe.scan.file_objects import partition_tuples
from icefloe.scan.pruning_explanation import PredicateOutcome, explain_predicate
from icefloe.spec.arrow_values import array_of, fill_nulls, numbers_array, numpy_of, scalar_of
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator, predicates, simplify
from icefloe.spec.expressions.metrics_evaluator import (
    ColumnRange,
    Mask,
    is_float,
    may_match,
    must_match,
    range_of_bounds,
    range_of_values,
    tree_mask,
)
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.projections import inclusive_projection, is_decided, strict_projection
from icefloe.spec.manifest.manifest_columns import ManifestColumns, Statistic, partition_column, statistic_column
from icefloe.spec.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type, spec_schema
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, partition_path
from icefloe.spec.partitioning.transforms import WRAPPED_HOURS, HourTransform, TruncateTransform, UnknownTransform
from icefloe.spec.schema.metadata_columns import FILE, SPEC_ID, is_reserved
from icefloe.spec.schema.schema import Schema
from icefloe.spec.tolerance import Tolerance
from icefloe.spec.types import GeographyType, GeometryType, IntegerType, LongType, PrimitiveType, StructType, UnknownType
from icefloe.spec.values import bounds_to_array, physical_arrow_type, to_human

_UNKNOWN = PartitionFieldSummary(contains_null=True)
# Metadata columns that have the same value in all rows of a file, which its manifest entry contains.
_OF_FILES = (FILE.field_id, SPEC_ID.field_id)


@dataclass(frozen=True, kw_only=True)
class ScanContext:
    """A bound filter on a table, and the options of the scan. `scan_planner.plan_scan` describes the options."""

    metadata: TableMetadata
    schema: Schema
    bound: BooleanExpression
    explain: bool
    include_statistics: bool
    find_covered: bool
    every_delete: bool
    include_tested: bool = False
    statistics_of: frozenset[int] = frozenset()
    # The snapshots whose added files an incremental scan reads; None if the scan reads one snapshot.
    added_in: frozenset[int] | None = None
    tolerance: Tolerance = Tolerance.DEFAULT

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        """The partition specs by id, with the transforms that pruning may rely on."""
        return {spec.spec_id: _without_wrapped_fields(spec, self.metadata) for spec in self.metadata.partition_specs}

    @cached_property
    def partition_types(self) -> dict[int, StructType]:
        """The types of partition tuples, by spec id."""
        return {spec_id: spec_partition_type(self.metadata, spec_id) for spec_id in self.specs}

    @property
    def is_unfiltered(self) -> bool:
        """True if the filter matches every row."""
        return isinstance(self.bound, AlwaysTrue)

    @cached_property
    def primitive_ids(self) -> Sequence[int]:
        """Field ids of the columns that may have statistics, ascending."""
        return sorted(field_id for field_id in self.schema.field_ids if self.schema.find_type(field_id).is_primitive)

    def partition_texts(self, spec_id: int, files: Any) -> list[str]:
        """Return the partition of each file of a partition spec as text, such as `origin=JFK`."""
        spec, schema = self.metadata.spec_by_id(spec_id), spec_schema(self.metadata, spec_id)
        return [partition_path(spec, schema, partition) for partition in partition_tuples(files, self.partition_types[spec_id])]


def manifest_mask(manifests: Sequence[ManifestFile], bound: BooleanExpression, specs: Mapping[int, PartitionSpec], schema: Schema) -> Mask:
    """Return a mask of the manifests that may have a matching row. A manifest is False only if its partition summary excludes that; counts are not used.

    Args:
        manifests: The manifests of a manifest list.
        bound: The filter, bound to `schema`.
        specs: The partition specs, by id.
        schema: The schema of the scan.

    Raises:
        ManifestFormatError: The partition spec of a manifest is not among `specs`.
        InvalidFilterError: The filter is not bound.

    Spec: Scan Planning.
    """
    mask = np.ones(len(manifests), dtype=bool)
    for test in manifest_evaluators(manifests, bound, specs, schema):
        mask[test.positions] = test.mask
    return mask


def explain_manifests(
    manifests: Sequence[ManifestFile], bound: BooleanExpression, specs: Mapping[int, PartitionSpec], schema: Schema
) -> list[str]:
    """Return for each manifest a text with the partition bound that excludes it, such as `partition day: upper 2013-03 < 2013-06`; empty if none does."""
    explanations = [""] * len(manifests)
    for test in manifest_evaluators(manifests, bound, specs, schema):
        for index, position in enumerate(test.positions):
            if not test.mask[index]:
                explanations[int(position)] = test.explanation(index)
    return explanations


def manifest_evaluators(
    manifests: Sequence[ManifestFile], bound: BooleanExpression, specs: Mapping[int, PartitionSpec], schema: Schema
) -> list["ManifestEvaluator"]:
    """Group manifests by partition spec, and return one evaluator for each spec. Raises `ManifestFormatError` for a spec that is not among `specs`."""
    positions: dict[int, list[int]] = {}
    for position, manifest in enumerate(manifests):
        positions.setdefault(manifest.partition_spec_id, []).append(position)
    tests = []
    for spec_id, positions_of_spec in positions.items():
        if spec_id not in specs:
            path = manifests[positions_of_spec[0]].manifest_path
            raise ManifestFormatError(
                f"manifest {path} was written with partition spec {spec_id}, which the table's metadata does not have",
                path=path,
                next_step="the metadata file is damaged or belongs to another table; use an older metadata file that has the spec",
            )
        spec = specs[spec_id]
        summaries = [summaries_of(manifests[position], spec) for position in positions_of_spec]
        tests.append(ManifestEvaluator(np.array(positions_of_spec), spec, inclusive_projection(bound, spec, schema), summaries))
    return tests


@dataclass(frozen=True)
class ManifestEvaluator:
    """The test of the manifests of one partition spec by their partition summaries.

    Attributes:
        positions: The positions of the manifests in the manifest list.
        spec: The partition spec.
        projected: The filter, projected to the partition fields.
        summaries: For each manifest one summary for each field of the spec.
    """

    positions: np.ndarray[tuple[int], np.dtype[np.int64]]
    spec: PartitionSpec
    projected: BooleanExpression
    summaries: Sequence[tuple[PartitionFieldSummary, ...]]
    _ranges: dict[int, ColumnRange] = field(default_factory=dict)

    @cached_property
    def mask(self) -> Mask:
        """A mask of the manifests of this spec that may have a matching row."""
        return self._mask(self.projected)

    def _mask(self, expression: BooleanExpression) -> Mask:
        return tree_mask(expression, len(self.summaries), self.may_match)

    def may_match(self, predicate: BoundPredicate) -> Mask:
        """Return a mask of the manifests that may have a file whose partition value matches; the predicate is on a field of the spec."""
        return may_match(predicate, self._range(predicate))

    def explanation(self, index: int) -> str:
        """Return the text of the partition bound that rules out the manifest at position `index` of this object."""
        return explain_predicate(self.projected, self._mask, lambda predicate: self._outcome(predicate).explanation(index), index)

    def _outcome(self, predicate: BoundPredicate) -> PredicateOutcome:
        partition_field = next(item for item in self.spec.fields if item.field_id == predicate.field.field_id)
        return PredicateOutcome(
            predicate=predicate,
            column=self._range(predicate),
            subject=f"partition {partition_field.name}",
            bound="",
            exact=False,
            human=partition_field.transform.to_human,
        )

    def _range(self, predicate: BoundPredicate) -> ColumnRange:
        field_id = predicate.field.field_id
        if field_id not in self._ranges:
            index = [item.field_id for item in self.spec.fields].index(field_id)
            summary_range = _summary_range(predicate, [summaries[index] for summaries in self.summaries])
            self._ranges[field_id] = _without_wrapped_hours(summary_range) if _is_hour(self.spec, predicate) else summary_range
        return self._ranges[field_id]


def summaries_of(manifest: ManifestFile, spec: PartitionSpec) -> tuple[PartitionFieldSummary, ...]:
    """Return the partition summary of the manifest for each field of the spec. If the manifest list has a wrong number of them, all are unknown."""
    summaries = manifest.partitions
    return summaries if summaries is not None and len(summaries) == len(spec.fields) else (_UNKNOWN,) * len(spec.fields)


def _summary_range(predicate: BoundPredicate, summaries: Sequence[PartitionFieldSummary]) -> ColumnRange:
    lower = array_of([summary.lower_bound for summary in summaries], pa.binary())
    upper = array_of([summary.upper_bound for summary in summaries], pa.binary())
    null = np.array([summary.contains_null for summary in summaries], dtype=bool)
    # Missing bounds mean that all values are null or NaN; this is relied on only if the flags for nulls and NaNs agree with it. Spec: Manifest Lists, field
    # summary.
    empty = [
        summary is not _UNKNOWN
        and summary.lower_bound is None
        and summary.upper_bound is None
        and (summary.contains_null or summary.contains_nan is True)
        for summary in summaries
    ]
    return range_of_bounds(
        predicate.kind,
        bounds_to_array(predicate.kind, lower),
        bounds_to_array(predicate.kind, upper),
        may_have_null=null,
        may_have_nan=np.array([summary.contains_nan is not False for summary in summaries], dtype=bool),
        may_have_value=~np.array(empty, dtype=bool),
    )


def _is_hour(spec: PartitionSpec, predicate: BoundPredicate) -> bool:
    return any(item.field_id == predicate.field.field_id and isinstance(item.transform, HourTransform) for item in spec.fields)


def _without_wrapped_hours(column: ColumnRange) -> ColumnRange:
    """Return the range of an hour partition without bounds that may have overflowed: such a partition may have very early or very late times."""
    least, greatest = WRAPPED_HOURS
    may_wrap = pc.or_kleene(pc.less_equal(column.lower, least), pc.greater_equal(column.upper, greatest))
    if not pc.any(may_wrap).as_py():
        return column
    unknown = scalar_of(None, column.lower.type)
    lower, upper = (pc.if_else(fill_nulls(may_wrap, False), unknown, bound) for bound in (column.lower, column.upper))
    return replace(column, lower=lower, upper=upper)


def _without_wrapped_fields(spec: PartitionSpec, metadata: TableMetadata) -> PartitionSpec:
    """Return the spec, with unknown transforms for truncate fields whose source column was an int and is a long now: their values cannot be compared.

    Truncating the smallest ints overflows, and so gives other values than truncating the same numbers as longs. A file does not record the type that it was
    written with.
    """
    return PartitionSpec(*(_as_filtered(field, metadata) for field in spec.fields), spec_id=spec.spec_id)


def _as_filtered(field: PartitionField, metadata: TableMetadata) -> PartitionField:
    transform = field.transform
    if not isinstance(transform, TruncateTransform) or transform.wrapped_result(IntegerType()) is None:
        return field
    kinds = {type(schema.find_type(field.source_id)) for schema in metadata.schemas if field.source_id in schema}
    return replace(field, transform=UnknownTransform(str(transform))) if {IntegerType, LongType} <= kinds else field


def inclusive_mask(columns: ManifestColumns, bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> Mask:
    """Return a mask of the files that may have a matching row. A file is False only if its partition value, bounds and counts exclude that.

    Args:
        columns: The files of one manifest, with the columns of the `required_statistics`. Missing columns count as unknown statistics.
        bound: The filter, bound to `schema`.
        spec: The partition spec of the manifest.
        schema: The schema of the scan.

    Raises:
        InvalidFilterError: The filter is not bound.

    Spec: Scan Planning, inclusive evaluation.
    """
    return FileMetricsEvaluator(columns, bound, spec, schema).may_match


def strict_mask(columns: ManifestColumns, bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> Mask:
    """Return a mask of the files in which every row matches. The arguments are those of `inclusive_mask`. Spec: Scan Planning, strict evaluation."""
    return FileMetricsEvaluator(columns, bound, spec, schema).must_match


def explain(columns: ManifestColumns, bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> list[tuple[Reason, str]]:
    """Return for each file the reason why it is read or skipped, and a text about the bound or value that excludes it, empty if none does."""
    test = FileMetricsEvaluator(columns, bound, spec, schema)
    return [test.explain(index) for index in range(len(columns))]


def required_statistics(bound: BooleanExpression, spec: PartitionSpec, schema: Schema, *, strict: bool = False) -> set[Statistic]:
    """Return the statistics that `inclusive_mask` uses, and with `strict` also those that `strict_mask` uses.

    A predicate that partition values decide needs no statistics. A comparison needs counts besides bounds, because a column with only nulls has no bounds.
    """
    required: set[Statistic] = set()
    for predicate in predicates(bound):
        if not _has_statistics(predicate) or is_decided(predicate, spec, schema):
            continue
        names = ["value_count", "null_value_count"]
        if is_float(predicate.kind):
            names.append("nan_value_count")
        if strict or predicate.operation is not PredicateOperator.IS_NULL:
            names += ["lower_bound", "upper_bound"]
        required |= {(name, predicate.field.field_id) for name in names}
    return required


@dataclass(frozen=True)
class FileMetricsEvaluator:
    """The test of the files of one manifest with a bound filter. Every mask has one element for each file, and is computed once."""

    columns: ManifestColumns
    bound: BooleanExpression
    spec: PartitionSpec
    schema: Schema
    _ranges: dict[tuple[str, int], ColumnRange] = field(default_factory=dict)
    _masks: dict[tuple[str, int], Mask] = field(default_factory=dict)  # by the kind of test and the part of the filter

    @cached_property
    def may_match(self) -> Mask:
        """Mask of the files that may have a matching row; files without rows are False."""
        mask: Mask = self._may(self.bound) & (self._records != 0)
        return mask

    @cached_property
    def must_match(self) -> Mask:
        """Mask of the files in which every row matches."""
        mask: Mask = self._tree(self.bound, self._leaf_must) | (self._records == 0)
        return mask

    @cached_property
    def partition_may_match(self) -> Mask:
        """Mask of the files whose partition value does not exclude a matching row."""
        return self._partition_may(self.bound)

    def residuals(self, files: Mask) -> tuple[list[BooleanExpression], NDArray[np.int64]]:
        """Return the residual filters of files: what remains of the filter after their partition values have decided some predicates.

        Args:
            files: A mask of files.

        Returns:
            The distinct residuals, and for each file of the mask the index of its residual.
        """
        leaves = list(dict.fromkeys(predicates(self.bound)))
        outcomes = np.zeros((int(files.sum()), len(leaves)), dtype=np.int8)
        for position, leaf in enumerate(leaves):
            may, must = self._partition_masks[leaf]
            outcomes[:, position] = np.where(must[files], 1, np.where(may[files], 0, -1))
        if not outcomes.any():
            return [self.bound], np.zeros(len(outcomes), dtype=np.int64)
        distinct, index = np.unique(outcomes, axis=0, return_inverse=True)
        decided = {0: None, 1: True, -1: False}
        distinct_residuals = [
            simplify(self.bound, {leaf: decided[int(code)] for leaf, code in zip(leaves, row, strict=True)}.get) for row in distinct
        ]
        return distinct_residuals, index.reshape(-1)

    def explain(self, index: int) -> tuple[Reason, str]:
        """Return the reason why the file at `index` is read or skipped, and a text about the bound or value that excludes it, empty if none does."""
        if self._records[index] == 0:
            return Reason.NO_ROWS, ""
        if self.may_match[index]:
            return (Reason.ALL_MATCH if self.must_match[index] else Reason.MAY_MATCH), ""
        if not any(predicates(self.bound)):
            return Reason.NEVER_TRUE, ""
        if not self.partition_may_match[index]:
            return Reason.BY_PARTITION, explain_predicate(
                self.bound, self._partition_may, lambda leaf: self._explanation(leaf, index), index
            )
        return Reason.BY_METRICS, explain_predicate(self.bound, self._may, lambda leaf: self._explanation(leaf, index), index)

    # ---- masks ----

    @cached_property
    def _records(self) -> NDArray[np.int64]:
        return known_counts(self.columns, "record_count")[0]

    def _tree(self, expression: BooleanExpression, leaf: Callable[[BoundPredicate], Mask]) -> Mask:
        return tree_mask(expression, len(self.columns), leaf)

    def _may(self, expression: BooleanExpression) -> Mask:
        return self._mask_of("may", expression, lambda leaf: self._partition_masks[leaf][0] & self._metric_may(leaf))

    def _partition_may(self, expression: BooleanExpression) -> Mask:
        return self._mask_of("partition", expression, lambda leaf: self._partition_masks[leaf][0])

    def _mask_of(self, test: str, expression: BooleanExpression, leaf: Callable[[BoundPredicate], Mask]) -> Mask:
        """Return the mask of a subexpression of the filter. It is cached, because the explanations of many files need the same masks."""
        key = (test, id(expression))
        if key not in self._masks:
            self._masks[key] = self._tree(expression, leaf)
        return self._masks[key]

    def _leaf_must(self, leaf: BoundPredicate) -> Mask:
        return self._partition_masks[leaf][1] | must_match(leaf, self._metrics(leaf))

    def _metric_may(self, leaf: BoundPredicate) -> Mask:
        return may_match(leaf, self._metrics(leaf))

    @cached_property
    def _partition_masks(self) -> Mapping[BoundPredicate, tuple[Mask, Mask]]:
        """For each predicate two masks of the files: it may match a row, it must match every row. They follow from partition values, `_file` and `_spec_id`."""
        return {
            leaf: self._place_masks(leaf) if leaf.field.field_id in _OF_FILES else self._projection_masks(leaf)
            for leaf in predicates(self.bound)
        }

    def _projection_masks(self, leaf: BoundPredicate) -> tuple[Mask, Mask]:
        return (
            self._projected_may(self._projections[leaf]),
            self._tree(strict_projection(leaf, self.spec, self.schema), lambda test: must_match(test, self._partition(test))),
        )

    @cached_property
    def _projections(self) -> Mapping[BoundPredicate, BooleanExpression]:
        """For each predicate its inclusive projection: the condition on partition values without which no row of a file can match."""
        return {leaf: inclusive_projection(leaf, self.spec, self.schema) for leaf in predicates(self.bound)}

    def _projected_may(self, projected: BooleanExpression) -> Mask:
        return self._mask_of("projected", projected, lambda test: may_match(test, self._partition(test)))

    def _place_masks(self, leaf: BoundPredicate) -> tuple[Mask, Mask]:
        column = self._of_file(leaf)
        return may_match(leaf, column), must_match(leaf, column)

    def _of_file(self, leaf: BoundPredicate) -> ColumnRange:
        """Return the range of the metadata column `_file` or `_spec_id` in each file, which is a single value."""
        if leaf.field.field_id == FILE.field_id:
            return range_of_values(leaf.kind, self.columns.entries.column("file_path"))
        spec_ids = numbers_array(np.full(len(self.columns), self.spec.spec_id, dtype=np.int32), pa.int32())
        return range_of_values(leaf.kind, spec_ids)

    def _partition(self, projected: BoundPredicate) -> ColumnRange:
        key = ("partition", projected.field.field_id)
        if key not in self._ranges:
            values = self.columns.entries.column(partition_column(projected.field.field_id))
            values_range = range_of_values(projected.kind, values)
            self._ranges[key] = _without_wrapped_hours(values_range) if _is_hour(self.spec, projected) else values_range
        return self._ranges[key]

    def _metrics(self, leaf: BoundPredicate) -> ColumnRange:
        key = ("column", leaf.field.field_id)
        if key not in self._ranges:
            self._ranges[key] = metrics_range(self.columns, leaf)
        return self._ranges[key]

    # ---- explanation ----

    def _explanation(self, leaf: BoundPredicate, index: int) -> str:
        if self._partition_masks[leaf][0][index]:
            return self._outcome(leaf, self._metrics(leaf), leaf.column, None).explanation(index)
        if leaf.field.field_id in _OF_FILES:
            return self._outcome(leaf, self._of_file(leaf), leaf.column, to_human).explanation(index)
        return explain_predicate(self._projections[leaf], self._projected_may, lambda test: self._partition_explanation(test, index), index)

    def _partition_explanation(self, test: BoundPredicate, index: int) -> str:
        partition_field = next(item for item in self.spec.fields if item.field_id == test.field.field_id)
        human = partition_field.transform.to_human
        return self._outcome(test, self._partition(test), f"partition {partition_field.name}", human).explanation(index)

    def _outcome(self, leaf: BoundPredicate, column: ColumnRange, subject: str, human: Any) -> PredicateOutcome:
        return PredicateOutcome(
            predicate=leaf,
            column=column,
            subject=subject,
            bound="bound",
            exact=human is not None,
            human=human or to_human,
        )


def metrics_range(columns: ManifestColumns, leaf: BoundPredicate) -> ColumnRange:
    """Return the range of a predicate's column in each file, from the statistics columns.

    The range is unknown for a struct, list, map or variant, whose counts are not counts of rows, and for metadata columns, which files store only partly or not
    at all.
    """
    if not _has_statistics(leaf):
        count = len(columns)
        kind = leaf.field.field_type
        bounds = pa.nulls(count, physical_arrow_type(kind) if isinstance(kind, PrimitiveType) else pa.null())
        unknown = np.ones(count, dtype=bool)
        return ColumnRange(lower=bounds, upper=bounds, may_have_null=unknown, may_have_nan=unknown & False, may_have_value=unknown)
    return column_range(columns, leaf.field.field_id, leaf.kind)


def _has_statistics(leaf: BoundPredicate) -> bool:
    return leaf.field.field_type.is_primitive and not is_reserved(leaf.field.field_id)


def column_range(columns: ManifestColumns, field_id: int, kind: PrimitiveType) -> ColumnRange:
    """Return the range of a primitive column in each file, from the statistics columns.

    A count is used only if it is present and not negative; and if the value count is present, it must cover every row of the file. Bounds of geometries and
    geographies are ignored, because they are corners of boxes, not bounds of single values.

    Spec: Data File Fields.
    """
    records, _ = known_counts(columns, "record_count")
    values, values_known = known_counts(columns, statistic_column("value_count", field_id))
    nulls, nulls_known = known_counts(columns, statistic_column("null_value_count", field_id))
    complete = (records >= 0) & (~values_known | (values >= records))
    total = np.maximum(records, values)  # used only where `complete` is true, because an unknown count is -1
    nulls_known = nulls_known & complete
    null_rows = np.where(nulls_known, nulls, 0)
    may_have_nan, nan_rows = np.zeros(len(columns), dtype=bool), np.zeros(len(columns), dtype=np.int64)
    if is_float(kind):
        nans, nans_known = known_counts(columns, statistic_column("nan_value_count", field_id))
        nans_known = nans_known & complete
        nan_rows = np.where(nans_known, nans, 0)
        may_have_nan = ~(nans_known & (nans == 0)) & ~(complete & (null_rows >= total))
    return range_of_bounds(
        kind,
        column_bounds(columns, "lower_bound", field_id, kind),
        column_bounds(columns, "upper_bound", field_id, kind),
        may_have_null=~(nulls_known & (nulls == 0)) & ~(complete & (nan_rows >= total)),
        may_have_nan=may_have_nan,
        may_have_value=~(complete & (null_rows + nan_rows >= total)),
    )


def column_bounds(columns: ManifestColumns, statistic: str, field_id: int, kind: PrimitiveType) -> Any:
    """Return the bounds of a column as physical values; null for entries without a bound. `statistic` is `lower_bound` or `upper_bound`."""
    name = statistic_column(statistic, field_id)
    if isinstance(kind, GeometryType | GeographyType | UnknownType):
        return pa.nulls(len(columns), pa.binary())
    has_bounds = name in columns.entries.column_names
    return bounds_to_array(kind, columns.entries.column(name) if has_bounds else pa.nulls(len(columns), pa.binary()))


def known_counts(columns: ManifestColumns, name: str) -> tuple[NDArray[np.int64], Mask]:
    """Return a column of counts, such as `record_count`, -1 where it is unknown; and a mask of the known counts."""
    if name not in columns.entries.column_names:
        return np.full(len(columns), -1, dtype=np.int64), np.zeros(len(columns), dtype=bool)
    numbers: NDArray[np.int64] = numpy_of(fill_nulls(columns.entries.column(name), -1))
    return numbers, numbers >= 0
