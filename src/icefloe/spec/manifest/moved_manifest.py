"""Manifests and manifest lists of a copied table: the same bytes, except for replaced paths, and for the sizes of files that contain replaced paths.

Spec: Manifests; Manifest Lists; Delete Formats.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.avro.projection_tree import FieldSpan, IdMap, Numbers, ProjectedField, Struct, Value
from icefloe.spec.avro.write_avro_columns import spliced_file
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.manifest_columns import DELETE_FIELDS, ENTRY_FIELDS, WHOLE_FIELDS
from icefloe.spec.manifest.partition_values import typed_array
from icefloe.spec.path_prefix import PathPrefix
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH

_STATUS, _DATA_FILE, _CONTENT, _PATH, _FORMAT, _SIZE = 0, 2, 134, 100, 101, 104
_COLUMN_SIZES, _LOWER, _UPPER, _SPLITS, _REFERENCED = 108, 125, 128, 132, 143
_MANIFEST_PATH, _MANIFEST_LENGTH = 500, 501


def _span(field_id: int, name: str, shape: Any = None, *, required: bool = False) -> ProjectedField:
    return ProjectedField(field_id, (name,), FieldSpan(name, shape or Value(name)), required)


_OF_LIST = Struct((_span(_MANIFEST_PATH, "manifest_path", required=True), _span(_MANIFEST_LENGTH, "manifest_length", required=True)))
_OF_DATA = Struct(
    (
        _span(_STATUS, "status", required=True),
        ProjectedField(_DATA_FILE, ("data_file",), Struct((_span(_PATH, "file_path", required=True),)), required=True),
    )
)
_OF_DELETES = Struct(
    (
        _span(_STATUS, "status", required=True),
        ProjectedField(
            _DATA_FILE,
            ("data_file",),
            Struct(
                (
                    ProjectedField(_CONTENT, ("content",), Value("content"), required=True),
                    _span(_PATH, "file_path", required=True),
                    ProjectedField(_FORMAT, ("file_format",), Value("file_format"), required=True),
                    _span(_SIZE, "file_size_in_bytes", required=True),
                    _span(_COLUMN_SIZES, "column_sizes", IdMap("column_sizes")),
                    _span(_LOWER, "lower_bounds", IdMap("lower_bounds")),
                    _span(_UPPER, "upper_bounds", IdMap("upper_bounds")),
                    _span(_SPLITS, "split_offsets", Numbers("split_offsets")),
                    _span(_REFERENCED, "referenced_data_file"),
                )
            ),
            required=True,
        ),
    )
)
_TYPES = {field.name: field.type for fields in (ENTRY_FIELDS, DELETE_FIELDS, WHOLE_FIELDS) for field in fields}


def moved_manifest_list(content: bytes, path: str, prefix: PathPrefix, lengths: Mapping[str, int]) -> bytes:
    """Return a manifest list with the paths and lengths of the copied manifests.

    Args:
        content: The manifest list.
        path: Its location, for errors.
        prefix: The prefix to replace.
        lengths: The lengths of the copied manifests, by the paths of the originals.

    Raises:
        AvroFormatError: The file is damaged.
        InvalidInputError: A path is not below the prefix.
    """

    def new_values(columns: Mapping[str, Any]) -> Mapping[int, Any]:
        paths = typed_array(columns["manifest_path"], pa.string())
        return {
            _MANIFEST_PATH: prefix.moved_column(paths),
            _MANIFEST_LENGTH: pa.array([lengths[manifest] for manifest in paths.to_pylist()], pa.int64()),
        }

    return spliced_file(content, path, _OF_LIST, {_MANIFEST_PATH: "manifest_path", _MANIFEST_LENGTH: "manifest_length"}, new_values)


def moved_data_manifest(content: bytes, path: str, prefix: PathPrefix) -> bytes:
    """Return a manifest of data files with their new paths. Raises the errors of `moved_manifest_list`."""
    return spliced_file(
        content,
        path,
        _OF_DATA,
        {_STATUS: "status", _PATH: "file_path"},
        lambda columns: {_PATH: prefix.moved_column(typed_array(columns["file_path"], pa.string()))},
    )


def moved_delete_manifest(content: bytes, path: str, prefix: PathPrefix, sizes: Mapping[str, int]) -> bytes:
    """Return a manifest of delete files with new paths of the delete files and of the data files that they refer to, and with the sizes of rewritten files.

    Path bounds that are truncated within the prefix are left out. So are split offsets and column sizes of rewritten files, because they are those of the
    originals.

    Args:
        content: The manifest.
        path: Its location, for errors.
        prefix: The prefix to replace.
        sizes: The sizes of rewritten delete files, by the paths of the originals.

    Raises:
        AvroFormatError: The file is damaged.
        InvalidInputError: A path is not below the prefix.
    """

    def new_values(columns: Mapping[str, Any]) -> Mapping[int, Any]:
        typed = {name: typed_array(columns[name], kind) for name, kind in _TYPES.items() if name in columns}
        paths = typed["file_path"]
        old_sizes = typed["file_size_in_bytes"].to_pylist()
        new_sizes = [sizes.get(file, size) for file, size in zip(paths.to_pylist(), old_sizes, strict=True)]
        of_positions = numpy_of(pc.equal(typed["content"], int(FileContent.POSITION_DELETES)))
        is_vector = numpy_of(pc.equal(pc.utf8_upper(typed["file_format"]), FileFormat.PUFFIN.value))
        rewritten = of_positions & ~is_vector
        lower, upper = moved_bounds(typed["lower_bounds"].to_pylist(), typed["upper_bounds"].to_pylist(), of_positions, prefix)
        return {
            _PATH: prefix.moved_column(paths),
            _SIZE: pa.array(new_sizes, pa.int64()),
            _COLUMN_SIZES: _null_where(rewritten, typed["column_sizes"]),
            _LOWER: pa.array(lower, typed["lower_bounds"].type),
            _UPPER: pa.array(upper, typed["upper_bounds"].type),
            _SPLITS: _null_where(rewritten, typed["split_offsets"]),
            _REFERENCED: prefix.moved_column(typed["referenced_data_file"]),
        }

    spans = {
        _STATUS: "status",
        _PATH: "file_path",
        _SIZE: "file_size_in_bytes",
        _COLUMN_SIZES: "column_sizes",
        _LOWER: "lower_bounds",
        _UPPER: "upper_bounds",
        _SPLITS: "split_offsets",
        _REFERENCED: "referenced_data_file",
    }
    return spliced_file(content, path, _OF_DELETES, spans, new_values)


def _null_where(rows: np.ndarray[Any, np.dtype[np.bool_]], values: Any) -> Any:
    keep = np.arange(len(values))
    return values.take(pa.array(keep, pa.int64(), mask=rows))


Bounds = list[list[tuple[int, bytes]] | None]


def moved_bounds(lower: Bounds, upper: Bounds, of_positions: Any, prefix: PathPrefix) -> tuple[Bounds, Bounds]:
    """Return the bounds of delete files, with new paths in the bounds of the path column of position deletes.

    Replacing the prefix keeps the order of paths that begin with it. Bounds that do not contain the whole prefix are left out. The lists are modified.

    Args:
        lower: The lower bounds of each file, as pairs of field id and bytes.
        upper: The upper bounds, in the same form.
        of_positions: A mask of the position delete files.
        prefix: The prefix to replace.
    """
    column, source, target = DELETE_FILE_PATH.field_id, f"{prefix.source}/".encode(), f"{prefix.target}/".encode()
    for row in np.flatnonzero(of_positions).tolist():
        low, high = (dict(bounds[row] or ()).get(column) for bounds in (lower, upper))
        whole = all(bound is None or bound.startswith(source) for bound in (low, high))
        for bounds, bound in ((lower, low), (upper, high)):
            if bound is not None:
                others = [(field_id, value) for field_id, value in bounds[row] or () if field_id != column]
                moved = target + bound[len(source) :]
                bounds[row] = sorted([*others, *([(column, moved)] if whole else ())])
    return lower, upper
