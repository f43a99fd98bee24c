"""`ManifestColumns`: the entries of manifests as Arrow columns, and the names of those columns.

`manifest_reader.py` fills them from bytes; `scan` evaluates filters on them. Spec: Manifests.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# Every table of entries begins with these columns; `partition.<field id>` follow in spec order, then one column for each requested statistic. Delete files
# have no `first_row_id`.
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
# Further columns of the tables of delete manifests.
DELETE_FIELDS = pa.schema(
    [
        pa.field("equality_ids", pa.list_(pa.int32())),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
    ]
)

# The other fields of an entry, which are needed to write it again: maps from field id, and the key metadata.
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

# The statistics that have a column per table column, by the data file's map that holds them.
STATISTICS = {
    "value_counts": "value_count",
    "null_value_counts": "null_value_count",
    "nan_value_counts": "nan_value_count",
    "lower_bounds": "lower_bound",
    "upper_bounds": "upper_bound",
}

_BOUNDS = frozenset({"lower_bound", "upper_bound"})

# A statistic of a table column: a value of `STATISTICS`, and the column's field id.
Statistic = tuple[str, int]


def ordered_statistics(field_ids: Iterable[int]) -> frozenset[Statistic]:
    """Return the statistics of table columns that cannot hold NaN."""
    return every_statistic(field_ids) - {("nan_value_count", field_id) for field_id in field_ids}


def every_statistic(field_ids: Iterable[int]) -> frozenset[Statistic]:
    """Return all statistics of table columns."""
    return frozenset((statistic, field_id) for field_id in field_ids for statistic in STATISTICS.values())


def partition_column(field_id: int) -> str:
    """Return the name of the column with the values of a partition field."""
    return f"partition.{field_id}"


def statistic_column(statistic: str, field_id: int) -> str:
    """Return the name of the column with one statistic (a value of `STATISTICS`) of one table column."""
    return f"{statistic}.{field_id}"


def statistic_field(statistic: str, field_id: int) -> Any:
    """Return the Arrow field of the column with one statistic (a value of `STATISTICS`) of one table column: counts are int64, bounds binary."""
    return pa.field(statistic_column(statistic, field_id), pa.binary() if statistic in _BOUNDS else pa.int64())


@dataclass(frozen=True, slots=True)
class ManifestColumns:
    """Entries as columns, one row per entry, in file order, with inherited numbers.

    `entries` (a `pyarrow.Table`) has the columns of `ENTRY_FIELDS`, in a delete manifest those of `DELETE_FIELDS`, then `partition.<field id>` typed by
    `values.physical_arrow_type`, then the requested ones of `value_count.<id>`, `null_value_count.<id>`, `nan_value_count.<id>` (int64) and
    `lower_bound.<id>`, `upper_bound.<id>` (binary) by table column: null where the manifest has no value.
    Entries that were read whole have the columns of `DELETE_FIELDS` always, and at the end those of `WHOLE_FIELDS`.
    """

    entries: Any

    def __len__(self) -> int:
        return int(self.entries.num_rows)
