"""The differences of two versions in files, rows by partition and column statistics, from manifests alone.

Each distinct manifest is read once. Small manifests are decoded together, and several groups in parallel. Files of a manifest that both versions have are not
compared. Files are compared as arrays. Spec: Manifests; Manifest Lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.formatting import short_text
from icefloe.inspect.comparison.table_version import TableVersion
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.arrow_values import array_of, array_of_chunks, fill_nulls, numpy_of, positions_array, scalar_of
from icefloe.spec.manifest.manifest_columns import Statistic, partition_column, statistic_column
from icefloe.spec.manifest.manifest_reader import read_live_entries
from icefloe.spec.manifest.partition_values import primitive
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.document_validation import LATEST_SUPPORTED_VERSION
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.partitioning.partition_spec import partition_folder
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.type_promotion import is_promotion
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType, StructType
from icefloe.spec.values import bounds_to_array, physical_list, to_human

# The most columns whose statistics are compared, the first of the schema: each column costs time for each file.
MOST_COLUMNS = 100
# The most manifests, and about the most entries, that are decoded together: large arrays are quicker, but all of them are in memory at once.
_MANIFESTS_AT_ONCE = 16
_ENTRIES_AT_ONCE = 32_768
_STATISTICS = ("null_value_count", "lower_bound", "upper_bound")
# Columns by field id, with their names and types.
Columns = Mapping[int, tuple[str, PrimitiveType]]


@dataclass(frozen=True, slots=True)
class ChangedFileCounts:
    """Counts of files, with their bytes and rows."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, other: "ChangedFileCounts") -> "ChangedFileCounts":
        return ChangedFileCounts(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The differences of two versions in their data files, or in their delete files. For delete files, `rows` are deleted positions or keys.

    Attributes:
        added: Counts of the files that only the second version has.
        removed: Counts of the files that only the first version has.
        kept: Counts of the files that both versions have.
    """

    added: ChangedFileCounts
    removed: ChangedFileCounts
    kept: ChangedFileCounts


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """The counts of one partition. `rows` are the rows of its data files; `deletes`, positions or keys in delete files, may delete some of them."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDifference:
    """A partition whose counts differ. Its name is such as `day=2024-01-01`; empty for unpartitioned files."""

    partition: str
    before: PartitionCounts
    after: PartitionCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """The statistics of a column over all live files.

    Attributes:
        nulls: The number of nulls; None if a file has no count.
        lower: The least lower bound of a file, as text; None if no file has one.
        upper: The greatest upper bound of a file, as text; None if no file has one.
    """

    nulls: int | None = None
    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """A column whose statistics differ. `before` or `after` is None if that version does not have the column."""

    name: str
    before: ColumnBounds | None
    after: ColumnBounds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifferences:
    """The differences of the files of two versions.

    Attributes:
        data_files: The differences of data files.
        delete_files: The differences of delete files. Each deletion vector counts as a file.
        partitions: The partitions that differ, those with the most changed rows first.
        columns: The columns whose statistics differ.
    """

    data_files: FileDifference
    delete_files: FileDifference
    partitions: tuple[PartitionDifference, ...]
    columns: tuple[ColumnDifference, ...]


class _Bounds(NamedTuple):
    """Statistics of one column over several files: the number of nulls, None if a count is missing; and the bounds as physical values."""

    nulls: int | None = 0
    lower: Any = None
    upper: Any = None

    def merge(self, other: "_Bounds") -> "_Bounds":
        lower = min((bound for bound in (self.lower, other.lower) if bound is not None), default=None)
        upper = max((bound for bound in (self.upper, other.upper) if bound is not None), default=None)
        return _Bounds(None if self.nulls is None or other.nulls is None else self.nulls + other.nulls, lower, upper)


class _Partitions(NamedTuple):
    """The counts of partitions: their names as an Arrow array, and a matrix with a row of the numbers of `PartitionCounts` for each."""

    names: Any
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digest:
    """The compared values of some manifests.

    `names` identifies each file, and `counts` has its bytes and rows; both are empty for manifests that are in both versions.
    """

    total: ChangedFileCounts
    partitions: "_Partitions"
    columns: Mapping[int, _Bounds]
    names: Any
    counts: NDArray[np.int64]
    is_delete: bool


def file_changes(before: TableVersion, after: TableVersion, *, is_one_table: bool, statistics: bool = True) -> FileDifferences:
    """Return the differences of the files of two versions.

    Args:
        before: The first version.
        after: The second version.
        is_one_table: Whether both are versions of the same table, so that columns with the same field id are the same column.
        statistics: Whether column statistics are compared, which takes most of the time.

    Raises:
        NoSuchFileError: A manifest list or manifest does not exist.
        FormatError: A manifest list or manifest is damaged, or violates the format.
    """
    old, other = before.manifests(), after.manifests()
    shared = {manifest.manifest_path for manifest in old} & {manifest.manifest_path for manifest in other} if is_one_table else set()
    old_columns: Columns = _columns(before.schema) if statistics else {}
    new_columns: Columns = _columns(after.schema) if statistics else {}
    if is_one_table:
        old_columns, new_columns = _in_wider_types(old_columns, new_columns), _in_wider_types(new_columns, old_columns)
    in_both = [manifest for manifest in other if manifest.manifest_path in shared]
    both = _digests(after, {**old_columns, **new_columns} if is_one_table else new_columns, in_both, with_files=False)
    removed = _digests(before, old_columns, _not_in(old, shared), with_files=True)
    added = _digests(after, new_columns, _not_in(other, shared), with_files=True)
    return FileDifferences(
        data_files=_difference(both, removed, added, is_delete=False),
        delete_files=_difference(both, removed, added, is_delete=True),
        partitions=_partition_differences([*both, *removed], [*both, *added]),
        columns=_column_differences((old_columns, [*both, *removed]), (new_columns, [*both, *added]), by_name=not is_one_table),
    )


def _not_in(manifests: Sequence[ManifestFile], shared: set[str]) -> list[ManifestFile]:
    return [manifest for manifest in manifests if manifest.manifest_path not in shared]


def _columns(schema: Schema) -> dict[int, tuple[str, PrimitiveType]]:
    """Return the columns whose statistics are compared: their names and types by field id."""
    primitives = [(field.field_id, ".".join(path), field.field_type) for path, field in walk(schema.fields)]
    listed = [(field_id, (name, kind)) for field_id, name, kind in primitives if isinstance(kind, PrimitiveType)]
    return dict(listed[:MOST_COLUMNS])


def _in_wider_types(columns: Columns, others: Columns) -> Columns:
    """Return the columns with the promoted types of the other columns, so that the bounds of both versions can be compared."""
    return {
        field_id: (
            name,
            others[field_id][1] if field_id in others and is_promotion(kind, others[field_id][1], LATEST_SUPPORTED_VERSION) else kind,
        )
        for field_id, (name, kind) in columns.items()
    }


def _digests(version: TableVersion, columns: Columns, manifests: Sequence[ManifestFile], *, with_files: bool) -> list[_Digest]:
    return list(in_threads(partial(_digest, version, columns, with_files=with_files), _groups(manifests)))


def _groups(manifests: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Group manifests of the same partition spec and content that are decoded together."""
    groups: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    entries: dict[tuple[int, ManifestContent], int] = {}
    for manifest in manifests:
        key = (manifest.partition_spec_id, manifest.content)
        counts = (manifest.added_files_count, manifest.existing_files_count)
        # The counts of the manifest list may be wrong; they only decide which manifests are read together.
        count = sum(_ENTRIES_AT_ONCE if number is None or number < 0 else number for number in counts)
        group = groups.setdefault(key, [])
        if group and (len(group) == _MANIFESTS_AT_ONCE or entries[key] + count > _ENTRIES_AT_ONCE):
            yield group
            group = groups[key] = []
            entries[key] = 0
        group.append(manifest)
        entries[key] = entries.get(key, 0) + count
    yield from groups.values()


def _digest(version: TableVersion, columns: Columns, manifests: Sequence[ManifestFile], *, with_files: bool) -> _Digest:
    spec_id, content = manifests[0].partition_spec_id, manifests[0].content
    kind = spec_partition_type(version.reader.metadata, spec_id)
    is_delete = content is ManifestContent.DELETES
    statistics: Sequence[Statistic] = () if is_delete else [(name, field_id) for field_id in columns for name in _STATISTICS]
    entries = read_live_entries(manifests, version.reader.io.read, kind, statistics=statistics).entries
    sizes = entries["file_size_in_bytes"]
    if is_delete:  # the size of a deletion vector is that of its blob: its Puffin file can have many blobs
        sizes = pc.coalesce(entries["content_size_in_bytes"], sizes)
    counts = np.stack([numpy_of(sizes), numpy_of(entries["record_count"])], axis=1).astype(np.int64)
    return _Digest(
        total=ChangedFileCounts(len(counts), *map(int, counts.sum(axis=0))),
        partitions=_by_partition(_partition_names(version, spec_id, kind, entries), counts, is_delete=is_delete),
        columns={} if is_delete else {field_id: _bounds(entries, field_id, kind) for field_id, (_, kind) in columns.items()},
        names=_file_names(entries, is_delete=is_delete) if with_files else pa.nulls(0, pa.string()),
        counts=counts if with_files else counts[:0],
        is_delete=is_delete,
    )


def _partition_names(version: TableVersion, spec_id: int, partition_type: StructType, entries: Any) -> Any:
    """Return the partition name of each file as an Arrow array. For speed, only the distinct values of a field are converted to text."""
    fields = version.reader.metadata.spec_by_id(spec_id).fields
    if not fields:
        return array_of([""] * entries.num_rows, pa.string())
    parts = []
    for field, part in zip(fields, partition_type.fields, strict=True):
        kind, column = primitive(part.field_type), array_of_chunks(entries[partition_column(part.field_id)])
        is_float = isinstance(kind, FloatType | DoubleType)
        # Floats are compared by their bits, because -0.0 equals 0.0 but is a different partition.
        bits = column.view(pa.int64() if isinstance(kind, DoubleType) else pa.int32()) if is_float else column
        encoded = pc.dictionary_encode(bits, null_encoding="encode")
        values = physical_list(kind, encoded.dictionary.view(column.type) if is_float else encoded.dictionary)
        parts.append(array_of([partition_folder(field, kind, value) for value in values], pa.string()).take(encoded.indices))
    return pc.binary_join_element_wise(*parts, scalar_of("/", pa.string()))


def _by_partition(names: Any, counts: NDArray[np.int64], *, is_delete: bool) -> _Partitions:
    encoded = pc.dictionary_encode(names)
    codes = numpy_of(encoded.indices)
    totals = np.zeros((len(encoded.dictionary), len(PartitionCounts.__dataclass_fields__)), np.int64)
    sizes, rows = counts.T
    for place, numbers in ((3, rows),) if is_delete else ((0, np.ones_like(rows)), (1, rows), (2, sizes)):
        np.add.at(totals[:, place], codes, numbers)
    return _Partitions(encoded.dictionary, totals)


def _bounds(entries: Any, field_id: int, kind: PrimitiveType) -> _Bounds:
    if not entries.num_rows:
        return _Bounds()
    nulls = entries[statistic_column("null_value_count", field_id)]
    lower, upper = (bounds_to_array(kind, entries[statistic_column(name, field_id)]) for name in ("lower_bound", "upper_bound"))
    is_ordered = not pa.types.is_null(lower.type)
    return _Bounds(
        None if nulls.null_count else int(pc.sum(nulls).as_py()),
        pc.min(lower).as_py() if is_ordered else None,
        pc.max(upper).as_py() if is_ordered else None,
    )


def _file_names(entries: Any, *, is_delete: bool) -> Any:
    """Return a text that identifies each file: its path, and for a deletion vector also its offset and its data file."""
    paths = array_of_chunks(entries["file_path"])
    if not is_delete:
        return paths
    places = (fill_nulls(array_of_chunks(entries[name]).cast(pa.string()), "") for name in ("content_offset", "referenced_data_file"))
    return pc.if_else(
        array_of_chunks(entries["content_offset"].is_null()),
        paths,
        pc.binary_join_element_wise(paths, *places, scalar_of("\0", pa.string())),
    )


def _difference(both: Sequence[_Digest], before: Sequence[_Digest], after: Sequence[_Digest], *, is_delete: bool) -> FileDifference:
    kept = sum((digest.total for digest in both if digest.is_delete == is_delete), ChangedFileCounts())
    sides = [[digest for digest in side if digest.is_delete == is_delete] for side in (before, after)]
    names = pa.chunked_array([digest.names for side in sides for digest in side], pa.string())
    if not len(names):
        return FileDifference(added=ChangedFileCounts(), removed=ChangedFileCounts(), kept=kept)
    codes = numpy_of(array_of_chunks(pc.dictionary_encode(names.combine_chunks())).indices)
    sizes = np.concatenate([digest.counts for side in sides for digest in side])
    split = sum(len(digest.names) for digest in sides[0])
    # If a version has a file twice, the file counts once.
    is_old, is_new = np.zeros(int(codes.max()) + 1, bool), np.zeros(int(codes.max()) + 1, bool)
    counts = np.zeros((len(is_old), 2), np.int64)
    is_old[codes[:split]] = True
    is_new[codes[split:]] = True
    counts[codes] = sizes
    return FileDifference(
        added=_total(counts[is_new & ~is_old]), removed=_total(counts[is_old & ~is_new]), kept=kept + _total(counts[is_new & is_old])
    )


def _total(counts: NDArray[np.int64]) -> ChangedFileCounts:
    return ChangedFileCounts(len(counts), *map(int, counts.sum(axis=0)))


def _partition_differences(before: Sequence[_Digest], after: Sequence[_Digest]) -> tuple[PartitionDifference, ...]:
    parts = [digest.partitions for side in (before, after) for digest in side]
    names = pc.dictionary_encode(pa.chunked_array([part.names for part in parts], pa.string()).combine_chunks())
    codes = numpy_of(names.indices)
    split = sum(len(digest.partitions.names) for digest in before)
    counts = np.concatenate([np.zeros((0, len(PartitionCounts.__dataclass_fields__)), np.int64), *(part.counts for part in parts)])
    totals = np.zeros((2, len(names.dictionary), counts.shape[1]), np.int64)
    for side, chosen in enumerate((slice(split), slice(split, None))):
        np.add.at(totals[side], codes[chosen], counts[chosen])
    changed = np.flatnonzero((totals[0] != totals[1]).any(axis=1))
    old, new = (totals[side][changed].tolist() for side in (0, 1))
    differences = [
        PartitionDifference(partition=name, before=PartitionCounts(*old_totals), after=PartitionCounts(*other))
        for name, old_totals, other in zip(names.dictionary.take(positions_array(changed)).to_pylist(), old, new, strict=True)
    ]
    return tuple(sorted(differences, key=lambda difference: (-_changed_rows(difference), difference.partition)))


def _changed_rows(difference: PartitionDifference) -> int:
    return abs(difference.after.rows - difference.before.rows) + abs(difference.after.deletes - difference.before.deletes)


def _column_differences(
    before: tuple[Columns, Sequence[_Digest]], after: tuple[Columns, Sequence[_Digest]], *, by_name: bool
) -> tuple[ColumnDifference, ...]:
    old, new = (_column_bounds(*side, by_name=by_name) for side in (before, after))
    return tuple(
        ColumnDifference(name=(new.get(key) or old[key])[0], before=_second(old.get(key)), after=_second(new.get(key)))
        for key in {**old, **new}
        if _second(old.get(key)) != _second(new.get(key))
    )


def _second(named: tuple[str, ColumnBounds] | None) -> ColumnBounds | None:
    return None if named is None else named[1]


def _column_bounds(columns: Columns, digests: Sequence[_Digest], *, by_name: bool) -> dict[int | str, tuple[str, ColumnBounds]]:
    bounds: dict[int | str, tuple[str, ColumnBounds]] = {}
    for field_id, (name, kind) in columns.items():
        total = reduce(_Bounds.merge, (digest.columns[field_id] for digest in digests if field_id in digest.columns), _Bounds())
        texts = [None if value is None else short_text(to_human(kind, value)) for value in (total.lower, total.upper)]
        bounds[name if by_name else field_id] = (name, ColumnBounds(nulls=total.nulls, lower=texts[0], upper=texts[1]))
    return bounds
