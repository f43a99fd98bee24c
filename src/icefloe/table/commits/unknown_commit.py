"""What a commit that may or may not have happened says: what to look for, in which table, and with which command.

Spec: Optimistic Concurrency.
"""

from collections.abc import Sequence

from icefloe.catalog_store.identifier import dotted
from icefloe.errors import CommitUnknownError, Problem
from icefloe.kernel.commit.outcome import Unknown
from icefloe.table.commits.table_commit import TableCommit


def unknown_commit_error(parts: Sequence[TableCommit], outcome: Unknown) -> CommitUnknownError:
    """The error. Its problems name each table with what it has if the commit happened."""
    tables = ", ".join(part.handle.table_name for part in parts)
    first = next((part for part in parts if part.metadata_location), parts[0])
    snapshot_id = first.made.snapshot_id if first.made is not None else None
    command = f"icefloe show snapshots {dotted(first.handle.identifier)} --catalog {first.handle.store.name}"
    sign = (
        f"snapshot {snapshot_id} is in its history"
        if snapshot_id is not None
        else f"{first.metadata_location} is its metadata file or in its log"
    )
    return CommitUnknownError(
        f"the commit to {tables} may or may not have happened: {outcome.reason}",
        table=tables,
        path=first.metadata_location,
        snapshot_id=snapshot_id,
        problems=[_problem(part) for part in parts],
        next_step=f"look before writing again, with `{command}`: where {sign} the commit is there and a retry would write twice, else repeat it; "
        "no file was deleted",
    )


def _problem(part: TableCommit) -> Problem:
    snapshot_id = part.made.snapshot_id if part.made is not None else None
    what = (
        f"snapshot {snapshot_id}, metadata file {part.metadata_location}"
        if snapshot_id is not None
        else f"metadata file {part.metadata_location}"
    )
    return Problem(where=part.handle.table_name, what=f"committed if it has {what}")
