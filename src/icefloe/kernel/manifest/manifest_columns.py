"""`ManifestColumns`: the entries of manifests as Arrow columns, and the names of those columns.

Filling them from bytes is `read.py`; testing them against a filter is kernel.scan. Spec: Manifests.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# Every table of entries has these columns first; `partition.<field id>` follow in spec order, then the slot columns. Delete files have no `first_row_id`.
ENTRY_FIELDS = pa.schema(
    [
        pa.field("status", pa.int32(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("content", pa.int32(), nullable=False),
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_format", pa.string(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("sort_order_id", pa.int32()),
        pa.field("first_row_id", pa.int64()),
    ]
)
# These follow in the tables of delete manifests.
DELETE_FIELDS = pa.schema(
    [
        pa.field("equality_ids", pa.list_(pa.int32())),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
    ]
)

# What is left of an entry, for who writes it again: maps from field id, and the key metadata.
WHOLE_FIELDS = pa.schema(
    [
        pa.field("column_sizes", pa.map_(pa.int64(), pa.int64())),
        pa.field("value_counts", pa.map_(pa.int64(), pa.int64())),
        pa.field("null_value_counts", pa.map_(pa.int64(), pa.int64())),
        pa.field("nan_value_counts", pa.map_(pa.int64(), pa.int64())),
        pa.field("lower_bounds", pa.map_(pa.int64(), pa.binary())),
        pa.field("upper_bounds", pa.map_(pa.int64(), pa.binary())),
        pa.field("key_metadata", pa.binary()),
    ]
)

WHOLE_NAMES = frozenset(WHOLE_FIELDS.names)

# The statistics that have slot columns, by the data file's map they come from.
STATISTICS = {
    "value_counts": "value_count",
    "null_value_counts": "null_value_count",
    "nan_value_counts": "nan_value_count",
    "lower_bounds": "lower_bound",
    "upper_bounds": "upper_bound",
}

# One statistic of one table column: a value of `STATISTICS`, and the column's field id.
Statistic = tuple[str, int]


def ordered_statistics(field_ids: Iterable[int]) -> frozenset[Statistic]:
    """The statistics of some table columns that can hold no NaN."""
    return every_statistic(field_ids) - {("nan_value_count", field_id) for field_id in field_ids}


def every_statistic(field_ids: Iterable[int]) -> frozenset[Statistic]:
    """All statistics of some table columns."""
    return frozenset((statistic, field_id) for field_id in field_ids for statistic in STATISTICS.values())


def partition_column(field_id: int) -> str:
    """The column that holds the values of a partition field."""
    return f"partition.{field_id}"


def statistic_column(statistic: str, field_id: int) -> str:
    """The slot column of one statistic of one table column; `statistic` is one of the values of `STATISTICS`."""
    return f"{statistic}.{field_id}"


@dataclass(frozen=True, slots=True)
class ManifestColumns:
    """Entries as columns, one row an entry, in file order; numbers are inherited already.

    `entries` (a `pyarrow.Table`) has the columns of `ENTRY_FIELDS`, in a delete manifest those of `DELETE_FIELDS`, then `partition.<field id>` typed by
    `values.physical_arrow_type`, then those that were asked for of `value_count.<id>`, `null_value_count.<id>`, `nan_value_count.<id>` (int64) and
    `lower_bound.<id>`, `upper_bound.<id>` (binary) by table column: null where the manifest says nothing.
    Those that were read whole have the columns of `DELETE_FIELDS` always, and at the end those of `WHOLE_FIELDS`.
    """

    entries: Any

    def __len__(self) -> int:
        return int(self.entries.num_rows)
