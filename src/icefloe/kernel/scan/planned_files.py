"""`PlannedFiles`: kept files of one partition spec as columns, and tasks made of them when someone asks.

A scan of a million files holds columns only; objects are made slice by slice. Spec: Scan Planning; Data File Fields.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import array_of_chunks, numbers_array
from icefloe.kernel.avro.avro_objects import Same, Values, objects
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.scan.file_objects import file_objects, partition_tuples
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.types import StructType

# Rows turned into objects at a time: large enough that the work per slice is nothing, small enough that a first task is there at once.
SLICE_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Some data files of a plan: how many, their bytes, and their rows before deletes."""

    files: int = 0
    bytes: int = 0
    records: int = 0

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files + other.files, bytes=self.bytes + other.bytes, records=self.records + other.records)

    def __sub__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files - other.files, bytes=self.bytes - other.bytes, records=self.records - other.records)


NO_FILES = FileCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """Files of one partition spec. `entries` (a `pyarrow.Table`) has the columns of `ManifestColumns` and `spec_id`; the arrays have one element a file.

    `delete_offsets` (one element more than there are files) and `delete_indices` are compressed rows: the delete files of file i are
    `delete_files[k] for k in delete_indices[delete_offsets[i] : delete_offsets[i + 1]]`. Both are None where no file has any. `delete_files` is the plan's.
    """

    entries: Any
    spec_id: int
    partition_type: StructType
    residuals: Sequence[BooleanExpression]
    residual_index: NDArray[np.int64]
    covered: Mask | None
    statistics: Sequence[int]
    delete_offsets: NDArray[np.int64] | None = None
    delete_indices: NDArray[np.int64] | None = None
    delete_files: Sequence[DataFile] = ()

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    def tasks(self) -> Iterator[FileScanTask]:
        """One task a file, in the manifest's order."""
        partitions = self.partitions(self.entries)
        for start in range(0, len(self), SLICE_ROWS):
            rows = self.entries.slice(start, SLICE_ROWS)
            files = file_objects(rows, self.spec_id, partitions[start : start + SLICE_ROWS], self.statistics)
            values: dict[str, Values] = {
                "file": files,
                "residual": self._residuals(start),
                "spec_id": Same(self.spec_id),
                "length": [file.file_size_in_bytes for file in files],
                "start": Same(0),
                "sequence_number": array_of_chunks(rows["sequence_number"]),
                "file_sequence_number": array_of_chunks(rows["file_sequence_number"]),
                "is_covered": Same(False) if self.covered is None else self.covered[start : start + SLICE_ROWS].tolist(),
                "delete_files": self._deletes(start, len(files)),
            }
            yield from objects(FileScanTask, values, len(files))

    def partitions(self, rows: Any) -> list[tuple[Any, ...]]:
        """The partition tuples of some rows of `entries`, as physical values in spec order."""
        return partition_tuples(rows, self.partition_type)

    def take(self, rows: NDArray[np.int64]) -> "PlannedFiles":
        """The files at these rows of `entries`, in that order, with their deletes."""
        offsets, indices = self.delete_offsets, self.delete_indices
        if offsets is not None and indices is not None:
            counts = np.diff(offsets)[rows]
            ends = np.cumsum(counts)
            places = np.repeat(offsets[rows] - (ends - counts), counts) + np.arange(counts.sum())
            offsets, indices = np.concatenate([[0], ends]).astype(np.int64), indices[places]
        return replace(
            self,
            entries=self.entries.take(numbers_array(rows.astype(np.int64), pa.int64())),
            residual_index=self.residual_index[rows],
            covered=None if self.covered is None else self.covered[rows],
            delete_offsets=offsets,
            delete_indices=indices,
        )

    def _residuals(self, start: int) -> Values:
        if len(self.residuals) == 1:
            return Same(self.residuals[0])
        return [self.residuals[index] for index in self.residual_index[start : start + SLICE_ROWS].tolist()]

    def _deletes(self, start: int, count: int) -> Values:
        """The delete files of each of `count` files from `start`."""
        if self.delete_offsets is None or self.delete_indices is None:
            return Same(())
        offsets = self.delete_offsets[start : start + count + 1].tolist()
        indices = self.delete_indices[offsets[0] : offsets[-1]].tolist()
        first = offsets[0]
        return [tuple(self.delete_files[index] for index in indices[begin - first : end - first]) for begin, end in pairwise(offsets)]
