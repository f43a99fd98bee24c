"""Delete files written: deletion vectors, position delete files and equality delete files, each with its complete manifest entry.

Which of them a table may have is the commit's to check; which rows go is `positions.py`'s to find.
Spec: Position Delete Files; Equality Delete Files; Deletion Vectors; Delete File Stats; Puffin file format, Common properties.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.deletes.delete_file_reader import POSITION_DELETE_SCHEMA
from icefloe.datafile.deletes.delete_loader import DeleteLoader, is_scoped_to
from icefloe.datafile.projected_fields import kept_fields
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import InvalidInputError, Problem, StorageError
from icefloe.kernel.arrow_values import numbers_array, scalar_of
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.kernel.puffin.deletion_vector import (
    DeletionVector,
    deletion_vector_from_positions,
    merge_deletion_vectors,
    write_deletion_vectors,
)
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import DoubleType, FloatType, PrimitiveType, StructType

# Rows that are made at a time for a position delete file.
_POSITION_ROWS = 131_072
_METRICS = "write.metadata.metrics."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToDelete:
    """Rows of one data file, by position, and the delete files that apply to the file already."""

    file: DataFile
    positions: NDArray[np.int64]
    delete_files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDeletes:
    """The delete files that were written, and those whose deletes are now in them: these leave the table in the same commit."""

    added: tuple[DataFile, ...]
    superseded: tuple[DataFile, ...] = ()


def write_vectors(
    target: WriteTarget, marked: Sequence[RowsToDelete], *, deletes: DeleteLoader, partition_id: int, task_id: int
) -> WrittenDeletes:
    """Writes one Puffin file with a deletion vector for each data file that loses rows; none where all of them are deleted already.

    Each vector holds what the file's old vector and old position deletes deleted too. The old vector is superseded, as are position delete files of that one
    data file; those that name other data files stay, and no longer count for this one. Format version 3.

    Raises:
        DataFileFormatError, PuffinFormatError: an old delete file is not sound.
        InvalidInputError: a position is not one of the file's rows, or a data file is given twice.
        StorageError: storage refused; nothing is left behind.
    """
    _check(marked)
    vectors: dict[str, DeletionVector] = {}
    superseded: list[DataFile] = []
    for one in marked:
        task = FileScanTask(file=one.file, residual=AlwaysTrue(), spec_id=one.file.spec_id, length=0, delete_files=one.delete_files)
        old, new = deletes.positions_of(task), deletion_vector_from_positions(one.positions)
        merged = new if old is None else merge_deletion_vectors([old, new])
        if merged.cardinality == (old.cardinality if old is not None else 0):
            continue
        vectors[one.file.file_path] = merged
        superseded += _older_of_file(one)
    if not vectors:
        return WrittenDeletes(added=())
    content, locations = write_deletion_vectors(vectors, properties={"created-by": f"Icefloe version {version('icefloe')}"})
    name = f"{partition_id:05d}-{task_id}-{target.operation_uuid}-deletes.puffin"
    path = f"{target.data_location.rstrip('/')}/{name}"
    try:
        target.io.write(path, content)
    except BaseException:
        # Ctrl-C may come after the last byte.
        with suppress(StorageError):
            target.io.delete(path)
        raise
    files = {one.file.file_path: one.file for one in marked}
    added = [
        DataFile(
            file_path=path,
            file_format=FileFormat.PUFFIN,
            content=FileContent.POSITION_DELETES,
            record_count=location.record_count,
            file_size_in_bytes=len(content),
            partition=files[location.referenced_data_file].partition,
            spec_id=files[location.referenced_data_file].spec_id,
            referenced_data_file=location.referenced_data_file,
            content_offset=location.content_offset,
            content_size_in_bytes=location.content_size_in_bytes,
        )
        for location in locations
    ]
    return WrittenDeletes(added=tuple(added), superseded=tuple(superseded))


def write_position_deletes(
    target: WriteTarget,
    marked: Sequence[RowsToDelete],
    *,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    deletes: DeleteLoader | None = None,
    file_scoped: bool = True,
) -> WrittenDeletes:
    """Writes Parquet position delete files, sorted by path and position: one for each data file, or one for each partition. Format version 2.

    A file of one data file names it as its `referenced_data_file`. Bounds of both columns are whole. With a loader of `deletes`, a file of one data file holds
    the positions of the older position delete files of that one data file too, which are superseded. Nothing else is.

    Raises:
        DataFileFormatError: an old delete file is not sound.
        InvalidInputError: a position is not one of the file's rows, or a data file is given twice.
        StorageError: storage refused; nothing is left behind.
    """
    _check(marked)
    ordered = sorted((one for one in marked if len(one.positions)), key=lambda one: one.file.file_path.encode())
    superseded: list[DataFile] = []
    if file_scoped:
        if deletes is not None:
            superseded = [file for one in ordered for file in _older_of_file(one)]
            ordered = [_with_older(one, deletes) for one in ordered]
        groups = [[one] for one in ordered]
    else:
        by_partition = sorted(ordered, key=_partition_key)  # keeps the order of paths within a partition
        groups = [list(group) for _, group in groupby(by_partition, _partition_key)]
    added: list[DataFile] = []
    try:
        for number, group in enumerate(groups):
            where = _target(target, POSITION_DELETE_SCHEMA, specs[group[0].file.spec_id], f"deletes-{number:05d}")
            written = write_partition(where, _position_rows(group), group[0].file.partition, partition_id=partition_id, task_id=task_id)
            referenced = group[0].file.file_path if file_scoped else None
            added += (_as_deletes(file, FileContent.POSITION_DELETES, referenced_data_file=referenced) for file in written)
    except BaseException:
        _delete(target, added)
        raise
    return WrittenDeletes(added=tuple(added), superseded=tuple(superseded))


def _older_of_file(rows: RowsToDelete) -> tuple[DataFile, ...]:
    """Return the position delete files that are about the data file alone."""
    return tuple(file for file in rows.delete_files if is_scoped_to(file, rows.file.file_path))


def _with_older(rows: RowsToDelete, deletes: DeleteLoader) -> RowsToDelete:
    """Return the rows together with those that the older delete files of the data file name."""
    task = FileScanTask(file=rows.file, residual=AlwaysTrue(), spec_id=rows.file.spec_id, length=0, delete_files=_older_of_file(rows))
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
    """Writes Parquet equality delete files of one partition of the target's spec: rows of older data files there that equal one of these in the key columns
    are deleted. Of an unpartitioned spec they hold for the whole table. Rows have at least the key columns, by name. Format versions 2 and 3.

    Raises:
        InvalidInputError: a key column is not in the schema, is not primitive, is a float or double, or lies inside a list or map.
        SchemaMismatchError: rows that do not fit the key columns.
        StorageError: storage refused; nothing is left behind.
    """
    schema = key_schema(target.schema, equality_ids)
    where = _target(target, schema, target.spec, "equality-deletes")
    names = schema.names
    written = write_partition(where, (batch.select(names) for batch in batches), partition, partition_id=partition_id, task_id=task_id)
    ids = tuple(dict.fromkeys(equality_ids))
    return WrittenDeletes(added=tuple(_as_deletes(file, FileContent.EQUALITY_DELETES, equality_ids=ids) for file in written))


def _check(marked: Sequence[RowsToDelete]) -> None:
    problems: list[Problem] = []
    seen: set[str] = set()
    for one in marked:
        path = one.file.file_path
        if path in seen:
            problems.append(Problem(where=path, what="the data file is given twice"))
        seen.add(path)
        if len(one.positions) and not 0 <= int(one.positions.min()) <= int(one.positions.max()) < one.file.record_count:
            what = f"positions {one.positions.min()} to {one.positions.max()} are not all among its {one.file.record_count} rows"
            problems.append(Problem(where=path, what=what))
    if problems:
        raise InvalidInputError("rows cannot be deleted by these positions", problems=problems)


def _partition_key(one: RowsToDelete) -> tuple[int, str]:
    # Values of one partition field may be of types that do not compare (null and a number); their text tells partitions apart as well.
    return one.file.spec_id, repr(one.file.partition)


def _position_rows(group: Iterable[RowsToDelete]) -> Iterator[pa.RecordBatch]:
    form = schema_to_arrow(POSITION_DELETE_SCHEMA)
    for one in group:
        positions = np.unique(one.positions).astype(np.int64)
        for start in range(0, len(positions), _POSITION_ROWS):
            part = positions[start : start + _POSITION_ROWS]
            path = pa.repeat(scalar_of(one.file.file_path, pa.string()), len(part))
            yield pa.RecordBatch.from_arrays([path, numbers_array(part, pa.int64())], schema=form)


def _target(target: WriteTarget, schema: Schema, spec: PartitionSpec, suffix: str) -> WriteTarget:
    """Where delete files go: as the table's Parquet files do, under names of their own, with whole bounds."""
    properties = {name: text for name, text in target.properties.items() if not name.startswith(_METRICS)}
    for name, known in table_properties.DELETE_FILE_PROPERTIES.items():
        if known.read(target.properties) is not None:
            properties[name] = target.properties[known.name]
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


def _as_deletes(file: DataFile, content: FileContent, **more: Any) -> DataFile:
    return replace(file, content=content, sort_order_id=None, **more)


def key_schema(schema: Schema, equality_ids: Sequence[int]) -> Schema:
    """The key columns alone, inside the structs they lie in.

    Raises:
        InvalidInputError: one is not in the schema, is not primitive, is a float or double, or lies inside a list or map; or there is none.
    """
    fields = kept_fields(schema.fields, set(equality_ids))
    reachable = set(_reachable(fields))
    problems = [] if equality_ids else [Problem(where="equality_ids", what="there is no key column")]
    for field_id in equality_ids:
        kind = schema.find_type(field_id) if field_id in schema else None
        if kind is None:
            problems.append(Problem(where=f"field {field_id}", what="is not in the schema"))
        elif not isinstance(kind, PrimitiveType) or isinstance(kind, FloatType | DoubleType):
            problems.append(Problem(where=schema.find_column_name(field_id) or "", what=f"a key column cannot be a {kind}"))
        elif field_id not in reachable:
            problems.append(Problem(where=schema.find_column_name(field_id) or "", what="a key column cannot lie inside a list or map"))
    if problems:
        raise InvalidInputError("rows cannot be deleted by these columns", problems=problems)
    return Schema(*fields)


def _reachable(fields: Iterable[Any]) -> Iterator[int]:
    for field in fields:
        yield field.field_id
        if isinstance(field.field_type, StructType):
            yield from _reachable(field.field_type.fields)


def _delete(target: WriteTarget, files: Iterable[DataFile]) -> None:
    for file in files:
        with suppress(StorageError):
            target.io.delete(file.file_path)
