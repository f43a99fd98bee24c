"""Append, delete and overwrite: from rows or a filter to data files to one commit.

Engines move the rows, the actions say what to commit (`kernel/commit/append.py`, `replace_rows.py`), the commit loop commits. Floor: table.
Spec: Snapshots; Optimistic Concurrency.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.kernel.commit.append import Append
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.partitioning.partition_spec import check_known_transforms
from icefloe.table.commit_loop import CommitReport, commit
from icefloe.table.engines import engine_for_rows
from icefloe.table.handle import LoadedMetadata, TableHandle
from icefloe.table.replace_rows import ReplaceRows
from icefloe.table.result import METADATA_ONLY, WriteResult
from icefloe.table.row_change import Removal, RowChange
from icefloe.table.write_target import commit_context, write_target


def append(
    handle: TableHandle, base: LoadedMetadata, rows: Any, snapshot_properties: Mapping[str, str]
) -> tuple[CommitReport, WriteResult]:
    """Writes the rows and commits them as one `append` snapshot. Raises `UnsupportedFeatureError` under a spec with an unknown transform."""
    engine = engine_for_rows(rows)
    check_known_transforms(base.metadata.spec())
    files = engine.write(rows, write_target(handle, base.metadata))
    report = commit(handle, Append(files, commit_context(handle, base.metadata, snapshot_properties)), base)
    return report, _result("append", engine.name, report, added=files)


def replace_rows(
    handle: TableHandle,
    base: LoadedMetadata,
    rows: Any | None,
    row_filter: BooleanExpression,
    snapshot_properties: Mapping[str, str],
    *,
    case_sensitive: bool,
) -> tuple[CommitReport, WriteResult]:
    """Deletes the rows for which `row_filter` is true and adds `rows` (None for a plain delete), in one snapshot."""
    bind(row_filter, base.metadata.schema(), case_sensitive=case_sensitive)  # a wrong filter is refused before rows are written
    writer = engine_for_rows(rows) if rows is not None else None
    if writer is not None:
        check_known_transforms(base.metadata.spec())
    files = writer.write(rows, write_target(handle, base.metadata)) if writer is not None else []
    action = ReplaceRows(
        Removal(handle=handle, row_filter=row_filter, case_sensitive=case_sensitive),
        files,
        commit_context(handle, base.metadata, snapshot_properties),
        adds_rows=rows is not None,
    )
    report = commit(handle, action, base)
    operation = "delete" if rows is None else "overwrite"
    engine = writer.name if writer is not None else action.engine_name or METADATA_ONLY
    return report, _result(operation, engine, report, added=files, change=action.change)


def _result(
    operation: str, engine: str, report: CommitReport, *, added: Sequence[DataFile], change: RowChange | None = None
) -> WriteResult:
    change = change or RowChange()
    return WriteResult(
        operation=operation,
        engine=engine,
        snapshot_id=report.attempt.snapshot_id if report.attempt else None,
        attempts=report.attempts,
        added_files=len(added),
        added_records=sum(file.record_count for file in added),
        removed_files=len(change.removed),
        rewritten_files=change.rewritten_files,
        deleted_records=change.deleted_rows,
        added_delete_files=len(change.added_deletes),
        removed_delete_files=len(change.removed_deletes),
    )
