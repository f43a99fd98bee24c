"""`EqualityDeleteGroup`: groups of data files with equality deletes. No two groups share a delete file, so that each can be converted without the others.

A group is a partition, or several partitions if a delete of an unpartitioned spec applies to all of them. Spec: Scan Planning; Equality Delete Files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.arrow_values import array_of_chunks, numpy_of
from icefloe.spec.manifest.data_file import DataFile, FileContent

Longs = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class EqualityDeleteGroup:
    """Data files of one or more partitions, with all deletes that apply to them. Their equality deletes apply to no data file outside of the group.

    Attributes:
        files: The data files as columns, with one or more items for each partition spec.
        equality_deletes: The equality delete files that apply to these data files.
    """

    files: tuple[PlannedFiles, ...]
    equality_deletes: Sequence[DataFile]

    def __len__(self) -> int:
        return sum(map(len, self.files))

    @property
    def size(self) -> int:
        """The size of the data files in bytes."""
        return sum(sum(numpy_of(array_of_chunks(part.entries["file_size_in_bytes"])).tolist()) for part in self.files)

    @property
    def key_ids(self) -> frozenset[int]:
        """The field ids of the columns that the deletes compare."""
        return frozenset(key for file in self.equality_deletes for key in file.equality_ids or ())


def equality_delete_groups(plan: ScanPlan) -> list[EqualityDeleteGroup]:
    """Divide the data files to which equality deletes apply into as many groups as possible.

    Args:
        plan: The plan of a scan of all files, with every delete.
    """
    is_equality = is_equality_delete(plan.delete_files)
    numbers: dict[tuple[int, str], int] = {}
    parts: list[PlannedFiles] = []
    partitions_of: list[Longs] = []  # for each part, the number of each file's partition
    pairs = [np.zeros((0, 2), dtype=np.int64)]  # pairs of an equality delete and a partition that it applies to
    for part in plan.parts:
        taken = with_equality_deletes(part, is_equality)
        if taken is None or taken.delete_offsets is None or taken.delete_indices is None:
            continue
        tuples = taken.partitions(taken.entries)
        # Equal tuples are the same object. The text of the values identifies a partition, because NaN is not equal to itself.
        of_object = {
            key: numbers.setdefault((taken.spec_id, repr(values)), len(numbers))
            for key, values in {id(values): values for values in tuples}.items()
        }
        of_file = np.array([of_object[id(values)] for values in tuples], dtype=np.int64)
        deletes = is_equality[taken.delete_indices]
        applied = np.stack([taken.delete_indices[deletes], np.repeat(of_file, np.diff(taken.delete_offsets))[deletes]], axis=1)
        parts.append(taken)
        partitions_of.append(of_file)
        pairs.append(np.unique(applied, axis=0))
    delete_of, partition_of = np.unique(np.concatenate(pairs), axis=0).T
    group_of = _connect(delete_of, partition_of, len(numbers))
    files: dict[int, list[PlannedFiles]] = {}
    for part, of_file in zip(parts, partitions_of, strict=True):
        groups = group_of[of_file]
        order = np.argsort(groups, kind="stable")
        ends = [*(np.flatnonzero(np.diff(groups[order])) + 1).tolist(), len(order)]
        for piece, end in zip(part.divide(order, ends), ends, strict=True):
            files.setdefault(int(groups[order[end - 1]]), []).append(piece)
    deletes_of: dict[int, dict[int, DataFile]] = {group: {} for group in files}
    for delete, group in zip(delete_of.tolist(), group_of[partition_of].tolist(), strict=True):
        deletes_of[group][delete] = plan.delete_files[delete]
    return [EqualityDeleteGroup(files=tuple(files[group]), equality_deletes=tuple(deletes_of[group].values())) for group in sorted(files)]


def is_equality_delete(files: Iterable[DataFile]) -> NDArray[np.bool_]:
    """Return a mask of the equality deletes among delete files."""
    return np.array([file.content is FileContent.EQUALITY_DELETES for file in files], dtype=bool)


def with_equality_deletes(part: PlannedFiles, is_equality: NDArray[np.bool_]) -> PlannedFiles | None:
    """Return the data files of a part that have equality deletes; None if there are no such files.

    Args:
        part: Planned files.
        is_equality: A mask of the equality deletes among the plan's delete files.
    """
    if part.delete_offsets is None or part.delete_indices is None:
        return None
    files = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
    rows = np.unique(files[is_equality[part.delete_indices]])
    return part.take(rows) if len(rows) else None


def _connect(deletes: Longs, partitions: Longs, count: int) -> Longs:
    """Return a group number for each of `count` partitions; partitions that share deletes have the same number. The pairs must be sorted by delete."""
    parents = list(range(count))

    def root(partition: int) -> int:
        while parents[partition] != partition:
            parents[partition] = parents[parents[partition]]
            partition = parents[partition]
        return partition

    for (delete, first), (other, second) in pairwise(zip(deletes.tolist(), partitions.tolist(), strict=True)):
        if delete == other:
            parents[root(second)] = root(first)
    return np.array([root(partition) for partition in range(count)], dtype=np.int64)
