"""What a pointer swap can end in, as values. Each says what the caller may do next.

Expected results are returned, not raised; they become exceptions only at the public edge. Spec: Optimistic Concurrency.
"""

from dataclasses import dataclass, field

from icefloe.errors import IcefloeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The pointer names the new metadata: the commit is there for everyone.

    `location` is where the metadata lies now, where the store published it under a name of its own.
    """

    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """The pointer did not move, and this swap cannot land any more: refresh, check, try again; the attempt's own files may go.

    `found` is the location the pointer holds now; None where the table is gone. `table` is the dotted name of the table that was in the way, where several
    were swapped. `reason` is set where no other writer won: the store gave up, such as in a deadlock or with its connection lost before the commit.
    `is_reply_lost`: the store's answer was lost and the pointer has moved on since, by a writer who may have built on this very swap: search its history.
    """

    found: str | None
    table: str | None = field(default=None, compare=False)
    reason: str | None = None
    is_reply_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The pointer did not move, this swap cannot land any more, and trying again cannot help: the attempt's files may go, `error` is to be raised."""

    error: IcefloeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The swap may or may not have happened: delete nothing, and look again."""

    reason: str


Outcome = Committed | Conflicted | Refused | Unknown
