"""Pruning of manifests: which manifests of a list may have files with matching rows, by their partition summaries.

Each manifest is tested with the partition spec it was written with; all manifests of a spec in one call. `prune_files.py`
prunes the files in them. Spec: Scan Planning; Manifest Lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from icefloe.errors import ManifestFormatError
from icefloe.kernel.arrow_values import array_of
from icefloe.kernel.expressions.bind import BoundPredicate
from icefloe.kernel.expressions.metrics_evaluator import ColumnRange, Mask, may_match, range_of_bounds, tree_mask
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.expressions.projections import inclusive_projection
from icefloe.kernel.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.scan.pruning_explanation import PredicateOutcome, explain_predicate
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.values import bounds_to_array

_UNKNOWN = PartitionFieldSummary(contains_null=True)


def manifest_mask(manifests: Sequence[ManifestFile], bound: BooleanExpression, specs: Mapping[int, PartitionSpec], schema: Schema) -> Mask:
    """Return a mask of the manifests that may have a matching row: False only where the partition summary rules that out. Counts are not used.

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
    """Return for each manifest the partition bound that rules it out, such as `partition time_hour_month: upper 2013-03 < 2013-06`, or an empty text."""
    explanations = [""] * len(manifests)
    for test in manifest_evaluators(manifests, bound, specs, schema):
        for index, position in enumerate(test.positions):
            if not test.mask[index]:
                explanations[int(position)] = test.explanation(index)
    return explanations


def manifest_evaluators(
    manifests: Sequence[ManifestFile], bound: BooleanExpression, specs: Mapping[int, PartitionSpec], schema: Schema
) -> list["ManifestEvaluator"]:
    """Group manifests by partition spec; return the evaluator of each group."""
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
    """The manifests of one partition spec, at `positions` in the list, and the filter projected to the spec's partition fields."""

    positions: np.ndarray[tuple[int], np.dtype[np.int64]]
    spec: PartitionSpec
    projected: BooleanExpression
    summaries: Sequence[tuple[PartitionFieldSummary, ...]]
    _ranges: dict[int, ColumnRange] = field(default_factory=dict)

    @cached_property
    def mask(self) -> Mask:
        """Manifests of this group that may have a matching row."""
        return self._mask(self.projected)

    def _mask(self, expression: BooleanExpression) -> Mask:
        return tree_mask(expression, len(self.summaries), self.may_match)

    def may_match(self, predicate: BoundPredicate) -> Mask:
        """Return a mask of the manifests that may have a file whose partition value matches; the predicate is on a field of the spec."""
        return may_match(predicate, self._range(predicate))

    def explanation(self, index: int) -> str:
        """Return the partition bound that rules out the manifest at `index` of this group."""
        return explain_predicate(self.projected, self._mask, lambda predicate: self._tested(predicate).explanation(index), index)

    def _tested(self, predicate: BoundPredicate) -> PredicateOutcome:
        partition_field = next(item for item in self.spec.fields if item.field_id == predicate.field.field_id)
        return PredicateOutcome(
            predicate=predicate,
            column=self._range(predicate),
            mask=self._mask(predicate),
            subject=f"partition {partition_field.name}",
            bound="",
            exact=False,
            human=partition_field.transform.to_human,
        )

    def _range(self, predicate: BoundPredicate) -> ColumnRange:
        field_id = predicate.field.field_id
        if field_id not in self._ranges:
            index = [item.field_id for item in self.spec.fields].index(field_id)
            self._ranges[field_id] = _summary_range(predicate, [summaries[index] for summaries in self.summaries])
        return self._ranges[field_id]


def summaries_of(manifest: ManifestFile, spec: PartitionSpec) -> tuple[PartitionFieldSummary, ...]:
    """Return one summary for each field of the spec; unknown ones where the list has none, or not as many as the spec has fields."""
    summaries = manifest.partitions
    return summaries if summaries is not None and len(summaries) == len(spec.fields) else (_UNKNOWN,) * len(spec.fields)


def _summary_range(predicate: BoundPredicate, summaries: Sequence[PartitionFieldSummary]) -> ColumnRange:
    lower = array_of([summary.lower_bound for summary in summaries], pa.binary())
    upper = array_of([summary.upper_bound for summary in summaries], pa.binary())
    null = np.array([summary.contains_null for summary in summaries], dtype=bool)
    # A field has no bounds only if all its values are null or NaN; it counts as empty only if the flags agree. Spec: Manifest Lists, field summary.
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
