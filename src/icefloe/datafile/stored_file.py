"""`StoredFile`: the interface of an open data file of any format: its columns with their field ids, and its rows as they are stored.

`parquet_rows.py`, `orc_rows.py` and `avro_rows.py` implement it. `projection.py` converts the columns to the table's schema, and `data_file_reader.py` applies
filters and deletes. Spec: Column Projection; Appendix A.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from icefloe.datafile.avro.avro_rows import AvroRows
from icefloe.datafile.orc.orc_rows import OrcRows
from icefloe.datafile.parquet.parquet_rows import ParquetRows
from icefloe.datafile.stored_batch import StoredBatch
from icefloe.errors import DataFileFormatError, FormatError, UnsupportedFeatureError
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import FileFormat
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.types import NestedField


class StoredFile(Protocol):
    """An open data file. `schema` is the Arrow schema of its columns; a column with a field id has it in the metadata of its field."""

    schema: Any
    # True if timestamps are read in nanoseconds whatever unit the file has, so that rounding them to microseconds loses no stored value.
    floors_nanoseconds: bool

    def batches(self, fields: tuple[NestedField, ...], row_filter: BooleanExpression) -> Iterator[StoredBatch]:
        """Yield the task's rows in the file's order, with at least the columns of the fields; rows that cannot match the filter may be left out."""


# First bytes of files that are encrypted as a stream, and of Parquet files with encrypted footers. Spec: AES GCM Stream file format; Parquet encryption.
_ENCRYPTED = (b"AGS1", b"PARE")
_MAGIC_BYTES = 4

_READERS: Mapping[FileFormat, Callable[[Any, FileScanTask, NameMapping | None], StoredFile]] = {
    FileFormat.PARQUET: ParquetRows,
    FileFormat.ORC: OrcRows,
    FileFormat.AVRO: AvroRows,
}


def file_opener(task: FileScanTask) -> Callable[[Any, FileScanTask, NameMapping | None], StoredFile]:
    """Return the function that opens the task's file, from an open input, the task, and a name mapping for a file without field ids.

    Raises:
        UnsupportedFeatureError: The file is encrypted, or its format cannot be read.
    """
    path = task.file.file_path
    if task.file.key_metadata is not None:
        raise _encrypted(path)
    reader = _READERS.get(task.file.file_format)
    if reader is None:
        readable = ", ".join(sorted(_READERS))
        raise UnsupportedFeatureError(
            f"{path} is a data file of format {task.file.file_format}; {readable} can be read",
            path=path,
            next_step="rewrite the table's files in one of these formats",
        )
    return partial(_open, reader)


def _open(
    reader: Callable[[Any, FileScanTask, NameMapping | None], StoredFile], file: Any, task: FileScanTask, mapping: NameMapping | None
) -> StoredFile:
    try:
        return reader(file, task, mapping)
    except FormatError as error:
        # Scan tasks do not contain the key metadata of files, so an encrypted file is recognized by its first bytes.
        file.seek(0)
        if file.read(_MAGIC_BYTES) in _ENCRYPTED:
            raise _encrypted(task.file.file_path) from error
        raise
    except UnicodeDecodeError as error:
        path = task.file.file_path
        raise DataFileFormatError(f"{path} is damaged: the name of a column is not valid UTF-8", path=path) from error


def _encrypted(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{path} is encrypted, and encrypted data files cannot be read",
        path=path,
        next_step="read the table with an engine that has its keys, or copy it to a table without encryption",
    )
