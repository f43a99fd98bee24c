"""The manifests of many manifest lists as one table of columns: their locations, lengths and counts, without the values that a scan needs.

`manifest_list_reader.py` reads whole entries. Spec: Manifest Lists.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from icefloe.errors import ManifestFormatError, Problem
from icefloe.spec.avro.avro_columns import read_arrays
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.avro.projection_tree import ProjectedField, Struct, Value

_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")

# A manifest's location, length, and number of entries of each status. Null is unknown, as in lists of old v1 tables.
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
    """Return manifests of which only the paths are known, as in snapshots of old v1 tables, in the form of `read_manifest_columns`."""
    unknown = [pa.nulls(len(paths), field.type) for field in MANIFEST_FIELDS][1:]
    return pa.Table.from_arrays([pa.array(paths, pa.string()), *unknown], schema=MANIFEST_FIELDS)


def _cast_columns(columns: dict[str, Any], path: str) -> Any:
    try:
        arrays = [columns[field.name].cast(field.type) for field in MANIFEST_FIELDS]
    except pa.ArrowException as error:
        raise _format_error(path, str(error)) from error
    if arrays[0].null_count:
        raise _format_error(path, f"manifest_path is null in {arrays[0].null_count} entries")
    return pa.Table.from_arrays(arrays, schema=MANIFEST_FIELDS)


def _format_error(path: str, what: str) -> ManifestFormatError:
    return ManifestFormatError(f"the manifest list {path} violates the format", path=path, problems=(Problem(where="", what=what),))
