"""`StatisticsPlan`: what a computation of statistics would read. Spec: Table Statistics; Partition Statistics."""

from dataclasses import dataclass

from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, OperationResult
from icefloe.formatting import count_text, size_text


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StatisticsPlan(OperationResult):
    """What a computation of statistics would read.

    Attributes:
        table: The table.
        of: What is read: `data file` for statistics of columns, `manifest` for those of partitions.
        snapshot_id: The snapshot; None for a table without one.
        columns: The dotted names of the columns that are counted; none for statistics of partitions.
        files: The number of data files that have rows, or of manifests.
        size_in_bytes: The size of these files, of which the columns are a part.
        based_on: The snapshot on whose statistics of partitions the computation builds: the snapshot itself if nothing is to be computed.
    """

    table: str
    of: str
    snapshot_id: int | None = None
    columns: tuple[str, ...] = ()
    files: int = 0
    size_in_bytes: int = 0
    based_on: int | None = None

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        is_there = self.snapshot_id is not None and self.based_on == self.snapshot_id
        read = f"{count_text(self.files, self.of)} of {size_text(self.size_in_bytes)}"
        facts = (
            ("snapshot", "none" if self.snapshot_id is None else str(self.snapshot_id)),
            ("columns", ", ".join(self.columns)),
            ("would be read", "nothing: the snapshot has these statistics already" if is_there else read),
            ("on top of", "" if self.based_on is None or is_there else f"the statistics of snapshot {self.based_on}"),
        )
        return Report(f"statistics of {self.table}", (Facts(tuple(fact for fact in facts if fact[1])),))
