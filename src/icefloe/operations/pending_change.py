"""`ChangeTarget`: the object that applies changes of a table; `PendingChange`: changes that are collected and committed together.

There are two kinds of `ChangeTarget`: a loaded table, which commits each change at once, and a transaction, which collects changes for one commit. A
`PendingChange` commits at the end of its `with` block: `changes/` has pending changes of metadata, `files/` pending changes of existing files.
Spec: Optimistic Concurrency.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from icefloe.commit.attempt import Action, Attempt, Read
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.table_metadata import TableMetadata

Commit = Callable[[Action], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationContext:
    """The state of a table that a change is based on: `metadata` is the metadata that the caller loaded last, `handle` the catalog entry and the storage."""

    handle: TableHandle
    metadata: TableMetadata
    metadata_location: str = ""  # the catalog's metadata location; empty for a table that a transaction creates
    # Reads the storage, and also metadata files that a transaction has staged and not written yet; None outside of transactions.
    staged_read: Read | None = None

    @property
    def read(self) -> Read:
        """Return the function that reads the metadata files of the table, including files that a transaction has staged."""
        return self.staged_read or self.handle.io.read


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """The result of a commit of one table: `loaded` is the committed metadata, `attempt` the last attempt, `attempts` their number.

    In a transaction, which commits later, `loaded` is the metadata with the changes so far, and both numbers are 0.
    """

    loaded: LoadedMetadata
    attempt: Attempt | None  # None if there was nothing to commit
    attempts: int
    duration_ms: int = 0  # of all attempts


class ChangeTarget(ABC):
    """An object that applies changes of a table: either a loaded table, which commits each change at once, or a transaction, which collects changes."""

    @abstractmethod
    def mutation_context(self) -> MutationContext:
        """Return the state that the next change is based on. Every change calls this method before it writes a file.

        Raises:
            ReadOnlyTableError: the table cannot be changed.
            InvalidInputError: the transaction has been committed or rolled back.
        """

    @abstractmethod
    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:
        """Commit an action, and then call `afterwards`. A transaction does both only when the transaction is committed.

        Args:
            action: the change.
            afterwards: called after the commit, for example to delete files.

        Raises:
            CommitConflictError, CommitInvalidatedError, CommitUnknownError: see `commit_loop.commit`.
        """


class PendingChange(ABC):
    """Changes of a table that are committed at the end of a `with` block, unless the block ends in an error."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(commit() or the end of a with block commits its changes)"

    @abstractmethod
    def commit(self) -> None:
        """Commit all changes as one version of the table; do nothing if there are none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit()
