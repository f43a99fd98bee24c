"""`StatisticsPlan`: what a computation of statistics would read. Spec: Table Statistics; Partition Statistics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsPlan:
    """What a computation of statistics would read.

    Attributes:
        snapshot_id: The snapshot.
        columns: The dotted names of the columns that are counted; none for statistics of partitions.
        files: The number of data files that have rows, or of manifests.
        size_in_bytes: The size of these files, of which the columns are a part.
        based_on: The snapshot on whose statistics of partitions the computation builds: the snapshot itself if nothing is to be computed.
    """

    snapshot_id: int
    columns: tuple[str, ...] = ()
    files: int
    size_in_bytes: int
    based_on: int | None = None
