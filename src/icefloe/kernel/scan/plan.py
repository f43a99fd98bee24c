"""`plan_scan`: from a snapshot and a filter to the data files that may hold matching rows.

    snapshot -> manifest list -> manifests whose partition summaries allow a match -> their live entries -> files whose partition values, bounds and
    counts allow a match -> `ScanPlan`, still as columns -> `FileScanTask`s when someone asks

Bytes come through the `read` that is handed in, one call a file. Floor: kernel.scan. Spec: Scan Planning.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import ManifestFormatError, UnsupportedFeatureError
from icefloe.kernel.arrow_values import mask_array, numpy_of, scalar_of
from icefloe.kernel.expressions.bind import bind, predicates
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.expressions.ranges import Mask
from icefloe.kernel.manifest.columns import ManifestColumns, Statistic, every_statistic, statistic_column
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.read import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type, spec_schema
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionField, PartitionSpec, partition_path
from icefloe.kernel.partitioning.transforms import TruncateTransform, UnknownTransform
from icefloe.kernel.scan.decision import Decision, Reason
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.planned_files import PlannedFiles, partition_tuples
from icefloe.kernel.scan.prune_files import FileTest, wanted_statistics
from icefloe.kernel.scan.prune_manifests import explain_manifests, manifest_mask
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IntegerType, LongType, StructType

Read = Callable[[str], bytes]
# Like `map`: applies a function to each item and gives the results in order, perhaps side by side.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Some data files of a plan: how many, their bytes, their rows."""

    files: int = 0
    bytes: int = 0
    records: int = 0

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files + other.files, bytes=self.bytes + other.bytes, records=self.records + other.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files to read, and how many were ruled out at each level.

    `manifest_bytes_...` are lengths of manifests. The files of skipped manifests are not known one by one: `files_in_skipped_manifests` and
    `records_in_skipped_manifests` are what the manifest list counts (0 where it does not say). `decisions` is empty unless the plan was asked to explain.
    """

    snapshot_id: int | None
    schema: Schema
    row_filter: BooleanExpression  # bound to `schema`
    parts: tuple[PlannedFiles, ...] = ()
    manifests_total: int = 0
    manifests_skipped: int = 0
    manifest_bytes_read: int = 0
    manifest_bytes_skipped: int = 0
    files_in_skipped_manifests: int = 0
    records_in_skipped_manifests: int = 0
    kept: FileCounts = FileCounts()
    skipped_by_partition: FileCounts = FileCounts()
    skipped_by_metrics: FileCounts = FileCounts()
    decisions: tuple[Decision, ...] = ()

    @property
    def manifests_read(self) -> int:
        return self.manifests_total - self.manifests_skipped

    @property
    def files_considered(self) -> int:
        """The live files of the manifests that were read."""
        return self.files_kept + self.files_skipped_by_partition + self.files_skipped_by_metrics

    @property
    def files_skipped_by_partition(self) -> int:
        return self.skipped_by_partition.files

    @property
    def files_skipped_by_metrics(self) -> int:
        return self.skipped_by_metrics.files

    @property
    def files_kept(self) -> int:
        return self.kept.files

    @property
    def bytes_kept(self) -> int:
        return self.kept.bytes

    @property
    def bytes_skipped(self) -> int:
        """Of the files that were considered."""
        return self.skipped_by_partition.bytes + self.skipped_by_metrics.bytes

    @property
    def records_kept(self) -> int:
        """Rows of the kept files; not all of them need match."""
        return self.kept.records

    @property
    def records_skipped(self) -> int:
        """Of the files that were considered."""
        return self.skipped_by_partition.records + self.skipped_by_metrics.records

    @property
    def files(self) -> Any:
        """The kept files as one `pyarrow.Table`: the columns of `ManifestColumns` and `spec_id`; partition columns of other specs are null."""
        tables = [part.entries for part in self.parts]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def tasks(self) -> Iterator[FileScanTask]:
        """One task a kept file, made as they are asked for."""
        for part in self.parts:
            yield from part.tasks()


def plan_scan(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    row_filter: BooleanExpression,
    read: Read,
    *,
    case_sensitive: bool = True,
    parallel: Parallel = map,
    explain: bool = False,
    include_statistics: bool = False,
    find_covered: bool = False,
    schema: Schema | None = None,
) -> ScanPlan:
    """The live data files of a snapshot that may hold rows matching the filter; none for a table without a snapshot.

    The filter is bound to `schema`: the table's for its current snapshot and the snapshot's own for an older one where it is not given. `explain` gives every
    manifest and file its `Decision`; `include_statistics` puts column statistics into the tasks' files, and `find_covered` tells the files that match whole.

    Raises:
        InvalidFilterError: the filter does not fit the schema.
        UnsupportedFeatureError: the snapshot has delete files.
        AvroFormatError, ManifestFormatError: a manifest list or manifest is damaged.
    Spec: Scan Planning.
    """
    chosen = schema or _schema(metadata, snapshot)
    bound = bind(row_filter, chosen, case_sensitive)
    if snapshot is None:
        return ScanPlan(snapshot_id=None, schema=chosen, row_filter=bound)
    manifests = read_manifests(snapshot, read)
    _refuse_delete_manifests(manifests, metadata, snapshot)
    planner = _Planner(metadata, chosen, bound, read, explain, include_statistics, find_covered)
    kept = manifest_mask(manifests, bound, planner.specs, chosen) & np.array(
        [manifest.has_live_files for manifest in manifests], dtype=bool
    )
    results = list(parallel(planner.read_manifest, [manifest for manifest, keep in zip(manifests, kept, strict=True) if keep]))
    skipped = [manifest for manifest, keep in zip(manifests, kept, strict=True) if not keep]
    return ScanPlan(
        snapshot_id=snapshot.snapshot_id,
        schema=chosen,
        row_filter=bound,
        parts=tuple(result.files for result in results if len(result.files)),
        manifests_total=len(manifests),
        manifests_skipped=len(skipped),
        manifest_bytes_read=sum(manifest.manifest_length for manifest, keep in zip(manifests, kept, strict=True) if keep),
        manifest_bytes_skipped=sum(manifest.manifest_length for manifest in skipped),
        files_in_skipped_manifests=sum(_live_files(manifest) for manifest in skipped),
        records_in_skipped_manifests=sum(_live_records(manifest) for manifest in skipped),
        kept=sum((result.kept for result in results), FileCounts()),
        skipped_by_partition=sum((result.skipped_by_partition for result in results), FileCounts()),
        skipped_by_metrics=sum((result.skipped_by_metrics for result in results), FileCounts()),
        decisions=tuple(_decisions(planner, manifests, kept, results)) if explain else (),
    )


def _schema(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    if snapshot is None or snapshot.schema_id is None or snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata.schema()
    return metadata.schema_by_id(snapshot.schema_id)


def _refuse_delete_manifests(manifests: Sequence[ManifestFile], metadata: TableMetadata, snapshot: Snapshot) -> None:
    for manifest in manifests:
        if manifest.content is ManifestContent.DELETES and manifest.has_live_files:
            raise UnsupportedFeatureError(
                f"snapshot {snapshot.snapshot_id} of the table at {metadata.location} has delete files, which this version does not apply",
                path=manifest.manifest_path,
                snapshot_id=snapshot.snapshot_id,
                next_step="rewrite the table's data files with the engine that wrote the deletes (compaction), then read it here",
            )


@dataclass(frozen=True, slots=True)
class _ManifestResult:
    """One manifest, read."""

    files: PlannedFiles
    kept: FileCounts
    skipped_by_partition: FileCounts
    skipped_by_metrics: FileCounts
    decisions: list[Decision]


class _Planner:
    """Reads and prunes one manifest; side by side for many, so it holds nothing that changes."""

    def __init__(
        self,
        metadata: TableMetadata,
        schema: Schema,
        bound: BooleanExpression,
        read: Read,
        explain: bool,
        include_statistics: bool,
        find_covered: bool,
    ) -> None:
        self.specs = {spec.spec_id: _without_wrapped_fields(spec, metadata) for spec in metadata.partition_specs}
        self.schema = schema
        self.bound = bound
        self._metadata = metadata
        self._read = read
        self._explain = explain
        self._include_statistics = include_statistics
        self._find_covered = find_covered

    def read_manifest(self, manifest: ManifestFile) -> _ManifestResult:
        """The live entries of a manifest that may match."""
        spec = self.specs[manifest.partition_spec_id]
        kind = spec_partition_type(self._metadata, spec.spec_id)
        wanted = self._statistics(spec)
        found = read_columns(self._read(manifest.manifest_path), manifest, kind, statistics=wanted).entries
        live = found.filter(pc.not_equal(found["status"], scalar_of(int(ManifestEntryStatus.DELETED), pa.int32()))).combine_chunks()
        _check_content(live, manifest)
        test = FileTest(ManifestColumns(live), self.bound, spec, self.schema)
        every = np.ones(live.num_rows, dtype=bool)
        unfiltered = isinstance(self.bound, AlwaysTrue)
        may = every if unfiltered else test.may_match
        by_partition = ~every if unfiltered else ~may & ~test.partition_may_match
        residuals, residual_index = test.residuals(may)
        entries = live if unfiltered else live.filter(mask_array(may))
        if not self._include_statistics:
            entries = entries.drop_columns([statistic_column(*statistic) for statistic in wanted])
        files = PlannedFiles(
            entries=entries.append_column("spec_id", pa.repeat(scalar_of(spec.spec_id, pa.int32()), entries.num_rows)),
            spec_id=spec.spec_id,
            partition_type=kind,
            residuals=residuals,
            residual_index=residual_index,
            covered=test.must_match[may] if self._find_covered else None,
            statistics=_primitive_ids(self.schema) if self._include_statistics else (),
        )
        return _ManifestResult(
            files=files,
            kept=_count(live, may),
            skipped_by_partition=_count(live, by_partition),
            skipped_by_metrics=_count(live, ~may & ~by_partition),
            decisions=self._file_decisions(live, test, may, spec, kind) if self._explain else [],
        )

    def _statistics(self, spec: PartitionSpec) -> Collection[Statistic]:
        if self._include_statistics:
            return every_statistic(_primitive_ids(self.schema))
        return wanted_statistics(self.bound, spec, self.schema, strict=self._find_covered or self._explain)

    def _file_decisions(self, live: Any, test: FileTest, may: Mask, spec: PartitionSpec, kind: StructType) -> list[Decision]:
        unfiltered = isinstance(self.bound, AlwaysTrue)
        found = []
        rows = zip(
            live["file_path"].to_pylist(),
            live["file_size_in_bytes"].to_pylist(),
            live["record_count"].to_pylist(),
            partition_tuples(live, kind),
            strict=True,
        )
        for index, (path, size, records, partition) in enumerate(rows):
            reason, evidence = (Reason.NO_FILTER, "") if unfiltered else test.explain(index)
            found.append(
                Decision(
                    level="file",
                    path=path,
                    kept=bool(may[index]),
                    reason=reason,
                    evidence=evidence,
                    bytes=size,
                    records=records,
                    partition=partition_path(self._metadata.spec_by_id(spec.spec_id), spec_schema(self._metadata, spec.spec_id), partition),
                )
            )
        return found


def _decisions(planner: _Planner, manifests: Sequence[ManifestFile], kept: Mask, results: Sequence[_ManifestResult]) -> Iterator[Decision]:
    """Every manifest in list order, each that was read followed by its files."""
    evidence = explain_manifests(manifests, planner.bound, planner.specs, planner.schema)
    unread = iter(results)
    for manifest, keep, told in zip(manifests, kept.tolist(), evidence, strict=True):
        if not manifest.has_live_files:
            reason, told = Reason.NO_LIVE_FILES, ""  # noqa: PLW2901 - the partition does not matter then
        elif keep:
            reason = Reason.NO_FILTER if isinstance(planner.bound, AlwaysTrue) else Reason.MAY_MATCH
        else:
            reason = Reason.BY_PARTITION if any(predicates(planner.bound)) else Reason.NEVER_TRUE
        yield Decision(
            level="manifest",
            path=manifest.manifest_path,
            kept=keep,
            reason=reason,
            evidence=told,
            bytes=manifest.manifest_length,
            records=_live_records(manifest),
        )
        if keep:
            yield from next(unread).decisions


def _check_content(live: Any, manifest: ManifestFile) -> None:
    if pc.any(pc.not_equal(live["content"], scalar_of(int(FileContent.DATA), pa.int32()))).as_py():
        raise ManifestFormatError(
            f"manifest {manifest.manifest_path} holds delete files, but its manifest list says that it holds data files",
            path=manifest.manifest_path,
        )


def _primitive_ids(schema: Schema) -> list[int]:
    return sorted(field_id for field_id in schema.field_ids if schema.find_type(field_id).is_primitive)


def _count(live: Any, mask: Mask) -> FileCounts:
    sizes, records = numpy_of(live["file_size_in_bytes"]), numpy_of(live["record_count"])
    return FileCounts(files=int(mask.sum()), bytes=int(sizes[mask].sum()), records=int(records[mask].sum()))


def _live_files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _live_records(manifest: ManifestFile) -> int:
    return (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)


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
