"""`Upsert`: the action of `table.upsert`. A source row replaces the table row with the same key if their values differ, or is added if there is no such row.

An engine joins and writes the rows (`arrow_upsert.py` in this process). Replaced rows are deleted by copying their files or with delete files
(`delete_file_writer.py`), depending on the table property `write.merge.mode`. Spec: Row-level Deletes; Row Lineage; Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import planned_on
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.row_delta import RowDelta
from icefloe.commit.snapshot_attempt import parent_snapshot
from icefloe.errors import CommitInvalidatedError, InvalidInputError, InvalidSchemaError, Problem, SchemaMismatchError
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.engine import Engine, KeyValues, ScanRequest, UpsertedRows, UpsertRequest, UpsertSource
from icefloe.operations.rows.copy_on_write_delete import copies_without
from icefloe.operations.rows.delete_file_writer import DeleteFileWriter
from icefloe.operations.rows.row_change import RowChange, TaskKey, task_key
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.table_handle import TableHandle
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual, all_of
from icefloe.spec.metadata.table_history import schemas_of_files
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import MERGE_ISOLATION_LEVEL, MERGE_MODE
from icefloe.spec.partitioning.partition_spec import check_known_transforms
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_history import required_fields_absent_from_files
from icefloe.spec.types import GeographyType, GeometryType, PrimitiveType, StructType, UnknownType

# If the files that may contain a key have at most this many bytes in total, a few rows of Spark are joined in this process, because starting a Spark job would
# take longer.
MOST_BYTES_HERE = 1 << 28

_NOTHING = UpsertedRows(positions=(), added=(), updated=0, inserted=0, unchanged=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertRules:
    """The rules of an upsert: the field ids of its key columns; whether it replaces matching rows (`updates`); whether it adds other rows (`inserts`)."""

    key_ids: tuple[int, ...]
    updates: bool
    inserts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Join:
    """The result of a join, and the state of the table for which it is valid."""

    form: tuple[Any, ...]  # the values of the metadata that `_form` returns
    planned: frozenset[TaskKey]  # the keys of all files that may contain a key of the source
    touched: frozenset[TaskKey]  # the keys of the files in which rows are replaced
    change: RowChange


class Upsert:
    """The action that joins and commits one upsert.

    A retry plans again. It also joins again if another writer added or removed a file that may contain one of the keys, or deleted rows of it. Under `snapshot`
    isolation it joins again only if another writer removed, or deleted rows of, a file in which rows are replaced. After a change of the schema, partition
    spec, sort order, format version or `write.merge.mode` it always joins again.
    """

    def __init__(self, handle: TableHandle, engine: Engine, rows: Any, schema: Schema, rules: UpsertRules, context: CommitContext) -> None:
        """Check that the rows fit `schema` and have distinct keys. Raises the errors of `Engine.upsert`."""
        self._handle = handle
        self._engine = engine
        self._rows = rows
        self._rules = rules
        self._context = context
        self._numbers = ManifestNumbers(context)
        self._source = engine.upsert(rows, schema, rules.key_ids, updates=rules.updates)
        self._source_schema = schema
        self._delete_files = DeleteFileWriter(handle, MERGE_MODE.name)
        self._joined: _Join | None = None
        self.upserted = _NOTHING  # the result of the join of the last attempt
        self._joined_by = engine

    @property
    def engine_name(self) -> str:
        """The name of the engine that joined and wrote the rows of the last attempt."""
        return self._joined_by.name

    @property
    def change(self) -> RowChange:
        """The files that the deletion of replaced rows adds and removes, in the last attempt."""
        return self._joined.change if self._joined else RowChange()

    def new_data_files(self) -> Sequence[str]:
        return [*(file.file_path for file in (*self.upserted.added, *self.change.added)), *self._delete_files.new_files()]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Join the rows with those of `base` unless an earlier join is valid, and prepare the commit, see `Action.attempt`. Return None if no row changes.

        Raises:
            InvalidInputError: a key matches several rows of the table that it would update.
            CommitInvalidatedError: another writer changed the table's schema so that the rows no longer fit, or dropped a key column.
            UnsupportedFeatureError: see `DeleteFileWriter.change`; or the partition spec has an unknown transform.
        """
        check_known_transforms(base.spec())
        parent, source = parent_snapshot(base, self._context.branch), self._source_for(base)
        plan = plan_scan(base, parent, key_filter(source, base.schema()), read, every_delete=True, schema=base.schema())
        tasks = list(plan.tasks())
        if not self._still_holds(base, tasks):
            self._discard()
            self._join(base, source, plan, tasks)
        change = self.change
        if change.is_empty and not self.upserted.added:
            return None
        delta = RowDelta(
            added=(*self.upserted.added, *change.added),
            added_deletes=change.added_deletes,
            removed=change.removed,
            removed_deletes=change.removed_deletes,
            context=self._context,
            numbers=self._numbers,
            rules=planned_on(parent.snapshot_id if parent else None),
        )
        return delta.attempt(base, number=number, now_ms=now_ms, read=read)

    def _source_for(self, base: TableMetadata) -> UpsertSource:
        schema = base.schema()
        if schema != self._source_schema:
            _check_keys_are_there(self._handle, schema, self._rules.key_ids)
            try:
                self._source = self._engine.upsert(self._rows, schema, self._rules.key_ids, updates=self._rules.updates)
            except SchemaMismatchError as error:
                raise _no_longer_fits(self._handle, error, self._source_schema, schema) from error
            self._source_schema = schema
        return self._source

    def _still_holds(self, base: TableMetadata, tasks: Sequence[FileScanTask]) -> bool:
        if self._joined is None or self._joined.form != _form(base):
            return False
        now = frozenset(map(task_key, tasks))
        if MERGE_ISOLATION_LEVEL.read(base.properties) == "snapshot":
            return self._joined.touched <= now
        return self._joined.planned == now

    def _join(self, base: TableMetadata, source: UpsertSource, plan: ScanPlan, tasks: Sequence[FileScanTask]) -> None:
        """Join the rows, write the new rows, and delete the replaced rows. After each step, `new_data_files` returns the files written so far."""
        target = write_target(self._handle, base)
        engine = self._engine
        if source.here is not None and sum(task.file.file_size_in_bytes for task in tasks) <= MOST_BYTES_HERE:
            engine, source = IN_PROCESS, source.here
        self._joined_by = engine
        self.upserted = source.join(
            UpsertRequest(
                source=source,
                scan=_scan(self._handle, base, plan),
                tasks=tasks,
                key_ids=self._rules.key_ids,
                updates=self._rules.updates,
                inserts=self._rules.inserts,
                keeps_row_ids=base.format_version > 2,
                target=target,
            )
        )
        replaced = [(task, rows) for task, rows in zip(tasks, self.upserted.positions, strict=True) if len(rows)]
        if _is_merge_on_read(base):
            change = self._delete_files.change(replaced, base)
        else:
            change, new_files = copies_without(self._handle, engine, base, replaced, self.upserted.added, target)
            self.upserted = replace(self.upserted, added=tuple(new_files))
        self._joined = _Join(
            form=_form(base),
            planned=frozenset(map(task_key, tasks)),
            touched=frozenset(task_key(task) for task, _ in replaced),
            change=change,
        )

    def _discard(self) -> None:
        """Delete the files of an earlier attempt that this one cannot use."""
        delete_quietly(self._handle, self.new_data_files())
        self._delete_files.discard()
        self._joined, self.upserted = None, _NOTHING


def upsert_keys(handle: TableHandle, schema: Schema, join_cols: Sequence[str] | None, *, case_sensitive: bool) -> tuple[int, ...]:
    """Return the field ids of the key columns: the columns named in `join_cols`, or the table's identifier fields if `join_cols` is None.

    Raises:
        InvalidInputError: there are no key columns; or a column is not primitive, is inside a list or map, or has a type whose values cannot be compared.
        InvalidSchemaError: the table has no such column.
    """
    if isinstance(join_cols, str):
        raise InvalidInputError(f"join_cols is the text {join_cols!r}, not a list of names", next_step=f"pass join_cols=[{join_cols!r}]")
    if join_cols is None:
        key_ids = sorted(schema.identifier_field_ids)
    else:
        key_ids = [schema.find_field(name, case_sensitive=case_sensitive).field_id for name in join_cols]
    if not key_ids:
        raise InvalidInputError(
            f"no key columns are given, and {handle.table_name} has no identifier fields",
            table=handle.table_name,
            next_step='pass join_cols=["id"], or set them with table.update_schema().set_identifier_fields("id")',
        )
    for field_id in key_ids:
        fault = _key_fault(schema, field_id)
        if fault:
            raise InvalidInputError(
                f"{schema.find_column_name(field_id)!r} cannot be a key column: {fault}",
                table=handle.table_name,
                next_step="choose another key column",
            )
    return tuple(dict.fromkeys(key_ids))


def _key_fault(schema: Schema, field_id: int) -> str | None:
    kind = schema.find_type(field_id)
    if not isinstance(kind, PrimitiveType) or isinstance(kind, UnknownType | GeometryType | GeographyType):
        return f"it is of type {kind}"
    path, fields = schema.path_of(field_id) or (), schema.fields
    for name in path[:-1]:
        around = next(field for field in fields if field.name == name).field_type
        if not isinstance(around, StructType):
            return "it lies inside a list or map, of which a row has many values"
        fields = around.fields
    return None


def _check_keys_are_there(handle: TableHandle, schema: Schema, key_ids: Sequence[int]) -> None:
    missing = [field_id for field_id in key_ids if field_id not in schema]
    if missing:
        raise CommitInvalidatedError(
            f"another writer dropped a key column of this upsert from {handle.table_name}",
            table=handle.table_name,
            problems=(
                Problem(where="expected", what=f"columns with the field ids {', '.join(map(str, key_ids))}"),
                Problem(where="found", what=f"none with {', '.join(map(str, missing))} in schema {schema.schema_id}"),
            ),
            next_step="a retry will fail again: refresh the table and choose other key columns",
        )


def _no_longer_fits(handle: TableHandle, error: SchemaMismatchError, was: Schema, now: Schema) -> CommitInvalidatedError:
    return CommitInvalidatedError(
        f"another writer changed the columns of {handle.table_name} while this upsert was prepared: {error.message}",
        table=handle.table_name,
        problems=(
            Problem(where="expected", what=f"the columns of schema {was.schema_id}, which the rows fit"),
            Problem(where="found", what=f"schema {now.schema_id}, which they do not"),
            *error.problems,
        ),
        next_step=f"a retry will fail again: refresh the table, and then {error.next_step}",
    )


def key_filter(source: UpsertSource, schema: Schema) -> BooleanExpression:
    """Return a filter for planning that is true for every table row with a key of the source, and for as few other rows as possible.

    If the values of a key column are few, the filter lists them; else it has their range.
    """
    if source.keys is None:
        return AlwaysFalse()
    return all_of([term for values in source.keys for term in _terms(values, schema)] or [AlwaysTrue()])


def _terms(values: KeyValues, schema: Schema) -> Sequence[BooleanExpression]:
    name = schema.find_column_name(values.field_id) or ""
    try:
        is_named = schema.find_field(name).field_id == values.field_id
    except InvalidSchemaError:
        is_named = False
    if not is_named:  # a name with dots can be that of another column
        return ()
    if values.values is not None:
        return (In(name, values.values),)
    return () if values.low is None else (GreaterThanOrEqual(name, values.low), LessThanOrEqual(name, values.high))


def _form(base: TableMetadata) -> tuple[Any, ...]:
    """Return the values of the metadata that determine how rows are joined and written. A join is valid as long as they are unchanged."""
    return (base.format_version, base.schema(), base.default_spec_id, base.default_sort_order_id, _is_merge_on_read(base))


def _is_merge_on_read(base: TableMetadata) -> bool:
    return MERGE_MODE.read(base.properties) == "merge-on-read"


def _scan(handle: TableHandle, base: TableMetadata, plan: ScanPlan) -> ScanRequest:
    schema = base.schema()
    snapshot = None if plan.snapshot_id is None else base.snapshot_by_id(plan.snapshot_id)
    return ScanRequest.of_table(
        base,
        handle.io,
        handle.table_name,
        plan,
        schema=schema,
        projection=schema,
        row_filter=plan.row_filter,
        may_be_missing=required_fields_absent_from_files(schema.fields, schemas_of_files(base, snapshot)),
    )
