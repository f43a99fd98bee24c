"""The metadata table `changes`: the rows that snapshots added and removed, each with its operation and snapshot.

`icefloe.operations.change_feed` computes them. Spec: Snapshots; Reserved Field IDs; Row-level Deletes.
"""

from collections.abc import Sequence
from typing import Any

from icefloe.metadata_tables.request import Request
from icefloe.operations.change_feed.change_scan import DeduplicationMode
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.schema.arrow_schema import schema_to_arrow


def current_changes(request: Request) -> Any:
    """Return the rows of `changes` from the beginning of the table up to the requested snapshot, including rows that were only copied."""
    snapshot_id = None if request.snapshot is None else request.snapshot.snapshot_id
    if snapshot_id is None:
        return schema_to_arrow(request.schema).empty_table()
    return changes(request.table, end_snapshot_id=snapshot_id, columns=request.schema.names)


def changes(
    table: TableReader,
    *,
    start_snapshot_id: int | None = None,
    end_snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    row_filter: str | BooleanExpression | None = None,
    carry_overs: bool = True,
    identifier_columns: Sequence[str] = (),
) -> Any:
    """Return the rows that the snapshots between two snapshots added and removed as a `pyarrow.Table`, oldest changes first.

    The table's columns are followed by three others: `_change_type` is INSERT or DELETE; `_change_ordinal` counts the snapshots from 0; `_commit_snapshot_id`
    is the snapshot that made the change. Snapshots that only replaced files are skipped.

    Args:
        table: The table.
        start_snapshot_id: The snapshot after which changes begin, exclusive; None for the beginning of the table.
        end_snapshot_id: The last snapshot, inclusive; None for the current one.
        columns: Names of the columns to return; None for the table's columns and the three above. The metadata columns `_file`, `_pos`, `_spec_id` and
            `_partition` describe the data file of the row; `_deleted` is always false, because only live rows are compared.
        row_filter: Filter on columns of the table; None for all rows.
        carry_overs: Whether to return rows that a snapshot both removed and added unchanged, because it copied their file.
        identifier_columns: Names of columns. If given, a row that a snapshot removed and a row that it added, with equal values in these columns, become
            UPDATE_BEFORE and UPDATE_AFTER, and rows that were only copied are left out.

    Raises:
        NoSuchSnapshotError: A snapshot does not exist.
        InvalidInputError: The start is not an ancestor of the end; a snapshot removed rows, and its parent is expired; a column does not exist; or a snapshot
            changed several rows with equal values in the identifier columns.
        InvalidFilterError: The filter cannot be parsed, or does not fit the columns.
        NoSuchFileError: A file that the metadata names does not exist.
        FormatError: A file is damaged, or violates the format.
    """
    scan = table.changes(
        start_snapshot_id,
        end_snapshot_id,
        row_filter=row_filter,
        selected_fields=("*",) if columns is None else tuple(columns),
        deduplication_mode=DeduplicationMode.NONE if carry_overs and not identifier_columns else DeduplicationMode.DROP_CARRYOVERS,
        compute_updates=bool(identifier_columns),
        identifier_columns=identifier_columns or None,
    )
    return scan.to_arrow()
