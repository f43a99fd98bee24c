"""`RewriteDataFiles`: compaction. Small files, and files with many deletes, are replaced by files of the target size with the same rows.

`rewrite_planner.py` chooses the files. New files are committed by group as a `replace`. If another writer has added deletes to the files of a group, the group
is given up and planned again. Other writers never wait. Spec: Snapshots (operation replace); Sequence Numbers; Row Lineage.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from icefloe.commit.file_changes import delete_key
from icefloe.datafile.compact_files import FilesToCompact, compact_files
from icefloe.datafile.deletes.delete_loader import is_scoped_to
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import EngineError
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.clustering_depth import is_misplaced
from icefloe.maintenance.dangling_deletes import remove_dangling_deletes
from icefloe.maintenance.group_rewrite import GroupRewrite, GroupRewriteResult, WrittenGroup
from icefloe.maintenance.rewrite_options import RewriteOptions
from icefloe.maintenance.rewrite_order import RowOrder, without_constant_columns
from icefloe.maintenance.rewrite_planner import FileGroup, RewritePlan, RewriteReason, chosen_files, plan_rewrite
from icefloe.operations.available_engines import IN_PROCESS, engine_choice
from icefloe.operations.engine import Engine
from icefloe.operations.files.file_operations import RewriteDataFiles
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.parallel_requests import in_threads
from icefloe.operations.rows.row_change import rows_of_files
from icefloe.operations.rows.write_context import write_target
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DISTRIBUTION_MODE, TARGET_FILE_SIZE_BYTES
from icefloe.spec.partitioning.curve_cells import CurveOrder
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID, UNSORTED_SORT_ORDER
from icefloe.spec.schema.schema import schema_with_lineage

_Written = WrittenGroup[FileGroup]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RewriteDataFilesResult(GroupRewriteResult):
    """The result of a compaction; with `dry_run`, the result that the call would have.

    Attributes:
        rewritten_files: The number of data files that were replaced.
        added_files: The number of new data files; for a dry run the expected number.
        rewritten_bytes: The size of the replaced files.
        added_bytes: The size of the new files; 0 for a dry run.
        removed_delete_files: The number of delete files that were removed: those that applied only to replaced files, and with `remove-dangling-deletes` all
            that apply to no data file any more.
        deleted_rows: The number of deleted rows that are in no data file any more.
        reasons: The number of replaced files by the reason for their choice.
        considered_files: The number of live data files that may contain rows of the filter.
        left_files: The number of files that should be rewritten but were left, because rewriting a group of them would not pay.
    """

    subject = "data files"

    rewritten_files: int = 0
    added_files: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0
    removed_delete_files: int = 0
    deleted_rows: int = 0
    reasons: Mapping[RewriteReason, int] = field(default_factory=dict)
    considered_files: int = 0
    left_files: int = 0

    def _facts(self) -> Iterator[tuple[str, str]]:
        would = "would be " if self.dry_run else ""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        yield "considered", count_text(self.considered_files, "file")
        rewritten = f"{count_text(self.rewritten_files, 'file')}, {size_text(self.rewritten_bytes)}"
        yield f"{would}rewritten", rewritten + (f": {reasons}" if reasons else "")
        yield f"{would}added", count_text(self.added_files, "file") + ("" if self.dry_run else f", {size_text(self.added_bytes)}")
        if self.removed_delete_files:
            yield f"{would}removed", count_text(self.removed_delete_files, "delete file")
        if self.deleted_rows:
            yield "deleted rows", f"{self.deleted_rows:,} are in no file any more"
        if self.left_files:
            yield "left", f"{count_text(self.left_files, 'file')}: too few in a partition to pay"


class DataFileRewrite(GroupRewrite[RewritePlan, FileGroup, RewriteDataFilesResult]):
    """A compaction of a table's branch."""

    def __init__(
        self,
        table: LoadedTable,
        row_filter: str | BooleanExpression,
        options: RewriteOptions,
        order: RowOrder = UNSORTED_SORT_ORDER,
        *,
        branch: str,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a rewrite.

        Args:
            table: The table.
            row_filter: Only files that may contain rows of this filter are rewritten.
            options: The thresholds and sizes.
            order: The sort order, or space-filling curve, of the rows over all files of a group; an unsorted order keeps the order of rows.
            branch: The branch whose files are rewritten.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.
            snapshot_properties: Entries for the snapshots' summaries.

        Raises:
            InvalidInputError: In each partition, every column of the curve has only one value.
        """
        super().__init__(table, options, branch=branch, engine=engine, snapshot_properties=snapshot_properties)
        self._row_filter = row_filter
        self._options = options
        self._order = without_constant_columns(order, table, options.output_spec_id) if isinstance(order, CurveOrder) else order

    def plan(self) -> RewritePlan:
        """Return the groups of files that would be rewritten now. Raises the errors of `DataScan.plan`."""
        metadata, scan = self._table.metadata, self._scan(self._row_filter)
        plan = plan_scan(
            metadata,
            scan.snapshot(),
            scan.row_filter,
            self._table.io.read,
            parallel=in_threads,
            include_statistics=self._sorts,
            # Rows of a chosen file that do not match the filter are rewritten too, with their deletes applied.
            every_delete=True,
            schema=scan.schema(),
        )
        overlaps = partial(is_misplaced, order=self._order, schema=scan.schema()) if self._sorts else None
        return plan_rewrite(replace(plan, parts=tuple(map(_with_every_row, plan.parts))), metadata, self._options, overlaps)

    @property
    def _sorts(self) -> bool:
        return isinstance(self._order, CurveOrder) or not self._order.is_unsorted

    def _groups(self, plan: RewritePlan, lost: Sequence[FileGroup] | None = None) -> Sequence[FileGroup]:
        if lost is None:
            return plan.groups
        paths = {task.file.file_path for group in lost for task in group.tasks}
        return [group for group in plan.groups if any(task.file.file_path in paths for task in group.tasks)]

    def run(self, *, dry_run: bool = False) -> RewriteDataFilesResult:
        """Rewrite the files and commit them; then remove dangling deletes, if the option is set. Raises the errors of `GroupRewrite.run`."""
        result = super().run(dry_run=dry_run)
        if dry_run or not self._options.remove_dangling:
            return result
        removal = remove_dangling_deletes(self._table, branch=self._branch, snapshot_properties=self._properties)
        snapshots = () if removal.snapshot_id is None else (removal.snapshot_id,)
        removed = result.removed_delete_files + removal.removed_files
        return replace(result, snapshot_ids=(*result.snapshot_ids, *snapshots), removed_delete_files=removed)

    def _check_rows(self, written: Sequence[_Written]) -> None:
        """Check that new files have all rows of their groups, because a commit would silently lose rows. If not, delete the files and raise `EngineError`."""
        for written_group in written:
            before, after = written_group.group.record_count, sum(file.record_count for file in written_group.added)
            if after > before or (after < before and not written_group.group.has_deletes):
                self._delete(written)
                raise EngineError(
                    f"{count_text(len(written_group.group), 'file')} of {self._table.full_name} with {count_text(before, 'row')} became new files with"
                    f" {count_text(after, 'row')}; nothing of them was committed",
                    table=self._table.full_name,
                    next_step="run it with another engine (engine='spark' or engine='in-process'), and report this error",
                )

    def _write(self, batch: Sequence[FileGroup]) -> list[_Written]:
        """Write the new files of groups. After a failure, none of the new files remains."""
        metadata = self._table.metadata
        target = self._target(metadata)
        tasks = [task for group in batch for task in group.tasks]
        engine = engine_choice().for_files(tasks, self._engine)
        if self._sorts:
            if self._engine is None and engine is IN_PROCESS:
                self._check_memory(batch)
            return self._write_sorted(batch, engine, target)
        parts = [(group, part) for group in batch for part in group.parts(self._options.sizes.limit)]
        outcomes = engine.map(
            partial(compact_files, rows_of_files(metadata, target)),
            [FilesToCompact(tasks=part, keeps_row_ids=metadata.format_version > 2) for _, part in parts],
            f"compact {self._table.full_name}",
            threads=self._options.concurrent_groups,
            target=target,
        )
        added: dict[FileGroup, tuple[DataFile, ...]] = dict.fromkeys(batch, ())
        for (group, _), outcome in zip(parts, outcomes, strict=True):
            added[group] += outcome.added
        return [WrittenGroup(group, files) for group, files in added.items()]

    def _check_memory(self, batch: Sequence[FileGroup]) -> None:
        """Raise `EngineError` for a sort without Spark if a group would not fit in memory."""
        size = max(group.size for group in batch)
        if size >= engine_choice().bytes_to_start:
            raise EngineError(
                f"a group of files of {self._table.full_name} has {size_text(size)}, and Spark, which sorts so many rows on disk, is not available",
                table=self._table.full_name,
                next_step="install icefloe[spark], choose a smaller max-file-group-size-bytes, or choose engine='in-process', which sorts in memory",
            )

    def _write_sorted(self, batch: Sequence[FileGroup], engine: Engine, target: WriteTarget) -> list[_Written]:
        """Write the new files of groups, each group sorted as a whole. After a failure, none of the new files remains."""
        metadata, scan = self._table.metadata, self._scan(self._row_filter)
        schema = metadata.schema()
        if metadata.format_version > 2:
            schema = schema_with_lineage(schema)
        done: list[_Written] = []
        try:
            for group in batch:
                plan = ScanPlan(
                    snapshot_id=None, schema=scan.schema(), row_filter=AlwaysTrue(), parts=group.files, delete_files=group.delete_files
                )
                request = replace(scan.request(schema, plan), row_filter=AlwaysTrue())
                sorted_target = replace(
                    self._in_order(target, group),
                    schema=schema,
                    operation_uuid=self._table.handle.ids.uuid(),
                    properties={**target.properties, DISTRIBUTION_MODE.name: "range"},
                    sorted_parts=group.output_files,
                )
                done.append(WrittenGroup(group, tuple(engine.write(engine.read(request), sorted_target))))
        except BaseException:
            self._delete(done)
            raise
        return done

    def _in_order(self, target: WriteTarget, group: FileGroup) -> WriteTarget:
        """Return the target for sorted rows. The files name a sort order only if the table has it; rows along a space-filling curve have no sort order."""
        if isinstance(self._order, CurveOrder):
            curve = replace(
                self._order,
                text_bytes=self._options.text_bytes,
                most_bytes=self._options.most_output_bytes,
                expected_rows=group.record_count,
            )
            return replace(target, sort_order=UNSORTED_SORT_ORDER, sort_order_id=UNSORTED_ORDER_ID, curve=curve)
        orders = self._table.metadata.sort_orders
        known = next((order.order_id for order in orders if order.fields == self._order.fields), UNSORTED_ORDER_ID)
        return replace(target, sort_order=self._order, sort_order_id=known)

    def _target(self, metadata: TableMetadata) -> WriteTarget:
        sizes = self._options.sizes
        target = write_target(self._table.handle, metadata)
        return replace(
            target,
            spec=metadata.spec_by_id(self._options.output_spec_id),
            # A part has about the target size. A file is closed only at a larger size, so that each part becomes one file.
            properties={**target.properties, TARGET_FILE_SIZE_BYTES.name: str(sizes.limit)},
        )

    def _update(self, start: UpdateSnapshot, plan: RewritePlan, written: Sequence[_Written]) -> RewriteDataFiles:
        update = start.rewrite_files()
        snapshot = None if plan.snapshot_id is None else self._table.metadata.snapshot_by_id(plan.snapshot_id)
        # Deletes that others add to a partition meanwhile do not apply to files of a different spec, so that they are a conflict.
        keeps_spec = all(part.spec_id == self._options.output_spec_id for written_group in written for part in written_group.group.files)
        if self._options.keeps_sequence_number and keeps_spec and snapshot is not None and self._table.format_version > 1:
            update.data_sequence_number(snapshot.sequence_number)
        for written_group in written:
            for task in written_group.group.tasks:
                update.delete_file(task.file)
            for file in written_group.added:
                update.add_file(file)
        for file in deletes_of_these_alone([written_group.group for written_group in written]):
            update.delete_file(file)
        return update

    def _result(self, plan: RewritePlan, groups: Sequence[FileGroup], *, dry_run: bool = False) -> RewriteDataFilesResult:
        added = [file for written in self._done for file in written.added]
        return RewriteDataFilesResult(
            table=self._table.full_name,
            dry_run=dry_run,
            snapshot_ids=tuple(self._snapshot_ids),
            rewritten_files=sum(len(group) for group in groups),
            added_files=sum(group.output_files for group in groups) if dry_run else len(added),
            rewritten_bytes=sum(group.size for group in groups),
            added_bytes=sum(file.file_size_in_bytes for file in added),
            removed_delete_files=len(deletes_of_these_alone(groups)),
            deleted_rows=0 if dry_run else sum(group.record_count for group in groups) - sum(file.record_count for file in added),
            reasons=chosen_files(groups),
            considered_files=plan.considered_files,
            left_files=plan.left_files,
            failed=(*self._failed, *self._lost),
        )


def _with_every_row(part: PlannedFiles) -> PlannedFiles:
    """Return planned files without their row filter, because rows that do not match it are rewritten too."""
    return replace(part, residuals=(AlwaysTrue(),), residual_index=np.zeros(len(part), dtype=np.int64))


def deletes_of_these_alone(groups: Sequence[FileGroup]) -> list[DataFile]:
    """Return the delete files that apply only to one file, which is in the groups. They are removed with the file. Spec: Deletion Vectors."""
    deletes: dict[Any, DataFile] = {}
    for task in (task for group in groups if group.has_deletes for task in group.tasks):
        deletes.update({delete_key(file): file for file in task.delete_files if is_scoped_to(file, task.file.file_path)})
    return list(deletes.values())
