"""`GroupRewrite`: the base of rewrites that write files group by group, and commit all groups at once or in several commits.

If a commit conflicts with another writer's commit, its groups are committed again in halves, down to single groups, so that only the conflicting groups are
given up. The new files of these groups are deleted, unless the state of a commit is unknown. `rewrite_data_files.py`, `rewrite_position_deletes.py` and
`convert_equality_deletes.py` define what is written and what is replaced. Spec: Snapshots (operation replace); Commit Conflict Resolution and Retry.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, OperationResult
from icefloe.errors import CommitConflictError, CommitInvalidatedError, CommitUnknownError, IcefloeError, in_one_line
from icefloe.formatting import snapshots_text
from icefloe.maintenance.dangling_deletes import refuse_staging
from icefloe.maintenance.rewrite_options import CommitOptions
from icefloe.operations.available_engines import engine_named
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.data_scan import DataScan
from icefloe.operations.files.file_operations import RewriteDataFiles, RowChanges
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.loaded_table import LoadedTable
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile

# The maximum of rounds: groups that lost to another writer are planned and written again on the newest snapshot.
MAX_ROUNDS = 3
T = TypeVar("T")
G = TypeVar("G", bound=Sized)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedGroup:
    """A group of files that a rewrite gave up.

    Attributes:
        files: The number of files in the group.
        reason: The reason why it was not rewritten.
        is_lost: Whether the only reason is a conflict: another writer committed first.
    """

    files: int
    reason: str
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupRewriteResult(OperationResult):
    """The result of a rewrite by groups; with `dry_run`, the result that the call would have. Each subclass adds its counts.

    Attributes:
        subject: The name of the rewritten files in the report's title.
        table: The table.
        dry_run: Whether nothing was written.
        snapshot_ids: The snapshots that were committed.
        failed: The groups that were given up, with the reasons.
    """

    subject: ClassVar[str]

    table: str
    dry_run: bool = False
    snapshot_ids: tuple[int, ...] = ()
    failed: tuple[FailedGroup, ...] = ()

    @property
    def failed_files(self) -> int:
        """The number of files in the groups that were given up."""
        return sum(group.files for group in self.failed)

    @property
    def has_faults(self) -> bool:
        """Whether at least one group was given up."""
        return bool(self.failed)

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report with the counts and at most `most` of the groups that were given up."""
        facts = Facts((("snapshot", snapshots_text(self.snapshot_ids, dry_run=self.dry_run)), *self._facts()))
        columns = (Column("files", is_number=True), Column("reason"))
        failed = [(f"{group.files:,}", group.reason) for group in self.failed]
        return Report(f"{self.subject} of {self.table}", (facts, *([grid("given up", columns, failed, most)] if failed else [])))

    @abstractmethod
    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values that the report shows after the snapshots."""


@dataclass(frozen=True, slots=True)
class WrittenGroup(Generic[G]):
    """A group with its new files, which are not committed yet.

    Attributes:
        group: The group, as planned.
        added: The new files.
        superseded: Older delete files that the commit removes too, because the group turned out to include their positions when it was written.
    """

    group: G
    added: tuple[DataFile, ...]
    superseded: tuple[DataFile, ...] = ()


class Planned(Protocol):
    """The attribute that `GroupRewrite` needs of a rewrite's plan; how a plan holds its groups is up to the subclass."""

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that was planned on; None for a table without one."""


P = TypeVar("P", bound=Planned)
R = TypeVar("R", bound=GroupRewriteResult)


class GroupRewrite(Generic[P, G, R]):
    """A rewrite of files of a table's branch. Subclasses define the plan, the written files and the commit."""

    def __init__(
        self,
        table: LoadedTable,
        options: CommitOptions,
        *,
        branch: str,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a rewrite.

        Args:
            table: The table.
            options: The options about commits and concurrency.
            branch: The branch whose files are rewritten.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.
            snapshot_properties: Entries for the snapshots' summaries.
        """
        self._table = table
        self._commit_options = options
        self._branch = branch
        self._engine = engine
        self._properties = dict(snapshot_properties or {})
        self._snapshot_ids: list[int] = []
        self._done: list[WrittenGroup[G]] = []
        self._failed: list[FailedGroup] = []
        self._lost: list[FailedGroup] = []  # of the current round
        self._failed_commits = 0
        self._is_commit_begun = False

    @abstractmethod
    def plan(self) -> P:
        """Return the files that would be rewritten now, in groups."""

    @abstractmethod
    def _groups(self, plan: P, lost: Sequence[G] | None = None) -> Sequence[G]:
        """Return the groups of a plan that are to be written.

        Args:
            plan: The plan.
            lost: Groups of an earlier plan that lost to another writer; only groups with files of these groups are returned. None for all groups.
        """

    @abstractmethod
    def _result(self, plan: P, groups: Sequence[G], *, dry_run: bool = False) -> R:
        """Return the result for groups that were rewritten; with `dry_run`, for groups that would be."""

    def run(self, *, dry_run: bool = False) -> R:
        """Rewrite the files and commit them.

        Args:
            dry_run: Whether to only plan the rewrite.

        Returns:
            The counts of rewritten files, and the groups that were given up with the reasons; for a dry run, the counts of the files that would be rewritten.

        Raises:
            NoSuchFileError, DataFileFormatError, PuffinFormatError, StorageError: A file cannot be read or written. With partial progress, only the group of
                the file is given up, without an error.
            CommitUnknownError: The catalog's reply was lost. No file was deleted.
            CommitConflictError: Every retry lost to a commit by another writer.
            EngineError: There is no such engine.
            InvalidInputError: The session or the table stages writes for review (write-audit-publish), which maintenance does not support.
        """
        refuse_staging(self._table, self._branch)
        if self._engine is not None:
            engine_named(self._engine)  # an unknown engine is not the failure of a group
        first = plan = self.plan()
        remaining = self._groups(plan)
        if dry_run:
            return self._result(plan, remaining, dry_run=True)
        for _ in range(MAX_ROUNDS):
            self._lost = []
            lost = self._round(plan, remaining)
            if not lost:
                break
            self._table.refresh()
            plan = self.plan()
            remaining = self._groups(plan, lost)
        return self.committed_result(first)

    def run_groups(self, plan: P, groups: Sequence[G]) -> R:
        """Rewrite some groups of a plan once. Groups that lose to another writer are reported but not planned again, which limits the rewritten bytes.

        Args:
            plan: A plan of the branch; other writers may have committed since.
            groups: The groups to rewrite.

        Raises:
            CommitUnknownError: The catalog's reply was lost. No file was deleted.
            IcefloeError: The errors of `run`, unless there is partial progress.
        """
        refuse_staging(self._table, self._branch)
        self._lost = []
        self._round(plan, groups)
        return self.committed_result(plan)

    def _scan(self, row_filter: str | BooleanExpression) -> DataScan:
        """Return a scan of the branch; if the table has no snapshot yet, of the table."""
        scan = self._table.scan(row_filter)
        return scan.use_ref(self._branch) if self._table.metadata.refs else scan

    def committed_result(self, plan: P) -> R:
        """Return the result of the commits so far, also after an error."""
        return self._result(plan, [written.group for written in self._done])

    @abstractmethod
    def _write(self, batch: Sequence[G]) -> list[WrittenGroup[G]]:
        """Write the new files of groups. After a failure, none of the new files remains."""

    @abstractmethod
    def _check_rows(self, written: Sequence[WrittenGroup[G]]) -> None:
        """Check the row counts of new files, and delete the files if the counts are wrong. Raises `EngineError`."""

    @abstractmethod
    def _update(self, start: UpdateSnapshot, plan: P, written: Sequence[WrittenGroup[G]]) -> RewriteDataFiles | RowChanges:
        """Return a commit that adds the new files and removes the files that they replace; it is not validated yet."""

    def _round(self, plan: P, groups: Sequence[G]) -> list[G]:
        """Write and commit groups. Return the groups that lost to another writer."""
        lost: list[G] = []
        options = self._commit_options
        for batch in self._batches(groups):
            if options.partial_progress and self._failed_commits > options.max_failed_commits:
                reason, is_lost = f"{self._failed_commits} commits had failed", all(group.is_lost for group in self._failed)
                self._failed += [FailedGroup(files=len(group), reason=reason, is_lost=is_lost) for group in batch]
                continue
            lost += self._rewrite(plan, batch)
        return lost

    def _batches(self, groups: Sequence[G]) -> list[Sequence[G]]:
        """Divide the groups into batches; each batch is one commit."""
        if not self._commit_options.partial_progress:
            return [groups] if groups else []
        step = max(1, -(-len(groups) // self._commit_options.max_commits))
        return [groups[start : start + step] for start in range(0, len(groups), step)]

    def _rewrite(self, plan: P, batch: Sequence[G]) -> list[G]:
        try:
            written = self._write(batch)
            self._check_rows(written)
        except IcefloeError as error:
            if not self._commit_options.partial_progress:
                raise
            if len(batch) == 1:
                self._failed.append(FailedGroup(files=len(batch[0]), reason=in_one_line(error.message)))
                self._failed_commits += 1
                return []
            # One damaged file must not prevent the rewrite of the other groups.
            return [group for part in _halves(batch) for group in self._rewrite(plan, part)]
        return self._commit(plan, written)

    def _commit(self, plan: P, written: Sequence[WrittenGroup[G]]) -> list[G]:
        """Commit new files. After a conflict commit them in halves, down to single groups. Return the groups that lost, after deleting their new files."""
        self._is_commit_begun = False
        try:
            self._commit_together(plan, written)
        except CommitInvalidatedError as error:
            if len(written) < 2:
                self._failed_commits += 1
                self._delete(written)
                files = sum(len(written_group.group) for written_group in written)
                self._lost.append(FailedGroup(files=files, reason=in_one_line(error.message), is_lost=True))
                return [written_group.group for written_group in written]
        except BaseException as error:
            # If the state is unknown, or after an interrupt, the commit may have happened, and then the table needs the files.
            is_known = isinstance(error, IcefloeError) and not isinstance(error, CommitUnknownError)
            if not self._is_commit_begun or is_known:
                self._delete(written)
            if not self._commit_options.partial_progress or not isinstance(error, CommitConflictError):
                raise
            self._failed_commits += 1
            self._failed += [
                FailedGroup(files=len(written_group.group), reason=in_one_line(error.message), is_lost=True) for written_group in written
            ]
            return []
        else:
            self._done += written
            return []
        lost: list[G] = []
        waiting = _halves(written)
        try:
            while waiting:
                lost += self._commit(plan, waiting.pop(0))
        except BaseException:
            for part in waiting:
                self._delete(part)
            raise
        return lost

    def _commit_together(self, plan: P, written: Sequence[WrittenGroup[G]]) -> None:
        table = self._table
        update = self._update(UpdateSnapshot(table.mutation_context(), table.apply, self._properties, self._branch), plan, written)
        if plan.snapshot_id is not None:
            update.validate_from_snapshot(plan.snapshot_id)
        self._is_commit_begun = True
        update.commit()
        snapshot = table.snapshot_by_name(self._branch)
        if snapshot is not None:
            self._snapshot_ids.append(snapshot.snapshot_id)

    def _delete(self, written: Sequence[WrittenGroup[G]]) -> None:
        # Several deletion vectors are in the same Puffin file.
        delete_quietly(self._table.handle, list(dict.fromkeys(file.file_path for group in written for file in group.added)))


def _halves(items: Sequence[T]) -> list[Sequence[T]]:
    """Divide two or more items in halves. With repeated halving, one item that fails costs few additional commits."""
    return [items[: len(items) // 2], items[len(items) // 2 :]]
