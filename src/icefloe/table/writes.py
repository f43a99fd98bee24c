"""Append, delete and overwrite: from rows or a filter to data files to one commit.

Engines move the rows, the kernel's actions say what to commit, the commit loop commits. Floor: table. Spec: Snapshots; Optimistic Concurrency.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.datafile.rewrite import RewrittenFile
from icefloe.datafile.target import WriteTarget
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.manifests import spec_schema
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import check_known_transforms
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.plan import plan_scan
from icefloe.kernel.schema.schema import Schema
from icefloe.table.commit_loop import CommitReport, commit, delete_quietly
from icefloe.table.engine import Engine, RewriteRequest, refuse_deletes
from icefloe.table.engines import IN_PROCESS, engine_for_rows, engine_named
from icefloe.table.handle import LoadedMetadata, TableHandle, data_folder, metadata_folder
from icefloe.table.result import WriteResult

# From this many bytes of files to rewrite, an inactive Spark is worth starting; below it this process is quicker.
REWRITE_ON_SPARK_BYTES = 1 << 30
METADATA_ONLY = "metadata"


def append(
    handle: TableHandle, base: LoadedMetadata, rows: Any, snapshot_properties: Mapping[str, str]
) -> tuple[CommitReport, WriteResult]:
    """Writes the rows and commits them as one `append` snapshot. Raises `UnsupportedFeatureError` under a spec with an unknown transform."""
    engine = engine_for_rows(rows)
    check_known_transforms(base.metadata.spec())
    files = engine.write(rows, write_target(handle, base.metadata))
    report = commit(handle, Append(files, _context(handle, base.metadata, snapshot_properties)), base)
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
        handle,
        row_filter,
        files,
        _context(handle, base.metadata, snapshot_properties),
        adds_rows=rows is not None,
        case_sensitive=case_sensitive,
    )
    report = commit(handle, action, base)
    operation = "delete" if rows is None else "overwrite"
    return report, _result(operation, writer.name if writer is not None else action.engine_name, report, added=files, replaced=action)


class ReplaceRows:
    """The copy-on-write action: files the filter covers are dropped by metadata alone, those it touches are copied without its rows.

    After a lost race the files are chosen again on the newer table, so the outcome is as if this write had come second; copies of files that are still
    there are used again.
    """

    def __init__(
        self,
        handle: TableHandle,
        row_filter: BooleanExpression,
        files: Sequence[DataFile],
        context: CommitContext,
        *,
        adds_rows: bool,
        case_sensitive: bool,
    ) -> None:
        self._handle = handle
        self._row_filter = row_filter
        self._files = tuple(files)
        self._context = context
        self._adds_rows = adds_rows
        self._case_sensitive = case_sensitive
        self._numbers = ManifestNumbers(context)
        self._copies: dict[str, RewrittenFile] = {}
        self._copied_under: int | None = None  # the schema id that the copies were made with
        self.engine_name = METADATA_ONLY
        self.removed_files = 0
        self.rewritten_files = 0
        self.deleted_records = 0

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._files] + [file.file_path for copy in self._copies.values() for file in copy.added]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`."""
        plan = plan_scan(
            base,
            base.current_snapshot(),
            self._row_filter,
            read,
            case_sensitive=self._case_sensitive,
            find_covered=True,
            every_delete=True,
        )
        refuse_deletes(self._handle.table_name, plan)
        tasks = list(plan.tasks())
        whole = [task.file for task in tasks if task.is_covered]
        self._copy([task for task in tasks if not task.is_covered], base)
        touched = [copy for copy in self._copies.values() if not copy.unchanged]
        removed = [*(file.file_path for file in whole), *(copy.source.file_path for copy in touched)]
        self.removed_files, self.rewritten_files = len(removed), len(touched)
        self.deleted_records = sum(file.record_count for file in whole) + sum(copy.deleted_rows for copy in touched)
        if not removed and not self._adds_rows:
            return None
        chosen = Overwrite(
            removed=removed,
            added=[*self._files, *(file for copy in touched for file in copy.added)],
            context=self._context,
            numbers=self._numbers,
        )
        return chosen.attempt(base, number=number, now_ms=now_ms, read=read)

    def _copy(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> None:
        """Makes the copies that are missing, and drops those whose source another writer has removed.

        Under another schema the filter may mean other columns, so that no copy holds any longer.
        """
        wanted = {task.file.file_path for task in tasks} if self._copied_under in (None, base.current_schema_id) else set()
        self._copied_under = base.current_schema_id
        stale = [self._copies.pop(path) for path in list(self._copies) if path not in wanted]
        delete_quietly(self._handle, [file.file_path for copy in stale for file in copy.added])
        missing = [task for task in tasks if task.file.file_path not in self._copies]
        if not missing:
            return
        engine = _engine_for_rewrite(missing)
        self.engine_name = engine.name
        schema = base.schema()
        request = RewriteRequest(
            tasks=missing,
            delete_filter=bind(self._row_filter, schema, case_sensitive=self._case_sensitive),
            schema=schema,
            specs={spec.spec_id: spec for spec in base.partition_specs},
            target=write_target(self._handle, base),
        )
        for copy in engine.rewrite(request):
            self._copies[copy.source.file_path] = copy


def write_target(handle: TableHandle, metadata: TableMetadata) -> WriteTarget:
    """Where and in what form an engine writes the table's rows now."""
    order = metadata.sort_order() if metadata.sort_order().is_known else UNSORTED_SORT_ORDER
    return WriteTarget(
        table_name=handle.table_name,
        schema=metadata.schema(),
        spec=metadata.spec(),
        sort_order_id=order.order_id,
        sort_order=order,
        data_location=data_folder(metadata),
        properties=metadata.properties,
        older_schemas=_schemas_of_dropped_sources(metadata),
        io=handle.io,
        operation_uuid=handle.ids.uuid(),
    )


def _schemas_of_dropped_sources(metadata: TableMetadata) -> tuple[Schema, ...]:
    """One schema for each spec that is computed from a column which the table's schema no longer has."""
    found = [spec_schema(metadata, spec.spec_id) for spec in metadata.partition_specs]
    return tuple({schema.schema_id: schema for schema in found if schema.schema_id != metadata.current_schema_id}.values())


def _engine_for_rewrite(tasks: Sequence[FileScanTask]) -> Engine:
    """Spark where it runs already or the work is large; this process otherwise."""
    size = sum(task.file.file_size_in_bytes for task in tasks)
    spark = engine_named("spark")
    return spark if spark.is_active() or size >= REWRITE_ON_SPARK_BYTES else IN_PROCESS


def _context(handle: TableHandle, metadata: TableMetadata, snapshot_properties: Mapping[str, str]) -> CommitContext:
    return CommitContext(
        commit_uuid=handle.ids.uuid(),
        snapshot_id=handle.ids.snapshot_id(),
        metadata_location=metadata_folder(metadata),
        snapshot_properties=dict(snapshot_properties),
    )


def _result(
    operation: str, engine: str, report: CommitReport, *, added: Sequence[DataFile], replaced: ReplaceRows | None = None
) -> WriteResult:
    return WriteResult(
        operation=operation,
        engine=engine,
        snapshot_id=report.attempt.snapshot_id if report.attempt else None,
        attempts=report.attempts,
        added_files=len(added),
        added_records=sum(file.record_count for file in added),
        removed_files=replaced.removed_files if replaced else 0,
        rewritten_files=replaced.rewritten_files if replaced else 0,
        deleted_records=replaced.deleted_records if replaced else 0,
    )
