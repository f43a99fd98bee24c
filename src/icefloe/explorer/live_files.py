"""`LiveFiles`: the live data files of a snapshot by partition, with ordered partitions and their names.

Everything is counted in arrays, so that a million files take about a second. Only partitions that a page shows are converted to text. Spec: Manifests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.inspect.decoded import PartitionColumn, partition_columns
from icefloe.maintenance.health_measures import FilesOfBranch, Longs, SpecFiles, files_by_spec
from icefloe.spec.arrow_values import array_of_chunks, numbers_array, numpy_of
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.values import physical_list


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions(SpecFiles):
    """The files of one partition spec. The partitions are ordered by their values, nulls last.

    Attributes:
        columns: The partition fields.
        values: The partition values, an Arrow table with a column for each field and a row for each partition.
    """

    columns: tuple[PartitionColumn, ...]
    values: Any

    def texts(self, rows: Sequence[int]) -> list[tuple[str, ...]]:
        """Return the partition values of some partitions as text."""
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
        """Return for each partition the rank of its value of one field among the distinct values of the field, nulls last."""
        return _dense_ranks(self.values[field])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The live data files of a snapshot, by partition spec; the newest spec is the last."""

    specs: tuple[NamedPartitions, ...]

    @property
    def sizes(self) -> Longs:
        """The size of each file in bytes."""
        return np.concatenate([np.zeros(0, np.int64), *(spec.sizes for spec in self.specs)])

    @property
    def records(self) -> Longs:
        """The number of rows of each file, deleted rows included."""
        return np.concatenate([np.zeros(0, np.int64), *(spec.records for spec in self.specs)])


def live_files(files: FilesOfBranch) -> LiveFiles:
    """Return the live data files of a snapshot by partition, from a plan that has all its files."""
    by_spec = sorted(files_by_spec(files.plan), key=lambda spec: spec.spec_id)
    return LiveFiles(specs=tuple(_named_partitions(files.metadata, spec) for spec in by_spec))


def _named_partitions(metadata: TableMetadata, spec: SpecFiles) -> NamedPartitions:
    columns = partition_columns(metadata, spec.spec_id)
    values = spec.part.entries.select([partition_column(column.field_id) for column in columns]).take(numbers_array(spec.first, pa.int64()))
    order = np.lexsort([_dense_ranks(values[place]) for place in reversed(range(len(columns)))]) if columns else np.arange(spec.partitions)
    return NamedPartitions(
        part=spec.part,
        codes=np.argsort(order)[spec.codes],
        deleted=spec.deleted,
        columns=columns,
        values=values.take(numbers_array(order, pa.int64())).combine_chunks(),
    )


def _dense_ranks(values: Any) -> Longs:
    """Return the rank of each value among the distinct values, nulls last."""
    ranks = numpy_of(pc.rank(array_of_chunks(values), tiebreaker="dense").cast(pa.int64()))
    return ranks - 1
