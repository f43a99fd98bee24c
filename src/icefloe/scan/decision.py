"""`Decision`: the reason why a scan reads or skips one manifest, data file or delete file, for users who explain a plan.

The decisions are made in `pruning.py` and `live_deletes.py`; the texts of explanations in `pruning_explanation.py`.
Spec: Scan Planning.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The rule that decided whether a manifest, data file or delete file is read."""

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
    BY_SERVER = "chosen by the server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The pruning decision for one manifest, data file or delete file.

    Attributes:
        level: "manifest", "file", "delete manifest" or "delete file".
        path: Location of the file.
        kept: True if the scan reads it.
        reason: The rule that decided.
        explanation: The bound that decided, such as `type: upper bound 'c8y_Alarm' < 'c8y_Event'`; empty where the file is kept, except that a delete file has
            the number of data files that it applies to.
        bytes: Length of the file; of a deletion vector only the vector's.
        records: Rows of the file; for a manifest the live rows that its manifest list counts, 0 where unknown.
        partition: The partition in folder form, such as `origin=JFK`.
    """

    level: str
    path: str
    kept: bool
    reason: Reason
    explanation: str
    bytes: int
    records: int
    partition: str = ""

    def __str__(self) -> str:
        return f"{'keep' if self.kept else 'skip'} {self.level} {self.path}: {self.reason}" + (
            f" ({self.explanation})" if self.explanation else ""
        )
