"""`read_task`: one data file as Arrow batches in the form of the table's schema: the rows that match and are not deleted, with metadata columns if asked for.

Bringing columns to that form is `projection.py`; what is deleted tells `delete_loader.py`; metadata columns are made in `metadata_columns_of_rows.py`.
Spec: Scan Planning; Column Projection; Row-level Deletes; Row Lineage.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.datafile.deletes.delete_loader import DeleteLoader, FileDeletes
from icefloe.datafile.field_ids import has_ids
from icefloe.datafile.metadata_columns_of_rows import metadata_array
from icefloe.datafile.projected_fields import fields_to_read
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored_batch import StoredBatch, picked, with_texts, without_columns
from icefloe.datafile.stored_file import StoredFile, reader_of
from icefloe.errors import DataFileFormatError
from icefloe.kernel.arrow_values import mask_array
from icefloe.kernel.expressions.bind import predicates
from icefloe.kernel.expressions.predicate import AlwaysFalse, AlwaysTrue, BooleanExpression
from icefloe.kernel.expressions.residual import simplify
from icefloe.kernel.expressions.row_evaluator import arrow_mask
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.metadata_columns import DELETED, LINEAGE_COLUMNS, is_reserved
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField

# Rows. Looking a batch's keys up costs as much as the deleted keys are many, so batches are joined until they are as many, up to this.
MOST_JOINED_ROWS = 1_048_576
_NOTHING_DELETED = FileDeletes(None, ())


def read_task(
    io: FileIO,
    task: FileScanTask,
    *,
    schema: Schema,
    projection: Schema,
    specs: Mapping[int, PartitionSpec],
    row_filter: BooleanExpression | None = None,
    name_mapping: NameMapping | None = None,
    deletes: DeleteLoader | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's rows as batches of `projection`'s Arrow schema, in the file's order; nothing is read before the first is asked for.

    `schema` is the table schema that `projection` is part of; the projection may hold metadata columns besides. `row_filter`, bound to `schema`, is the task's
    own residual where it is not given. `name_mapping` gives field ids to the columns of a file that has none. A column that the file lacks has the value of its
    identity partition, its initial default, or is null. Deleted rows are left out; where `_deleted` is asked for they are there, and marked. `deletes` keeps
    delete files for the other tasks of a scan. Batches may be of any length but zero.

    Raises:
        NoSuchFileError: the file, or a delete file, is gone.
        DataFileFormatError: the file is not whole, holds what the schema does not allow, or has no field ids where nothing maps its names.
        UnsupportedFeatureError: the file is encrypted, or of a format that is not read.
        PuffinFormatError: a deletion vector is not sound, or is another one than the manifest says.
    """
    opener = reader_of(task)
    asked = task.residual if row_filter is None else row_filter
    if isinstance(asked, AlwaysFalse):
        return
    loader = deletes or DeleteLoader(io, schemas=(schema,), name_mapping=name_mapping)
    deleted = loader.deletes_of(task, schema) if task.delete_files else _NOTHING_DELETED
    own = Schema(*(field for field in projection.fields if not is_reserved(field.field_id)))
    constants = identity_constants(specs[task.spec_id], task.file.partition)
    with io.open_input(task.file.file_path) as file:
        stored = opener(file, task, name_mapping)
        rows = _Rows(
            task=task,
            spec=specs[task.spec_id],
            projection=projection,
            fields=fields_to_read(schema, own, asked),
            row_filter=asked,
            deletes=deleted,
            projector=Projector(task.file.file_path, constants, stored.floors_nanoseconds),
        )
        _check_ids(stored, task.file.file_path, rows.columns, constants)
        yield from rows.batches(stored)


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """What is asked of one file. `fields` are the table's columns that the projection or the filter needs."""

    task: FileScanTask
    spec: PartitionSpec
    projection: Schema
    fields: tuple[NestedField, ...]
    row_filter: BooleanExpression
    deletes: FileDeletes
    projector: Projector

    @property
    def columns(self) -> tuple[NestedField, ...]:
        """The columns of the table that must be read, those for equality deletes too."""
        return (*self.fields, *(field for keys in self.deletes.equality for field in keys.fields))

    def batches(self, stored: StoredFile) -> Iterator[pa.RecordBatch]:
        """The rows, as batches of the projection's Arrow schema."""
        wanted = schema_to_arrow(self.projection)
        read_as = schema_to_arrow(Schema(*self.fields))
        keeps_deleted = DELETED.field_id in self.projection
        tested = tuple(
            {leaf.field.field_id: leaf.field for leaf in predicates(self.row_filter) if is_reserved(leaf.field.field_id)}.values()
        )
        asked = {field.field_id for field in (*self.projection.fields, *tested)}
        lineage = [field for field in LINEAGE_COLUMNS if field.field_id in asked and self.task.file.first_row_id is not None]
        of_columns = simplify(self.row_filter, {leaf: True for leaf in predicates(self.row_filter) if leaf.field in tested}.get)
        most_keys = max((keys.rows for keys in self.deletes.equality), default=0)
        batches = stored.batches((*self.columns, *lineage), of_columns)
        if self.task.delete_files:
            batches = _ahead(batches)
        if self._loses_rows_by_position_alone:
            yield from self._left(batches, read_as)
            return
        batches = map(with_texts, batches)
        for found in _joined(batches, min(most_keys, MOST_JOINED_ROWS)):
            rows = self._projected(found, self.fields, read_as)
            deleted = self._deleted(found)
            table = self._with_metadata(rows, found, deleted, lineage, tested) if tested else rows
            keep = None if isinstance(self.row_filter, AlwaysTrue) else arrow_mask(self.row_filter, table)
            if deleted is not None and not keeps_deleted:
                left = mask_array(~deleted)
                keep = left if keep is None else pc.and_(keep, left)
            kept = found.rows.num_rows if keep is None else keep.true_count
            if not kept:
                continue
            batch = rows if self.fields == self.projection.fields else self._chosen(rows, found, deleted, lineage, wanted)
            yield batch if kept == batch.num_rows else picked(batch, keep)

    @property
    def _loses_rows_by_position_alone(self) -> bool:
        """Whether nothing of a row must be looked at to know if it is asked for."""
        is_plain = isinstance(self.row_filter, AlwaysTrue) and self.fields == self.projection.fields
        return is_plain and not self.deletes.equality

    def _left(self, batches: Iterable[StoredBatch], arrow: Any) -> Iterator[pa.RecordBatch]:
        """The rows that are not deleted, which are brought to the table's form without the others."""
        for found in batches:
            deleted = self._deleted(found)
            rows = with_texts(found).rows if deleted is None else picked(found.rows, mask_array(~deleted))
            if rows.num_rows:
                yield self._projected(StoredBatch(found.first_row, rows), self.fields, arrow)

    def _projected(self, found: StoredBatch, fields: tuple[NestedField, ...], arrow: Any) -> pa.RecordBatch:
        rows = found.rows
        arrays = self.projector.struct(rows.column, columns_by_id(rows.schema), fields, arrow, rows.num_rows)
        return _batch(arrays, arrow, rows.num_rows)

    def _with_metadata(
        self,
        rows: pa.RecordBatch,
        found: StoredBatch,
        deleted: NDArray[np.bool_] | None,
        lineage: Iterable[NestedField],
        tested: tuple[NestedField, ...],
    ) -> pa.RecordBatch:
        """The rows with the metadata columns that the filter tests beside them."""
        projection = Schema(*tested)
        made = replace(self, projection=projection)._chosen(rows, found, deleted, lineage, schema_to_arrow(projection))
        return pa.RecordBatch.from_arrays([*rows.columns, *made.columns], names=[*rows.schema.names, *made.schema.names])

    def _deleted(self, found: StoredBatch) -> NDArray[np.bool_] | None:
        """For each row whether it is deleted; None where none is."""
        count = found.rows.num_rows
        positions = self.deletes.positions
        deleted = None if positions is None else positions.deleted_rows(found.first_row, count)
        for keys in self.deletes.equality:
            matching = keys.deleted_rows(self._projected(found, keys.fields, schema_to_arrow(Schema(*keys.fields))))
            deleted = matching if deleted is None else deleted | matching
        return deleted if deleted is not None and deleted.any() else None

    def _chosen(
        self, rows: pa.RecordBatch, found: StoredBatch, deleted: NDArray[np.bool_] | None, lineage: Iterable[NestedField], wanted: Any
    ) -> pa.RecordBatch:
        """The projection's columns in its order: those of the table, without those that only the filter needed, and metadata columns."""
        places = columns_by_id(rows.schema)
        stored_places = columns_by_id(found.rows.schema)
        stored = {
            field.field_id: self.projector.array(found.rows.column(place), arrow, field, pa.int64())
            for field in lineage
            if field.field_id in stored_places
            for place, arrow in [stored_places[field.field_id]]
        }
        count = found.rows.num_rows
        positions = np.arange(found.first_row, found.first_row + count, dtype=np.int64)
        arrays = []
        for field, target in zip(self.projection.fields, wanted, strict=True):
            if is_reserved(field.field_id):
                arrays.append(metadata_array(field, self.task, self.spec, positions, deleted=deleted, stored=stored))
            else:
                arrays += self.projector.struct(rows.column, places, (field,), (target,), count)
        return _batch(arrays, wanted, count)


def _ahead(batches: Iterator[StoredBatch]) -> Iterator[StoredBatch]:
    """The batches, the next one being read by another thread while this one loses its deleted rows."""
    with ThreadPoolExecutor(1, thread_name_prefix="icefloe-ahead") as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch


def _joined(batches: Iterator[StoredBatch], rows: int) -> Iterator[StoredBatch]:
    """Batches that follow each other in the file joined until they have so many rows."""
    waiting: list[StoredBatch] = []
    count = 0
    for batch in batches:
        if waiting and (count >= rows or waiting[0].first_row + count != batch.first_row):
            yield _one(waiting)
            waiting, count = [], 0
        waiting.append(batch)
        count += batch.rows.num_rows
    if waiting:
        yield _one(waiting)


def _one(batches: list[StoredBatch]) -> StoredBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].rows.num_columns:
        return StoredBatch(batches[0].first_row, without_columns(sum(batch.rows.num_rows for batch in batches)))
    return StoredBatch(batches[0].first_row, pa.concat_batches([batch.rows for batch in batches]))


def _check_ids(stored: StoredFile, path: str, fields: Iterable[NestedField], constants: Mapping[int, Any]) -> None:
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


def _batch(arrays: list[Any], schema: Any, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else without_columns(rows)
