"""Schemas of the metadata tables. Names, field ids, types and order of the columns are those of Java.

The metrics of columns are in `readable_metrics.py`. Spec: Data File Fields; Manifest Entry Fields; Position Delete Files.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.metadata_tables.readable_metrics import readable_metrics_field
from icefloe.operations.change_feed.change_columns import CHANGE_COLUMNS, feed_metadata_columns
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.metadata_columns import (
    DELETE_FILE_PATH,
    DELETE_POS,
    DELETE_ROW_FIELD_ID,
    DELETE_ROW_NAME,
    FILE,
    PARTITION_FIELD_ID,
    SPEC_ID,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.statistics.partition_statistics_schema import with_unique_names
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

DATA_FILE = "data_file"
PARTITION = "partition"
PARTITION_ID = 102
# Java's own field ids for the offset and size of a deletion vector in `position_deletes`. In manifests these columns have the ids of the specification.
_VECTOR_OFFSET_ID, _VECTOR_SIZE_ID = 144, 145
_FIRST_VERSION_WITH_VECTORS = 3


def _optional(field_id: int, name: str, kind: IcebergType, doc: str | None = None) -> NestedField:
    return NestedField(field_id, name, kind, False, doc)


def _required_field(field_id: int, name: str, kind: IcebergType, doc: str | None = None) -> NestedField:
    return NestedField(field_id, name, kind, True, doc)


def _by_column(key_id: int, value_id: int, kind: IcebergType) -> MapType:
    return MapType(key_id=key_id, key_type=IntegerType(), value_id=value_id, value_type=kind)


def partition_struct(metadata: TableMetadata) -> StructType:
    """Return the type of `partition`: every partition field of every spec whose source column the table still has. JAVA: Partitioning.partitionType.

    Raises:
        InvalidPartitionSpecError: No schema of the table has the source column of a partition field, so that the type of the field is unknown.
    """
    schema = metadata.schema()
    kept = {field.field_id for spec in metadata.partition_specs for field in spec.fields if field.source_id in schema}
    fields = [replace(field, required=False) for field in table_partition_type(metadata).fields if field.field_id in kept]
    return StructType(*with_unique_names(fields))


# ---- about files ----


def _file_fields(partition: StructType) -> list[NestedField]:
    """Return the columns that describe a file, in the order of Java's table; without `partition` if no spec has a partition field."""
    fields = [
        _optional(134, "content", IntegerType(), "0: data, 1: position deletes, 2: equality deletes"),
        _required_field(100, "file_path", StringType(), "Location of the file"),
        _required_field(101, "file_format", StringType(), "avro, orc, parquet or puffin, in upper case"),
        _optional(141, "spec_id", IntegerType(), "Partition spec that the file was written with"),
    ]
    if partition.fields:
        fields.append(_required_field(PARTITION_ID, PARTITION, partition, "Values of the partition fields of all specs"))
    return [
        *fields,
        _required_field(103, "record_count", LongType(), "Rows in the file"),
        _required_field(104, "file_size_in_bytes", LongType()),
        _optional(108, "column_sizes", _by_column(117, 118, LongType()), "Bytes on disk by column id"),
        _optional(109, "value_counts", _by_column(119, 120, LongType()), "Values by column id, nulls and NaN too"),
        _optional(110, "null_value_counts", _by_column(121, 122, LongType()), "Nulls by column id"),
        _optional(137, "nan_value_counts", _by_column(138, 139, LongType()), "NaNs by column id"),
        _optional(125, "lower_bounds", _by_column(126, 127, BinaryType()), "Lower bounds by column id"),
        _optional(128, "upper_bounds", _by_column(129, 130, BinaryType()), "Upper bounds by column id"),
        _optional(131, "key_metadata", BinaryType(), "How the file is encrypted"),
        _optional(132, "split_offsets", ListType(element_id=133, element=LongType()), "Where the file can be split, in bytes"),
        _optional(135, "equality_ids", ListType(element_id=136, element=IntegerType()), "Key columns of an equality delete file"),
        _optional(140, "sort_order_id", IntegerType()),
        _optional(142, "first_row_id", LongType(), "Row id of the file's first row"),
        _optional(143, "referenced_data_file", StringType(), "The one data file that a delete file is about"),
        _optional(144, "content_offset", LongType(), "Where a deletion vector begins, in bytes"),
        _optional(145, "content_size_in_bytes", LongType(), "Length of a deletion vector in bytes"),
    ]


def _with_metrics(metadata: TableMetadata, fields: list[NestedField]) -> Schema:
    highest = Schema(*fields).highest_field_id
    return Schema(*fields, readable_metrics_field(metadata.schema(), highest + 1))


def files_schema(metadata: TableMetadata) -> Schema:
    """Return the schema of `files`, `data_files`, `delete_files`, `all_files`, `all_data_files` and `all_delete_files`."""
    return _with_metrics(metadata, _file_fields(partition_struct(metadata)))


def entries_schema(metadata: TableMetadata) -> Schema:
    """Return the schema of `entries` and `all_entries`."""
    fields = [
        _required_field(0, "status", IntegerType(), "0: existing, 1: added, 2: deleted"),
        _optional(1, "snapshot_id", LongType()),
        _optional(3, "sequence_number", LongType()),
        _optional(4, "file_sequence_number", LongType()),
        _required_field(2, DATA_FILE, StructType(*_file_fields(partition_struct(metadata)))),
    ]
    return _with_metrics(metadata, fields)


def partitions_schema(metadata: TableMetadata) -> Schema:
    """Return the schema of `partitions`; without partition columns for a table that was never partitioned."""
    partition = partition_struct(metadata)
    keys = [_required_field(1, PARTITION, partition), _required_field(4, "spec_id", IntegerType())] if partition.fields else []
    return Schema(
        *keys,
        _required_field(2, "record_count", LongType(), "Rows in data files"),
        _required_field(3, "file_count", IntegerType(), "Data files"),
        _required_field(11, "total_data_file_size_in_bytes", LongType(), "Bytes of data files"),
        _required_field(5, "position_delete_record_count", LongType(), "Rows in position delete files, positions in deletion vectors"),
        _required_field(6, "position_delete_file_count", IntegerType(), "Position delete files and deletion vectors"),
        _required_field(7, "equality_delete_record_count", LongType(), "Rows in equality delete files"),
        _required_field(8, "equality_delete_file_count", IntegerType(), "Equality delete files"),
        _optional(9, "last_updated_at", TimestamptzType(), "When a snapshot last added a file that is still there"),
        _optional(10, "last_updated_snapshot_id", LongType(), "That snapshot"),
    )


def position_deletes_schema(metadata: TableMetadata) -> Schema:
    """Return the schema of `position_deletes`."""
    partition = partition_struct(metadata)
    fields = [
        DELETE_FILE_PATH,
        DELETE_POS,
        _optional(DELETE_ROW_FIELD_ID, DELETE_ROW_NAME, metadata.schema().as_struct(), "The deleted row, where the delete file holds it"),
    ]
    if partition.fields:
        fields.append(_required_field(PARTITION_FIELD_ID, PARTITION, partition, "Partition of the delete file"))
    fields += [replace(SPEC_ID, name="spec_id"), replace(FILE, name="delete_file_path", doc="Location of the delete file")]
    if metadata.format_version >= _FIRST_VERSION_WITH_VECTORS:
        fields.append(_optional(_VECTOR_OFFSET_ID, "content_offset", LongType(), "Where a deletion vector begins, in bytes"))
        fields.append(_optional(_VECTOR_SIZE_ID, "content_size_in_bytes", LongType(), "Length of a deletion vector in bytes"))
    return Schema(*fields)


def changes_schema(metadata: TableMetadata) -> Schema:
    """Return the schema of `changes`: the table's columns, then the kind, the ordinal and the snapshot of the change."""
    return Schema(*metadata.schema().fields, *CHANGE_COLUMNS)


def changes_metadata_columns(metadata: TableMetadata) -> Sequence[NestedField]:
    """Return the metadata columns that `changes` has only on request, such as `_file`. A metadata column is left out if the table has a column of its name."""
    own = metadata.schema().names
    return [column for column in feed_metadata_columns(metadata) if column.name not in own]


# ---- about manifests ----


_SUMMARY = StructType(
    _required_field(10, "contains_null", BooleanType()),
    _optional(11, "contains_nan", BooleanType()),
    _optional(12, "lower_bound", StringType()),
    _optional(13, "upper_bound", StringType()),
)
_MANIFEST_COUNTS = (
    (5, "added_data_files_count"),
    (6, "existing_data_files_count"),
    (7, "deleted_data_files_count"),
    (15, "added_delete_files_count"),
    (16, "existing_delete_files_count"),
    (17, "deleted_delete_files_count"),
)


def manifests_schema(_: TableMetadata) -> Schema:
    """Return the schema of `manifests`. Fields that a version 1 manifest list may leave out are nullable."""
    return Schema(
        _required_field(14, "content", IntegerType(), "0: data, 1: deletes"),
        _required_field(1, "path", StringType()),
        _required_field(2, "length", LongType()),
        _required_field(3, "partition_spec_id", IntegerType()),
        _required_field(4, "added_snapshot_id", LongType()),
        *(_optional(field_id, name, IntegerType()) for field_id, name in _MANIFEST_COUNTS),
        _optional(8, "partition_summaries", ListType(element_id=9, element=_SUMMARY)),
    )


def all_manifests_schema(_: TableMetadata) -> Schema:
    """Return the schema of `all_manifests`: one row for each manifest of each snapshot."""
    return Schema(
        *(field if field.name in ("content", "path", "length") else replace(field, required=False) for field in manifests_schema(_).fields),
        _required_field(18, "reference_snapshot_id", LongType(), "The snapshot whose manifest list names the manifest"),
        _optional(19, "key_metadata", BinaryType(), "How the manifest is encrypted"),
    )


# ---- about snapshots ----


def history_schema(_: TableMetadata) -> Schema:
    """Return the schema of `history`: the snapshot log."""
    return Schema(
        _required_field(1, "made_current_at", TimestamptzType()),
        _required_field(2, "snapshot_id", LongType()),
        _optional(3, "parent_id", LongType()),
        _required_field(4, "is_current_ancestor", BooleanType()),
    )


def metadata_log_schema(_: TableMetadata) -> Schema:
    """Return the schema of `metadata_log_entries`: the current and earlier metadata files."""
    return Schema(
        _required_field(1, "timestamp", TimestamptzType()),
        _required_field(2, "file", StringType()),
        _optional(3, "latest_snapshot_id", LongType()),
        _optional(4, "latest_schema_id", IntegerType()),
        _optional(5, "latest_sequence_number", LongType()),
    )


def snapshots_schema(_: TableMetadata) -> Schema:
    """Return the schema of `snapshots`."""
    return Schema(
        _required_field(1, "committed_at", TimestamptzType()),
        _required_field(2, "snapshot_id", LongType()),
        _optional(3, "parent_id", LongType()),
        _optional(4, "operation", StringType()),
        _optional(5, "manifest_list", StringType()),
        _optional(6, "summary", MapType(key_id=7, key_type=StringType(), value_id=8, value_type=StringType())),
    )


def refs_schema(_: TableMetadata) -> Schema:
    """Return the schema of `refs`: branches and tags."""
    return Schema(
        _required_field(1, "name", StringType()),
        _required_field(2, "type", StringType(), "BRANCH or TAG"),
        _required_field(3, "snapshot_id", LongType()),
        _optional(4, "max_reference_age_in_ms", LongType()),
        _optional(5, "min_snapshots_to_keep", IntegerType()),
        _optional(6, "max_snapshot_age_in_ms", LongType()),
    )
