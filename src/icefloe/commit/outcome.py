"""The outcomes of a commit to a catalog store, as values. Each defines what the caller may do next.

Expected results are returned, not raised; they become exceptions only at the public edge. Spec: Optimistic Concurrency.
"""

from dataclasses import dataclass, field

from icefloe.errors import IcefloeError
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.view.view_metadata import ViewMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a table or view has after a commit: its metadata location, and its metadata where the store returned it."""

    location: str
    metadata: TableMetadata | ViewMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The catalog has the new metadata: the commit is visible to every reader.

    `stored` is what the store made of each request, in their order, if it published the file under another name than requested or wrote it itself; else empty.
    """

    stored: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """This attempt did not change the table and cannot any more: refresh, check, retry. Its files may be deleted, unless `is_reply_lost`.

    Attributes:
        current_location: the metadata location in the catalog, as far as the store has read it; None if the table was dropped.
        table: the dotted name of the table with the conflict, if several tables were committed together.
        reason: why the store failed, if no other writer committed: for example a deadlock, or a connection that was lost before the commit.
        is_reply_lost: the reply of the store was lost, and the metadata location has changed again since. The other writer may have built on this commit, so
            the commit status check must search the metadata history.
    """

    current_location: str | None
    table: str | None = field(default=None, compare=False)
    reason: str | None = None
    is_reply_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The table did not change and a retry cannot succeed: the attempt's files may be deleted, and `error` must be raised."""

    error: IcefloeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The commit state is unknown: delete nothing, and check the commit status."""

    reason: str


Outcome = Committed | Conflicted | Refused | Unknown
