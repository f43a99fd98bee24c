"""`LiveFiles`: the live data files of a snapshot as arrays, by partition: sizes, rows, deleted rows and ages.

Everything is counted in arrays, so that a million files take about a second; texts are made only of the partitions that a page shows. Spec: Manifests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.inspect.decoded import PartitionColumn, partition_columns
from icefloe.maintenance.health_measures import FilesOfBranch
from icefloe.maintenance.rewrite_planner import delete_shares, deleted_rows
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spec.arrow_values import array_of_chunks, filled, numbers_array, numpy_of
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.values import physical_list

Longs = NDArray[np.int64]
_UNKNOWN_SNAPSHOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFiles:
    """The files of one partition spec; arrays have one element for each file, `values` one row for each partition.

    Attributes:
        spec_id: The partition spec.
        columns: Its fields.
        values: The partition values, a column for each field, in the order of the values, nulls last.
        codes: The partition of each file, as a row of `values`.
        sizes: Bytes.
        records: Rows, deleted ones included.
        deleted: About how many of them are deleted.
        snapshot_ids: The snapshot that added the file; -1 where it is unknown.
    """

    spec_id: int
    columns: tuple[PartitionColumn, ...]
    values: Any
    codes: Longs
    sizes: Longs
    records: Longs
    deleted: NDArray[np.float64]
    snapshot_ids: Longs

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return int(self.values.num_rows) if self.columns else int(len(self.sizes) > 0)

    def total(self, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a total for each partition: of its files, or of weights of its files."""
        return np.bincount(self.codes, weights=weights, minlength=self.partitions)

    def texts(self, rows: Sequence[int]) -> list[tuple[str, ...]]:
        """Return the values of some partitions as text."""
        if not self.columns:
            return [() for _ in rows]
        chosen = self.values.take(numbers_array(np.asarray(rows, np.int64), pa.int64()))
        by_field = [
            [column.text(value) for value in physical_list(column.kind, array_of_chunks(chosen[place]))]
            for place, column in enumerate(self.columns)
        ]
        return list(zip(*by_field, strict=True))

    def names(self, rows: Sequence[int]) -> list[str]:
        """Return the names of some partitions, such as `day = 2026-11-01, kind = a`."""
        fields = [column.name for column in self.columns]
        return [
            ", ".join(f"{field} = {value}" for field, value in zip(fields, values, strict=True)) or "unpartitioned"
            for values in self.texts(rows)
        ]

    def ordinals(self, field: int) -> Longs:
        """Return for each partition the place of its value of a field among the distinct values, nulls last."""
        return _dense_ranks(self.values[field])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The live data files of a snapshot by partition spec, the newest spec last."""

    specs: tuple[SpecFiles, ...]

    @property
    def sizes(self) -> Longs:
        """Bytes of each file."""
        return np.concatenate([np.zeros(0, np.int64), *(spec.sizes for spec in self.specs)])

    @property
    def records(self) -> Longs:
        """Rows of each file, deleted ones included."""
        return np.concatenate([np.zeros(0, np.int64), *(spec.records for spec in self.specs)])


def live_files(files: FilesOfBranch) -> LiveFiles:
    """Return the live data files of a plan of all files."""
    shares = delete_shares(files.plan)
    by_spec: dict[int, list[PlannedFiles]] = {}
    for part in files.plan.parts:
        by_spec.setdefault(part.spec_id, []).append(part)
    return LiveFiles(
        specs=tuple(
            _spec_files(parts, partition_columns(files.metadata, spec_id), np.concatenate([deleted_rows(part, shares) for part in parts]))
            for spec_id, parts in sorted(by_spec.items())
        )
    )


def _spec_files(parts: Sequence[PlannedFiles], columns: tuple[PartitionColumn, ...], deleted: NDArray[np.float64]) -> SpecFiles:
    names = ["file_size_in_bytes", "record_count", "snapshot_id", *(partition_column(column.field_id) for column in columns)]
    entries = pa.concat_tables([part.entries.select(names) for part in parts]).combine_chunks()
    codes = np.zeros(entries.num_rows, np.int64)
    for column in columns:
        ranks = _dense_ranks(entries[partition_column(column.field_id)])
        codes = np.unique(codes * (ranks.max(initial=0) + 1) + ranks, return_inverse=True)[1].astype(np.int64)
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    values = entries.select(names[3:]).take(numbers_array(first, pa.int64())).combine_chunks()
    number = partial(_numbers, entries)
    return SpecFiles(
        spec_id=parts[0].spec_id,
        columns=columns,
        values=values,
        codes=codes,
        sizes=number("file_size_in_bytes"),
        records=number("record_count"),
        deleted=deleted,
        snapshot_ids=number("snapshot_id"),
    )


def _numbers(entries: Any, name: str) -> Longs:
    return numpy_of(filled(array_of_chunks(entries[name]), _UNKNOWN_SNAPSHOT)).astype(np.int64)


def _dense_ranks(values: Any) -> Longs:
    """Return the place of each value among the distinct ones: in their order, nulls last."""
    plain = array_of_chunks(values)
    ranks = numpy_of(pc.rank(plain, tiebreaker="dense").cast(pa.int64()))
    return ranks - 1
