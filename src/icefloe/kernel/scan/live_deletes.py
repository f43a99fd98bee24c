"""The live delete files of a snapshot, read from its delete manifests and checked; and what became of each.

Which data files each applies to is `delete_file_index.py`. Spec: Scan Planning; Delete Formats; Data File Fields.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import ManifestFormatError, Problem
from icefloe.kernel.arrow_values import filled, mask_array, numbers_array, numpy_of, scalar_of
from icefloe.kernel.avro.avro_objects import Values
from icefloe.kernel.expressions.bind import predicates
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.expressions.residual import simplify
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.manifest_columns import ManifestColumns, every_statistic, statistic_column
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.kernel.scan.decision import Decision, Reason
from icefloe.kernel.scan.delete_file_index import PATH_BOUNDS, DeleteFileIndex, DeleteFilesOfSpec, is_vector
from icefloe.kernel.scan.file_objects import file_objects, partition_tuples
from icefloe.kernel.scan.prune_files import FileMetricsEvaluator
from icefloe.kernel.scan.scan_context import Parallel, Read, ScanContext
from icefloe.kernel.types import PrimitiveType

# What each row of a delete manifest must say, where it is of that kind.
_OF_VECTORS = ("referenced_data_file", "content_offset", "content_size_in_bytes")
# The place of the manifest a delete file is from, beside its columns.
_PLACE = "place"
# The field of the paths in position delete files.
_PATH = PATH_BOUNDS[0][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDeletes:
    """Delete files that a scan may need. Decisions of the others are by the place of their manifest among those that were read."""

    parts: tuple[DeleteFilesOfSpec, ...]
    index: DeleteFileIndex
    skipped: tuple[tuple[int, Decision], ...]
    total: int

    def files(self, chosen: NDArray[np.int64]) -> tuple[DataFile, ...]:
        """The delete files of some numbers of the index, ascending, as objects."""
        found: list[DataFile] = []
        for part, rows in self._rows(chosen):
            entries = part.entries.take(rows).drop_columns([_PLACE])
            found += file_objects(entries, part.spec.spec_id, partition_tuples(entries, part.partition_type), known=_path_bounds(entries))
        return tuple(found)

    def _rows(self, chosen: NDArray[np.int64]) -> Iterator[tuple[DeleteFilesOfSpec, Any]]:
        start = 0
        for part in self.parts:
            first, last = np.searchsorted(chosen, [start, start + len(part)])
            yield part, numbers_array(chosen[first:last] - start, pa.int64())
            start += len(part)


def _path_bounds(entries: Any) -> Mapping[str, Values]:
    """The bounds of the paths in delete files, where they show that a file is about one data file alone."""
    lower, upper = (entries[statistic_column(*bound)] for bound in PATH_BOUNDS)
    is_one = filled(pc.and_(pc.equal(lower, upper), pc.is_null(entries["referenced_data_file"])), False)
    bounds: Values = [
        None if path is None else {_PATH: path} for path in pc.if_else(is_one, lower, scalar_of(None, lower.type)).to_pylist()
    ]
    return {"lower_bounds": bounds, "upper_bounds": bounds}


def read_deletes(question: ScanContext, manifests: Sequence[ManifestFile], read: Read, parallel: Parallel) -> LiveDeletes:
    """The live delete files of delete manifests, indexed.

    Of equality deletes those are left out that delete no row the filter keeps, unless the question is about every delete: then they must be there for the
    rows that the filter does not keep. Position deletes say nothing of the values of rows.

    Raises:
        AvroFormatError: a manifest is damaged.
        ManifestFormatError: an entry lacks what its kind needs, or two deletion vectors are about one data file.
    Spec: Scan Planning.
    """
    schemas = [question.schema, question.metadata.schema(), *reversed(question.metadata.schemas)]
    # The columns that equality deletes were found to compare so far: most manifests have no others, and are decoded once.
    known: frozenset[int] = frozenset()

    def live(manifest: ManifestFile) -> Any:
        nonlocal known
        content, asked = read(manifest.manifest_path), known
        entries = question.live_entries([manifest], lambda _: content, {*PATH_BOUNDS, *every_statistic(asked)}).entries
        _check(entries, manifest)
        compared = _compared(entries)
        if not compared <= asked:  # whose bounds are wanted is known only now
            known = asked | compared
            entries = question.live_entries([manifest], lambda _: content, {*PATH_BOUNDS, *every_statistic(known)}).entries
        return entries

    tables: dict[int, list[Any]] = {}
    for place, (manifest, entries) in enumerate(zip(manifests, parallel(live, manifests), strict=True)):
        placed = entries.append_column(_PLACE, numbers_array(np.full(entries.num_rows, place), pa.int64()))
        tables.setdefault(manifest.partition_spec_id, []).append(placed)
    parts, total = [], 0
    skipped: list[tuple[int, Decision]] = []
    for spec_id, found in tables.items():
        entries = pa.concat_tables(found, promote_options="default").combine_chunks()
        total += entries.num_rows
        masks = {} if question.every_delete or question.is_unfiltered else equality_tests(question, entries)
        keep = np.ones(entries.num_rows, dtype=bool)
        for rows, test in masks.values():
            keep[rows] = test.may_match
            if question.explain:
                skipped += _skipped(question, entries.take(numbers_array(np.array(rows), pa.int64())), test, spec_id)
        part = DeleteFilesOfSpec(
            entries=entries if keep.all() else entries.filter(mask_array(keep)).combine_chunks(),
            spec=question.metadata.spec_by_id(spec_id),
            partition_type=question.partition_types[spec_id],
        )
        parts.append(part)
    kinds = _kinds(set().union(*(_compared(part.entries) for part in parts)), schemas)
    return LiveDeletes(parts=tuple(parts), index=DeleteFileIndex(parts, kinds), skipped=tuple(skipped), total=total)


def delete_decisions(question: ScanContext, deletes: LiveDeletes, counts: NDArray[np.int64]) -> Mapping[int, list[Decision]]:
    """What became of every delete file, by the place of its manifest; `counts` has the number of data files that each of the index applies to."""
    found: dict[int, list[Decision]] = {}
    for place, decision in deletes.skipped:
        found.setdefault(place, []).append(decision)
    start = 0
    for part in deletes.parts:
        rows = zip(_described(question, part.entries, part.spec.spec_id), counts[start : start + len(part)].tolist(), strict=True)
        for (place, facts), count in rows:
            reason = Reason.APPLIES if count else Reason.NO_DATA_FILE
            explanation = f"applies to {count} data file{'s' if count > 1 else ''}" if count else ""
            found.setdefault(place, []).append(Decision(kept=count > 0, reason=reason, explanation=explanation, **facts))
        start += len(part)
    return found


def equality_tests(question: ScanContext, entries: Any) -> dict[tuple[int, ...], tuple[NDArray[np.int64], FileMetricsEvaluator]]:
    """Equality deletes by the columns they compare: their rows, and the test of the filter on those columns alone.

    A row that the filter keeps is equal to a deleted one in those columns, and only in those.
    """
    by_columns: dict[tuple[int, ...], list[int]] = {}
    for row, ids in enumerate(entries["equality_ids"].to_pylist()):
        if ids:
            by_columns.setdefault(tuple(sorted(ids)), []).append(row)
    found = {}
    for ids, rows in by_columns.items():
        others = {leaf: True for leaf in predicates(question.bound) if leaf.field.field_id not in ids}
        chosen = entries.take(numbers_array(np.array(rows), pa.int64())).combine_chunks()
        test = FileMetricsEvaluator(ManifestColumns(chosen), simplify(question.bound, others.get), UNPARTITIONED_SPEC, question.schema)
        found[ids] = (np.array(rows), test)
    return found


def _skipped(question: ScanContext, entries: Any, test: FileMetricsEvaluator, spec_id: int) -> Iterator[tuple[int, Decision]]:
    described = _described(question, entries, spec_id)
    for row, (place, facts) in enumerate(described):
        if not test.may_match[row]:
            reason, explanation = test.explain(row)
            yield place, Decision(kept=False, reason=reason, explanation=explanation, **facts)


def _described(question: ScanContext, entries: Any, spec_id: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each delete file's place, and what a decision tells of any."""
    rows = zip(
        entries[_PLACE].to_pylist(),
        entries["file_path"].to_pylist(),
        entries["content_size_in_bytes"].to_pylist(),
        entries["file_size_in_bytes"].to_pylist(),
        entries["record_count"].to_pylist(),
        partition_tuples(entries, question.partition_types[spec_id]),
        strict=True,
    )
    for place, path, size, file_size, records, partition in rows:
        facts = {
            "level": "delete file",
            "path": path,
            "bytes": file_size if size is None else size,
            "records": records,
            "partition": question.partition_text(spec_id, partition),
        }
        yield place, facts


def _kinds(field_ids: Iterable[int], schemas: Sequence[Any]) -> dict[int, PrimitiveType]:
    """The type of each column, in the first schema that has it."""
    found: dict[int, PrimitiveType] = {}
    for field_id in set(field_ids):
        kind = next((schema.find_type(field_id) for schema in schemas if field_id in schema), None)
        if isinstance(kind, PrimitiveType):
            found[field_id] = kind
    return found


def _compared(entries: Any) -> set[int]:
    """The columns that any equality delete compares."""
    return set(pc.unique(pc.list_flatten(entries["equality_ids"])).to_pylist())


def _check(entries: Any, manifest: ManifestFile) -> None:
    vectors = is_vector(entries)
    for name in _OF_VECTORS:
        _refuse(entries, manifest, vectors & ~numpy_of(pc.is_valid(entries[name])), f"a deletion vector has no {name}")
    equality = numpy_of(entries["content"]) == int(FileContent.EQUALITY_DELETES)
    named = numpy_of(pc.greater(filled(pc.list_value_length(entries["equality_ids"]), 0), scalar_of(0, pa.int32())))
    _refuse(entries, manifest, equality & ~named, "an equality delete file has no equality_ids")


def _refuse(entries: Any, manifest: ManifestFile, wrong: Mask, what: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ManifestFormatError(
            f"the delete manifest {manifest.manifest_path} breaks a rule of the format",
            path=manifest.manifest_path,
            problems=(Problem(where=str(entries["file_path"][row].as_py()), what=what),),
        )
