"""Equality deletes in Spark's own scan: a lookup or an anti join removes the rows with deleted keys, in each file by the deletes that apply to it.

Files to which the same delete files apply form a group. Groups are numbered by age, so that a delete file usually applies to a single range of groups. If the
keys are few and of one numeric column, the driver reads them and `deleted_keys.py` looks them up. All other keys are read in Spark's tasks by
`icefloe.datafile.deletes` and joined, with null equal to null. `read_strategy.py` decides which files are read in this way.
Spec: Equality Delete Files; Scan Planning (delete files).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import BinaryType, DataType, IntegerType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.datafile.deletes.delete_file_reader import read_delete_columns
from icefloe.operations.engine import ScanRequest
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.scan.deleted_keys import MOST_KEYS, NUMBERS, DeletedKeys, KeyList
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX
from icefloe.spark.scan.position_deletes import LOAD_THREADS
from icefloe.spark.types.arrow_conversion import to_spark_form
from icefloe.spark.types.spark_types import column_named, differs_by_case, field_inside, schema_to_struct
from icefloe.spec.arrow_values import fill_nulls
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, StructType

# The size of the equality delete files with the same key columns up to which their keys are broadcast; if larger, Spark sorts rows and keys.
MOST_BROADCAST_BYTES = 32 * 1024 * 1024
GROUP_COLUMN = f"{OWN_PREFIX}group"
_FIRST, _LAST = "first", "last"
_VALUES = TaskValues()

# The maximum number of delete files that the driver reads for a lookup; if there are more, Spark's tasks read them.
MOST_FILES_READ = 100
# The maximum number of groups of a lookup.
MOST_LISTS = 1000
# A range of groups: the first and the last number.
GroupRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeySetFiles:
    """The equality delete files with the same key columns, each with the groups to which it applies.

    `fields` are the top-level columns that contain the key columns; structs are reduced to the key columns.
    """

    fields: tuple[NestedField, ...]
    files: tuple[tuple[DataFile, tuple[GroupRange, ...]], ...]

    @property
    def ends(self) -> list[NestedField]:
        """The key columns themselves, without their structs."""
        return [end for field in self.fields for end in key_columns_in(field)]

    def apply_everywhere(self, groups: int) -> bool:
        """Return whether every delete file applies to all groups; `groups` is their number."""
        return all(ranges == ((0, groups - 1),) for _, ranges in self.files)

    def by_group(self, groups: int) -> list[list[DataFile]]:
        """Return for each of the `groups` groups the delete files that apply to it; a single entry if they are the same for all groups."""
        if self.apply_everywhere(groups):
            return [[file for file, _ in self.files]]
        files_of_groups: list[list[DataFile]] = [[] for _ in range(groups)]
        for file, ranges in self.files:
            for first, last in ranges:
                for group in range(first, last + 1):
                    files_of_groups[group].append(file)
        return files_of_groups

    def can_be_looked_up(self, groups: int) -> bool:
        """Return whether the keys can be read on the driver: they are of one column in `NUMBERS`, and few enough, in few enough files."""
        ends = self.ends
        if len(ends) != 1 or not isinstance(ends[0].field_type, NUMBERS) or len(self.files) > MOST_FILES_READ:
            return False
        if self.apply_everywhere(groups):
            return sum(file.record_count for file, _ in self.files) <= MOST_KEYS
        keys = sum(file.record_count * (last - first + 1) for file, ranges in self.files for first, last in ranges)
        return groups <= MOST_LISTS and keys <= MOST_KEYS


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """The equality deletes of a scan: the group of each file in order, the delete files by their key columns, and the number of groups."""

    groups: NDArray[np.int64]
    keys: tuple[KeySetFiles, ...]
    count: int

    @property
    def needs_groups(self) -> bool:
        """Whether a delete file applies only to some of the groups."""
        return not all(files.apply_everywhere(self.count) for files in self.keys)

    @property
    def key_columns(self) -> tuple[NestedField, ...]:
        """Return all key columns."""
        return tuple({end.field_id: end for files in self.keys for end in files.ends}.values())


def equality_deletes(parts: Sequence[PlannedFiles], fields_of: Mapping[frozenset[int], tuple[NestedField, ...]]) -> EqualityDeletes:
    """Group the files of a plan by the equality deletes that apply to them.

    Args:
        parts: The files, all of which have equality deletes.
        fields_of: The top-level columns that contain the key columns, by the ids of the key columns.
    """
    applied: list[tuple[int, ...]] = []
    ages: list[int] = []
    for part in parts:
        applied += _equality_deletes_of_files(part)
        ages += fill_nulls(
            part.entries["sequence_number"], 0
        ).to_pylist()  # in server-side planning, the server does not send sequence numbers
    youngest: dict[tuple[int, ...], int] = {}
    for deletes, age in zip(applied, ages, strict=True):
        youngest[deletes] = max(age, youngest.get(deletes, age))
    numbers = {deletes: number for number, deletes in enumerate(sorted(youngest, key=lambda deletes: (youngest[deletes], deletes)))}
    groups_of: dict[int, list[int]] = {}
    for deletes, number in numbers.items():
        for index in deletes:
            groups_of.setdefault(index, []).append(number)
    files = parts[0].delete_files
    by_keys: dict[frozenset[int], list[tuple[DataFile, tuple[GroupRange, ...]]]] = {}
    for index, groups in sorted(groups_of.items()):
        by_keys.setdefault(key_ids_of(files[index]), []).append((files[index], tuple(_group_ranges(sorted(groups)))))
    keys = tuple(KeySetFiles(fields_of[ids], tuple(delete_files)) for ids, delete_files in by_keys.items())
    return EqualityDeletes(np.array([numbers[deletes] for deletes in applied], np.int64), keys, len(numbers))


def union_deletes(
    parts_of_groups: Sequence[Sequence[PlannedFiles]], deletes: Sequence[EqualityDeletes | None]
) -> list[EqualityDeletes] | None:
    """Return equality deletes for each of several sets of files, which share the delete files and the numbering of groups; None for a set without such deletes.

    Args:
        parts_of_groups: The files of each group.
        deletes: The equality deletes of each group; None where none apply to its files.
    """
    parts = [part for group, applied in zip(parts_of_groups, deletes, strict=True) if applied is not None for part in group]
    if not parts:
        return None
    fields_of = {key_ids_of(files.files[0][0]): files.fields for applied in deletes if applied is not None for files in applied.keys}
    together = equality_deletes(parts, fields_of)
    is_partial = any(applied is None for applied in deletes)
    counted = replace(together, count=together.count + is_partial)  # the last number is for files without equality deletes
    loaded, start = [], 0
    for group, applied in zip(parts_of_groups, deletes, strict=True):
        length = sum(map(len, group))
        if applied is None:
            loaded.append(replace(counted, groups=np.full(length, together.count, np.int64)))
        else:
            loaded.append(replace(counted, groups=together.groups[start : start + length]))
            start += length
    return loaded


def key_ids_of(file: DataFile) -> frozenset[int]:
    """Return the field ids of an equality delete file's key columns."""
    return frozenset(file.equality_ids or ())


def without_deleted_keys(
    spark: SparkSession, rows: DataFrame, request: ScanRequest, deletes: EqualityDeletes, reader_names: Mapping[str, str]
) -> DataFrame:
    """Return the rows whose keys are not deleted in the group of their file.

    Args:
        spark: A classic session.
        rows: The rows. They have the column `GROUP_COLUMN` if deletes apply only to some groups.
        request: The scan.
        deletes: The equality deletes.
        reader_names: The names in `rows` of the table's top-level columns.

    Raises:
        NoSuchFileError, DataFileFormatError, StorageError: A delete file that the driver reads is missing, damaged or could not be read.
    """
    groups = deletes.count
    types = {field.name: field.dataType for field in rows.schema.fields} if differs_by_case(request.schema.fields) else {}
    for files in sorted(deletes.keys, key=lambda files: not files.can_be_looked_up(groups)):  # joins come last, when fewer rows are left
        group = None if files.apply_everywhere(groups) else column_named(GROUP_COLUMN)
        values = [_key_of_row(end, request.schema, reader_names, types) for end in files.ends]
        if files.can_be_looked_up(groups):
            rows = rows.where(_read_deleted_keys(request, files, groups).is_not_deleted(spark, values[0], group))
            continue
        keys = _deleted_key_rows(spark, request, files)
        tests = [] if group is None else [group.between(keys[_FIRST], keys[_LAST])]
        for number, (end, value) in enumerate(zip(files.ends, values, strict=True)):
            key = keys[f"key {number}"]
            tests.append(value == key if _is_required(end, request.schema) else value.eqNullSafe(key))
        rows = rows.join(keys, reduce(and_, tests), "left_anti")
    return rows


def _read_deleted_keys(request: ScanRequest, files: KeySetFiles, groups: int) -> DeletedKeys:
    """Read, for each group of data files, the keys that its delete files delete; a single list if all groups have the same delete files."""
    (field,), (end,) = files.fields, files.ends

    def read(file: DataFile) -> KeyList:
        batches = read_delete_columns(request.io, file, (field,), name_mapping=request.name_mapping)
        return KeyList.of(array for batch in batches for array in _key_arrays(batch.column(0), field))

    with ThreadPoolExecutor(LOAD_THREADS, thread_name_prefix="icefloe-deletes") as pool:
        keys_of = dict(zip((file.file_path for file, _ in files.files), pool.map(read, (file for file, _ in files.files)), strict=True))
    lists = (KeyList.union([keys_of[file.file_path] for file in applied]) for applied in files.by_group(groups))
    return DeletedKeys(end.field_type, tuple(lists))


def _is_required(end: NestedField, schema: Schema) -> bool:
    """Return whether no row has null in a key column. Then a plain comparison is enough, which joins faster."""
    return any(field.field_id == end.field_id and field.required for field in schema.fields)


def dropped_key(field: NestedField) -> str:
    """Return the name, during the scan, of a key column that has been dropped from the table."""
    return f"{OWN_PREFIX}key {field.field_id}"


def _key_of_row(end: NestedField, schema: Schema, reader_names: Mapping[str, str], types: Mapping[str, DataType]) -> Column:
    path = schema.path_of(end.field_id)
    if path is None:
        return column_named(dropped_key(end))
    name = reader_names[path[0]]
    return field_inside(column_named(name), path[1:], types.get(name))


def _deleted_key_rows(spark: SparkSession, request: ScanRequest, files: KeySetFiles) -> DataFrame:
    """Return the deleted keys as a DataFrame, with a row for each key and each range of groups in which it is deleted."""
    ends = [replace(end, name=f"key {number}", required=False) for number, end in enumerate(files.ends)]
    columns = schema_to_struct(Schema(*ends), field_ids=False).fields
    form = SparkStruct([*columns, *(StructField(name, IntegerType(), False) for name in (_FIRST, _LAST))])
    packed = [(bytearray(_VALUES.to_bytes(file_and_ranges)),) for file_and_ranges in files.files]
    slices = min(len(packed), spark.sparkContext.defaultParallelism)
    source = spark.createDataFrame(spark.sparkContext.parallelize(packed, slices), SparkStruct([StructField("file", BinaryType(), False)]))
    keys = source.mapInArrow(KeyReader(request.io, files.fields, request.name_mapping), form)
    is_small = sum(file.file_size_in_bytes for file, _ in files.files) <= MOST_BROADCAST_BYTES
    return F.broadcast(keys) if is_small else keys


@dataclass(frozen=True)
class KeyReader:
    """A function for Spark's tasks: it takes delete files with the ranges of groups to which they apply, and returns the rows of their keys."""

    io: FileIO
    fields: tuple[NestedField, ...]
    name_mapping: NameMapping | None
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the keys of the delete files in the batches."""
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                file, ranges = _VALUES.from_bytes(packed, tuple)
                with self.errors.carry():
                    yield from self._rows(file, ranges)

    def _rows(self, file: DataFile, ranges: Sequence[GroupRange]) -> Iterator[pa.RecordBatch]:
        for batch in read_delete_columns(self.io, file, self.fields, name_mapping=self.name_mapping):
            keys = [array for position, field in enumerate(self.fields) for array in _key_arrays(batch.column(position), field)]
            names = [f"key {number}" for number in range(len(keys))]
            for first, last in ranges:
                bounds = [pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows) for number in (first, last)]
                yield pa.RecordBatch.from_arrays([*keys, *bounds], names=[*names, _FIRST, _LAST])


def _key_arrays(array: pa.Array, field: NestedField) -> Iterator[pa.Array]:
    """Yield the arrays of the key columns inside a column, in Spark's form."""
    if isinstance(field.field_type, StructType):
        for position, inner in enumerate(field.field_type.fields):
            yield from _key_arrays(pc.struct_field(array, [position]), inner)
    else:
        yield to_spark_form(array, field.field_type)


def key_columns_in(field: NestedField) -> Iterator[NestedField]:
    """Yield the key columns inside a column; the column itself if it is not a struct."""
    if isinstance(field.field_type, StructType):
        for inner in field.field_type.fields:
            yield from key_columns_in(inner)
    else:
        yield field


def _equality_deletes_of_files(part: PlannedFiles) -> Iterator[tuple[int, ...]]:
    """Yield for each file the indexes of the equality delete files that apply to it."""
    if part.delete_offsets is None or part.delete_indices is None:
        return
    is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in part.delete_files], np.bool_)
    for start, end in pairwise(part.delete_offsets.tolist()):
        indices = part.delete_indices[start:end]
        yield tuple(indices[is_equality[indices]].tolist())


def _group_ranges(numbers: Sequence[int]) -> Iterator[GroupRange]:
    """Yield ascending numbers as ranges without gaps."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
