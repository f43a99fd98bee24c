"""`Decision`: why a scan opens or skips one manifest or one data file, for people who ask.

Who decides is `prune_manifests.py` and `prune_files.py`; the wording of the evidence is `evidence.py`. Floor: kernel.scan. Spec: Scan Planning.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """What decided."""

    NO_FILTER = "there is no filter"
    MAY_MATCH = "may hold matching rows"
    ALL_MATCH = "every row matches"
    NO_LIVE_FILES = "no live files"
    NO_ROWS = "no rows"
    NEVER_TRUE = "the filter is never true"
    BY_PARTITION = "skipped by partition"
    BY_METRICS = "skipped by column statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One manifest or data file, kept or skipped.

    `evidence` is the bound that decided, such as `type: upper bound 'c8y_Alarm' < 'c8y_Event'`; empty for what is kept. `bytes` is the length of the file, and
    `records` its rows (for a manifest: the live rows its manifest list counts, 0 where unknown). `partition` is the folder form, such as `origin=JFK`.
    """

    level: str  # "manifest" or "file"
    path: str
    kept: bool
    reason: Reason
    evidence: str
    bytes: int
    records: int
    partition: str = ""

    def __str__(self) -> str:
        return f"{'keep' if self.kept else 'skip'} {self.level} {self.path}: {self.reason}" + (
            f" ({self.evidence})" if self.evidence else ""
        )
