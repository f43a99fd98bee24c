"""`read_task`: one data file as Arrow batches in the form of the table's schema, with only the rows that match.

Bringing columns to that form is `projection.py`. Floor: datafile. Spec: Scan Planning; Column Projection; Parquet (Appendix A).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.datafile.projection import Projector, columns_by_id, file_columns, wanted_leaves
from icefloe.datafile.row_groups import row_groups_between, row_groups_that_may_match
from icefloe.errors import DataFileFormatError, UnsupportedFeatureError
from icefloe.kernel.expressions.bind import BoundPredicate
from icefloe.kernel.expressions.evaluate import arrow_mask
from icefloe.kernel.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from icefloe.kernel.manifest.data_file import FileFormat
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.arrow import schema_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.storage_errors import storage_error
from icefloe.kernel.types import NestedField, StructType

# Rows. Large enough that the work per batch is nothing, small enough that a limit reads little.
BATCH_ROWS = 131_072


def read_task(
    io: FileIO,
    task: FileScanTask,
    *,
    schema: Schema,
    projection: Schema,
    specs: Mapping[int, PartitionSpec],
    row_filter: BooleanExpression | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's rows as batches of `projection`'s Arrow schema, in the file's order; nothing is read before the first is asked for.

    `schema` is the table schema that `projection` is part of. `row_filter`, bound to `schema`, is the task's own residual where it is not given. A column that
    the file lacks has the value of its identity partition, or is null. Batches may be of any length but zero.

    Raises:
        NoSuchFileError: the file is gone.
        DataFileFormatError: the file is no whole Parquet file, or holds what the schema does not allow.
        UnsupportedFeatureError: the file is of another format, or its columns have no field ids.
    """
    path = task.file.file_path
    if task.file.file_format != FileFormat.PARQUET:
        raise UnsupportedFeatureError(
            f"{path} is a data file of format {task.file.file_format}; only Parquet is read",
            path=path,
            next_step="rewrite the table's files as Parquet",
        )
    asked = task.residual if row_filter is None else row_filter
    if isinstance(asked, AlwaysFalse):
        return
    fields = fields_to_read(schema, projection, asked)
    wanted = schema_to_arrow(projection)
    with io.open_input(path) as file:
        rows = _ParquetRows(file, task, identity_constants(specs[task.spec_id], task.file.partition))
        for batch in rows.batches(fields, asked):
            yield batch if fields == projection.fields else _narrowed(batch, projection, wanted)


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


class _ParquetRows:
    """The rows of one open Parquet file."""

    def __init__(self, file: Any, task: FileScanTask, constants: dict[int, Any]) -> None:
        self._task = task
        self._path = task.file.file_path
        with reading(self._path):
            # Int96 in nanoseconds overflows outside 1677 to 2262; Iceberg's timestamps are microseconds in any case.
            self._file = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
            self._root = file_columns(self._file.schema_arrow)
        self._projector = Projector(self._path, constants)

    def batches(self, fields: tuple[NestedField, ...], row_filter: BooleanExpression) -> Iterator[pa.RecordBatch]:
        """The rows that match, as batches of the fields' Arrow schema."""
        self._check_ids(fields)
        wanted = schema_to_arrow(Schema(*fields))
        for batch in self._stored(fields, row_filter):
            columns = columns_by_id(batch.schema)
            arrays = self._projector.struct(batch.column, columns, fields, wanted, batch.num_rows)
            yield from _matching(_batch(arrays, wanted, batch.num_rows), row_filter)

    def _check_ids(self, fields: tuple[NestedField, ...]) -> None:
        if self._root.inner and not self._root.has_ids and any(field.field_id not in self._projector.constants for field in fields):
            raise UnsupportedFeatureError(
                f"the columns of {self._path} have no field ids, and name mappings are not read yet",
                path=self._path,
                next_step="rewrite the file with field ids",
            )

    def _stored(self, fields: tuple[NestedField, ...], row_filter: BooleanExpression) -> Iterator[pa.RecordBatch]:
        footer = self._file.metadata
        chosen = list(range(footer.num_row_groups))
        # A whole file is read whole, also where the manifest's size is wrong.
        if self._task.start > 0 or self._task.length < self._task.file.file_size_in_bytes:
            chosen = row_groups_between(footer, self._task.start, self._task.start + self._task.length)
        with reading(self._path):
            chosen = row_groups_that_may_match(footer, chosen, row_filter, self._root)
        if not chosen:
            return
        leaves = sorted(wanted_leaves(self._root, fields))
        if not leaves:
            yield from (_batch([], pa.schema([]), footer.row_group(index).num_rows) for index in chosen)
            return
        names = [self._file.schema.column(leaf).path for leaf in leaves]
        batches = self._file.iter_batches(batch_size=BATCH_ROWS, row_groups=chosen, columns=names)
        while True:
            with reading(self._path):
                batch = next(batches, None)
            if batch is None:
                return
            if batch.num_rows:
                yield batch


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Says which file it was when Arrow cannot read one. Storage's own errors keep their kind; anything else means that the bytes are wrong."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeatureError(f"{path} uses something of Parquet that is not supported: {error}", path=path) from error
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_error(error, path) from error
        raise DataFileFormatError(
            f"{path} is not a whole, sound Parquet file: {error}", path=path, next_step="restore the file, or delete it from the table"
        ) from error


def _batch(arrays: list[Any], schema: Any, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # Only by way of a struct can a batch have rows and no columns.
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


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
