"""`PlannedFiles`: the kept files of one partition spec as columns, from which tasks are created on demand.

A plan of a million files has columns only; task objects are created slice by slice. Spec: Scan Planning; Data File Fields.
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

# Rows that become objects in one step: enough to make the cost per slice negligible, few enough to return a first task at once.
SLICE_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Totals of some data files of a plan: their number, their bytes, and their rows before deletes."""

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
    """Files of one partition spec; the arrays have one element for each file.

    Attributes:
        entries: A `pyarrow.Table` with the columns of `ManifestColumns` and `spec_id`.
        spec_id: The partition spec.
        partition_type: The type of the spec's partition tuples.
        residuals: The distinct residual filters.
        residual_index: The place in `residuals` of each file's residual.
        covered: Files of which every row matches; None in a plan without `find_covered`.
        statistics: Field ids whose statistics are among the columns.
        delete_offsets: One element more than there are files: the delete files of file i are
            `delete_files[k] for k in delete_indices[delete_offsets[i] : delete_offsets[i + 1]]`; None where no file has any.
        delete_indices: Places in `delete_files`; None where no file has any.
        delete_files: The delete files of the whole plan.
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
        """Yield one task for each file, in the order of the manifests."""
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
        """Return the partition tuples of some rows of `entries`, as physical values in spec order."""
        return partition_tuples(rows, self.partition_type)

    def take(self, rows: NDArray[np.int64]) -> "PlannedFiles":
        """Return the files at these rows of `entries`, in that order, with their delete files."""
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
        """Return the delete files of each of `count` files from `start` on."""
        if self.delete_offsets is None or self.delete_indices is None:
            return Same(())
        offsets = self.delete_offsets[start : start + count + 1].tolist()
        indices = self.delete_indices[offsets[0] : offsets[-1]].tolist()
        first = offsets[0]
        return [tuple(self.delete_files[index] for index in indices[begin - first : end - first]) for begin, end in pairwise(offsets)]
