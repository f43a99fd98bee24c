"""`PendingChange`: what the changes of a table's metadata have in common: they are collected, and committed at the end of a `with` block.

Spec: Optimistic Concurrency.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from icefloe.kernel.commit.attempt import Action

Commit = Callable[[Action], None]


class PendingChange(ABC):
    """A change of a table that is committed at the end of its `with` block, unless the block ends in an error."""

    @abstractmethod
    def commit(self) -> None:
        """Commits all of it as one version of the table; nothing where nothing changes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit()
