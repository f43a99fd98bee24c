"""Faults are injected into the calls that they are ordered for, as `Fault` describes, and into no others."""

import pickle
from pathlib import Path

import pytest

from icefloe.commit.outcome import Committed, Conflicted, Unknown
from icefloe.errors import FileAlreadyExistsError, InvalidInputError, StorageFullError, StoragePermissionError, StorageUnavailableError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.sql_store import SqlCatalogStore
from icefloe.testing.fault_injection import Event, Fault, Faults, FaultyFileIO, FaultyStore, SimulatedCrash

NAME = ("db", "t")


@pytest.fixture
def faults() -> Faults:
    return Faults(slow_s=0)


@pytest.fixture
def inner() -> SqlCatalogStore:
    store = SqlCatalogStore("lake", "sqlite://")
    store.create_namespace(("db",), {})
    store.create(NAME, "memory://v0")
    return store


def location_in(store: SqlCatalogStore) -> str:
    return store.load(NAME).metadata_location


def test_without_orders_every_operation_works_and_is_logged(inner: SqlCatalogStore, faults: Faults) -> None:
    swapped: list[str] = []
    store = FaultyStore(inner, faults, on_commit=lambda name, new: swapped.append(new))
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")]) == Committed()
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v2")]) == Conflicted(
        current_location="memory://v1"
    )
    assert swapped == ["memory://v1"]
    assert store.list_tables(("db",)) == [NAME]
    assert [event.operation for event in faults.log] == ["commit", "commit", "list_tables"]


@pytest.mark.parametrize(("fault", "swapped"), [(Fault.LOST_REPLY, True), (Fault.UNKNOWN, False)])
def test_the_outcome_is_unknown_with_and_without_the_swap(inner: SqlCatalogStore, faults: Faults, fault: Fault, swapped: bool) -> None:
    store = FaultyStore(inner, faults)
    faults.order("commit", fault)
    assert isinstance(store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")]), Unknown)
    assert location_in(inner) == ("memory://v1" if swapped else "memory://v0")
    assert faults.log == [Event(operation="commit", target="db.t memory://v1", fault=fault, done=swapped)]


def test_a_late_swap_happens_after_the_metadata_location_was_read(inner: SqlCatalogStore, faults: Faults) -> None:
    store = FaultyStore(inner, faults)
    faults.order("commit", Fault.LATE, loads=2)
    assert isinstance(store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")]), Unknown)
    assert [store.load(NAME).metadata_location for _ in range(3)] == ["memory://v0", "memory://v0", "memory://v1"]
    faults.order("commit", Fault.LATE, loads=9)
    store.commit([CommitRequest(identifier=NAME, expected="memory://v1", new="memory://v2")])
    store.land_late()
    assert location_in(inner) == "memory://v2"


def test_an_ordered_conflict_swaps_nothing(inner: SqlCatalogStore, faults: Faults) -> None:
    store = FaultyStore(inner, faults)
    faults.order("commit", Fault.CONFLICT, after=1, times=2)
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")]) == Committed()
    for _ in range(2):
        assert store.commit([CommitRequest(identifier=NAME, expected="memory://v1", new="memory://v2")]) == Conflicted(
            current_location="memory://v1"
        )
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v1", new="memory://v2")]) == Committed()


def test_an_overtaken_swap_is_a_conflict_with_the_swap_after_it(inner: SqlCatalogStore, faults: Faults) -> None:
    store = FaultyStore(inner, faults)
    faults.order(
        "commit",
        Fault.OVERTAKEN,
        meanwhile=lambda: inner.commit([CommitRequest(identifier=NAME, expected="memory://v1", new="memory://v2")]),
    )
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")]) == Conflicted(
        current_location="memory://v2", is_reply_lost=True
    )
    faults.order("commit", Fault.OVERTAKEN)  # no other swap followed, so that this one is found
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v2", new="memory://v3")]) == Committed()


def test_another_writers_step_runs_just_before_an_operation(inner: SqlCatalogStore, faults: Faults) -> None:
    store = FaultyStore(inner, faults)
    faults.order("commit", meanwhile=lambda: inner.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v2")]))
    assert store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")]) == Conflicted(
        current_location="memory://v2"
    )


@pytest.mark.parametrize(("fault", "done"), [(Fault.CRASH, False), (Fault.CRASH_AFTER, True)])
def test_after_a_crash_every_operation_fails_until_the_process_is_restarted(
    inner: SqlCatalogStore, faults: Faults, fault: Fault, done: bool
) -> None:
    store, io = FaultyStore(inner, faults), FaultyFileIO(MemoryFileIO(), faults)
    faults.order("commit", fault)
    with pytest.raises(SimulatedCrash):
        store.commit([CommitRequest(identifier=NAME, expected="memory://v0", new="memory://v1")])
    for operation in (lambda: store.load(NAME), lambda: io.delete("memory://faults/x"), lambda: io.read("memory://faults/x")):
        with pytest.raises(SimulatedCrash):
            operation()
    faults.revive()
    assert store.load(NAME).metadata_location == ("memory://v1" if done else "memory://v0")


@pytest.mark.parametrize(
    ("fault", "error", "done"),
    [
        (Fault.UNAVAILABLE, StorageUnavailableError, False),
        (Fault.UNAVAILABLE_AFTER, StorageUnavailableError, True),
        (Fault.FULL, StorageFullError, False),
        (Fault.DENIED, StoragePermissionError, False),
        (Fault.INTERRUPT, KeyboardInterrupt, False),
        (Fault.INTERRUPT_AFTER, KeyboardInterrupt, True),
        (Fault.HALF, SimulatedCrash, False),
    ],
)
def test_a_failed_write_has_or_has_not_written_the_file_depending_on_the_fault(
    tmp_path: Path, faults: Faults, fault: Fault, error: type[BaseException], done: bool
) -> None:
    io = FaultyFileIO(LocalFileIO(), faults)
    faults.order("write", fault, matching="b")
    io.write(f"{tmp_path}/a", b"1")
    with pytest.raises(error):
        io.write(f"{tmp_path}/b", b"2")
    assert (tmp_path / "a").exists()
    assert (tmp_path / "b").exists() == done
    assert [event.done for event in faults.log] == [True, done]


def test_a_real_error_is_logged_as_not_done(faults: Faults) -> None:
    io = FaultyFileIO(MemoryFileIO(), faults)
    io.write("memory://faults/twice", b"1", overwrite=True)
    with pytest.raises(FileAlreadyExistsError):
        io.write("memory://faults/twice", b"2")
    assert [event.done for event in faults.log] == [True, False]


@pytest.mark.parametrize(("fault", "error"), [(Fault.HALF, SimulatedCrash), (Fault.FULL, OSError)])
def test_a_stream_fails_after_half_of_its_bytes(tmp_path: Path, faults: Faults, fault: Fault, error: type[BaseException]) -> None:
    io = FaultyFileIO(LocalFileIO(), faults)
    faults.order("open_output", fault)
    stream = io.open_output(f"{tmp_path}/a")
    with pytest.raises(error):
        stream.write(b"0123456789")
    stream.close()
    assert (tmp_path / "a").read_bytes() == b"01234"


def test_reads_fail_after_a_number_of_calls(faults: Faults) -> None:
    io = FaultyFileIO(MemoryFileIO(), faults)
    io.write("memory://faults/late", b"1", overwrite=True)
    faults.order("read", Fault.UNAVAILABLE, after=2, times=None)
    assert [io.read("memory://faults/late") for _ in range(2)] == [b"1", b"1"]
    for _ in range(3):
        with pytest.raises(StorageUnavailableError):
            io.read("memory://faults/late")
    faults.clear_orders()
    assert (io.read("memory://faults/late"), io.exists("memory://faults/late"), io.size("memory://faults/late")) == (b"1", True, 1)


def test_slow_storage_returns_correct_results(faults: Faults) -> None:
    io = FaultyFileIO(MemoryFileIO(), faults)
    faults.order("write", Fault.SLOW)
    io.write("memory://faults/slow", b"1", overwrite=True)
    assert io.open_input("memory://faults/slow").read() == b"1"


@pytest.mark.parametrize(("operation", "fault"), [("read", Fault.CONFLICT), ("commit", Fault.HALF), ("load", Fault.LATE)])
def test_a_fault_of_another_operation_is_refused(faults: Faults, operation: str, fault: Fault) -> None:
    with pytest.raises(InvalidInputError, match=fault.value):
        faults.order(operation, fault)


def test_a_faulty_storage_can_be_pickled(faults: Faults) -> None:
    faults.order("read", Fault.DENIED)
    carried = pickle.loads(pickle.dumps(FaultyFileIO(MemoryFileIO(), faults)))
    with pytest.raises(StoragePermissionError):
        carried.read("memory://faults/any")
