"""`MutationContext` and `PendingChange`: the state that a change of a table is based on, and how collected changes are committed.

A `PendingChange` collects changes and commits them at the end of its `with` block: `changes/` has those of metadata, `files/` those of files that exist.
Who commits, and when, is decided by the implementations of `table_mutations.TableMutations`. Spec: Optimistic Concurrency.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from icefloe.commit.attempt import Action, Read
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.table.table_handle import TableHandle

Commit = Callable[[Action], None]


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
