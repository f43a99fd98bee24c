"""The metadata table `partitions`: counts of a snapshot's live files and rows for each partition, over all partition specs.

`spec/statistics/partition_statistics_rows.py` does the counting, which partition statistics use too. Spec: Partitioning; Partition Evolution.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.metadata_tables.file_tables import snapshots_of
from icefloe.metadata_tables.manifest_filter import manifests_of
from icefloe.metadata_tables.request import MICROS_PER_MS, Request
from icefloe.metadata_tables.schemas import PARTITION, partition_struct
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import ManifestColumns
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.arrow_types import field_to_arrow
from icefloe.spec.statistics import partition_statistics_schema as names
from icefloe.spec.statistics.partition_statistics_rows import manifest_statistics_rows
from icefloe.spec.types import StructType

# An added column: the number of partition fields of the file's spec, so that a field that the spec lacks differs from a field with a null value.
_KNOWN_FIELDS = "known fields"


def partition_rows(request: Request) -> Any:
    """Return the rows of `partitions`: one for each partition that has files. A table that was never partitioned has one row, or no row if it has no files.

    Raises:
        NoSuchFileError: A manifest does not exist.
        AvroFormatError: A manifest is damaged.
        ManifestFormatError: A manifest violates the format.
    """
    metadata, partition_type = request.metadata, partition_struct(request.metadata)
    timestamps = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}

    def read(manifest: ManifestFile) -> Any:
        own_type = spec_partition_type(metadata, manifest.partition_spec_id)
        columns = read_columns(request.table.io.read(manifest.manifest_path), manifest, own_type)
        live = columns.entries.filter(pc.not_equal(columns.entries["status"], int(ManifestEntryStatus.DELETED)))
        rows = manifest_statistics_rows(ManifestColumns(live), manifest, partition_type, timestamps)
        known = len({field.field_id for field in own_type.fields} & {field.field_id for field in partition_type.fields})
        return rows.append_column(_KNOWN_FIELDS, pa.array([known] * len(rows), pa.int32()))

    parts = list(in_threads(read, manifests_of(request, snapshots_of(request))))
    return _count_by_partition(parts, partition_type, request) if parts else schema_to_arrow(request.schema).empty_table()


def _count_by_partition(parts: Sequence[Any], partition_type: StructType, request: Request) -> Any:
    keys = [str(field.field_id) for field in partition_type.fields]
    # The newest change of each partition is sorted first, so that the time, the snapshot and the spec are taken from the same change.
    entries = pa.concat_tables(parts).sort_by([(names.UPDATED_AT, "descending")])
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    firsts = (names.UPDATED_AT, names.UPDATED_BY, names.SPEC_ID)
    aggregates = [*((name, "sum") for name in names.COUNTS), *((name, "first", whole) for name in firsts)]
    rows = entries.group_by([*keys, _KNOWN_FIELDS], use_threads=False).aggregate(aggregates)
    rows = rows.rename_columns([name.removesuffix("_sum").removesuffix("_first") for name in rows.column_names])
    if not len(entries):
        return schema_to_arrow(request.schema).empty_table()
    target = schema_to_arrow(request.schema)
    columns = _columns(rows, partition_type)
    return pa.table([columns[field.name].cast(field.type) for field in target], schema=target)


def _columns(rows: Any, partition_type: StructType) -> dict[str, Any]:
    members = [rows[str(field.field_id)].combine_chunks() for field in partition_type.fields]
    updated = pc.multiply(rows[names.UPDATED_AT], MICROS_PER_MS).cast(pa.timestamp("us", tz="UTC"))
    # JAVA: a partition that was changed only by snapshots that have expired has spec 0.
    spec_id = pc.if_else(pc.is_valid(rows[names.UPDATED_AT]), rows[names.SPEC_ID], pa.scalar(0, pa.int32()))
    columns = {
        "spec_id": spec_id,
        "record_count": rows[names.DATA_RECORDS],
        "file_count": rows[names.DATA_FILES],
        "total_data_file_size_in_bytes": rows[names.DATA_SIZE],
        "position_delete_record_count": rows[names.POSITION_RECORDS],
        "position_delete_file_count": pc.add(rows[names.POSITION_FILES], rows[names.VECTORS]),
        "equality_delete_record_count": rows[names.EQUALITY_RECORDS],
        "equality_delete_file_count": rows[names.EQUALITY_FILES],
        "last_updated_at": updated,
        "last_updated_snapshot_id": rows[names.UPDATED_BY],
    }
    if members:
        columns[PARTITION] = pa.StructArray.from_arrays(members, fields=[field_to_arrow(field) for field in partition_type.fields])
    return columns
