"""`read_task`: read the live rows of a data file that match the filter, as Arrow batches of the projected schema.

`stored_file.py` reads the columns as they are stored, `projection.py` converts them to the table's schema, `deletes/delete_loader.py` loads the deletes that
apply, and `metadata_columns_of_rows.py` computes metadata columns.
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
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored_batch import RowTest, StoredBatch, decode_dictionaries, filter_batch, without_columns
from icefloe.datafile.stored_file import StoredFile, opened_stored_file
from icefloe.errors import DataFileFormatError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import mask_array
from icefloe.spec.expressions.bind import filter_field_ids, predicates, simplify
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import DELETED, LINEAGE_COLUMNS, is_reserved
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema, fields_to_read, select_fields
from icefloe.spec.types import NestedField

# The maximum of rows in a joined batch. Looking up a batch in a set of equality deletes costs time for each deleted key, so batches are joined up to that
# number.
MAX_JOINED_ROWS, MAX_JOINED_BYTES = 1_048_576, 128 * 1024 * 1024
# Rows in a batch for each literal of an IN: the literals are hashed for each batch, so that longer lists need longer batches.
_ROWS_FOR_LITERAL = 4
# The number of literals up to which an IN is tested on its own columns first, and again on the rows that are read then.
_MOST_TESTED_TWICE = 10_000
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
    file_deletes: FileDeletes | None = None,
    has_record_count: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the task's rows in the file's order, as batches of the projection's Arrow schema. The file is opened when the first batch is requested.

    A column that the file lacks has the value of its identity partition, or its initial default, or null. Deleted rows are skipped, unless the projection
    contains the metadata column `_deleted_mask`, which is true for them.

    Args:
        io: Storage of the data file and its delete files.
        task: The file, or a split of it, with its delete files.
        schema: The table schema that `projection` is a part of.
        projection: The columns to return, in this order; metadata columns may be among them.
        specs: Partition specs of the table, by id.
        row_filter: A filter bound to `schema`; None for the task's residual.
        name_mapping: Field ids for the columns of a file without field ids.
        deletes: Loader that caches delete files for other tasks of the same scan.
        file_deletes: The rows to skip; None for those that the task's delete files delete.
        has_record_count: False if the file has no manifest entry, and the number of its rows is unknown.

    Returns:
        Batches of at least one row.

    Raises:
        NoSuchFileError: The file, or a delete file, does not exist.
        DataFileFormatError: The file is damaged, does not match its manifest entry, contains values that the schema does not allow, or has no field ids while
            there is no name mapping.
        UnsupportedFeatureError: The file is encrypted, or its format cannot be read.
        PuffinFormatError: A deletion vector is damaged, or does not match its manifest entry.

    Spec: Scan Planning; Column Projection; Row-level Deletes; Row Lineage.
    """
    row_filter = task.residual if row_filter is None else row_filter
    if isinstance(row_filter, AlwaysFalse):
        return
    if file_deletes is None:
        loader = deletes or DeleteLoader(io, schemas=(schema,), name_mapping=name_mapping)
        file_deletes = loader.deletes_of(task, schema) if task.delete_files else _NOTHING_DELETED
    data_columns = Schema(*(field for field in projection.fields if not is_reserved(field.field_id)))
    constants = identity_constants(specs[task.spec_id], task.file.partition)
    with opened_stored_file(io, task, name_mapping, has_record_count=has_record_count) as stored:
        rows = _TaskRows(
            task=task,
            spec=specs[task.spec_id],
            projection=projection,
            fields=fields_to_read(schema, data_columns, filter_field_ids(row_filter)),
            row_filter=row_filter,
            deletes=file_deletes,
            projector=Projector(task.file.file_path, constants, stored.floors_nanoseconds),
        )
        _check_ids(stored, task.file.file_path, rows.columns, constants)
        yield from rows.batches(stored)


@dataclass(frozen=True, kw_only=True)
class _TaskRows:
    """A reader of the rows of one scan task. `fields` are the table's columns that the projection or the filter needs."""

    task: FileScanTask
    spec: PartitionSpec
    projection: Schema
    fields: tuple[NestedField, ...]
    row_filter: BooleanExpression
    deletes: FileDeletes
    projector: Projector

    @property
    def columns(self) -> tuple[NestedField, ...]:
        """The columns of the table that must be read, including the key columns of equality deletes."""
        return (*self.fields, *(field for keys in self.deletes.equality for field in keys.fields))

    def batches(self, stored: StoredFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches of the projection's Arrow schema."""
        projected_schema = schema_to_arrow(self.projection)
        read_schema = schema_to_arrow(Schema(*self.fields))
        keeps_deleted = DELETED.field_id in self.projection
        filter_metadata = tuple(
            {leaf.field.field_id: leaf.field for leaf in predicates(self.row_filter) if is_reserved(leaf.field.field_id)}.values()
        )
        field_ids = {field.field_id for field in (*self.projection.fields, *filter_metadata)}
        lineage = [field for field in LINEAGE_COLUMNS if field.field_id in field_ids and self.task.file.first_row_id is not None]
        # Pruning uses the filter without its terms on metadata columns, which have no statistics.
        pruning_filter = simplify(
            self.row_filter, {leaf: True for leaf in predicates(self.row_filter) if leaf.field in filter_metadata}.get
        )
        key_count = max((keys.rows for keys in self.deletes.equality), default=0)
        joined_rows = min(max(key_count, _ROWS_FOR_LITERAL * self._set_size), MAX_JOINED_ROWS)
        row_test = None if filter_metadata else self._row_test()
        batches = stored.batches((*self.columns, *lineage), pruning_filter, row_test, None if keeps_deleted else self.deletes.positions)
        if self.task.delete_files:
            batches = _read_ahead(batches)
        if self._needs_positions_alone:
            yield from self._live_rows(batches, read_schema)
            return
        for stored_batch in _join_batches(map(decode_dictionaries, batches), joined_rows):
            rows = self._project(stored_batch, self.fields, read_schema)
            deleted = self._deleted_mask(stored_batch)
            table = self._with_metadata(rows, stored_batch, deleted, lineage, filter_metadata) if filter_metadata else rows
            keep = None if isinstance(self.row_filter, AlwaysTrue) else arrow_mask(self.row_filter, table)
            if deleted is not None and not keeps_deleted:
                live = mask_array(~deleted)
                keep = live if keep is None else pc.and_(keep, live)
            kept_rows = stored_batch.rows.num_rows if keep is None else keep.true_count
            if not kept_rows:
                continue
            batch = (
                rows if self.fields == self.projection.fields else self._projection(rows, stored_batch, deleted, lineage, projected_schema)
            )
            yield batch if kept_rows == batch.num_rows else filter_batch(batch, keep)

    @property
    def _set_size(self) -> int:
        """The number of literals in the longest IN of the filter."""
        return max((len(leaf.values) for leaf in predicates(self.row_filter)), default=0)

    def _row_test(self) -> RowTest | None:
        """Return the filter as a test of its own columns. With it the reader decides where it must read the other columns.

        None without a filter, and for an IN with very many literals: most batches would have a matching row, so that the test would save nothing.
        """
        if isinstance(self.row_filter, AlwaysTrue) or self._set_size > _MOST_TESTED_TWICE:
            return None
        fields = select_fields(self.fields, filter_field_ids(self.row_filter))
        schema = schema_to_arrow(Schema(*fields))
        return RowTest(fields, lambda batch: arrow_mask(self.row_filter, self._project(decode_dictionaries(batch), fields, schema)))

    @property
    def _needs_positions_alone(self) -> bool:
        """Whether only the position of a row decides if it is returned: there is no filter, no equality delete and no column beyond the read ones."""
        is_plain = isinstance(self.row_filter, AlwaysTrue) and self.fields == self.projection.fields
        return is_plain and not self.deletes.equality

    def _live_rows(self, batches: Iterable[StoredBatch], arrow: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not deleted; only these are converted to the table's schema."""
        for stored_batch in batches:
            deleted = self._deleted_mask(stored_batch)
            rows = decode_dictionaries(stored_batch).rows if deleted is None else filter_batch(stored_batch.rows, mask_array(~deleted))
            if rows.num_rows:
                yield self._project(StoredBatch(stored_batch.first_row, rows), self.fields, arrow)

    def _project(self, stored_batch: StoredBatch, fields: tuple[NestedField, ...], arrow: Any) -> pa.RecordBatch:
        rows = stored_batch.rows
        arrays = self.projector.struct(rows.column, columns_by_id(rows.schema), fields, arrow, rows.num_rows)
        return _batch(arrays, arrow, rows.num_rows)

    def _with_metadata(
        self,
        rows: pa.RecordBatch,
        stored_batch: StoredBatch,
        deleted: NDArray[np.bool_] | None,
        lineage: Iterable[NestedField],
        filter_metadata: tuple[NestedField, ...],
    ) -> pa.RecordBatch:
        """Return the rows together with the metadata columns that the filter tests."""
        projection = Schema(*filter_metadata)
        metadata = replace(self, projection=projection)._projection(rows, stored_batch, deleted, lineage, schema_to_arrow(projection))
        return pa.RecordBatch.from_arrays([*rows.columns, *metadata.columns], names=[*rows.schema.names, *metadata.schema.names])

    def _deleted_mask(self, stored_batch: StoredBatch) -> NDArray[np.bool_] | None:
        """Return a mask of the deleted rows of a batch; None if no row is deleted."""
        count = stored_batch.rows.num_rows
        positions = self.deletes.positions
        deleted = None if positions is None else positions.deleted_rows(stored_batch.first_row, count)
        for keys in self.deletes.equality:
            matching = keys.deleted_rows(self._project(stored_batch, keys.fields, schema_to_arrow(Schema(*keys.fields))))
            deleted = matching if deleted is None else deleted | matching
        return deleted if deleted is not None and deleted.any() else None

    def _projection(
        self,
        rows: pa.RecordBatch,
        stored_batch: StoredBatch,
        deleted: NDArray[np.bool_] | None,
        lineage: Iterable[NestedField],
        schema: Any,
    ) -> pa.RecordBatch:
        """Return the columns of the projection in its order: table columns, without those that only the filter needed, and metadata columns."""
        places = columns_by_id(rows.schema)
        stored_places = columns_by_id(stored_batch.rows.schema)
        stored = {
            field.field_id: self.projector.array(stored_batch.rows.column(place), arrow, field, pa.int64())
            for field in lineage
            if field.field_id in stored_places
            for place, arrow in [stored_places[field.field_id]]
        }
        count = stored_batch.rows.num_rows
        positions = np.arange(stored_batch.first_row, stored_batch.first_row + count, dtype=np.int64)
        arrays = []
        for field, target in zip(self.projection.fields, schema, strict=True):
            if is_reserved(field.field_id):
                arrays.append(metadata_array(field, self.task, self.spec, positions, deleted=deleted, stored=stored))
            else:
                arrays += self.projector.struct(rows.column, places, (field,), (target,), count)
        return _batch(arrays, schema, count)


def _read_ahead(batches: Iterator[StoredBatch]) -> Iterator[StoredBatch]:
    """Yield the batches. A second thread reads the next batch while deleted rows are removed from the current one."""
    with ThreadPoolExecutor(1, thread_name_prefix="icefloe-read-ahead") as thread:
        future = thread.submit(next, batches, None)
        while (batch := future.result()) is not None:
            future = thread.submit(next, batches, None)
            yield batch


def _join_batches(batches: Iterator[StoredBatch], rows: int) -> Iterator[StoredBatch]:
    """Join adjacent batches until a joined batch has at least `rows` rows or `MAX_JOINED_BYTES` bytes, and yield the joined batches."""
    waiting: list[StoredBatch] = []
    count = length = 0
    for batch in batches:
        is_enough = count >= rows or length >= MAX_JOINED_BYTES
        if waiting and (is_enough or waiting[0].first_row + count != batch.first_row):
            yield _concatenate(waiting)
            waiting, count, length = [], 0, 0
        waiting.append(batch)
        count += batch.rows.num_rows
        length += batch.rows.nbytes
    if waiting:
        yield _concatenate(waiting)


def _concatenate(batches: list[StoredBatch]) -> StoredBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].rows.num_columns:
        return StoredBatch(batches[0].first_row, without_columns(sum(batch.rows.num_rows for batch in batches)))
    return StoredBatch(batches[0].first_row, pa.concat_batches([batch.rows for batch in batches]))


def _check_ids(stored: StoredFile, path: str, fields: Iterable[NestedField], constants: Mapping[int, Any]) -> None:
    if len(stored.schema) and not has_ids(stored.schema) and any(field.field_id not in constants for field in fields):
        raise DataFileFormatError(
            f"the columns of {path} have no field ids, and the table has no name mapping for them",
            path=path,
            next_step="set the table property schema.name-mapping.default, or rewrite the file with field ids",
        )


def identity_constants(spec: PartitionSpec, partition: tuple[Any, ...]) -> dict[int, Any]:
    """Return the physical values that identity partition fields give to their source columns in all rows of a file, by field id. Spec: Column Projection."""
    return {
        field.source_id: value
        for field, value in zip(spec.fields, partition, strict=True)
        if isinstance(field.transform, IdentityTransform)
    }


def _batch(arrays: list[Any], schema: Any, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else without_columns(rows)
