"""`StatisticsPlan`: the files and columns that a computation of statistics would read. Spec: Table Statistics; Partition Statistics."""

from dataclasses import dataclass

from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, OperationResult
from icefloe.formatting import count_text, size_text


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StatisticsPlan(OperationResult):
    """The files and columns that a computation of statistics would read.

    Attributes:
        table: The name of the table.
        of: The kind of the files to read: `data file` for column statistics, `manifest` for partition statistics.
        snapshot_id: The snapshot to compute statistics of; None for a table without a snapshot.
        columns: The dotted names of the columns that are counted; empty for partition statistics.
        files: The number of files to read: of data files that have rows, or of manifests.
        size_in_bytes: The total size of the files to read in bytes. For column statistics, only a part of each file is read.
        based_on: The id of the snapshot whose partition statistics the computation starts from: an ancestor; or `snapshot_id` itself if it has statistics
            already, so that nothing is computed. None if there are no earlier statistics.
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
