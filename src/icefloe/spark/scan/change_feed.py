"""The change feed as a DataFrame: the rows that snapshots changed, read in Spark's tasks, by Spark's own scan where it can read the files.

The files of all snapshots of the range are read together: what a file contains of a change is constant within the file. Added and removed files are read as in
any scan. Of files that both snapshots have, the driver finds the positions of the changed rows in the delete files, and Spark's scan returns only these rows.
Other files are read by Python in tasks, as in this process (`icefloe.operations.change_feed`), which also pairs rows in the same way.
Spec: Snapshots; Row-level Deletes; Row Lineage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import FrozenBitMap64
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import LongType, StructField, StructType

from icefloe.inspect.comparison.row_changes import RowHasher
from icefloe.operations.change_feed.change_columns import CHANGE_COLUMNS
from icefloe.operations.change_feed.change_scan import ChangeScan, DeduplicationMode, SnapshotChanges
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT, ChangedFileReader
from icefloe.operations.change_feed.row_pairs import UPDATE_AFTER, UPDATE_BEFORE, Identity, cancel_pairs
from icefloe.operations.engine import ScanRequest
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.change_planner import ChangedFile
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan, join_plans
from icefloe.spark.bridge.gateway import executors_have_classes
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.scan.filter_to_spark import filter_to_column
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX, position_name_conflict
from icefloe.spark.scan.native_scan import native_scan, stored_bytes
from icefloe.spark.scan.position_deletes import MOST_DELETE_BYTES, MOST_POSITIONS, DeletedRows, position_delete_bytes
from icefloe.spark.scan.python_scan import batch_for_spark, python_rows, unpack_tasks, with_advice_about_workers
from icefloe.spark.scan.read_strategy import grouped_files
from icefloe.spark.types.spark_types import column_named, differs_by_case, quote_name, schema_to_struct
from icefloe.spec.arrow_values import numpy_of
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
_PAIRED, _IS_CHANGED, _HASH = (f"{OWN_PREFIX}{name}" for name in ("paired", "changed", "hash"))
_ROWS_OF_A_BATCH = 8192
_MOST_SHOWN = 200  # characters of the values in an error
_NEXT_STEP = "\n  Next: name identifier columns that are unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTask:
    """A changed file that a task reads.

    Attributes:
        file: The file.
        constants: For each kind of change that is read (`DELETE`, `INSERT`) the values of its constant columns, by field id.
    """

    file: ChangedFile
    constants: Mapping[str, Mapping[int, Any]]

    @property
    def length(self) -> int:
        """The number of bytes of the file."""
        return self.file.task.length


@dataclass(frozen=True)
class ChangeTaskReader:
    """A function for `mapInArrow`: it takes batches of packed `ChangeTask`s, and returns batches of their rows with the columns of `projection`."""

    reader: ChangedFileReader
    projection: Schema

    @property
    def values(self) -> TaskValues:
        """What packs and unpacks the tasks."""
        return TaskValues(ChangeTask, ChangedFile)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of the files that are packed in the batches."""
        for task in unpack_tasks(self.values, batches):
            for kind, constants in task.constants.items():
                rows = (batch for _, batch in self.reader.batches(task.file, (kind,)))
                for batch in with_advice_about_workers(rows):
                    yield batch_for_spark(self._with_constants(batch, constants), self.projection)

    def _with_constants(self, batch: pa.RecordBatch, constants: Mapping[int, Any]) -> pa.RecordBatch:
        schema = schema_to_arrow(self.projection)
        arrays = [
            pa.repeat(pa.scalar(constants[field.field_id], target.type), batch.num_rows)
            if field.field_id in constants
            else batch[field.name]
            for field, target in zip(self.projection.fields, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
    return _ChangeFrame(spark, scan).frame(list(scan.plan()) if plans is None else plans)


@dataclass(frozen=True)
class _ChangeFrame:
    """The DataFrame of one scan of changes."""

    spark: SparkSession
    scan: ChangeScan

    def frame(self, plans: Sequence[SnapshotChanges]) -> DataFrame:
        scan, projection = self.scan, self.scan.projection()
        columns = scan.columns_to_read()
        rows = self._without_copied_rows(plans, columns)
        is_net = scan.deduplication is DeduplicationMode.NET_CHANGES
        if is_net:
            has_ids = scan.identity.has_ids and not any(changes.plan.lacks_row_ids for changes in plans)
            rows = cancelled_by_value(rows, scan.net_columns(has_ids=has_ids), columns.fields)
        if scan.computes_updates:
            rows = with_updates(rows, scan.identity, scan.table_name, of_each_snapshot=not is_net)
        if scan.filters_pairs:
            names = {column.name: column.name for column in columns.fields}
            types = {field.name: field.dataType for field in rows.schema.fields} if differs_by_case(columns.fields) else {}
            bound = bind(scan.row_filter, scan.metadata.schema(), scan.case_sensitive)
            rows = rows.where(filter_to_column(bound, names, types))
        if DELETED.name in projection.names:
            rows = rows.withColumn(DELETED.name, F.lit(False))
        return rows.select(*map(quote_name, projection.names))

    def _without_copied_rows(self, plans: Sequence[SnapshotChanges], columns: Schema) -> DataFrame:
        """Return the changed rows of all snapshots, without rows that a snapshot only copied if they are left out."""
        scan = self.scan
        copying = [changes for changes in plans if scan.may_copy_rows(changes.plan)]
        by_value = [changes for changes in copying if scan.compares_values(changes.plan)]
        by_id = [changes for changes in copying if not scan.compares_values(changes.plan)]
        others = [changes for changes in plans if not scan.may_copy_rows(changes.plan)]
        frames = [self._read(others, columns)] if others or not copying else []
        if by_id:
            frames.append(_cancelled_by_id(self._read(by_id, columns)))
        if by_value:
            rows = self._read(by_value, scan.all_columns(columns))
            compared = [*scan.metadata.schema().names, COMMIT_SNAPSHOT_ID.name]
            frames.append(cancelled_by_value(rows, compared, scan.all_columns(columns).fields))
        names = [*columns.names, *(column.name for column in scan.constant_columns)]
        return reduce(DataFrame.unionAll, (frame.select(*map(quote_name, names)) for frame in frames))

    def _read(self, plans: Sequence[SnapshotChanges], columns: Schema) -> DataFrame:
        """Return the changed rows of some snapshots, with some columns and those of the change, before rows are paired."""
        projection = Schema(*columns.fields, *self.scan.constant_columns)
        reader = ChangeTaskReader(self.scan.reader(columns), projection)
        tasks: list[ChangeTask] = []
        frames = list(self._rows_of_whole_files(plans, projection, tasks))
        frames += self._rows_at_positions(reader.reader, plans, projection, tasks)
        if tasks:
            size = stored_bytes(_sizes(tasks), columns.fields, reader.reader.schema, deleted=0)
            frames.append(python_rows(self.spark, tasks, reader, self.scan.table_name, size, ()))
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
            yield from (_change_task(file, changes, [DELETE, INSERT]) for file in changed)
            return
        self._delete_bytes += size
        chosen: dict[str, list[tuple[int, int]]] = {DELETE: [], INSERT: []}  # the number of the file, and the place
        for number, by_position in enumerate(in_threads(lambda file: _changes_by_position(reader, file), changed)):
            if by_position is None:
                yield _change_task(changed[number], changes, [DELETE, INSERT])
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
                    yield _change_task(file, by_ordinal[ordinal], kinds[number])


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


def _change_task(file: ChangedFile, changes: SnapshotChanges, kinds: Sequence[str]) -> ChangeTask:
    return ChangeTask(file=file, constants={kind: changes.constants(kind) for kind in kinds})


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
        with_hash = StructType([*parts.schema.fields, StructField(_HASH, LongType(), False)])
        parts, keys = parts.mapInArrow(HashAdder(compared_here), with_hash), [_HASH]
    parts = parts.repartition(*map(column_named, keys), *(column_named(numbered[name]) for name in compared if name not in types))
    return parts.drop(_HASH).mapInArrow(PairCanceller(tuple(rows.columns), tuple(compared)), rows.schema)


def _can_be_hashed(kind: IcebergType) -> bool:
    if isinstance(kind, MapType | VariantType | GeometryType | GeographyType | UnknownType):
        return False
    return all(_can_be_hashed(member.field_type) for member in children(kind))


@dataclass(frozen=True)
class HashAdder:
    """A function for `mapInArrow`: it adds a column with a hash of some columns, which is the same for equal rows in all tasks."""

    columns: tuple[str, ...]
    hasher: RowHasher = field(default_factory=RowHasher)
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with the column."""
        for batch in batches:
            with self.errors.carry():
                hashes = self.hasher.hashes(pa.Table.from_batches([batch.select(self.columns)]))[:, 0]
            yield batch.append_column(pa.field(_HASH, pa.int64(), nullable=False), pa.array(hashes.view(np.int64)))


@dataclass(frozen=True)
class PairCanceller:
    """A function for `mapInArrow`: it takes the changes of a partition, and returns those that no equal change of the partition cancels; see `cancel_pairs`.

    Attributes:
        names: The names of the columns of the changes, in place of those of the batches.
        compared: The names of the compared columns.
    """

    names: tuple[str, ...]
    compared: tuple[str, ...]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the remaining changes."""
        received = [batch for batch in batches if batch.num_rows]
        if received:
            with self.errors.carry():
                rows = pa.Table.from_batches(received).rename_columns(list(self.names))
                rows = cancel_pairs(rows.take(np.argsort(numpy_of(rows[CHANGE_ORDINAL.name]), kind="stable")), self.compared)
            yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS_OF_A_BATCH)


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
    snapshots = [COMMIT_SNAPSHOT_ID.name] if of_each_snapshot else []
    rows = rows.withColumn(_PAIRED, F.lit(False))
    if identity.has_ids:
        can_pair = column_named(ROW_ID.name).isNotNull()
        rows = _with_pairs(rows, [ROW_ID.name, *snapshots], can_pair, _several(table_name, [ROW_ID.name], snapshots))
    if identity.columns:
        error = None if identity.has_ids else _several(table_name, identity.columns, snapshots)
        rows = _with_pairs(rows, [*identity.columns, *snapshots], ~paired, error)
    label = F.when(kind == DELETE, UPDATE_BEFORE).otherwise(UPDATE_AFTER)
    return rows.withColumn(CHANGE_TYPE.name, F.when(paired, label).otherwise(kind)).drop(_PAIRED)


def _with_pairs(rows: DataFrame, keys: Sequence[str], can_pair: Column, error: Column | None) -> DataFrame:
    """Set the column `_PAIRED` for pairs of a deleted and an inserted row that are equal in the keys.

    Args:
        rows: The changes.
        keys: The names of the keys.
        can_pair: Whether a row can be one of a pair.
        error: The error where several rows are equal; None if such rows are not paired.
    """
    kind, paired, (deleted, inserted, rank) = column_named(CHANGE_TYPE.name), column_named(_PAIRED), _HELPERS[:3]
    rows = rows.withColumn(rank, can_pair)
    same_row = Window.partitionBy(*map(column_named, (rank, *keys)))
    rows = rows.withColumns({deleted: F.count_if(kind == DELETE).over(same_row), inserted: F.count_if(kind == INSERT).over(same_row)})
    deletes, inserts = column_named(deleted), column_named(inserted)
    several = (deletes > 1) | (inserts > 1)
    is_pair = column_named(rank) & (deletes > 0) & (inserts > 0)
    paired_now = F.when(is_pair & several, F.lit(False) if error is None else error).otherwise(is_pair)
    return rows.withColumn(_PAIRED, paired | paired_now).drop(*_HELPERS)


def _several(table_name: str, columns: Sequence[str], snapshots: Sequence[str]) -> Column:
    """Return an expression that raises the error about several rows with the same identity."""
    values = [part for name in columns for part in (F.lit(f", {name} = "), F.coalesce(column_named(name).cast("string"), F.lit("null")))]
    where = (
        [F.lit("snapshot "), column_named(snapshots[0]).cast("string"), F.lit(f" of {table_name}")] if snapshots else [F.lit(table_name)]
    )
    text = F.concat(*where, F.lit(" changed several rows with "), F.substring(F.concat(*values), 3, _MOST_SHOWN), F.lit(_NEXT_STEP))
    return F.raise_error(text).cast("boolean")
