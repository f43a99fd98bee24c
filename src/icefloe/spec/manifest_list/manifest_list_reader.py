"""Reads manifest lists of any writer and format version, into `ManifestFile`s or into a table of locations, lengths and counts.

Spec: Manifest Lists; Writer requirements; Appendix E, Version 2.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from icefloe.errors import ManifestFormatError, Problem
from icefloe.spec.avro.avro_columns import read_arrays, read_batches
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.avro.projection_tree import ProjectedField, Struct, Value
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.manifest_list.manifest_list_schema import MANIFEST_FILE_FIELDS, MANIFEST_SUMMARY_FIELDS
from icefloe.spec.tolerance import Deviation, Tolerance

_REQUIRED = ("manifest_path", "partition_spec_id", "added_snapshot_id")
_CONTENTS: dict[int | None, ManifestContent] = {None: ManifestContent.DATA, **{int(content): content for content in ManifestContent}}


def read_manifest_list(content: bytes, path: str, tolerance: Tolerance = Tolerance.DEFAULT) -> list[ManifestFile]:
    """Return the manifests of a snapshot, in file order. Version 1 lists lack some values: content is data then, and sequence numbers are 0.

    Args:
        content: The bytes of the list.
        path: Its location, for errors.
        tolerance: Which deviations of the list are accepted.

    Raises:
        AvroFormatError: The file is damaged; the error names it and the byte.
        ManifestFormatError: A required value is null, or `content` is neither 0 nor 1.

    Warns:
        FormatWarning: A deviation is accepted.
    """
    manifests: list[ManifestFile] = []
    for batch in read_batches(open_container(content, path), MANIFEST_FILE_FIELDS):
        for name in _REQUIRED:
            if None in batch[name]:
                raise _format_error(path, len(manifests) + batch[name].index(None), f"{name} is null")
        for row in zip(*batch.values(), strict=True):
            manifests.append(_manifest_file(row, path, len(manifests), tolerance))
    return manifests


class ManifestSummary(NamedTuple):
    """The few values of a manifest list's record that a commit needs to decide whether to keep, drop or merge the manifest."""

    content: int
    spec_id: int
    length: int  # in bytes
    has_live_files: bool
    has_row_id: bool


def read_manifest_summaries(content: bytes, path: str) -> list[ManifestSummary]:
    """Read only the values of `ManifestSummary`, in file order. This is much faster than `read_manifest_list`.

    Raises:
        AvroFormatError, ManifestFormatError: As in `read_manifest_list`.
    """
    summaries: list[ManifestSummary] = []
    for batch in read_batches(open_container(content, path), MANIFEST_SUMMARY_FIELDS):
        for length, spec_id, kind, added, existing, row_id in zip(*batch.values(), strict=True):
            if length is None or spec_id is None or kind not in _CONTENTS:
                read_manifest_list(content, path)  # raises the error that names the manifest
            summaries.append(ManifestSummary(int(_CONTENTS[kind]), spec_id, length, added != 0 or existing != 0, row_id is not None))
    return summaries


def has_row_ids(content: bytes, path: str) -> bool:
    """Return True if every data manifest of a list has a first row id, as in version 3 snapshots. Raises the errors of `read_manifest_summaries`."""
    return all(map(has_required_row_id, read_manifest_summaries(content, path)))


def has_required_row_id(summary: ManifestSummary) -> bool:
    """Return True if a manifest has the row ids that version 3 requires: a data manifest with a first row id, or any delete manifest."""
    return summary.has_row_id or summary.content == ManifestContent.DELETES


def _manifest_file(row: tuple[Any, ...], path: str, index: int, tolerance: Tolerance) -> ManifestFile:
    (
        manifest_path,
        length,
        spec_id,
        content,
        sequence_number,
        min_sequence_number,
        snapshot_id,
        *counts,
        partitions,
        key_metadata,
        row_id,
    ) = row
    if content not in _CONTENTS:
        raise _format_error(path, index, f"content is {content}; it is 0 (data) or 1 (deletes)")
    try:
        location = str(manifest_path, "utf-8")
    except UnicodeDecodeError:
        raise _format_error(path, index, "manifest_path is not UTF-8") from None
    if length is None:
        error = _format_error(path, index, "manifest_length is null")
        if None in counts[:3]:
            raise error  # nothing would show whether the manifest is complete
        what = f"the manifest list {path} has no length of the manifest {location}; its entries are counted"
        tolerance.accept(Deviation.MANIFEST_LIST_FIELD, what, error)
        length = 0
    summaries = None if partitions is None else tuple(PartitionFieldSummary(*summary) for summary in partitions)
    if summaries is not None and any(summary.contains_null is None for summary in summaries):
        what = f"a partition summary of the manifest {location} in {path} has no contains_null; the manifest's summaries are not used"
        tolerance.accept(Deviation.MANIFEST_LIST_FIELD, what, _format_error(path, index, "contains_null of a partition summary is null"))
        summaries = None
    return ManifestFile(
        manifest_path=location,
        manifest_length=length,
        partition_spec_id=spec_id,
        content=_CONTENTS[content],
        sequence_number=sequence_number or 0,
        min_sequence_number=min_sequence_number or 0,
        added_snapshot_id=snapshot_id,
        added_files_count=counts[0],
        existing_files_count=counts[1],
        deleted_files_count=counts[2],
        added_rows_count=counts[3],
        existing_rows_count=counts[4],
        deleted_rows_count=counts[5],
        partitions=summaries,
        key_metadata=key_metadata,
        # Delete manifests have no first row id; Java writes null for them.
        first_row_id=row_id if _CONTENTS[content] == ManifestContent.DATA else None,
    )


def _format_error(path: str, index: int | None, what: str) -> ManifestFormatError:
    where = "" if index is None else f"manifest {index}"
    return ManifestFormatError(f"the manifest list {path} violates the format", path=path, problems=(Problem(where=where, what=what),))


_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")

# The schema of manifests in a table: location, length in bytes, and number of entries of each status. Null is unknown, as in lists of old version 1 tables.
MANIFEST_FIELDS = pa.schema(
    [
        pa.field("manifest_path", pa.string(), nullable=False),
        pa.field("manifest_length", pa.int64()),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
    ]
)

_WANTED = Struct(
    (
        ProjectedField(500, ("manifest_path",), Value("manifest_path"), required=True),
        ProjectedField(501, ("manifest_length",), Value("manifest_length"), required=True),
        ProjectedField(504, ("added_files_count", "added_data_files_count"), Value("added_files_count")),
        ProjectedField(505, ("existing_files_count", "existing_data_files_count"), Value("existing_files_count")),
        ProjectedField(506, ("deleted_files_count", "deleted_data_files_count"), Value("deleted_files_count")),
    )
)


def read_manifest_columns(content: bytes, path: str) -> Any:
    """Return the manifests of one list as a `pyarrow.Table` of `MANIFEST_FIELDS`, in file order.

    Raises:
        AvroFormatError: The file is damaged; the error names it and the byte.
        ManifestFormatError: A path is null or not text, or a length or count is not a number.
    """
    batches = [_cast_columns(columns, path) for columns in read_arrays([open_container(content, path)], _WANTED)]
    return pa.concat_tables(batches) if batches else MANIFEST_FIELDS.empty_table()


def manifests_by_path(paths: Sequence[str]) -> Any:
    """Return the table of `read_manifest_columns` for manifests of which only the paths are known, as in snapshots of old version 1 tables."""
    unknown = [pa.nulls(len(paths), field.type) for field in MANIFEST_FIELDS][1:]
    return pa.Table.from_arrays([pa.array(paths, pa.string()), *unknown], schema=MANIFEST_FIELDS)


def _cast_columns(columns: dict[str, Any], path: str) -> Any:
    try:
        arrays = [columns[field.name].cast(field.type) for field in MANIFEST_FIELDS]
    except pa.ArrowException as error:
        raise _format_error(path, None, str(error)) from error
    if arrays[0].null_count:
        raise _format_error(path, None, f"manifest_path is null in {arrays[0].null_count} entries")
    return pa.Table.from_arrays(arrays, schema=MANIFEST_FIELDS)
