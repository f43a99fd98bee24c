"""Statistics files of a table: distinct values of columns, and counts by partition.

`manifest_contents.py` shows statistics in manifests. Spec: Table Statistics; Partition Statistics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.display.report import Column, Facts, Grid, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text, time_text, within
from icefloe.inspect.decoded import PartitionColumn, partition_columns
from icefloe.operations.column_statistics import BlobStatistics, TableStatistics
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.partition_statistics import find_partition_statistics
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.statistics.partition_statistics_schema import PARTITION
from icefloe.spec.values import physical_arrow_type, physical_list


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOverview:
    """One partition of one spec. Sizes are in bytes, times in milliseconds since 1970. Values that the file does not have are None."""

    partition: Mapping[str, str]
    spec_id: int
    data_record_count: int
    data_file_count: int
    total_data_file_size_in_bytes: int
    position_delete_record_count: int | None
    position_delete_file_count: int | None
    equality_delete_record_count: int | None
    equality_delete_file_count: int | None
    total_record_count: int | None
    last_updated_at: int | None
    last_updated_snapshot_id: int | None
    dv_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """The partition statistics file of one snapshot, with its rows."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    partitions: tuple[PartitionOverview, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StatisticsOverview(Reportable):
    """The table statistics and partition statistics of a snapshot, or the newest ones. A kind that does not exist is None."""

    table: str
    location: str
    current_snapshot_id: int | None
    statistics: TableStatistics | None
    partition_statistics: PartitionStatistics | None

    def report(self, most: int | None = MOST_LINES) -> Report:
        current = "none" if self.current_snapshot_id is None else str(self.current_snapshot_id)
        parts: list[Part] = [Facts((("location", self.location), ("current snapshot", current)))]
        if self.statistics is None:
            parts.append(Prose("No distinct values were counted: table.compute_statistics() does."))
        else:
            statistics = self.statistics
            size = size_text(statistics.file_size_in_bytes)
            parts += [
                self._facts("statistics of columns", statistics.snapshot_id, statistics.statistics_path, size),
                _blob_grid(statistics.blobs, most),
            ]
        if self.partition_statistics is None:
            parts.append(Prose("Partitions were not counted: table.compute_partition_statistics() does."))
        else:
            rows = self.partition_statistics
            size = size_text(rows.file_size_in_bytes)
            parts += [
                self._facts("statistics of partitions", rows.snapshot_id, rows.statistics_path, size),
                _partition_grid(rows.partitions, most),
            ]
        return Report(f"statistics of {self.table}", tuple(parts))

    def _facts(self, title: str, snapshot_id: int, path: str, size: str) -> Facts:
        is_current = snapshot_id == self.current_snapshot_id
        snapshot = f"{snapshot_id}" + (" (current)" if is_current else "")
        return Facts((("snapshot", snapshot), ("file", within(path, self.location)), ("size", size)), title)


def _blob_grid(blobs: Sequence[BlobStatistics], most: int | None) -> Grid:
    return grid(
        f"columns ({len(blobs):,})",
        (
            Column("columns"),
            Column("distinct values", is_number=True),
            Column("kind", rank=1),
            Column("computed from snapshot", whole=True, rank=2),
        ),
        [
            (
                ", ".join(blob.columns),
                "-" if blob.distinct_values is None else count_text(blob.distinct_values),
                blob.type,
                str(blob.snapshot_id),
            )
            for blob in blobs
        ],
        most,
    )


def _partition_grid(partitions: Sequence[PartitionOverview], most: int | None) -> Grid:
    columns = (
        Column("partition"),
        Column("spec", is_number=True, rank=6),
        Column("rows", is_number=True),
        Column("files", is_number=True),
        Column("size", is_number=True, rank=3),
        Column("deleted by position", is_number=True, rank=4),
        Column("equality deletes", is_number=True, rank=5),
        Column("rows left", is_number=True, rank=1),
        Column("changed", whole=True, rank=7),
    )
    lines = [
        (
            ", ".join(f"{name} = {value}" for name, value in line.partition.items()) or "none",
            str(line.spec_id),
            count_text(line.data_record_count),
            count_text(line.data_file_count),
            size_text(line.total_data_file_size_in_bytes),
            count_text(line.position_delete_record_count),
            count_text(line.equality_delete_record_count),
            count_text(line.total_record_count),
            "unknown" if line.last_updated_at is None else time_text(line.last_updated_at),
        )
        for line in partitions
    ]
    return grid(f"partitions ({len(partitions):,})", columns, lines, most)


def statistics(reader: TableReader, snapshot_id: int | None = None) -> StatisticsOverview:
    """Return the statistics files of a snapshot.

    Args:
        reader: The table.
        snapshot_id: The snapshot; None for the newest statistics of the current snapshot and its ancestors.

    Returns:
        The table statistics and the partition statistics.

    Raises:
        NoSuchSnapshotError: The snapshot does not exist.
        NoSuchFileError: A file that the metadata names does not exist.
        DataFileFormatError: A partition statistics file is damaged, or has an unexpected format.
        PuffinFormatError: A statistics file is damaged.
    """
    return StatisticsOverview(
        table=reader.full_name,
        location=reader.location(),
        current_snapshot_id=reader.metadata.current_snapshot_id,
        statistics=reader.statistics(snapshot_id),
        partition_statistics=_partition_statistics(reader, snapshot_id),
    )


def _partition_statistics(reader: TableReader, snapshot_id: int | None) -> PartitionStatistics | None:
    file = find_partition_statistics(reader.metadata, reader.full_name, snapshot_id)
    if file is None:
        return None
    rows = reader.partition_statistics(file.snapshot_id)
    texts = _partition_texts(reader.metadata, rows)
    plain = rows.drop_columns([PARTITION]).to_pylist()
    return PartitionStatistics(
        snapshot_id=file.snapshot_id,
        statistics_path=file.statistics_path,
        file_size_in_bytes=file.file_size_in_bytes,
        partitions=tuple(PartitionOverview(partition=text, **({"dv_count": None} | row)) for text, row in zip(texts, plain, strict=True)),
    )


def _partition_texts(metadata: TableMetadata, rows: Any) -> list[dict[str, str]]:
    """Return the partition values of each row as text by field name. Each row has the fields of its own spec."""
    partition = rows[PARTITION].combine_chunks()
    specs = {spec.spec_id: partition_columns(metadata, spec.spec_id) for spec in metadata.partition_specs}
    kinds = {column.field_id: column for columns in specs.values() for column in columns}
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in partition.type]
    values = {field_id: _physical(kinds[field_id], pc.struct_field(partition, [place])) for place, field_id in enumerate(ids)}
    return [
        {column.name: column.text(values[column.field_id][row]) for column in specs.get(spec_id, ())}
        for row, spec_id in enumerate(rows["spec_id"].to_pylist())
    ]


def _physical(column: PartitionColumn, values: Any) -> list[Any]:
    if values.null_count == len(values):
        return [None] * len(values)
    return physical_list(column.kind, values.cast(physical_arrow_type(column.kind)))
