"""The live entries of a manifest as a commit looks at them: which manifests can hold the files it is about, and where those lie.

What is done with them is `merging_snapshot_producer.py`. Spec: Manifests; Manifest Lists (`field_summary`).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError
from icefloe.kernel.arrow_values import array_of, scalar_of
from icefloe.kernel.commit.attempt import Read
from icefloe.kernel.commit.file_changes import Partition
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_columns import Statistic, partition_column
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest.partition_values import primitive
from icefloe.kernel.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.transforms import UnknownTransform
from icefloe.kernel.types import PrimitiveType, StructType
from icefloe.kernel.values import from_bytes, physical_list


def live_entries(base: TableMetadata, manifest: ManifestFile, read: Read, statistics: Collection[Statistic] = ()) -> Any:
    """The columns of a manifest's entries that are not DELETED. Raises as `read_columns` does."""
    kind = spec_partition_type(base, manifest.partition_spec_id)
    entries = read_columns(read(manifest.manifest_path), manifest, kind, statistics=statistics).entries
    return entries.filter(pc.not_equal(entries["status"], scalar_of(int(ManifestEntryStatus.DELETED), pa.int32())))


def is_among(column: Any, paths: Collection[str]) -> Any:
    """A mask over a column of strings; null is never among them."""
    return pc.is_in(column, value_set=array_of(sorted(paths), pa.string()))


def partitions_of(entries: Any, partition_type: StructType) -> list[tuple[Any, ...]]:
    """The partition tuples of entries, in physical values."""
    columns = [physical_list(primitive(part.field_type), entries[partition_column(part.field_id)]) for part in partition_type.fields]
    return list(zip(*columns, strict=True)) if columns else [()] * int(entries.num_rows)


def same_values(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two tuples are one partition: NaN is equal to NaN there. Spec: Partitioning."""
    return len(left) == len(right) and all(a == b or (a != a and b != b) for a, b in zip(left, right, strict=True))  # noqa: PLR0124  NaN


def may_hold(base: TableMetadata, manifest: ManifestFile, partitions: Iterable[Partition] | None) -> bool:
    """Whether a manifest's summaries leave room for a file of one of these partitions; None stands for any."""
    if partitions is None:
        return True
    spec_id = manifest.partition_spec_id
    values = [partition for file_spec_id, partition in partitions if file_spec_id == spec_id]
    if not values or manifest.partitions is None:
        return bool(values)
    kinds = [primitive(part.field_type) for part in spec_partition_type(base, spec_id).fields]
    summaries = manifest.partitions
    if len(summaries) != len(kinds) or any(len(partition) != len(kinds) for partition in values):
        return True
    if any(isinstance(part.transform, UnknownTransform) for part in base.spec_by_id(spec_id).fields):
        return True  # of which type its bounds are is not known
    return any(all(map(_may_be, kinds, partition, summaries)) for partition in values)


def _may_be(kind: PrimitiveType, value: Any, summary: PartitionFieldSummary) -> bool:
    if value is None:
        return summary.contains_null
    if value != value:  # noqa: PLR0124  NaN
        return summary.contains_nan is not False
    try:
        if summary.lower_bound is not None and value < from_bytes(kind, summary.lower_bound):
            return False
        return summary.upper_bound is None or value <= from_bytes(kind, summary.upper_bound)
    except (FormatError, TypeError):
        return True  # bounds that cannot be read say nothing
