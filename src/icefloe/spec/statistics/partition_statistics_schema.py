"""The columns of partition statistics files, with their field ids.

`partition_statistics_rows.py` computes their values. Spec: Partition Statistics File.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IntegerType, LongType, NestedField, StructType

PARTITION = "partition"
SPEC_ID = "spec_id"
DATA_RECORDS = "data_record_count"
DATA_FILES = "data_file_count"
DATA_SIZE = "total_data_file_size_in_bytes"
POSITION_RECORDS = "position_delete_record_count"
POSITION_FILES = "position_delete_file_count"
EQUALITY_RECORDS = "equality_delete_record_count"
EQUALITY_FILES = "equality_delete_file_count"
TOTAL_RECORDS = "total_record_count"
UPDATED_AT = "last_updated_at"
UPDATED_BY = "last_updated_snapshot_id"
VECTORS = "dv_count"
# The columns with sums over files.
COUNTS = (DATA_RECORDS, DATA_FILES, DATA_SIZE, POSITION_RECORDS, POSITION_FILES, EQUALITY_RECORDS, EQUALITY_FILES, VECTORS)


def partition_statistics_schema(partition_type: StructType, format_version: int) -> Schema:
    """Return the schema of a table's partition statistics files.

    A file that was written for format version 1 or 2 may lack `dv_count`, which is then read as 0.

    Args:
        partition_type: A struct of every field of every partition spec, by ascending field id.
        format_version: Format version of the table.
    """
    since_3 = format_version >= 3
    fields = [
        NestedField(1, PARTITION, StructType(*with_unique_names(partition_type.fields)), True),
        NestedField(2, SPEC_ID, IntegerType(), True),
        NestedField(3, DATA_RECORDS, LongType(), True),
        NestedField(4, DATA_FILES, IntegerType(), True),
        NestedField(5, DATA_SIZE, LongType(), True),
        NestedField(6, POSITION_RECORDS, LongType(), since_3),
        NestedField(7, POSITION_FILES, IntegerType(), since_3),
        NestedField(8, EQUALITY_RECORDS, LongType(), since_3),
        NestedField(9, EQUALITY_FILES, IntegerType(), since_3),
        NestedField(10, TOTAL_RECORDS, LongType()),
        NestedField(11, UPDATED_AT, LongType()),
        NestedField(12, UPDATED_BY, LongType()),
    ]
    if since_3:
        fields.append(NestedField(13, VECTORS, IntegerType(), True, initial_default=0, write_default=0))
    return Schema(*fields)


def with_unique_names(fields: Sequence[NestedField]) -> Iterator[NestedField]:
    """Yield the fields with unique names.

    Two specs may have different fields with the same name, and the columns of a file must have unique names. So `_<field id>` is appended to a name that an
    earlier field has.
    """
    seen: set[str] = set()
    for field in fields:
        name = field.name if field.name not in seen else f"{field.name}_{field.field_id}"
        seen.add(name)
        yield replace(field, name=name)
