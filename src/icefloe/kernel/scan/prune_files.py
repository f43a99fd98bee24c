"""Pruning of data files: which files of a manifest may have matching rows and which match entirely, by partition values, column bounds and counts.

All files of a manifest are tested in one call. `prune_manifests.py` prunes the manifests themselves; the columns are described in
`kernel/manifest/manifest_columns.py`; `kernel/expressions/metrics_evaluator.py` compares a predicate with bounds.
Spec: Scan Planning.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import filled, numbers_array, numpy_of
from icefloe.kernel.expressions.bind import BoundPredicate, Operation, predicates
from icefloe.kernel.expressions.metrics_evaluator import (
    ColumnRange,
    Mask,
    is_float,
    may_match,
    must_match,
    range_of_bounds,
    range_of_values,
    tree_mask,
)
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.expressions.projections import inclusive_projection, is_decided, strict_projection
from icefloe.kernel.expressions.residual import simplify
from icefloe.kernel.manifest.manifest_columns import ManifestColumns, Statistic, partition_column, statistic_column
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.scan.decision import Reason
from icefloe.kernel.scan.pruning_explanation import PredicateOutcome, explain_predicate
from icefloe.kernel.schema.metadata_columns import FILE, SPEC_ID, is_reserved
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import GeographyType, GeometryType, PrimitiveType, UnknownType
from icefloe.kernel.values import bounds_to_array, physical_arrow_type, to_human

# Metadata columns with one value in each file, which is known from its manifest entry.
_OF_FILES = (FILE.field_id, SPEC_ID.field_id)


def inclusive_mask(columns: ManifestColumns, bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> Mask:
    """Return a mask of the files that may have a matching row: False only where the partition value, bounds and counts rule that out.

    Args:
        columns: The files of one manifest, with the slot columns of `required_statistics`. Missing ones count as unknown.
        bound: The filter, bound to `schema`.
        spec: The partition spec of the manifest.
        schema: The schema of the scan.

    Raises:
        InvalidFilterError: The filter is not bound.

    Spec: Scan Planning, inclusive evaluation.
    """
    return FileMetricsEvaluator(columns, bound, spec, schema).may_match


def strict_mask(columns: ManifestColumns, bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> Mask:
    """Return a mask of the files of which every row matches; the arguments are those of `inclusive_mask`. Spec: Scan Planning, strict evaluation."""
    return FileMetricsEvaluator(columns, bound, spec, schema).must_match


def explain(columns: ManifestColumns, bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> list[tuple[Reason, str]]:
    """Return for each file the reason why it is kept or skipped, and the bound that decided, which is empty for files that are kept."""
    test = FileMetricsEvaluator(columns, bound, spec, schema)
    return [test.explain(index) for index in range(len(columns))]


def required_statistics(bound: BooleanExpression, spec: PartitionSpec, schema: Schema, *, strict: bool = False) -> set[Statistic]:
    """Return the statistics that `inclusive_mask` uses, and with `strict` also those that `strict_mask` uses.

    Predicates that partition values decide need none. Comparisons need counts too: a file with only nulls in a column has no bounds for it.
    """
    required: set[Statistic] = set()
    for predicate in predicates(bound):
        if not _has_statistics(predicate) or is_decided(predicate, spec, schema):
            continue
        names = ["value_count", "null_value_count"]
        if is_float(predicate.kind):
            names.append("nan_value_count")
        if strict or predicate.operation is not Operation.IS_NULL:
            names += ["lower_bound", "upper_bound"]
        required |= {(name, predicate.field.field_id) for name in names}
    return required


@dataclass(frozen=True)
class FileMetricsEvaluator:
    """A bound filter over the files of one manifest; every mask has one element for each file and is computed once."""

    columns: ManifestColumns
    bound: BooleanExpression
    spec: PartitionSpec
    schema: Schema
    _ranges: dict[tuple[str, int], ColumnRange] = field(default_factory=dict)

    @cached_property
    def may_match(self) -> Mask:
        """Files that may have a matching row; a file without rows has none."""
        mask: Mask = self._may(self.bound) & (self._records != 0)
        return mask

    @cached_property
    def must_match(self) -> Mask:
        """Files of which every row matches."""
        mask: Mask = self._tree(self.bound, self._leaf_must) | (self._records == 0)
        return mask

    @cached_property
    def partition_may_match(self) -> Mask:
        """Files whose partition value does not rule out a matching row."""
        return self._tree(self.bound, lambda leaf: self._partition_masks[leaf][0])

    def residuals(self, chosen: Mask) -> tuple[list[BooleanExpression], NDArray[np.int64]]:
        """Return the filter that remains for files once their partition values have decided predicates.

        Args:
            chosen: A mask of files.

        Returns:
            The distinct residuals, and for each chosen file the place of its residual.
        """
        leaves = list(dict.fromkeys(predicates(self.bound)))
        outcomes = np.zeros((int(chosen.sum()), len(leaves)), dtype=np.int8)
        for position, leaf in enumerate(leaves):
            may, must = self._partition_masks[leaf]
            outcomes[:, position] = np.where(must[chosen], 1, np.where(may[chosen], 0, -1))
        if not outcomes.any():
            return [self.bound], np.zeros(len(outcomes), dtype=np.int64)
        distinct, index = np.unique(outcomes, axis=0, return_inverse=True)
        decided = {0: None, 1: True, -1: False}
        distinct_residuals = [
            simplify(self.bound, {leaf: decided[int(code)] for leaf, code in zip(leaves, row, strict=True)}.get) for row in distinct
        ]
        return distinct_residuals, index.reshape(-1)

    def explain(self, index: int) -> tuple[Reason, str]:
        """Return the reason for the file at `index`, and the bound that decided."""
        if self._records[index] == 0:
            return Reason.NO_ROWS, ""
        if self.may_match[index]:
            return (Reason.ALL_MATCH if self.must_match[index] else Reason.MAY_MATCH), ""
        if not any(predicates(self.bound)):
            return Reason.NEVER_TRUE, ""
        if not self.partition_may_match[index]:
            leaf_masks = self._partition_masks

            def mask(term: BooleanExpression) -> Mask:
                return self._tree(term, lambda leaf: leaf_masks[leaf][0])

            return Reason.BY_PARTITION, explain_predicate(self.bound, mask, lambda leaf: self._explanation(leaf, index), index)
        return Reason.BY_METRICS, explain_predicate(self.bound, self._may, lambda leaf: self._explanation(leaf, index), index)

    # ---- masks ----

    @cached_property
    def _records(self) -> NDArray[np.int64]:
        return _numbers(self.columns, "record_count")[0]

    def _tree(self, expression: BooleanExpression, leaf: Callable[[BoundPredicate], Mask]) -> Mask:
        return tree_mask(expression, len(self.columns), leaf)

    def _may(self, expression: BooleanExpression) -> Mask:
        return self._tree(expression, lambda leaf: self._partition_masks[leaf][0] & self._metric_may(leaf))

    def _leaf_must(self, leaf: BoundPredicate) -> Mask:
        return self._partition_masks[leaf][1] | must_match(leaf, self._metrics(leaf))

    def _metric_may(self, leaf: BoundPredicate) -> Mask:
        return may_match(leaf, self._metrics(leaf))

    @cached_property
    def _partition_masks(self) -> Mapping[BoundPredicate, tuple[Mask, Mask]]:
        """For each predicate on a partition value, `_file` or `_spec_id`: the files where it may match, and those where it must."""
        return {
            leaf: self._place_masks(leaf) if leaf.field.field_id in _OF_FILES else self._projected(leaf) for leaf in predicates(self.bound)
        }

    def _projected(self, leaf: BoundPredicate) -> tuple[Mask, Mask]:
        return (
            self._tree(inclusive_projection(leaf, self.spec, self.schema), lambda test: may_match(test, self._partition(test))),
            self._tree(strict_projection(leaf, self.spec, self.schema), lambda test: must_match(test, self._partition(test))),
        )

    def _place_masks(self, leaf: BoundPredicate) -> tuple[Mask, Mask]:
        column = self._of_file(leaf)
        return may_match(leaf, column), must_match(leaf, column)

    def _of_file(self, leaf: BoundPredicate) -> ColumnRange:
        """Return the values of `_file` or `_spec_id`, one for each file."""
        if leaf.field.field_id == FILE.field_id:
            return range_of_values(leaf.kind, self.columns.entries.column("file_path"))
        spec_ids = numbers_array(np.full(len(self.columns), self.spec.spec_id, dtype=np.int32), pa.int32())
        return range_of_values(leaf.kind, spec_ids)

    def _partition(self, projected: BoundPredicate) -> ColumnRange:
        key = ("partition", projected.field.field_id)
        if key not in self._ranges:
            values = self.columns.entries.column(partition_column(projected.field.field_id))
            self._ranges[key] = range_of_values(projected.kind, values)
        return self._ranges[key]

    def _metrics(self, leaf: BoundPredicate) -> ColumnRange:
        key = ("column", leaf.field.field_id)
        if key not in self._ranges:
            self._ranges[key] = metrics_range(self.columns, leaf)
        return self._ranges[key]

    # ---- explanation ----

    def _explanation(self, leaf: BoundPredicate, index: int) -> str:
        if self._partition_masks[leaf][0][index]:
            return self._tested(leaf, self._metrics(leaf), leaf.column, None).explanation(index)
        if leaf.field.field_id in _OF_FILES:
            return self._tested(leaf, self._of_file(leaf), leaf.column, to_human).explanation(index)
        projected = inclusive_projection(leaf, self.spec, self.schema)

        def mask(term: BooleanExpression) -> Mask:
            return self._tree(term, lambda test: may_match(test, self._partition(test)))

        return explain_predicate(projected, mask, lambda test: self._partition_explanation(test, index), index)

    def _partition_explanation(self, test: BoundPredicate, index: int) -> str:
        partition_field = next(item for item in self.spec.fields if item.field_id == test.field.field_id)
        human = partition_field.transform.to_human
        return self._tested(test, self._partition(test), f"partition {partition_field.name}", human).explanation(index)

    def _tested(self, leaf: BoundPredicate, column: ColumnRange, subject: str, human: Any) -> PredicateOutcome:
        return PredicateOutcome(
            predicate=leaf,
            column=column,
            mask=may_match(leaf, column),
            subject=subject,
            bound="bound",
            exact=human is not None,
            human=human or to_human,
        )


def metrics_range(columns: ManifestColumns, leaf: BoundPredicate) -> ColumnRange:
    """Return the range of a predicate's column in each file, from the slot columns.

    The range is unknown for a struct, list, map or variant, whose counts are not those of rows, and for metadata columns, which a file stores in part at most.
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
    """Return the range of a primitive column in each file, from the slot columns.

    A count is used only if it is present and not negative, and if the value count, where present, covers every row of the file. Bounds of geometries and
    geographies are corners of boxes, which do not bound single values: they are ignored.

    Spec: Data File Fields.
    """
    records, _ = _numbers(columns, "record_count")
    values, values_known = _numbers(columns, statistic_column("value_count", field_id))
    nulls, nulls_known = _numbers(columns, statistic_column("null_value_count", field_id))
    nans, nans_known = _numbers(columns, statistic_column("nan_value_count", field_id))
    complete = (records >= 0) & (~values_known | (values >= records))
    nulls_known, nans_known = nulls_known & complete, nans_known & complete & is_float(kind)
    total = np.maximum(records, np.where(values_known, values, 0))
    null_rows, nan_rows = np.where(nulls_known, nulls, 0), np.where(nans_known, nans, 0)
    return range_of_bounds(
        kind,
        _bounds(columns, "lower_bound", field_id, kind),
        _bounds(columns, "upper_bound", field_id, kind),
        may_have_null=~(nulls_known & (nulls == 0)) & ~(complete & (nan_rows >= total)),
        may_have_nan=~(nans_known & (nans == 0)) & ~(complete & (null_rows >= total)),
        may_have_value=~(complete & (null_rows + nan_rows >= total)),
    )


def _bounds(columns: ManifestColumns, statistic: str, field_id: int, kind: PrimitiveType) -> Any:
    name = statistic_column(statistic, field_id)
    if isinstance(kind, GeometryType | GeographyType | UnknownType):
        return pa.nulls(len(columns), pa.binary())
    has_bounds = name in columns.entries.column_names
    return bounds_to_array(kind, columns.entries.column(name) if has_bounds else pa.nulls(len(columns), pa.binary()))


def _numbers(columns: ManifestColumns, name: str) -> tuple[NDArray[np.int64], Mask]:
    """Return a column of counts, -1 where unknown, and a mask of the known ones."""
    if name not in columns.entries.column_names:
        return np.full(len(columns), -1, dtype=np.int64), np.zeros(len(columns), dtype=bool)
    numbers: NDArray[np.int64] = numpy_of(filled(columns.entries.column(name), -1))
    return numbers, numbers >= 0
