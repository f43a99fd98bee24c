"""The writer of a manifest from columns, without an object per entry.

`manifest_writer.py` writes entries one by one; both write the same manifest for the same entries. Spec: Manifests; Sequence Numbers; First Row ID Inheritance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import InvalidInputError
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, mask_array, numpy_of, scalar_of
from icefloe.spec.avro.avro_codec import codec_name
from icefloe.spec.avro.avro_container import write_records_container
from icefloe.spec.avro.avro_schema import parse_schema
from icefloe.spec.avro.compiled_codec import AVAILABLE
from icefloe.spec.avro.write_avro_columns import Records, write_records
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.file_rules import check_added
from icefloe.spec.manifest.manifest_columns import DELETE_FIELDS, ENTRY_FIELDS, WHOLE_FIELDS, partition_column
from icefloe.spec.manifest.manifest_schema import ENTRY_FIELD_IDS, manifest_codec
from icefloe.spec.manifest.manifest_writer import V1_BLOCK_SIZE, manifest_metadata
from icefloe.spec.manifest.partition_summary import summarise_values
from icefloe.spec.manifest.partition_values import primitive, written_array
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import StructType
from icefloe.spec.values import physical_list

# The number of rows that are encoded at a time: two or three megabytes, so that memory is reused.
_SLICE_ROWS = 4096
# The columns that the record of the manifest list is computed from, besides the partition columns.
_SUMMARY_FIELDS = tuple(ENTRY_FIELDS.field(name) for name in ("status", "sequence_number", "record_count"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTarget:
    """The location and properties of a manifest to write. Its fields are the arguments of `manifest_writer.write_manifest`, which explains them."""

    path: str
    schema: Schema
    schema_json: str
    spec_fields_json: str
    spec_id: int
    partition_type: StructType
    snapshot_id: int
    format_version: int
    content: ManifestContent = ManifestContent.DATA
    codec: str = "deflate"


def write_manifest_columns(entries: Any, target: ManifestTarget, *, by_compiled: bool = AVAILABLE) -> tuple[bytes, ManifestFile]:
    """Write a manifest as `manifest_writer.write_manifest` does, from columns.

    The rules for sequence numbers and row ids are the same: they are null in ADDED entries, which inherit them, and set in all other entries.

    Args:
        entries: A `pyarrow.Table` with the columns of a `ManifestColumns` that was read with `whole`; missing columns count as null.
        target: The properties of the manifest.
        by_compiled: Use the compiled codec.

    Returns:
        The manifest's bytes, and its record for the manifest list.

    Raises:
        InvalidInputError: an entry violates a rule, or its values do not fit their types.
        InvalidPropertyError: the codec is unknown.
        UnsupportedFormatVersionError: the format version is above 3.
    """
    slices = (entries.slice(start, _SLICE_ROWS) for start in range(0, entries.num_rows, _SLICE_ROWS))
    records = (encode_columns(rows, target, by_compiled=by_compiled) for rows in slices)
    data = write_records_container(*header_of(target), codec_name(target.codec), records)
    return data, manifest_file_of(_with_missing_columns(entries, target, _SUMMARY_FIELDS), target, len(data))


def header_of(target: ManifestTarget) -> tuple[str, dict[str, str]]:
    """Return the Avro schema of a manifest and its key-value metadata."""
    schema_text, _ = manifest_codec(target.partition_type, target.format_version)
    metadata = manifest_metadata(
        target.schema, target.schema_json, target.spec_fields_json, target.spec_id, target.format_version, target.content
    )
    return schema_text, metadata


def encode_columns(entries: Any, target: ManifestTarget, *, by_compiled: bool = AVAILABLE) -> Records:
    """Check entries (see `write_manifest_columns`) and encode them as Avro records."""
    whole = _with_missing_columns(entries, target)
    _check(whole, target)
    schema_text, _ = manifest_codec(target.partition_type, target.format_version)
    try:
        return write_records(parse_schema(schema_text.encode()), _by_field_id(whole, target), whole.num_rows, by_compiled=by_compiled)
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise InvalidInputError(f"the entries of {target.path} cannot be written: {error}", path=target.path) from error


def _with_missing_columns(
    entries: Any, target: ManifestTarget, required: tuple[Any, ...] = (*ENTRY_FIELDS, *DELETE_FIELDS, *WHOLE_FIELDS)
) -> Any:
    """Return a table of the required columns and the partition columns, with one chunk for each column. Columns that the entries lack are null."""
    fields = list(required)
    fields += [entries.schema.field(partition_column(part.field_id)) for part in target.partition_type.fields]
    arrays = []
    for field in fields:
        is_present = field.name in entries.column_names
        array = array_of_chunks(entries.column(field.name)) if is_present else pa.nulls(entries.num_rows, field.type)
        arrays.append(fill_nulls(array, target.snapshot_id) if field.name == "snapshot_id" else array)
    return pa.Table.from_arrays(arrays, names=[field.name for field in fields])


def _by_field_id(whole: Any, target: ManifestTarget) -> dict[int, Any]:
    """Return the columns to write, by field id. Fields that files of this content do not have are null."""
    contents = whole["content"]
    of_data, of_positions, of_equality = (pc.equal(contents, scalar_of(int(content), contents.type)) for content in FileContent)
    rows_with_field = {
        "sort_order_id": pc.invert(of_positions),
        "equality_ids": of_equality,
        "referenced_data_file": of_positions,
        "content_offset": of_positions,
        "content_size_in_bytes": of_positions,
        # Null, because an added file inherits its row ids from the manifest list. Spec: First Row ID Inheritance.
        "first_row_id": pc.and_(of_data, pc.not_equal(whole["status"], scalar_of(int(ManifestEntryStatus.ADDED), pa.int32()))),
    }
    columns = {105: fill_nulls(pa.nulls(whole.num_rows, pa.int64()), V1_BLOCK_SIZE)}
    for field_id, name in ENTRY_FIELD_IDS.items():
        values = array_of_chunks(whole[name])
        if name in rows_with_field and values.null_count < len(values):
            keep = array_of_chunks(rows_with_field[name])
            values = values if pc.all(keep).as_py() else _null_unless(keep, values)
        columns[field_id] = values
    for part in target.partition_type.fields:
        columns[part.field_id] = written_array(part, array_of_chunks(whole[partition_column(part.field_id)]))
    return columns


def _null_unless(keep: Any, values: Any) -> Any:
    if pa.types.is_list(values.type):
        rows = pc.if_else(keep, mask_array(np.ones(len(keep), dtype=bool)), pa.nulls(len(keep), pa.bool_()))
        indices = pc.if_else(rows, pa.array(np.arange(len(keep))), pa.nulls(len(keep), pa.int64()))
        return values.take(indices)
    return pc.if_else(keep, values, pa.nulls(len(values), values.type))


def _check(whole: Any, target: ManifestTarget) -> None:
    """Check the rules of `write_manifest` for all entries at once; the error names the first entry that violates one."""
    if target.format_version == 1 and target.content != ManifestContent.DATA:
        raise InvalidInputError(f"{target.path} cannot be written: a table of format version 1 has no delete files")
    for name in (field.name for field in ENTRY_FIELDS if not field.nullable):
        _refuse_where(pc.is_null(whole[name]), whole, f"has no {name}")
    statuses, contents = whole["status"], numpy_of(whole["content"])
    valid_statuses = pa.array([int(status) for status in ManifestEntryStatus], statuses.type)
    _refuse_where(pc.invert(pc.is_in(statuses, value_set=valid_statuses)), whole, "has a status that the format does not define")
    added = numpy_of(statuses) == int(ManifestEntryStatus.ADDED)
    is_data = contents == int(FileContent.DATA)
    is_misplaced = is_data != (target.content == ManifestContent.DATA)
    _refuse_where(
        mask_array(is_misplaced),
        whole,
        f"does not belong into a manifest of {target.content.name}: a manifest holds either data or deletes",
    )
    puffin = numpy_of(pc.equal(whole["file_format"], scalar_of(FileFormat.PUFFIN.value, pa.string())))
    for row in np.flatnonzero(added & (~is_data | puffin)).tolist():
        check_added(_file(whole.slice(row, 1).to_pylist()[0]), target.format_version)
    if target.format_version == 1:
        return
    numbered = [numpy_of(pc.is_valid(whole[name])) for name in ("sequence_number", "file_sequence_number")]
    _refuse_where(mask_array(added & numbered[1]), whole, "is ADDED with a file sequence number, which it must inherit")
    lacks_numbers = ~added & ~(numbered[0] & numbered[1])
    _refuse_where(mask_array(lacks_numbers), whole, "is EXISTING or DELETED and must carry its snapshot id and both sequence numbers")


def _file(row: dict[str, Any]) -> DataFile:
    """Return a `DataFile` that has only the fields that `check_added` tests, from an entry as a dict."""
    return DataFile(
        file_path=row["file_path"],
        file_format=FileFormat(row["file_format"]),
        record_count=row["record_count"],
        file_size_in_bytes=row["file_size_in_bytes"],
        content=FileContent(row["content"]),
        equality_ids=row["equality_ids"] and tuple(row["equality_ids"]),
        referenced_data_file=row["referenced_data_file"],
        content_offset=row["content_offset"],
        content_size_in_bytes=row["content_size_in_bytes"],
    )


def _refuse_where(wrong: Any, whole: Any, what: str) -> None:
    rows = np.flatnonzero(numpy_of(wrong))
    if len(rows):
        path = whole["file_path"][int(rows[0])].as_py()
        raise InvalidInputError(f"{path} {what}" + (f"; {len(rows) - 1} others too" if len(rows) > 1 else ""), path=path)


def manifest_file_of(entries: Any, target: ManifestTarget, length: int) -> ManifestFile:
    """Return the manifest list's record of a manifest with these entries: counts by status, the least explicit sequence number, partition summaries."""
    statuses = numpy_of(entries["status"])
    rows = numpy_of(entries["record_count"])
    live = statuses != int(ManifestEntryStatus.DELETED)
    numbers = entries["sequence_number"].filter(mask_array(live))
    least = pc.min(numbers).as_py()
    files = {status: int((statuses == int(status)).sum()) for status in ManifestEntryStatus}
    records = {status: int(rows[statuses == int(status)].sum()) for status in ManifestEntryStatus}
    return ManifestFile(
        manifest_path=target.path,
        manifest_length=length,
        partition_spec_id=target.spec_id,
        content=target.content,
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=UNASSIGNED_SEQ if least is None else least,
        added_snapshot_id=target.snapshot_id,
        added_files_count=files[ManifestEntryStatus.ADDED],
        existing_files_count=files[ManifestEntryStatus.EXISTING],
        deleted_files_count=files[ManifestEntryStatus.DELETED],
        added_rows_count=records[ManifestEntryStatus.ADDED],
        existing_rows_count=records[ManifestEntryStatus.EXISTING],
        deleted_rows_count=records[ManifestEntryStatus.DELETED],
        partitions=summarise_values(target.partition_type, _distinct_values(entries, target.partition_type)),
    )


def _distinct_values(entries: Any, partition_type: StructType) -> Iterator[list[Any]]:
    """Yield the distinct values of each partition field."""
    for part in partition_type.fields:
        yield physical_list(primitive(part.field_type), pc.unique(entries[partition_column(part.field_id)]))
