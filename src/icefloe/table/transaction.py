"""`Transaction`: several changes of a table's rows and metadata as one commit, started by `table.transaction()`.

`commit/composite_action.py` combines the actions, and `rows/table_writes.py` prepares each write of rows. The table commits the result.
Spec: Optimistic Concurrency.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from icefloe.commit.attempt import Action
from icefloe.commit.composite_action import CompositeAction, StagedFiles
from icefloe.errors import CommitInvalidatedError, IcefloeError, InvalidInputError, NoSuchFileError, Problem, in_one_line
from icefloe.formatting import count_text, short_text
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.expiry.expire_report import ExpireReport
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import LoadedMetadata, reload_metadata
from icefloe.operations.pending_change import Commit, CommitReport, MutationContext
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.table.table_mutations import TableMutations


class Transaction(TableMutations):
    """Changes that are committed together at the end of a `with` block, unless the block ends in an error. Each change sees those before it.

    Each write of rows becomes a snapshot of its own; `attempts` of its result is 0, because nothing is committed yet. For other writers the transaction is
    a single change: after a lost race all its changes are applied again to the newer table, or it fails with a conflict if the other writer changed what
    they are based on. Data files are written before the commit; a transaction that ends in an error deletes the data files that it wrote.
    """

    def __init__(
        self, base: TableMetadata, commit: Commit, handle: TableHandle, metadata_location: str = "", table: TableReader | None = None
    ) -> None:
        self._base = self._working = base
        self._commit_all = commit
        self._handle = handle
        self._metadata_location = metadata_location
        self._table = table
        self._actions: list[Action] = []
        self._staged = StagedFiles()
        self._base_check: Callable[[TableMetadata], None] | None = None
        self._afterwards: list[Callable[[], Any]] = []
        self._expired: list[ExpireReport] = []
        self._is_open = True

    def __repr__(self) -> str:
        state = "open" if self._is_open else "ended"
        return in_one_line(f"Transaction({short_text(self._handle.table_name)}: {count_text(len(self._actions), 'change')}, {state})")

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far, none of which is committed yet."""
        return self._working

    @property
    def expire_reports(self) -> tuple[ExpireReport, ...]:
        """The reports of the transaction's `expire_snapshots` calls, in order; empty before the commit."""
        return tuple(self._expired)

    def commit_transaction(self) -> Any:
        """Commit every change as one version of the table, and end the transaction. Without changes there is no commit.

        Returns:
            The table that the transaction was started on.

        Raises:
            CommitConflictError: another writer changed what one of the changes is based on. Nothing was changed: refresh the table and check again.
            InvalidInputError: the transaction has ended already.
        """
        self._check_open()
        self._is_open = False
        if self._actions:
            self._commit_all(CompositeAction(self._actions, self._staged, self._base_check))
            self.run_afterwards()
        return self._table

    def run_afterwards(self) -> None:
        """Call the `afterwards` callbacks that `apply` received, such as the deletion of expired files. A caller of `end` calls this after its own commit."""
        waiting, self._afterwards = self._afterwards, []
        self._expired += [result for result in (callback() for callback in waiting) if isinstance(result, ExpireReport)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit_transaction()
        else:
            self.give_up()

    def end(self) -> Action | None:
        """End the transaction and return its changes as one action; None without changes. The caller commits it, then calls `run_afterwards`."""
        self._check_open()
        self._is_open = False
        return CompositeAction(self._actions, self._staged, self._base_check) if self._actions else None

    def check_bases(self, check: Callable[[TableMetadata], None]) -> None:
        """Set a function that can forbid the commit. It is called with the base metadata of each attempt, and raises an error to forbid the attempt."""
        self._base_check = check

    def give_up(self) -> None:
        """End the transaction without a commit, and delete the data files that it has written. Do nothing if it has ended already."""
        if self._is_open:
            self._is_open = False
            delete_quietly(self._handle, [location for action in self._actions for location in action.new_data_files()])

    @property
    def maintenance(self) -> NoReturn:
        """Refuse maintenance, which commits several times. Raises `InvalidInputError`."""
        raise InvalidInputError("maintenance is no part of a transaction", next_step="call it on the table, after the transaction")

    def mutation_context(self) -> MutationContext:
        """Return the metadata with the changes so far, on which the next change is based. Raises `InvalidInputError` after the end."""
        self._check_open()
        return MutationContext(
            handle=self._handle,
            metadata=self._working,
            metadata_location=self._metadata_location,
            staged_read=self._staged.reading(self._handle.io.read),
        )

    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:
        """Apply an action to the transaction's working metadata, and add it to the actions of the commit. An invalid action raises its error at once.

        An action that changes nothing now is added too: if other writers commit first, it is applied to their metadata, which it may change.

        Args:
            action: the action.
            afterwards: called without arguments after the commit of the transaction; None to call nothing.

        Returns:
            The working metadata after the action, and the attempt that the action returned for it; the number of attempts is 0.
        """
        self._check_open()
        now_ms = max(self._handle.clock.now_ms(), self._working.last_updated_ms)
        try:
            attempt = action.attempt(self._working, number=0, now_ms=now_ms, read=self._staged.reading(self._handle.io.read))
            if attempt is not None:
                self._working = apply_updates(self._working, attempt.updates, now_ms)
                self._staged.add(attempt)
            self._actions.append(action)
        except BaseException as error:
            delete_quietly(self._handle, action.new_data_files())
            if isinstance(error, NoSuchFileError) and (expired := self._expired_since()):
                raise self._begun_too_early(error, expired) from error
            raise
        if afterwards is not None:
            self._afterwards.append(afterwards)
        return CommitReport(loaded=LoadedMetadata(location=self._metadata_location, metadata=self._working), attempt=attempt, attempts=0)

    def _expired_since(self) -> list[int]:
        """Return the ids of snapshots that other writers have expired since the transaction began; an empty list if the table cannot be loaded."""
        try:
            current_ids = reload_metadata(self._handle, self._base).metadata.snapshots.ids()
        except IcefloeError:
            return []
        return sorted(self._base.snapshots.ids() - current_ids)

    def _begun_too_early(self, error: IcefloeError, expired: Sequence[int]) -> CommitInvalidatedError:
        return CommitInvalidatedError(
            f"another writer expired snapshots that this transaction is based on, and a file of them that it needs was deleted: {error.message}",
            table=self._handle.table_name,
            path=error.path,
            snapshot_id=expired[0],
            problems=(
                Problem(where="expected", what="every snapshot that the table had when it was loaded"),
                Problem(where="found", what=f"{len(expired)} of them are expired: {', '.join(map(str, expired[:3]))}"),
            ),
            next_step="a retry makes sense: refresh the table, and start the transaction again",
        )

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError(
                "this transaction is over: it was committed, or its block ended in an error",
                next_step="start another with table.transaction()",
            )
