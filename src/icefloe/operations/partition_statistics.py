"""Partition statistics: functions that compute them from the manifests of a snapshot, write them to a file of the table's file format, and read them.

`spec/statistics` computes the rows; `column_statistics.py` has the statistics of columns. Spec: Partition Statistics; Partition Statistics File.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.commit.change_properties import property_requirements
from icefloe.commit.metadata_change import MetadataChange
from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import appender_factory
from icefloe.errors import FormatError, InvalidInputError, NoSuchSnapshotError, NotFoundError, StorageError
from icefloe.operations.parallel_requests import in_threads
from icefloe.operations.pending_change import Commit
from icefloe.operations.statistics_plan import StatisticsPlan
from icefloe.operations.table_handle import metadata_folder
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type, table_partition_type
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile
from icefloe.spec.metadata.statistics_updates import SetPartitionStatistics
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.ports import FileIO, IdSource
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.statistics.partition_statistics_rows import (
    aggregate_partition_statistics,
    counts_match_manifests,
    manifest_statistics_rows,
    statistics_file_rows,
)
from icefloe.spec.statistics.partition_statistics_schema import partition_statistics_schema

# ---- computing ----


def plan_partition_statistics(metadata: TableMetadata, io: FileIO, table_name: str, snapshot_id: int | None) -> StatisticsPlan | None:
    """Return what `compute_partition_statistics` would read; None for a table without a snapshot.

    The computation reads more than planned, namely every manifest, if it finds that the statistics of the ancestor do not match the manifests.
    """
    counted = _count_partitions(metadata, io, table_name, snapshot_id)
    if counted is None:
        return None
    number = counted.snapshot.snapshot_id
    if counted.file is not None:
        return StatisticsPlan(table=table_name, of="manifest", snapshot_id=number, based_on=number)
    last = _last_statistics(metadata, io, counted)
    read = counted.manifests if last is None else last.added
    return StatisticsPlan(
        table=table_name,
        of="manifest",
        snapshot_id=number,
        files=len(read),
        size_in_bytes=sum(manifest.manifest_length for manifest in read),
        based_on=None if last is None else last.snapshot_id,
    )


def compute_partition_statistics(
    metadata: TableMetadata, io: FileIO, table_name: str, snapshot_id: int | None, ids: IdSource, commit: Commit
) -> PartitionStatisticsFile | None:
    """Count a snapshot's files by partition, write the rows into a new file, and commit it as the snapshot's partition statistics.

    If an ancestor has statistics, the computation starts from them, and counts only the files that later snapshots added and deleted. If the statistics of the
    ancestor cannot be read, or the result does not match the manifests, every manifest is read. If the snapshot itself has readable statistics already, nothing
    is computed.

    Returns:
        The snapshot's statistics file, which may be an existing one; None for a table without a snapshot.
    """
    counted = _count_partitions(metadata, io, table_name, snapshot_id)
    if counted is None:
        return None
    if counted.file is not None:
        return counted.file
    schema, rows = counted.schema, _from_ancestor(metadata, io, counted)
    if rows is None:
        parts = [statistics_file_rows(schema_to_arrow(schema).empty_table(), table_partition_type(metadata))]
        rows = aggregate_partition_statistics(
            [*parts, *_rows(metadata, io, counted.manifests, changes_only=False)], table_partition_type(metadata), schema
        )
    file = _write(metadata, io, ids, counted.snapshot, schema, rows)
    commit(MetadataChange(lambda _: (SetPartitionStatistics(file),), property_requirements(metadata), new_files=(file.statistics_path,)))
    return file


def _schema(metadata: TableMetadata, table_name: str) -> Schema:
    partition_type = table_partition_type(metadata)
    if not partition_type.fields:
        raise InvalidInputError(
            f"{table_name} has no partition field in any of its specs, so it has no statistics of partitions",
            table=table_name,
            next_step="look at the totals in the snapshot's summary",
        )
    return partition_statistics_schema(partition_type, metadata.format_version)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A snapshot whose partition statistics are computed.

    Attributes:
        snapshot: The snapshot.
        schema: The schema of the rows of a partition statistics file.
        manifests: The manifests of the snapshot.
        file: The partition statistics file that the snapshot already has; None if it has none, or the file cannot be read.
    """

    snapshot: Snapshot
    schema: Schema
    manifests: Sequence[ManifestFile]
    file: PartitionStatisticsFile | None


@dataclass(frozen=True, slots=True)
class _LastStatistics:
    """The stored statistics of an ancestor: its id, the rows of its statistics file, and the manifests that later snapshots `added`."""

    snapshot_id: int
    rows: Any
    added: Sequence[ManifestFile]


def _count_partitions(metadata: TableMetadata, io: FileIO, table_name: str, snapshot_id: int | None) -> _Counted | None:
    schema = _schema(metadata, table_name)
    snapshot = metadata.current_snapshot() if snapshot_id is None else _snapshot(metadata, table_name, snapshot_id)
    if snapshot is None:
        return None
    file = _file_of(metadata, snapshot.snapshot_id)
    if file is not None and _readable(io, file, schema) is None:
        file = None
    return _Counted(snapshot, schema, read_manifests(snapshot, io.read), file)


def _last_statistics(metadata: TableMetadata, io: FileIO, counted: _Counted) -> _LastStatistics | None:
    """Return the statistics of the nearest ancestor with a statistics file; None if no ancestor has such a file, or the file cannot be read."""
    since: list[Snapshot] = []
    for ancestor in ancestors(metadata, counted.snapshot.snapshot_id):
        file = _file_of(metadata, ancestor.snapshot_id) if since else None
        if file is not None:
            break
        since.append(ancestor)
    else:
        return None
    rows = _readable(io, file, counted.schema)
    if rows is None:
        return None
    added = [
        manifest
        for newer in since
        for manifest in (counted.manifests if newer is counted.snapshot else read_manifests(newer, io.read))
        if manifest.added_snapshot_id == newer.snapshot_id
    ]
    return _LastStatistics(file.snapshot_id, rows, added)


def _from_ancestor(metadata: TableMetadata, io: FileIO, counted: _Counted) -> Any | None:
    """Compute the rows of the statistics from those of the nearest ancestor and the changes since then.

    Return None if no ancestor has readable statistics, or if the computed rows do not match the manifests.
    """
    last = _last_statistics(metadata, io, counted)
    if last is None:
        return None
    partition_type = table_partition_type(metadata)
    parts = [statistics_file_rows(last.rows, partition_type), *_rows(metadata, io, last.added, changes_only=True)]
    rows = aggregate_partition_statistics(parts, partition_type, counted.schema)
    return rows if counts_match_manifests(rows, counted.manifests) else None


def _rows(metadata: TableMetadata, io: FileIO, manifests: Iterable[ManifestFile], *, changes_only: bool) -> list[Any]:
    partition_type = table_partition_type(metadata)
    timestamps = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}

    def read(manifest: ManifestFile) -> Any:
        columns = read_columns(io.read(manifest.manifest_path), manifest, spec_partition_type(metadata, manifest.partition_spec_id))
        return manifest_statistics_rows(columns, manifest, partition_type, timestamps, changes_only=changes_only)

    return list(in_threads(read, manifests))


def _write(metadata: TableMetadata, io: FileIO, ids: IdSource, snapshot: Snapshot, schema: Schema, rows: Any) -> PartitionStatisticsFile:
    factory = appender_factory(schema, metadata.properties)
    location = f"{metadata_folder(metadata)}/partition-stats-{snapshot.snapshot_id}-{ids.uuid()}.{factory.extension}"
    table = rows.cast(factory.arrow_schema)
    try:
        output = factory.new_appender(io, location, table)
        try:
            output.write_row_group(table)
            written = output.close((), sort_order_id=None, spec_id=0)
        except BaseException:
            output.abandon()
            raise
    except BaseException:
        # An error of the clean-up is ignored, so that the first error is raised.
        with suppress(StorageError, NotFoundError):
            if io.exists(location):
                io.delete(location)
        raise
    return PartitionStatisticsFile(
        snapshot_id=snapshot.snapshot_id, statistics_path=location, file_size_in_bytes=written.file_size_in_bytes
    )


# ---- reading ----


def read_partition_statistics(metadata: TableMetadata, io: FileIO, table_name: str, snapshot_id: int | None) -> Any | None:
    """Return the partition statistics of a snapshot as a `pyarrow.Table`; None if it has none.

    If `snapshot_id` is None, the statistics of the newest snapshot that has some are returned, among the current snapshot and its ancestors.

    Raises:
        NoSuchSnapshotError: the table has no such snapshot.
        NoSuchFileError: the statistics file does not exist.
        DataFileFormatError: the statistics file is damaged, or has a wrong format.
    """
    file = find_partition_statistics(metadata, table_name, snapshot_id)
    return None if file is None else _read(io, file, _schema(metadata, table_name))


def find_partition_statistics(metadata: TableMetadata, table_name: str, snapshot_id: int | None) -> PartitionStatisticsFile | None:
    """Return the partition statistics file of a snapshot; None if it has none.

    Args:
        metadata: The table's metadata.
        table_name: The name of the table, for the error.
        snapshot_id: The id of the snapshot; None for the newest snapshot with such a file, among the current snapshot and its ancestors.

    Raises:
        NoSuchSnapshotError: The table has no such snapshot.
    """
    if snapshot_id is not None:
        return _file_of(metadata, _snapshot(metadata, table_name, snapshot_id).snapshot_id)
    current = metadata.current_snapshot()
    lineage = ancestors(metadata, current.snapshot_id if current else None)
    return next((file for snapshot in lineage if (file := _file_of(metadata, snapshot.snapshot_id))), None)


def _readable(io: FileIO, file: PartitionStatisticsFile, schema: Schema) -> Any | None:
    try:
        return _read(io, file, schema)
    except (NotFoundError, FormatError):
        return None


def _read(io: FileIO, file: PartitionStatisticsFile, schema: Schema) -> Any:
    ending = file.statistics_path.rpartition(".")[2].upper()
    stored = DataFile(
        file_path=file.statistics_path,
        file_format=FileFormat(ending) if ending in FileFormat.__members__ else FileFormat.PARQUET,
        record_count=0,
        file_size_in_bytes=file.file_size_in_bytes,
    )
    task = FileScanTask(file=stored, residual=AlwaysTrue(), length=file.file_size_in_bytes)
    batches = read_task(io, task, schema=schema, projection=schema, specs={0: UNPARTITIONED_SPEC}, has_record_count=False)
    return pa.Table.from_batches(batches, schema_to_arrow(schema))


def _snapshot(metadata: TableMetadata, table_name: str, snapshot_id: int) -> Snapshot:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise NoSuchSnapshotError(f"{table_name} has no snapshot {snapshot_id}", table=table_name, snapshot_id=snapshot_id)
    return snapshot


def _file_of(metadata: TableMetadata, snapshot_id: int) -> PartitionStatisticsFile | None:
    return next((file for file in metadata.partition_statistics if file.snapshot_id == snapshot_id), None)
