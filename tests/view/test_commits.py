"""Commits of views under injected faults: conflicts, lost replies, crashes, full disks. A plain model at the end checks what must be true after each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.repetitions import examples

from icefloe import SqlCatalog
from icefloe.commit.outcome import Refused
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    IcefloeError,
    InvalidInputError,
    NoSuchViewError,
    StorageFullError,
    StoragePermissionError,
)
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.schema.arrow_schema import to_schema
from icefloe.spec.view.view_definition import ViewDefinition
from icefloe.spec.view.view_metadata import view_problems
from icefloe.stores.sql_store import SqlLocations
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore, SimulatedCrash
from icefloe.view.view import View
from icefloe.view.view_handle import ViewHandle, create_view_metadata, load_view_metadata

COLUMNS = pa.schema([("n", pa.int64())])
NAME = ("db", "v")
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "2",
    "commit.retry.num-retries": "3",
    "commit.status-check.min-wait-ms": "1",
    "commit.status-check.num-retries": "1",
    "version.history.num-entries": "1000",
}


@dataclass
class FaultyLake:
    """A catalog, and one of its views on a store and storage that raise the ordered faults."""

    catalog: SqlCatalog
    folder: Path
    faults: Faults = field(default_factory=Faults)

    def handle(self) -> ViewHandle:
        return ViewHandle(
            identifier=NAME,
            store=FaultyStore(self.catalog.store.views(), self.faults),  # type: ignore[arg-type]
            io=FaultyFileIO(LocalFileIO(), self.faults),
        )

    def view(self) -> View:
        return View(self.handle(), load_view_metadata(self.handle()))

    def stored_view(self) -> View:
        return self.catalog.load_view(NAME)

    def files(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*.metadata.json")}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[FaultyLake]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    catalog.create_namespace("db")
    catalog.create_view(NAME, "SELECT 0", COLUMNS, properties=QUICK)
    yield FaultyLake(catalog, tmp_path)
    catalog.store.engine.dispose()


def replace_query(view: View, sql: str, dialect: str = "spark") -> None:
    with view.replace_version() as update:
        update.with_query(dialect, sql)


def queries(view: View) -> list[str]:
    return [version.sql_for("spark") or "" for version in view.versions]


def test_a_conflict_is_retried_on_the_committed_view_and_leaves_no_file(lake: FaultyLake) -> None:
    view = lake.view()
    lake.faults.order("commit", meanwhile=lambda: replace_query(lake.stored_view(), "SELECT 1", "trino"))
    replace_query(view, "SELECT 2")
    stored_view = lake.stored_view()
    assert stored_view.current_version().dialects == ("spark", "trino"), "the concurrently committed dialect is kept"
    assert [entry.version_id for entry in stored_view.history()] == [1, 2, 3]
    assert len(lake.files()) == 3
    assert stored_view == view


def test_a_commit_that_always_conflicts_leaves_no_file_and_its_error_names_the_property(lake: FaultyLake) -> None:
    view, before = lake.view(), lake.files()
    lake.faults.order("commit", Fault.CONFLICT, times=None)
    with pytest.raises(CommitConflictError, match="4 attempts") as lost:
        replace_query(view, "SELECT 1")
    assert "the view property commit.retry.num-retries" in str(lost.value)
    assert lake.files() == before
    assert lake.stored_view() == view


def test_a_lost_reply_is_resolved_by_a_commit_status_check(lake: FaultyLake) -> None:
    view = lake.view()
    lake.faults.order("commit", Fault.LOST_REPLY)
    replace_query(view, "SELECT 1")
    assert view == lake.stored_view()
    assert queries(view) == ["SELECT 0", "SELECT 1"]
    lake.faults.order("commit", Fault.UNKNOWN)
    replace_query(view, "SELECT 2")
    assert queries(lake.stored_view()) == ["SELECT 0", "SELECT 1", "SELECT 2"]


def test_a_property_change_that_several_commits_follow_is_an_unknown_commit_state(lake: FaultyLake) -> None:
    view = lake.view()

    def others() -> None:
        for number in (7, 8):
            replace_query(lake.stored_view(), f"SELECT {number}")

    lake.faults.order("commit", Fault.OVERTAKEN, meanwhile=others)
    with pytest.raises(CommitUnknownError, match="its log no longer shows it"), view.update_properties() as update:
        update.set("comment", "c")
    assert (lake.stored_view().properties["comment"], queries(lake.stored_view())) == ("c", ["SELECT 0", "SELECT 7", "SELECT 8"])
    assert len(lake.files()) == 4


def test_an_unknown_commit_state_deletes_nothing(lake: FaultyLake) -> None:
    view = lake.view()
    lake.faults.order("commit", Fault.LOST_REPLY)
    lake.faults.order("load", Fault.UNAVAILABLE, after=1, times=None)
    with pytest.raises(CommitUnknownError, match=r"lake\.db\.v may or may not") as unknown:
        replace_query(view, "SELECT 1")
    assert "history" in str(unknown.value)
    assert queries(lake.stored_view()) == ["SELECT 0", "SELECT 1"]
    assert len(lake.files()) == 2


def test_an_overtaken_commit_is_found_in_the_versions_of_the_current_view(lake: FaultyLake) -> None:
    view = lake.view()

    def others() -> None:
        for number in (7, 8):
            replace_query(lake.stored_view(), f"SELECT {number}")

    lake.faults.order("commit", Fault.OVERTAKEN, meanwhile=others)
    replace_query(view, "SELECT 1")
    assert queries(lake.stored_view()) == ["SELECT 0", "SELECT 1", "SELECT 7", "SELECT 8"], "committed once, and before the others"
    assert [entry.version_id for entry in lake.stored_view().history()] == [1, 2, 3, 4]


def test_an_overtaken_property_change_is_found_by_its_metadata_location(lake: FaultyLake) -> None:
    view = lake.view()
    lake.faults.order("commit", Fault.OVERTAKEN, meanwhile=lambda: replace_query(lake.stored_view(), "SELECT 7"))
    with view.update_properties() as update:
        update.set("comment", "c")
    assert lake.stored_view().metadata_location.rpartition("/")[2].startswith("00002-"), "two commits, not three"
    assert lake.stored_view().properties["comment"] == "c"


def test_a_crash_at_any_point_leaves_the_old_view_or_the_new_view(lake: FaultyLake) -> None:
    for number, (operation, fault) in enumerate(
        [
            ("write", Fault.CRASH),
            ("write", Fault.HALF),
            ("write", Fault.CRASH_AFTER),
            ("commit", Fault.CRASH),
            ("commit", Fault.CRASH_AFTER),
        ],
        start=1,
    ):
        before = queries(lake.stored_view())
        view = lake.view()
        lake.faults.order(operation, fault)
        with pytest.raises(SimulatedCrash):
            replace_query(view, f"SELECT {number}")
        lake.faults.revive()
        after = [f"SELECT {number}"] if (operation, fault) == ("commit", Fault.CRASH_AFTER) else []
        assert queries(lake.stored_view()) == before + after
        replace_query(lake.view(), f"SELECT {number}, 'again'")


def test_an_interrupt_during_the_compare_and_swap_deletes_nothing(lake: FaultyLake) -> None:
    view = lake.view()
    lake.faults.order("commit", Fault.INTERRUPT_AFTER)
    with pytest.raises(KeyboardInterrupt):
        replace_query(view, "SELECT 1")
    assert queries(lake.stored_view()) == ["SELECT 0", "SELECT 1"]


def test_a_refused_compare_and_swap_leaves_the_view_unchanged_and_no_file(lake: FaultyLake, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = StoragePermissionError("permission denied for table iceberg_tables")
    before, swaps = lake.files(), []
    monkeypatch.setattr(SqlLocations, "commit", lambda self, requests: swaps.append(requests[0].new) or Refused(error=denied))
    with pytest.raises(StoragePermissionError, match="permission denied"):
        replace_query(lake.view(), "SELECT 1")
    assert len(swaps) == 1, "it is not retried"
    assert lake.files() == before
    assert queries(lake.stored_view()) == ["SELECT 0"]


def test_a_full_disk_leaves_the_view_unchanged(lake: FaultyLake) -> None:
    view, before = lake.view(), lake.files()
    lake.faults.order("write", Fault.FULL)
    with pytest.raises(StorageFullError):
        replace_query(view, "SELECT 1")
    assert (lake.stored_view(), lake.files()) == (view, before)
    replace_query(view, "SELECT 1")
    assert queries(lake.stored_view()) == ["SELECT 0", "SELECT 1"]


def test_a_change_that_a_concurrent_commit_made_invalid_is_refused_and_leaves_no_file(lake: FaultyLake) -> None:
    with lake.stored_view().update_properties() as update:
        update.set("replace.drop-dialect.allowed", "true")
    replace_query(lake.stored_view(), "SELECT 1", "trino")
    view = lake.view()
    lake.faults.order("commit", meanwhile=lambda: lake.stored_view().replace_version().without_dialect("spark").commit())
    before = lake.files()
    with pytest.raises(InvalidInputError, match="no SQL in dialect spark"), view.replace_version() as change:
        change.without_dialect("spark")
    assert len(lake.files()) == len(before) + 1, "the file of the concurrent commit, and none of the refused one"


def test_a_rollback_that_changes_nothing_on_a_stale_view_is_applied_to_the_current_view(lake: FaultyLake) -> None:
    view = lake.view()
    replace_query(lake.stored_view(), "SELECT 1")
    view.rollback_to_version(1)
    assert [entry.version_id for entry in lake.stored_view().history()] == [1, 2, 1]
    location = lake.stored_view().metadata_location
    view.rollback_to_version(1)
    assert lake.stored_view().metadata_location == location


def test_a_view_that_was_dropped_or_recreated_is_not_written_to(lake: FaultyLake) -> None:
    view, other = lake.view(), lake.view()
    lake.catalog.drop_view(NAME)
    with pytest.raises(NoSuchViewError, match=r"db\.v"):
        replace_query(view, "SELECT 1")
    new_view = lake.catalog.create_view(NAME, "SELECT 5", COLUMNS)
    before = lake.files()
    with pytest.raises(NoSuchViewError, match="another view now"):
        replace_query(other, "SELECT 1")
    with pytest.raises(NoSuchViewError, match="another view now"):
        other.refresh()
    assert (lake.stored_view(), lake.files()) == (new_view, before)


@pytest.mark.parametrize(
    ("fault", "stays"), [(Fault.UNAVAILABLE, False), (Fault.UNAVAILABLE_AFTER, True), (Fault.CRASH, False), (Fault.CRASH_AFTER, True)]
)
def test_a_view_whose_creation_fails_exists_or_does_not(lake: FaultyLake, fault: Fault, stays: bool) -> None:
    lake.catalog.drop_view(NAME)
    definition = ViewDefinition(queries={"spark": "SELECT 1"}, schema=to_schema(COLUMNS), default_namespace=("db",))
    lake.faults.order("create", fault)
    try:
        made = create_view_metadata(lake.handle(), definition, {}, f"{lake.folder}/warehouse/db/v")
    except (IcefloeError, SimulatedCrash):
        assert fault is not Fault.UNAVAILABLE_AFTER, "the view exists, so its creation succeeded"
    else:
        assert made.metadata == lake.stored_view().metadata
    lake.faults.revive()
    assert lake.catalog.view_exists(NAME) == stays
    if stays:
        assert queries(lake.stored_view()) == ["SELECT 1"]


FAULTS = st.sampled_from(
    [None, Fault.CONFLICT, Fault.LOST_REPLY, Fault.OVERTAKEN, Fault.LATE, Fault.UNKNOWN, Fault.CRASH, Fault.CRASH_AFTER]
)
STEP = st.tuples(st.integers(0, 2), st.sampled_from(["replace", "property", "rollback", "refresh"]), FAULTS)


@settings(max_examples=examples(40))
@given(st.lists(STEP, max_size=12))
def test_no_acknowledged_change_is_lost_whatever_fails(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, Fault | None]]
) -> None:
    folder = tmp_path_factory.mktemp("views")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace("db")
    catalog.create_view(NAME, "SELECT 0", COLUMNS, properties=QUICK)
    lakes = [FaultyLake(catalog, folder) for _ in range(3)]
    views = [lake.view() for lake in lakes]
    acknowledged, attempted = ["SELECT 0"], {"SELECT 0"}
    for number, (who, what, fault) in enumerate(steps, start=1):
        lake, view = lakes[who], views[who]
        if fault is not None:
            lake.faults.order(
                "commit",
                fault,
                meanwhile=(lambda at=number: replace_query(catalog.load_view(NAME), f"SELECT {at}, 'other'"))
                if fault is Fault.OVERTAKEN
                else None,
            )
        sql = f"SELECT {number}"
        try:
            act(view, what, sql, attempted)
        except (CommitConflictError, CommitUnknownError, SimulatedCrash):
            pass
        else:
            if what == "replace":
                acknowledged.append(sql)
        if fault is Fault.OVERTAKEN:
            attempted.add(f"{sql}, 'other'")
        lake.faults.revive()
        views[who] = lake.view()
        check(catalog.load_view(NAME), acknowledged, attempted)
    for view in views:
        view._handle.store.land_late()  # type: ignore[attr-defined]
    check(catalog.load_view(NAME), acknowledged, attempted)
    catalog.store.engine.dispose()


def act(view: View, what: str, sql: str, attempted: set[str]) -> None:
    if what == "replace":
        attempted.add(sql)
        replace_query(view, sql)
    elif what == "property":
        with view.update_properties() as update:
            update.set("comment", sql)
    elif what == "rollback":
        view.rollback_to_version(1)
    else:
        view.refresh()


def check(view: View, acknowledged: list[str], attempted: set[str]) -> None:
    """Check that every acknowledged version exists once, that every version was attempted, and that the metadata is valid."""
    committed_queries = queries(view)
    assert list(view_problems(view.metadata)) == []
    assert len(committed_queries) == len(set(committed_queries))
    assert set(acknowledged) <= set(committed_queries) <= attempted
    assert [version.version_id for version in view.versions] == list(range(1, len(committed_queries) + 1))
    log = view.history()
    assert log[-1].version_id == view.current_version().version_id
    assert all(entry.version_id != following.version_id for entry, following in pairwise(log))
    assert [entry.timestamp_ms for entry in log] == sorted(entry.timestamp_ms for entry in log)
