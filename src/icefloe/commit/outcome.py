"""The outcomes of a commit to a catalog store, as values. Each defines what the caller may do next.

Stores return expected outcomes instead of raising them; only the public functions turn them into exceptions. Spec: Optimistic Concurrency.
"""

from dataclasses import dataclass, field

from icefloe.errors import IcefloeError
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.view.view_metadata import ViewMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The state of a table or view after a commit: its metadata location, and its metadata if the store returned it."""

    location: str
    metadata: TableMetadata | ViewMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The catalog has the new metadata: the commit is visible to every reader.

    `stored` has the stored state for each request, in the order of the requests, if the store renamed the metadata files or wrote them itself; else it is
    empty.
    """

    stored: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """The attempt did not change the table and never will: refresh, check, retry. Its files may be deleted, unless `is_reply_lost` is true.

    Attributes:
        current_location: the metadata location in the catalog when the store last read it; None if the table was dropped.
        table: the dotted name of the table with the conflict, if several tables were committed together.
        reason: why the store failed, if no other writer committed: for example a deadlock, or a connection that was lost before the commit.
        is_reply_lost: the reply to the commit was lost, and the metadata location is now that of another commit. The other writer may have committed on top of
            this attempt, so the commit status check must search the metadata history for it.
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
