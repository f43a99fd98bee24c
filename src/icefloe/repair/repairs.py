"""`plan` and `undo`: the repair of one table, for users."""

from collections.abc import Sequence
from typing import Protocol

from icefloe.checks.table_validation import ValidationProgress
from icefloe.errors import InvalidInputError
from icefloe.io.locations import qualify
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.table_handle import TableHandle
from icefloe.repair.repair_plan import RepairPlan, RepairResult
from icefloe.repair.table_repair import RepairOptions, plan_table, undo_table
from icefloe.spec.metadata.snapshot_ref import MAIN


class TablesByName(Protocol):
    """A catalog, of which a repair needs the tables' entries only: a table that is repaired need not be loadable."""

    def handle_of(self, identifier: str) -> tuple[TableHandle, str]:
        """Return the entry of a table, and the metadata file that the catalog names."""

    def new_handle(self, identifier: str, location: str) -> TableHandle:
        """Return the entry of a table that the catalog does not have."""


def plan(
    source: LoadedTable | TablesByName,
    name: str | None = None,
    *,
    only: str | Sequence[str] = (),
    branch: str = MAIN,
    files: bool = True,
    data: bool = False,
    progress: ValidationProgress | None = None,
) -> RepairPlan:
    """Find what is wrong in a table and plan its repair. Nothing is changed until `.apply()` of the plan.

    Args:
        source: The table, or its catalog.
        name: Of a catalog only: the table, which need not be loadable.
        only: Ids of repairs, or of rules whose default repairs are meant; by default all repairs that need not be named.
        branch: The branch whose newest snapshot is repaired.
        files: Check that each data file and delete file exists and has its size: one request for each.
        data: Check also what footers, delete files and statistics files have, so that wrong counts and bounds are found.
        progress: Is updated while the table is validated.

    Returns:
        The plan.

    Raises:
        NoSuchTableError: The catalog has no such table.
        NoSuchSnapshotError: The table has no such branch.
        InvalidInputError: `only` names no repair, or a catalog is given without a name.
        StorageUnavailableError: The storage does not respond.
    """
    handle, location = _locate(source, name)
    options = RepairOptions(only=(only,) if isinstance(only, str) else tuple(only), branch=branch, files=files, data=data)
    return plan_table(handle, location, options, progress)


def undo(
    source: LoadedTable | TablesByName, name: str | None = None, *, branch: str = MAIN, metadata_file: str | None = None
) -> RepairResult:
    """Undo the last repair of a table, if nothing was committed after it. No file is deleted.

    Args:
        source: The table, or its catalog.
        name: Of a catalog only: the table.
        branch: The branch that was repaired.
        metadata_file: The metadata file of a table that a repair dropped from the catalog.

    Returns:
        What was undone.

    Raises:
        InvalidInputError: The last commit was no repair.
        TableAlreadyExistsError: With a metadata file, the name is taken.
        CommitConflictError: Another writer changed the table meanwhile.
        NoSuchTableError: The catalog has no such table.
    """
    if metadata_file is not None and not isinstance(source, LoadedTable) and name is not None:
        return undo_table(source.new_handle(name, qualify(metadata_file)), branch=branch, metadata_file=metadata_file)
    handle, _ = _locate(source, name)
    return undo_table(handle, branch=branch, metadata_file=metadata_file)


def _locate(source: LoadedTable | TablesByName, name: str | None) -> tuple[TableHandle, str]:
    """Return the table and the metadata file that the catalog names now."""
    if isinstance(source, LoadedTable):
        return source.handle, source.handle.store.load(source.handle.identifier).metadata_location
    if name is None:
        raise InvalidInputError(
            "a catalog is given without the name of a table", next_step="pass the name: one table is repaired at a time"
        )
    return source.handle_of(name)
