"""What differs between two versions in files, rows by partition and column statistics, from manifests alone.

Each distinct manifest is read once, side by side with others; of a manifest that both versions have no file is compared. Spec: Manifests; Manifest Lists.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.comparison.table_version import TableVersion
from icefloe.display.formatting import shortened
from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.manifest.manifest_columns import Statistic, statistic_column
from icefloe.kernel.manifest.manifest_reader import read_live_entries
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.document import LATEST_SUPPORTED_VERSION
from icefloe.kernel.metadata.manifests import spec_partition_type, spec_schema
from icefloe.kernel.partitioning.partition_spec import partition_path
from icefloe.kernel.scan.file_objects import partition_tuples
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.schema.type_promotion import is_promotion
from icefloe.kernel.types import PrimitiveType
from icefloe.kernel.values import bounds_to_array, to_human
from icefloe.table.parallel_requests import in_threads

# Columns whose statistics are compared, the first ones: each costs time for each file.
MOST_COLUMNS = 100
_STATISTICS = ("null_value_count", "lower_bound", "upper_bound")
# Columns by field id, with their names and types.
Columns = Mapping[int, tuple[str, PrimitiveType]]


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Counts of files."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """Counts of the files of one kind. `rows` of delete files are deleted positions or keys.

    Attributes:
        added: The files of the second version only.
        removed: The files of the first version only.
        kept: The files of both.
    """

    added: FileCounts
    removed: FileCounts
    kept: FileCounts


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """Counts of one partition. `rows` are those of the data files, of which `deletes` may delete some."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    deletes: int = 0

    def __add__(self, other: "PartitionCounts") -> "PartitionCounts":
        return PartitionCounts(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes, self.deletes + other.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDifference:
    """A partition whose counts differ, such as `day=2024-01-01`; empty text for files without partition."""

    partition: str
    before: PartitionCounts
    after: PartitionCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """The statistics of a column over all live files: nulls, None if a file has no count, and the least and greatest bounds that files have, as text."""

    nulls: int | None = None
    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """A column whose statistics differ; None where a version does not have the column."""

    name: str
    before: ColumnBounds | None
    after: ColumnBounds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The differences of the files of two versions.

    Attributes:
        data_files: Of data files.
        delete_files: Of delete files, each deletion vector counted.
        partitions: The partitions that differ, those with the most changed rows first.
        columns: The columns whose statistics differ.
    """

    data_files: FileDifference
    delete_files: FileDifference
    partitions: tuple[PartitionDifference, ...]
    columns: tuple[ColumnDifference, ...]


class _Bounds(NamedTuple):
    """Statistics of one column: nulls, None where a count is missing, and physical values."""

    nulls: int | None = 0
    lower: Any = None
    upper: Any = None

    def merged(self, other: "_Bounds") -> "_Bounds":
        lower = min((one for one in (self.lower, other.lower) if one is not None), default=None)
        upper = max((one for one in (self.upper, other.upper) if one is not None), default=None)
        return _Bounds(None if self.nulls is None or other.nulls is None else self.nulls + other.nulls, lower, upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digest:
    """What is compared of one manifest. `names` and `counts` (bytes and rows of each file) are kept only of manifests that one version alone has."""

    total: FileCounts
    partitions: Mapping[str, PartitionCounts]
    columns: Mapping[int, _Bounds]
    names: Sequence[str]
    counts: NDArray[np.int64]
    is_delete: bool


def file_changes(before: TableVersion, after: TableVersion, *, is_one_table: bool) -> FileChanges:
    """Return the differences of the files of two versions.

    Args:
        before: The first version.
        after: The second one.
        is_one_table: Whether they are versions of one table, so that columns with one field id are one column.

    Raises:
        NoSuchFileError: A manifest list or manifest does not exist.
        FormatError: One is damaged, or violates the format.
    """
    one, other = before.manifests(), after.manifests()
    shared = {manifest.manifest_path for manifest in one} & {manifest.manifest_path for manifest in other} if is_one_table else set()
    old_columns: Columns = _columns(before.schema)
    new_columns: Columns = _columns(after.schema)
    if is_one_table:
        old_columns, new_columns = _in_wider_types(old_columns, new_columns), _in_wider_types(new_columns, old_columns)
    in_both = [manifest for manifest in other if manifest.manifest_path in shared]
    both = list(
        in_threads(partial(_digest, after, {**old_columns, **new_columns} if is_one_table else new_columns, with_files=False), in_both)
    )
    removed = list(in_threads(partial(_digest, before, old_columns, with_files=True), _not_in(one, shared)))
    added = list(in_threads(partial(_digest, after, new_columns, with_files=True), _not_in(other, shared)))
    return FileChanges(
        data_files=_difference(both, removed, added, is_delete=False),
        delete_files=_difference(both, removed, added, is_delete=True),
        partitions=_partition_differences([*both, *removed], [*both, *added]),
        columns=_column_differences((old_columns, [*both, *removed]), (new_columns, [*both, *added]), by_name=not is_one_table),
    )


def _not_in(manifests: Sequence[ManifestFile], shared: set[str]) -> list[ManifestFile]:
    return [manifest for manifest in manifests if manifest.manifest_path not in shared]


def _columns(schema: Schema) -> dict[int, tuple[str, PrimitiveType]]:
    """Return the columns whose statistics are compared, by field id, with their names and types."""
    primitives = [(field.field_id, ".".join(path), field.field_type) for path, field in walk(schema.fields)]
    listed = [(field_id, (name, kind)) for field_id, name, kind in primitives if isinstance(kind, PrimitiveType)]
    return dict(listed[:MOST_COLUMNS])


def _in_wider_types(columns: Columns, others: Columns) -> Columns:
    """Return the columns, each of the type to which a later version promoted it: bounds of both versions are compared in it."""
    return {
        field_id: (
            name,
            others[field_id][1] if field_id in others and is_promotion(kind, others[field_id][1], LATEST_SUPPORTED_VERSION) else kind,
        )
        for field_id, (name, kind) in columns.items()
    }


def _digest(version: TableVersion, columns: Columns, manifest: ManifestFile, *, with_files: bool) -> _Digest:
    kind = spec_partition_type(version.reader.metadata, manifest.partition_spec_id)
    is_delete = manifest.content is ManifestContent.DELETES
    statistics: Sequence[Statistic] = () if is_delete else [(name, field_id) for field_id in columns for name in _STATISTICS]
    entries = read_live_entries([manifest], version.reader.io.read, kind, statistics=statistics).entries
    sizes = entries["file_size_in_bytes"]
    if is_delete:  # of a deletion vector the bytes of its blob: the Puffin file can have many
        sizes = pc.coalesce(entries["content_size_in_bytes"], sizes)
    counts = np.stack([numpy_of(sizes), numpy_of(entries["record_count"])], axis=1).astype(np.int64)
    return _Digest(
        total=FileCounts(len(counts), *map(int, counts.sum(axis=0))),
        partitions=_by_partition(
            _partition_names(version, manifest.partition_spec_id, partition_tuples(entries, kind)), counts, is_delete=is_delete
        ),
        columns={} if is_delete else {field_id: _bounds(entries, field_id, kind) for field_id, (_, kind) in columns.items()},
        names=_file_names(entries, is_delete=is_delete) if with_files else (),
        counts=counts if with_files else counts[:0],
        is_delete=is_delete,
    )


def _partition_names(version: TableVersion, spec_id: int, values: Sequence[tuple[Any, ...]]) -> list[str]:
    metadata = version.reader.metadata
    spec, schema = metadata.spec_by_id(spec_id), spec_schema(metadata, spec_id)
    names: dict[int, str] = {}
    for value in values:  # equal tuples are one object
        if id(value) not in names:
            names[id(value)] = partition_path(spec, schema, value) if spec.fields else ""
    return [names[id(value)] for value in values]


def _by_partition(names: Sequence[str], counts: NDArray[np.int64], *, is_delete: bool) -> dict[str, PartitionCounts]:
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    sums = np.zeros((len(numbers), 3), np.int64)
    np.add.at(sums, codes, np.column_stack([np.ones(len(codes), np.int64), counts]))
    if is_delete:
        return {name: PartitionCounts(deletes=int(sums[number, 2])) for name, number in numbers.items()}
    return {
        name: PartitionCounts(files=int(sums[number, 0]), bytes=int(sums[number, 1]), rows=int(sums[number, 2]))
        for name, number in numbers.items()
    }


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


def _file_names(entries: Any, *, is_delete: bool) -> list[str]:
    """Return a name for each file: its path, and of a deletion vector its place too."""
    paths: list[str] = entries["file_path"].to_pylist()
    if not is_delete:
        return paths
    places = zip(entries["content_offset"].to_pylist(), entries["referenced_data_file"].to_pylist(), strict=True)
    return [path if offset is None else f"{path}\0{offset}\0{target}" for path, (offset, target) in zip(paths, places, strict=True)]


def _difference(both: Sequence[_Digest], before: Sequence[_Digest], after: Sequence[_Digest], *, is_delete: bool) -> FileDifference:
    kept = sum((digest.total for digest in both if digest.is_delete == is_delete), FileCounts())
    old, new = (_files(digests, is_delete=is_delete) for digests in (before, after))
    return FileDifference(
        added=_total(new, new.keys() - old.keys()),
        removed=_total(old, old.keys() - new.keys()),
        kept=kept + _total(new, new.keys() & old.keys()),
    )


def _files(digests: Sequence[_Digest], *, is_delete: bool) -> dict[str, tuple[int, int]]:
    files: dict[str, tuple[int, int]] = {}
    for digest in digests:
        if digest.is_delete == is_delete:
            files.update(zip(digest.names, map(tuple, digest.counts.tolist()), strict=True))
    return files


def _total(files: Mapping[str, tuple[int, int]], names: Set[str]) -> FileCounts:
    return FileCounts(len(names), sum(files[name][0] for name in names), sum(files[name][1] for name in names))


def _partition_differences(before: Sequence[_Digest], after: Sequence[_Digest]) -> tuple[PartitionDifference, ...]:
    old, new = _partitions(before), _partitions(after)
    differences = [
        PartitionDifference(partition=name, before=old.get(name, PartitionCounts()), after=new.get(name, PartitionCounts()))
        for name in {**old, **new}
        if old.get(name, PartitionCounts()) != new.get(name, PartitionCounts())
    ]
    return tuple(sorted(differences, key=lambda one: (-_changed_rows(one), one.partition)))


def _changed_rows(one: PartitionDifference) -> int:
    return abs(one.after.rows - one.before.rows) + abs(one.after.deletes - one.before.deletes)


def _partitions(digests: Sequence[_Digest]) -> dict[str, PartitionCounts]:
    totals: dict[str, PartitionCounts] = {}
    for digest in digests:
        for name, counts in digest.partitions.items():
            totals[name] = totals.get(name, PartitionCounts()) + counts
    return totals


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
    found: dict[int | str, tuple[str, ColumnBounds]] = {}
    for field_id, (name, kind) in columns.items():
        total = reduce(_Bounds.merged, (digest.columns[field_id] for digest in digests if field_id in digest.columns), _Bounds())
        texts = [None if value is None else shortened(to_human(kind, value)) for value in (total.lower, total.upper)]
        found[name if by_name else field_id] = (name, ColumnBounds(nulls=total.nulls, lower=texts[0], upper=texts[1]))
    return found
