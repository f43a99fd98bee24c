"""`ChangeTarget` and `PendingChange`: what the changes of a table are based on, and how they are committed.

A loaded table commits each change at once, a transaction collects changes for its one commit: both are a `ChangeTarget`. A `PendingChange` collects changes
itself and commits them at the end of its `with` block: `changes/` has those of metadata, `files/` those of files that exist. Spec: Optimistic Concurrency.
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
    """The state that a change is based on: the metadata that its caller sees, and the catalog entry and files of the table."""

    handle: TableHandle
    metadata: TableMetadata
    metadata_location: str = ""  # of the file that the catalog names; empty for a table that a transaction creates
    # Also reads the files that a transaction has staged and not written yet.
    staged_read: Read | None = None

    @property
    def read(self) -> Read:
        """Return the function that reads any file that the metadata leads to."""
        return self.staged_read or self.handle.io.read


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """A finished commit of one table: the metadata that is current for the writer, the last attempt, and the number of attempts.

    In a transaction the metadata has the changes so far, and no attempt was made to commit them.
    """

    loaded: LoadedMetadata
    attempt: Attempt | None  # None if the action had nothing to commit
    attempts: int


class ChangeTarget(ABC):
    """What changes are applied to: a table, which commits each at once, or a transaction, which collects them."""

    @abstractmethod
    def mutation_context(self) -> MutationContext:
        """Return the state that the next change is based on; called before anything is written.

        Raises:
            ReadOnlyTableError: the table cannot be changed.
            InvalidInputError: the transaction is over.
        """

    @abstractmethod
    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:
        """Commit an action, then call `afterwards`; a transaction does both when it is committed.

        Args:
            action: the action.
            afterwards: is called once the action is committed.

        Raises:
            CommitConflictError, CommitInvalidatedError, CommitUnknownError: as `commits.commit_loop.commit`.
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
