"""Rows deleted by equality, left out of Spark's own scan: their keys looked up, or an anti join with the deleted keys; each file against its own deletes.

Files to which the same delete files apply are a group; groups are numbered by age, so that a delete file applies to one stretch of them, seldom to more.
Few keys of one column of numbers are read on the driver and looked up by `deleted_keys.py`. All others are read in Spark's tasks by `datafile.delete_files` and
joined, null equal to null. Which files are read this way is decided in `read_strategy.py`.
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
from pyspark.sql.types import BinaryType, IntegerType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.datafile.deletes.delete_file_reader import read_delete_columns
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.scan.deleted_keys import MOST_KEYS, NUMBERS, DeletedKeys, KeyList
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX
from icefloe.spark.scan.position_deletes import LOAD_THREADS
from icefloe.spark.types.arrow_conversion import to_spark_form
from icefloe.spark.types.spark_types import column_named, schema_to_struct
from icefloe.table.engine import ScanRequest

# Bytes of equality delete files of one set of key columns that every executor gets whole; above that, Spark sorts rows and keys by key.
MOST_BROADCAST_BYTES = 32 * 1024 * 1024
GROUP_COLUMN = f"{OWN_PREFIX}group"
_FIRST, _LAST = "first", "last"
_VALUES = TaskValues()

# Delete files that are read here for one lookup; reading more is divided among Spark's tasks.
MOST_FILES_READ = 100
# Groups that are told apart in one lookup.
MOST_LISTS = 1000
# Groups from the first to the last number.
Stretch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeySetFiles:
    """The delete files of one set of key columns, each with the groups it applies to. `fields` are the columns inside the structs they lie in."""

    fields: tuple[NestedField, ...]
    files: tuple[tuple[DataFile, tuple[Stretch, ...]], ...]

    @property
    def ends(self) -> list[NestedField]:
        """The key columns themselves."""
        return [end for field in self.fields for end in ends_of(field)]

    def hold_everywhere(self, groups: int) -> bool:
        """Whether all of the delete files apply to each of so many groups."""
        return all(stretches == ((0, groups - 1),) for _, stretches in self.files)

    def by_group(self, groups: int) -> list[list[DataFile]]:
        """The delete files that apply to each of so many groups; one entry where they are the same for all."""
        if self.hold_everywhere(groups):
            return [[file for file, _ in self.files]]
        found: list[list[DataFile]] = [[] for _ in range(groups)]
        for file, stretches in self.files:
            for first, last in stretches:
                for group in range(first, last + 1):
                    found[group].append(file)
        return found

    def are_looked_up(self, groups: int) -> bool:
        """Whether the keys are of one column of numbers, and few enough, in few enough files, to be read on the driver."""
        ends = self.ends
        if len(ends) != 1 or not isinstance(ends[0].field_type, NUMBERS) or len(self.files) > MOST_FILES_READ:
            return False
        if self.hold_everywhere(groups):
            return sum(file.record_count for file, _ in self.files) <= MOST_KEYS
        keys = sum(file.record_count * (last - first + 1) for file, stretches in self.files for first, last in stretches)
        return groups <= MOST_LISTS and keys <= MOST_KEYS


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """The equality deletes of the files of one scan: the group of each file, in the files' order, and the delete files by their key columns."""

    groups: NDArray[np.int64]
    keys: tuple[KeySetFiles, ...]

    @property
    def count(self) -> int:
        """How many groups there are."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def needs_groups(self) -> bool:
        """Whether it matters to which group a file belongs."""
        return not all(files.hold_everywhere(self.count) for files in self.keys)

    @property
    def key_columns(self) -> tuple[NestedField, ...]:
        """Every key column."""
        return tuple({end.field_id: end for files in self.keys for end in files.ends}.values())


def equality_deletes(parts: Sequence[PlannedFiles], fields_of: Mapping[frozenset[int], tuple[NestedField, ...]]) -> EqualityDeletes:
    """Groups the files of a plan's parts, all of which have equality deletes. `fields_of` has the key columns by their ids."""
    applying: list[tuple[int, ...]] = []
    ages: list[int] = []
    for part in parts:
        applying += _equality_of(part)
        ages += part.entries["sequence_number"].to_pylist()
    youngest: dict[tuple[int, ...], int] = {}
    for deletes, age in zip(applying, ages, strict=True):
        youngest[deletes] = max(age, youngest.get(deletes, age))
    numbers = {deletes: number for number, deletes in enumerate(sorted(youngest, key=lambda deletes: (youngest[deletes], deletes)))}
    groups_of: dict[int, list[int]] = {}
    for deletes, number in numbers.items():
        for index in deletes:
            groups_of.setdefault(index, []).append(number)
    files = parts[0].delete_files
    by_keys: dict[frozenset[int], list[tuple[DataFile, tuple[Stretch, ...]]]] = {}
    for index, groups in sorted(groups_of.items()):
        by_keys.setdefault(key_ids_of(files[index]), []).append((files[index], tuple(_stretches(sorted(groups)))))
    keys = tuple(KeySetFiles(fields_of[ids], tuple(found)) for ids, found in by_keys.items())
    return EqualityDeletes(np.array([numbers[deletes] for deletes in applying], np.int64), keys)


def key_ids_of(file: DataFile) -> frozenset[int]:
    """The field ids of an equality delete file's key columns."""
    return frozenset(file.equality_ids or ())


def without_deleted_keys(
    spark: SparkSession, rows: DataFrame, request: ScanRequest, deletes: EqualityDeletes, called: Mapping[str, str]
) -> DataFrame:
    """The rows whose keys are not deleted in their file's group. `called` says what a top-level column is called in `rows`.

    Raises:
        NoSuchFileError, DataFileFormatError, StorageError: a delete file that is read now is gone, or not sound, or could not be read.
    """
    groups = deletes.count
    for files in sorted(deletes.keys, key=lambda files: not files.are_looked_up(groups)):  # joins last: there are fewer rows then
        group = None if files.hold_everywhere(groups) else column_named(GROUP_COLUMN)
        values = [_value(end, request.schema, called) for end in files.ends]
        if files.are_looked_up(groups):
            rows = rows.where(_load(request, files, groups).kept(spark, values[0], group))
            continue
        keys = _keys(spark, request, files)
        tests = [] if group is None else [group.between(keys[_FIRST], keys[_LAST])]
        for place, (end, value) in enumerate(zip(files.ends, values, strict=True)):
            key = keys[f"key {place}"]
            tests.append(value == key if _is_required(end, request.schema) else value.eqNullSafe(key))
        rows = rows.join(keys, reduce(and_, tests), "left_anti")
    return rows


def _load(request: ScanRequest, files: KeySetFiles, groups: int) -> DeletedKeys:
    """The keys that are deleted in each group, read now."""
    (field,), (end,) = files.fields, files.ends

    def read(file: DataFile) -> KeyList:
        batches = read_delete_columns(request.io, file, (field,), name_mapping=request.name_mapping)
        return KeyList.of(array for batch in batches for array in _arrays_of(batch.column(0), field))

    with ThreadPoolExecutor(LOAD_THREADS, thread_name_prefix="icefloe-deletes") as pool:
        found = dict(zip((file.file_path for file, _ in files.files), pool.map(read, (file for file, _ in files.files)), strict=True))
    return DeletedKeys(end.field_type, tuple(KeyList.joined([found[file.file_path] for file in one]) for one in files.by_group(groups)))


def _is_required(end: NestedField, schema: Schema) -> bool:
    """Whether no row has null in a key column: then a plain comparison does, which joins faster."""
    return any(field.field_id == end.field_id and field.required for field in schema.fields)


def dropped_key(field: NestedField) -> str:
    """What a key column that the table no longer has is called in the rows."""
    return f"{OWN_PREFIX}key {field.field_id}"


def _value(end: NestedField, schema: Schema, called: Mapping[str, str]) -> Column:
    path = schema.path_of(end.field_id)
    if path is None:
        return column_named(dropped_key(end))
    column = column_named(called[path[0]])
    for name in path[1:]:
        column = column.getField(name)
    return column


def _keys(spark: SparkSession, request: ScanRequest, files: KeySetFiles) -> DataFrame:
    """The deleted keys, one row for each and for each stretch of groups it is deleted in."""
    ends = [replace(end, name=f"key {place}", required=False) for place, end in enumerate(files.ends)]
    columns = schema_to_struct(Schema(*ends), field_ids=False).fields
    form = SparkStruct([*columns, *(StructField(name, IntegerType(), False) for name in (_FIRST, _LAST))])
    packed = [(bytearray(_VALUES.to_bytes(one)),) for one in files.files]
    slices = min(len(packed), spark.sparkContext.defaultParallelism)
    source = spark.createDataFrame(spark.sparkContext.parallelize(packed, slices), SparkStruct([StructField("file", BinaryType(), False)]))
    keys = source.mapInArrow(KeyReader(request.io, files.fields, request.name_mapping), form)
    is_small = sum(file.file_size_in_bytes for file, _ in files.files) <= MOST_BROADCAST_BYTES
    return F.broadcast(keys) if is_small else keys


@dataclass(frozen=True)
class KeyReader:
    """Runs in Spark's tasks: delete files with their stretches in, rows of keys out."""

    io: FileIO
    fields: tuple[NestedField, ...]
    name_mapping: NameMapping | None
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                file, stretches = _VALUES.from_bytes(packed, tuple)
                with self.errors.carried():
                    yield from self._rows(file, stretches)

    def _rows(self, file: DataFile, stretches: Sequence[Stretch]) -> Iterator[pa.RecordBatch]:
        for batch in read_delete_columns(self.io, file, self.fields, name_mapping=self.name_mapping):
            keys = [array for place, field in enumerate(self.fields) for array in _arrays_of(batch.column(place), field)]
            names = [f"key {place}" for place in range(len(keys))]
            for first, last in stretches:
                bounds = [pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows) for number in (first, last)]
                yield pa.RecordBatch.from_arrays([*keys, *bounds], names=[*names, _FIRST, _LAST])


def _arrays_of(array: pa.Array, field: NestedField) -> Iterator[pa.Array]:
    """The arrays of a column's key columns, in the form that Spark takes."""
    if isinstance(field.field_type, StructType):
        for place, inner in enumerate(field.field_type.fields):
            yield from _arrays_of(pc.struct_field(array, [place]), inner)
    else:
        yield to_spark_form(array, field.field_type)


def ends_of(field: NestedField) -> Iterator[NestedField]:
    """The key columns inside a column; itself where it is no struct."""
    if isinstance(field.field_type, StructType):
        for inner in field.field_type.fields:
            yield from ends_of(inner)
    else:
        yield field


def _equality_of(part: PlannedFiles) -> Iterator[tuple[int, ...]]:
    """For each file the numbers of the equality delete files that apply to it."""
    if part.delete_offsets is None or part.delete_indices is None:
        return
    is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in part.delete_files], np.bool_)
    for start, end in pairwise(part.delete_offsets.tolist()):
        indices = part.delete_indices[start:end]
        yield tuple(indices[is_equality[indices]].tolist())


def _stretches(numbers: Sequence[int]) -> Iterator[Stretch]:
    """Ascending numbers as stretches without gaps."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
