"""Reading of delete files: the columns of a position or equality delete file by field id, and a deletion vector from its Puffin file.

`delete_loader.py` caches and merges them.
Spec: Position Delete Files; Equality Delete Files; Deletion Vectors; Puffin file format, `deletion-vector-v1` blob type; Appendix F, Position Delete Files
with Row Data.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored_batch import RESTORE_DELETES
from icefloe.datafile.stored_file import opened_stored_file
from icefloe.errors import DataFileFormatError, InvalidInputError, NoSuchFileError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, In
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import (
    DeletionVector,
    VectorLocation,
    decode_deletion_vector,
    deletion_vector_from_positions,
    vector_location,
)
from icefloe.spec.puffin.puffin_errors import puffin_format_error
from icefloe.spec.puffin.puffin_file import PuffinSource, read_file_metadata
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from icefloe.spec.schema.name_mapping import MappedField, NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField

POSITION_DELETE_SCHEMA = Schema(DELETE_FILE_PATH, DELETE_POS)
# Some writers write position delete files without field ids; their columns have the names in the specification.
POSITION_DELETE_NAMES = NameMapping(
    tuple(MappedField(names=(field.name,), field_id=field.field_id) for field in POSITION_DELETE_SCHEMA.fields)
)
_LOCAL = "file:"


def plain_location(location: str) -> str:
    """Return the same location in one spelling, for comparisons: `file:/x` and `file:///x` become `/x`; all other locations are unchanged."""
    if not location.startswith(_LOCAL):
        return location
    rest = location[len(_LOCAL) :]
    if rest.startswith("///"):
        return rest[2:]
    return rest if rest.startswith("/") and not rest.startswith("//") else location


def spellings(location: str) -> tuple[str, ...]:
    """Return all spellings of a location that name the same file."""
    plain = plain_location(location)
    return (plain, f"file:{plain}", f"file://{plain}") if plain.startswith("/") else (location,)


def read_delete_columns(
    io: FileIO,
    file: DataFile,
    fields: tuple[NestedField, ...],
    *,
    row_filter: BooleanExpression | None = None,
    name_mapping: NameMapping | None = None,
    may_lack: Collection[int] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a position or equality delete file, found by field id, with the types of the fields.

    Args:
        io: Storage of the file.
        file: The delete file.
        fields: The columns to read.
        row_filter: A filter bound to these fields. It only prunes row groups; rows are not filtered.
        name_mapping: Field ids for the columns of a file without ids.
        may_lack: Field ids of optional columns, which are null if the file lacks them.

    Raises:
        NoSuchFileError: The file does not exist.
        DataFileFormatError: The file is damaged, or lacks one of the columns.
        UnsupportedFeatureError: The file is encrypted, or its format cannot be read.
    """
    row_filter = row_filter if row_filter is not None else AlwaysTrue()
    task = FileScanTask(file=file, residual=row_filter, length=file.file_size_in_bytes)
    targets = schema_to_arrow(Schema(*fields))
    with opened_stored_file(io, task, name_mapping) as stored:
        projector = Projector(file.file_path, {}, stored.floors_nanoseconds)
        for batch in stored.batches(fields, row_filter):
            columns = columns_by_id(batch.rows.schema)
            missing = [field.name for field in fields if field.field_id not in columns and field.field_id not in may_lack]
            if missing:
                raise DataFileFormatError(
                    f"{file.file_path} is not a valid delete file: it lacks the column {', '.join(missing)}",
                    path=file.file_path,
                    next_step=RESTORE_DELETES,
                )
            arrays = projector.struct(batch.rows.column, columns, fields, targets, batch.rows.num_rows)
            yield pa.RecordBatch.from_arrays(arrays, schema=targets)


def read_position_deletes(io: FileIO, file: DataFile, location: str | None = None) -> Mapping[str, DeletionVector]:
    """Return the deleted positions of each data file, by the `plain_location` of the data file.

    If `location` is not None, only the positions of the data file at `location` are returned, and row groups whose bounds exclude its path are skipped.

    Raises:
        DataFileFormatError: The file is damaged or lacks a column; a path is null or not UTF-8; or a position is null or negative.
    """
    positions: dict[str, list[Any]] = {}
    for batch in _position_batches(io, file, location):
        _collect(batch, file, positions)
    return {path: _vector(np.concatenate(parts), file) for path, parts in positions.items()}


def add_position_deletes(io: FileIO, file: DataFile, deleted: Mapping[str, BitMap64]) -> None:
    """Add the deleted positions of some data files to their bitmaps. Only one batch of the delete file is in memory at a time.

    Args:
        io: Storage of the file.
        file: The position delete file.
        deleted: Bitmaps by the `plain_location` of the data file. Positions of other data files are skipped.

    Raises:
        DataFileFormatError: The errors of `read_position_deletes`.
    """
    for batch in _position_batches(io, file, next(iter(deleted)) if len(deleted) == 1 else None):
        positions: dict[str, list[Any]] = {}
        _collect(batch, file, positions)
        for path in positions.keys() & deleted.keys():
            deleted[path].update(_vector(np.concatenate(positions[path]), file).bitmap)


def _position_batches(io: FileIO, file: DataFile, location: str | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a position delete file; if `location` is not None, only the rows for the data file at `location`."""
    row_filter = None if location is None else bind(In(DELETE_FILE_PATH.name, spellings(location)), POSITION_DELETE_SCHEMA)
    for batch in read_delete_columns(io, file, POSITION_DELETE_SCHEMA.fields, row_filter=row_filter, name_mapping=POSITION_DELETE_NAMES):
        rows = batch if row_filter is None else batch.filter(arrow_mask(row_filter, batch))
        if rows.num_rows:
            yield rows


def _vector(positions: NDArray[Any], file: DataFile) -> DeletionVector:
    try:
        return deletion_vector_from_positions(positions)
    except InvalidInputError as error:
        raise _invalid_file(file, error.message) from error


def _collect(rows: pa.RecordBatch, file: DataFile, positions: dict[str, list[Any]]) -> None:
    """Append the positions in a batch to the lists of their data files in `positions`."""
    path_column, position_column = rows.columns
    if path_column.null_count or position_column.null_count:
        raise _invalid_file(file, "a path or a position is null")
    encoded = path_column.dictionary_encode()
    numbers = np.asarray(position_column)
    try:
        names = encoded.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise _invalid_file(file, "a path is not valid UTF-8") from error
    if len(names) == 1:
        positions.setdefault(plain_location(names[0]), []).append(numbers)
        return
    codes = np.asarray(encoded.indices)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    for name, part in zip(names, np.split(numbers[order], ends[:-1]), strict=True):
        positions.setdefault(plain_location(name), []).append(part)


def _invalid_file(file: DataFile, what: str) -> DataFileFormatError:
    return DataFileFormatError(
        f"{file.file_path} is not a valid position delete file: {what}",
        path=file.file_path,
        next_step=RESTORE_DELETES,
    )


def read_vector_locations(io: FileIO, path: str) -> Mapping[int, VectorLocation]:
    """Return the entries of the deletion vectors in the footer of a Puffin file, by offset. Raises `NoSuchFileError` and `PuffinFormatError`."""
    try:
        source = io.open_input(path)
    except NoSuchFileError as error:
        error.next_step = RESTORE_DELETES
        raise
    with source as opened:
        metadata = read_file_metadata(PuffinSource(path, opened.size(), lambda offset, length: opened.read_at(length, offset)))
    return {blob.offset: vector_location(blob, path=path) for blob in metadata.blobs}


def read_deletion_vector(io: FileIO, file: DataFile, location: str, footer: Mapping[int, VectorLocation]) -> DeletionVector:
    """Read the deletion vector of the data file at `location`, at the offset in its manifest entry. The entry and the footer must agree.

    Raises:
        PuffinFormatError: The entry, the footer and the data file do not agree; or an error of `decode_deletion_vector`.
    """
    path, offset, length = file.file_path, file.content_offset, file.content_size_in_bytes
    if offset is None or length is None:
        raise puffin_format_error(path, 0, "the manifest has no offset and size of the deletion vector")
    entry = VectorLocation(
        referenced_data_file=plain_location(file.referenced_data_file or ""),
        content_offset=offset,
        content_size_in_bytes=length,
        record_count=file.record_count,
    )
    if entry.referenced_data_file != plain_location(location):
        raise puffin_format_error(path, offset, f"the deletion vector is recorded for {file.referenced_data_file!r}, not for {location!r}")
    blob = footer.get(offset)
    if blob is None:
        raise puffin_format_error(path, offset, "no blob starts at the offset of the deletion vector in the manifest")
    for what, in_manifest, in_footer in (
        ("the data file", entry.referenced_data_file, plain_location(blob.referenced_data_file)),
        ("the size in bytes", length, blob.content_size_in_bytes),
        ("the number of positions", entry.record_count, blob.record_count),
    ):
        if in_manifest != in_footer:
            raise puffin_format_error(
                path, offset, f"{what} of a deletion vector is {in_manifest!r} in the manifest and {in_footer!r} in the footer"
            )
    with io.open_input(path) as opened:
        data = opened.read_at(length, offset)
    return decode_deletion_vector(data, cardinality=file.record_count, path=path, offset=offset)
