"""The metadata table `position_deletes`: every position that a live position delete file or deletion vector of a snapshot deletes.

Spec: Position Delete Files; Deletion Vectors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.datafile.deletes.delete_file_reader import (
    POSITION_DELETE_NAMES,
    POSITION_DELETE_SCHEMA,
    read_delete_columns,
    read_deletion_vector,
    read_vector_locations,
)
from icefloe.metadata_tables.file_rows import FileRowSelection
from icefloe.metadata_tables.file_tables import rows_of_manifests, snapshots_of
from icefloe.metadata_tables.manifest_filter import manifests_of
from icefloe.metadata_tables.request import Request, empty_rows
from icefloe.metadata_tables.schemas import PARTITION, files_schema
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.limits import limits
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.puffin.deletion_vector import VectorLocation
from icefloe.spec.puffin.puffin_errors import puffin_limit_error
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.arrow_types import field_to_arrow
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH, DELETE_POS, DELETE_ROW_FIELD_ID, DELETE_ROW_NAME
from icefloe.spec.schema.schema import Schema

_POSITIONS = frozenset([DELETE_FILE_PATH.name, DELETE_POS.name, DELETE_ROW_NAME])
# The columns that are read from manifests: for the rows of the metadata table, and to open the delete files.
_FILE_COLUMNS = (
    "file_path",
    "file_format",
    "spec_id",
    PARTITION,
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
_OWN_NAMES = {"delete_file_path": "file_path"}


def position_delete_rows(request: Request) -> Any:
    """Return the rows of `position_deletes`, one for each deleted position. If only columns that describe delete files are requested, these are not opened.

    Raises:
        NoSuchFileError: A delete file does not exist.
        DataFileFormatError: A delete file is damaged, or does not match its manifest entry.
        PuffinFormatError: A Puffin file is damaged.
    """
    files = _delete_files(request)
    if not len(files):
        return empty_rows(request)
    places = np.arange(len(files))
    if request.names & _POSITIONS:
        described = files.drop_columns([PARTITION] if PARTITION in files.column_names else []).to_pylist()
        puffin = _puffin_files(described)
        footers = dict(zip(puffin, in_threads(lambda path: read_vector_locations(request.table.io, path), puffin), strict=True))
        parts = list(in_threads(lambda row: _positions(request, row, footers), described))
        positions, counts = pa.concat_tables(parts), [len(part) for part in parts]
    else:
        positions, counts = None, files["record_count"].to_pylist()
    file_columns = files.take(pa.array(np.repeat(places, counts)))
    target = schema_to_arrow(request.schema)
    arrays = [
        (
            positions[field.name]
            if positions is not None and field.name in _POSITIONS
            else file_columns[_OWN_NAMES.get(field.name, field.name)]
        )
        for field in target
    ]
    return pa.Table.from_arrays([_in_type(array, field.type) for array, field in zip(arrays, target, strict=True)], schema=target)


def _in_type(array: Any, target: pa.DataType) -> Any:
    """Return an array cast to a type.

    An array that has the type already is returned unchanged: Arrow's cast refuses null structs with required members, such as the column `row` of most delete
    files.
    """
    return array if array.type == target else array.cast(target)


def _delete_files(request: Request) -> Any:
    """Return an Arrow table with one row for each live position delete file and deletion vector: the columns of `files` that describe a delete file."""
    whole = files_schema(request.metadata)
    schema = Schema(*(field for field in whole.fields if field.name in _FILE_COLUMNS))
    selection = FileRowSelection(
        schema=schema, table_schema=request.metadata.schema(), with_deleted=False, contents=(FileContent.POSITION_DELETES,)
    )

    manifests = [manifest for manifest in manifests_of(request, snapshots_of(request)) if manifest.content is ManifestContent.DELETES]
    return rows_of_manifests(request, manifests, selection).arrow().combine_chunks()


def _puffin_files(described: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the paths of the Puffin files, each once, although a file can contain many deletion vectors."""
    return list(dict.fromkeys(row["file_path"] for row in described if row["file_format"] == FileFormat.PUFFIN))


def _positions(request: Request, row: Mapping[str, Any], footers: Mapping[str, Mapping[int, VectorLocation]]) -> Any:
    """Return the deleted positions of one delete file as a table: the path of the data file, the position, and the deleted row if it is requested."""
    file = DataFile(
        content=FileContent.POSITION_DELETES,
        **{**{name: value for name, value in row.items() if name != "spec_id"}, "file_format": FileFormat(row["file_format"])},
        spec_id=row["spec_id"],
    )
    if file.file_format is FileFormat.PUFFIN:
        return _vector_positions(request, file, footers[file.file_path])
    fields = list(POSITION_DELETE_SCHEMA.fields)
    if DELETE_ROW_NAME in request.names:
        fields.append(request.whole_schema.find_field(DELETE_ROW_FIELD_ID))
    batches = read_delete_columns(
        request.table.io, file, tuple(fields), name_mapping=POSITION_DELETE_NAMES, may_lack=(DELETE_ROW_FIELD_ID,)
    )
    return pa.Table.from_batches(batches, schema_to_arrow(Schema(*fields)))


def _vector_positions(request: Request, file: DataFile, footer: Mapping[int, VectorLocation]) -> Any:
    """Return the deleted positions of a deletion vector as a table. The deleted rows are null, because a vector does not store them."""
    path = file.referenced_data_file or ""
    vector = read_deletion_vector(request.table.io, file, path, footer)
    if vector.cardinality > limits().deleted_positions:
        what = f"a deletion vector of {file.content_size_in_bytes} bytes has {vector.cardinality} positions"
        raise puffin_limit_error(file.file_path, file.content_offset or 0, what, "deleted_positions")
    positions = vector.positions().astype(np.int64)
    deleted = {
        DELETE_FILE_PATH.name: pa.repeat(pa.scalar(path, pa.string()), len(positions)),
        DELETE_POS.name: pa.array(positions),
    }
    if DELETE_ROW_NAME in request.names:
        field = field_to_arrow(request.whole_schema.find_field(DELETE_ROW_FIELD_ID))
        deleted[DELETE_ROW_NAME] = pa.nulls(len(positions), field.type)
    fields = [field for field in schema_to_arrow(request.whole_schema) if field.name in deleted]
    return pa.Table.from_arrays([_in_type(deleted[field.name], field.type) for field in fields], schema=pa.schema(fields))
