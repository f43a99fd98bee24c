"""How the files of a plan are read: shares that Spark's own Parquet scan reads alike, and those that Spark's tasks read through Python, with the reason.

Files with deletes are shares of their own, so that all others cost nothing more. Reading is `native_scan.py` and `python_scan.py`.
Spec: Scan Planning; Column Projection; Row-level Deletes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.projection import lacks_required
from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.manifest.manifest_columns import ENTRY_FIELDS
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.puffin.deletion_vector import DeletionVector
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.schema.metadata_columns import DELETED
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    children,
)
from icefloe.spark.scan.deleted_rows import MOST_POSITIONS, fits, load_positions
from icefloe.spark.scan.equality_deletes import EqualityDeletes, ends_of, equality_deletes, key_ids_of
from icefloe.spark.scan.file_field_ids import FieldIds
from icefloe.spark.scan.metadata_column_values import positions_taken
from icefloe.spark.types.spark_types import NOT_NATIVE
from icefloe.table.engine import ScanRequest

# The types by whose values rows and deleted keys can be joined as the format compares them: Spark takes -0.0 for 0.0, and cannot read a uuid itself.
_JOINED = frozenset(
    [BooleanType, IntegerType, LongType, DecimalType, DateType, TimestampType, TimestamptzType, StringType, FixedType, BinaryType]
)
_Mask = NDArray[np.bool_]
# Bytes of the delete files whose positions the driver gathers for Spark's own scan. Above that, Spark's tasks read their own, through Python.
MOST_DELETE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Files that are read alike.

    `reason` says why Spark's own scan cannot read them; it is empty where it does. Then `constant_ids` are the columns that are the same in every row of a
    file, by its partition, and `missing` those that no file has and that have a default; `vectors` has the positions deleted in each file, in the order of
    the parts' files, and `equality` the equality deletes that apply; None where no file has any.
    """

    parts: tuple[PlannedFiles, ...]
    reason: str = ""
    constant_ids: frozenset[int] = frozenset()
    missing: frozenset[int] = frozenset()
    vectors: tuple[DeletionVector | None, ...] | None = None
    equality: EqualityDeletes | None = None

    @property
    def files(self) -> Any:
        """The files as one `pyarrow.Table`, as `ScanPlan.files`."""
        tables = [part.entries for part in self.parts]
        if not tables:  # a plan without files still has the columns
            return ENTRY_FIELDS.append(pa.field("spec_id", pa.int32())).empty_table()
        return pa.concat_tables(tables, promote_options="permissive")


# Tells the field ids in the files of tasks, in their order.
AskIds = Callable[[Sequence[FileScanTask]], list[FieldIds]]


def file_groups(request: ScanRequest, needed: Schema, deletes: DeleteLoader, ask_ids: AskIds) -> Iterator[FileGroup]:
    """The plan's files, each in one share.

    `needed` is what must be read of the table's schema; `deletes` reads what is deleted by position; `ask_ids` is asked where it matters which columns a file
    has.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: as `DeleteLoader.positions_of`; `DataFileFormatError` also for a file that lacks a required
            column without a default.
    """
    against_positions = positions_taken(request.schemas) or _too_many_positions(request.plan.delete_files)
    keys = _Keys.of(request, deletes)
    read = (*needed.fields, *(field for fields in keys.fields.values() for field in fields))
    columns = _Columns(read, needed, has_mapping=request.name_mapping is not None, may_be_missing=request.may_be_missing)
    alike: dict[_Likeness, list[PlannedFiles]] = {}
    for part in request.plan.parts:
        constant_ids = _constant_ids(request.specs[part.spec_id], read)
        for likeness, rows in _split(part, constant_ids, keys, against_positions):
            files = part if len(rows) == len(part) else part.take(rows)
            for whole, some in _by_columns(files, likeness, columns, ask_ids):
                alike.setdefault(whole, []).append(some)
    for likeness in [known for known in alike if known.has_positions]:
        for found in _with_vectors(_share(likeness, alike.pop(likeness)), deletes):
            if found.reason or found.vectors is not None:
                yield _with_keys(found, likeness, keys)
            else:
                alike.setdefault(replace(likeness, has_positions=False), []).extend(found.parts)
    for likeness, parts in alike.items():
        yield _with_keys(_share(likeness, parts), likeness, keys)


@dataclass(frozen=True, slots=True)
class _Likeness:
    """What files must have in common to be read alike."""

    reason: str = ""
    constant_ids: frozenset[int] = frozenset()
    has_positions: bool = False
    has_keys: bool = False
    missing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Keys:
    """The key columns of a plan's equality deletes: the columns by their ids, and why Spark's own scan cannot leave out rows by them, if so."""

    fields: Mapping[frozenset[int], tuple[NestedField, ...]]
    reasons: Mapping[frozenset[int], str]

    @classmethod
    def of(cls, request: ScanRequest, deletes: DeleteLoader) -> "_Keys":
        files = {key_ids_of(file): file for file in request.plan.delete_files if file.content is FileContent.EQUALITY_DELETES}
        fields = {ids: deletes.key_fields(request.schema, tuple(sorted(ids)), file) for ids, file in files.items()}
        marks = DELETED.field_id in request.projection
        return cls(fields, {ids: _why_no_join(found, request.schema, marks_deleted=marks) for ids, found in fields.items()})


def _why_no_join(fields: tuple[NestedField, ...], schema: Schema, *, marks_deleted: bool) -> str:
    if marks_deleted:
        return "rows deleted by equality are asked for, to be marked"
    for field in fields:
        for end in ends_of(field):
            if type(end.field_type) not in _JOINED:
                return f"rows are deleted by the column {end.name} ({end.field_type})"
            if end.field_id not in schema and end is not field:
                return f"rows are deleted by the column {end.name}, which was dropped from inside {field.name}"
    return ""


def _too_many_positions(files: Iterable[DataFile]) -> str:
    total = sum(_bytes(file) for file in files if file.content is FileContent.POSITION_DELETES)
    return f"the files of deleted positions have over {MOST_DELETE_BYTES:,} bytes" if total > MOST_DELETE_BYTES else ""


def _split(
    part: PlannedFiles, constant_ids: frozenset[int], keys: _Keys, against_positions: str
) -> Iterator[tuple[_Likeness, NDArray[np.int64]]]:
    """The rows of a part by how they are to be read; `against_positions` says why no file with deleted positions can be read by Spark's own scan, if so."""
    has_positions, has_keys, reasons = _with_deletes(part, keys)
    found = [
        (~numpy_of(pc.equal(pc.utf8_upper(part.entries["file_format"]), FileFormat.PARQUET.value)), "a file is no Parquet file"),
        *reasons,
        (has_positions & bool(against_positions), against_positions),
    ]
    left = np.ones(len(part), np.bool_)
    for test, reason in found:
        rows = np.flatnonzero(left & test)
        left[rows] = False
        if len(rows):
            yield _Likeness(reason), rows
    for positions, by_key in product((False, True), repeat=2):
        rows = np.flatnonzero(left & (has_positions == positions) & (has_keys == by_key))
        if len(rows):
            yield _Likeness("", constant_ids, positions, by_key), rows


def _share(likeness: _Likeness, parts: Iterable[PlannedFiles]) -> FileGroup:
    return FileGroup(parts=tuple(parts), reason=likeness.reason, constant_ids=likeness.constant_ids, missing=likeness.missing)


def _with_keys(share: FileGroup, likeness: _Likeness, keys: _Keys) -> FileGroup:
    by_key = likeness.has_keys and not share.reason
    return replace(share, equality=equality_deletes(share.parts, keys.fields)) if by_key else share


class _Columns:
    """What it means for a read that a file lacks columns. `fields` are those that are read, with the keys of equality deletes; `needed` those of the table."""

    def __init__(self, fields: Iterable[NestedField], needed: Schema, *, has_mapping: bool, may_be_missing: frozenset[int]) -> None:
        tops = tuple({field.field_id: field for field in fields}.values())
        self._tops = {field.field_id: field for field in tops if field.initial_default is not None}
        # Fields inside structs, with the column they are in.
        self._inner = [(top, field) for top in tops for _, field in walk((top,)) if field is not top and field.initial_default is not None]
        self._needed = needed
        is_late = any(field.field_id in may_be_missing for _, field in walk(needed.fields))
        self.matter = has_mapping or is_late or bool(self._tops or self._inner)

    def check_required(self, path: str, ids: FieldIds, constant_ids: frozenset[int]) -> None:
        """Check that the file with these field ids has every required column without a default. Raises `DataFileFormatError`."""
        missing = next(_required_beyond(self._needed.fields, ids | constant_ids), None) if ids is not None else None
        if missing is not None:
            raise lacks_required(path, missing)

    def without(self, ids: FieldIds, constant_ids: frozenset[int]) -> tuple[str, frozenset[int]]:
        """For a file with these field ids the reason against Spark's own scan, if there is one, and the columns that it lacks and that have a default."""
        if ids is None:
            return "a file has no field ids", frozenset()
        missing = frozenset(self._tops.keys() - ids - constant_ids)
        for field_id in sorted(missing):
            kind = self._tops[field_id].field_type
            if isinstance(kind, NOT_NATIVE) or not isinstance(kind, PrimitiveType):
                return f"a file lacks {self._tops[field_id].name} ({kind}), which has a default", frozenset()
        for top, field in self._inner:
            if top.field_id in ids and field.field_id not in ids:
                return f"a file lacks {field.name} inside {top.name}, which has a default", frozenset()
        return "", missing


def _required_beyond(fields: Iterable[NestedField], ids: frozenset[int], *, in_struct: bool = True) -> Iterator[NestedField]:
    """Yield the required fields without a default that are not among the ids; of those in a missing struct, the struct is the one that counts."""
    for field in fields:
        if field.field_id in ids or not in_struct:
            yield from _required_beyond(children(field.field_type), ids, in_struct=isinstance(field.field_type, StructType))
        elif field.required and field.initial_default is None:
            yield field


def _by_columns(part: PlannedFiles, likeness: _Likeness, columns: _Columns, ask_ids: AskIds) -> Iterator[tuple[_Likeness, PlannedFiles]]:
    """The files that are to be read alike, divided by what their columns are, where that matters."""
    if likeness.reason or not columns.matter:
        yield likeness, part
        return
    tasks = list(part.tasks())
    found = []
    for task, ids in zip(tasks, ask_ids(tasks), strict=True):
        columns.check_required(task.file.file_path, ids, likeness.constant_ids)
        found.append(columns.without(ids, likeness.constant_ids))
    for reason, missing in dict.fromkeys(found):
        rows = np.array([number for number, one in enumerate(found) if one == (reason, missing)], np.int64)
        files = part if len(rows) == len(part) else part.take(rows)
        yield (_Likeness(reason) if reason else replace(likeness, missing=missing)), files


def _with_deletes(part: PlannedFiles, keys: _Keys) -> tuple[_Mask, _Mask, list[tuple[_Mask, str]]]:
    """For each file whether rows of it are deleted by position, whether equality deletes apply to it, and against which of those there are reasons."""
    nothing = np.zeros(len(part), np.bool_)
    if part.delete_offsets is None or part.delete_indices is None:
        return nothing, nothing, []
    file_of = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))

    def applied(wanted: object, trait: Callable[[DataFile], object]) -> _Mask:
        chosen = np.array([trait(file) == wanted for file in part.delete_files], np.bool_)[part.delete_indices]
        return np.bincount(file_of[chosen], minlength=len(part)) > 0

    def reason_of(file: DataFile) -> str:
        return keys.reasons[key_ids_of(file)] if file.content is FileContent.EQUALITY_DELETES else ""

    has_keys = applied(FileContent.EQUALITY_DELETES, attrgetter("content"))
    has_positions = applied(FileContent.POSITION_DELETES, attrgetter("content"))
    reasons = sorted({reason for file in part.delete_files if (reason := reason_of(file))})
    against = [(applied(reason, reason_of), reason) for reason in reasons]
    return has_positions, has_keys, against


def _bytes(file: DataFile) -> int:
    """What must be read of a delete file: a vector's own bytes, or the whole file."""
    return file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes


def _constant_ids(spec: PartitionSpec, fields: Iterable[NestedField]) -> frozenset[int]:
    """Those of the fields that are the same in every row of a file of a spec."""
    tops = {field.field_id: field.field_type for field in fields if isinstance(field.field_type, PrimitiveType)}
    return frozenset(
        field.source_id
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform) and field.source_id in tops and not isinstance(tops[field.source_id], NOT_NATIVE)
    )


def _with_vectors(share: FileGroup, deletes: DeleteLoader) -> Iterator[FileGroup]:
    """The share with its deleted positions; apart from it files with positions that Spark's bitmaps cannot hold, and those that turn out to have none."""
    vectors = load_positions(deletes, (task for part in share.parts for task in part.tasks()))
    kinds = [_NONE if vector is None or not vector.cardinality else _FITS if fits(vector) else _BEYOND for vector in vectors]
    for kind in sorted(set(kinds)):
        start = 0
        parts = []
        for part in share.parts:
            rows = np.flatnonzero(np.array(kinds[start : start + len(part)], np.int64) == kind)
            parts += [part.take(rows)] if len(rows) else []
            start += len(part)
        found = replace(share, parts=tuple(parts))
        if kind == _FITS:
            found = replace(found, vectors=tuple(vector for vector, own in zip(vectors, kinds, strict=True) if own == kind))
        elif kind == _BEYOND:
            found = replace(found, reason=f"rows from {MOST_POSITIONS:,} on are deleted in a file")
        yield found


# What is deleted by position in a file: nothing, what Spark's bitmaps hold, or more.
_NONE, _FITS, _BEYOND = range(3)
