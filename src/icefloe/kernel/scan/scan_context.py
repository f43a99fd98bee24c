"""`ScanContext`: what a scan asks of a snapshot, as the steps of planning share it; and which live entries a manifest has.

Spec: Scan Planning.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import ManifestFormatError
from icefloe.kernel.arrow_values import mask_array, numpy_of
from icefloe.kernel.expressions.bind import predicates
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_columns import Statistic
from icefloe.kernel.manifest.manifest_reader import read_many_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import spec_partition_type, spec_schema
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionField, PartitionSpec, partition_path
from icefloe.kernel.partitioning.transforms import TruncateTransform, UnknownTransform
from icefloe.kernel.scan.decision import Decision, Reason
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IntegerType, LongType, StructType

Read = Callable[[str], bytes]
# Like `map`: applies a function to each item and gives the results in order, perhaps side by side.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class LiveEntries(NamedTuple):
    """The live entries of some manifests: a `ManifestColumns` table, and the place of each entry's manifest among them."""

    entries: Any
    places: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ScanContext:
    """A bound filter on a table, and what is wanted of the answer; `plan.plan_scan` says what the flags mean."""

    metadata: TableMetadata
    schema: Schema
    bound: BooleanExpression
    explain: bool
    include_statistics: bool
    find_covered: bool
    every_delete: bool
    # Of an incremental read: the snapshots whose added files are read.
    added_in: frozenset[int] | None = None

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        """The partition specs as filters may use them, by id."""
        return {spec.spec_id: _without_wrapped_fields(spec, self.metadata) for spec in self.metadata.partition_specs}

    @cached_property
    def partition_types(self) -> dict[int, StructType]:
        """The types of partition tuples, by spec id."""
        return {spec_id: spec_partition_type(self.metadata, spec_id) for spec_id in self.specs}

    @property
    def is_unfiltered(self) -> bool:
        return isinstance(self.bound, AlwaysTrue)

    @cached_property
    def primitive_ids(self) -> Sequence[int]:
        """The columns that have statistics."""
        return sorted(field_id for field_id in self.schema.field_ids if self.schema.find_type(field_id).is_primitive)

    def partition_text(self, spec_id: int, partition: tuple[Any, ...]) -> str:
        """A partition in folder form."""
        return partition_path(self.metadata.spec_by_id(spec_id), spec_schema(self.metadata, spec_id), partition)

    def live_entries(self, manifests: Sequence[ManifestFile], read: Read, statistics: Collection[Statistic]) -> LiveEntries:
        """The live entries of manifests of one partition spec and content. Raises `AvroFormatError`, `ManifestFormatError`."""
        kind = self.partition_types[manifests[0].partition_spec_id]
        columns, counts = read_many_columns(manifests, read, kind, statistics=statistics)
        entries, places = columns.entries, np.repeat(np.arange(len(counts)), counts)
        if self.added_in is not None:
            ids = pa.array(self.added_in, pa.int64())
            live = (numpy_of(entries["status"]) == int(ManifestEntryStatus.ADDED)) & pc.is_in(entries["snapshot_id"], ids).to_numpy()
            entries, places = entries.filter(mask_array(live)), places[live]
        elif any(manifest.has_deleted_files for manifest in manifests):
            live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
            entries, places = entries.filter(mask_array(live)), places[live]
        _check_content(entries, manifests, places)
        return LiveEntries(entries, places)

    def manifest_decision(self, manifest: ManifestFile, keep: bool, explanation: str, skipped: Reason | None = None) -> Decision:
        """Why a manifest is opened or not; `explanation` is its partition bound that decided, `skipped` what else did."""
        if not manifest.has_live_files:
            reason, explanation = Reason.NO_LIVE_FILES, ""
        elif keep:
            reason = Reason.NO_FILTER if self.is_unfiltered else Reason.MAY_MATCH
        elif skipped is not None:
            reason, explanation = skipped, ""
        else:
            reason = Reason.BY_PARTITION if any(predicates(self.bound)) else Reason.NEVER_TRUE
        return Decision(
            level="manifest" if manifest.content is ManifestContent.DATA else "delete manifest",
            path=manifest.manifest_path,
            kept=keep,
            reason=reason,
            explanation=explanation,
            bytes=manifest.manifest_length,
            records=live_records(manifest),
        )


def live_files(manifest: ManifestFile) -> int:
    """How many live files the manifest list counts; 0 where it does not say."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def live_records(manifest: ManifestFile) -> int:
    """Their rows."""
    return (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)


def _check_content(entries: Any, manifests: Sequence[ManifestFile], places: NDArray[np.int64]) -> None:
    wants_data = manifests[0].content is ManifestContent.DATA
    wrong = (numpy_of(entries["content"]) == int(FileContent.DATA)) != wants_data
    if not wrong.any():
        return
    manifest = manifests[int(places[wrong][0])]
    found, claimed = ("delete files", "data files") if wants_data else ("data files", "delete files")
    raise ManifestFormatError(
        f"manifest {manifest.manifest_path} holds {found}, but its manifest list says that it holds {claimed}", path=manifest.manifest_path
    )


def _without_wrapped_fields(spec: PartitionSpec, metadata: TableMetadata) -> PartitionSpec:
    """The spec as filters may use it: a truncated long that was an int once says nothing.

    The least ints wrapped around to another value than the same numbers do as longs, and a file does not tell which it was written with.
    """
    return PartitionSpec(*(_as_filtered(field, metadata) for field in spec.fields), spec_id=spec.spec_id)


def _as_filtered(field: PartitionField, metadata: TableMetadata) -> PartitionField:
    transform = field.transform
    if not isinstance(transform, TruncateTransform) or transform.wrapped_result(IntegerType()) is None:
        return field
    kinds = {type(schema.find_type(field.source_id)) for schema in metadata.schemas if field.source_id in schema}
    return replace(field, transform=UnknownTransform(str(transform))) if {IntegerType, LongType} <= kinds else field
