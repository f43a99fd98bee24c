"""The division of a planned scan among Spark tasks: large Parquet files are split where row groups begin, small files are combined.

Spec: Data File Fields.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import FileFormat

# Bytes of data files for one Spark task, and the cost of opening a file in bytes: Spark's defaults (spark.sql.files.maxPartitionBytes, openCostInBytes).
BYTES_PER_TASK = 128 * 1024 * 1024
OPEN_COST_BYTES = 4 * 1024 * 1024
_OPEN_END = 2**62


def packed(tasks: Iterable[FileScanTask], *, bytes_per_task: int = BYTES_PER_TASK) -> Iterator[tuple[FileScanTask, ...]]:
    """Yield groups of tasks in their order, each of about `bytes_per_task` bytes; a larger file is split over several groups."""
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        for part, length in _cut(task, bytes_per_task):
            cost = max(length, min(OPEN_COST_BYTES, bytes_per_task))
            if group and size + cost > bytes_per_task:
                yield tuple(group)
                group, size = [], 0
            group.append(part)
            size += cost
    if group:
        yield tuple(group)


def _cut(task: FileScanTask, bytes_per_task: int) -> Iterator[tuple[FileScanTask, int]]:
    """Yield parts of a file with their lengths. A part has whole row groups. It is larger than `bytes_per_task` only if a single row group is."""
    start, end = task.start, task.start + task.length
    offsets = sorted(offset for offset in task.file.split_offsets or () if start < offset < end)
    if task.file.file_format is not FileFormat.PARQUET or not offsets or task.length <= bytes_per_task:
        yield task, task.length
        return
    for offset, after in pairwise([*offsets, end]):
        if after - start > bytes_per_task and offset > start:
            yield replace(task, start=start, length=offset - start), offset - start
            start = offset
    # The last part has no end, because the file may be longer than its manifest states.
    yield replace(task, start=start, length=_OPEN_END - start), end - start
