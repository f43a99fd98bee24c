"""`StreamRules`: which snapshots a stream of a table reads; `ReadLimits`: how much a batch of it has. `micro_batches.py` applies them.

Spec: Snapshots (`operation`).
"""

from dataclasses import dataclass
from typing import Literal

from icefloe.scan.scan_plan import FileCounts

SKIP_DELETES, SKIP_OVERWRITES = "streaming-skip-delete-snapshots", "streaming-skip-overwrite-snapshots"
READ_OVERWRITES, ON_MISSING = "streaming-read-overwrite-snapshots", "streaming-on-missing-snapshots"
OnMissing = Literal["fail", "oldest", "newest"]
# The next step of the error about a snapshot that was expired.
AFTER_MISSING = (
    f"set {ON_MISSING}=oldest to continue with the oldest remaining snapshot, or newest with what is committed next: rows in between are "
    "lost to the stream; or begin with a new checkpointLocation. maintenance.min-snapshot-age-minutes keeps snapshots for streams"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRules:
    """Which snapshots a stream reads.

    Attributes:
        skips_deletes: Whether snapshots that only delete are skipped, and rows that a rollback took back are ignored. Otherwise they end the stream.
        skips_overwrites: Whether snapshots that replace or delete rows and add others are skipped. Otherwise they end the stream.
        reads_overwrites: Whether the files that these snapshots added are read.
        from_timestamp_ms: The time from which on snapshots are read, in milliseconds since 1970-01-01 UTC; None to begin with the rows of the table.
        on_missing: What follows if snapshots that the stream has not read were expired: an error, the oldest remaining snapshot, or what is committed next.
    """

    skips_deletes: bool = False
    skips_overwrites: bool = False
    reads_overwrites: bool = False
    from_timestamp_ms: int | None = None
    on_missing: OnMissing = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The most files, rows before deletes, and bytes of a batch; None for no limit. A batch has at least one file, whatever its rows and bytes."""

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None

    def allow(self, counts: FileCounts) -> bool:
        """Return whether a batch may have this many files, rows and bytes."""
        limits = ((self.files, counts.files), (self.rows, counts.records), (self.bytes, counts.bytes))
        return all(limit is None or count <= limit for limit, count in limits)

    @property
    def are_none(self) -> bool:
        """Whether there is no limit."""
        return self.files is None and self.rows is None and self.bytes is None


NO_LIMITS = ReadLimits()
