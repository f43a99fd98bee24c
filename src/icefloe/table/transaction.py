"""`Transaction`: what `table.transaction()` gives: several changes of a table's rows and metadata as one commit.

How changes are put on one another is `kernel/commit/composite_action.py`; what each write does is `table_writes.py`. Spec: Optimistic Concurrency.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from icefloe.errors import CommitInvalidatedError, IcefloeError, InvalidInputError, NoSuchFileError, Problem
from icefloe.kernel.commit.attempt import Action, Attempt
from icefloe.kernel.commit.composite_action import CompositeAction, StagedFiles
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.changes.metadata_mutations import MetadataMutations
from icefloe.table.changes.mutation_context import MutationContext, R
from icefloe.table.changes.pending_change import Commit
from icefloe.table.changes.ref_mutations import RefMutations
from icefloe.table.changes.row_mutations import RowMutations
from icefloe.table.commits.commit_loop import delete_quietly
from icefloe.table.expiry.expire_report import ExpireReport
from icefloe.table.expiry.expire_snapshots import ExpiresSnapshots
from icefloe.table.rows.table_writes import PreparedWrite
from icefloe.table.table_handle import TableHandle, reload_metadata
from icefloe.table.write_result import WriteResult


class Transaction(RowMutations, MetadataMutations, RefMutations, ExpiresSnapshots):
    """Changes that are committed together at the end of a `with` block, unless the block ends in an error. Each sees those before it.

    Each write of rows is a snapshot of its own; its result counts no attempts yet. Beside other writers the whole is as any single change: made again on the
    newer table where what it is based on is as it was, a conflict where not. Files of rows are written at once; a transaction that ends in an error deletes its
    own.
    """

    def __init__(self, base: TableMetadata, commit: Commit, handle: TableHandle, metadata_location: str = "") -> None:
        self._base = self._working = base
        self._commit_all = commit
        self._handle = handle
        self._metadata_location = metadata_location
        self._actions: list[Action] = []
        self._staged = StagedFiles()
        self._afterwards: list[Callable[[], Any]] = []
        self._expired: list[ExpireReport] = []
        self._is_open = True

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata as the changes so far make it. Nothing of them is in the catalog yet."""
        return self._working

    @property
    def expire_reports(self) -> tuple[ExpireReport, ...]:
        """Of each `expire_snapshots`, once the transaction is committed: what it took out and which files it deleted."""
        return tuple(self._expired)

    def commit_transaction(self) -> None:
        """Commits every change as one version of the table; nothing where nothing changes. The transaction is over then.

        Raises:
            CommitConflictError: another writer changed what one of the changes is based on. Nothing is changed: refresh the table and look again.
        """
        self._check_open()
        self._is_open = False
        if self._actions:
            self._commit_all(CompositeAction(self._actions, self._staged))
            self.run_afterwards()

    def run_afterwards(self) -> None:
        """What is to be done once the commit stands: the deletion of files that nothing needs any more. For whoever commits the actions himself."""
        waiting, self._afterwards = self._afterwards, []
        self._expired += [result for result in (one() for one in waiting) if isinstance(result, ExpireReport)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit_transaction()
        else:
            self.give_up()

    def end(self) -> Action | None:
        """Every change so far as one action, for whoever commits it, and then calls `run_afterwards`; None without a change. The transaction is over then."""
        self._check_open()
        self._is_open = False
        return CompositeAction(self._actions, self._staged) if self._actions else None

    def give_up(self) -> None:
        """Deletes the files of rows that were written for it, unless it is over."""
        if self._is_open:
            self._is_open = False
            delete_quietly(self._handle, [location for action in self._actions for location in action.new_data_files()])

    def _start(self) -> MutationContext:
        self._check_open()
        return MutationContext(
            handle=self._handle,
            metadata=self._working,
            metadata_location=self._metadata_location,
            staged_read=self._staged.reading(self._handle.io.read),
        )

    def _commit(self, action: Action) -> None:
        self._stage(action)

    def _commit_then(self, action: Action, afterwards: Callable[[], R]) -> R | None:
        self._stage(action)
        self._afterwards.append(afterwards)
        return None

    def _write(self, write: PreparedWrite) -> WriteResult:
        return write.result(self._stage(write.action), 0)

    def _stage(self, action: Action) -> Attempt | None:
        """Makes the action's change on the working metadata, so that a wrong one is refused here, and keeps it for the commit.

        Also where it has nothing to do: it may have on the table as it is by then.
        """
        self._check_open()
        now_ms = max(self._handle.clock.now_ms(), self._working.last_updated_ms)
        try:
            made = action.attempt(self._working, number=0, now_ms=now_ms, read=self._staged.reading(self._handle.io.read))
            if made is not None:
                self._working = apply_updates(self._working, made.updates, now_ms)
                self._staged.add(made)
            self._actions.append(action)
        except BaseException as error:
            delete_quietly(self._handle, action.new_data_files())
            if isinstance(error, NoSuchFileError) and (expired := self._expired_since()):
                raise self._begun_too_early(error, expired) from error
            raise
        return made

    def _expired_since(self) -> list[int]:
        """The snapshots that this began on and that others have expired since; none where that cannot be told."""
        try:
            there = reload_metadata(self._handle, self._base).metadata.snapshots.ids()
        except IcefloeError:
            return []
        return sorted(self._base.snapshots.ids() - there)

    def _begun_too_early(self, error: IcefloeError, expired: Sequence[int]) -> CommitInvalidatedError:
        return CommitInvalidatedError(
            f"another writer expired snapshots that this transaction began on, and a file that it needs of them is gone: {error.message}",
            table=self._handle.table_name,
            path=error.path,
            snapshot_id=expired[0],
            problems=(
                Problem(where="expected", what="every snapshot that the table had when it was loaded"),
                Problem(where="found", what=f"{len(expired)} of them are expired: {', '.join(map(str, expired[:3]))}"),
            ),
            next_step="a retry makes sense: refresh the table, and begin the transaction again",
        )

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError(
                "this transaction is over: it was committed, or its block ended in an error",
                next_step="begin another with table.transaction()",
            )
