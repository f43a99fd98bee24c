"""Several tables in one commit whose reply is lost, whose outcome stays unknown, or whose process dies: all of them move or none."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.catalog.catalog import Catalog
from icefloe.catalog_store.sql_store import SqlCatalogStore
from icefloe.errors import CommitConflictError, CommitUnknownError, StoragePermissionError
from icefloe.kernel.commit.outcome import Refused
from icefloe.testing.fault_injection import Fault, Faults, FaultyStore, SimulatedCrash

SCHEMA = pa.schema([("n", pa.int64())])
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "2",
    "commit.retry.num-retries": "3",
    "commit.status-check.min-wait-ms": "1",
}
NAMES = ("db.a", "db.b")


def one(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    made.create_namespace("db")
    for name in NAMES:
        made.create_table(name, SCHEMA, properties=QUICK)
    return made


def faulty(catalog: Catalog, faults: Faults) -> Catalog:
    """The same catalog, whose store fails as it is told to."""
    return Catalog(catalog.name, FaultyStore(catalog.store, faults), catalog.properties)


def numbers(catalog: Catalog, *names: str) -> list[list[int]]:
    return [sorted(table.scan().to_arrow()["n"].to_pylist()) for table in catalog.load_tables(*names)]


def metadata_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.parent.name == "metadata"}


def write(catalog: Catalog, number: int, *, makes: str | None = None) -> None:
    """Appends to both tables in one commit, and makes a third where it is asked to."""
    with catalog.transaction() as tx:
        first, second = tx.load_tables(*NAMES)
        first.append(one(number))
        second.append(one(-number))
        if makes is not None:
            tx.create_table(makes, SCHEMA, properties=QUICK).append(one(number))


@pytest.mark.parametrize("makes", [None, "db.c"])
@pytest.mark.parametrize(
    "fault", [Fault.LOST_REPLY, Fault.LATE, Fault.UNKNOWN, Fault.CONFLICT, Fault.OVERTAKEN, Fault.UNAVAILABLE_AFTER, Fault.UNAVAILABLE]
)
def test_a_commit_whose_reply_is_lost_is_made_once_on_every_table(
    catalog: SqlCatalog, tmp_path: Path, fault: Fault, makes: str | None
) -> None:
    faults = Faults()
    others = (lambda: write(catalog, 7)) if fault is Fault.OVERTAKEN else None
    faults.order("swap", fault, meanwhile=others)
    write(faulty(catalog, faults), 1, makes=makes)
    theirs = [7] if others else []
    assert numbers(catalog, *NAMES) == [[1, *theirs], [*(-number for number in theirs), -1]]
    if makes:
        assert numbers(catalog, makes) == [[1]]
    swaps = [event for event in faults.log if event.operation == "swap"]
    assert sum(event.done for event in swaps) + (fault is Fault.LATE) == 1, "it is made once"
    for table in catalog.load_tables(*NAMES):
        lists = {snapshot.manifest_list for snapshot in table.snapshots()}
        assert {str(path) for path in Path(table.location()).rglob("snap-*.avro")} == lists, "nothing of a failed attempt is left"


@pytest.mark.parametrize("has_happened", [True, False])
def test_an_outcome_that_stays_unknown_is_said_for_all_tables_and_deletes_nothing(
    catalog: SqlCatalog, tmp_path: Path, has_happened: bool
) -> None:
    for table in catalog.load_tables(*NAMES):
        table.set_properties({"commit.status-check.num-retries": "1"})
    faults = Faults()
    faults.order("swap", Fault.LOST_REPLY if has_happened else Fault.UNKNOWN)
    faults.order("load", Fault.UNAVAILABLE, after=2, times=None)  # the first two come before the commit
    before = metadata_files(tmp_path)
    with pytest.raises(CommitUnknownError) as unknown:
        write(faulty(catalog, faults), 1, makes="db.c")
    assert all(name in str(unknown.value) for name in (*NAMES, "db.c"))
    new = metadata_files(tmp_path) - before
    assert {path.parent.parent.name for path in new} == {"a", "b", "c"}
    assert numbers(catalog, *NAMES) == ([[1], [-1]] if has_happened else [[], []])
    assert catalog.table_exists("db.c") is has_happened


def test_a_commit_that_lands_after_it_was_given_up_lands_on_every_table(catalog: SqlCatalog) -> None:
    for table in catalog.load_tables(*NAMES):
        table.set_properties({"commit.status-check.num-retries": "0"})
    faults = Faults()
    ours = faulty(catalog, faults)
    faults.order("swap", Fault.LATE, loads=100)
    with pytest.raises(CommitUnknownError, match="may or may not"):
        write(ours, 1)
    assert numbers(catalog, *NAMES) == [[], []]
    ours.store.land_late()  # type: ignore[attr-defined]
    assert numbers(catalog, *NAMES) == [[1], [-1]], "its files are all there"


def test_a_late_commit_that_others_overtook_on_one_table_lands_on_none(catalog: SqlCatalog) -> None:
    for table in catalog.load_tables(*NAMES):
        table.set_properties({"commit.status-check.num-retries": "0"})
    faults = Faults()
    ours = faulty(catalog, faults)
    faults.order("swap", Fault.LATE, loads=100)
    with pytest.raises(CommitUnknownError):
        write(ours, 1)
    catalog.load_table("db.b").append(one(5))
    ours.store.land_late()  # type: ignore[attr-defined]
    assert numbers(catalog, *NAMES) == [[], [5]]


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.CRASH_AFTER, Fault.INTERRUPT, Fault.INTERRUPT_AFTER])
def test_a_process_that_ends_at_the_swap_leaves_all_tables_or_none(catalog: SqlCatalog, fault: Fault) -> None:
    faults = Faults()
    faults.order("swap", fault)
    with pytest.raises((SimulatedCrash, KeyboardInterrupt)):
        write(faulty(catalog, faults), 1)
    happened = fault in {Fault.CRASH_AFTER, Fault.INTERRUPT_AFTER}
    assert numbers(catalog, *NAMES) == ([[1], [-1]] if happened else [[], []])
    write(catalog, 2)
    assert numbers(catalog, *NAMES) == ([[1, 2], [-2, -1]] if happened else [[2], [-2]])


def test_races_that_are_always_lost_leave_no_table_changed_and_no_file(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    faults.order("swap", Fault.CONFLICT, times=None)
    before = metadata_files(tmp_path)
    with pytest.raises(CommitConflictError):
        write(faulty(catalog, faults), 1, makes="db.c")
    assert numbers(catalog, *NAMES) == [[], []]
    assert not catalog.table_exists("db.c")
    assert metadata_files(tmp_path) == before


def test_a_refusal_is_one_of_all_tables_and_leaves_no_file(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = metadata_files(tmp_path)
    denied = StoragePermissionError("permission denied for table iceberg_tables")
    monkeypatch.setattr(SqlCatalogStore, "swap_together", lambda self, changes: Refused(error=denied))
    with pytest.raises(StoragePermissionError):
        write(catalog, 1, makes="db.c")
    assert numbers(catalog, *NAMES) == [[], []]
    assert metadata_files(tmp_path) == before
