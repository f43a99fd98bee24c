"""Reads the paths and sizes of the files in a manifest as columns. The clean-up of files uses it to find every file that is still needed.

`manifest_reader.py` reads the columns for scans. Spec: Manifests; Manifest Entry Fields.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import ManifestFormatError, Problem
from icefloe.spec.avro.avro_columns import read_arrays
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.avro.projection_tree import ProjectedField, Struct, Value
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_length import check_length
from icefloe.spec.manifest.partition_values import typed_array

# The schema of the result, with one row for each entry. `content` is 0 for data, 1 for position deletes, 2 for equality deletes; the size is that of the whole
# file in bytes.
PATH_FIELDS = pa.schema(
    [
        pa.field("status", pa.int32(), nullable=False),
        pa.field("content", pa.int32()),
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_format", pa.string()),
        pa.field("file_size_in_bytes", pa.int64()),
    ]
)

_PROJECTION = Struct(
    (
        ProjectedField(0, ("status",), Value("status"), required=True),
        ProjectedField(
            2,
            ("data_file",),
            Struct(
                (
                    ProjectedField(134, ("content",), Value("content")),
                    ProjectedField(100, ("file_path",), Value("file_path"), required=True),
                    ProjectedField(101, ("file_format",), Value("file_format")),
                    ProjectedField(104, ("file_size_in_bytes",), Value("file_size_in_bytes")),
                )
            ),
            required=True,
        ),
    )
)


def read_file_paths(content: bytes, path: str, *, length: int | None = None, counts: tuple[int | None, int | None, int | None]) -> Any:
    """Return the files of one manifest, one row per entry of any status, in file order.

    Args:
        content: The manifest's bytes.
        path: Its location, for errors.
        length: Its size in bytes according to its manifest list; None if unknown. It reveals a manifest that was cut short.
        counts: The numbers of added, existing and deleted entries according to its manifest list; None for an unknown count.

    Returns:
        A `pyarrow.Table` of `PATH_FIELDS`.

    Raises:
        AvroFormatError: the file is damaged or was cut short; the error names it.
        ManifestFormatError: a path is null, a status is not one of the format, or the numbers of entries differ from those in the manifest list.
    """
    check_length(content, path, length, counts)
    batches = [_cast_columns(columns, path) for columns in read_arrays([open_container(content, path)], _PROJECTION)]
    files = pa.concat_tables(batches) if batches else PATH_FIELDS.empty_table()
    for problem in _problems(files, counts):
        raise _refuse(path, problem)
    return files


def _problems(files: Any, counts: tuple[int | None, int | None, int | None]) -> Iterator[str]:
    for name in ("status", "file_path"):
        if files[name].null_count:
            yield f"{name} is null in {files[name].null_count} entries"
    actual_counts = {row["values"]: row["counts"] for row in pc.value_counts(files["status"]).to_pylist()}
    unknown = sorted(set(actual_counts) - {int(status) for status in ManifestEntryStatus})
    if unknown:
        yield f"a status is {unknown[0]}; it must be 0 (existing), 1 (added) or 2 (deleted)"
    order = (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
    for status, expected in zip(order, counts, strict=True):
        if expected is not None and expected != actual_counts.get(int(status), 0):
            yield f"{actual_counts.get(int(status), 0)} entries are {status.name}, the manifest list counts {expected}"


def _cast_columns(columns: dict[str, Any], path: str) -> Any:
    try:
        return pa.Table.from_arrays([typed_array(columns[field.name], field.type) for field in PATH_FIELDS], schema=PATH_FIELDS)
    except pa.ArrowException as error:
        raise _refuse(path, str(error)) from error


def _refuse(path: str, what: str) -> ManifestFormatError:
    return ManifestFormatError(f"the manifest {path} violates a rule of the format", path=path, problems=(Problem(where="", what=what),))
