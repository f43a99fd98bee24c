"""`ManifestColumns`: the entries of manifests as Arrow columns, and the names of those columns.

`manifest_reader.py` fills them from bytes; `scan` evaluates filters on them. Spec: Manifests.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# The first columns of every table of entries. Columns `partition.<field id>` follow in spec order, then one column for each requested statistic. Tables of
# delete files have no `first_row_id`.
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

# The other fields of an entry, which are needed to write the entry again: maps from field id to value, and the key metadata.
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

# For each map of statistics of a data file, the prefix of the columns with its values, one for each table column.
STATISTICS = {
    "value_counts": "value_count",
    "null_value_counts": "null_value_count",
    "nan_value_counts": "nan_value_count",
    "lower_bounds": "lower_bound",
    "upper_bounds": "upper_bound",
}

_BOUNDS = frozenset({"lower_bound", "upper_bound"})

# A statistic of a table column: a value of `STATISTICS`, and the field id of the column.
Statistic = tuple[str, int]


def ordered_statistics(field_ids: Iterable[int]) -> frozenset[Statistic]:
    """Return all statistics of table columns except NaN counts, which columns of types without NaN do not need."""
    return every_statistic(field_ids) - {("nan_value_count", field_id) for field_id in field_ids}


def every_statistic(field_ids: Iterable[int]) -> frozenset[Statistic]:
    """Return every statistic of each of these table columns."""
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
    """Manifest entries as columns: one row for each entry, in file order, with inherited numbers.

    `entries` is a `pyarrow.Table` with these columns: those of `ENTRY_FIELDS`; in a delete manifest those of `DELETE_FIELDS`; `partition.<field id>` in the
    type of `values.physical_arrow_type`; and for each requested statistic of a table column `value_count.<id>`, `null_value_count.<id>`, `nan_value_count.<id>`
    (int64), `lower_bound.<id>` or `upper_bound.<id>` (binary), null if the manifest has no value. Entries that were read with `whole` always have the columns
    of `DELETE_FIELDS`, and at the end those of `WHOLE_FIELDS`.
    """

    entries: Any

    def __len__(self) -> int:
        return int(self.entries.num_rows)
