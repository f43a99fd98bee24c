"""Preparation of append, delete, overwrite, upsert, added files and deletes by key: each function writes data files, and returns the action to commit.

Engines read and write the rows. The actions determine what is committed (`commit/append.py`, `replace_rows.py`, `delete_keys.py`). A table commits an action at
once, and a transaction commits it later. Spec: Snapshots; Optimistic Concurrency.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action, Attempt, CommitContext, Read
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.replace_partitions import ReplacePartitions
from icefloe.commit.row_delta import RowDelta
from icefloe.datafile.files_to_add import spec_of_folders
from icefloe.errors import InvalidInputError
from icefloe.operations.available_engines import IN_PROCESS, engine_choice, engine_for_rows
from icefloe.operations.rows.add_files import AddFiles, locations_to_add, read_footers
from icefloe.operations.rows.delete_keys import DeleteKeys, keys_of
from icefloe.operations.rows.replace_rows import ReplaceRows
from icefloe.operations.rows.row_change import Removal, RowChange
from icefloe.operations.rows.upsert import Upsert, UpsertRules, upsert_keys
from icefloe.operations.rows.write_context import commit_context, write_target
from icefloe.operations.table_handle import TableHandle
from icefloe.operations.write_result import METADATA_ONLY, WriteResult
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.snapshot import count_of
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import check_known_transforms


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWrite:
    """A write that is not committed yet.

    `action` is the action to commit. `result` returns the `WriteResult`; its arguments are the last attempt (None if nothing was committed) and the number of
    attempts.
    """

    action: Action
    result: Callable[[Attempt | None, int], WriteResult]


def append(
    handle: TableHandle,
    base: TableMetadata,
    rows: Any,
    snapshot_properties: Mapping[str, str],
    branch: str | None,
    rules_of: Callable[[str], ConflictRules] | None = None,
) -> PreparedWrite:
    """Write rows to data files, and return the write that appends them in one snapshot.

    `rules_of` is for rows that depend on the table's content, such as those of a MERGE: it returns the conflict rules for the branch that is written to. With
    `rules_of`, nothing is committed if there are no rows; without it, an empty snapshot is committed.

    Raises `UnsupportedFeatureError` if the table's spec has an unknown transform.
    """
    engine = engine_for_rows(rows)
    check_known_transforms(base.spec())
    context = commit_context(handle, base, snapshot_properties, branch, engine)
    files = engine.write(rows, write_target(handle, base))
    return PreparedWrite(
        action=Append(files, context)
        if rules_of is None
        else RowDelta(added=files, context=context, numbers=ManifestNumbers(context), rules=rules_of(context.branch)),
        result=lambda attempt, attempts: _result("append", engine.name, attempt, attempts, added=files),
    )


def replace_rows(
    handle: TableHandle,
    base: TableMetadata,
    rows: Any | None,
    row_filter: BooleanExpression,
    snapshot_properties: Mapping[str, str],
    branch: str | None,
    *,
    case_sensitive: bool,
    rules: ConflictRules | None = None,
) -> PreparedWrite:
    """Write rows to data files, and return the write that adds them and deletes the rows for which `row_filter` is true, in one snapshot.

    `rows` is None if rows are only deleted. `rules` are further conflict rules, which are applied to rows for which `row_filter` is true.
    """
    writer = engine_for_rows(rows) if rows is not None else None
    context = commit_context(handle, base, snapshot_properties, branch, writer)
    bind(row_filter, base.schema(), case_sensitive=case_sensitive)  # raises for a wrong filter before any rows are written
    if writer is not None:
        check_known_transforms(base.spec())
    files = writer.write(rows, write_target(handle, base)) if writer is not None else []
    removal = Removal(handle=handle, row_filter=row_filter, case_sensitive=case_sensitive)
    isolation = rules and replace(rules, row_filter=row_filter, case_sensitive=case_sensitive)
    action = ReplaceRows(removal, files, context, adds_rows=rows is not None, isolation=isolation)

    def result(attempt: Attempt | None, attempts: int) -> WriteResult:
        engine = writer.name if writer is not None else action.engine_name or METADATA_ONLY
        return _result("delete" if rows is None else "overwrite", engine, attempt, attempts, added=files, change=action.change)

    return PreparedWrite(action=action, result=result)


def overwrite_partitions(
    handle: TableHandle,
    base: TableMetadata,
    rows: Any,
    snapshot_properties: Mapping[str, str],
    branch: str | None,
    rules: ConflictRules | None = None,
) -> PreparedWrite:
    """Write rows to data files, and return the write that replaces all rows of their partitions with them, in one snapshot.

    Raises:
        InvalidInputError: the table's spec is unpartitioned.
        UnsupportedFeatureError: the spec has an unknown transform.
    """
    engine = engine_for_rows(rows)
    if base.spec().is_unpartitioned():
        raise InvalidInputError(
            f"{handle.table_name} is not partitioned, so that a dynamic partition overwrite would replace every row",
            table=handle.table_name,
            next_step="if that is meant, use table.overwrite(df)",
        )
    check_known_transforms(base.spec())
    context = commit_context(handle, base, snapshot_properties, branch)
    files = engine.write(rows, write_target(handle, base))
    action = ReplacedPartitions(files, context, rules)
    return PreparedWrite(action=action, result=lambda attempt, attempts: _replacement_result(engine.name, attempt, attempts, files))


class ReplacedPartitions:
    """The action of a dynamic partition overwrite: it replaces all files in the partitions of the new files. Without new files it commits nothing."""

    def __init__(self, files: Sequence[DataFile], context: CommitContext, rules: ConflictRules | None) -> None:
        numbers = ManifestNumbers(context)
        self._action = ReplacePartitions(added=files, context=context, numbers=numbers, rules=rules) if files else None

    def new_data_files(self) -> Sequence[str]:
        return self._action.new_data_files() if self._action else ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        return self._action.attempt(base, number=number, now_ms=now_ms, read=read) if self._action else None


def _replacement_result(engine: str, attempt: Attempt | None, attempts: int, files: Sequence[DataFile]) -> WriteResult:
    counts: dict[str, int] = defaultdict(int, {key: count_of(text) or 0 for key, text in (attempt.summary if attempt else {}).items()})
    # Deletion vectors record how many rows were deleted before. Other deletes do not: they may delete a row twice, or no row.
    unknown = counts["removed-position-delete-files"] or counts["removed-equality-delete-files"]
    return WriteResult(
        operation="overwrite",
        engine=engine,
        snapshot_id=attempt.snapshot_id if attempt else None,
        attempts=attempts,
        added_files=len(files),
        added_records=sum(file.record_count for file in files),
        removed_files=counts["deleted-data-files"],
        deleted_records=None if unknown else counts["deleted-records"] - counts["removed-position-deletes"],
        removed_delete_files=counts["removed-delete-files"],
    )


def upsert(
    handle: TableHandle,
    base: TableMetadata,
    rows: Any,
    join_cols: Sequence[str] | None,
    snapshot_properties: Mapping[str, str],
    branch: str | None,
    *,
    updates: bool,
    inserts: bool,
    case_sensitive: bool,
) -> PreparedWrite:
    """Check rows, and return the write that upserts them in one snapshot. Raises the errors of `upsert_keys` and `Engine.upsert`.

    With `updates`, a row replaces the table row with the same key. With `inserts`, a row whose key the table does not have is added.
    """
    if not updates and not inserts:
        raise InvalidInputError(
            "an upsert that neither updates nor inserts does nothing",
            table=handle.table_name,
            next_step="leave when_matched_update_all or when_not_matched_insert_all True",
        )
    engine = engine_for_rows(rows)
    context = commit_context(handle, base, snapshot_properties, branch, engine)
    schema = base.schema()
    rules = UpsertRules(key_ids=upsert_keys(handle, schema, join_cols, case_sensitive=case_sensitive), updates=updates, inserts=inserts)
    action = Upsert(handle, engine, rows, schema, rules, context)

    def result(attempt: Attempt | None, attempts: int) -> WriteResult:
        upserted = action.upserted
        return replace(
            _result("upsert", action.engine_name, attempt, attempts, added=upserted.added, change=action.change),
            deleted_records=0,
            rows_updated=upserted.updated,
            rows_inserted=upserted.inserted,
            rows_unchanged=upserted.unchanged,
        )

    return PreparedWrite(action=action, result=result)


def add_files(
    handle: TableHandle,
    base: TableMetadata,
    file_paths: str | Sequence[str],
    snapshot_properties: Mapping[str, str],
    branch: str | None,
    *,
    check_duplicates: bool,
) -> PreparedWrite:
    """Read the footers of existing files, and return the write that adds them to the table in one `append` snapshot.

    Raises the errors of `locations_to_add` and `FilesToAdd.file_to_add`.
    """
    locations = locations_to_add(handle, file_paths)
    spec = spec_of_folders(locations, base.partition_specs, base.spec(), base.schema())
    check_known_transforms(spec)
    engine = engine_choice().for_many(len(locations), engine_choice().footers)
    context = commit_context(handle, base, snapshot_properties, branch, engine)
    added_files = read_footers(engine, handle, base, locations, spec)
    files = [added.file for added in added_files]
    maps_names = not all(added.has_ids for added in added_files)
    action = AddFiles(handle, base, files, context, check_duplicates=check_duplicates, maps_names=maps_names)
    return PreparedWrite(action=action, result=lambda attempt, attempts: _result("append", engine.name, attempt, attempts, added=files))


def delete_keys(
    handle: TableHandle,
    base: TableMetadata,
    rows: Any,
    key_columns: Sequence[str] | None,
    snapshot_properties: Mapping[str, str],
    branch: str | None,
) -> PreparedWrite:
    """Return the write that deletes the table's rows with the keys in `rows`, by equality delete files. Raises the errors of `keys_of`.

    `key_columns` are the names of the key columns; None for the table's identifier fields.
    """
    context = commit_context(handle, base, snapshot_properties, branch, IN_PROCESS)
    keys = keys_of(rows, base.schema(), key_columns, handle.table_name)
    action = DeleteKeys(handle, keys, context)
    return PreparedWrite(
        action=action,
        result=lambda attempt, attempts: WriteResult(
            operation="delete",
            engine=IN_PROCESS.name,
            snapshot_id=attempt.snapshot_id if attempt else None,
            attempts=attempts,
            deleted_records=None,
            deleted_keys=keys.rows.num_rows,
            added_delete_files=len(action.added),
        ),
    )


def _result(
    operation: str, engine: str, attempt: Attempt | None, attempts: int, *, added: Sequence[DataFile], change: RowChange | None = None
) -> WriteResult:
    change = change or RowChange()
    return WriteResult(
        operation=operation,
        engine=engine,
        snapshot_id=attempt.snapshot_id if attempt else None,
        attempts=attempts,
        added_files=len(added) + len(change.added),
        added_records=sum(file.record_count for file in added),
        removed_files=len(change.removed),
        rewritten_files=change.rewritten_files,
        deleted_records=change.deleted_rows,
        added_delete_files=len(change.added_deletes),
        removed_delete_files=len(change.removed_deletes),
    )
