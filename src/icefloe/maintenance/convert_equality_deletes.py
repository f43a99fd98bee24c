"""`EqualityDeleteConversion`: equality deletes become deletion vectors (format version 3) or position deletes (version 2). No data file is written.

An equality delete file is removed once its rows are found in every live data file that it applies to. A commit that adds positions has the operation
`delete`, although no row changes: a compaction that was planned before the equality deletes were added keeps its older sequence number, ignores newer
equality deletes because they still apply to its files, and is checked against the position deletes of `delete` and `overwrite` snapshots alone. After a
`replace` it would restore the deleted rows. Spec: Scan Planning; Equality Delete Files; Deletion Vectors; Snapshots (operation).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from icefloe.datafile.deletes.delete_file_output import WrittenDeletes
from icefloe.datafile.deletes.merge_deletes import DeletesToMerge
from icefloe.display.formatting import count_text
from icefloe.errors import CommitConflictError, CommitInvalidatedError, CommitUnknownError, IcefloeError, in_one_line
from icefloe.kernel.commit.file_changes import DeleteKey, delete_key
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.metadata.table_properties import DELETE_GRANULARITY
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.scan_planner import plan_scan
from icefloe.maintenance.dangling_deletes import live_deletes, refuse_staging
from icefloe.maintenance.equality_delete_groups import EqualityDeleteGroup, is_equality_delete, with_equality_deletes
from icefloe.maintenance.group_rewrite import MAX_ROUNDS, FailedGroup, GroupRewriteResult
from icefloe.maintenance.rewrite_options import CommitOptions
from icefloe.table.available_engines import engine_for_files, engine_named
from icefloe.table.commits.commit_loop import delete_quietly
from icefloe.table.engine import MergeDeletesRequest
from icefloe.table.files.file_operations import RewriteDataFiles, RowChanges
from icefloe.table.parallel_requests import in_threads
from icefloe.table.rows.row_change import specs_of
from icefloe.table.rows.write_context import write_target
from icefloe.table.table import Table

# Entry of the summary of a snapshot of the operation `delete` whose table has the same rows as before.
CHANGES_NO_ROW = "maintenance.changes-no-row"
# Rows of the data files of one task: about an eighth of all, so that tasks are even and read delete files few times, but within these bounds. A task keeps the
# positions of its deleted rows in memory.
_TASKS = 8
_LEAST_ROWS, _MOST_ROWS = 2**18, 2**23


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConvertEqualityDeletesResult(GroupRewriteResult):
    """The result of a conversion, or with `dry_run` what it would do.

    Attributes:
        equality_delete_files: Live equality delete files before.
        converted_delete_files: Equality delete files that were removed, because all rows that they delete are deleted by position.
        searched_data_files: Data files whose key columns were read.
        added_delete_files: New deletion vectors or position delete files; 0 of a dry run.
        replaced_delete_files: Older vectors and position delete files that the new ones include.
    """

    equality_delete_files: int = 0
    converted_delete_files: int = 0
    searched_data_files: int = 0
    added_delete_files: int = 0
    replaced_delete_files: int = 0

    @property
    def left_delete_files(self) -> int:
        """Equality delete files that were there before and still are: they apply to data files that were not searched."""
        return self.equality_delete_files - self.converted_delete_files

    def _lines(self) -> Iterator[str]:
        if not self.searched_data_files and not self.converted_delete_files and not self.failed:
            yield f"convert equality deletes: nothing to do, {count_text(self.equality_delete_files, 'equality delete file')}"
            return
        would = "would be " if self.dry_run else ""
        files = count_text(self.converted_delete_files, "equality delete file")
        data_files = count_text(self.searched_data_files, "data file")
        if self.dry_run:
            yield f"convert equality deletes: {files} would be converted, {data_files} would be searched"
        else:
            yield f"convert equality deletes: {files} became {count_text(self.added_delete_files, 'delete file')}, {data_files} searched"
        if self.replaced_delete_files:
            yield f"  {count_text(self.replaced_delete_files, 'older delete file')} {would}included in the new ones"
        if self.left_delete_files:
            yield f"  {count_text(self.left_delete_files, 'equality delete file')} left: other data files need them"
        for group in self.failed:
            yield f"  not converted: {count_text(group.files, 'data file')}: {group.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPlan:
    """What would be converted now.

    Attributes:
        snapshot_id: The snapshot that was planned on; None for a table without one.
        groups: Data files to search, one item for each task.
        equality_delete_files: Live equality delete files.
        unused: Equality delete files that apply to no data file.
        uses: The number of all data files that each other equality delete file applies to.
    """

    snapshot_id: int | None = None
    groups: tuple[DeletesToMerge, ...] = ()
    equality_delete_files: int = 0
    unused: tuple[DataFile, ...] = ()
    uses: Mapping[DeleteKey, int] = field(default_factory=dict)


class EqualityDeleteConversion:
    """One conversion of the equality deletes of a table's branch."""

    def __init__(
        self,
        table: Table,
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
            row_filter: Data files that can have no row of it are not searched; None searches all.
            options: Commits and concurrency.
            branch: The branch whose deletes are converted.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.
            snapshot_properties: Entries for the snapshots' summaries.
        """
        self._table = table
        self._row_filter = row_filter
        self._options = options
        self._branch = branch
        self._engine = engine
        self._properties = dict(snapshot_properties or {})
        self._snapshot_ids: list[int] = []
        self._searched: set[str] = set()
        self._plan = ConversionPlan()
        self._failed: list[FailedGroup] = []
        self._converted = self._added = self._replaced = self._failed_commits = 0

    def plan(self) -> ConversionPlan:
        """Return what would be converted now. Raises as `DataScan.plan`."""
        metadata, read = self._table.metadata, self._table.io.read
        scan = self._table.scan(AlwaysTrue() if self._row_filter is None else self._row_filter)
        scan = scan.use_ref(self._branch) if metadata.refs else scan
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
        parts = [part for part in (with_equality_deletes(one, is_equality) for one in plan.parts) if part is not None]
        tasks = [task for part in parts for task in part.tasks()]
        uses = Counter(delete_key(file) for task in tasks for file in _equality_deletes(task))
        return ConversionPlan(
            snapshot_id=snapshot.snapshot_id,
            groups=tuple(self._groups([task for task in tasks if chosen is None or task.file.file_path in chosen])),
            equality_delete_files=len(live),
            # With a filter only deletes of its data files are removed.
            unused=tuple(file for file in live if delete_key(file) not in uses) if chosen is None else (),
            uses=uses,
        )

    def _groups(self, tasks: Sequence[FileScanTask]) -> Iterator[DeletesToMerge]:
        """Yield data files by task; files of one partition, which have the same deletes, are next to each other."""
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

    def run(self, *, dry_run: bool = False) -> ConvertEqualityDeletesResult:
        """Convert the deletes and commit them.

        Raises:
            NoSuchFileError, DataFileFormatError, PuffinFormatError, StorageError: A file cannot be read or written, and there is no partial progress.
            CommitUnknownError: The catalog's reply was lost. No file was deleted.
            CommitConflictError: Other writers won every retry.
            EngineError: There is no such engine.
            InvalidInputError: Writes are staged.
        """
        refuse_staging(self._table, self._branch)
        if self._engine is not None:
            engine_named(self._engine)  # an unknown engine is no failure of a group
        first = plan = self.plan()
        if dry_run:
            self._searched.update(_paths(plan.groups))
            self._converted = len(plan.unused) + len(_done_with(plan.groups, Counter(plan.uses)))
            return self._result(first, (), dry_run=True)
        failed: list[FailedGroup] = []
        for _ in range(MAX_ROUNDS):
            failed, is_lost = self._round(plan)
            if not is_lost:
                break
            self._table.refresh()
            plan = self.plan()
        return self._result(first, failed)

    def run_groups(self, snapshot_id: int | None, groups: Sequence[EqualityDeleteGroup]) -> ConvertEqualityDeletesResult:
        """Convert the deletes of some groups once. Data files that lose to another writer are reported, and not planned again.

        Args:
            snapshot_id: The snapshot of the branch in which the groups were found; other writers may have committed since.
            groups: The groups.

        Raises:
            CommitUnknownError: The catalog's reply was lost. No file was deleted.
            IcefloeError: As `run`, unless there is partial progress.
        """
        refuse_staging(self._table, self._branch)
        tasks = [task for group in groups for part in group.files for task in part.tasks()]
        # All data files of these deletes are in the groups, so that each delete can be removed with the last of them.
        self._plan = ConversionPlan(
            snapshot_id=snapshot_id,
            groups=tuple(self._groups(tasks)),
            equality_delete_files=sum(len(group.equality_deletes) for group in groups),
            uses=Counter(delete_key(file) for task in tasks for file in _equality_deletes(task)),
        )
        self._failed, _ = self._round(self._plan)
        return self.committed()

    def committed(self) -> ConvertEqualityDeletesResult:
        """Return what was committed so far, also after an error."""
        return self._result(self._plan, self._failed)

    def _round(self, plan: ConversionPlan) -> tuple[list[FailedGroup], bool]:
        """Convert the groups of a plan. Return the groups that failed, and whether a commit was lost to another writer."""
        failed: list[FailedGroup] = []
        is_lost = False
        waiting, unused = Counter(plan.uses), plan.unused
        for batch in self._batches(plan):
            if self._options.partial_progress and self._failed_commits > self._options.max_failed_commits:
                reason, all_lost = f"{self._failed_commits} commits had failed", all(one.is_lost for one in failed)
                failed.append(FailedGroup(files=len(_paths(batch)), reason=reason, is_lost=all_lost))
                continue
            try:
                written = self._write(batch)
            except IcefloeError as error:
                if not self._options.partial_progress:
                    raise
                self._failed_commits += 1
                failed.append(FailedGroup(files=len(_paths(batch)), reason=in_one_line(error.message)))
                continue
            try:
                self._commit(plan, batch, written, waiting, unused)
            except (CommitInvalidatedError, CommitConflictError) as error:
                is_invalid = isinstance(error, CommitInvalidatedError)
                if not is_invalid and not self._options.partial_progress:
                    raise
                is_lost |= is_invalid
                self._failed_commits += 1
                failed.append(FailedGroup(files=len(_paths(batch)), reason=in_one_line(error.message), is_lost=True))
                continue
            unused = ()
        return failed, is_lost

    def _batches(self, plan: ConversionPlan) -> list[Sequence[DeletesToMerge]]:
        """Divide the groups into those of one commit each."""
        if not self._options.partial_progress or not plan.groups:
            return [plan.groups] if plan.groups or plan.unused else []
        step = max(1, -(-len(plan.groups) // self._options.max_commits))
        return [plan.groups[start : start + step] for start in range(0, len(plan.groups), step)]

    def _write(self, batch: Sequence[DeletesToMerge]) -> list[WrittenDeletes]:
        """Write the new delete files of groups. After a failure none remains."""
        if not batch:
            return []
        metadata = self._table.metadata
        tasks = [task for group in batch for task in group.tasks]
        engine = engine_named(self._engine) if self._engine is not None else engine_for_files(tasks)
        return engine.merge_deletes(
            MergeDeletesRequest(
                work=batch,
                schema=metadata.schema(),
                specs=specs_of(metadata),
                target=write_target(self._table.handle, metadata),
                schemas=tuple(metadata.schemas),
                at_once=self._options.concurrent_groups,
            )
        )

    def _commit(
        self,
        plan: ConversionPlan,
        batch: Sequence[DeletesToMerge],
        written: Sequence[WrittenDeletes],
        waiting: Counter[DeleteKey],
        unused: Sequence[DataFile],
    ) -> None:
        """Commit the new delete files, and remove the equality delete files that no data file waits for any more.

        Raises:
            CommitInvalidatedError: Another writer replaced or deleted rows of the same data files. The new files are deleted.
        """
        added = [file for outcome in written for file in outcome.added]
        superseded = {delete_key(file): file for outcome in written for file in outcome.superseded}
        converted = [*unused, *_done_with(batch, waiting)]
        is_begun = False
        try:
            if added or superseded or converted:
                update = self._table.update_snapshot({**self._properties, CHANGES_NO_ROW: "true"}, self._branch)
                pending: RowChanges | RewriteDataFiles
                if added:
                    pending = update.row_delta().validate_data_files_exist(_paths(batch))
                    for file in added:
                        pending.add_deletes(file)
                    for file in (*superseded.values(), *converted):
                        pending.remove_deletes(file)
                else:
                    # No row of a live data file has the keys, so that no compaction can restore one.
                    pending = update.rewrite_files()
                    for file in converted:
                        pending.delete_file(file)
                if plan.snapshot_id is not None:
                    pending.validate_from_snapshot(plan.snapshot_id)
                is_begun = True
                pending.commit()
                snapshot = self._table.snapshot_by_name(self._branch)
                self._snapshot_ids += [] if snapshot is None else [snapshot.snapshot_id]
        except BaseException as error:
            # With an unknown state, or after an interrupt, the commit may have happened, and then the table needs the files.
            is_known = isinstance(error, IcefloeError) and not isinstance(error, CommitUnknownError)
            if not is_begun or is_known:
                delete_quietly(self._table.handle, list(dict.fromkeys(file.file_path for file in added)))
            raise
        waiting.subtract(delete_key(file) for group in batch for task in group.tasks for file in _equality_deletes(task))
        self._searched.update(_paths(batch))
        self._converted += len(converted)
        self._added += len(added)
        self._replaced += len(superseded)

    def _result(self, plan: ConversionPlan, failed: Sequence[FailedGroup], *, dry_run: bool = False) -> ConvertEqualityDeletesResult:
        return ConvertEqualityDeletesResult(
            dry_run=dry_run,
            snapshot_ids=tuple(self._snapshot_ids),
            equality_delete_files=max(plan.equality_delete_files, self._converted),
            converted_delete_files=self._converted,
            searched_data_files=len(self._searched),
            added_delete_files=self._added,
            replaced_delete_files=self._replaced,
            failed=tuple(failed),
        )


def _equality_deletes(task: FileScanTask) -> Iterator[DataFile]:
    return (file for file in task.delete_files if file.content is FileContent.EQUALITY_DELETES)


def _paths(groups: Sequence[DeletesToMerge]) -> list[str]:
    return [task.file.file_path for group in groups for task in group.tasks]


def _done_with(groups: Sequence[DeletesToMerge], waiting: Mapping[DeleteKey, int]) -> list[DataFile]:
    """Return the equality delete files that apply to no other data file that waits than those of these groups."""
    files = {delete_key(file): file for group in groups for task in group.tasks for file in _equality_deletes(task)}
    uses = Counter(delete_key(file) for group in groups for task in group.tasks for file in _equality_deletes(task))
    return [file for key, file in files.items() if uses[key] == waiting[key]]
