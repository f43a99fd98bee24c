"""The one door to the rows of a data file of any format: opened, it says its columns with their field ids, and gives its rows as they are stored.

`parquet_rows.py`, `orc_rows.py` and `avro_rows.py` are behind it; bringing columns to the table's form is `projection.py`, what is asked of them is `read.py`.
Spec: Column Projection; Appendix A.
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
    """An open file. `schema` is the Arrow schema of its columns, each with its field id in the metadata where it has one."""

    schema: Any
    # Whether timestamps come in nanoseconds whatever the file keeps, so that cutting them to microseconds loses nothing that was written.
    floors_nanoseconds: bool

    def batches(self, fields: tuple[NestedField, ...], row_filter: BooleanExpression) -> Iterator[StoredBatch]:
        """The task's rows in the file's order, with the columns that hold the fields, or more; rows that surely do not match may be left out."""


# What files begin with that are encrypted as a stream, and Parquet files with encrypted footers. Spec: AES GCM Stream file format; Parquet encryption.
_ENCRYPTED = (b"AGS1", b"PARE")
_MAGIC_BYTES = 4

_READERS: Mapping[FileFormat, Callable[[Any, FileScanTask, NameMapping | None], StoredFile]] = {
    FileFormat.PARQUET: ParquetRows,
    FileFormat.ORC: OrcRows,
    FileFormat.AVRO: AvroRows,
}


def reader_of(task: FileScanTask) -> Callable[[Any, FileScanTask, NameMapping | None], StoredFile]:
    """What opens the task's file, given its bytes, the task and a name mapping for a file without ids of its own.

    Raises:
        UnsupportedFeatureError: the file is encrypted, or its format is none of data files.
    """
    path = task.file.file_path
    if task.file.key_metadata is not None:
        raise _encrypted(path)
    found = _READERS.get(task.file.file_format)
    if found is None:
        known = ", ".join(sorted(_READERS))
        raise UnsupportedFeatureError(
            f"{path} is a data file of format {task.file.file_format}; {known} can be read",
            path=path,
            next_step="rewrite the table's files in one of these formats",
        )
    return partial(_opened, found)


def _opened(
    reader: Callable[[Any, FileScanTask, NameMapping | None], StoredFile], file: Any, task: FileScanTask, mapping: NameMapping | None
) -> StoredFile:
    try:
        return reader(file, task, mapping)
    except FormatError as error:
        # Plans do not carry the key metadata of files, so a file is known to be encrypted by what it begins with.
        file.seek(0)
        if file.read(_MAGIC_BYTES) in _ENCRYPTED:
            raise _encrypted(task.file.file_path) from error
        raise
    except UnicodeDecodeError as error:
        path = task.file.file_path
        raise DataFileFormatError(f"{path} is not sound: the name of a column is no text in UTF-8", path=path) from error


def _encrypted(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{path} is encrypted, and encrypted data files cannot be read",
        path=path,
        next_step="read the table with an engine that has its keys, or copy it to a table without encryption",
    )
