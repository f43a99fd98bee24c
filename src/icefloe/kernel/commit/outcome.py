"""What a pointer swap can end in, as values. Each says what the caller may do next.

Expected results are returned, not raised; they become exceptions only at the public edge. Floor: kernel.commit. Spec: Optimistic Concurrency.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Committed:
    """The pointer names the new metadata: the commit is there for everyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """The pointer was not what the commit was based on and is not ours: refresh, check, try again; the attempt's own files may go."""

    found: str | None  # the location the pointer holds now; None where the table is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The swap may or may not have happened: delete nothing, and look again."""

    reason: str


Outcome = Committed | Conflicted | Unknown
