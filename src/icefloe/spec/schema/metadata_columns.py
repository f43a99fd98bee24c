"""The columns whose field ids the format reserves: metadata columns of every row, and the columns of position delete files.

`datafile/metadata_columns_of_rows.py` computes their values. Spec: Reserved Field IDs; Row Lineage; Position Delete Files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icefloe.spec.types import BooleanType, IntegerType, LongType, NestedField, StringType, StructType, TimestamptzType

# Field ids above this are reserved for metadata columns. Spec: Reserved Field IDs.
MAX_USER_FIELD_ID = 2147483447

FILE = NestedField(2147483646, "_file", StringType(), True, "Location of the file that holds the row")
POS = NestedField(2147483645, "_pos", LongType(), True, "Position of the row in its file, counted from 0")
DELETED = NestedField(2147483644, "_deleted", BooleanType(), True, "Whether the row is deleted")
SPEC_ID = NestedField(2147483643, "_spec_id", IntegerType(), True, "Partition spec of the file that holds the row")
ROW_ID = NestedField(2147483540, "_row_id", LongType(), False, "Number of the row, which never changes")
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(
    2147483539, "_last_updated_sequence_number", LongType(), False, "Sequence number of the commit that last changed the row"
)
CHANGE_TYPE = NestedField(2147483543, "_change_type", StringType(), True, "INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER")
CHANGE_ORDINAL = NestedField(2147483542, "_change_ordinal", IntegerType(), False, "Place of the change among the changes")
COMMIT_SNAPSHOT_ID = NestedField(2147483541, "_commit_snapshot_id", LongType(), False, "Snapshot in which the change was made")

PARTITION_FIELD_ID = 2147483642
PARTITION_NAME = "_partition"

# The columns of a position delete file.
DELETE_FILE_PATH = NestedField(2147483546, "file_path", StringType(), True, "Location of the data file that holds the deleted row")
DELETE_POS = NestedField(2147483545, "pos", LongType(), True, "Position of the deleted row in the data file, counted from 0")
DELETE_ROW_FIELD_ID = 2147483544
DELETE_ROW_NAME = "row"

# The metadata columns that data files may contain: the lineage of rows that were copied. Spec: Row Lineage.
LINEAGE_COLUMNS = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)

# The metadata columns that can be selected in every table, with the same type in every table.
METADATA_COLUMNS: Mapping[str, NestedField] = {
    field.name: field for field in (FILE, POS, DELETED, SPEC_ID, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
}

# Every reserved id that a schema may contain, with its name.
RESERVED_FIELD_IDS: Mapping[int, str] = {
    **{field.field_id: field.name for field in METADATA_COLUMNS.values()},
    **{field.field_id: field.name for field in (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, DELETE_FILE_PATH, DELETE_POS)},
    PARTITION_FIELD_ID: PARTITION_NAME,
    DELETE_ROW_FIELD_ID: DELETE_ROW_NAME,
}

# A column that the specification does not define: the time of a change. Its field id is the smallest reserved one, and is in no file.
COMMIT_TIMESTAMP = NestedField(2147483448, "_commit_timestamp", TimestamptzType(), False, "Time of the commit of the change")


def partition_column(partition: StructType) -> NestedField:
    """Return the column `_partition`, a struct of all fields of all partition specs of the table.

    Its value is null for rows of a table that was never partitioned.
    """
    return NestedField(PARTITION_FIELD_ID, PARTITION_NAME, partition, False, "Partition of the file that holds the row")


def is_reserved(field_id: int) -> bool:
    """Return True if the format reserves the field id."""
    return field_id > MAX_USER_FIELD_ID


def with_lineage(fields: Sequence[NestedField]) -> tuple[NestedField, ...]:
    """Return the columns followed by the two lineage columns, as in files of copied rows.

    If a column of the table has the name of a lineage column, the field id is appended to the name of the lineage column. Field ids identify columns; names
    only have to be unique.
    """
    taken = {field.name for field in fields}
    lineage = (replace(field, name=f"{field.name}_{field.field_id}") if field.name in taken else field for field in LINEAGE_COLUMNS)
    return (*fields, *lineage)
