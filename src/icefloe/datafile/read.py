"""`read_task`: one data file as Arrow batches in the form of the table's schema, with only the rows that match.

Bringing columns to that form is `projection.py`. Floor: datafile. Spec: Scan Planning; Column Projection; Parquet (Appendix A).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icefloe.datafile.field_ids import has_ids
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored import StoredFile, reader_of
from icefloe.datafile.stored_batch import without_columns
from icefloe.errors import DataFileFormatError
from icefloe.kernel.expressions.bind import BoundPredicate
from icefloe.kernel.expressions.evaluate import arrow_mask
from icefloe.kernel.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.arrow import schema_to_arrow
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType


def read_task(
    io: FileIO,
    task: FileScanTask,
    *,
    schema: Schema,
    projection: Schema,
    specs: Mapping[int, PartitionSpec],
    row_filter: BooleanExpression | None = None,
    name_mapping: NameMapping | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's rows as batches of `projection`'s Arrow schema, in the file's order; nothing is read before the first is asked for.

    `schema` is the table schema that `projection` is part of. `row_filter`, bound to `schema`, is the task's own residual where it is not given. `name_mapping`
    gives field ids to the columns of a file that has none. A column that the file lacks has the value of its identity partition, its initial default, or is
    null. Batches may be of any length but zero.

    Raises:
        NoSuchFileError: the file is gone.
        DataFileFormatError: the file is not whole, holds what the schema does not allow, or has no field ids where nothing maps its names.
        UnsupportedFeatureError: the file is encrypted, or of a format that is not read.
    """
    path = task.file.file_path
    opener = reader_of(task)
    asked = task.residual if row_filter is None else row_filter
    if isinstance(asked, AlwaysFalse):
        return
    fields = fields_to_read(schema, projection, asked)
    wanted = schema_to_arrow(projection)
    read_as = schema_to_arrow(Schema(*fields))
    constants = identity_constants(specs[task.spec_id], task.file.partition)
    with io.open_input(path) as file:
        stored = opener(file, task, name_mapping)
        _check_ids(stored, path, fields, constants)
        projector = Projector(path, constants, stored.floors_nanoseconds)
        for found in stored.batches(fields, asked):
            rows = found.rows
            arrays = projector.struct(rows.column, columns_by_id(rows.schema), fields, read_as, rows.num_rows)
            for batch in _matching(_batch(arrays, read_as, rows.num_rows), asked):
                yield batch if fields == projection.fields else _narrowed(batch, projection, wanted)


def _check_ids(stored: StoredFile, path: str, fields: tuple[NestedField, ...], constants: Mapping[int, Any]) -> None:
    if len(stored.schema) and not has_ids(stored.schema) and any(field.field_id not in constants for field in fields):
        raise DataFileFormatError(
            f"the columns of {path} have no field ids, and the table has no name mapping that names them",
            path=path,
            next_step="set the table property schema.name-mapping.default, or rewrite the file with field ids",
        )


def identity_constants(spec: PartitionSpec, partition: tuple[Any, ...]) -> dict[int, Any]:
    """The physical value that every row of a file has in each identity partition column, by the column's field id. Spec: Column Projection."""
    return {
        field.source_id: value
        for field, value in zip(spec.fields, partition, strict=True)
        if isinstance(field.transform, IdentityTransform)
    }


def filter_field_ids(row_filter: BooleanExpression) -> set[int]:
    """The field ids of the columns that a bound filter tests."""
    if isinstance(row_filter, BoundPredicate):
        return {row_filter.field.field_id}
    if isinstance(row_filter, And | Or):
        return set().union(*(filter_field_ids(term) for term in row_filter.terms))
    return set()


def fields_to_read(schema: Schema, projection: Schema, row_filter: BooleanExpression) -> tuple[NestedField, ...]:
    """The part of the schema that holds the projection and what the filter tests, in the schema's order."""
    return _kept(schema.fields, {*_ends(projection.fields), *filter_field_ids(row_filter)})


def _ends(fields: Iterable[NestedField]) -> Iterator[int]:
    """The fields at which a projection stops cutting: everything that is not a struct with members."""
    for field in fields:
        if isinstance(field.field_type, StructType) and field.field_type.fields:
            yield from _ends(field.field_type.fields)
        else:
            yield field.field_id


def _kept(fields: tuple[NestedField, ...], wanted: set[int]) -> tuple[NestedField, ...]:
    found = []
    for field in fields:
        if field.field_id in wanted:
            found.append(field)
        elif isinstance(field.field_type, StructType) and (inner := _kept(field.field_type.fields, wanted)):
            found.append(replace(field, field_type=StructType(*inner)))
    return tuple(found)


def _batch(arrays: list[Any], schema: Any, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else without_columns(rows)


def _matching(batch: pa.RecordBatch, row_filter: BooleanExpression) -> Iterator[pa.RecordBatch]:
    if not isinstance(row_filter, AlwaysTrue):
        mask = arrow_mask(row_filter, batch)
        kept = mask.true_count
        if kept == 0:
            return
        if kept < batch.num_rows:
            batch = batch.filter(mask)
    yield batch


def _narrowed(batch: pa.RecordBatch, projection: Schema, wanted: Any) -> pa.RecordBatch:
    """The batch without the columns that only the filter needed, in the projection's order."""
    arrays = Projector("", {}).struct(batch.column, columns_by_id(batch.schema), projection.fields, wanted, batch.num_rows)
    return _batch(arrays, wanted, batch.num_rows)
