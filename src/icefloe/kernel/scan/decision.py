"""`Decision`: why a scan opens or skips one manifest, data file or delete file, for people who ask.

Who decides is `prune_manifests.py`, `prune_files.py` and `delete_files.py`; the wording of the evidence is `pruning_explanation.py`.
Spec: Scan Planning.
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
    APPLIES = "applies to files that are read"
    OLDER = "older than every data file that is read"
    NO_DATA_FILE = "applies to no file that is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One manifest, data file or delete file, kept or skipped.

    `evidence` is the bound that decided, such as `type: upper bound 'c8y_Alarm' < 'c8y_Event'`; empty for what is kept, save that a delete file tells how many
    data files it applies to. `bytes` is the length of the file (of a deletion vector: of the vector), and `records` its rows (for a manifest: the live rows its
    manifest list counts, 0 where unknown). `partition` is the folder form, such as `origin=JFK`.
    """

    level: str  # "manifest", "file", "delete manifest" or "delete file"
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
