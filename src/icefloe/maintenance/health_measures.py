"""`TableMeasures`: counts of what makes reads of a table expensive: file sizes by partition, deletes, clustering, manifests, snapshots.

All counts are computed with arrays from the plan of one scan of all files, so that a table of a million files takes seconds. `icefloe.inspect.health` shows the
measures, and `maintain.py` decides with them. Spec: Scan Planning; Manifests; Delete Formats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.maintenance.clustering_depth import clustering_depths, partition_numbers
from icefloe.maintenance.rewrite_options import RewriteOptions, rewrite_options
from icefloe.maintenance.rewrite_planner import delete_shares, deleted_rows
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.arrow_values import array_of_chunks, numbers_array, numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.retention import Expired, Retention, select_expired
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_schema
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import MANIFEST_TARGET_SIZE_BYTES
from icefloe.spec.partitioning.partition_spec import partition_path
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.ports import Read
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import PrimitiveType

MIB = 1 << 20
# Upper limits of the classes of file sizes, in bytes; one more class has the larger files.
SIZE_CLASSES = (1 * MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB)
# The number of columns whose clustering is measured by default: their bounds are decoded for every file.
MEASURED_COLUMNS = 4
# The number of partitions that are listed, those with the most files to save first; the counts include all partitions.
NAMED_PARTITIONS = 1_000
_COUNTED = ("file_size_in_bytes", "record_count")

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMeasures:
    """The data files of one partition of one partition spec.

    Attributes:
        partition: The partition in folder form, such as `day=2026-11-01`; empty for an unpartitioned spec.
        spec_id: The id of the partition spec.
        files: The number of data files.
        size_in_bytes: The total size of these files.
        best_files: The number of files of the target size that could hold these bytes.
        small_files: The number of files that are smaller than the option `min-file-size-bytes` allows.
        records: The number of rows, including deleted rows.
        deleted_rows: The estimated number of deleted rows.
        files_by_size: The number of files in each class of `SIZE_CLASSES`.
    """

    partition: str
    spec_id: int
    files: int
    size_in_bytes: int
    best_files: int
    small_files: int
    records: int
    deleted_rows: int
    files_by_size: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnClustering:
    """The clustering of files by one column.

    Attributes:
        column: The dotted name of the column.
        is_sort_key: Whether the column is the first key of the table's sort order.
        mean_depth: The mean number of files in its partition with which a file's range of values overlaps, itself included: 1 is best.
        deep_files: The number of files with a depth of at least `clustering_depth.LEAST_DEPTH` that overlap with another such file.
        measured_files: The number of files with comparable bounds.
    """

    column: str
    is_sort_key: bool
    mean_depth: float
    deep_files: int
    measured_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestMeasures:
    """The manifests of one content and partition spec: their number, and the number of manifests that could hold their bytes."""

    content: ManifestContent
    spec_id: int
    manifests: int
    best_manifests: int
    size_in_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeasures:
    """The measures of one branch of a table. Sizes are in bytes, times in milliseconds since 1970.

    Attributes:
        snapshot_id: The head of the branch; None for a table without snapshots.
        files: The number of live data files.
        size_in_bytes: The total size of these files.
        records: The number of rows in these files, including deleted rows.
        deleted_rows: The estimated number of deleted rows.
        partitions: The measures of the listed partitions, those with the most files to save first.
        partition_count: The number of all partitions, including those that are not listed.
        files_by_size: The number of files in each class of `SIZE_CLASSES`, over all partitions.
        mergeable_files: The number of small files in partitions that have enough of them for a rewrite.
        deleted_files: The number of files with many deleted rows, according to `delete-ratio-threshold`.
        delete_files: The number of live delete files that apply to a data file, by kind: `position`, `vector` and `equality`.
        dangling_deletes: The number of live delete files that apply to no data file; None if the manifest list has no counts.
        clustering: The clustering of each measured column.
        manifests: The manifests of each content and partition spec.
        snapshots: The number of snapshots.
        expirable: The snapshots, branches and tags that the table's retention policy no longer keeps.
        oldest_snapshot_ms: The time of the oldest snapshot.
        statistics_files: The number of column and partition statistics files in the metadata.
    """

    snapshot_id: int | None
    files: int
    size_in_bytes: int
    records: int
    deleted_rows: int
    partitions: tuple[PartitionMeasures, ...]
    partition_count: int
    files_by_size: tuple[int, ...]
    mergeable_files: int
    deleted_files: int
    delete_files: Mapping[str, int]
    dangling_deletes: int | None
    clustering: tuple[ColumnClustering, ...]
    manifests: tuple[ManifestMeasures, ...]
    snapshots: int
    expirable: Expired
    oldest_snapshot_ms: int | None
    statistics_files: int

    @property
    def best_files(self) -> int:
        """The number of files that the listed partitions would have at the target size."""
        return sum(partition.best_files for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOfBranch:
    """All live files of the head of a branch, planned once for every measure and action.

    Attributes:
        metadata: The metadata that was planned on.
        snapshot: The head of the branch; None for a table without snapshots.
        manifests: The manifests of this snapshot.
        plan: All data files of the snapshot, with the delete files that apply to them, and the statistics for the columns of `schema`.
        schema: The columns whose clustering is measured.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    manifests: Sequence[ManifestFile]
    plan: ScanPlan
    schema: Schema


def files_of_branch(metadata: TableMetadata, snapshot: Snapshot | None, read: Read, columns: Sequence[str] | None = None) -> FilesOfBranch:
    """Plan all files of a snapshot.

    Args:
        metadata: The table's metadata.
        snapshot: The snapshot; None for a table without one.
        read: Returns the content of a file.
        columns: Dotted names of columns whose clustering is measured; by default the columns of the sort order and the first columns of the schema.

    Raises:
        InvalidSchemaError: One of the columns does not exist.
        InvalidInputError: A column is nested, or not of a primitive type.
        NoSuchFileError, AvroFormatError, ManifestFormatError: A manifest is missing or damaged.
    """
    schema = _measured_schema(metadata, columns)
    plan = plan_scan(metadata, snapshot, AlwaysTrue(), read, parallel=in_threads, include_statistics=True, every_delete=True, schema=schema)
    manifests = () if snapshot is None else read_manifests(snapshot, read)
    return FilesOfBranch(metadata=metadata, snapshot=snapshot, manifests=manifests, plan=plan, schema=schema)


def measure(files: FilesOfBranch, now_ms: int, retention: Retention | None = None) -> TableMeasures:
    """Compute the measures of a branch.

    Args:
        files: All files of the branch.
        now_ms: The current time in milliseconds since 1970-01-01 UTC, for the retention policy.
        retention: The arguments of an expiry; by default only the table's properties decide.

    Raises:
        InvalidPropertyError: A table property about retention or file sizes has an invalid value.
    """
    metadata, plan = files.metadata, files.plan
    options = rewrite_options({}, metadata, UNSORTED_SORT_ORDER)
    partitions: list[_Counted] = [_count_partitions(metadata, spec_files, options) for spec_files in files_by_spec(plan)]
    named = sorted(
        (partition for counted in partitions for partition in counted.named), key=lambda partition: partition.best_files - partition.files
    )
    times = [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    return TableMeasures(
        snapshot_id=None if files.snapshot is None else files.snapshot.snapshot_id,
        files=plan.files_kept,
        size_in_bytes=plan.bytes_kept,
        records=plan.records_before_deletes,
        deleted_rows=sum(counted.deleted for counted in partitions),
        partitions=tuple(named[:NAMED_PARTITIONS]),
        partition_count=sum(counted.partitions for counted in partitions),
        files_by_size=tuple(np.sum([counted.files_by_size for counted in partitions], axis=0).tolist())
        if partitions
        else (0,) * (len(SIZE_CLASSES) + 1),
        mergeable_files=sum(counted.mergeable for counted in partitions),
        deleted_files=sum(counted.deleted_files for counted in partitions),
        delete_files=_delete_kinds(plan),
        dangling_deletes=_dangling(files),
        clustering=tuple(_clustering(files)),
        manifests=tuple(_manifest_measures(files)),
        snapshots=len(metadata.snapshots),
        expirable=select_expired(metadata, retention or Retention(), now_ms),
        oldest_snapshot_ms=min(times, default=None),
        statistics_files=len(metadata.statistics) + len(metadata.partition_statistics),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """The partitions of one spec: totals over all partitions, and the measures of those with the most files to save."""

    named: Sequence[PartitionMeasures]
    partitions: int
    files_by_size: Longs
    deleted: int
    mergeable: int
    deleted_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFiles:
    """The planned data files of one partition spec, by partition. The arrays have one element for each file.

    Attributes:
        part: All files, with the columns of the partition, the sizes and the row counts.
        codes: The number of each file's partition, counted from 0.
        deleted: The estimated number of deleted rows of each file.
    """

    part: PlannedFiles
    codes: Longs
    deleted: NDArray[np.float64]

    @property
    def spec_id(self) -> int:
        """The id of the partition spec."""
        return self.part.spec_id

    @property
    def sizes(self) -> Longs:
        """The size of each file in bytes."""
        return numpy_of(array_of_chunks(self.part.entries["file_size_in_bytes"])).astype(np.int64, copy=False)

    @property
    def records(self) -> Longs:
        """The number of rows of each file, including deleted rows."""
        return numpy_of(array_of_chunks(self.part.entries["record_count"])).astype(np.int64, copy=False)

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return int(self.codes.max(initial=-1)) + 1

    @property
    def first(self) -> Longs:
        """The index of the first file of each partition."""
        first = np.zeros(self.partitions, dtype=np.int64)
        first[self.codes[::-1]] = np.arange(len(self.codes))[::-1]
        return first

    def total(self, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return for each partition the number of its files, or the sum of a weight of its files."""
        return np.bincount(self.codes, weights=weights, minlength=self.partitions)


def files_by_spec(plan: ScanPlan) -> list[SpecFiles]:
    """Divide the data files of a plan by partition spec."""
    shares = delete_shares(plan)
    by_spec: dict[int, list[PlannedFiles]] = {}
    for part in plan.parts:
        by_spec.setdefault(part.spec_id, []).append(part)
    files = []
    for parts in by_spec.values():
        names = [name for name in parts[0].entries.column_names if name in _COUNTED or name.startswith("partition.")]
        whole = replace(parts[0], entries=pa.concat_tables([part.entries.select(names) for part in parts]).combine_chunks())
        deleted = np.concatenate([deleted_rows(part, shares) for part in parts])
        files.append(SpecFiles(part=whole, codes=partition_numbers(whole), deleted=deleted))
    return files


def _count_partitions(metadata: TableMetadata, spec_files: SpecFiles, options: RewriteOptions) -> _Counted:
    """Count the files of one partition spec by partition."""
    spec_id, codes, count = spec_files.spec_id, spec_files.codes, spec_files.partitions
    sizes, records, deleted, total = spec_files.sizes, spec_files.records, spec_files.deleted, spec_files.total
    is_small = sizes < options.sizes.least
    files, small, bytes_of = total(), total(is_small), total(sizes)
    classes = np.searchsorted(SIZE_CLASSES, sizes, "right")
    by_class = np.bincount(codes * (len(SIZE_CLASSES) + 1) + classes, minlength=count * (len(SIZE_CLASSES) + 1)).reshape(count, -1)
    best = np.maximum(np.minimum(np.ceil(bytes_of / options.sizes.target), files), 1)
    small_bytes = total(np.where(is_small, sizes, 0))
    pays = (small >= options.min_input_files) | ((small > 1) & (small_bytes > options.sizes.target))
    worst = np.argsort(best - files, kind="stable")[:NAMED_PARTITIONS]
    spec, schema = metadata.spec_by_id(spec_id), spec_schema(metadata, spec_id)
    values = spec_files.part.partitions(spec_files.part.entries.take(numbers_array(spec_files.first[worst], pa.int64())))
    rows_of, deleted_in = total(records), total(deleted)
    named = [
        PartitionMeasures(
            partition=partition_path(spec, schema, partition, metadata.schemas) if spec.fields else "",
            spec_id=spec_id,
            files=int(files[code]),
            size_in_bytes=int(bytes_of[code]),
            best_files=int(best[code]),
            small_files=int(small[code]),
            records=int(rows_of[code]),
            deleted_rows=round(float(deleted_in[code])),
            files_by_size=tuple(by_class[code].tolist()),
        )
        for code, partition in zip(worst.tolist(), values, strict=True)
    ]
    many = deleted >= options.delete_ratio_threshold * np.maximum(records, 1)
    return _Counted(
        named=named,
        partitions=count,
        files_by_size=by_class.sum(axis=0),
        deleted=round(float(deleted.sum())),
        mergeable=int(small[pays].sum()),
        deleted_files=int((many & (deleted > 0)).sum()),
    )


def _delete_kinds(plan: ScanPlan) -> Mapping[str, int]:
    kinds = {"position": 0, "vector": 0, "equality": 0}
    for file in plan.delete_files:
        is_equality = file.content is FileContent.EQUALITY_DELETES
        kinds["equality" if is_equality else "vector" if file.file_format is FileFormat.PUFFIN else "position"] += 1
    return kinds


def _dangling(files: FilesOfBranch) -> int | None:
    """Return the number of live delete files that apply to no data file, by the counts in the manifest list."""
    counts = [
        (manifest.added_files_count, manifest.existing_files_count)
        for manifest in files.manifests
        if manifest.content is ManifestContent.DELETES
    ]
    if any(None in pair for pair in counts):
        return None
    return max(0, sum((added or 0) + (existing or 0) for added, existing in counts) - len(files.plan.delete_files))


def _clustering(files: FilesOfBranch) -> list[ColumnClustering]:
    order = files.metadata.sort_order()
    # Files that are sorted by a bucket or a day overlap in the column itself, and no rewrite would separate them.
    key = None if order.is_unsorted or not isinstance(order.fields[0].transform, IdentityTransform) else order.fields[0].source_id
    measures = []
    for field_id in sorted(files.schema.field_ids, key=lambda number: number != key):
        if not isinstance(files.schema.find_type(field_id), PrimitiveType):
            continue
        depths = [clustering_depths(part, field_id, files.schema) for part in files.plan.parts]
        known = np.concatenate([np.zeros(0, np.int64), *(depths_of_part.depths[depths_of_part.known] for depths_of_part in depths)])
        if len(known):
            measures.append(
                ColumnClustering(
                    column=files.schema.find_column_name(field_id) or "",
                    is_sort_key=field_id == key,
                    mean_depth=round(float(np.maximum(known, 1).mean()), 2),
                    deep_files=sum(int(depths_of_part.is_deep.sum()) for depths_of_part in depths),
                    measured_files=len(known),
                )
            )
    return measures


def _manifest_measures(files: FilesOfBranch) -> list[ManifestMeasures]:
    target = MANIFEST_TARGET_SIZE_BYTES.read(files.metadata.properties)
    sizes: dict[tuple[ManifestContent, int], list[int]] = {}
    for manifest in files.manifests:
        if not manifest.has_live_files:
            continue  # no scan opens such a manifest, and the next commit drops it
        sizes.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest.manifest_length)
    return [
        ManifestMeasures(
            content=content,
            spec_id=spec_id,
            manifests=len(lengths),
            best_manifests=min(len(lengths), max(1, -(-sum(lengths) // target))),
            size_in_bytes=sum(lengths),
        )
        for (content, spec_id), lengths in sorted(sizes.items())
    ]


def _measured_schema(metadata: TableMetadata, columns: Sequence[str] | None) -> Schema:
    """Return the columns whose clustering is measured."""
    schema, order = metadata.schema(), metadata.sort_order()
    if columns is not None:
        fields = [schema.find_field(name) for name in columns]
        nested = [
            name for name, field in zip(columns, fields, strict=True) if field.field_id not in {column.field_id for column in schema.fields}
        ]
        if nested or any(not isinstance(field.field_type, PrimitiveType) for field in fields):
            raise InvalidInputError(
                "clustering is measured of top-level columns of primitive types", next_step="leave the other columns out"
            )
        return Schema(*fields, schema_id=schema.schema_id)
    keys = [field.source_id for field in order.fields]
    plain = [field for field in schema.fields if isinstance(field.field_type, PrimitiveType)]
    chosen = sorted(plain, key=lambda field: keys.index(field.field_id) if field.field_id in keys else len(keys))[:MEASURED_COLUMNS]
    return Schema(*chosen, schema_id=schema.schema_id)
