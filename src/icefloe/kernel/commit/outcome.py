"""The outcomes of a compare-and-swap of the metadata location, as values. Each defines what the caller may do next.

Expected results are returned, not raised; they become exceptions only at the public edge. Spec: Optimistic Concurrency.
"""

from dataclasses import dataclass, field

from icefloe.errors import IcefloeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The catalog has the new metadata location: the commit is visible to every reader.

    `location` is the metadata location, where the store published the file under another name than requested.
    """

    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """The metadata location did not change, and this attempt cannot succeed any more: refresh, check, retry. The attempt's own files may be deleted.

    `found` is the location the pointer holds now; None where the table is gone. `table` is the dotted name of the table that was in the way, where several
    were swapped. `reason` is set where no other writer won: the store gave up, such as in a deadlock or with its connection lost before the commit.
    `is_reply_lost`: the store's answer was lost and the pointer has moved on since, by a writer who may have built on this very swap: search its history.
    """

    current_location: str | None
    table: str | None = field(default=None, compare=False)
    reason: str | None = None
    is_reply_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The metadata location did not change and a retry cannot succeed: the attempt's files may be deleted, and `error` must be raised."""

    error: IcefloeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The commit state is unknown: delete nothing, and check the commit status."""

    reason: str


Outcome = Committed | Conflicted | Refused | Unknown
