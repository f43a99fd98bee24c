"""Commits of views under faults on order: lost races, lost replies, crashes, full disks. What holds after each is said by the plain model at the end."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from icefloe import SqlCatalog
from icefloe.catalog_store.sql_store import SqlLocations
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
from icefloe.kernel.commit.outcome import Refused
from icefloe.kernel.schema.arrow_schema import to_schema
from icefloe.kernel.view.view_definition import ViewDefinition
from icefloe.kernel.view.view_metadata import view_problems
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
class Room:
    """A catalog, and a way to hold one of its views with faults on order."""

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

    def truth(self) -> View:
        return self.catalog.load_view(NAME)

    def files(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*.metadata.json")}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    catalog.create_namespace("db")
    catalog.create_view(NAME, "SELECT 0", COLUMNS, properties=QUICK)
    yield Room(catalog, tmp_path)
    catalog.store.engine.dispose()


def say(view: View, sql: str, dialect: str = "spark") -> None:
    with view.replace_version() as update:
        update.with_query(dialect, sql)


def queries(view: View) -> list[str]:
    return [version.sql_for("spark") or "" for version in view.versions]


def test_a_lost_race_is_tried_again_on_the_winner_and_leaves_no_file(room: Room) -> None:
    view = room.view()
    room.faults.order("swap", meanwhile=lambda: say(room.truth(), "SELECT 1", "trino"))
    say(view, "SELECT 2")
    found = room.truth()
    assert found.current_version().dialects == ("spark", "trino"), "the winner's dialect is kept"
    assert [entry.version_id for entry in found.history()] == [1, 2, 3]
    assert len(room.files()) == 3
    assert found == view


def test_losing_every_race_leaves_no_file_and_says_what_to_do(room: Room) -> None:
    view, before = room.view(), room.files()
    room.faults.order("swap", Fault.CONFLICT, times=None)
    with pytest.raises(CommitConflictError, match="4 attempts") as lost:
        say(view, "SELECT 1")
    assert "the view property commit.retry.num-retries" in str(lost.value)
    assert room.files() == before
    assert room.truth() == view


def test_a_lost_reply_is_looked_up(room: Room) -> None:
    view = room.view()
    room.faults.order("swap", Fault.LOST_REPLY)
    say(view, "SELECT 1")
    assert view == room.truth()
    assert queries(view) == ["SELECT 0", "SELECT 1"]
    room.faults.order("swap", Fault.UNKNOWN)
    say(view, "SELECT 2")
    assert queries(room.truth()) == ["SELECT 0", "SELECT 1", "SELECT 2"]


def test_a_property_that_others_built_on_unheard_is_unknown(room: Room) -> None:
    view = room.view()

    def others() -> None:
        for number in (7, 8):
            say(room.truth(), f"SELECT {number}")

    room.faults.order("swap", Fault.OVERTAKEN, meanwhile=others)
    with pytest.raises(CommitUnknownError, match="its log no longer shows it"), view.update_properties() as update:
        update.set("comment", "c")
    assert (room.truth().properties["comment"], queries(room.truth())) == ("c", ["SELECT 0", "SELECT 7", "SELECT 8"])
    assert len(room.files()) == 4


def test_an_unknown_outcome_deletes_nothing(room: Room) -> None:
    view = room.view()
    room.faults.order("swap", Fault.LOST_REPLY)
    room.faults.order("load", Fault.UNAVAILABLE, after=1, times=None)
    with pytest.raises(CommitUnknownError, match=r"lake\.db\.v may or may not") as unknown:
        say(view, "SELECT 1")
    assert "history" in str(unknown.value)
    assert queries(room.truth()) == ["SELECT 0", "SELECT 1"]
    assert len(room.files()) == 2


def test_a_commit_thought_lost_is_known_again_in_the_winners_view(room: Room) -> None:
    view = room.view()

    def others() -> None:
        for number in (7, 8):
            say(room.truth(), f"SELECT {number}")

    room.faults.order("swap", Fault.OVERTAKEN, meanwhile=others)
    say(view, "SELECT 1")
    assert queries(room.truth()) == ["SELECT 0", "SELECT 1", "SELECT 7", "SELECT 8"], "once, and not on top of the others"
    assert [entry.version_id for entry in room.truth().history()] == [1, 2, 3, 4]


def test_a_property_thought_lost_is_known_again_by_the_pointer(room: Room) -> None:
    view = room.view()
    room.faults.order("swap", Fault.OVERTAKEN, meanwhile=lambda: say(room.truth(), "SELECT 7"))
    with view.update_properties() as update:
        update.set("comment", "c")
    assert room.truth().metadata_location.rpartition("/")[2].startswith("00002-"), "two commits, not three"
    assert room.truth().properties["comment"] == "c"


def test_a_crash_at_any_point_leaves_the_old_view_or_the_new_one(room: Room) -> None:
    for number, (operation, fault) in enumerate(
        [
            ("write", Fault.CRASH),
            ("write", Fault.HALF),
            ("write", Fault.CRASH_AFTER),
            ("swap", Fault.CRASH),
            ("swap", Fault.CRASH_AFTER),
        ],
        start=1,
    ):
        before = queries(room.truth())
        view = room.view()
        room.faults.order(operation, fault)
        with pytest.raises(SimulatedCrash):
            say(view, f"SELECT {number}")
        room.faults.revive()
        after = [f"SELECT {number}"] if (operation, fault) == ("swap", Fault.CRASH_AFTER) else []
        assert queries(room.truth()) == before + after
        say(room.view(), f"SELECT {number}, 'again'")


def test_an_interrupt_in_the_swap_deletes_nothing(room: Room) -> None:
    view = room.view()
    room.faults.order("swap", Fault.INTERRUPT_AFTER)
    with pytest.raises(KeyboardInterrupt):
        say(view, "SELECT 1")
    assert queries(room.truth()) == ["SELECT 0", "SELECT 1"]


def test_a_refused_swap_leaves_the_view_and_no_file(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = StoragePermissionError("permission denied for table iceberg_tables")
    before, swaps = room.files(), []
    monkeypatch.setattr(SqlLocations, "swap", lambda self, identifier, *, expected, new: swaps.append(new) or Refused(error=denied))
    with pytest.raises(StoragePermissionError, match="permission denied"):
        say(room.view(), "SELECT 1")
    assert len(swaps) == 1, "it is not tried again"
    assert room.files() == before
    assert queries(room.truth()) == ["SELECT 0"]


def test_a_full_disk_leaves_the_view_as_it_was(room: Room) -> None:
    view, before = room.view(), room.files()
    room.faults.order("write", Fault.FULL)
    with pytest.raises(StorageFullError):
        say(view, "SELECT 1")
    assert (room.truth(), room.files()) == (view, before)
    say(view, "SELECT 1")
    assert queries(room.truth()) == ["SELECT 0", "SELECT 1"]


def test_a_rule_that_the_winner_made_true_refuses_the_change_and_leaves_no_file(room: Room) -> None:
    with room.truth().update_properties() as update:
        update.set("replace.drop-dialect.allowed", "true")
    say(room.truth(), "SELECT 1", "trino")
    view = room.view()
    room.faults.order("swap", meanwhile=lambda: room.truth().replace_version().without_dialect("spark").commit())
    before = room.files()
    with pytest.raises(InvalidInputError, match="no SQL in dialect spark"), view.replace_version() as change:
        change.without_dialect("spark")
    assert len(room.files()) == len(before) + 1, "the winner's, and none of ours"


def test_what_changes_nothing_on_an_old_view_may_change_the_one_there_is(room: Room) -> None:
    view = room.view()
    say(room.truth(), "SELECT 1")
    view.rollback_to_version(1)
    assert [entry.version_id for entry in room.truth().history()] == [1, 2, 1]
    location = room.truth().metadata_location
    view.rollback_to_version(1)
    assert room.truth().metadata_location == location


def test_a_view_that_is_gone_or_another_one_is_not_written_to(room: Room) -> None:
    view, other = room.view(), room.view()
    room.catalog.drop_view(NAME)
    with pytest.raises(NoSuchViewError, match=r"db\.v"):
        say(view, "SELECT 1")
    made = room.catalog.create_view(NAME, "SELECT 5", COLUMNS)
    before = room.files()
    with pytest.raises(NoSuchViewError, match="another view now"):
        say(other, "SELECT 1")
    with pytest.raises(NoSuchViewError, match="another view now"):
        other.refresh()
    assert (room.truth(), room.files()) == (made, before)


@pytest.mark.parametrize(
    ("fault", "stays"), [(Fault.UNAVAILABLE, False), (Fault.UNAVAILABLE_AFTER, True), (Fault.CRASH, False), (Fault.CRASH_AFTER, True)]
)
def test_a_name_that_fails_to_be_made_is_there_or_not(room: Room, fault: Fault, stays: bool) -> None:
    room.catalog.drop_view(NAME)
    definition = ViewDefinition(queries={"spark": "SELECT 1"}, schema=to_schema(COLUMNS), default_namespace=("db",))
    room.faults.order("create", fault)
    try:
        made = create_view_metadata(room.handle(), definition, {}, f"{room.folder}/warehouse/db/v")
    except (IcefloeError, SimulatedCrash):
        assert fault is not Fault.UNAVAILABLE_AFTER, "the name is there, so it was made"
    else:
        assert made.metadata == room.truth().metadata
    room.faults.revive()
    assert room.catalog.view_exists(NAME) == stays
    if stays:
        assert queries(room.truth()) == ["SELECT 1"]


FAULTS = st.sampled_from(
    [None, Fault.CONFLICT, Fault.LOST_REPLY, Fault.OVERTAKEN, Fault.LATE, Fault.UNKNOWN, Fault.CRASH, Fault.CRASH_AFTER]
)
STEP = st.tuples(st.integers(0, 2), st.sampled_from(["replace", "property", "rollback", "refresh"]), FAULTS)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=12))
def test_no_acknowledged_change_is_lost_whatever_goes_wrong(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, Fault | None]]
) -> None:
    folder = tmp_path_factory.mktemp("views")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace("db")
    catalog.create_view(NAME, "SELECT 0", COLUMNS, properties=QUICK)
    rooms = [Room(catalog, folder) for _ in range(3)]
    views = [room.view() for room in rooms]
    acknowledged, attempted = ["SELECT 0"], {"SELECT 0"}
    for number, (who, what, fault) in enumerate(steps, start=1):
        room, view = rooms[who], views[who]
        if fault is not None:
            room.faults.order(
                "swap",
                fault,
                meanwhile=(lambda at=number: say(catalog.load_view(NAME), f"SELECT {at}, 'other'")) if fault is Fault.OVERTAKEN else None,
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
        room.faults.revive()
        views[who] = room.view()
        check(catalog.load_view(NAME), acknowledged, attempted)
    for view in views:
        view._handle.store.land_late()  # type: ignore[attr-defined]
    check(catalog.load_view(NAME), acknowledged, attempted)
    catalog.store.engine.dispose()


def act(view: View, what: str, sql: str, attempted: set[str]) -> None:
    if what == "replace":
        attempted.add(sql)
        say(view, sql)
    elif what == "property":
        with view.update_properties() as update:
            update.set("comment", sql)
    elif what == "rollback":
        view.rollback_to_version(1)
    else:
        view.refresh()


def check(found: View, acknowledged: list[str], attempted: set[str]) -> None:
    """Every acknowledged version is there once, nothing that nobody asked for, and the metadata keeps the format's rules."""
    shown = queries(found)
    assert list(view_problems(found.metadata)) == []
    assert len(shown) == len(set(shown))
    assert set(acknowledged) <= set(shown) <= attempted
    assert [version.version_id for version in found.versions] == list(range(1, len(shown) + 1))
    log = found.history()
    assert log[-1].version_id == found.current_version().version_id
    assert all(one.version_id != two.version_id for one, two in pairwise(log))
    assert [entry.timestamp_ms for entry in log] == sorted(entry.timestamp_ms for entry in log)
