"""The metadata tables of manifests: `manifests` of one snapshot, and `all_manifests`, where each row also has the snapshot whose manifest list it is from.

Spec: Manifest Lists.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icefloe.errors import FormatError
from icefloe.metadata_tables.file_tables import snapshots_of
from icefloe.metadata_tables.request import Request, table_of_columns
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.expressions.bind import BoundPredicate
from icefloe.spec.expressions.metrics_evaluator import Mask, may_match, range_of_values, tree_mask
from icefloe.spec.manifest.partition_values import primitive
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.partitioning.partition_spec import PartitionField
from icefloe.spec.partitioning.transforms import UnknownTransform
from icefloe.spec.types import LongType, NestedField
from icefloe.spec.values import from_bytes, physical_array

_REFERENCE = "reference_snapshot_id"


def manifest_rows(request: Request) -> Any:
    """Return the rows of `manifests`: the manifest list of a snapshot."""
    return _rows(request, snapshots_of(request))


def all_manifest_rows(request: Request) -> Any:
    """Return the rows of `all_manifests`: the manifest lists of all snapshots. A manifest has one row for each snapshot whose list contains it."""
    snapshots = list(request.metadata.snapshots)
    kept = _named_by_filter(request, [snapshot.snapshot_id for snapshot in snapshots])
    return _rows(request, [snapshot for snapshot, is_kept in zip(snapshots, kept.tolist(), strict=True) if is_kept])


def _named_by_filter(request: Request, snapshot_ids: Sequence[int]) -> Mask:
    """Return a mask of the snapshots whose manifests may match the filter. Only predicates on `reference_snapshot_id` exclude any."""
    values = range_of_values(LongType(), physical_array(LongType(), list(snapshot_ids)))

    def leaf(predicate: BoundPredicate) -> Mask:
        return may_match(predicate, values) if predicate.path == (_REFERENCE,) else np.ones(len(snapshot_ids), np.bool_)

    return tree_mask(request.row_filter, len(snapshot_ids), leaf)


def _rows(request: Request, snapshots: Sequence[Snapshot]) -> Any:
    lists = list(in_threads(lambda snapshot: read_manifests(snapshot, request.table.io.read), snapshots))
    manifests = [manifest for manifests_of_snapshot in lists for manifest in manifests_of_snapshot]
    references = [
        snapshot.snapshot_id for snapshot, manifests_of_snapshot in zip(snapshots, lists, strict=True) for _ in manifests_of_snapshot
    ]
    columns: dict[str, Sequence[Any]] = {
        "content": [int(manifest.content) for manifest in manifests],
        "path": [manifest.manifest_path for manifest in manifests],
        "length": [manifest.manifest_length for manifest in manifests],
        "partition_spec_id": [manifest.partition_spec_id for manifest in manifests],
        "added_snapshot_id": [manifest.added_snapshot_id for manifest in manifests],
        _REFERENCE: references,
        "key_metadata": [manifest.key_metadata for manifest in manifests],
    }
    for content, noun in ((ManifestContent.DATA, "data"), (ManifestContent.DELETES, "delete")):
        columns |= {
            f"{status}_{noun}_files_count": [
                getattr(manifest, f"{status}_files_count") if manifest.content is content else 0 for manifest in manifests
            ]
            for status in ("added", "existing", "deleted")
        }
    if "partition_summaries" in request.names:
        columns["partition_summaries"] = _summaries(request, manifests)
    return table_of_columns(request, columns)


def _summaries(request: Request, manifests: Sequence[ManifestFile]) -> list[Any]:
    """Return the partition summaries of each manifest as Python values; None for a manifest without summaries in the list."""
    texts = _SummaryTexts(request)
    return [None if manifest.partitions is None else texts.of(manifest.partition_spec_id, manifest.partitions) for manifest in manifests]


class _SummaryTexts:
    """A converter of partition summaries to Python values, with bounds as text. It caches results, because manifests of one spec often have equal summaries."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._known: dict[tuple[int, tuple[PartitionFieldSummary, ...]], list[dict[str, Any]]] = {}

    def of(self, spec_id: int, summaries: tuple[PartitionFieldSummary, ...]) -> list[dict[str, Any]]:
        """Return the summaries of one manifest."""
        key = (spec_id, summaries)
        if key not in self._known:
            spec = self._request.metadata.spec_by_id(spec_id)
            fields = zip(spec.fields, spec_partition_type(self._request.metadata, spec_id).fields, summaries, strict=False)
            self._known[key] = [_summary(*field) for field in fields]
        return self._known[key]


def _summary(field: PartitionField, typed: NestedField, summary: PartitionFieldSummary) -> dict[str, Any]:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": _bound_text(field, typed, summary.lower_bound),
        "upper_bound": _bound_text(field, typed, summary.upper_bound),
    }


def _bound_text(field: PartitionField, typed: NestedField, data: bytes | None) -> str | None:
    """Return a bound as text: the text `null` if the bound is missing, as in Java; None if its bytes are not a value of the field's type."""
    if isinstance(field.transform, UnknownTransform):
        return None if data is not None else "null"
    kind = primitive(typed.field_type)
    try:
        return field.transform.to_human(kind, None if data is None else from_bytes(kind, data))
    except FormatError:
        return None
