"""Selection of the manifests that a metadata table reads: those of one or of all snapshots, except manifests without rows that match the filter.

Spec: Manifest Lists; Scan Planning.
"""

from collections.abc import Sequence

import numpy as np

from icefloe.errors import ManifestFormatError
from icefloe.metadata_tables.request import Request
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.pruning import ManifestEvaluator, summaries_of
from icefloe.spec.expressions.bind import BoundPredicate
from icefloe.spec.expressions.metrics_evaluator import Mask, may_match, range_of_bounds, range_of_values, tree_mask
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import UnknownTransform
from icefloe.spec.types import IntegerType
from icefloe.spec.values import physical_array

_CONTENT_ID, _SPEC_ID = 134, 141


def manifests_of(request: Request, snapshots: Sequence[Snapshot]) -> list[ManifestFile]:
    """Return the distinct manifests of some snapshots that may contain entries that match the filter.

    Raises:
        NoSuchFileError: A manifest list does not exist.
        AvroFormatError: A manifest list is damaged.
        ManifestFormatError: A manifest list violates the format, or a manifest has a partition spec that the table does not have.
    """
    by_path: dict[str, ManifestFile] = {}
    for manifests in in_threads(lambda snapshot: read_manifests(snapshot, request.table.io.read), snapshots):
        for manifest in manifests:
            # If several lists have a manifest, the line of the newest list is used, because older lines lack the row ids that the upgrade to version 3
            # assigned.
            by_path[manifest.manifest_path] = manifest
    return filter_manifests(list(by_path.values()), request)


def filter_manifests(manifests: Sequence[ManifestFile], request: Request) -> list[ManifestFile]:
    """Return the manifests that may have entries that match the filter. Only predicates on `partition`, `spec_id` and `content` exclude any."""
    specs = {spec.spec_id: spec for spec in request.metadata.partition_specs}
    by_kind: dict[tuple[int, ManifestContent], list[int]] = {}
    for place, manifest in enumerate(manifests):
        if manifest.partition_spec_id not in specs:
            raise _unknown_spec(manifest)
        by_kind.setdefault((manifest.partition_spec_id, manifest.content), []).append(place)
    if isinstance(request.row_filter, AlwaysTrue):
        return list(manifests)
    kept = np.ones(len(manifests), np.bool_)
    for (spec_id, content), places in by_kind.items():
        kept[places] = _mask(request.row_filter, [manifests[place] for place in places], specs[spec_id], content)
    return [manifest for manifest, is_kept in zip(manifests, kept.tolist(), strict=True) if is_kept]


def _mask(expression: BooleanExpression, manifests: Sequence[ManifestFile], spec: PartitionSpec, content: ManifestContent) -> Mask:
    """Return a mask of the manifests, all of one spec and content, that may have matching entries."""
    # Values of an unknown transform are text in the metadata table, and cannot be compared with the bounds in manifest lists.
    known_fields = {field.field_id for field in spec.fields if not isinstance(field.transform, UnknownTransform)}
    partitions = ManifestEvaluator(np.arange(len(manifests)), spec, AlwaysTrue(), [summaries_of(manifest, spec) for manifest in manifests])

    def leaf(predicate: BoundPredicate) -> Mask:
        field_id = predicate.field.field_id
        if field_id in known_fields:
            return partitions.may_match(predicate)
        if field_id in (_CONTENT_ID, _SPEC_ID):
            return np.full(len(manifests), _constant_may_match(predicate, spec.spec_id, content))
        return np.ones(len(manifests), np.bool_)

    return tree_mask(expression, len(manifests), leaf)


def _constant_may_match(predicate: BoundPredicate, spec_id: int, content: ManifestContent) -> bool:
    """Return True if a predicate on `content` or `spec_id` may match a file of such a manifest."""
    kind = IntegerType()
    if predicate.field.field_id == _SPEC_ID:
        return bool(may_match(predicate, range_of_values(kind, physical_array(kind, (spec_id,))))[0])
    lower, upper = (
        (FileContent.DATA, FileContent.DATA)
        if content is ManifestContent.DATA
        else (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)
    )
    no, yes = np.zeros(1, np.bool_), np.ones(1, np.bool_)
    bounds = [physical_array(kind, (int(bound),)) for bound in (lower, upper)]
    return bool(may_match(predicate, range_of_bounds(kind, *bounds, may_have_null=no, may_have_nan=no, may_have_value=yes))[0])


def _unknown_spec(manifest: ManifestFile) -> ManifestFormatError:
    return ManifestFormatError(
        f"manifest {manifest.manifest_path} was written with partition spec {manifest.partition_spec_id}, which the table's metadata does not have",
        path=manifest.manifest_path,
        next_step="the metadata file is damaged or belongs to another table; use an older one that has the spec",
    )
