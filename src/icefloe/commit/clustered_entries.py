"""The live entries of many manifests, clustered for new manifests: sorted by partition or grouped by a function of each file, and split by size.

The entries stay columns; `DataFile` objects are built only for a clustering function. Spec: Manifests; Manifest Lists (`field_summary`).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.commit.attempt import Read
from icefloe.commit.cluster_order import clustered_rows, ranks_of, sorted_rows
from icefloe.errors import InvalidInputError
from icefloe.scan.file_objects import file_objects, partition_tuples
from icefloe.spec.arrow_values import filled, mask_array, numbers_array, numpy_of
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest.manifest_merge import Parallel
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How entries are assigned to manifests.

    With `key` (JAVA: RewriteManifests.clusterBy), files share a manifest only if the function returns equal values for them. Without it, entries are sorted by
    the partition fields named in `sort_by`, so that each manifest covers few partitions; fields that a spec does not have are skipped. `sort_by` None means
    all fields of the spec, in the order from which a planner skips most manifests (`cluster_order.py`).
    """

    key: Callable[[DataFile], Hashable] | None = None
    sort_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusteredEntries:
    """Entries of new manifests, whose tables are made one by one: all of them would need the memory of the entries a second time.

    Attributes:
        entries: A `pyarrow.Table` of all entries.
        rows: The rows of each new manifest.
    """

    entries: Any
    rows: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def table(self, number: int) -> Any:
        """Return the entries of a new manifest."""
        return self.entries.take(numbers_array(self.rows[number], pa.int64()))


def cluster_entries(
    manifests: Sequence[ManifestFile],
    partition_type: StructType,
    spec_id: int,
    clustering: Clustering,
    read: Read,
    *,
    target_bytes: int,
    parallel: Parallel = map,
) -> ClusteredEntries:
    """Return the live entries of manifests, divided into tables for new manifests of about `target_bytes`.

    Args:
        manifests: manifests of one partition spec and one content.
        partition_type: the partition type of the spec.
        spec_id: the id of the spec.
        clustering: how entries are assigned to manifests.
        read: returns the bytes of a manifest.
        target_bytes: the target size of a new manifest (`commit.manifest.target-size-bytes`).
        parallel: maps over the manifests.

    Returns:
        The entries with the columns that `write_manifest_columns` takes. Each has status EXISTING; sequence numbers, row ids and statistics are unchanged.

    Raises:
        AvroFormatError, ManifestFormatError: a manifest is damaged.
        InvalidInputError: `key` returns a value that is not hashable.
    """

    def live(manifest: ManifestFile) -> tuple[Any, int]:
        content = read(manifest.manifest_path)
        entries = read_columns(content, manifest, partition_type, whole=True).entries
        is_live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
        size = len(content) - open_container(content, manifest.manifest_path).body_start
        return entries.filter(mask_array(is_live)), int(size * is_live.mean()) if len(is_live) else 0

    live_tables, sizes = [], []
    for table, size in parallel(live, manifests):
        live_tables.append(table)
        sizes.append(size)
    entries = _combine_tables(live_tables)
    if not entries.num_rows:
        return ClusteredEntries(entries=entries, rows=())
    status = entries.schema.get_field_index("status")
    existing = filled(pa.nulls(entries.num_rows, pa.int32()), int(ManifestEntryStatus.EXISTING))
    entries = entries.set_column(status, entries.schema.field(status), existing)
    rows_per_manifest = ceil(entries.num_rows / max(1, ceil(sum(sizes) / target_bytes)))
    order, ends = _order(entries, partition_type, spec_id, clustering, rows_per_manifest)
    rows = [
        order[first : min(first + rows_per_manifest, end)]
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
        for first in range(start, end, rows_per_manifest)
    ]
    return ClusteredEntries(entries=entries, rows=tuple(rows))


def _combine_tables(tables: list[Any]) -> Any:
    """Return the rows of tables as one table of few chunks, and empty the list: the columns are copied one by one, and each source is freed then."""
    whole = pa.concat_tables(tables)
    tables.clear()
    schema, columns = whole.schema, []
    for name in schema.names:
        columns.append(whole.select([name]).combine_chunks()[name])  # in several chunks where texts need more than 2 GiB
        whole = whole.drop_columns([name])
    return pa.table(columns, schema=schema)


def _order(
    entries: Any, partition_type: StructType, spec_id: int, clustering: Clustering, rows_per_manifest: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Return the row numbers in their new order, and the end of each cluster in it."""
    if clustering.key is not None:
        return _by_key(entries, partition_type, spec_id, clustering.key)
    names = [part.name for part in partition_type.fields] if clustering.sort_by is None else clustering.sort_by
    columns = {part.name: partition_column(part.field_id) for part in partition_type.fields}
    present = (entries[columns[name]] for name in names if name in columns)
    ranks = [ranks_of(values) for values in present if not pa.types.is_null(values.type)]
    if not ranks:
        return np.arange(entries.num_rows), [entries.num_rows]
    rows = clustered_rows(ranks, rows_per_manifest) if clustering.sort_by is None else sorted_rows(ranks)
    return rows, [entries.num_rows]


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
