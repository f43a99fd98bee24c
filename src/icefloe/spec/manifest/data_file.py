"""`DataFile`: one data or delete file as a manifest describes it.

The status and the sequence numbers of a manifest entry are in `entry.py`; many files as columns are in `manifest_columns.py`.
Spec: Data File Fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any


class FileContent(IntEnum):
    """The content of a file (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class FileFormat(StrEnum):
    """The format of a file (field 101), in the upper case that Java writes; readers compare without regard to case."""

    AVRO = "AVRO"
    ORC = "ORC"
    PARQUET = "PARQUET"
    PUFFIN = "PUFFIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file, delete file or deletion vector, as a manifest entry describes it.

    The keys of the maps are field ids; the values are sizes in bytes, counts of values, or bounds in single-value serialization. A map is None if the writer
    did not record it. Offsets and sizes are in bytes.

    Attributes:
        partition: Physical values in the order of the partition spec's fields.
        first_row_id: Row id of a data file's first row. A file that was read has inherited it already.
        referenced_data_file: The one data file that a delete file applies to.
        content_offset: Offset of a deletion vector in its Puffin file.
        content_size_in_bytes: Size of a deletion vector in its Puffin file; its `record_count` is its cardinality.
        spec_id: Partition spec of the manifest that contains the file.
    """

    file_path: str
    file_format: FileFormat
    record_count: int
    file_size_in_bytes: int
    content: FileContent = FileContent.DATA
    partition: tuple[Any, ...] = ()
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    # Never written to manifests: the manifest list has the spec id (502). Field id 141 is reserved for it in memory.
    spec_id: int = 0
