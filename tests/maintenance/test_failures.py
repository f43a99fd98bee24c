"""Each action of maintenance with one failing read, write or deletion: no row is lost, no live file deleted, and the next orphan run finds what is left."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.table.reachable import everything, on_disk

from icefloe import SqlCatalog
from icefloe.errors import CommitUnknownError, FormatError, StorageError, StorageFullError
from icefloe.io import file_tree
from icefloe.maintenance import quarantine_list
from icefloe.maintenance import remove_orphan_files as removal
from icefloe.maintenance.maintain import TableMaintenanceRun
from icefloe.operations.metadata_cache import load_metadata
from icefloe.procedures.maintain_catalog import maintain_catalog
from icefloe.table import Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, SimulatedCrash

OPERATIONS = ("write", "open_output", "delete", "read", "open_input", "size", "exists")
# The operations of the default run that an action has.
FEW: dict[str, tuple[str, ...]] = {
    "rewrite data files": ("write", "open_output"),
    "convert equality deletes": ("write",),
    "rewrite position delete files": ("write", "open_output"),
    "maintain": ("write", "open_output", "delete"),
    "delete orphan files": ("delete",),
    "quarantine orphan files": ("open_output", "delete"),
    "purge orphan files": ("open_output", "delete"),
}
FAULTS = (Fault.UNAVAILABLE, Fault.INTERRUPT, Fault.CRASH)


def remove_orphans(table: Table, mode: str) -> Any:
    later = datetime.now(UTC) + timedelta(minutes=1)
    return table.maintenance.remove_orphan_files(later, mode=mode, force=True, purge_delay=timedelta(0))


ACTIONS: dict[str, Callable[[Table], Any]] = {
    "rewrite data files": lambda table: table.maintenance.rewrite_data_files(
        options={"rewrite-all": True, "remove-dangling-deletes": True}
    ),
    "convert equality deletes": lambda table: table.maintenance.convert_equality_deletes(),
    "rewrite position delete files": lambda table: table.maintenance.rewrite_position_delete_files(options={"rewrite-all": True}),
    "maintain": lambda table: table.maintenance.maintain(min_age_minutes=0, remove_orphan_files=True),
    "delete orphan files": lambda table: remove_orphans(table, "delete"),
    "quarantine orphan files": lambda table: remove_orphans(table, "quarantine"),
    "purge orphan files": lambda table: (remove_orphans(table, "quarantine"), remove_orphans(table, "purge")),
}


def made(folder: Path, version: int) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    properties = {"format-version": str(version), "write.delete.mode": "merge-on-read", "commit.retry.num-retries": "0"}
    return catalog.create_table(
        "db.t", pa.schema([("id", pa.int64()), ("kind", pa.string())]), partition_spec=["kind"], properties=properties
    )


def grow(table: Table, first: int) -> None:
    """Add small files, deletes of both kinds, and a file that nothing references."""
    for number in range(first, first + 3):
        table.append(pa.table({"id": [10 * number + place for place in range(4)], "kind": ["a", "a", "b", "b"]}))
    table.delete(f"id = {10 * first}")
    table.delete(f"id = {10 * first + 10}")
    table.delete_keys(pa.table({"id": [10 * first + 1, 10 * first + 12]}), ["id"])
    Path(table.location(), "data", f"stray-{first}.parquet").write_bytes(b"stray")


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.fixture(autouse=True)
def listed_without_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a storage with faults be listed: it is no storage of a folder."""

    def plain(io: Any) -> Any:
        return io.io if isinstance(io, FaultyFileIO) else io

    list_part, file_state = file_tree.list_part, file_tree.file_state

    def listed(io: Any, *arguments: Any) -> Iterator[Any]:
        return list_part(plain(io), *arguments)

    for module in (file_tree, removal, quarantine_list):
        for name, function in (("list_part", listed), ("file_state", lambda io, location: file_state(plain(io), location))):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, function)


def check(table: Table, expected: list[int]) -> None:
    """Check the rows, those of every snapshot, and that every referenced file is there."""
    table.refresh()
    assert ids(table) == expected
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    named, present = everything(table.metadata), on_disk(table.location())
    assert named <= present


def failing_run(table: Table, action: str, operation: str, fault: Fault, after: int) -> bool:
    """Run an action with one fault. Return whether there was an operation to fail."""
    faults = Faults()
    faulty = Table(replace(table.handle, io=FaultyFileIO(table.io, faults)), load_metadata(table.handle))
    faults.order(operation, fault, after=after)
    with suppress(StorageError, FormatError, CommitUnknownError, KeyboardInterrupt, SimulatedCrash):
        ACTIONS[action](faulty)
    return any(event.fault is not None for event in faults.log)


def fail_and_check(folder: Path, action: str, version: int, operation: str, places: range) -> int:
    """Let an operation of an action fail at some places. Return the number of faults."""
    table, count, first = made(folder, version), 0, 0
    for place in places:
        grow(table, first)
        expected, first = ids(table), first + 3
        count += failing_run(table, action, operation, FAULTS[(place + len(operation)) % len(FAULTS)], place)
        check(table, expected)
        ACTIONS[action](table.refresh())
        check(table, expected)
    # A commit of each run before has decided those that were under way.
    table.append(pa.table({"id": [-1], "kind": ["a"]}))
    remove_orphans(table.refresh(), "delete")
    # Lists of orphan files are hidden from the search; a purge or an undo deletes them.
    left = {path for path in on_disk(table.location()) if not Path(path).name.startswith("_orphan-files")}
    assert left == everything(table.metadata)
    check(table, [-1, *expected])
    return count


def fail_each(folder: Path, action: str, version: int, operations: tuple[str, ...], places: range) -> int:
    """Let each operation of an action fail, on a table of its own: what is checked grows with the snapshots. Return the number of faults."""
    count = 0
    for operation in operations:
        (folder / operation).mkdir()
        count += fail_and_check(folder / operation, action, version, operation, places)
    return count


@pytest.mark.parametrize("action", ACTIONS)
def test_a_failing_write_or_deletion_loses_no_row_and_leaves_only_orphans(tmp_path: Path, action: str) -> None:
    assert fail_each(tmp_path, action, 3 if action.startswith("convert") else 2, FEW[action], range(1)) == len(FEW[action])


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_failing_operation_of_any_kind_at_any_place_loses_no_row_and_leaves_only_orphans(
    tmp_path: Path, action: str, version: int
) -> None:
    assert fail_each(tmp_path, action, version, OPERATIONS, range(6)) >= 4


@pytest.mark.parametrize(
    ("error", "has_traceback"), [(StorageFullError("no space is left to write x"), False), (KeyError("a wrong key"), True)]
)
@pytest.mark.parametrize("of_catalog", [False, True])
def test_only_a_fault_of_the_program_is_logged_with_its_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    has_traceback: bool,
    of_catalog: bool,
) -> None:
    table = made(tmp_path, 2)
    grow(table, 0)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(TableMaintenanceRun, "run" if of_catalog else "_run", fail)
    with caplog.at_level(logging.WARNING):
        if of_catalog:
            (report,) = maintain_catalog(SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)))
        else:
            report = table.maintenance.maintain(min_age_minutes=0)
    assert report.has_failures
    assert caplog.records
    assert all(bool(record.exc_info) is has_traceback for record in caplog.records)
    assert all(str(error) in record.getMessage() for record in caplog.records)
