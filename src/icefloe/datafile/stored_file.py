"""`StoredFile`: the interface of an open data file in any format, with its columns, their field ids, and its stored rows.

`parquet_rows.py`, `orc_rows.py` and `avro_rows.py` implement it. `projection.py` converts the columns to the table's schema, and `data_file_reader.py` applies
filters and deletes. A file is compared with its manifest entry when it is opened: position deletes and column bounds belong to the committed file, so that a
different file at its path would give wrong rows. Spec: Column Projection; Data File Fields (record_count, file_size_in_bytes); Appendix A.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from icefloe.datafile.avro.avro_rows import AvroRows
from icefloe.datafile.orc.orc_rows import OrcRows
from icefloe.datafile.parquet.parquet_annotations import MAGIC
from icefloe.datafile.parquet.parquet_rows import ParquetRows
from icefloe.datafile.stored_batch import RESTORE, RESTORE_DELETES, RowTest, SkippedRows, StoredBatch
from icefloe.errors import DataFileFormatError, FormatError, FormatWarning, NoSuchFileError, UnsupportedFeatureError, in_one_line
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.ports import FileIO, OpensSizedFiles
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.types import NestedField


class StoredFile(Protocol):
    """An open data file. `schema` is the Arrow schema of its columns; the field metadata contains the field id, if the column has one."""

    schema: Any
    # True if timestamps are read in nanoseconds regardless of the file's unit, so that rounding them to microseconds does not lose stored values.
    floors_nanoseconds: bool

    def count_rows(self) -> int:
        """Return the number of rows of the whole file, without reading them. Raises `FormatError` if the file is truncated."""

    def batches(
        self,
        fields: tuple[NestedField, ...],
        row_filter: BooleanExpression,
        row_test: RowTest | None = None,
        skipped: SkippedRows | None = None,
    ) -> Iterator[StoredBatch]:
        """Yield the task's rows in the file's order, with at least the columns of the fields.

        Rows that cannot match the filter, rows that do not pass the test, and skipped rows may be left out.
        """


# The first bytes of encrypted streams, and of Parquet files with encrypted footers. Spec: AES GCM Stream file format; Parquet encryption.
_ENCRYPTED = (b"AGS1", b"PARE")
_MAGIC_BYTES = 4

_READERS: Mapping[FileFormat, Callable[[Any, FileScanTask, NameMapping | None], StoredFile]] = {
    FileFormat.PARQUET: ParquetRows,
    FileFormat.ORC: OrcRows,
    FileFormat.AVRO: AvroRows,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCounts:
    """The actual size in bytes and number of rows of a file, for comparison with its manifest entry."""

    file_size: int
    rows: int


@contextmanager
def opened_stored_file(
    io: FileIO, task: FileScanTask, name_mapping: NameMapping | None = None, *, has_record_count: bool = True
) -> Iterator[StoredFile]:
    """Open the task's file for the block, and close it at the end.

    Args:
        io: Storage of the file.
        task: The file, or a split of it.
        name_mapping: Field ids for the columns of a file without ids.
        has_record_count: False if the file has no manifest entry, and the number of its rows is unknown.

    Yields:
        The open file.

    Raises:
        NoSuchFileError: The file does not exist.
        DataFileFormatError: The file is damaged, or its number of rows differs from its manifest entry.
        UnsupportedFeatureError: The file is encrypted, or its format cannot be read.

    Warns: FormatWarning: The number of rows is the same as in the manifest entry, but the size differs.
    """
    open_file = _reader_of(task.file)
    with _opened_input(io, task.file) as source:
        file_size = source.size()
        try:
            stored = _open(open_file, source, task, name_mapping)
            counts = StoredCounts(file_size=file_size, rows=stored.count_rows() if has_record_count else task.file.record_count)
        except FormatError as error:
            if file_size != task.file.file_size_in_bytes:
                error.message += f"; it has {file_size} bytes, and its manifest entry states {task.file.file_size_in_bytes}"
            raise
        _check_counts(task.file, counts)
        yield stored


def stored_counts(io: FileIO, file: DataFile) -> StoredCounts:
    """Return the actual size and number of rows of a data file or delete file, ignoring its manifest entry. The file must not be a deletion vector.

    Raises:
        NoSuchFileError: The file does not exist.
        FormatError: The file is damaged.
        UnsupportedFeatureError: The file is encrypted, or its format cannot be read.
    """
    task = FileScanTask(file=file, residual=AlwaysTrue(), length=file.file_size_in_bytes)
    open_file = _reader_of(file)
    with _opened_input(io, file) as source:
        return StoredCounts(file_size=source.size(), rows=_open(open_file, source, task, None).count_rows())


def _check_counts(file: DataFile, counts: StoredCounts) -> None:
    """Refuse a file whose number of rows differs from its manifest entry. If only the size differs, warn.

    A different size is not an error, as for manifests (`spec/manifest/manifest_length.py`), because some tables have files that were rewritten in place with
    the same rows.
    """
    path = file.file_path
    size = f"{counts.file_size} bytes, and its manifest entry states {file.file_size_in_bytes}"
    if counts.rows != file.record_count:
        raise DataFileFormatError(
            f"{path} is not the file that was committed: it has {counts.rows} rows, and its manifest entry states {file.record_count}; it has {size}",
            path=path,
            next_step=restore_step(file),
        )
    if counts.file_size != file.file_size_in_bytes:
        warnings.warn(
            f"{in_one_line(path)} has {size}; it is read, since it has the {counts.rows} rows of its manifest entry",
            FormatWarning,
            stacklevel=4,
        )


def restore_step(file: DataFile) -> str:
    """Return the `next_step` text of the error about a missing or damaged file."""
    return RESTORE if file.content is FileContent.DATA else RESTORE_DELETES


def _opened_input(io: FileIO, file: DataFile) -> Any:
    try:
        if file.file_format is FileFormat.PARQUET and isinstance(io, OpensSizedFiles):
            return io.open_sized_input(file.file_path, file.file_size_in_bytes, MAGIC)
        return io.open_input(file.file_path)
    except NoSuchFileError as error:
        error.next_step = restore_step(file)
        raise


def _reader_of(file: DataFile) -> Callable[[Any, FileScanTask, NameMapping | None], StoredFile]:
    """Return the function that opens a file in its format. Its arguments are an open input, a task, and a name mapping for a file without field ids."""
    path = file.file_path
    if file.key_metadata is not None:
        raise _encrypted_error(path)
    reader = _READERS.get(file.file_format)
    if reader is None:
        readable = ", ".join(sorted(_READERS))
        raise UnsupportedFeatureError(
            f"{path} is a data file of format {file.file_format}; {readable} can be read",
            path=path,
            next_step="rewrite the table's files in one of these formats",
        )
    return reader


def _open(
    reader: Callable[[Any, FileScanTask, NameMapping | None], StoredFile], file: Any, task: FileScanTask, mapping: NameMapping | None
) -> StoredFile:
    try:
        return reader(file, task, mapping)
    except FormatError as error:
        # Scan tasks do not contain the key metadata of files, so that an encrypted file is recognized by its first bytes.
        file.seek(0)
        if file.read(_MAGIC_BYTES) in _ENCRYPTED:
            raise _encrypted_error(task.file.file_path) from error
        raise
    except UnicodeDecodeError as error:
        path = task.file.file_path
        raise DataFileFormatError(f"{path} is damaged: the name of a column is not valid UTF-8", path=path) from error


def _encrypted_error(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{path} is encrypted, and encrypted data files cannot be read",
        path=path,
        next_step="read the table with an engine that has its keys, or copy it to a table without encryption",
    )
