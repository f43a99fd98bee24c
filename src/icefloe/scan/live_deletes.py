"""The live delete files of a snapshot, read from its delete manifests and checked, and the pruning decision for each.

`delete_file_index.py` matches them to data files. Spec: Scan Planning; Delete Formats; Data File Fields.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import ManifestFormatError, Problem
from icefloe.scan.decisions import DecidedFiles, Explained, PlacedFiles, Reason, explained_columns
from icefloe.scan.delete_file_index import PATH_BOUNDS, DeleteFileIndex, DeleteFilesOfSpec, is_vector, path_of_bounds
from icefloe.scan.file_objects import file_objects, partition_tuples
from icefloe.scan.pruning import FileMetricsEvaluator, ScanContext, explain, required_statistics
from icefloe.spec.arrow_values import fill_nulls, mask_array, numbers_array, numpy_of, scalar_of
from icefloe.spec.avro.avro_objects import Values
from icefloe.spec.expressions.bind import predicates, simplify
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.manifest_columns import ManifestColumns, Statistic, every_statistic
from icefloe.spec.manifest.manifest_reader import ManifestColumnsCache, read_live_entries
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.ports import Parallel, Read
from icefloe.spec.types import PrimitiveType

# Fields that the specification requires of every deletion vector.
_OF_VECTORS = ("referenced_data_file", "content_offset", "content_size_in_bytes")
# An added column: the position of the delete file's manifest among those that were read.
_PLACE = "place"
# The field id of the column with data file paths in position delete files.
_PATH = PATH_BOUNDS[0][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDeletes:
    """The live delete files that may apply to data files of a scan.

    Attributes:
        parts: The delete files, grouped by partition spec: one item for each spec.
        index: The index of all of them.
        skipped: The decisions about the delete files that were left out; empty unless the scan explains.
        total: Number of live delete files in the manifests, including those that were left out.
    """

    parts: tuple[DeleteFilesOfSpec, ...]
    index: DeleteFileIndex
    skipped: tuple[PlacedFiles, ...]
    total: int

    def files(self, positions: NDArray[np.int64]) -> tuple[DataFile, ...]:
        """Return the delete files that have these numbers in `index`, as objects. The numbers must be ascending."""
        files: list[DataFile] = []
        for part, rows in self._rows(positions):
            entries = part.entries.take(rows).drop_columns([_PLACE])
            files += file_objects(entries, part.spec.spec_id, partition_tuples(entries, part.partition_type), known=_path_bounds(entries))
        return tuple(files)

    def _rows(self, rows: NDArray[np.int64]) -> Iterator[tuple[DeleteFilesOfSpec, Any]]:
        start = 0
        for part in self.parts:
            first, last = np.searchsorted(rows, [start, start + len(part)])
            yield part, numbers_array(rows[first:last] - start, pa.int64())
            start += len(part)


def _path_bounds(entries: Any) -> Mapping[str, Values]:
    """Return `lower_bounds` and `upper_bounds` of each delete file: its path bounds if only these show that it has a single data file, else None."""
    bounds: Values = [None if path is None else {_PATH: path} for path in path_of_bounds(entries).to_pylist()]
    return {"lower_bounds": bounds, "upper_bounds": bounds}


def read_deletes(
    context: ScanContext, manifests: Sequence[ManifestFile], read: Read, parallel: Parallel, cache: ManifestColumnsCache | None = None
) -> LiveDeletes:
    """Read the live delete files of delete manifests and index them.

    Equality deletes that cannot delete a row that matches the filter are left out. With `every_delete` they are kept, for callers that also read rows that do
    not match. Position deletes have no column values, so the filter cannot rule them out.

    Args:
        context: The scan.
        manifests: The delete manifests to read.
        read: Returns the content of a file.
        parallel: Reads several manifests at once.
        cache: A cache of decoded manifests; None reads all of them.

    Raises:
        AvroFormatError: A manifest is damaged.
        ManifestFormatError: An entry lacks a field that its kind requires, or two deletion vectors refer to one data file.

    Spec: Scan Planning.
    """
    schemas = [context.schema, context.metadata.schema(), *reversed(context.metadata.schemas)]
    # The columns that equality deletes compare, in the manifests read so far. Most manifests compare no further columns, so they are decoded only once.
    compared_so_far: frozenset[int] = frozenset()

    def live(manifest: ManifestFile) -> Any:
        nonlocal compared_so_far
        content, decoded = lru_cache(maxsize=1)(read), compared_so_far
        kind = context.partition_types[manifest.partition_spec_id]
        statistics = {*PATH_BOUNDS, *every_statistic(decoded)}
        entries = read_live_entries([manifest], content, kind, statistics=statistics, cache=cache, tolerance=context.tolerance).entries
        _check(entries, manifest)
        compared = _compared_field_ids(entries)
        if (
            not compared <= decoded
        ):  # only the decoded entries show which columns they compare; for further columns the manifest is decoded again
            compared_so_far = decoded | compared
            statistics = {*PATH_BOUNDS, *every_statistic(compared_so_far)}
            entries = read_live_entries([manifest], content, kind, statistics=statistics, cache=cache, tolerance=context.tolerance).entries
        return entries

    tables: dict[int, list[Any]] = {}
    for place, (manifest, entries) in enumerate(zip(manifests, parallel(live, manifests), strict=True)):
        placed = entries.append_column(_PLACE, numbers_array(np.full(entries.num_rows, place), pa.int64()))
        tables.setdefault(manifest.partition_spec_id, []).append(placed)
    parts, total = [], 0
    skipped: list[PlacedFiles] = []
    for spec_id, tables_of_spec in tables.items():
        entries = pa.concat_tables(tables_of_spec, promote_options="default").combine_chunks()
        total += entries.num_rows
        masks = {} if context.every_delete or context.is_unfiltered else equality_tests(context, entries)
        keep = np.ones(entries.num_rows, dtype=bool)
        for rows, test in masks.values():
            keep[rows] = test.may_match
            if context.explain:
                left_out = entries.take(numbers_array(rows[~test.may_match], pa.int64()))
                tested = required_statistics(test.bound, UNPARTITIONED_SPEC, context.schema, strict=True)
                explained = partial(_left_out, context, test.bound)
                skipped.append(_decide(context, left_out, spec_id, explained, is_kept=False, statistics=tested))
        part = DeleteFilesOfSpec(
            entries=entries if keep.all() else entries.filter(mask_array(keep)).combine_chunks(),
            spec=context.metadata.spec_by_id(spec_id),
            partition_type=context.partition_types[spec_id],
        )
        parts.append(part)
    kinds = _kinds(set().union(*(_compared_field_ids(part.entries) for part in parts)), schemas)
    return LiveDeletes(parts=tuple(parts), index=DeleteFileIndex(parts, kinds), skipped=tuple(skipped), total=total)


def delete_decisions(context: ScanContext, deletes: LiveDeletes, counts: NDArray[np.int64]) -> Iterator[PlacedFiles]:
    """Yield the decisions about all delete files.

    Args:
        context: The scan.
        deletes: The delete files.
        counts: The number of data files that each delete file of the index applies to.
    """
    yield from deletes.skipped
    start = 0
    for part in deletes.parts:
        applied = counts[start : start + len(part)]
        yield _decide(context, part.entries, part.spec.spec_id, partial(_explain_counts, applied), is_kept=applied > 0)
        start += len(part)


def equality_tests(context: ScanContext, entries: Any) -> dict[tuple[int, ...], tuple[NDArray[np.int64], FileMetricsEvaluator]]:
    """Group equality deletes by the columns that they compare. Return for each group its row numbers, and a test of the filter on these columns.

    Predicates on other columns are assumed to be true, because an equality delete contains no values of them.
    """
    by_columns: dict[tuple[int, ...], list[int]] = {}
    for row, ids in enumerate(entries["equality_ids"].to_pylist()):
        if ids:
            by_columns.setdefault(tuple(sorted(ids)), []).append(row)
    tests = {}
    for ids, rows in by_columns.items():
        others = {leaf: True for leaf in predicates(context.bound) if leaf.field.field_id not in ids}
        deletes = entries.take(numbers_array(np.array(rows), pa.int64())).combine_chunks()
        test = FileMetricsEvaluator(ManifestColumns(deletes), simplify(context.bound, others.get), UNPARTITIONED_SPEC, context.schema)
        tests[ids] = (np.array(rows), test)
    return tests


def _decide(
    context: ScanContext, entries: Any, spec_id: int, explained: Explained, *, is_kept: Mask | bool, statistics: Iterable[Statistic] = ()
) -> PlacedFiles:
    decided = DecidedFiles(
        level="delete file",
        files=explained_columns(entries, context.partition_types[spec_id], statistics),
        kept=np.full(entries.num_rows, is_kept),
        explained=explained,
        partitions=partial(context.partition_texts, spec_id),
    )
    return PlacedFiles(decided, numpy_of(entries[_PLACE]))


def _left_out(context: ScanContext, bound: BooleanExpression, files: Any, _rows: NDArray[np.int64]) -> list[tuple[Reason, str]]:
    """Return for each file of equality deletes why it cannot delete a row that matches the filter. `bound` has only the predicates on the compared columns."""
    return explain(ManifestColumns(files), bound, UNPARTITIONED_SPEC, context.schema)


def _explain_counts(counts: NDArray[np.int64], _files: Any, rows: NDArray[np.int64]) -> Iterator[tuple[Reason, str]]:
    for count in counts[rows].tolist():
        yield (Reason.APPLIES, f"applies to {count} data file{'s' if count > 1 else ''}") if count else (Reason.NO_DATA_FILE, "")


def _kinds(field_ids: Iterable[int], schemas: Sequence[Any]) -> dict[int, PrimitiveType]:
    """Return the type of each column, from the first schema that has it."""
    kinds: dict[int, PrimitiveType] = {}
    for field_id in set(field_ids):
        kind = next((schema.find_type(field_id) for schema in schemas if field_id in schema), None)
        if isinstance(kind, PrimitiveType):
            kinds[field_id] = kind
    return kinds


def _compared_field_ids(entries: Any) -> set[int]:
    """Return the field ids of all columns that the equality deletes compare."""
    return set(pc.unique(pc.list_flatten(entries["equality_ids"])).to_pylist())


def _check(entries: Any, manifest: ManifestFile) -> None:
    vectors = is_vector(entries)
    for name in _OF_VECTORS:
        _refuse(entries, manifest, vectors & ~numpy_of(pc.is_valid(entries[name])), f"a deletion vector has no {name}")
    equality = numpy_of(entries["content"]) == int(FileContent.EQUALITY_DELETES)
    named = numpy_of(pc.greater(fill_nulls(pc.list_value_length(entries["equality_ids"]), 0), scalar_of(0, pa.int32())))
    _refuse(entries, manifest, equality & ~named, "an equality delete file has no equality_ids")


def _refuse(entries: Any, manifest: ManifestFile, broken: Mask, problem: str) -> None:
    if broken.any():
        row = int(np.argmax(broken))
        raise ManifestFormatError(
            f"the delete manifest {manifest.manifest_path} breaks a rule of the format",
            path=manifest.manifest_path,
            problems=(Problem(where=str(entries["file_path"][row].as_py()), what=problem),),
        )
