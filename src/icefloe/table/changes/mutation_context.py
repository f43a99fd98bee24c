"""`TableMutations`: what every change of a table needs: a base to be made on, and somebody who commits it or keeps it for a commit.

The changes themselves are `row_mutations.py` and `metadata_mutations.py`. Spec: Optimistic Concurrency.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from icefloe.kernel.commit.attempt import Action, Read
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.rows.table_writes import PreparedWrite
from icefloe.table.table_handle import TableHandle
from icefloe.table.write_result import WriteResult

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationContext:
    """What a change is made on: the metadata as its maker sees it, and where the table's pointer and files are."""

    handle: TableHandle
    metadata: TableMetadata
    metadata_location: str = ""  # of the file that the catalog names; empty for a table that a transaction makes
    # Reads what a transaction has made too, which is not written yet.
    staged_read: Read | None = None

    @property
    def read(self) -> Read:
        """Reads any file that the metadata leads to."""
        return self.staged_read or self.handle.io.read


class TableMutations(ABC):
    """A `Table` commits each change at once, a `Transaction` keeps it for its one commit, a `StaticTable` refuses it."""

    @abstractmethod
    def _start(self) -> MutationContext:
        """Asked before anything is written. Raises `ReadOnlyTableError`, or `InvalidInputError` where a transaction is over."""

    @abstractmethod
    def _commit(self, action: Action) -> None:
        """Commits the action, or keeps it."""

    @abstractmethod
    def _commit_then(self, action: Action, afterwards: Callable[[], R]) -> R | None:
        """Commits the action and gives what `afterwards` does once it stands; or keeps both for a commit, and gives None."""

    @abstractmethod
    def _write(self, write: PreparedWrite) -> WriteResult:
        """Commits the write, or keeps it; the result says what it did."""
