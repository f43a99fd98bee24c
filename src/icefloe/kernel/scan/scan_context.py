"""`ScanContext`: the table, filter and options of one scan, which the steps of planning share; and the live entries of manifests.

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

# Returns the content of the file at a location.
Read = Callable[[str], bytes]
# Applies a function to each item, perhaps in parallel, and returns the results in order, like `map`.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class LiveEntries(NamedTuple):
    """The live entries of some manifests as a `ManifestColumns` table, and the place of each entry's manifest among the manifests."""

    entries: Any
    places: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ScanContext:
    """A bound filter on a table and the options of the scan, which `scan_planner.plan_scan` describes."""

    metadata: TableMetadata
    schema: Schema
    bound: BooleanExpression
    explain: bool
    include_statistics: bool
    find_covered: bool
    every_delete: bool
    # The snapshots of an incremental scan, whose added files are read; None in a scan of one snapshot.
    added_in: frozenset[int] | None = None

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

    def partition_text(self, spec_id: int, partition: tuple[Any, ...]) -> str:
        """Return a partition in folder form, such as `origin=JFK`."""
        return partition_path(self.metadata.spec_by_id(spec_id), spec_schema(self.metadata, spec_id), partition)

    def live_entries(self, manifests: Sequence[ManifestFile], read: Read, statistics: Collection[Statistic]) -> LiveEntries:
        """Read the live entries of manifests that have one partition spec and content.

        Args:
            manifests: The manifests, at least one.
            read: Returns the content of a file.
            statistics: The column statistics to decode.

        Raises:
            AvroFormatError: A manifest is damaged.
            ManifestFormatError: An entry breaks a rule of the format, or a manifest does not have the content that its list declares.
        """
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
        """Return the decision for a manifest.

        Args:
            manifest: The manifest.
            keep: Whether the scan reads it.
            explanation: The partition bound that ruled it out.
            skipped: The reason why it is not read, if that is not its partition summary.
        """
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
    """Return the number of live files that the manifest list has for the manifest, 0 where unknown."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def live_records(manifest: ManifestFile) -> int:
    """Return the number of rows in live files that the manifest list has for the manifest, 0 where unknown."""
    return (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)


def _check_content(entries: Any, manifests: Sequence[ManifestFile], places: NDArray[np.int64]) -> None:
    is_data = manifests[0].content is ManifestContent.DATA
    other_content = (numpy_of(entries["content"]) == int(FileContent.DATA)) != is_data
    if not other_content.any():
        return
    manifest = manifests[int(places[other_content][0])]
    actual, declared = ("delete files", "data files") if is_data else ("data files", "delete files")
    raise ManifestFormatError(
        f"manifest {manifest.manifest_path} contains {actual}, but its manifest list declares {declared}",
        path=manifest.manifest_path,
        next_step="the manifest or its manifest list is damaged; restore it from a copy, or roll the table back to an older snapshot",
    )


def _without_wrapped_fields(spec: PartitionSpec, metadata: TableMetadata) -> PartitionSpec:
    """Return the spec with an unknown transform for truncated longs that were ints once, since their partition values cannot be compared.

    Truncating the least ints wraps around to another value than truncating the same numbers as longs, and a file does not record which type it was written
    with.
    """
    return PartitionSpec(*(_as_filtered(field, metadata) for field in spec.fields), spec_id=spec.spec_id)


def _as_filtered(field: PartitionField, metadata: TableMetadata) -> PartitionField:
    transform = field.transform
    if not isinstance(transform, TruncateTransform) or transform.wrapped_result(IntegerType()) is None:
        return field
    kinds = {type(schema.find_type(field.source_id)) for schema in metadata.schemas if field.source_id in schema}
    return replace(field, transform=UnknownTransform(str(transform))) if {IntegerType, LongType} <= kinds else field
