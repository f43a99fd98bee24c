"""`groups_of`: selects the files of a copy-on-write operation that are merged, so that the number of files does not grow with every statement.

`datafile/copy_file_group.py` writes a group. Spec: Row-level Deletes (copy-on-write); Sorting.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.copy_data_file import SORTED_BYTES, row_bytes
from icefloe.datafile.copy_file_group import RewriteGroup
from icefloe.datafile.write_target import WriteTarget
from icefloe.operations.rows.row_change import records_left
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_properties import ADVISORY_PARTITION_SIZE_BYTES, TARGET_FILE_SIZE_BYTES

Positions = NDArray[np.int64]
# The most bytes of the files of a group in total, unless a property advises another size. One task writes a group. In memory the rows of a group have about
# 64 MB, the amount that Spark's adaptive execution gives a task; with larger groups some tasks would have nothing to do.
GROUP_BYTES = 32 * 1024 * 1024
# New files of at least this size are not merged with others: the first size is for partitions in which existing files are rewritten too, the second for
# partitions that have only new files.
LARGE_NEW_FILE_BYTES, LARGE_AMONG_NEW_BYTES = 8 * 1024 * 1024, 1024 * 1024


@dataclass(slots=True)
class _Group:
    size: int = 0
    memory: int = 0
    sources: list[tuple[FileScanTask, Positions]] = field(default_factory=list)
    new_files: list[DataFile] = field(default_factory=list)


def groups_of(
    rows_to_delete: Sequence[tuple[FileScanTask, Positions]], new_files: Sequence[DataFile], target: WriteTarget, *, keeps_row_ids: bool
) -> list[RewriteGroup]:
    """Divide files into groups; the files of a group are merged. They have the same partition and spec, and at most the advisory size in total.

    A new file is added to the smallest group of its partition. Files without remaining rows, and new files that are not merged, are in no group. If the table
    has a sort order, each group is small enough to be sorted in memory; a file that is too large for that is a group of its own.

    Args:
        rows_to_delete: a pair for each file: its task, and the ascending positions of the rows to delete.
        new_files: files with the new rows of the operation, which are not committed yet.
        target: the target of the write, whose table properties determine the sizes.
        keeps_row_ids: whether rows have row ids, as in format version 3.
    """
    limit = min(ADVISORY_PARTITION_SIZE_BYTES.read(target.properties) or GROUP_BYTES, TARGET_FILE_SIZE_BYTES.read(target.properties))
    is_sorted = not target.sort_order.is_unsorted
    bytes_of_row = row_bytes(target.schema)
    by_partition: dict[tuple[int, str], list[_Group]] = defaultdict(list)

    def fits(group: _Group, size: int, memory: int, limit: int) -> bool:
        return group.size + size <= limit and not (is_sorted and group.memory + memory > SORTED_BYTES)

    for task, positions in rows_to_delete:
        live_records = records_left(task)
        rows = (task.file.record_count if live_records is None else live_records) - len(positions)
        if rows <= 0 and live_records is not None:
            continue
        size, memory = task.file.file_size_in_bytes * rows // max(1, task.file.record_count), rows * bytes_of_row
        groups = by_partition[_partition_key(task.file)]
        if not groups or not fits(groups[-1], size, memory, limit):
            groups.append(_Group())
        groups[-1].sources.append((task, positions))
        groups[-1].size += size
        groups[-1].memory += memory
    for file in new_files:
        groups = by_partition[_partition_key(file)]
        beside = [group for group in groups if group.sources]
        size, memory = file.file_size_in_bytes, file.record_count * bytes_of_row
        if size >= (LARGE_NEW_FILE_BYTES if beside else LARGE_AMONG_NEW_BYTES):
            continue
        if beside:
            chosen = min(beside, key=lambda group: group.size)
            if is_sorted and chosen.memory + memory > SORTED_BYTES:
                continue
        else:
            if not groups or not fits(groups[-1], size, memory, limit):
                groups.append(_Group())
            chosen = groups[-1]
        chosen.new_files.append(file)
        chosen.size += size
        chosen.memory += memory
    return [
        RewriteGroup(
            sources=tuple(group.sources),
            new_files=tuple(group.new_files),
            sorts=is_sorted and group.memory <= SORTED_BYTES,
            keeps_row_ids=keeps_row_ids,
        )
        for groups in by_partition.values()
        for group in groups
        if group.sources or len(group.new_files) > 1
    ]


def _partition_key(file: DataFile) -> tuple[int, str]:
    # Partitions are compared as text, because a partition value may be NaN, which is not equal to itself.
    return file.spec_id, repr(file.partition)
