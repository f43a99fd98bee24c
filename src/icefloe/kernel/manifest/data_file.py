"""`DataFile`: what a manifest says about one data or delete file.

The status and numbers that a manifest entry adds are in `entry.py`; many files at once are `columns.py`.
Spec: Data File Fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any


class FileContent(IntEnum):
    """What a file holds (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class FileFormat(StrEnum):
    """A file's format (field 101), in the upper case that Java writes; readers compare without regard to case."""

    AVRO = "AVRO"
    ORC = "ORC"
    PARQUET = "PARQUET"
    PUFFIN = "PUFFIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data or delete file.

    `partition` holds physical values in the order of the partition spec's fields. The maps go from field id to bytes on disk,
    counts of values, or bounds in single-value form; None where the writer gave none. Offsets and sizes are in bytes.

    `first_row_id` is the row id of a data file's first row; one that was read has inherited it. `referenced_data_file` is the one data file that a delete file
    is about; for a deletion vector, `content_offset` and `content_size_in_bytes` say where in its Puffin file it lies, and `record_count` is its cardinality.
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
    # The spec of the manifest that holds the file. Never written: the manifest list has it (502); id 141 is kept for it in memory.
    spec_id: int = 0
