"""Equality deletes in Spark's own scan: a lookup or an anti join removes the rows with deleted keys, in each file by the deletes that apply to it.

Data files to which the same delete files apply form a group. Groups are numbered from the oldest to the youngest, so that a delete file usually applies to a
single range of groups. If the deleted keys are few and of one numeric or temporal column, the driver reads them and `deleted_keys.py` looks them up. All other
keys are read in Spark's tasks by `icefloe.datafile.deletes`, and removed from the rows by an anti join, in which null equals null. `read_strategy.py` decides
which data files are read in this way.
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
    """The equality delete files that have the same key columns.

    Attributes:
        fields: The top-level columns that contain the key columns. A struct among them has only the fields that are or contain key columns.
        files: Each delete file, with the ranges of the groups of data files to which it applies.
    """

    fields: tuple[NestedField, ...]
    files: tuple[tuple[DataFile, tuple[GroupRange, ...]], ...]

    @property
    def ends(self) -> list[NestedField]:
        """The key columns; for a key column inside a struct, the field and not the struct."""
        return [end for field in self.fields for end in key_columns_in(field)]

    def apply_everywhere(self, groups: int) -> bool:
        """Return whether every delete file applies to all groups; `groups` is the number of groups."""
        return all(ranges == ((0, groups - 1),) for _, ranges in self.files)

    def by_group(self, groups: int) -> list[list[DataFile]]:
        """Return the delete files that apply to each of the `groups` groups; if all groups have the same delete files, a single entry for all of them."""
        if self.apply_everywhere(groups):
            return [[file for file, _ in self.files]]
        files_of_groups: list[list[DataFile]] = [[] for _ in range(groups)]
        for file, ranges in self.files:
            for first, last in ranges:
                for group in range(first, last + 1):
                    files_of_groups[group].append(file)
        return files_of_groups

    def can_be_looked_up(self, groups: int) -> bool:
        """Return whether the driver can read the keys: there is one key column, of a type in `NUMBERS`, and there are not too many keys, files and groups."""
        ends = self.ends
        if len(ends) != 1 or not isinstance(ends[0].field_type, NUMBERS) or len(self.files) > MOST_FILES_READ:
            return False
        if self.apply_everywhere(groups):
            return sum(file.record_count for file, _ in self.files) <= MOST_KEYS
        keys = sum(file.record_count * (last - first + 1) for file, ranges in self.files for first, last in ranges)
        return groups <= MOST_LISTS and keys <= MOST_KEYS


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """The equality deletes of a scan.

    Attributes:
        groups: The number of the group of each data file, in the order of the data files.
        keys: The delete files, grouped by their key columns.
        count: The number of groups.
    """

    groups: NDArray[np.int64]
    keys: tuple[KeySetFiles, ...]
    count: int

    @property
    def needs_groups(self) -> bool:
        """Whether rows need the number of their group, because a delete file applies only to some of the groups."""
        return not all(files.apply_everywhere(self.count) for files in self.keys)

    @property
    def key_columns(self) -> tuple[NestedField, ...]:
        """The key columns of all delete files, each once."""
        return tuple({end.field_id: end for files in self.keys for end in files.ends}.values())


def equality_deletes(parts: Sequence[PlannedFiles], fields_of: Mapping[frozenset[int], tuple[NestedField, ...]]) -> EqualityDeletes:
    """Group data files by the equality deletes that apply to them.

    Args:
        parts: The data files, each of which has equality deletes.
        fields_of: The top-level columns that contain the key columns, by the set of the ids of a delete file's key columns; see `KeySetFiles.fields`.

    Returns:
        The equality deletes of the data files, with the group of each data file in the order of `parts`.
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
    """Combine the equality deletes of several file groups, so that their rows can be united first and the deletes applied once to the union.

    Args:
        parts_of_groups: The data files of each file group.
        deletes: The equality deletes of each file group; None for a file group without equality deletes.

    Returns:
        New equality deletes for each file group, all with the same delete files and the same numbering of groups; None if no file group has equality deletes.
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
    """Return the field ids of the key columns of an equality delete file."""
    return frozenset(file.equality_ids or ())


def without_deleted_keys(
    spark: SparkSession, rows: DataFrame, request: ScanRequest, deletes: EqualityDeletes, reader_names: Mapping[str, str]
) -> DataFrame:
    """Return the rows without those that an equality delete of their data file deletes.

    Args:
        spark: A classic session.
        rows: The rows. If `deletes.needs_groups`, they have the group of their data file in the column `GROUP_COLUMN`.
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
    """Read the deleted keys: a list of keys for each group of data files, or a single list if the same delete files apply to all groups."""
    (field,), (end,) = files.fields, files.ends

    def read(file: DataFile) -> KeyList:
        batches = read_delete_columns(request.io, file, (field,), name_mapping=request.name_mapping)
        return KeyList.of(array for batch in batches for array in _key_arrays(batch.column(0), field))

    with ThreadPoolExecutor(LOAD_THREADS, thread_name_prefix="icefloe-deletes") as pool:
        keys_of = dict(zip((file.file_path for file, _ in files.files), pool.map(read, (file for file, _ in files.files)), strict=True))
    lists = (KeyList.union([keys_of[file.file_path] for file in applied]) for applied in files.by_group(groups))
    return DeletedKeys(end.field_type, tuple(lists))


def _is_required(end: NestedField, schema: Schema) -> bool:
    """Return whether a key column is a required top-level column of the schema, so that `=`, which joins faster, can replace the null-safe comparison."""
    return any(field.field_id == end.field_id and field.required for field in schema.fields)


def dropped_key(field: NestedField) -> str:
    """Return the name that a key column has during the scan if it was dropped from the table."""
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
    """A function for `mapInArrow`: it takes packed delete files with their ranges of groups, and returns rows with the deleted keys and a range of groups."""

    io: FileIO
    fields: tuple[NestedField, ...]
    name_mapping: NameMapping | None
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the delete files in the batches, and yield a row for each deleted key and range of groups."""
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
    """Yield the array of each key column inside a column, converted for Spark by `to_spark_form`."""
    if isinstance(field.field_type, StructType):
        for position, inner in enumerate(field.field_type.fields):
            yield from _key_arrays(pc.struct_field(array, [position]), inner)
    else:
        yield to_spark_form(array, field.field_type)


def key_columns_in(field: NestedField) -> Iterator[NestedField]:
    """Yield the fields at all depths of a struct that are not structs themselves; for any other column, the column itself."""
    if isinstance(field.field_type, StructType):
        for inner in field.field_type.fields:
            yield from key_columns_in(inner)
    else:
        yield field


def _equality_deletes_of_files(part: PlannedFiles) -> Iterator[tuple[int, ...]]:
    """Yield for each data file the indexes in `part.delete_files` of the equality delete files that apply to it."""
    if part.delete_offsets is None or part.delete_indices is None:
        return
    is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in part.delete_files], np.bool_)
    for start, end in pairwise(part.delete_offsets.tolist()):
        indices = part.delete_indices[start:end]
        yield tuple(indices[is_equality[indices]].tolist())


def _group_ranges(numbers: Sequence[int]) -> Iterator[GroupRange]:
    """Combine ascending numbers into ranges without gaps, for example 1, 2, 5 into (1, 2) and (5, 5)."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
