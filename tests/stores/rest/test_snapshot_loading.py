"""Tables that are loaded with the snapshots of their branches and tags: fewer bytes where no others are needed, and all snapshots where they are."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stores.rest.own_server import own_server

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import InvalidPropertyError, NoSuchTableError
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.table import Table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
COMMITS = 12


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes of the loads that are requested."""
    requested: list[str] = []
    request = RestConnection.request

    def recorded(self: Any, endpoint: Any, *arguments: Any, **options: Any) -> Any:
        if endpoint.name == "LOAD_TABLE":
            requested.append(options["query"]["snapshots"])
        return request(self, endpoint, *arguments, **options)

    monkeypatch.setattr(RestConnection, "request", recorded)
    return requested


@pytest.fixture
def catalogs(tmp_path: Path) -> Iterator[tuple[RestCatalog, RestCatalog]]:
    """A catalog that loads all snapshots, and one that loads those of refs, of the same server; with a table of many snapshots."""
    with own_server(tmp_path) as address:
        options = {"uri": address, "warehouse": str(tmp_path / "lake")}
        whole, part = RestCatalog("whole", **options), RestCatalog("part", **options, **{"snapshot-loading-mode": "refs"})
        whole.create_namespace("db")
        table = whole.create_table("db.t", ROWS.schema)
        for _ in range(COMMITS):
            table.append(ROWS)
        with table.manage_snapshots() as refs:
            refs.create_tag(table.snapshots()[3].snapshot_id, "third")
        yield whole, part
        whole.close()
        part.close()


def test_a_scan_needs_no_other_snapshots(catalogs: tuple[RestCatalog, RestCatalog], loads: list[str]) -> None:
    table = catalogs[1].load_table("db.t")
    assert table.scan("id > 1").to_arrow().num_rows == 2 * COMMITS
    assert table.scan().use_ref("third").count() == 3 * 4
    assert table.current_snapshot() is not None
    assert sorted(table.refs()) == ["main", "third"]
    assert loads == ["refs"]


def test_a_caller_that_needs_the_history_gets_all_of_it(catalogs: tuple[RestCatalog, RestCatalog], loads: list[str]) -> None:
    whole, table = catalogs[0].load_table("db.t"), catalogs[1].load_table("db.t")
    loads.clear()
    old = whole.snapshots()[1].snapshot_id
    assert table.scan(snapshot_id=old).count() == 6
    assert loads == ["all"]
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [snapshot.snapshot_id for snapshot in whole.snapshots()]
    assert len(table.history()) == COMMITS
    assert table.metadata == whole.metadata
    assert loads == ["all"], "the history is loaded once"


def test_a_history_that_is_loaded_later_has_no_newer_snapshots(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    whole, table = catalogs[0].load_table("db.t"), catalogs[1].load_table("db.t")
    expected = [snapshot.snapshot_id for snapshot in whole.snapshots()]
    whole.append(ROWS)
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == expected
    assert table.scan().count() == 3 * COMMITS


def test_snapshots_that_were_expired_since_stay_known_where_they_were_loaded(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    whole, table = catalogs[0].load_table("db.t"), catalogs[1].load_table("db.t")
    with whole.manage_snapshots() as refs:
        refs.remove_tag("third")
    whole.expire_snapshots(2**53, retain_last=1)
    known = {snapshot.snapshot_id for snapshot in table.snapshots()}
    assert known == {ref.snapshot_id for ref in table.refs().values()}


def test_changes_are_made_on_the_whole_history(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    table = catalogs[1].load_table("db.t")
    table.append(ROWS)
    table.delete("id = 1")
    assert len(table.snapshots()) == COMMITS + 2
    assert len(catalogs[0].load_table("db.t").snapshots()) == COMMITS + 2
    assert table.scan().count() == 2 * (COMMITS + 1)


def test_expiry_sees_every_snapshot(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    table = catalogs[1].load_table("db.t")
    table.expire_snapshots(2**53, retain_last=1)
    again = catalogs[0].load_table("db.t")
    assert len(again.snapshots()) == 2  # the newest, and that of the tag
    assert again.scan().count() == 3 * COMMITS
    assert again.scan().use_ref("third").count() == 12


def test_a_pickled_table_has_the_whole_history(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    copy: Table = pickle.loads(pickle.dumps(catalogs[1].load_table("db.t")))
    assert len(copy.snapshots()) == COMMITS


def test_a_second_load_is_an_answer_without_a_body(catalogs: tuple[RestCatalog, RestCatalog], monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[tuple[str, int, bool]] = []
    request = RestConnection.request

    def recorded(self: Any, endpoint: Any, *arguments: Any, **options: Any) -> Any:
        reply = request(self, endpoint, *arguments, **options)
        replies.append((options["query"]["snapshots"], reply.status, bool(reply.content)))
        return reply

    monkeypatch.setattr(RestConnection, "request", recorded)
    first, second = (catalogs[1].load_table("db.t") for _ in range(2))
    assert replies == [("refs", 200, True), ("refs", 304, False)]
    assert first.metadata.current_snapshot() == second.metadata.current_snapshot()
    replies.clear()
    assert len(first.snapshots()) == len(second.snapshots()) == COMMITS
    assert replies == [("all", 200, True)], "both have the history that was loaded once"


def test_another_table_of_the_name_is_not_taken_for_the_history(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    table = catalogs[1].load_table("db.t")
    catalogs[0].drop_table("db.t")
    catalogs[0].create_table("db.t", ROWS.schema)
    with pytest.raises(NoSuchTableError, match="dropped or replaced"):
        table.snapshots()


def test_a_mode_is_all_or_refs(catalogs: tuple[RestCatalog, RestCatalog]) -> None:
    catalog = RestCatalog("x", uri=catalogs[0].properties["uri"], **{"snapshot-loading-mode": "some"})
    with pytest.raises(InvalidPropertyError, match="snapshot-loading-mode"):
        catalog.load_table("db.t")
