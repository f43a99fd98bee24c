"""`PlannedFiles`: the kept files of one manifest as columns, and tasks made of them when someone asks.

A scan of a million files holds columns only; objects are made slice by slice. Floor: kernel.scan. Spec: Scan Planning; Data File Fields.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.expressions.ranges import Mask
from icefloe.kernel.manifest.columns import STATISTICS, partition_column, statistic_column
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.manifest.partition_values import primitive
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.types import StructType
from icefloe.kernel.values import physical_list

# Rows turned into objects at a time: large enough that the work per slice is nothing, small enough that a first task is there at once.
SLICE_ROWS = 4096

_FORMATS = {form.value: form for form in FileFormat}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """Files of one partition spec. `entries` (a `pyarrow.Table`) has the columns of `ManifestColumns` and `spec_id`; the arrays have one element a file."""

    entries: Any
    spec_id: int
    partition_type: StructType
    residuals: Sequence[BooleanExpression]
    residual_index: NDArray[np.int64]
    covered: Mask | None
    statistics: Sequence[int]

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    def tasks(self) -> Iterator[FileScanTask]:
        """One task a file, in the manifest's order."""
        for start in range(0, len(self), SLICE_ROWS):
            rows = self.entries.slice(start, SLICE_ROWS)
            residuals = [self.residuals[index] for index in self.residual_index[start : start + SLICE_ROWS].tolist()]
            covered = repeat(False) if self.covered is None else self.covered[start : start + SLICE_ROWS].tolist()
            numbers = zip(rows["sequence_number"].to_pylist(), rows["file_sequence_number"].to_pylist(), strict=True)
            # `covered` may be endless.
            for file, residual, (sequence_number, file_sequence_number), is_covered in zip(
                self._data_files(rows), residuals, numbers, covered, strict=False
            ):
                yield FileScanTask(
                    file=file,
                    residual=residual,
                    spec_id=self.spec_id,
                    length=file.file_size_in_bytes,
                    sequence_number=sequence_number,
                    file_sequence_number=file_sequence_number,
                    is_covered=is_covered,
                )

    def partitions(self, rows: Any) -> list[tuple[Any, ...]]:
        """The partition tuples of some rows of `entries`, as physical values in spec order."""
        return partition_tuples(rows, self.partition_type)

    def _data_files(self, rows: Any) -> Iterator[DataFile]:
        maps = [_maps(rows, name, self.statistics) for name in STATISTICS.values()]
        columns = zip(
            rows["file_path"].to_pylist(),
            rows["file_format"].to_pylist(),
            rows["record_count"].to_pylist(),
            rows["file_size_in_bytes"].to_pylist(),
            self.partitions(rows),
            rows["split_offsets"].to_pylist(),
            rows["sort_order_id"].to_pylist(),
            *maps,
            strict=True,
        )
        spec_id = self.spec_id
        for path, form, records, size, partition, offsets, sort_order_id, values, nulls, nans, lower, upper in columns:
            yield DataFile(
                file_path=path,
                file_format=_FORMATS[form],
                record_count=records,
                file_size_in_bytes=size,
                content=FileContent.DATA,
                partition=partition,
                value_counts=values,
                null_value_counts=nulls,
                nan_value_counts=nans,
                lower_bounds=lower,
                upper_bounds=upper,
                split_offsets=None if offsets is None else tuple(offsets),
                sort_order_id=sort_order_id,
                spec_id=spec_id,
            )


def partition_tuples(rows: Any, partition_type: StructType) -> list[tuple[Any, ...]]:
    """The partition tuples of rows of a `ManifestColumns` table, as physical values in spec order."""
    values = []
    for field in partition_type.fields:
        values.append(physical_list(primitive(field.field_type), rows[partition_column(field.field_id)]))
    return list(zip(*values, strict=True)) if values else [()] * rows.num_rows


def _maps(rows: Any, statistic: str, field_ids: Sequence[int]) -> list[dict[int, Any] | None]:
    """The statistic's map of each file, from the slot columns; None where it says nothing."""
    if not field_ids:
        return [None] * rows.num_rows
    found: list[dict[int, Any]] = [{} for _ in range(rows.num_rows)]
    for field_id in field_ids:
        for known, value in zip(found, rows[statistic_column(statistic, field_id)].to_pylist(), strict=True):
            if value is not None:
                known[field_id] = value
    return [known or None for known in found]
