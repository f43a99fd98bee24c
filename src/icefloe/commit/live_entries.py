"""Functions that read the live entries of manifests, compare partitions, and test which manifests may contain files of a partition.

`merging_snapshot_producer.py` finds the files of a commit with them. Spec: Manifests; Manifest Lists (`field_summary`).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.commit.attempt import Read
from icefloe.commit.file_changes import Partition
from icefloe.errors import FormatError
from icefloe.spec.arrow_values import array_of, scalar_of
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import Statistic, partition_column
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest.partition_values import primitive
from icefloe.spec.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.transforms import UnknownTransform
from icefloe.spec.types import PrimitiveType, StructType
from icefloe.spec.values import from_bytes, physical_list


def live_entries(base: TableMetadata, manifest: ManifestFile, read: Read, statistics: Collection[Statistic] = ()) -> Any:
    """Return the entries of a manifest with a status other than DELETED, as a table of columns. Raises the errors of `read_columns`."""
    partition_type = spec_partition_type(base, manifest.partition_spec_id)
    entries = read_columns(read(manifest.manifest_path), manifest, partition_type, statistics=statistics).entries
    return entries.filter(pc.not_equal(entries["status"], scalar_of(int(ManifestEntryStatus.DELETED), pa.int32())))


def is_among(column: Any, paths: Collection[str]) -> Any:
    """Return a mask of the rows whose string in the column is among the paths; False for null."""
    return pc.is_in(column, value_set=array_of(sorted(paths), pa.string()))


def partitions_of(entries: Any, partition_type: StructType) -> list[tuple[Any, ...]]:
    """Return the partition tuples of entries, in physical values."""
    columns = [physical_list(primitive(part.field_type), entries[partition_column(part.field_id)]) for part in partition_type.fields]
    return list(zip(*columns, strict=True)) if columns else [()] * int(entries.num_rows)


def equal_partitions(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return True if two tuples are the same partition: NaN equals NaN. Spec: Partitioning."""
    return len(left) == len(right) and all(a == b or (a != a and b != b) for a, b in zip(left, right, strict=True))  # noqa: PLR0124  NaN


def may_contain_partitions(base: TableMetadata, manifest: ManifestFile, partitions: Iterable[Partition] | None) -> bool:
    """Return False if the partition summaries of a manifest exclude files of all these partitions; None means any partition."""
    if partitions is None:
        return True
    spec_id = manifest.partition_spec_id
    tuples = [partition for file_spec_id, partition in partitions if file_spec_id == spec_id]
    if not tuples or manifest.partitions is None:
        return bool(tuples)
    field_types = [primitive(part.field_type) for part in spec_partition_type(base, spec_id).fields]
    summaries = manifest.partitions
    if len(summaries) != len(field_types) or any(len(partition) != len(field_types) for partition in tuples):
        return True
    if any(isinstance(part.transform, UnknownTransform) for part in base.spec_by_id(spec_id).fields):
        return True  # the field has an unknown transform, so the type of its bounds is unknown
    return any(all(map(_may_contain_value, field_types, partition, summaries)) for partition in tuples)


def _may_contain_value(field_type: PrimitiveType, value: Any, summary: PartitionFieldSummary) -> bool:
    if value is None:
        return summary.contains_null
    if value != value:  # noqa: PLR0124  NaN
        return summary.contains_nan is not False
    try:
        if summary.lower_bound is not None and value < from_bytes(field_type, summary.lower_bound):
            return False
        return summary.upper_bound is None or value <= from_bytes(field_type, summary.upper_bound)
    except (FormatError, TypeError):
        return True  # bounds that cannot be read exclude nothing
