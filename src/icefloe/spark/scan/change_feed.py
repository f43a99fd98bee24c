"""The change feed as a DataFrame: the rows that snapshots changed, read in Spark's tasks, by Spark's own scan where it can read the files.

The files of all snapshots of the range are read together: what a file contains of a change is constant within the file. Added and removed files are read as in
any scan. Of files that both snapshots have, the driver finds the positions of the changed rows in the delete files, and Spark's scan returns only these rows.
Other files are read by Python in tasks, as in this process (`icefloe.operations.change_feed`), which also pairs rows in the same way.
Spec: Snapshots; Row-level Deletes; Row Lineage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import FrozenBitMap64
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import LongType, StructField, StructType

from icefloe.operations.change_feed.change_columns import CHANGE_COLUMNS
from icefloe.operations.change_feed.change_scan import ChangeScan, DeduplicationMode, SnapshotChanges, change_task
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT, ChangedFileReader
from icefloe.operations.change_feed.paired_rows import ChangeTask, RangeTask, SnapshotTask
from icefloe.operations.change_feed.row_pairs import UPDATE_AFTER, UPDATE_BEFORE, Identity
from icefloe.operations.engine import ScanRequest
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.change_planner import ChangedFile
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan, join_plans
from icefloe.spark.bridge.gateway import executors_have_classes
from icefloe.spark.scan.change_tasks import ERROR, HASH, ChangeTaskReader, HashAdder, PairCanceller, PairedTaskReader, UncopiedTaskReader
from icefloe.spark.scan.filter_to_spark import filter_to_column
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX, position_name_conflict
from icefloe.spark.scan.native_scan import native_scan, stored_bytes
from icefloe.spark.scan.position_deletes import MOST_DELETE_BYTES, MOST_POSITIONS, DeletedRows, position_delete_bytes
from icefloe.spark.scan.python_scan import BYTES_PER_TASK, python_rows
from icefloe.spark.scan.read_strategy import grouped_files
from icefloe.spark.types.spark_types import column_named, differs_by_case, field_inside, quote_name, row_width, schema_to_struct
from icefloe.spec.expressions.bind import bind
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.puffin.deletion_vector import DeletionVector
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import (
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    COMMIT_SNAPSHOT_ID,
    COMMIT_TIMESTAMP,
    DELETED,
    LAST_UPDATED_SEQUENCE_NUMBER,
    ROW_ID,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_history import required_fields_absent_from_files
from icefloe.spec.temporal_arrays import as_numbers
from icefloe.spec.types import GeographyType, GeometryType, IcebergType, MapType, NestedField, UnknownType, VariantType, children

# The columns of the planned files with values that are constant in the changes of a file.
_CONSTANTS = (*CHANGE_COLUMNS, COMMIT_TIMESTAMP)
# A column of the planned files: the place of the file's positions in a list.
_PLACE = "positions"
# Columns that exist only while rows are paired.
_HELPERS = tuple(f"{OWN_PREFIX}{name}" for name in ("deletes", "inserts", "place"))
_PAIRED, _IS_CHANGED = (f"{OWN_PREFIX}{name}" for name in ("paired", "changed"))
# The estimated bytes of the rows that one task compares. A worker has them in memory about three times.
MOST_COMPARED_BYTES = 256 * 1024 * 1024
# The bytes of removed and added files that one task reads side by side, batch after batch.
MOST_BYTES_SIDE_BY_SIDE = 1024 * 1024 * 1024
_MOST_SHOWN = 200  # characters of the values in an error
_WHY_PYTHON = "changed rows are selected and compared"  # for EXPLAIN
_NEXT_STEP = "\n  Next: name identifier columns that are unique"


def changes_frame(spark: SparkSession, scan: ChangeScan, plans: Sequence[SnapshotChanges] | None = None) -> DataFrame:
    """Return the rows of a scan of changes as a lazy DataFrame, in any order. The files are planned, and delete files are read, now.

    Args:
        spark: A classic session.
        scan: The scan.
        plans: The planned changes; None for those of the scan's snapshots.

    Raises:
        InvalidInputError: A column does not exist; updates cannot be computed; or a snapshot removed rows, and its parent is expired.
        NoSuchFileError, FormatError: A manifest or delete file is missing or damaged.
        UnsupportedTypeError: This Spark has no type for a column.
        EngineError: The session has no JVM.
    """
    if not scan.projection().fields:  # Arrow batches without columns have no row count
        return changes_frame(spark, scan.select(CHANGE_ORDINAL.name), plans).select()
    return _ChangeFrame(spark, scan).frame(list(scan.plan()) if plans is None else plans)


@dataclass(frozen=True)
class _ChangeFrame:
    """The DataFrame of one scan of changes."""

    spark: SparkSession
    scan: ChangeScan

    def frame(self, plans: Sequence[SnapshotChanges]) -> DataFrame:
        scan, projection = self.scan, self.scan.projection()
        together, others = self._divide(plans)
        frames = [] if not together else [self._rows_of_tasks(together)]
        # Of a snapshot that only deleted or only inserted rows, none is compared.
        compared = [changes for changes in others if self._is_net or changes.plan.may_copy_rows]
        if compared:
            frames.append(self._paired_rows(compared))
        others = [changes for changes in others if not (self._is_net or changes.plan.may_copy_rows)]
        if others or not frames:
            frames.append(self._filter_pairs(self._read(others, scan.columns_to_read())))
        if DELETED.name in projection.names:
            frames = [frame.withColumn(DELETED.name, F.lit(False)) for frame in frames]
        return reduce(DataFrame.unionAll, (frame.select(*map(quote_name, projection.names)) for frame in frames))

    @property
    def _is_net(self) -> bool:
        return self.scan.deduplication is DeduplicationMode.NET_CHANGES

    def _divide(self, plans: Sequence[SnapshotChanges]) -> tuple[list[RangeTask], Sequence[SnapshotChanges]]:
        """Return tasks for the snapshots whose rows are compared in one task each, and the other snapshots. Net changes need all snapshots in one task."""
        scan = self.scan
        if self._is_net:
            if not plans or not self._fits_a_task(plans):
                return [], plans
            return [RangeTask(snapshots=tuple(map(scan.snapshot_task, plans)))], ()
        together: list[SnapshotChanges] = []
        apart: list[SnapshotChanges] = []
        for changes in plans:
            is_compared = changes.plan.may_copy_rows and (scan.computes_updates or scan.may_copy_rows(changes.plan))
            (together if is_compared and self._fits_a_task([changes]) else apart).append(changes)
        return [RangeTask(snapshots=(scan.snapshot_task(changes),)) for changes in together], apart

    def _fits_a_task(self, plans: Sequence[SnapshotChanges]) -> bool:
        """Return whether one task can read and compare the changes of snapshots, which takes less than a shuffle of their rows."""
        width = row_width(self.scan.schema.fields)
        rows = sum(changes.plan.most_rows for changes in plans)
        return sum(changes.plan.bytes for changes in plans) <= BYTES_PER_TASK and rows * width <= MOST_COMPARED_BYTES

    def _rows_of_tasks(self, tasks: Sequence[RangeTask]) -> DataFrame:
        """Return the changes that tasks read, compare and label in Python."""
        reader = PairedTaskReader(self.scan.pairing())
        size = sum(task.length for task in tasks)
        rows = python_rows(self.spark, tasks, reader, self.scan.table_name, _WHY_PYTHON, size)
        if not self.scan.computes_updates:
            return rows
        if CHANGE_TYPE.name not in self.scan.projection().names:  # the error is raised where the kinds of changes are read
            return rows.drop(ERROR.name)
        error, kind = column_named(ERROR.name), column_named(CHANGE_TYPE.name)
        return rows.withColumn(CHANGE_TYPE.name, F.when(error.isNotNull(), F.raise_error(error).cast("string")).otherwise(kind)).drop(
            ERROR.name
        )

    def _paired_rows(self, plans: Sequence[SnapshotChanges]) -> DataFrame:
        """Return the changed rows of snapshots, which Spark brings together by shuffles."""
        scan = self.scan
        columns = scan.columns_to_read()
        rows = self._without_copied_rows(plans, columns)
        if self._is_net:
            compared = scan.pairing().net_columns(lacks_row_ids=any(changes.plan.lacks_row_ids for changes in plans))
            rows = cancelled_by_value(rows, compared, columns.fields)
        if scan.computes_updates:
            rows = with_updates(rows, scan.identity, scan.table_name, of_each_snapshot=not self._is_net)
        return self._filter_pairs(rows)

    def _filter_pairs(self, rows: DataFrame) -> DataFrame:
        scan = self.scan
        if not scan.filters_pairs:
            return rows
        columns = scan.columns_to_read().fields
        names = {column.name: column.name for column in columns}
        types = {field.name: field.dataType for field in rows.schema.fields} if differs_by_case(columns) else {}
        return rows.where(filter_to_column(bind(scan.row_filter, scan.metadata.schema(), scan.case_sensitive), names, types))

    def _without_copied_rows(self, plans: Sequence[SnapshotChanges], columns: Schema) -> DataFrame:
        """Return the changed rows of all snapshots, without rows that a snapshot only copied if they are left out."""
        scan = self.scan
        copying = [changes for changes in plans if scan.may_copy_rows(changes.plan)]
        by_value = [changes for changes in copying if scan.compares_values(changes.plan)]
        by_id = [changes for changes in copying if not scan.compares_values(changes.plan)]
        others = [changes for changes in plans if not scan.may_copy_rows(changes.plan)]
        frames = [self._read(others, columns)] if others or not copying else []
        if by_id:
            frames.append(_cancelled_by_id(self._read_uncopied(by_id, columns)))
        if by_value:
            rows = self._read_uncopied(by_value, scan.all_columns(columns))
            compared = [*scan.metadata.schema().names, COMMIT_SNAPSHOT_ID.name]
            frames.append(cancelled_by_value(rows, compared, scan.all_columns(columns).fields))
        names = [*columns.names, *(column.name for column in scan.constant_columns)]
        return reduce(DataFrame.unionAll, (frame.select(*map(quote_name, names)) for frame in frames))

    def _read_uncopied(self, plans: Sequence[SnapshotChanges], columns: Schema) -> DataFrame:
        """Return the changed rows of snapshots that may have copied rows, with some columns and those of the change, before rows are paired.

        Where tasks can read the removed and added files of a partition side by side, most copied rows are left out there, and no shuffle has them.
        """
        tasks: list[SnapshotTask] = []
        others = []
        for changes in plans:
            parts = _by_partition(self.scan.snapshot_task(changes))
            if max(part.length for part in parts) <= MOST_BYTES_SIDE_BY_SIDE:
                tasks += parts
            else:
                others.append(changes)
        frames = [self._read(others, columns)] if others else []
        if tasks:
            reader = UncopiedTaskReader(self.scan.pairing(), columns)
            size = sum(task.length for task in tasks)
            frames.append(python_rows(self.spark, tasks, reader, self.scan.table_name, _WHY_PYTHON, size))
        return reduce(DataFrame.unionAll, frames)

    def _read(self, plans: Sequence[SnapshotChanges], columns: Schema) -> DataFrame:
        """Return the changed rows of some snapshots, with some columns and those of the change, before rows are paired."""
        projection = Schema(*columns.fields, *self.scan.constant_columns)
        reader = ChangeTaskReader(self.scan.reader(columns), projection)
        tasks: list[ChangeTask] = []
        frames = list(self._rows_of_whole_files(plans, projection, tasks))
        frames += self._rows_at_positions(reader.reader, plans, projection, tasks)
        if tasks:
            size = stored_bytes(_sizes(tasks), columns.fields, reader.reader.schema, deleted=0)
            frames.append(python_rows(self.spark, tasks, reader, self.scan.table_name, _WHY_PYTHON, size))
        if not frames:
            frames.append(self.spark.createDataFrame([], schema_to_struct(projection, field_ids=False)))
        return reduce(DataFrame.unionAll, frames)

    def _rows_of_whole_files(self, plans: Sequence[SnapshotChanges], projection: Schema, tasks: list[ChangeTask]) -> Iterator[DataFrame]:
        """Yield the rows of files that only one of two snapshots has; files that Spark's own scan cannot read are added to `tasks`."""
        whole = [
            _with_constants(plan, changes.constants(kind))
            for changes in plans
            for plan, kind in ((changes.plan.removed, DELETE), (changes.plan.added, INSERT))
            if plan.parts
        ]
        if not whole:
            return
        request = self._request(join_plans(whole), projection)
        needed, groups, _ = grouped_files(self.spark, request, 1.0, None)
        for group in groups:
            if not group.reason:
                yield native_scan(self.spark, request, needed, group)
            else:
                tasks += (task for part in group.parts for task in _tasks_of(part))

    def _rows_at_positions(
        self, reader: ChangedFileReader, plans: Sequence[SnapshotChanges], projection: Schema, tasks: list[ChangeTask]
    ) -> Iterator[DataFrame]:
        """Yield the changed rows of files that two snapshots have; files that Spark's own scan cannot read so are added to `tasks`."""
        files = _FilesWithPositions()
        for changes in plans:
            tasks += files.add(reader, changes)
        if not files.plans:
            return
        can_skip_rows = executors_have_classes(self.spark) and not position_name_conflict(self.scan.metadata.schemas)
        request = self._request(join_plans(files.plans), projection)
        needed, groups, _ = grouped_files(self.spark, request, 1.0, None)
        is_changed = replace(DELETED, name=_IS_CHANGED)
        for group in groups:
            places = group.files[_PLACE].to_pylist()
            vectors = [files.positions[place] for place in places]
            if group.reason or not can_skip_rows or any(vector.max() >= MOST_POSITIONS for vector in vectors):
                tasks += files.tasks(places)
                continue
            changed = replace(group, deleted=DeletedRows([DeletionVector(vector) for vector in vectors], only_these=True))
            rows = native_scan(self.spark, replace(request, projection=Schema(*projection.fields, is_changed)), needed, changed)
            yield rows.where(column_named(is_changed.name)).drop(is_changed.name)

    def _request(self, plan: ScanPlan, projection: Schema) -> ScanRequest:
        scan, metadata = self.scan, self.scan.metadata
        schema = metadata.schema()
        return ScanRequest.of_table(
            metadata,
            scan.io,
            scan.table_name,
            plan,
            schema=scan.reader(projection).schema,
            projection=projection,
            row_filter=bind(scan.pushed_filter, schema, scan.case_sensitive),
            may_be_missing=required_fields_absent_from_files(schema.fields, metadata.schemas),
        )


def _by_partition(task: SnapshotTask) -> list[SnapshotTask]:
    """Divide the files of a snapshot by their partitions, if they are more than one task should read."""
    if task.length <= BYTES_PER_TASK:
        return [task]
    parts: dict[tuple[int, str], list[ChangeTask]] = {}
    for file in task.files:
        stored = file.file.task.file
        parts.setdefault((stored.spec_id, repr(stored.partition)), []).append(file)
    return [replace(task, files=tuple(files)) for files in parts.values()]


class _FilesWithPositions:
    """Files of several snapshots of which rows at some positions were changed.

    The driver reads the delete files of the range up to `MOST_DELETE_BYTES`, as it does for a query, and keeps the positions. Tasks read the others.

    Attributes:
        plans: The files, with the columns of the change and their place in the other lists; only equality deletes apply to them.
        positions: The positions of the changed rows.
    """

    def __init__(self) -> None:
        self.plans: list[ScanPlan] = []
        self.positions: list[FrozenBitMap64] = []
        # The snapshot, the number of the file among its files with other deletes, and the kind of the change.
        self._sources: list[tuple[SnapshotChanges, int, str]] = []
        self._delete_bytes = 0

    def add(self, reader: ChangedFileReader, changes: SnapshotChanges) -> Iterator[ChangeTask]:
        """Add the files of a snapshot.

        Yield a task for each file whose positions the driver does not find: its equality deletes differ, so that its columns must be read; or there are too
        many bytes of position deletes.
        """
        plan, changed = changes.plan.after, list(changes.plan.files_with_other_deletes())
        size = position_delete_bytes([*changes.plan.before.delete_files, *plan.delete_files])
        if self._delete_bytes + size > MOST_DELETE_BYTES:
            yield from (change_task(file, changes, [DELETE, INSERT]) for file in changed)
            return
        self._delete_bytes += size
        chosen: dict[str, list[tuple[int, int]]] = {DELETE: [], INSERT: []}  # the number of the file, and the place
        for number, by_position in enumerate(in_threads(lambda file: _changes_by_position(reader, file), changed)):
            if by_position is None:
                yield change_task(changed[number], changes, [DELETE, INSERT])
                continue
            for kind, positions in zip((DELETE, INSERT), by_position, strict=True):
                if positions:
                    chosen[kind].append((number, len(self.positions)))
                    self.positions.append(positions)
                    self._sources.append((changes, number, kind))
        for kind, pairs in chosen.items():
            self._add_plans(plan, pairs, changes.constants(kind))

    def _add_plans(self, plan: ScanPlan, pairs: Sequence[tuple[int, int]], constants: Mapping[int, Any]) -> None:
        """Add plans of some files of a plan, by pairs of the number of a file and its place."""
        numbers, places = np.array(pairs, np.int64).reshape(-1, 2).T
        start = 0
        for part in plan.parts:
            is_here = (numbers >= start) & (numbers < start + len(part))
            if is_here.any():
                taken = _with_equality_deletes_alone(part.take(numbers[is_here] - start))
                entries = taken.entries.append_column(_PLACE, pa.array(places[is_here]))
                files = replace(plan, parts=(replace(taken, entries=entries),))
                self.plans.append(_with_constants(files.select([np.ones(len(taken), np.bool_)]), constants))
            start += len(part)

    def tasks(self, places: Iterable[int]) -> Iterator[ChangeTask]:
        """Yield the tasks by which Python reads the files at some places."""
        # The kinds of changes, by the number of the snapshot in the range and the number of the file.
        sources: dict[int, dict[int, list[str]]] = {}
        by_ordinal: dict[int, SnapshotChanges] = {}
        for changes, number, kind in map(self._sources.__getitem__, places):
            by_ordinal[changes.ordinal] = changes
            sources.setdefault(changes.ordinal, {}).setdefault(number, []).append(kind)
        for ordinal, kinds in sources.items():
            for number, file in enumerate(by_ordinal[ordinal].plan.files_with_other_deletes()):
                if number in kinds:
                    yield change_task(file, by_ordinal[ordinal], kinds[number])


def _changes_by_position(reader: ChangedFileReader, file: ChangedFile) -> tuple[FrozenBitMap64, FrozenBitMap64] | None:
    if file.before is None or file.after is None:
        raise ValueError("both snapshots have a file with other deletes")
    return reader.changes_by_position(file.before, file.after)


def _with_equality_deletes_alone(part: PlannedFiles) -> PlannedFiles:
    """Return planned files without the position deletes that apply to them."""
    if part.delete_offsets is None or part.delete_indices is None:
        return part
    is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in part.delete_files], np.bool_)[part.delete_indices]
    files = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))[is_equality]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(files, minlength=len(part)))]).astype(np.int64)
    return replace(part, delete_offsets=offsets, delete_indices=part.delete_indices[is_equality])


def _with_constants(plan: ScanPlan, constants: Mapping[int, Any]) -> ScanPlan:
    """Return a plan whose files have columns with the constant values of their changes; see `SnapshotChanges.constants`."""
    parts = []
    for part in plan.parts:
        entries = part.entries
        for column in _CONSTANTS:
            target = schema_to_arrow(Schema(column)).field(0)
            entries = entries.append_column(column.name, pa.repeat(pa.scalar(constants[column.field_id], target.type), len(part)))
        parts.append(replace(part, entries=entries))
    return replace(plan, parts=tuple(parts))


def _tasks_of(part: PlannedFiles) -> Iterator[ChangeTask]:
    """Yield a task for each file of a part that has the columns of the change."""
    columns = [as_numbers(part.entries[column.name].combine_chunks()).to_pylist() for column in _CONSTANTS]
    for task, *values in zip(part.tasks(), *columns, strict=True):
        constants = {column.field_id: value for column, value in zip(_CONSTANTS, values, strict=True)}
        kind = constants[CHANGE_TYPE.field_id]
        file = ChangedFile(before=task, after=None) if kind == DELETE else ChangedFile(before=None, after=task)
        yield ChangeTask(file=file, constants={kind: constants})


def _sizes(tasks: Sequence[ChangeTask]) -> pa.Table:
    files = [task.file.task.file for task in tasks]
    return pa.table(
        {"file_size_in_bytes": [file.file_size_in_bytes for file in files], "record_count": [file.record_count for file in files]}
    )


# ---- pairs of rows ----


def _cancelled_by_id(rows: DataFrame) -> DataFrame:
    """Return changes without the rows that a snapshot only copied: each deleted row cancels one inserted row with the same row id and last update."""
    kind, (deleted, inserted, rank) = column_named(CHANGE_TYPE.name), _HELPERS[:3]
    same_row = Window.partitionBy(*map(column_named, (COMMIT_SNAPSHOT_ID.name, ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name)))
    counted = rows.withColumns(
        {
            deleted: F.count_if(kind == DELETE).over(same_row),
            inserted: F.count_if(kind == INSERT).over(same_row),
            rank: F.row_number().over(same_row.orderBy(kind)),  # deleted rows come first
        }
    )
    deletes, inserts, place = map(column_named, (deleted, inserted, rank))
    cancelled = F.least(deletes, inserts)
    remains = F.when(kind == DELETE, place <= deletes - cancelled).otherwise(place > deletes + cancelled)
    return counted.where(remains).drop(*_HELPERS)


def cancelled_by_value(rows: DataFrame, compared: Sequence[str], columns: Sequence[NestedField]) -> DataFrame:
    """Return changes without pairs of a deleted and an inserted row that are equal in some columns. Python compares them, as in this process.

    Args:
        rows: The changes.
        compared: The names of the compared columns.
        columns: The columns of the rows, without those of the change.
    """
    types = {column.name: column.field_type for column in columns}
    # mapInArrow parses each column name as a path through structs, which a dot in a name would break.
    numbered = {name: f"column_{ordinal}" for ordinal, name in enumerate(rows.columns)}
    parts, compared_here = rows.toDF(*numbered.values()), tuple(numbered[name] for name in compared)
    keys = [numbered[name] for name in compared if name in types and _can_be_hashed(types[name])]
    if not keys:  # Spark has no hash of maps and variants
        with_hash = StructType([*parts.schema.fields, StructField(HASH, LongType(), False)])
        parts, keys = parts.mapInArrow(HashAdder(compared_here), with_hash), [HASH]
    parts = parts.repartition(*map(column_named, keys), *(column_named(numbered[name]) for name in compared if name not in types))
    return parts.drop(HASH).mapInArrow(PairCanceller(tuple(rows.columns), tuple(compared)), rows.schema)


def _can_be_hashed(kind: IcebergType) -> bool:
    if isinstance(kind, MapType | VariantType | GeometryType | GeographyType | UnknownType):
        return False
    return all(_can_be_hashed(member.field_type) for member in children(kind))


def with_updates(rows: DataFrame, identity: Identity, table_name: str, *, of_each_snapshot: bool) -> DataFrame:
    """Return changes with UPDATE_BEFORE and UPDATE_AFTER for a deleted and an inserted row with the same identity.

    If rows cannot be paired, because several have the same identity, the query fails.

    Args:
        rows: The changes.
        identity: What identifies a row.
        table_name: The table, for the error.
        of_each_snapshot: Whether both rows must be changes of one snapshot.
    """
    kind, paired = column_named(CHANGE_TYPE.name), column_named(_PAIRED)
    snapshots = [column_named(COMMIT_SNAPSHOT_ID.name)] if of_each_snapshot else []
    types = {field.name: field.dataType for field in rows.schema.fields}
    rows = rows.withColumn(_PAIRED, F.lit(False))
    if identity.has_ids:
        row_id = column_named(ROW_ID.name)
        rows = _with_pairs(rows, [row_id, *snapshots], row_id.isNotNull(), _several(table_name, {ROW_ID.name: row_id}, snapshots))
    if identity.columns:
        keys = {".".join(path): field_inside(column_named(path[0]), path[1:], types[path[0]]) for path in identity.columns}
        error = None if identity.has_ids else _several(table_name, keys, snapshots)
        rows = _with_pairs(rows, [*keys.values(), *snapshots], ~paired, error)
    label = F.when(kind == DELETE, UPDATE_BEFORE).otherwise(UPDATE_AFTER)
    return rows.withColumn(CHANGE_TYPE.name, F.when(paired, label).otherwise(kind)).drop(_PAIRED)


def _with_pairs(rows: DataFrame, keys: Sequence[Column], can_pair: Column, error: Column | None) -> DataFrame:
    """Set the column `_PAIRED` for pairs of a deleted and an inserted row that are equal in the keys.

    Args:
        rows: The changes.
        keys: The keys.
        can_pair: Whether a row can be one of a pair.
        error: The error where several rows are equal; None if such rows are not paired.
    """
    kind, paired, (deleted, inserted, rank) = column_named(CHANGE_TYPE.name), column_named(_PAIRED), _HELPERS[:3]
    rows = rows.withColumn(rank, can_pair)
    same_row = Window.partitionBy(column_named(rank), *keys)
    rows = rows.withColumns({deleted: F.count_if(kind == DELETE).over(same_row), inserted: F.count_if(kind == INSERT).over(same_row)})
    deletes, inserts = column_named(deleted), column_named(inserted)
    several = (deletes > 1) | (inserts > 1)
    is_pair = column_named(rank) & (deletes > 0) & (inserts > 0)
    paired_now = F.when(is_pair & several, F.lit(False) if error is None else error).otherwise(is_pair)
    return rows.withColumn(_PAIRED, paired | paired_now).drop(*_HELPERS)


def _several(table_name: str, keys: Mapping[str, Column], snapshots: Sequence[Column]) -> Column:
    """Return an expression that raises the error about several rows with the same identity."""
    values = [part for name, key in keys.items() for part in (F.lit(f", {name} = "), F.coalesce(key.cast("string"), F.lit("null")))]
    where = [F.lit("snapshot "), snapshots[0].cast("string"), F.lit(f" of {table_name}")] if snapshots else [F.lit(table_name)]
    text = F.concat(*where, F.lit(" changed several rows with "), F.substring(F.concat(*values), 3, _MOST_SHOWN), F.lit(_NEXT_STEP))
    return F.raise_error(text).cast("boolean")
