"""Commits to several tables whose reply is lost, whose state stays unknown, or whose process dies: all tables change or none does."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.combinations import combinations

from icefloe import SqlCatalog
from icefloe.catalog.catalog import Catalog
from icefloe.commit.outcome import Refused
from icefloe.errors import CommitConflictError, CommitUnknownError, StoragePermissionError
from icefloe.stores.sql_store import SqlCatalogStore
from icefloe.testing.fault_injection import Fault, Faults, FaultyStore, SimulatedCrash

SCHEMA = pa.schema([("n", pa.int64())])
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "2",
    "commit.retry.num-retries": "3",
    "commit.status-check.min-wait-ms": "1",
}
NAMES = ("db.a", "db.b")


def row_of(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    for name in NAMES:
        catalog.create_table(name, SCHEMA, properties=QUICK)
    return catalog


def faulty(catalog: Catalog, faults: Faults) -> Catalog:
    """Return the same catalog on a store that raises the ordered faults."""
    return Catalog(catalog.name, FaultyStore(catalog.store, faults), catalog.properties)


def numbers(catalog: Catalog, *names: str) -> list[list[int]]:
    return [sorted(table.scan().to_arrow()["n"].to_pylist()) for table in catalog.load_tables(*names)]


def metadata_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.parent.name == "metadata"}


def write(catalog: Catalog, number: int, *, creates: str | None = None) -> None:
    """Append to both tables in one commit, and create the table `creates` in it where it is given."""
    with catalog.transaction() as tx:
        first, second = tx.load_tables(*NAMES)
        first.append(row_of(number))
        second.append(row_of(-number))
        if creates is not None:
            tx.create_table(creates, SCHEMA, properties=QUICK).append(row_of(number))


@pytest.mark.parametrize(
    ("fault", "creates"),
    combinations(
        [Fault.LOST_REPLY, Fault.LATE, Fault.UNKNOWN, Fault.CONFLICT, Fault.OVERTAKEN, Fault.UNAVAILABLE_AFTER, Fault.UNAVAILABLE],
        [None, "db.c"],
    ),
)
def test_a_commit_whose_reply_is_lost_is_applied_once_to_every_table(
    catalog: SqlCatalog, tmp_path: Path, fault: Fault, creates: str | None
) -> None:
    faults = Faults()
    others = (lambda: write(catalog, 7)) if fault is Fault.OVERTAKEN else None
    faults.order("commit", fault, meanwhile=others)
    write(faulty(catalog, faults), 1, creates=creates)
    other_numbers = [7] if others else []
    assert numbers(catalog, *NAMES) == [[1, *other_numbers], [*(-number for number in other_numbers), -1]]
    if creates:
        assert numbers(catalog, creates) == [[1]]
    swaps = [event for event in faults.log if event.operation == "commit"]
    assert sum(event.done for event in swaps) + (fault is Fault.LATE) == 1, "it is made once"
    for table in catalog.load_tables(*NAMES):
        lists = {snapshot.manifest_list for snapshot in table.snapshots()}
        assert {str(path) for path in Path(table.location()).rglob("snap-*.avro")} == lists, "nothing of a failed attempt is left"


@pytest.mark.parametrize("has_happened", [True, False])
def test_an_unknown_commit_state_is_reported_for_all_tables_and_deletes_no_file(
    catalog: SqlCatalog, tmp_path: Path, has_happened: bool
) -> None:
    for table in catalog.load_tables(*NAMES):
        table.set_properties({"commit.status-check.num-retries": "1"})
    faults = Faults()
    faults.order("commit", Fault.LOST_REPLY if has_happened else Fault.UNKNOWN)
    faults.order("load", Fault.UNAVAILABLE, after=2, times=None)  # the first two come before the commit
    before = metadata_files(tmp_path)
    with pytest.raises(CommitUnknownError) as unknown:
        write(faulty(catalog, faults), 1, creates="db.c")
    assert all(name in str(unknown.value) for name in (*NAMES, "db.c"))
    new = metadata_files(tmp_path) - before
    assert {path.parent.parent.name for path in new} == {"a", "b", "c"}
    assert numbers(catalog, *NAMES) == ([[1], [-1]] if has_happened else [[], []])
    assert catalog.table_exists("db.c") is has_happened


def test_a_commit_that_is_applied_after_the_client_gave_up_changes_every_table(catalog: SqlCatalog) -> None:
    for table in catalog.load_tables(*NAMES):
        table.set_properties({"commit.status-check.num-retries": "0"})
    faults = Faults()
    faulty_catalog = faulty(catalog, faults)
    faults.order("commit", Fault.LATE, loads=100)
    with pytest.raises(CommitUnknownError, match="may or may not"):
        write(faulty_catalog, 1)
    assert numbers(catalog, *NAMES) == [[], []]
    faulty_catalog.store.land_late()  # type: ignore[attr-defined]
    assert numbers(catalog, *NAMES) == [[1], [-1]], "its files are all there"


def test_a_late_commit_that_conflicts_on_one_table_changes_none(catalog: SqlCatalog) -> None:
    for table in catalog.load_tables(*NAMES):
        table.set_properties({"commit.status-check.num-retries": "0"})
    faults = Faults()
    faulty_catalog = faulty(catalog, faults)
    faults.order("commit", Fault.LATE, loads=100)
    with pytest.raises(CommitUnknownError):
        write(faulty_catalog, 1)
    catalog.load_table("db.b").append(row_of(5))
    faulty_catalog.store.land_late()  # type: ignore[attr-defined]
    assert numbers(catalog, *NAMES) == [[], [5]]


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.CRASH_AFTER, Fault.INTERRUPT, Fault.INTERRUPT_AFTER])
def test_a_process_that_dies_at_the_compare_and_swap_changes_all_tables_or_none(catalog: SqlCatalog, fault: Fault) -> None:
    faults = Faults()
    faults.order("commit", fault)
    with pytest.raises((SimulatedCrash, KeyboardInterrupt)):
        write(faulty(catalog, faults), 1)
    happened = fault in {Fault.CRASH_AFTER, Fault.INTERRUPT_AFTER}
    assert numbers(catalog, *NAMES) == ([[1], [-1]] if happened else [[], []])
    write(catalog, 2)
    assert numbers(catalog, *NAMES) == ([[1, 2], [-2, -1]] if happened else [[2], [-2]])


def test_a_commit_that_always_conflicts_changes_no_table_and_leaves_no_file(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    faults.order("commit", Fault.CONFLICT, times=None)
    before = metadata_files(tmp_path)
    with pytest.raises(CommitConflictError):
        write(faulty(catalog, faults), 1, creates="db.c")
    assert numbers(catalog, *NAMES) == [[], []]
    assert not catalog.table_exists("db.c")
    assert metadata_files(tmp_path) == before


def test_a_refusal_for_one_table_changes_no_table_and_leaves_no_file(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = metadata_files(tmp_path)
    denied = StoragePermissionError("permission denied for table iceberg_tables")
    monkeypatch.setattr(SqlCatalogStore, "commit", lambda self, requests: Refused(error=denied))
    with pytest.raises(StoragePermissionError):
        write(catalog, 1, creates="db.c")
    assert numbers(catalog, *NAMES) == [[], []]
    assert metadata_files(tmp_path) == before
