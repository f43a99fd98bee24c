"""`DeleteFileIndex`: finds the delete files that apply to data files, for many data files in one call.

`live_deletes.py` reads and checks delete manifests; the layer icefloe.datafile applies the deletes to rows. Spec: Scan Planning, scope
rules of delete files; Deletion Vectors.

    kind of delete file                    applies to data files                  that are
    deletion vector                        of its path and partition              not newer
    position deletes of one data file      of its path and partition              not newer, and have no deletion vector
    position deletes                       of its partition                       not newer, and have no deletion vector
    equality deletes                       of its partition                       older
    equality deletes, unpartitioned spec   of any partition                       older

A partition is a spec with a tuple of values; `PartitionKeys` numbers the tuples (floats: note 3 of the spec). Newer and older compare data sequence numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import ManifestFormatError
from icefloe.scan.delete_overlap import Indices, PairTest, column_test, equality_test, path_range
from icefloe.scan.pruning import column_range
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, mask_array, numpy_of, scalar_of
from icefloe.spec.expressions.metrics_evaluator import ColumnRange, Mask
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.manifest_columns import ManifestColumns, Statistic, partition_column, statistic_column
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType, StringType, StructType
from icefloe.spec.values import bounds_to_array

Numbers = NDArray[np.int64]


class PartitionKeys:
    """The distinct partition tuples of the rows of a table, numbered from 0.

    Null equals null. Floats are compared by their bits, with one form of NaN, so that -0.0 is not 0.0.

    Args:
        entries: A `ManifestColumns` table of one partition spec.
        partition_type: The type of the spec's partition tuples.

    Attributes:
        numbers: The number of the tuple of each row.
    """

    def __init__(self, entries: Any, partition_type: StructType) -> None:
        self._columns = [partition_column(field.field_id) for field in partition_type.fields]
        self._values: list[Any] = []  # for each column its distinct values
        self._tuples: list[
            Numbers
        ] = []  # for each column, the distinct pairs (number of the tuple of the columns before it, number of its value), each pair as one number
        self.numbers: Numbers = np.zeros(entries.num_rows, dtype=np.int64)
        for name in self._columns:
            column = _canonical(entries[name])
            distinct = pc.unique(column)
            pairs = self.numbers * len(distinct) + _places(column, distinct)
            distinct_pairs, numbers = np.unique(pairs, return_inverse=True)
            self.numbers = numbers.reshape(-1).astype(np.int64)
            self._values.append(distinct)
            self._tuples.append(distinct_pairs)

    def find(self, entries: Any) -> Numbers:
        """Return the number of each entry's partition tuple; -1 if the rows of this object do not have the tuple. The entries must have the same spec."""
        numbers: Numbers = np.zeros(entries.num_rows, dtype=np.int64)
        for name, distinct, distinct_pairs in zip(self._columns, self._values, self._tuples, strict=True):
            places = _places(_canonical(entries[name]), distinct)
            pairs = numbers * len(distinct) + places
            at = np.searchsorted(distinct_pairs, pairs)
            last = len(distinct_pairs) - 1
            same = distinct_pairs[np.minimum(at, last)] == pairs if len(distinct_pairs) else np.zeros(len(pairs), dtype=bool)
            numbers = np.where(same & (numbers >= 0) & (places >= 0), at, -1)
        return numbers


def _canonical(column: Any) -> Any:
    """Return a column of partition values such that equal values are the same partition: floats become their bits, with one form of NaN."""
    plain = array_of_chunks(column)
    if not pa.types.is_floating(plain.type):
        return plain
    one_nan = pc.if_else(pc.is_nan(plain), scalar_of(float("nan"), plain.type), plain)
    return one_nan.view(pa.int32() if plain.type == pa.float32() else pa.int64())


def _places(column: Any, distinct: Any) -> Numbers:
    """Return the position of each value among the distinct values; -1 if it is not among them."""
    places: Numbers = numpy_of(fill_nulls(pc.index_in(column, value_set=distinct), -1)).astype(np.int64)
    return places


# The field id of the column with paths of data files in position delete files. Spec: Reserved Field IDs.
FILE_PATH_ID = DELETE_FILE_PATH.field_id
# The statistics with the bounds of this column. If both bounds are equal, the delete file contains positions of this one data file only.
PATH_BOUNDS: tuple[Statistic, ...] = (("lower_bound", FILE_PATH_ID), ("upper_bound", FILE_PATH_ID))
# The greatest number of pairs of a data file and a delete file that are tested in one call: their arrays need at most some hundred megabytes.
MAX_PAIRS = 2**21


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFilesOfSpec:
    """Live delete files that were written with one partition spec.

    Attributes:
        entries: A `pyarrow.Table` with the columns of `ManifestColumns` for deletes, the columns of `PATH_BOUNDS`, and the statistics columns of the columns
            that equality deletes compare.
        spec: The partition spec.
        partition_type: The type of the spec's partition tuples.
    """

    entries: Any
    spec: PartitionSpec
    partition_type: StructType

    def __len__(self) -> int:
        return int(self.entries.num_rows)


@dataclass(frozen=True, slots=True)
class Matches:
    """The delete files of n data files, in compressed rows.

    Attributes:
        offsets: n + 1 positions in `indices`, ascending.
        indices: Numbers of delete files. The delete files of data file i are `indices[offsets[i] : offsets[i + 1]]`, ascending.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]


class DeleteFileIndex:
    """An immutable index that finds the delete files of data files. It numbers the delete files in the order of `parts`. Threads may share it.

    Args:
        parts: The delete files, grouped by partition spec: one item for each spec.
        kinds: Types of the columns that equality deletes compare, by field id. The bounds of a column without a type here are not used.

    Raises:
        ManifestFormatError: Two deletion vectors refer to one data file, or a delete file has no sequence number.

    Spec: Scan Planning.
    """

    def __init__(self, parts: Sequence[DeleteFilesOfSpec], kinds: Mapping[int, PrimitiveType]) -> None:
        _refuse_second_vector(parts)
        self._parts = tuple(parts)
        self._compared = {
            field_id: kind
            for field_id, kind in kinds.items()
            # Bounds of floats are not used: they do not cover NaN, and the format forbids floats as equality columns anyway.
            if parts and not isinstance(kind, FloatType | DoubleType)
        }
        self._specs: dict[int, _SpecIndex] = {}
        contents = [numpy_of(part.entries["content"]) for part in parts]
        numbers = [_sequence_numbers(part.entries, "delete") for part in parts]
        starts = np.cumsum([0, *map(len, parts)])
        everywhere: list[Indices] = []
        for part, content, numbered, start in zip(parts, contents, numbers, starts, strict=False):
            is_equality = content == int(FileContent.EQUALITY_DELETES)
            is_global = is_equality & part.spec.is_unpartitioned()
            everywhere.append(start + np.flatnonzero(is_global))
            self._specs[part.spec.spec_id] = _SpecIndex(part, numbered, int(start), is_equality, is_global)
        every = np.concatenate(everywhere) if everywhere else np.zeros(0, dtype=np.int64)
        all_numbers = np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)
        self._global = _Runs(every, np.zeros(len(every), dtype=np.int64), all_numbers[every])
        self._count = int(starts[-1])
        # Pairs of a delete file and a column that it compares.
        self._comparing, self._columns = _equality_columns(parts) if self._compared else (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._delete_ranges = {field_id: _join_ranges(parts, field_id, kind) for field_id, kind in self._compared.items()}

    def __len__(self) -> int:
        return self._count

    def compared_columns(self, spec_id: int) -> frozenset[int]:
        """Return the field ids of the columns whose bounds can rule out equality deletes for data files of a partition spec."""
        if not self._compared:
            return frozenset()
        of_spec = self._specs.get(spec_id)
        applying = np.zeros(self._count, dtype=bool)
        applying[self._global.ids] = True
        if of_spec:
            applying[of_spec.equality.ids] = True
        # `np.unique` is avoided, because its first call imports numpy's masked arrays.
        return frozenset(self._columns[applying[self._comparing]].tolist()) & frozenset(self._compared)

    def match(self, entries: Any, spec_id: int) -> Matches | None:
        """Find the delete files that apply to data files of one partition spec.

        Args:
            entries: A table of `ManifestColumns` with one row for each data file. Its statistics columns for the `compared_columns` are used if it has them.
            spec_id: The partition spec of the data files.

        Returns:
            The delete files of each data file, or None if no delete file applies to any of them.

        Raises:
            ManifestFormatError: A data file to which a delete file may apply has no sequence number, so that the two cannot be compared.
        """
        of_spec = self._specs.get(spec_id)
        if not entries.num_rows or not (of_spec or len(self._global.ids)):
            return None
        numbers = _sequence_numbers(entries, "data")
        same_key = np.zeros(len(numbers), dtype=np.int64)
        equality = _Lazy(lambda: self._equality_test(entries))
        pairs = [self._global.pairs(same_key, numbers, later=True, test=equality)]
        if of_spec:
            pairs += of_spec.pairs(entries, numbers, equality)
        return _compress_pairs(pairs, len(numbers))

    def _equality_test(self, entries: Any) -> PairTest:
        data = {field_id: column_range(ManifestColumns(entries), field_id, kind) for field_id, kind in self._compared.items()}
        compared = {field_id: np.zeros(self._count, dtype=bool) for field_id in data}
        for field_id, mask in compared.items():
            mask[self._comparing[self._columns == field_id]] = True
        return equality_test(data, self._delete_ranges, compared)


class _SpecIndex:
    """An index of the delete files of one partition spec, except equality deletes that apply to every partition."""

    def __init__(self, part: DeleteFilesOfSpec, numbers: Indices, start: int, is_equality: Mask, is_global: Mask) -> None:
        entries = part.entries
        self._start = start
        self._entries = entries
        self._partitions = PartitionKeys(entries, part.partition_type)
        vectors = is_vector(entries)
        targets = _targets(entries, vectors)
        has_target = numpy_of(pc.is_valid(targets)) & ~is_equality
        self._paths = pc.unique(targets.filter(mask_array(has_target)))
        path_keys = numpy_of(fill_nulls(pc.index_in(targets, value_set=self._paths), -1)).astype(np.int64)

        def runs(mask: Mask, keys: Indices) -> _Runs:
            places = np.flatnonzero(mask)
            return _Runs(start + places, keys[places], numbers[places])

        self._vectors = runs(vectors, path_keys)
        self._of_files = runs(has_target & ~vectors, path_keys)
        self._of_partitions = runs(~is_equality & ~has_target, self._partitions.numbers)
        self.equality = runs(is_equality & ~is_global, self._partitions.numbers)

    def pairs(self, entries: Any, numbers: Indices, equality: "_Lazy") -> list[tuple[Indices, Indices]]:
        """Return the pairs of a data file and a delete file that applies to it.

        Returns:
            A list of pairs of equally long arrays: positions of data files in `entries`, and ids of delete files.
        """
        partitions = self._partitions.find(entries)
        pairs = [self.equality.pairs(partitions, numbers, later=True, test=equality)]
        plain = partitions
        if len(self._paths):
            paths = numpy_of(fill_nulls(pc.index_in(array_of_chunks(entries["file_path"]), value_set=self._paths), -1)).astype(np.int64)
            paths = np.where(partitions >= 0, paths, -1)
            vectors = self._same_partition(self._vectors.pairs(paths, numbers), partitions)
            has_vector = np.zeros(len(numbers), dtype=bool)
            has_vector[vectors[0]] = True
            plain = np.where(has_vector, -1, partitions)
            of_files = self._of_files.pairs(np.where(has_vector, -1, paths), numbers)
            pairs += [vectors, self._same_partition(of_files, partitions)]
        return [*pairs, self._of_partitions.pairs(plain, numbers, test=_Lazy(lambda: self._path_test(entries)))]

    def _same_partition(self, pairs: tuple[Indices, Indices], partitions: Indices) -> tuple[Indices, Indices]:
        files, deletes = pairs
        same = partitions[files] == self._partitions.numbers[deletes - self._start]
        return files[same], deletes[same]

    def _path_test(self, entries: Any) -> PairTest:
        """Return a test that compares the paths of data files with the bounds of the paths in position delete files."""
        path_bounds = column_range(ManifestColumns(self._entries), FILE_PATH_ID, StringType())
        test = column_test(path_range(entries["file_path"]), path_bounds)
        return lambda files, deletes: test(files, deletes - self._start)


class _Lazy:
    """A test of pairs of files that is built when it is first called, since there are often no pairs to test."""

    def __init__(self, build: Callable[[], PairTest]) -> None:
        self._build = build
        self._test: PairTest | None = None

    def __call__(self, files: Indices, deletes: Indices) -> Mask:
        if self._test is None:
            self._test = self._build()
        return self._test(files, deletes)


class _Runs:
    """Delete files sorted by key and then by sequence number, so that the delete files of a key that apply to a data file are the last ones of that key."""

    def __init__(self, ids: Indices, keys: Indices, numbers: Indices) -> None:
        self._numbers, ranks = np.unique(numbers, return_inverse=True)
        order = np.lexsort((ranks.reshape(-1), keys))
        self.ids = ids[order]
        self._width = len(self._numbers) + 1
        self._places = keys[order] * self._width + ranks.reshape(-1)[order]

    def pairs(self, keys: Indices, numbers: Indices, *, later: bool = False, test: PairTest | None = None) -> tuple[Indices, Indices]:
        """Match data files to delete files of the same key by sequence number.

        Args:
            keys: The key of each data file; -1 matches no delete file.
            numbers: The sequence number of each data file.
            later: Whether the sequence number of the delete file must be larger than that of the data file; by default it may be equal.
            test: A further test of each pair; None accepts all pairs.

        Returns:
            The matching pairs as two arrays: positions of data files in `keys`, and ids of delete files.
        """
        ranks = np.searchsorted(self._numbers, numbers, side="right" if later else "left")
        first = np.searchsorted(self._places, keys * self._width + ranks)
        counts = np.where(keys >= 0, np.searchsorted(self._places, (keys + 1) * self._width) - first, 0)
        blocks = [self._block(first, counts, start, end, test) for start, end in _ranges_of_files(counts)]
        if not blocks:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return np.concatenate([files for files, _ in blocks]), np.concatenate([deletes for _, deletes in blocks])

    def _block(self, first: Indices, counts: Indices, start: int, end: int, test: PairTest | None) -> tuple[Indices, Indices]:
        block_counts = counts[start:end]
        files = np.repeat(np.arange(start, end), block_counts)
        within = np.arange(len(files)) - np.repeat(np.cumsum(block_counts) - block_counts, block_counts)
        deletes = self.ids[first[files] + within]
        if test is None or not len(files):
            return files, deletes
        mask = test(files, deletes)
        return files[mask], deletes[mask]


def _ranges_of_files(counts: Indices) -> Iterator[tuple[int, int]]:
    """Yield ranges of data files, as start and stop, that have at most `MAX_PAIRS` delete files in total. A data file with more is a range of its own."""
    totals = np.cumsum(counts)
    if not len(counts) or not totals[-1]:
        return
    start = 0
    while start < len(counts):
        before = totals[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(totals, before + MAX_PAIRS, side="right")))
        yield start, end
        start = end


def _compress_pairs(pairs: Sequence[tuple[Indices, Indices]], count: int) -> Matches | None:
    files = np.concatenate([places for places, _ in pairs])
    if not len(files):
        return None
    deletes = np.concatenate([ids for _, ids in pairs])
    order = np.lexsort((deletes, files))
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(files, minlength=count), out=offsets[1:])
    return Matches(offsets, deletes[order])


def _equality_columns(parts: Sequence[DeleteFilesOfSpec]) -> tuple[Indices, Indices]:
    """Return each pair of an equality delete file and a column that it compares, as two arrays: numbers of delete files, and field ids."""
    lists = pa.concat_arrays([array_of_chunks(part.entries["equality_ids"]) for part in parts])
    parents = numpy_of(pc.list_parent_indices(lists)).astype(np.int64)
    return parents, numpy_of(pc.list_flatten(lists)).astype(np.int64)


def _join_ranges(parts: Sequence[DeleteFilesOfSpec], field_id: int, kind: PrimitiveType) -> ColumnRange:
    ranges = [column_range(ManifestColumns(part.entries), field_id, kind) for part in parts]
    return ColumnRange(
        lower=pa.concat_arrays([bounds.lower for bounds in ranges]),
        upper=pa.concat_arrays([bounds.upper for bounds in ranges]),
        may_have_null=np.concatenate([bounds.may_have_null for bounds in ranges]),
        may_have_nan=np.concatenate([bounds.may_have_nan for bounds in ranges]),
        may_have_value=np.concatenate([bounds.may_have_value for bounds in ranges]),
    )


def path_of_bounds(entries: Any) -> Any:
    """Return for each delete file the only path in it, as bytes, if its lower and upper path bounds are equal; else null.

    The result is also null for a delete file with a referenced data file.
    """
    lower, upper = (entries[statistic_column(*bound)] for bound in PATH_BOUNDS)
    is_one = fill_nulls(pc.and_(pc.equal(lower, upper), pc.is_null(entries["referenced_data_file"])), False)
    return pc.if_else(is_one, lower, scalar_of(None, lower.type))


def is_vector(entries: Any) -> Mask:
    """Return a mask of the delete files that are deletion vectors."""
    is_puffin = pc.equal(entries["file_format"], scalar_of(FileFormat.PUFFIN.value, pa.string()))
    is_position = pc.equal(entries["content"], scalar_of(int(FileContent.POSITION_DELETES), pa.int32()))
    return numpy_of(pc.and_(is_puffin, is_position))


def _targets(entries: Any, vectors: Mask) -> Any:
    """Return the path of the only data file that each delete file applies to; null if it may apply to several.

    It is the referenced data file; for position deletes without one, it is the path that both path bounds have.
    """
    named = array_of_chunks(entries["referenced_data_file"])
    bounds = [entries[name] for name in (statistic_column(*bound) for bound in PATH_BOUNDS) if name in entries.column_names]
    if len(bounds) < len(PATH_BOUNDS):
        return named
    lower, upper = (bounds_to_array(StringType(), bound) for bound in bounds)
    inferred = pc.if_else(fill_nulls(pc.equal(lower, upper), False), lower, scalar_of(None, pa.string()))
    return pc.if_else(mask_array(vectors), named, pc.coalesce(named, inferred))


def _sequence_numbers(entries: Any, content: str) -> Indices:
    column = array_of_chunks(entries["sequence_number"])
    if column.null_count:
        path = entries["file_path"].filter(pc.is_null(column))[0].as_py()
        raise ManifestFormatError(
            f"the manifest entry of {content} file {path} has no sequence number, so that the deletes that apply cannot be determined",
            path=path,
            next_step="only ADDED entries inherit the sequence number of their manifest; repair the manifest with the engine that wrote it",
        )
    numbers: Indices = numpy_of(column)
    return numbers


def _refuse_second_vector(parts: Sequence[DeleteFilesOfSpec]) -> None:
    """Refuse a second deletion vector of one data file, even if the two have different partition specs. Spec: Deletion Vectors."""
    vectors = [part.entries.filter(mask_array(is_vector(part.entries))) for part in parts]
    targets = [target for vector in vectors for target in vector["referenced_data_file"].chunks]
    seen = pa.chunked_array(targets, pa.string()).dictionary_encode().combine_chunks() if targets else None
    if seen is None or len(seen.dictionary) == len(seen):
        return
    target = next(path for path, count in zip(seen.dictionary, np.bincount(numpy_of(seen.indices)), strict=True) if count > 1)
    paths = [
        path for vector in vectors for path in vector.filter(pc.equal(vector["referenced_data_file"], target))["file_path"].to_pylist()
    ]
    raise ManifestFormatError(
        f"two deletion vectors refer to the data file {target}, in {paths[0]} and {paths[1]}; a snapshot may have one",
        path=paths[1],
        next_step="the commit that added the second had to merge the first into it; roll the table back to the snapshot before",
    )
