"""The writer of manifests from entry objects. It also returns the record of the manifest for the manifest list.

The rules for added files are in `file_rules.py`.
Spec: Manifests; Sequence Numbers; First Row ID Inheritance; Manifest Entry Fields; Field-level Metrics and Statistics.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.spec.avro.avro_codec import codec_name
from icefloe.spec.avro.avro_container import write_container
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.file_rules import check_added
from icefloe.spec.manifest.manifest_schema import manifest_codec
from icefloe.spec.manifest.partition_summary import summarise
from icefloe.spec.manifest.partition_values import tuple_writer
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import StructType

# `block_size_in_bytes` (105) is required in v1 and has no meaning; the spec requires a default. 64 MiB is Java's.
V1_BLOCK_SIZE = 64 * 1024 * 1024


@dataclass(slots=True)
class _Totals:
    """The counts and partition values of the entries written so far, for the manifest list's record of the manifest."""

    files: dict[ManifestEntryStatus, int] = field(default_factory=lambda: dict.fromkeys(ManifestEntryStatus, 0))
    rows: dict[ManifestEntryStatus, int] = field(default_factory=lambda: dict.fromkeys(ManifestEntryStatus, 0))
    partitions: set[tuple[Any, ...]] = field(default_factory=set)
    min_sequence_number: int | None = None

    def add(self, entry: ManifestEntry) -> None:
        self.files[entry.status] += 1
        self.rows[entry.status] += entry.data_file.record_count
        self.partitions.add(entry.data_file.partition)
        number = entry.sequence_number
        if number is not None and entry.is_live and (self.min_sequence_number is None or number < self.min_sequence_number):
            self.min_sequence_number = number


def write_manifest(
    entries: Iterable[ManifestEntry],
    *,
    path: str,
    schema: Schema,
    schema_json: str,
    spec_fields_json: str,
    spec_id: int,
    partition_type: StructType,
    snapshot_id: int,
    format_version: int,
    content: ManifestContent = ManifestContent.DATA,
    codec: str = "deflate",
) -> tuple[bytes, ManifestFile]:
    """Write a manifest.

    ADDED entries must not have a `file_sequence_number`, and have a `sequence_number` only if their rows are older than the commit. EXISTING and DELETED
    entries must have both, except in version 1. An entry without a snapshot id gets `snapshot_id`.

    Args:
        entries: The entries.
        path: Location that the caller is going to write the bytes to.
        schema: The table schema.
        schema_json: The table schema as JSON text.
        spec_fields_json: The array of partition fields as JSON text.
        spec_id: Partition spec of all entries.
        partition_type: Type of their partition tuples.
        snapshot_id: Snapshot of the commit.
        format_version: Version of the format.
        content: Whether the manifest has data files or delete files.
        codec: Name of the compression codec.

    Returns:
        The bytes of the manifest, and its record for the manifest list. The writer of the list assigns the sequence number (`UNASSIGNED_SEQ` until then) and
        the first row id.

    Raises:
        InvalidInputError: an entry violates these rules, or its values do not fit their types.
        InvalidPropertyError: the codec is unknown.
        UnsupportedFormatVersionError: the format version is above 3.
    """
    if format_version == 1 and content != ManifestContent.DATA:
        raise InvalidInputError(f"{path} cannot be written: a table of format version 1 has no delete files")
    schema_text, _ = manifest_codec(partition_type, format_version)
    metadata = manifest_metadata(schema, schema_json, spec_fields_json, spec_id, format_version, content)
    totals = _Totals()
    records = _encode_entries(entries, totals, partition_type, snapshot_id, format_version, content)
    data = write_container(schema_text, metadata, codec_name(codec), records)
    return data, _manifest_file(path, len(data), spec_id, snapshot_id, content, totals, partition_type)


def manifest_metadata(
    schema: Schema, schema_json: str, spec_fields_json: str, spec_id: int, format_version: int, content: ManifestContent
) -> dict[str, str]:
    """Return the key-value metadata of a manifest. Spec: Manifests."""
    metadata = {
        "schema": schema_json,
        "schema-id": str(schema.schema_id),
        "partition-spec": spec_fields_json,
        "partition-spec-id": str(spec_id),
        "format-version": str(format_version),
    }
    return metadata if format_version == 1 else {**metadata, "content": content.name.lower()}


def _encode_entries(
    entries: Iterable[ManifestEntry],
    totals: _Totals,
    partition_type: StructType,
    snapshot_id: int,
    format_version: int,
    content: ManifestContent,
) -> Iterator[bytes]:
    """Yield each entry's bytes, after it is checked and counted."""
    _, encode = manifest_codec(partition_type, format_version)
    record = _RECORDS[format_version]
    write_partition = tuple_writer(partition_type)
    for entry in entries:
        _check(entry, content, format_version)
        try:
            totals.add(entry)
            yield encode(record(entry, snapshot_id, write_partition))
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            raise InvalidInputError(f"the entry of {entry.data_file.file_path} cannot be written: {error}") from error


def _manifest_file(
    path: str, length: int, spec_id: int, snapshot_id: int, content: ManifestContent, totals: _Totals, partition_type: StructType
) -> ManifestFile:
    files, rows = totals.files, totals.rows
    return ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=spec_id,
        content=content,
        sequence_number=UNASSIGNED_SEQ,
        # Explicit numbers are lower than that of the commit, so if there is any, the least number is an explicit one.
        min_sequence_number=UNASSIGNED_SEQ if totals.min_sequence_number is None else totals.min_sequence_number,
        added_snapshot_id=snapshot_id,
        added_files_count=files[ManifestEntryStatus.ADDED],
        existing_files_count=files[ManifestEntryStatus.EXISTING],
        deleted_files_count=files[ManifestEntryStatus.DELETED],
        added_rows_count=rows[ManifestEntryStatus.ADDED],
        existing_rows_count=rows[ManifestEntryStatus.EXISTING],
        deleted_rows_count=rows[ManifestEntryStatus.DELETED],
        partitions=summarise(partition_type, totals.partitions),
    )


def _check(entry: ManifestEntry, content: ManifestContent, format_version: int) -> None:
    path = entry.data_file.file_path
    if entry.status == ManifestEntryStatus.ADDED:
        check_added(entry.data_file, format_version)
    if (entry.data_file.content == FileContent.DATA) != (content == ManifestContent.DATA):
        raise InvalidInputError(
            f"{path} holds {entry.data_file.content.name}, its manifest {content.name}: a manifest holds either data or deletes"
        )
    if format_version == 1:
        return
    if entry.status == ManifestEntryStatus.ADDED:
        if entry.file_sequence_number is not None:
            raise InvalidInputError(f"{path} is ADDED with the file sequence number {entry.file_sequence_number}, which it must inherit")
    elif entry.sequence_number is None or entry.file_sequence_number is None or entry.snapshot_id is None:
        raise InvalidInputError(f"{path} is {entry.status.name} and must carry its snapshot id and both sequence numbers")


_PartitionWriter = Callable[[tuple[Any, ...]], Any]


def _record_v1(entry: ManifestEntry, snapshot_id: int, write_partition: _PartitionWriter) -> tuple[Any, ...]:
    file = entry.data_file
    data_file = (*_identity(file, write_partition), V1_BLOCK_SIZE, *_maps(file), file.key_metadata, file.split_offsets, file.sort_order_id)
    return (int(entry.status), snapshot_id if entry.snapshot_id is None else entry.snapshot_id, data_file)


def _record_v2(entry: ManifestEntry, snapshot_id: int, write_partition: _PartitionWriter) -> tuple[Any, ...]:
    file = entry.data_file
    return (*_numbers(entry, snapshot_id), (*_data_file_v2(file, write_partition), _referenced_file(file)))


def _record_v3(entry: ManifestEntry, snapshot_id: int, write_partition: _PartitionWriter) -> tuple[Any, ...]:
    file = entry.data_file
    # Null, because an added file inherits its row ids from the manifest list, even if it had row ids in another table or branch. Spec: First Row ID
    # Inheritance.
    keeps_row_ids = file.content == FileContent.DATA and entry.status != ManifestEntryStatus.ADDED
    is_position_delete = file.content == FileContent.POSITION_DELETES
    data_file = (
        *_data_file_v2(file, write_partition),
        file.first_row_id if keeps_row_ids else None,
        _referenced_file(file),
        file.content_offset if is_position_delete else None,
        file.content_size_in_bytes if is_position_delete else None,
    )
    return (*_numbers(entry, snapshot_id), data_file)


def _numbers(entry: ManifestEntry, snapshot_id: int) -> tuple[Any, ...]:
    entry_snapshot_id = snapshot_id if entry.snapshot_id is None else entry.snapshot_id
    return (int(entry.status), entry_snapshot_id, entry.sequence_number, entry.file_sequence_number)


def _identity(file: DataFile, write_partition: _PartitionWriter) -> tuple[Any, ...]:
    return (file.file_path, file.file_format.value, write_partition(file.partition), file.record_count, file.file_size_in_bytes)


def _data_file_v2(file: DataFile, write_partition: _PartitionWriter) -> tuple[Any, ...]:
    """Return the first fields of a file in version 2 and 3, up to `sort_order_id`, which is null for position deletes. Spec: Data File Fields, note 3."""
    sort_order_id = None if file.content == FileContent.POSITION_DELETES else file.sort_order_id
    equality_ids = file.equality_ids if file.content == FileContent.EQUALITY_DELETES else None
    rest = (file.key_metadata, file.split_offsets, equality_ids, sort_order_id)
    return (int(file.content), *_identity(file, write_partition), *_maps(file), *rest)


def _referenced_file(file: DataFile) -> str | None:
    return file.referenced_data_file if file.content == FileContent.POSITION_DELETES else None


def _maps(file: DataFile) -> tuple[Any, ...]:
    return (file.column_sizes, file.value_counts, file.null_value_counts, file.nan_value_counts, file.lower_bounds, file.upper_bounds)


_RECORDS = {1: _record_v1, 2: _record_v2, 3: _record_v3}
