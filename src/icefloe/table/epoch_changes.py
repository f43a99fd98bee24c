"""`EpochChanges`: the change of a table by one epoch of a stream, which is committed at most once.

    epoch = StreamEpoch(query_id=query_id, epoch=7, branch="main")
    changes = EpochChanges(table, epoch, OutputMode.APPEND)
    changes.append(rows)
    changes.is_committed  # False if the table has the epoch already, or the epoch changes nothing

`commit/stream_epoch.py` decides whether the epoch is committed already. Spec: Snapshots.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from icefloe.commit.attempt import Action
from icefloe.commit.stream_epoch import EpochCommit, StreamEpoch
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.pending_change import CommitReport, MutationContext
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.table import Table
from icefloe.table.table_mutations import TableMutations
from icefloe.table.transaction import Transaction


class OutputMode(StrEnum):
    """What the rows of an epoch are: new rows, all rows of the result, or changed rows of the result."""

    APPEND = "append"
    COMPLETE = "complete"
    UPDATE = "update"


class EpochChanges(TableMutations):
    """A table for the single write of an epoch. The snapshot has the mark of the epoch; an epoch that changes nothing makes no snapshot.

    Attributes:
        is_committed: whether the write was committed.
    """

    def __init__(self, table: Table, epoch: StreamEpoch, mode: OutputMode, *, searches_history: bool = False) -> None:
        """Create the changes of an epoch.

        Args:
            table: the table.
            epoch: the epoch, with the branch that is written to.
            mode: the output mode of the stream.
            searches_history: see `commit.stream_epoch.is_committed`.
        """
        self._table = table
        self._epoch = epoch
        self._mode = mode
        self._searches_history = searches_history
        self.is_committed = False

    def mutation_context(self) -> MutationContext:
        return self._table.mutation_context()

    def transaction(self) -> Transaction:
        """Start a transaction that contains the write, and changes of the schema before it."""
        start = self.mutation_context()
        return Transaction(start.metadata, self.apply, start.handle, start.metadata_location, self._table)

    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:
        start = self.mutation_context()
        if self._changes_nothing(action):
            loaded = LoadedMetadata(metadata=start.metadata, location=start.metadata_location)
            return CommitReport(loaded=loaded, attempt=None, attempts=0)
        report = self._table.apply(EpochCommit(action, self._epoch, searches_history=self._searches_history), afterwards)
        self.is_committed = report.attempt is not None
        if not self.is_committed:
            delete_quietly(start.handle, action.new_data_files())
        return report

    def _changes_nothing(self, action: Action) -> bool:
        if self._mode is OutputMode.UPDATE or action.new_data_files():
            return False  # an upsert has no files yet, and makes no attempt if it changes nothing
        if self._mode is OutputMode.APPEND:
            return True
        metadata = self._table.metadata
        ref = metadata.refs.get(self._epoch.branch) or metadata.refs.get(MAIN)
        head = None if ref is None else metadata.snapshot_by_id(ref.snapshot_id)
        return head is None or head.summary.get("total-data-files") == "0"
