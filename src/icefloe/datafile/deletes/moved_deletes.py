"""Copies of position delete files and deletion vectors for a copied table, with the new paths of the data files.

Spec: Position Delete Files; Deletion Vectors; Puffin file format, `deletion-vector-v1` blob type.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import pyarrow as pa

from icefloe.datafile.data_file_writer import appender_factory
from icefloe.datafile.deletes.delete_file_reader import POSITION_DELETE_NAMES, POSITION_DELETE_SCHEMA, read_delete_columns
from icefloe.errors import FileAlreadyExistsError, NotFoundError, StorageError
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.metadata.table_properties import DEFAULT_FILE_FORMAT
from icefloe.spec.path_prefix import PathPrefix
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import REFERENCED_DATA_FILE
from icefloe.spec.puffin.puffin_file import with_blob_properties


def write_moved_deletes(io: FileIO, file: DataFile, location: str, prefix: PathPrefix, properties: Mapping[str, str]) -> int:
    """Write a copy of a position delete file, or of a Puffin file with deletion vectors, with the new paths of the data files.

    A position delete file keeps its format and the order of its rows. The optional column with the deleted rows is not copied.

    Args:
        io: Storage of the file and of the copy.
        file: The delete file.
        location: The location of the copy.
        prefix: The path prefix to replace, and the new prefix.
        properties: Properties of the table, for the compression of the copy.

    Returns:
        The size of the copy in bytes.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: The file is missing or damaged.
        InvalidInputError: A path in it is not below the prefix.
        FileAlreadyExistsError: The location of the copy has a file, which is not changed.
        StorageError: The copy cannot be written; no part of it remains.
    """
    if file.file_format is FileFormat.PUFFIN:
        content = with_blob_properties(io.read(file.file_path), file.file_path, lambda stored: _moved_properties(stored, prefix))
        io.write(location, content)
        return len(content)
    if io.exists(location):
        raise FileAlreadyExistsError(f"another file is at {location}", path=location, next_step="choose an empty staging location")
    factory = appender_factory(POSITION_DELETE_SCHEMA, {**properties, DEFAULT_FILE_FORMAT.name: file.file_format.value.lower()})
    batches = read_delete_columns(io, file, POSITION_DELETE_SCHEMA.fields, name_mapping=POSITION_DELETE_NAMES)
    tables = (pa.Table.from_batches([_move_batch(batch, prefix)]).cast(factory.arrow_schema) for batch in batches)
    # Nothing has been written so far, so that a read error need not delete anything.
    first = next(tables, factory.arrow_schema.empty_table())
    try:
        output = factory.new_appender(io, location, first)
        try:
            for table in chain((first,), tables):
                output.write_row_group(table)
            return int(output.close((), sort_order_id=None, spec_id=0).file_size_in_bytes)
        except BaseException:
            output.abandon()
            raise
    except FileAlreadyExistsError:
        raise  # the existing file belongs to another writer
    except BaseException:
        # The original error is raised, not an error of the clean-up.
        with suppress(StorageError, NotFoundError):
            io.delete(location)
        raise


def _move_batch(batch: pa.RecordBatch, prefix: PathPrefix) -> pa.RecordBatch:
    return batch.set_column(0, batch.schema.field(0), prefix.moved_column(batch.column(0)))


def _moved_properties(properties: Mapping[str, str], prefix: PathPrefix) -> Mapping[str, Any]:
    data_file = properties.get(REFERENCED_DATA_FILE)
    return properties if data_file is None else {**properties, REFERENCED_DATA_FILE: prefix.move(data_file)}
