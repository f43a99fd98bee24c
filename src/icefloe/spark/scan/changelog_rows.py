"""Changes with the columns that Spark's `Changelog` defines: those of the table, `_change_type`, `_commit_version` and `_commit_timestamp`.

CHANGES in SQL, `spark.read.changes` and streams of changes have these columns. `change_feed.py` reads the rows. Spec: Snapshots.
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from icefloe.errors import InvalidInputError
from icefloe.operations.change_feed.change_scan import ChangeScan, SnapshotChanges
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT
from icefloe.operations.change_feed.row_pairs import UPDATE_AFTER, UPDATE_BEFORE
from icefloe.operations.loaded_table import TableReader
from icefloe.spark.scan.change_feed import changes_frame
from icefloe.spark.types.spark_types import column_named, schema_to_struct
from icefloe.spec.schema.metadata_columns import CHANGE_TYPE, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP
from icefloe.spec.schema.schema import Schema

_CHANGE_TYPE, _COMMIT_VERSION, _COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
# The columns that Spark requires, after the columns of the table. `_commit_version` is the id of the snapshot: Spark compares versions only where it nets
# changes itself.
_COLUMNS = StructType(
    [
        StructField(_CHANGE_TYPE, StringType(), False),
        StructField(_COMMIT_VERSION, LongType(), False),
        StructField(_COMMIT_TIMESTAMP, TimestampType(), False),
    ]
)
_SOURCES = {_CHANGE_TYPE: CHANGE_TYPE.name, _COMMIT_VERSION: COMMIT_SNAPSHOT_ID.name, _COMMIT_TIMESTAMP: COMMIT_TIMESTAMP.name}
# Spark's names of the kinds of changes.
_KINDS = {INSERT: "insert", DELETE: "delete", UPDATE_BEFORE: "update_preimage", UPDATE_AFTER: "update_postimage"}


def check_changelog_names(schema: Schema, table_name: str) -> None:
    """Raise `InvalidInputError` if a column of a table has the name of a column of the change."""
    taken = sorted(set(_COLUMNS.names) & set(schema.names))
    if taken:
        raise InvalidInputError(
            f"the changes of {table_name} have a column {taken[0]}, and so has the table",
            table=table_name,
            next_step=f"rename the column of the table{'' if CHANGE_TYPE.name in taken else ', or read its changes in Python: table.changes(...)'}",
        )


def changelog_struct(table: TableReader) -> StructType:
    """Return the columns of the changes of a table."""
    scan = ChangeScan(
        table_name=table.full_name, metadata=table.metadata, io=table.io, snapshots=(), selected_fields=tuple(table.schema().names)
    )
    return StructType([*schema_to_struct(scan.projection(), field_ids=False).fields, *_COLUMNS.fields])


def changelog_rows(
    spark: SparkSession, scan: ChangeScan, names: Sequence[str], plans: Sequence[SnapshotChanges] | None = None
) -> DataFrame:
    """Return the rows of a scan of changes as a lazy DataFrame, in any order. Raises the errors of `changes_frame`.

    Args:
        spark: A classic session.
        scan: The scan.
        names: The names of the columns, in the order of the result.
        plans: The planned changes; None for those of the scan's snapshots.
    """
    frame = changes_frame(spark, replace(scan, selected_fields=tuple(_SOURCES.get(name, name) for name in names)), plans)
    kind = column_named(CHANGE_TYPE.name)
    named = F.coalesce(*(F.when(kind == own, spark_kind) for own, spark_kind in _KINDS.items()), kind)
    columns = (named if name == _CHANGE_TYPE else column_named(_SOURCES.get(name, name)) for name in names)
    return frame.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))
