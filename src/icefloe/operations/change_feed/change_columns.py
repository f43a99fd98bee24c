"""The columns of changes: those that describe a change, and the metadata columns of the changed row. Spec: Reserved Field IDs."""

from collections.abc import Sequence

from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.metadata_columns import (
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    COMMIT_SNAPSHOT_ID,
    COMMIT_TIMESTAMP,
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    POS,
    ROW_ID,
    SPEC_ID,
    partition_column,
)
from icefloe.spec.types import NestedField

# The columns that describe a change; they follow the columns of the table.
CHANGE_COLUMNS = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)


def feed_metadata_columns(metadata: TableMetadata) -> Sequence[NestedField]:
    """Return the metadata columns that changes have on request."""
    return (
        FILE,
        POS,
        DELETED,
        SPEC_ID,
        partition_column(table_partition_type(metadata)),
        ROW_ID,
        LAST_UPDATED_SEQUENCE_NUMBER,
        COMMIT_TIMESTAMP,
    )
