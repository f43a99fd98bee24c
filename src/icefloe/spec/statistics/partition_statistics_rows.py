"""Computation of partition statistics from manifests: the sums of the counts of all entries by partition and spec, as Arrow tables.

`operations/partition_statistics.py` selects the manifests and stores the rows. Spec: Partition Statistics File.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import ManifestFormatError
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import ManifestColumns, partition_column
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.statistics import partition_statistics_schema as names
from icefloe.spec.types import StructType


def manifest_statistics_rows(
    columns: ManifestColumns,
    manifest: ManifestFile,
    partition_type: StructType,
    timestamps_ms: Mapping[int, int],
    *,
    changes_only: bool = False,
) -> Any:
    """Return an Arrow table with one row for each entry: its partition values by field id, its spec id, its counts, and its snapshot and time.

    DELETED entries have zeros as counts, and only provide the time of the last change of their partition. With `changes_only`, DELETED entries have negative
    counts, and EXISTING entries are left out.

    Args:
        columns: The entries of the manifest.
        manifest: The manifest.
        partition_type: A struct of every field of every partition spec.
        timestamps_ms: The time of each snapshot of the table by its id. The entries of expired snapshots are counted, but have no snapshot and time.
        changes_only: Whether to count only the changes of the manifest's snapshot.
    """
    entries = columns.entries
    if changes_only:
        entries = entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.EXISTING)))
    deleted = numpy_of(entries["status"]) == int(ManifestEntryStatus.DELETED)
    sign = np.where(deleted, -1 if changes_only else 0, 1).astype(np.int64)
    content = numpy_of(entries["content"])
    is_data = content == int(FileContent.DATA)
    is_position = content == int(FileContent.POSITION_DELETES)
    is_equality = content == int(FileContent.EQUALITY_DELETES)
    is_vector = is_position & np.array([text.upper() == FileFormat.PUFFIN for text in entries["file_format"].to_pylist()], np.bool_)
    records, sizes = numpy_of(entries["record_count"]) * sign, numpy_of(entries["file_size_in_bytes"]) * sign
    counts = {
        names.DATA_RECORDS: records * is_data,
        names.DATA_FILES: sign * is_data,
        names.DATA_SIZE: sizes * is_data,
        names.POSITION_RECORDS: records * is_position,
        names.POSITION_FILES: sign * (is_position & ~is_vector),
        names.EQUALITY_RECORDS: records * is_equality,
        names.EQUALITY_FILES: sign * is_equality,
        names.VECTORS: sign * is_vector,
    }
    partition = {str(field.field_id): _partition_values(entries, field.field_id, field.field_type) for field in partition_type.fields}
    changes = [(snapshot_id, timestamps_ms.get(snapshot_id)) for snapshot_id in entries["snapshot_id"].to_pylist()]
    return pa.table(
        {
            **partition,
            names.SPEC_ID: pa.array([manifest.partition_spec_id] * len(entries), pa.int32()),
            **{name: pa.array(values, pa.int64()) for name, values in counts.items()},
            names.UPDATED_AT: pa.array([time for _, time in changes], pa.int64()),
            names.UPDATED_BY: pa.array([None if time is None else snapshot_id for snapshot_id, time in changes], pa.int64()),
        }
    )


def _partition_values(entries: Any, field_id: int, kind: Any) -> Any:
    """Return the values of a partition field in the Arrow type of the rows. They are nulls if the manifest's spec does not have the field."""
    arrow_type = type_to_arrow(kind)
    name = partition_column(field_id)
    if name not in entries.column_names:
        return pa.nulls(len(entries), arrow_type)
    column = entries[name]
    if column.null_count == len(column):
        return pa.nulls(len(column), arrow_type)
    try:
        return column.cast(arrow_type)
    except pa.ArrowException as error:
        raise ManifestFormatError(
            f"partition values of field {field_id} are of type {column.type}, and the table's are of {kind}: {error}",
            next_step="two specs of the table use one field id for different fields; create the table again from its rows",
        ) from error


def statistics_file_rows(rows: Any, partition_type: StructType) -> Any:
    """Convert the rows of a partition statistics file to the columns of `manifest_statistics_rows`."""
    partition = rows[names.PARTITION].combine_chunks()
    columns = {str(field.field_id): pc.struct_field(partition, [position]) for position, field in enumerate(partition_type.fields)}
    columns[names.SPEC_ID] = rows[names.SPEC_ID]
    for name in names.COUNTS:
        has_column = name in rows.column_names
        columns[name] = pc.fill_null(rows[name].cast(pa.int64()), 0) if has_column else pa.array(np.zeros(len(rows), np.int64))
    return pa.table({**columns, names.UPDATED_AT: rows[names.UPDATED_AT], names.UPDATED_BY: rows[names.UPDATED_BY]})


def aggregate_partition_statistics(parts: Sequence[Any], partition_type: StructType, schema: Schema) -> Any:
    """Return the rows of a partition statistics file: the sums of `parts` by partition and spec.

    A partition without live files has a row of zeros if `parts` contain its former files. `total_record_count` is null if the snapshot has position or equality
    delete files. Rows are sorted in ascending order by partition, with nulls first and NaN last.
    """
    keys = [*(str(field.field_id) for field in partition_type.fields), names.SPEC_ID]
    entries = pa.concat_tables(parts)
    # The newest change of a partition is first, so that its time and its snapshot are of the same change.
    entries = entries.sort_by([(names.UPDATED_AT, "descending")])
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = [(name, "sum") for name in names.COUNTS]
    firsts = [(name, "first", whole) for name in (names.UPDATED_AT, names.UPDATED_BY)]
    grouped = entries.group_by(keys, use_threads=False).aggregate([*sums, *firsts])
    grouped = grouped.rename_columns([name.removesuffix("_sum").removesuffix("_first") for name in grouped.column_names])
    grouped = grouped.take(_order(grouped, keys))
    return _in_schema(grouped, partition_type, schema)


def _order(rows: Any, keys: Sequence[str]) -> Any:
    columns: dict[str, Any] = {}
    for number, key in enumerate(keys):
        column = rows[key]
        columns[f"present {number}"] = pc.is_valid(column)
        if pa.types.is_floating(column.type):
            columns[f"nan {number}"] = pc.is_nan(column)
        columns[f"key {number}"] = column
    return pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])


def _in_schema(rows: Any, partition_type: StructType, schema: Schema) -> Any:
    arrow_schema = schema_to_arrow(schema)
    members = [rows[str(field.field_id)].combine_chunks() for field in partition_type.fields]
    plain = rows.select([name for name in rows.column_names if name in arrow_schema.names])
    partition = pa.StructArray.from_arrays(members, fields=list(arrow_schema.field(names.PARTITION).type))
    plain = plain.append_column(names.PARTITION, partition)
    has_deletes = pc.sum(pc.add(rows[names.POSITION_FILES], rows[names.EQUALITY_FILES])).as_py() or 0
    live_records = pc.subtract(rows[names.DATA_RECORDS], rows[names.POSITION_RECORDS])
    plain = plain.append_column(names.TOTAL_RECORDS, pa.nulls(len(rows), pa.int64()) if has_deletes else live_records)
    return plain.select(arrow_schema.names).cast(arrow_schema)


def counts_match_manifests(rows: Any, manifests: Sequence[ManifestFile]) -> bool:
    """Return True if the rows have as many files as the manifest list counts, and no count is negative."""
    live: dict[ManifestContent, int] = dict.fromkeys(ManifestContent, 0)
    for manifest in manifests:
        if manifest.added_files_count is None or manifest.existing_files_count is None:
            return False
        live[manifest.content] += manifest.added_files_count + manifest.existing_files_count
    counts = {name: numpy_of(rows[name].cast(pa.int64()).fill_null(0)) for name in names.COUNTS if name in rows.column_names}
    if any((values < 0).any() for values in counts.values()):
        return False
    deletes = sum(int(counts[name].sum()) for name in (names.POSITION_FILES, names.EQUALITY_FILES, names.VECTORS) if name in counts)
    return (int(counts[names.DATA_FILES].sum()), deletes) == (live[ManifestContent.DATA], live[ManifestContent.DELETES])
