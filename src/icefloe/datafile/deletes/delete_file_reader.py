"""Delete files as they are read: the columns of a position or equality delete file by field id, and a deletion vector from its Puffin file.

Keeping and merging them is `delete_loader.py`.
Spec: Position Delete Files; Equality Delete Files; Deletion Vectors; Puffin file format, `deletion-vector-v1` blob type; Appendix F, Position Delete Files
with Row Data.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored_file import reader_of
from icefloe.errors import DataFileFormatError, InvalidInputError
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression, In
from icefloe.kernel.expressions.row_evaluator import arrow_mask
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.ports import FileIO
from icefloe.kernel.puffin.deletion_vector import (
    DeletionVector,
    VectorLocation,
    decode_deletion_vector,
    deletion_vector_from_positions,
    vector_location,
)
from icefloe.kernel.puffin.puffin_errors import puffin_format_error
from icefloe.kernel.puffin.puffin_file import PuffinSource, read_file_metadata
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from icefloe.kernel.schema.name_mapping import MappedField, NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField

POSITION_DELETE_SCHEMA = Schema(DELETE_FILE_PATH, DELETE_POS)
# Position delete files of some writers have no field ids; their columns have the spec's names all the same.
POSITION_DELETE_NAMES = NameMapping(
    tuple(MappedField(names=(field.name,), field_id=field.field_id) for field in POSITION_DELETE_SCHEMA.fields)
)
_LOCAL = "file:"


def plain_location(location: str) -> str:
    """One spelling for a location that writers spell in several ways: `file:/x` and `file:///x` are `/x`, the rest stays as it is, byte for byte."""
    if not location.startswith(_LOCAL):
        return location
    rest = location[len(_LOCAL) :]
    if rest.startswith("///"):
        return rest[2:]
    return rest if rest.startswith("/") and not rest.startswith("//") else location


def spellings(location: str) -> tuple[str, ...]:
    """Every spelling of a location that means the same file."""
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
    """The columns of a position or equality delete file, by field id and in the form the fields give them, batch after batch.

    `row_filter`, bound to these fields, leaves out row groups in which no row may match, and no single row. Columns of the ids in `may_lack` are null where
    the file has none.

    Raises:
        NoSuchFileError: the file is gone.
        DataFileFormatError: the file is not whole, or lacks one of the columns.
        UnsupportedFeatureError: the file is encrypted, or of a format that is not read.
    """
    asked = row_filter if row_filter is not None else AlwaysTrue()
    task = FileScanTask(file=file, residual=asked, spec_id=file.spec_id, length=file.file_size_in_bytes)
    opener = reader_of(task)
    targets = schema_to_arrow(Schema(*fields))
    with io.open_input(file.file_path) as opened:
        stored = opener(opened, task, name_mapping)
        projector = Projector(file.file_path, {}, stored.floors_nanoseconds)
        for batch in stored.batches(fields, asked):
            columns = columns_by_id(batch.rows.schema)
            missing = [field.name for field in fields if field.field_id not in columns and field.field_id not in may_lack]
            if missing:
                raise DataFileFormatError(
                    f"{file.file_path} is no sound delete file: it lacks the column {', '.join(missing)}",
                    path=file.file_path,
                    next_step="restore the file, or roll the table back to a snapshot that does not use it",
                )
            arrays = projector.struct(batch.rows.column, columns, fields, targets, batch.rows.num_rows)
            yield pa.RecordBatch.from_arrays(arrays, schema=targets)


def read_position_deletes(io: FileIO, file: DataFile, location: str | None = None) -> Mapping[str, DeletionVector]:
    """The deleted positions by data file (its location in plain spelling): of every data file, or of the one at `location` alone.

    For one data file, row groups whose bounds do not hold its path are passed over.

    Raises:
        DataFileFormatError: as `read_delete_columns`; or a path is null or no text, or a position null or negative.
    """
    row_filter = None if location is None else bind(In(DELETE_FILE_PATH.name, spellings(location)), POSITION_DELETE_SCHEMA)
    found: dict[str, list[Any]] = {}
    for batch in read_delete_columns(io, file, POSITION_DELETE_SCHEMA.fields, row_filter=row_filter, name_mapping=POSITION_DELETE_NAMES):
        rows = batch if row_filter is None else batch.filter(arrow_mask(row_filter, batch))
        if rows.num_rows:
            _gather(rows, file, found)
    try:
        return {path: deletion_vector_from_positions(np.concatenate(parts)) for path, parts in found.items()}
    except InvalidInputError as error:
        raise _unsound(file, error.message) from error


def _gather(rows: pa.RecordBatch, file: DataFile, found: dict[str, list[Any]]) -> None:
    """Adds the batch's positions to those of each data file."""
    paths, positions = rows.columns
    if paths.null_count or positions.null_count:
        raise _unsound(file, "a path or a position is null")
    encoded = paths.dictionary_encode()
    numbers = np.asarray(positions)
    try:
        names = encoded.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise _unsound(file, "a path is no text in UTF-8") from error
    if len(names) == 1:
        found.setdefault(plain_location(names[0]), []).append(numbers)
        return
    codes = np.asarray(encoded.indices)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    for name, part in zip(names, np.split(numbers[order], ends[:-1]), strict=True):
        found.setdefault(plain_location(name), []).append(part)


def _unsound(file: DataFile, what: str) -> DataFileFormatError:
    return DataFileFormatError(
        f"{file.file_path} is no sound position delete file: {what}",
        path=file.file_path,
        next_step="restore the file, or roll the table back to a snapshot that does not use it",
    )


def read_vector_locations(io: FileIO, path: str) -> Mapping[int, VectorLocation]:
    """What the footer of a Puffin file says of its deletion vectors, by the offset of each. Raises `PuffinFormatError`."""
    with io.open_input(path) as opened:
        metadata = read_file_metadata(PuffinSource(path, opened.size(), lambda offset, length: opened.read_at(length, offset)))
    return {blob.offset: vector_location(blob, path=path) for blob in metadata.blobs}


def read_deletion_vector(io: FileIO, file: DataFile, location: str, footer: Mapping[int, VectorLocation]) -> DeletionVector:
    """The vector of the data file at `location`, from the bytes that its manifest entry names; the entry must say what the footer says.

    Raises:
        PuffinFormatError: the entry, the footer and the data file do not agree; or as `decode_deletion_vector`.
    """
    path, offset, length = file.file_path, file.content_offset, file.content_size_in_bytes
    if offset is None or length is None:
        raise puffin_format_error(path, 0, "the manifest does not say where in the file the deletion vector lies")
    entry = VectorLocation(
        referenced_data_file=plain_location(file.referenced_data_file or ""),
        content_offset=offset,
        content_size_in_bytes=length,
        record_count=file.record_count,
    )
    if entry.referenced_data_file != plain_location(location):
        raise puffin_format_error(path, offset, f"the deletion vector is recorded for {file.referenced_data_file!r}, not for {location!r}")
    said = footer.get(offset)
    if said is None:
        raise puffin_format_error(path, offset, "no blob begins where the manifest says that a deletion vector lies")
    for what, ours, theirs in (
        ("the data file", entry.referenced_data_file, plain_location(said.referenced_data_file)),
        ("the size in bytes", length, said.content_size_in_bytes),
        ("the number of positions", entry.record_count, said.record_count),
    ):
        if ours != theirs:
            raise puffin_format_error(path, offset, f"{what} of a deletion vector is {ours!r} in the manifest and {theirs!r} in the footer")
    with io.open_input(path) as opened:
        data = opened.read_at(length, offset)
    return decode_deletion_vector(data, cardinality=file.record_count, path=path, offset=offset)
