"""`plan` and `undo`: the repair of one table, as users call it."""

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
    """The methods of a catalog that a repair needs. They return handles of tables, which need not be loadable."""

    def handle_of(self, identifier: str) -> tuple[TableHandle, str]:
        """Return the handle of a table, and the location of the metadata file that the catalog names."""

    def new_handle(self, identifier: str, location: str) -> TableHandle:
        """Return the handle of a table at a location that the catalog does not have."""


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
        name: The name of the table, if `source` is a catalog. The table need not be loadable.
        only: Ids of repairs; the id of a rule chooses the rule's default repairs. If empty, all default repairs are chosen.
        branch: The branch whose newest snapshot is repaired.
        files: Check that each data file and delete file exists and has the stated size, by one request for each.
        data: Check footers of data files, and the content of delete files and statistics files too, which finds wrong counts and bounds.
        progress: Is updated while the table is validated.

    Returns:
        The plan.

    Raises:
        NoSuchTableError: The catalog has no such table.
        NoSuchSnapshotError: The table has no such branch.
        InvalidInputError: `only` has a name that is not a repair's or rule's, or `source` is a catalog and `name` is missing.
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
        name: The name of the table, if `source` is a catalog.
        branch: The branch that was repaired.
        metadata_file: The metadata file of a table that a repair dropped from the catalog.

    Returns:
        What was undone.

    Raises:
        InvalidInputError: The last commit was not a repair, or `source` is a catalog and `name` is missing.
        TableAlreadyExistsError: `metadata_file` is given, but the catalog has a table of this name.
        CommitInvalidatedError, CommitConflictError: Another writer changed the table during the undo.
        NoSuchTableError: The catalog has no such table.
    """
    if metadata_file is not None and not isinstance(source, LoadedTable) and name is not None:
        return undo_table(source.new_handle(name, qualify(metadata_file)), branch=branch, metadata_file=metadata_file)
    handle, _ = _locate(source, name)
    return undo_table(handle, branch=branch, metadata_file=metadata_file)


def _locate(source: LoadedTable | TablesByName, name: str | None) -> tuple[TableHandle, str]:
    """Return the handle of the table and the location of the metadata file that the catalog names."""
    if isinstance(source, LoadedTable):
        return source.handle, source.handle.store.load(source.handle.identifier).metadata_location
    if name is None:
        raise InvalidInputError(
            "a catalog is given without the name of a table", next_step="pass the name: one table is repaired at a time"
        )
    return source.handle_of(name)
