"""The live entries of many manifests, arranged for new manifests: sorted by partition or grouped by a function of each file, and split by size.

The entries stay columns; `DataFile` objects are built only if there is a clustering function.

A manifest list has the range of each partition field in a manifest, and a planner skips the manifests whose range does not contain the value of a filter.
Entries that are sorted by day and then by bucket give manifests that all contain every bucket, so a filter by bucket skips none. Therefore several orders are
compared: lexicographic orders of the fields, and an order along a curve through all fields. For each order, the share of manifests that a filter by one value
of a field opens is summed over all fields; the order with the smallest sum is chosen.
Spec: Manifests; Manifest Lists (`field_summary`); Scan Planning.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import ceil, factorial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.commit.attempt import Read
from icefloe.errors import InvalidInputError
from icefloe.scan.file_objects import file_objects, partition_tuples
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, mask_array, numbers_array, numpy_of
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest.manifest_merge import Parallel
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.types import StructType

Numbers = NDArray[np.int64]
# All orders of the fields are compared only if the number of partitions times the number of orders is at most this, which is about a second of work. Else only
# the order of the spec, the order by ascending number of distinct values, and the curve are compared.
MOST_SORTED = 2_000_000
# The number of bits of a position along the curve, for all fields together.
_CURVE_BITS = 62


def ranks_of(values: Any) -> Numbers:
    """Return the rank of each value of an Arrow array among its distinct values, null last."""
    encoded = array_of_chunks(values).dictionary_encode(null_encoding="encode")
    order = numpy_of(pc.sort_indices(encoded.dictionary).cast("int64"))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[numpy_of(encoded.indices).astype(np.int64)]


def sorted_rows(ranks: Sequence[Numbers]) -> Numbers:
    """Return the row numbers in the order of the ranks, the first most significant; equal rows keep their order."""
    return np.lexsort(ranks[::-1]).astype(np.int64)


def clustered_rows(ranks: Sequence[Numbers], rows_per_manifest: int) -> Numbers:
    """Return the row numbers in the order with which filters by one value of a field open the fewest manifests.

    Args:
        ranks: For each partition field, in the order of the spec, the ranks of the rows' values.
        rows_per_manifest: The number of rows of a new manifest.
    """
    rows = len(ranks[0])
    if len(ranks) < 2 or rows <= rows_per_manifest:
        return sorted_rows(ranks)
    partitions, place, counts = np.unique(np.stack(ranks, axis=1), axis=0, return_inverse=True, return_counts=True)
    columns = list(np.ascontiguousarray(partitions.T))
    # Of orders that are equally good the first is taken; the order of the spec comes first.
    best = min(_orders(columns), key=lambda order: opened_share(columns, counts, order, rows_per_manifest))
    position = np.empty(len(best), np.int64)
    position[best] = np.arange(len(best))
    return np.argsort(position[place.ravel()], kind="stable").astype(np.int64)


def opened_share(columns: Sequence[Numbers], counts: Numbers, order: Numbers, rows_per_manifest: int) -> float:
    """Return the average share of manifests that a filter by one value of a field opens, summed over all fields.

    Args:
        columns: For each field, the ranks of the partitions' values.
        counts: The number of rows of each partition.
        order: The numbers of the partitions, in the order to evaluate.
        rows_per_manifest: The number of rows of a manifest.
    """
    ends = np.cumsum(counts[order])
    first, last = (ends - counts[order]) // rows_per_manifest, (ends - 1) // rows_per_manifest
    manifests = int(last[-1]) + 1
    share = 0.0
    for column in columns:
        values = column[order]
        low, high = np.full(manifests, np.iinfo(np.int64).max), np.full(manifests, -1, np.int64)
        for manifest in (first, last):
            np.minimum.at(low, manifest, values)
            np.maximum.at(high, manifest, values)
        # A manifest that is neither the first nor the last one of any partition contains rows of a single partition.
        alone = high < 0
        opened = int((high - low + 1)[~alone].sum()) + int(alone.sum())
        share += opened / (manifests * (int(values.max()) + 1))
    return share


def _orders(columns: Sequence[Numbers]) -> Iterator[Numbers]:
    """Yield the orders of partitions to compare."""
    yield sorted_rows(columns)
    if factorial(len(columns)) * len(columns[0]) <= MOST_SORTED:
        yield from map(sorted_rows, list(permutations(columns))[1:])
    else:
        yield sorted_rows(sorted(columns, key=lambda column: int(column.max())))
    yield np.lexsort((*columns[::-1], _curve(columns))).astype(np.int64)


def _curve(columns: Sequence[Numbers]) -> NDArray[np.uint64]:
    """Return the position of each partition along a Z-order curve: the ranks of all fields, scaled to the same range, with their bits interleaved."""
    bits = _CURVE_BITS // len(columns)
    position = np.zeros(len(columns[0]), np.uint64)
    scaled = [(column.astype(np.float64) / (int(column.max()) + 1) * (1 << min(bits, 50))).astype(np.uint64) for column in columns]
    for bit in range(min(bits, 50)):
        for place, column in enumerate(scaled):
            position |= ((column >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * len(columns) + len(columns) - 1 - place)
    return position


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How entries are assigned to manifests.

    If there is a function `key` (JAVA: RewriteManifests.clusterBy), only files for which it returns equal values share a manifest. Otherwise entries are sorted
    by the partition fields named in `sort_by`, so that each manifest covers few partitions; fields that a spec does not have are skipped. If `sort_by` is None,
    all fields of the spec are used, in the order that lets planners skip the most manifests.
    """

    key: Callable[[DataFile], Hashable] | None = None
    sort_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusteredEntries:
    """The entries of new manifests. The table of each manifest is made on demand, because all tables at once would need as much memory as the entries again.

    Attributes:
        entries: A `pyarrow.Table` of all entries.
        rows: For each new manifest, the numbers of its rows in `entries`.
    """

    entries: Any
    rows: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def table(self, number: int) -> Any:
        """Return the entries of new manifest number `number`, from 0."""
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
    """Return the live entries of manifests, divided into new manifests of about `target_bytes` bytes.

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
    existing = fill_nulls(pa.nulls(entries.num_rows, pa.int32()), int(ManifestEntryStatus.EXISTING))
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
    """Return the rows of all tables as one table of few chunks. The list is emptied: columns are copied one by one, and each source column is freed at once."""
    whole = pa.concat_tables(tables)
    tables.clear()
    schema, columns = whole.schema, []
    for name in schema.names:
        columns.append(whole.select([name]).combine_chunks()[name])  # several chunks if its texts need more than 2 GiB
        whole = whole.drop_columns([name])
    return pa.table(columns, schema=schema)


def _order(
    entries: Any, partition_type: StructType, spec_id: int, clustering: Clustering, rows_per_manifest: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Return the row numbers in their new order, and for each cluster the index after its last row in this order."""
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
