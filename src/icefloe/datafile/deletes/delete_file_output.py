"""Writing of delete files: deletion vectors, position delete files and equality delete files, which are returned as `DataFile` objects.

The commit checks which kinds of delete files a table may have; `matching_positions.py` finds the positions of rows to delete.
Spec: Position Delete Files; Equality Delete Files; Deletion Vectors; Delete File Stats; Puffin file format, Common properties.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.deletes.delete_file_reader import POSITION_DELETE_SCHEMA
from icefloe.datafile.deletes.delete_loader import DeleteLoader, is_scoped_to
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import InvalidInputError, Problem, StorageError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numbers_array, scalar_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.data_location import new_data_location
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.spec.puffin.deletion_vector import (
    DeletionVector,
    deletion_vector_from_positions,
    merge_deletion_vectors,
    write_deletion_vectors,
)
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema, select_fields
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType, StructType
from icefloe.version import __version__

# Rows in a batch of a position delete file.
_POSITION_ROWS = 131_072
_METRICS = "write.metadata.metrics."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToDelete:
    """The positions of the rows to delete in a data file, and the delete files that already apply to the data file."""

    file: DataFile
    positions: NDArray[np.int64]
    delete_files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDeletes:
    """The result of writing deletes: the new delete files, and the older delete files whose deletes they include. One commit adds and removes them."""

    added: tuple[DataFile, ...]
    superseded: tuple[DataFile, ...] = ()


def write_vectors(
    target: WriteTarget, rows_to_delete: Sequence[RowsToDelete], *, deletes: DeleteLoader, partition_id: int, task_id: int
) -> WrittenDeletes:
    """Write one Puffin file with a deletion vector for each data file with newly deleted rows. If all rows are deleted already, no file is written.

    A new vector includes the deletes of the data file's old vector and position delete files. The old vector, and position delete files that apply only to this
    data file, are superseded. Position delete files for several data files stay, but no longer apply to this one. For format version 3.

    Args:
        target: The table and the location of new files.
        rows_to_delete: Rows of distinct data files.
        deletes: Loader of the delete files that already apply.
        partition_id: Number of the engine's partition, part of the new file's name.
        task_id: Number of the task attempt, part of the new file's name.

    Raises:
        DataFileFormatError: An old delete file is damaged.
        PuffinFormatError: An old deletion vector is damaged.
        InvalidInputError: A position is beyond the rows of its data file, or a data file occurs twice.
        StorageError: Storage refuses the write; no file is left.
    """
    _check(rows_to_delete)
    vectors: dict[str, DeletionVector] = {}
    superseded: list[DataFile] = []
    for rows in rows_to_delete:
        task = FileScanTask(file=rows.file, residual=AlwaysTrue(), length=0, delete_files=rows.delete_files)
        old, new = deletes.positions_of(task), deletion_vector_from_positions(rows.positions)
        merged = new if old is None else merge_deletion_vectors([old, new])
        if merged.cardinality == (old.cardinality if old is not None else 0):
            continue
        vectors[rows.file.file_path] = merged
        superseded += _file_scoped_deletes(rows)
    if not vectors:
        return WrittenDeletes(added=())
    files = {rows.file.file_path: rows.file for rows in rows_to_delete}
    added = _write_puffin(target, [(files[path], vector) for path, vector in vectors.items()], f"{partition_id:05d}-{task_id}")
    return WrittenDeletes(added=tuple(added), superseded=tuple(superseded))


def rewrite_vectors(
    target: WriteTarget, deleted: Iterable[tuple[DataFile, DeletionVector]], *, partition_id: int, task_id: int
) -> WrittenDeletes:
    """Write these deletion vectors, in their order, to Puffin files of about the target size.

    Args:
        target: The table and the location of new files.
        deleted: Distinct data files with the positions of all their deleted rows.
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.

    Raises:
        InvalidInputError: A position is beyond the rows of its data file.
        StorageError: Storage refuses the write; no file is left. Errors from the iterator `deleted` are raised unchanged, and no file is left either.
    """
    limit = table_properties.TARGET_FILE_SIZE_BYTES.read(_delete_properties(target))
    added: list[DataFile] = []
    waiting: list[tuple[DataFile, DeletionVector]] = []
    size = number = 0

    def write() -> None:
        added.extend(_write_puffin(target, waiting, f"{partition_id:05d}-{task_id}-{number:05d}"))

    try:
        for file, vector in deleted:
            _check([RowsToDelete(file=file, positions=_ends_of(vector))])
            waiting.append((file, vector))
            size += len(vector.bitmap.serialize())
            if size >= limit:
                write()
                waiting, size, number = [], 0, number + 1
        if waiting:
            write()
    except BaseException:
        _delete(target, added)
        raise
    return WrittenDeletes(added=tuple(added))


def _ends_of(vector: DeletionVector) -> NDArray[np.int64]:
    """Return the first and the last position of a vector."""
    return np.array([vector.bitmap.min(), vector.bitmap.max()], dtype=np.int64) if vector.cardinality else np.zeros(0, dtype=np.int64)


def _write_puffin(target: WriteTarget, vectors: Sequence[tuple[DataFile, DeletionVector]], prefix: str) -> list[DataFile]:
    """Write one Puffin file with the vectors of these data files, in their order. After a failure the file is deleted."""
    content, locations = write_deletion_vectors(
        {file.file_path: vector for file, vector in vectors}, properties={"created-by": f"Icefloe version {__version__}"}
    )
    name = f"{prefix}-{target.operation_uuid}-deletes.puffin"
    path = new_data_location(target.data_location, "", name, target.properties, target.location_context)
    try:
        target.io.write(path, content)
    except BaseException:
        # Ctrl-C may arrive after the last byte was written.
        with suppress(StorageError):
            target.io.delete(path)
        raise
    return [
        DataFile(
            file_path=path,
            file_format=FileFormat.PUFFIN,
            content=FileContent.POSITION_DELETES,
            record_count=location.record_count,
            file_size_in_bytes=len(content),
            partition=file.partition,
            spec_id=file.spec_id,
            referenced_data_file=location.referenced_data_file,
            content_offset=location.content_offset,
            content_size_in_bytes=location.content_size_in_bytes,
        )
        for (file, _), location in zip(vectors, locations, strict=True)
    ]


def write_position_deletes(
    target: WriteTarget,
    rows_to_delete: Sequence[RowsToDelete],
    *,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    deletes: DeleteLoader | None = None,
    file_scoped: bool = True,
) -> WrittenDeletes:
    """Write Parquet position delete files, sorted by path and position: one for each data file, or one for each partition. For format version 2.

    A delete file for a single data file has its path in `referenced_data_file`. The bounds of both columns are not truncated.

    Args:
        target: The table and the location of new files.
        rows_to_delete: Rows of distinct data files.
        specs: Partition specs of the table, by id.
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.
        deletes: Loader of the delete files that already apply. If it is set, a delete file for a single data file includes the older position delete files for
            only this data file, which are superseded.
        file_scoped: Whether to write a delete file for each data file, instead of one for each partition.

    Raises:
        DataFileFormatError: An old delete file is damaged.
        InvalidInputError: A position is beyond the rows of its data file, or a data file occurs twice.
        StorageError: Storage refuses the write; no file is left.
    """
    _check(rows_to_delete)
    ordered = sorted((rows for rows in rows_to_delete if len(rows.positions)), key=lambda rows: rows.file.file_path.encode())
    superseded: list[DataFile] = []
    if file_scoped:
        if deletes is not None:
            superseded = [file for rows in ordered for file in _file_scoped_deletes(rows)]
            ordered = [_with_older(rows, deletes) for rows in ordered]
        groups = [[rows] for rows in ordered]
    else:
        by_partition = sorted(ordered, key=_partition_key)  # keeps the order by path within a partition
        groups = [list(group) for _, group in groupby(by_partition, _partition_key)]
    added = _write_positions(target, groups, specs, file_scoped=file_scoped, partition_id=partition_id, task_id=task_id)
    return WrittenDeletes(added=tuple(added), superseded=tuple(superseded))


def rewrite_positions(
    target: WriteTarget,
    deleted: Iterable[tuple[DataFile, DeletionVector]],
    *,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    file_scoped: bool,
) -> WrittenDeletes:
    """Write these deletes to Parquet position delete files of about the target size, one data file at a time, so that few positions are in memory.

    Args:
        target: The table and the location of new files.
        deleted: Distinct data files of one partition, in the order of their paths, with the positions of their deleted rows.
        specs: Partition specs of the table, by id.
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.
        file_scoped: Whether to write delete files for each data file, instead of for the partition.

    Raises:
        InvalidInputError: A position is beyond the rows of its data file.
        StorageError: Storage refuses the write; no file is left. Errors from the iterator `deleted` are raised unchanged, and no file is left either.
    """

    def check_each() -> Iterator[RowsToDelete]:
        for file, vector in deleted:
            _check([RowsToDelete(file=file, positions=_ends_of(vector))])  # checked before the positions take memory
            yield RowsToDelete(file=file, positions=vector.positions().astype(np.int64))

    rows = check_each()
    groups = ([file_rows] for file_rows in rows) if file_scoped else _one_group(rows)
    added = _write_positions(target, groups, specs, file_scoped=file_scoped, partition_id=partition_id, task_id=task_id)
    return WrittenDeletes(added=tuple(added))


def _one_group(rows: Iterator[RowsToDelete]) -> Iterator[Iterable[RowsToDelete]]:
    """Yield all items as one group; yield nothing if there are no items."""
    for first in rows:
        yield chain([first], rows)


def _write_positions(
    target: WriteTarget,
    groups: Iterable[Iterable[RowsToDelete]],
    specs: Mapping[int, PartitionSpec],
    *,
    file_scoped: bool,
    partition_id: int,
    task_id: int,
) -> list[DataFile]:
    """Write delete files for each group. A group is one data file if `file_scoped`, else data files of one partition. After a failure all files are deleted."""
    added: list[DataFile] = []
    try:
        for number, group in enumerate(groups):
            rows = iter(group)
            first = next(rows)
            delete_target = _target(target, POSITION_DELETE_SCHEMA, specs[first.file.spec_id], f"deletes-{number:05d}")
            written = write_partition(
                delete_target, _position_rows(chain([first], rows)), first.file.partition, partition_id=partition_id, task_id=task_id
            )
            referenced = first.file.file_path if file_scoped else None
            added += (_as_deletes(file, FileContent.POSITION_DELETES, referenced_data_file=referenced) for file in written)
    except BaseException:
        _delete(target, added)
        raise
    return added


def _file_scoped_deletes(rows: RowsToDelete) -> tuple[DataFile, ...]:
    """Return the position delete files that apply only to this data file."""
    return tuple(file for file in rows.delete_files if is_scoped_to(file, rows.file.file_path))


def _with_older(rows: RowsToDelete, deletes: DeleteLoader) -> RowsToDelete:
    """Return the rows together with the positions in older delete files that apply only to their data file."""
    task = FileScanTask(file=rows.file, residual=AlwaysTrue(), length=0, delete_files=_file_scoped_deletes(rows))
    older = deletes.positions_of(task)
    return rows if older is None else replace(rows, positions=np.union1d(rows.positions, older.positions()))


def write_equality_deletes(
    target: WriteTarget,
    batches: Iterable[pa.RecordBatch],
    equality_ids: Sequence[int],
    *,
    partition: tuple[Any, ...] = (),
    partition_id: int,
    task_id: int,
) -> WrittenDeletes:
    """Write Parquet equality delete files for a partition of the target's spec.

    They delete the rows of older data files that equal one of the given rows in all key columns: in the partition, or with an unpartitioned spec in the whole
    table. For format versions 2 and 3.

    Args:
        target: The table and the location of new files.
        batches: Rows that contain at least the key columns; columns are found by name.
        equality_ids: Field ids of the key columns.
        partition: The partition tuple.
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.

    Raises:
        InvalidInputError: A key column is not in the schema, is not primitive, is a float or double, or is inside a list or map.
        SchemaMismatchError: Rows do not match the key columns.
        StorageError: Storage refuses the write; no file is left.
    """
    schema = key_schema(target.schema, equality_ids)
    delete_target = _target(target, schema, target.spec, "equality-deletes")
    names = schema.names
    keys = (batch.select(names) for batch in batches)
    written = write_partition(delete_target, keys, partition, partition_id=partition_id, task_id=task_id)
    ids = tuple(dict.fromkeys(equality_ids))
    return WrittenDeletes(added=tuple(_as_deletes(file, FileContent.EQUALITY_DELETES, equality_ids=ids) for file in written))


def _check(rows_to_delete: Sequence[RowsToDelete]) -> None:
    """Raise `InvalidInputError` for a data file that occurs twice, and for positions beyond its rows."""
    problems: list[Problem] = []
    paths: set[str] = set()
    for rows in rows_to_delete:
        path = rows.file.file_path
        if path in paths:
            problems.append(Problem(where=path, what="the data file is given twice"))
        paths.add(path)
        if len(rows.positions) and not 0 <= int(rows.positions.min()) <= int(rows.positions.max()) < rows.file.record_count:
            what = f"positions {rows.positions.min()} to {rows.positions.max()} are not all among its {rows.file.record_count} rows"
            problems.append(Problem(where=path, what=what))
    if problems:
        raise InvalidInputError("rows cannot be deleted by these positions", problems=problems)


def _partition_key(rows: RowsToDelete) -> tuple[int, str]:
    # Partition values may have types that cannot be compared, such as null and a number, so that partitions are compared by their text.
    return rows.file.spec_id, repr(rows.file.partition)


def _position_rows(group: Iterable[RowsToDelete]) -> Iterator[pa.RecordBatch]:
    schema = schema_to_arrow(POSITION_DELETE_SCHEMA)
    for rows in group:
        positions = np.unique(rows.positions).astype(np.int64)
        for start in range(0, len(positions), _POSITION_ROWS):
            part = positions[start : start + _POSITION_ROWS]
            path = pa.repeat(scalar_of(rows.file.file_path, pa.string()), len(part))
            yield pa.RecordBatch.from_arrays([path, numbers_array(part, pa.int64())], schema=schema)


def _target(target: WriteTarget, schema: Schema, spec: PartitionSpec, suffix: str) -> WriteTarget:
    """Return the write target of delete files: Parquet, with a suffix in the file names, and bounds that are not truncated."""
    properties = _delete_properties(target)
    properties[table_properties.METRICS_DEFAULT.name] = "full"
    properties[table_properties.DEFAULT_FILE_FORMAT.name] = "parquet"
    return replace(
        target,
        schema=schema,
        spec=spec,
        sort_order_id=None,
        sort_order=UNSORTED_SORT_ORDER,
        properties=properties,
        older_schemas=(target.schema, *target.older_schemas),
        operation_uuid=f"{target.operation_uuid}-{suffix}",
    )


def _delete_properties(target: WriteTarget) -> dict[str, str]:
    """Return the table's properties, with the values of the properties of delete files under the names of the properties of data files."""
    properties = {name: text for name, text in target.properties.items() if not name.startswith(_METRICS)}
    for name, delete_property in table_properties.DELETE_FILE_PROPERTIES.items():
        if delete_property.read(target.properties) is not None:
            properties[name] = target.properties[delete_property.name]
    return properties


def _as_deletes(file: DataFile, content: FileContent, **more: Any) -> DataFile:
    return replace(file, content=content, sort_order_id=None, **more)


def key_schema(schema: Schema, equality_ids: Sequence[int]) -> Schema:
    """Return the schema of the key columns, with the structs that contain them.

    Raises:
        InvalidInputError: A column is not in the schema, is not primitive, is a float or double, or is inside a list or map; or there are no columns.
    """
    fields = select_fields(schema.fields, set(equality_ids))
    reachable = set(_reachable(fields))
    problems = [] if equality_ids else [Problem(where="equality_ids", what="there is no key column")]
    for field_id in equality_ids:
        kind = schema.find_type(field_id) if field_id in schema else None
        if kind is None:
            problems.append(Problem(where=f"field {field_id}", what="is not in the schema"))
        elif not isinstance(kind, PrimitiveType) or isinstance(kind, FloatType | DoubleType):
            problems.append(Problem(where=schema.find_column_name(field_id) or "", what=f"a key column cannot be a {kind}"))
        elif field_id not in reachable:
            problems.append(Problem(where=schema.find_column_name(field_id) or "", what="a key column cannot be inside a list or map"))
    if problems:
        raise InvalidInputError("rows cannot be deleted by these columns", problems=problems)
    return Schema(*fields)


def _reachable(fields: Iterable[Any]) -> Iterator[int]:
    for field in fields:
        yield field.field_id
        if isinstance(field.field_type, StructType):
            yield from _reachable(field.field_type.fields)


def _delete(target: WriteTarget, files: Iterable[DataFile]) -> None:
    for path in dict.fromkeys(file.file_path for file in files):  # several deletion vectors are in one Puffin file
        with suppress(StorageError):
            target.io.delete(path)
