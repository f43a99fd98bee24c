"""The upsert of the in-process engine: joins the source's rows with the table's rows by their keys, and writes new and changed rows.

The source's keys are in memory, the table's key columns are read file by file, and other columns are read only from files with matching rows.
`datafile/row_keys.py` has the keys, `datafile/same_values.py` compares rows, and `rows/upsert.py` commits the result.
Spec: Row Lineage; Identifier Field IDs.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_sorted
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.row_keys import key_columns
from icefloe.datafile.same_values import differing
from icefloe.operations.engine import READ_THREADS, UpsertedRows, UpsertRequest
from icefloe.operations.upsert_source import ArrowRows, ambiguous_keys, shown_keys
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numbers_array, numpy_of, positions_array
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import POS, with_lineage
from icefloe.spec.schema.schema import Schema, select_fields
from icefloe.spec.schema.schema_cast import cast_to_schema

Positions = NDArray[np.int64]
# The number of table rows whose key columns are in memory at a time; if the source has more rows, its number of rows. Groups are large, because each look-up
# numbers the source's keys again.
GROUP_ROWS = 1_048_576


def upsert_arrow(request: UpsertRequest) -> UpsertedRows:
    """Join Arrow rows with the rows of the planned files, and write the result; the `UpsertSource.join` of the in-process engine.

    Files are read in parallel. The table's keys are read in groups of files, of which only one is in memory at a time.
    """
    source: ArrowRows = request.source.rows
    join = _Join(request, source)
    if source.keys.count:
        with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="icefloe-upsert") as pool:
            for group in _groups(request.tasks, max(GROUP_ROWS, source.table.num_rows)):
                join.match(group, pool)
    join.check_single()
    return UpsertedRows(
        positions=tuple(join.positions),
        added=tuple(join.write()),
        updated=int(join.updated.sum()),
        inserted=int((join.matches == 0).sum()) if request.inserts else 0,
        unchanged=int((join.matches > 0).sum() - join.updated.sum()),
    )


@dataclass(slots=True)
class _Join:
    """An upsert's join in progress.

    Attributes:
        request: The upsert.
        source: The source's rows.
        matches: For each source row, the number of table rows with its key.
        updated: For each source row, whether it replaces a table row, because a value differs.
        row_ids: For each source row, the row id of the replaced table row; -1 if there is none.
        positions: For each task, the positions of replaced rows in its file.
        deletes: Loads the deletes of the files.
    """

    request: UpsertRequest
    source: ArrowRows
    matches: NDArray[np.int32] = field(init=False)
    updated: NDArray[np.bool_] = field(init=False)
    row_ids: NDArray[np.int64] = field(init=False)
    positions: list[Positions] = field(init=False)
    deletes: DeleteLoader = field(init=False)

    def __post_init__(self) -> None:
        rows, scan = self.source.table.num_rows, self.request.scan
        self.matches, self.updated, self.row_ids = np.zeros(rows, np.int32), np.zeros(rows, np.bool_), np.full(rows, -1, np.int64)
        self.positions = [np.empty(0, np.int64) for _ in self.request.tasks]
        self.deletes = DeleteLoader(scan.io, schemas=scan.schemas, name_mapping=scan.name_mapping)

    def match(self, group: Sequence[int], pool: ThreadPoolExecutor) -> None:
        """Read the keys of a group of tasks, given by index, join them with the source's keys, and compare the matching rows if matches are updated."""
        keys_of_tasks = list(pool.map(self._keys_of, group))
        columns = [pa.concat_arrays([keys[place] for _, keys in keys_of_tasks]) for place in range(len(self.request.key_ids))]
        rows = self.source.keys.rows_of(columns)
        bounds = np.cumsum([0, *(len(positions) for positions, _ in keys_of_tasks)])
        matches = []
        for index, (positions, _), start in zip(group, keys_of_tasks, bounds[:-1].tolist(), strict=True):
            source_rows = rows[start : start + len(positions)]
            places = np.flatnonzero(source_rows >= 0)
            if len(places):
                np.add.at(self.matches, source_rows[places], 1)
                matches.append((index, positions, places, source_rows[places]))
        if self.request.updates:
            for _ in pool.map(self._compare, matches):
                pass

    def check_single(self) -> None:
        """Raise `InvalidInputError` if matches are updated and a source row matches several table rows."""
        several = np.flatnonzero(self.matches > 1)
        if self.request.updates and len(several):
            schema, key_ids = self.request.scan.schema, self.request.key_ids
            names = [schema.find_column_name(field_id) or "" for field_id in key_ids]
            raise ambiguous_keys(self.request.scan.table_name, names, shown_keys(self.source.table, schema, key_ids, several), len(several))

    def write(self) -> list[DataFile]:
        """Write data files with the updated rows, which keep their row ids, and with the rows to insert, which get new row ids."""
        target, schema = self.request.target, self.request.scan.schema
        chosen = self.updated | (self.matches == 0) if self.request.inserts else self.updated
        if not chosen.any():
            return []
        rows = self.source.table if chosen.all() else self.source.table.take(positions_array(np.flatnonzero(chosen)))
        if self.request.keeps_row_ids and self.updated.any():
            form = Schema(*with_lineage(schema.fields), schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)
            ids = self.row_ids[chosen]
            lineage = (numbers_array(ids, pa.int64(), ids >= 0), pa.nulls(len(ids), pa.int64()))
            for added, column in zip(form.fields[-2:], lineage, strict=True):
                rows = rows.append_column(added.name, column)
            target = replace(target, schema=form)
            rows = cast_to_schema(rows, form)
        return write_sorted(target, rows, partition_id=0, task_id=0)

    def _keys_of(self, index: int) -> tuple[Positions, list[Any]]:
        """Read the file of the task with this index: return the positions of its live rows, and the key columns of these rows as Arrow arrays."""
        scan = self.request.scan
        fields = select_fields(scan.schema.fields, set(self.request.key_ids))
        form = Schema(*fields, POS)
        batches = list(self._read(self.request.tasks[index], form))
        table = pa.Table.from_batches(batches, schema=schema_to_arrow(form)).combine_chunks()
        return numpy_of(table.column(len(fields))), key_columns(table, form, self.request.key_ids)

    def _compare(self, match: tuple[int, Positions, Positions, Positions]) -> None:
        """Compare the matching rows of one task with their source rows, and record the rows that differ.

        Args:
            match: The index of the task; the positions of the live rows of its file; the indices, among the live rows, of those that match; and for each
                matching row the index of its source row.
        """
        index, positions, places, rows = match
        schema = self.request.scan.schema
        form = Schema(*with_lineage(schema.fields))
        taken = []
        start = 0
        for batch in self._read(self.request.tasks[index], form):
            low, high = np.searchsorted(places, (start, start + batch.num_rows))
            taken.append(batch.take(positions_array(places[low:high] - start)))
            start += batch.num_rows
        stored = pa.Table.from_batches(taken).combine_chunks()
        changed = np.zeros(len(rows), np.bool_)
        source_rows = positions_array(rows)
        for place, column in enumerate(schema.fields):
            if column.field_id not in self.request.key_ids:
                changed |= differing(stored.column(place), self.source.table.column(place).take(source_rows))
        self.positions[index] = positions[places[changed]]
        self.updated[rows[changed]] = True
        if self.request.keeps_row_ids:
            ids = stored.column(len(schema.fields))
            self.row_ids[rows[changed]] = numpy_of(pc.fill_null(ids, -1))[changed]

    def _read(self, task: FileScanTask, projection: Schema) -> Iterator[pa.RecordBatch]:
        scan = self.request.scan
        return read_task(
            scan.io,
            task,
            schema=scan.schema,
            projection=projection,
            specs=scan.specs,
            name_mapping=scan.name_mapping,
            deletes=self.deletes,
        )


def _groups(tasks: Sequence[FileScanTask], rows: int) -> Iterator[list[int]]:
    """Group the tasks so that each group, except the last, has at least `rows` rows. Yield for each group the indices of its tasks."""
    group: list[int] = []
    count = 0
    for index, task in enumerate(tasks):
        group.append(index)
        count += task.file.record_count
        if count >= rows:
            yield group
            group, count = [], 0
    if group:
        yield group
