"""The live entries of many manifests, put together anew: sorted by partition or by what a function says of each file, and divided by size.

As columns: objects are made for a function alone. Spec: Manifests; Manifest Lists (`field_summary`).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.kernel.arrow_values import filled, mask_array, numbers_array, numpy_of
from icefloe.kernel.avro.avro_container import open_container
from icefloe.kernel.commit.attempt import Read
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.manifest.manifest_merge import Parallel
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.scan.file_objects import file_objects, partition_tuples
from icefloe.kernel.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How entries are put together.

    With `key`, files for which it gives equal values share manifests, and others do not. Without, entries are sorted by the partition fields named in `sort_by`
    (all of the spec, in its order, where it is None; those that a spec does not have are passed over), so that each manifest covers few partitions.
    """

    key: Callable[[DataFile], Hashable] | None = None
    sort_by: tuple[str, ...] | None = None


def clustered(
    manifests: Sequence[ManifestFile],
    partition_type: StructType,
    spec_id: int,
    clustering: Clustering,
    read: Read,
    *,
    target_bytes: int,
    parallel: Parallel = map,
) -> list[Any]:
    """The live entries of manifests of one spec and content as `pyarrow.Table`s, each for one new manifest of about `target_bytes`, with status EXISTING.

    They have the columns that `write_manifest_columns` takes, and numbers, row ids and statistics as they were.

    Raises:
        AvroFormatError, ManifestFormatError: a manifest is damaged.
        InvalidInputError: `key` gives a value that cannot be compared.
    """

    def live(manifest: ManifestFile) -> tuple[Any, int]:
        content = read(manifest.manifest_path)
        entries = read_columns(content, manifest, partition_type, whole=True).entries
        stays = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
        size = len(content) - open_container(content, manifest.manifest_path).body_start
        return entries.filter(mask_array(stays)), int(size * stays.mean()) if len(stays) else 0

    found = list(parallel(live, manifests))
    entries = pa.concat_tables([table for table, _ in found]).combine_chunks()
    if not entries.num_rows:
        return []
    status = entries.schema.get_field_index("status")
    existing = filled(pa.nulls(entries.num_rows, pa.int32()), int(ManifestEntryStatus.EXISTING))
    entries = entries.set_column(status, entries.schema.field(status), existing)
    rows_of_a_manifest = ceil(entries.num_rows / max(1, ceil(sum(size for _, size in found) / target_bytes)))
    order, ends = _order(entries, partition_type, spec_id, clustering)
    divided: list[Any] = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        for first in range(start, end, rows_of_a_manifest):
            rows = order[first : min(first + rows_of_a_manifest, end)]
            divided.append(entries.take(numbers_array(rows, pa.int64())))
    return divided


def _order(entries: Any, partition_type: StructType, spec_id: int, clustering: Clustering) -> tuple[NDArray[np.int64], list[int]]:
    """The rows in their new order, and where each cluster of them ends."""
    if clustering.key is not None:
        return _by_key(entries, partition_type, spec_id, clustering.key)
    names = [part.name for part in partition_type.fields] if clustering.sort_by is None else clustering.sort_by
    columns = {part.name: partition_column(part.field_id) for part in partition_type.fields}
    keys = [(columns[name], "ascending") for name in names if name in columns and not pa.types.is_null(entries[columns[name]].type)]
    order = numpy_of(pc.sort_indices(entries, sort_keys=keys).cast(pa.int64())) if keys else np.arange(entries.num_rows)
    return order, [entries.num_rows]


def _by_key(
    entries: Any, partition_type: StructType, spec_id: int, key: Callable[[DataFile], Hashable]
) -> tuple[NDArray[np.int64], list[int]]:
    files = file_objects(entries, spec_id, partition_tuples(entries, partition_type))
    numbers: dict[Hashable, int] = {}
    try:
        codes = np.fromiter((numbers.setdefault(key(file), len(numbers)) for file in files), np.int64, len(files))
    except TypeError as error:
        raise InvalidInputError(f"files cannot be clustered by this function: {error}") from error
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return order, np.cumsum(np.bincount(codes)).tolist()
