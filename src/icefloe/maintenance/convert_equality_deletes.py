"""`EqualityDeleteConversion`: convert equality deletes to deletion vectors (format version 3) or position deletes (version 2). No data file is written.

An equality delete file is removed once every live data file that it applies to has been searched for its rows.

A commit that adds positions has the operation `delete`, although no row changes. The reason is a compaction that was planned before the equality deletes were
added. Its files keep the older sequence number, so that newer equality deletes still apply to them. So it does not check for new equality deletes, but only for
new position deletes, in `delete` and `overwrite` snapshots. If the conversion were a `replace`, such a compaction would restore the deleted rows.
Spec: Scan Planning; Equality Delete Files; Deletion Vectors; Snapshots (operation).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from icefloe.commit.file_changes import DeleteKey, delete_key
from icefloe.datafile.deletes.merge_deletes import DeletesToMerge, merge_deletes
from icefloe.errors import EngineError
from icefloe.formatting import count_text
from icefloe.maintenance.dangling_deletes import live_deletes
from icefloe.maintenance.equality_delete_groups import EqualityDeleteGroup, is_equality_delete, with_equality_deletes
from icefloe.maintenance.group_rewrite import GroupRewrite, GroupRewriteResult, WrittenGroup
from icefloe.maintenance.rewrite_options import CommitOptions
from icefloe.operations.available_engines import engine_choice
from icefloe.operations.files.file_operations import RewriteDataFiles, RowChanges
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.parallel_requests import in_threads
from icefloe.operations.rows.row_change import rows_of_files
from icefloe.operations.rows.write_context import write_target
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.metadata.table_properties import DELETE_GRANULARITY

_Written = WrittenGroup[DeletesToMerge]
# Entry in the summary of a `delete` snapshot after which the table has the same rows as before.
CHANGES_NO_ROW = "maintenance.changes-no-row"
# Rows in the data files of one task: about an eighth of all rows, within these limits, so that tasks are even and read delete files few times. A task keeps the
# positions of its deleted rows in memory.
_TASKS = 8
_LEAST_ROWS, _MOST_ROWS = 2**18, 2**23


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConvertEqualityDeletesResult(GroupRewriteResult):
    """The result of a conversion; with `dry_run`, the result that the call would have.

    Attributes:
        equality_delete_files: The number of live equality delete files before the conversion.
        converted_delete_files: The number of equality delete files that were removed, because all rows that they delete are now deleted by position.
        searched_data_files: The number of data files whose key columns were read.
        added_delete_files: The number of new deletion vectors or position delete files; 0 for a dry run.
        replaced_delete_files: The number of older vectors and position delete files whose positions the new ones include.
    """

    subject = "equality deletes"

    equality_delete_files: int = 0
    converted_delete_files: int = 0
    searched_data_files: int = 0
    added_delete_files: int = 0
    replaced_delete_files: int = 0

    @property
    def left_delete_files(self) -> int:
        """The number of equality delete files that remain, because they apply to data files that were not searched."""
        return self.equality_delete_files - self.converted_delete_files

    def _facts(self) -> Iterator[tuple[str, str]]:
        would = "would be " if self.dry_run else ""
        yield "considered", count_text(self.equality_delete_files, "equality delete file")
        yield f"{would}converted", count_text(self.converted_delete_files, "equality delete file")
        yield f"{would}searched", count_text(self.searched_data_files, "data file")
        if not self.dry_run:
            yield "added", count_text(self.added_delete_files, "delete file")
        if self.replaced_delete_files:
            yield "replaced", count_text(self.replaced_delete_files, "older delete file")
        if self.searched_data_files and self.left_delete_files:
            yield "left", f"{count_text(self.left_delete_files, 'equality delete file')}: other data files need them"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPlan:
    """The planned work of a conversion.

    Attributes:
        snapshot_id: The snapshot that was planned on; None for a table without one.
        groups: The data files to search; each group is the work of one task.
        equality_delete_files: The number of live equality delete files.
        unused: The equality delete files that apply to no data file.
        uses: For each of the other equality delete files, the number of data files that it applies to.
    """

    snapshot_id: int | None = None
    groups: tuple[DeletesToMerge, ...] = ()
    equality_delete_files: int = 0
    unused: tuple[DataFile, ...] = ()
    uses: Mapping[DeleteKey, int] = field(default_factory=dict)


class EqualityDeleteConversion(GroupRewrite[ConversionPlan, DeletesToMerge, ConvertEqualityDeletesResult]):
    """A conversion of the equality deletes of a table's branch. A group consists of the data files of one task."""

    def __init__(
        self,
        table: LoadedTable,
        row_filter: str | BooleanExpression | None,
        options: CommitOptions,
        *,
        branch: str,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a conversion.

        Args:
            table: The table.
            row_filter: Only data files that may contain rows of this filter are searched; None searches all.
            options: The options about commits and concurrency.
            branch: The branch whose deletes are converted.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.
            snapshot_properties: Entries for the snapshots' summaries.
        """
        properties = {**(snapshot_properties or {}), CHANGES_NO_ROW: "true"}
        super().__init__(table, options, branch=branch, engine=engine, snapshot_properties=properties)
        self._row_filter = row_filter
        # For the current plan: delete files that apply to no data file, and for the others the number of data files that are still to be searched.
        self._unused: tuple[DataFile, ...] = ()
        self._waiting: Counter[DeleteKey] = Counter()
        self._converted = 0

    def plan(self) -> ConversionPlan:
        """Return the data files to search now. Raises the errors of `DataScan.plan`."""
        metadata, read = self._table.metadata, self._table.io.read
        scan = self._scan(AlwaysTrue() if self._row_filter is None else self._row_filter)
        snapshot = scan.snapshot()
        if snapshot is None:
            return ConversionPlan()
        live = [file for file in live_deletes(metadata, snapshot, read) if file.content is FileContent.EQUALITY_DELETES]
        if not live:
            return ConversionPlan(snapshot_id=snapshot.snapshot_id)
        plan = plan_scan(metadata, snapshot, AlwaysTrue(), read, parallel=in_threads, every_delete=True, schema=scan.schema())
        chosen: set[str] | None = None
        if self._row_filter is not None:
            kept = plan_scan(metadata, snapshot, scan.row_filter, read, parallel=in_threads, schema=scan.schema())
            chosen = set(kept.files["file_path"].to_pylist())
        is_equality = is_equality_delete(plan.delete_files)
        parts = [part for part in (with_equality_deletes(planned_part, is_equality) for planned_part in plan.parts) if part is not None]
        tasks = [task for part in parts for task in part.tasks()]
        uses = Counter(delete_key(file) for task in tasks for file in _equality_deletes(task))
        return ConversionPlan(
            snapshot_id=snapshot.snapshot_id,
            groups=tuple(self._bundles([task for task in tasks if chosen is None or task.file.file_path in chosen])),
            equality_delete_files=len(live),
            # With a filter, only equality deletes that apply to the filtered data files are removed.
            unused=tuple(file for file in live if delete_key(file) not in uses) if chosen is None else (),
            uses=uses,
        )

    def plan_of(self, snapshot_id: int | None, groups: Sequence[EqualityDeleteGroup]) -> ConversionPlan:
        """Return the plan for some of the groups of `equality_delete_groups`.

        Args:
            snapshot_id: The snapshot of the branch in which the groups were found; other writers may have committed since.
            groups: The groups to convert.
        """
        tasks = [task for group in groups for part in group.files for task in part.tasks()]
        # All data files of these deletes are in the groups, so that each delete can be removed with the last one of its data files.
        return ConversionPlan(
            snapshot_id=snapshot_id,
            groups=tuple(self._bundles(tasks)),
            equality_delete_files=sum(len(group.equality_deletes) for group in groups),
            uses=Counter(delete_key(file) for task in tasks for file in _equality_deletes(task)),
        )

    def _bundles(self, tasks: Sequence[FileScanTask]) -> Iterator[DeletesToMerge]:
        """Divide data files into tasks. Files of one partition, which have the same deletes, are next to each other."""
        metadata = self._table.metadata
        most = min(max(sum(task.file.record_count for task in tasks) // _TASKS, _LEAST_ROWS), _MOST_ROWS)
        ordered = sorted(tasks, key=lambda task: (task.spec_id, repr(task.file.partition)))
        bundle: list[FileScanTask] = []
        rows = 0

        def group() -> DeletesToMerge:
            return DeletesToMerge(
                tasks=tuple(bundle),
                as_vectors=metadata.format_version > 2,
                file_scoped=DELETE_GRANULARITY.read(metadata.properties) == "file",
            )

        for task in ordered:
            if bundle and rows + task.file.record_count > most:
                yield group()
                bundle, rows = [], 0
            bundle.append(task)
            rows += task.file.record_count
        if bundle:
            yield group()

    def _groups(self, plan: ConversionPlan, lost: Sequence[DeletesToMerge] | None = None) -> Sequence[DeletesToMerge]:
        if lost is None:
            return plan.groups
        paths = set(_paths(lost))
        return tuple(self._bundles([task for group in plan.groups for task in group.tasks if task.file.file_path in paths]))

    def _round(self, plan: ConversionPlan, groups: Sequence[DeletesToMerge]) -> list[DeletesToMerge]:
        self._waiting, self._unused = Counter(plan.uses), plan.unused
        return super()._round(plan, groups)

    def _batches(self, groups: Sequence[DeletesToMerge]) -> list[Sequence[DeletesToMerge]]:
        return super()._batches(groups) or ([()] if self._unused else [])

    def _write(self, batch: Sequence[DeletesToMerge]) -> list[_Written]:
        """Write the new delete files of groups. After a failure, none of the new files remains."""
        if not batch:
            return []
        metadata = self._table.metadata
        tasks = [task for group in batch for task in group.tasks]
        engine = engine_choice().for_files(tasks, self._engine)
        target = write_target(self._table.handle, metadata)
        outcomes = engine.map(
            partial(merge_deletes, rows_of_files(metadata, target)),
            batch,
            f"rewrite deletes of {self._table.full_name}",
            threads=self._commit_options.concurrent_groups,
            target=target,
        )
        return [WrittenGroup(group, outcome.added, outcome.superseded) for group, outcome in zip(batch, outcomes, strict=True)]

    def _check_rows(self, written: Sequence[_Written]) -> None:
        """Delete new vectors and raise `EngineError` if one deletes fewer rows than the vector that it replaces, or more than its data file has."""
        for group in written:
            rows = sum(task.file.record_count for task in group.group.tasks)
            before, after = (sum(file.record_count for file in files) for files in (group.superseded, group.added))
            if after > rows or (group.group.as_vectors and all(map(is_deletion_vector, group.superseded)) and after < before):
                self._delete(written)
                raise EngineError(
                    f"{count_text(len(group.group), 'data file')} of {self._table.full_name} with {count_text(rows, 'row')}, of which"
                    f" {before:,} were deleted by position, got {count_text(after, 'position')}; nothing of them was committed",
                    table=self._table.full_name,
                    next_step="run it with another engine (engine='spark' or engine='in-process'), and report this error",
                )

    def _commit_together(self, plan: ConversionPlan, written: Sequence[_Written]) -> None:
        converted = [*self._unused, *self._done_with(written)]
        if converted or any(group.added or group.superseded for group in written):
            super()._commit_together(plan, written)
        self._unused = ()
        self._converted += len(converted)
        self._waiting.subtract(
            delete_key(file) for written_group in written for task in written_group.group.tasks for file in _equality_deletes(task)
        )

    def _update(self, start: UpdateSnapshot, plan: ConversionPlan, written: Sequence[_Written]) -> RewriteDataFiles | RowChanges:  # noqa: ARG002
        """Return a commit that adds the new delete files, and removes those that they include and the equality deletes that no other data file still needs."""
        superseded = {delete_key(file): file for group in written for file in group.superseded}
        converted = [*self._unused, *self._done_with(written)]
        added = [file for group in written for file in group.added]
        if not added:
            # No row of a live data file has the deleted keys, so that no compaction can restore a row.
            update = start.rewrite_files()
            for file in converted:
                update.delete_file(file)
            return update
        changes = start.row_delta().validate_data_files_exist(_paths([written_group.group for written_group in written]))
        for file in added:
            changes.add_deletes(file)
        for file in (*superseded.values(), *converted):
            changes.remove_deletes(file)
        return changes

    def _done_with(self, written: Sequence[_Written]) -> list[DataFile]:
        """Return the equality delete files for which these groups contain all data files that are still to be searched."""
        return _done_with([written_group.group for written_group in written], self._waiting)

    def _result(self, plan: ConversionPlan, groups: Sequence[DeletesToMerge], *, dry_run: bool = False) -> ConvertEqualityDeletesResult:
        converted = len(plan.unused) + len(_done_with(groups, plan.uses)) if dry_run else self._converted
        return ConvertEqualityDeletesResult(
            table=self._table.full_name,
            dry_run=dry_run,
            snapshot_ids=tuple(self._snapshot_ids),
            equality_delete_files=max(plan.equality_delete_files, converted),
            converted_delete_files=converted,
            searched_data_files=len(set(_paths(groups))),
            added_delete_files=sum(len(group.added) for group in self._done),
            replaced_delete_files=len({delete_key(file) for group in self._done for file in group.superseded}),
            failed=(*self._failed, *self._lost),
        )


def _equality_deletes(task: FileScanTask) -> Iterator[DataFile]:
    return (file for file in task.delete_files if file.content is FileContent.EQUALITY_DELETES)


def _paths(groups: Sequence[DeletesToMerge]) -> list[str]:
    return [task.file.file_path for group in groups for task in group.tasks]


def _done_with(groups: Sequence[DeletesToMerge], waiting: Mapping[DeleteKey, int]) -> list[DataFile]:
    """Return the equality delete files for which these groups contain all data files that are still to be searched."""
    files = {delete_key(file): file for group in groups for task in group.tasks for file in _equality_deletes(task)}
    uses = Counter(delete_key(file) for group in groups for task in group.tasks for file in _equality_deletes(task))
    return [file for key, file in files.items() if uses[key] == waiting[key]]
