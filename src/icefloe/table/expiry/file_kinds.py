"""What kinds of files a table has, and files as columns: their kind, path and size; and when two paths are the same file.

Which of them nothing needs is `unreachable_files.py`, deleting them `cleaning.py`. Spec: File Locations in Metadata.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class FileKind(StrEnum):
    """In the order in which they are deleted: what leads to other files goes after them, so that a run cut short can still be followed."""

    DATA = "data files"
    POSITION_DELETES = "position delete files"
    EQUALITY_DELETES = "equality delete files"
    DELETION_VECTORS = "deletion vector files"
    MANIFESTS = "manifests"
    MANIFEST_LISTS = "manifest lists"
    STATISTICS = "statistics files"
    PARTITION_STATISTICS = "partition statistics files"
    METADATA = "metadata files"


# `key` is equal for two paths of one file; the size, in bytes, is null where nothing tells it.
FILES = pa.schema(
    [pa.field("kind", pa.string()), pa.field("path", pa.string()), pa.field("key", pa.string()), pa.field("size_in_bytes", pa.int64())]
)

# Ways to write one location: Hadoop's `file:/x`, `file:///x` and `/x`; schemes that are names of one store; doubled slashes of local paths.
_SAME = (
    (r"^(?i:file):(//(?i:localhost)/|/*)", "/"),
    (r"^(?i:s3a|s3n|s3)://", "s3://"),
    (r"^(?i:gcs|gs)://", "gs://"),
    (r"^(?i:abfss?|wasbs?)://", "abfs://"),
    (r"^(?i:memory):/*", "memory://"),
)


def location_keys(paths: Any) -> Any:
    """What paths are compared by: equal for all ways to write the same location that readers of tables understand. Arrow strings in and out."""
    for pattern, written in _SAME:
        paths = pc.replace_substring_regex(paths, pattern, written)
    return pc.if_else(pc.starts_with(paths, "/"), pc.replace_substring_regex(paths, "/+", "/"), paths)


def as_files(kind: FileKind, paths: Any, sizes: Any) -> Any:
    """Paths and sizes (Arrow arrays) as a table of `FILES`."""
    keys = location_keys(paths)
    return pa.table([pa.repeat(kind.value, len(paths)), paths, keys, sizes], schema=FILES)


def listed_files(kind: FileKind, files: Iterable[tuple[str, int | None]]) -> Any:
    """Pairs of path and size as a table of `FILES`."""
    listed = list(files)
    return as_files(kind, pa.array([path for path, _ in listed], pa.string()), pa.array([size for _, size in listed], pa.int64()))


def without(files: Any, keys: Any) -> Any:
    """The rows whose `key` is none of these (an Arrow array)."""
    return files.filter(pc.invert(pc.is_in(files["key"], value_set=_array(keys)))) if len(files) and len(keys) else files


def distinct(files: Any) -> Any:
    """The first row of each `key`; the other columns as they are."""
    others = [name for name in files.column_names if name != "key"]
    grouped = files.group_by("key", use_threads=False).aggregate([(name, "first") for name in others])
    columns = [grouped["key" if name == "key" else f"{name}_first"] for name in files.column_names]
    return pa.table(columns, schema=files.schema)


def _array(keys: Any) -> Any:
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
