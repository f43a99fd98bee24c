"""Epochs of streams are committed once: after crashes, expiry, rollbacks, on branches, beside other writers, and after Java's writer."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import InvalidPropertyError, SqlCatalog
from icefloe.commit import stream_epoch
from icefloe.commit.stream_epoch import PREFIX, StreamEpoch, last_epoch
from icefloe.errors import InvalidInputError
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_history import ancestors
from icefloe.table import Table
from icefloe.table.epoch_changes import EpochChanges, OutputMode
from icefloe.testing.fault_injection import Fault, Faults, FaultyStore

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.create_table("db.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"})
    return catalog


def write(
    table: Table,
    epoch: int,
    new: pa.Table,
    *,
    mode: OutputMode = OutputMode.APPEND,
    query_id: str = "q",
    branch: str = "main",
    searches_history: bool = False,
) -> bool:
    """Write an epoch, and return whether it was committed."""
    mark = StreamEpoch(query_id=query_id, epoch=epoch, branch=branch)
    changes = EpochChanges(table, mark, mode, searches_history=searches_history)
    if mode is OutputMode.APPEND:
        changes.append(new, mark.summary, branch)
    elif mode is OutputMode.COMPLETE:
        changes.overwrite(new, snapshot_properties=mark.summary, branch=branch)
    else:
        changes.upsert(new, ["n"], branch=branch, snapshot_properties=mark.summary)
    return changes.is_committed


def numbers(table: Table, branch: str | None = None) -> list[int]:
    return sorted(table.refresh().scan(branch=branch).to_arrow()["n"].to_pylist())


def data_files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet")}


def test_an_epoch_is_committed_once_with_the_entries_of_java(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.load_table("db.t")
    assert [write(table, epoch, rows(epoch)) for epoch in (0, 1, 2)] == [True, True, True]
    files = data_files(tmp_path)
    assert [write(catalog.load_table("db.t"), epoch, rows(epoch)) for epoch in (0, 2)] == [False, False]
    assert (numbers(table), data_files(tmp_path)) == ([0, 1, 2], files)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert {key: text for key, text in snapshot.summary.items() if "streaming" in key} == {
        "spark.sql.streaming.queryId": "q",
        "spark.sql.streaming.epochId": "2",
    }
    last = last_epoch(table.metadata.properties, "q")
    assert last is not None
    assert (last.epoch, last.snapshot_id) == (2, snapshot.snapshot_id)


def test_epochs_that_change_nothing_make_no_snapshot(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    assert not any(write(table, 0, rows(), mode=mode) for mode in OutputMode)
    assert table.current_snapshot() is None
    assert write(table, 1, rows(1, 2), mode=OutputMode.UPDATE)
    assert not write(table, 2, rows(2), mode=OutputMode.UPDATE)
    assert write(table, 3, rows(), mode=OutputMode.COMPLETE)
    assert numbers(table) == []
    assert not write(table, 4, rows(), mode=OutputMode.COMPLETE)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_epoch_whose_snapshot_has_expired_is_not_committed_again(catalog: SqlCatalog, version: int) -> None:
    table = catalog.create_table("db.v", SCHEMA, properties={"format-version": str(version)})
    for epoch in (0, 1):
        assert write(table, epoch, rows(epoch))
    table.append(rows(7))
    table.append(rows(8))
    table.expire_snapshots(older_than=2**53, retain_last=1)
    assert len(table.metadata.snapshots) == 1
    assert not write(table, 1, rows(1))
    assert write(table, 2, rows(2))
    assert numbers(table) == [0, 1, 2, 7, 8]


@pytest.mark.parametrize("version", [1, 2])
def test_an_epoch_that_was_rolled_back_is_committed_again_although_older_snapshots_have_expired(catalog: SqlCatalog, version: int) -> None:
    table = catalog.create_table("db.v", SCHEMA, properties={"format-version": str(version)})
    for number in (7, 8):
        table.append(rows(number))
    start = table.current_snapshot()
    assert start is not None
    time.sleep(0.005)  # in version 1 only their times order snapshots
    assert write(table, 0, rows(0))
    table.manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    table.expire_snapshots(older_than=2**53, retain_last=1)
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [start.snapshot_id]
    assert write(table, 0, rows(0))
    assert numbers(table) == [0, 7, 8]


@pytest.mark.parametrize("expires", [False, True])
def test_an_epoch_that_was_rolled_back_is_committed_again(catalog: SqlCatalog, expires: bool) -> None:
    table = catalog.load_table("db.t")
    for epoch in (0, 1):
        assert write(table, epoch, rows(epoch))
    start = table.current_snapshot()
    assert start is not None
    for epoch in (2, 3):
        assert write(table, epoch, rows(epoch))
    table.manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    if expires:
        table.expire_snapshots(older_than=2**53, retain_last=2)
        assert len(table.metadata.snapshots) == 2
    assert not write(table, 1, rows(1))
    assert write(table, 2, rows(2))
    assert write(table, 3, rows(3))
    assert not write(table, 3, rows(3))
    assert numbers(table) == [0, 1, 2, 3]


def test_an_epoch_on_a_branch_is_found_beside_commits_to_main(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(100))
    table.manage_snapshots().create_branch(branch_name="b").commit()
    assert write(table, 0, rows(0), branch="b")
    table.append(rows(101))
    assert not write(table, 0, rows(0), branch="b")
    assert not write(table, 0, rows(0))  # the query writes to another branch from now on
    assert write(table, 1, rows(1))
    assert (numbers(table), numbers(table, "b")) == ([1, 100, 101], [0, 100])


def test_the_last_epoch_of_java_is_found_when_a_query_starts(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(4), StreamEpoch(query_id="q", epoch=4, branch="main").summary)
    table.append(rows(9))
    assert not write(table, 4, rows(4), searches_history=True)
    assert write(table, 5, rows(5), searches_history=True)
    table.append(rows(6), StreamEpoch(query_id="q", epoch=6, branch="main").summary)  # by Java again
    assert not write(table, 6, rows(6), searches_history=True)
    assert numbers(table) == [4, 5, 6, 9]


@pytest.mark.parametrize("version", [1, 2])
def test_the_history_is_searched_back_to_the_last_epoch_alone(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = catalog.create_table("db.long", SCHEMA, properties={"format-version": str(version)})
    for number in range(20):
        table.append(rows(number))
    visited: list[int] = []

    def visit(*given: Any) -> Iterator[Snapshot]:
        for snapshot in ancestors(*given):
            visited.append(snapshot.snapshot_id)
            yield snapshot

    monkeypatch.setattr(stream_epoch, "ancestors", visit)
    counts = []
    for epoch in range(3):
        visited.clear()
        assert write(table, epoch, rows(100 + epoch), searches_history=True)
        counts.append(len(set(visited)))
        table.append(rows(200 + epoch))
    assert counts == [20, 2, 2], "later epochs visit what was committed since the last one"
    table.append(rows(103), StreamEpoch(query_id="q", epoch=3, branch="main").summary)  # by Java
    table.append(rows(300))
    assert not write(table, 3, rows(103), searches_history=True)


def test_queries_write_to_one_table_and_properties_are_bounded(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_epoch, "MOST_QUERIES", 3)
    table = catalog.load_table("db.t")
    for number in range(5):
        assert write(table, 0, rows(number), query_id=f"q{number}")
    marks = {name for name in table.metadata.properties if name.startswith(PREFIX)}
    assert marks == {f"{PREFIX}q{number}" for number in range(2, 5)}
    assert not write(table, 0, rows(1), query_id="q4")
    assert not write(table, 0, rows(1), query_id="q0", searches_history=True)


def test_an_epoch_that_another_process_commits_first_leaves_no_file(catalog: SqlCatalog, tmp_path: Path) -> None:
    left_over, table = catalog.load_table("db.t"), catalog.load_table("db.t")
    assert write(table, 0, rows(0))
    files = data_files(tmp_path)
    assert not write(left_over, 0, rows(0))
    assert (numbers(table), data_files(tmp_path)) == ([0], files)
    assert write(left_over, 1, rows(1))
    assert write(table, 2, rows(2))  # a conflict, which is retried
    assert numbers(table) == [0, 1, 2]


def test_a_lost_reply_neither_loses_nor_doubles_an_epoch(catalog: SqlCatalog) -> None:
    faults, table = Faults(), catalog.load_table("db.t")
    handle = TableHandle(identifier=table.handle.identifier, store=FaultyStore(table.handle.store, faults), io=table.handle.io)
    stream = Table(handle, load_metadata(handle))
    for epoch, fault in enumerate((Fault.LOST_REPLY, Fault.CONFLICT, Fault.UNKNOWN)):
        faults.order("commit", fault)
        assert write(stream, epoch, rows(epoch))
    assert numbers(table) == [0, 1, 2]


def test_a_property_with_another_value_is_an_error(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    for text in ('{"epoch": "7"}', '{"other": ' + "[" * 100_000, "\ud800"):
        with pytest.raises(InvalidPropertyError, match=r"icefloe\.stream\.q does not contain .*\n.*Next: compare"):
            last_epoch({f"{PREFIX}q": text}, "q")
    table.set_properties({f"{PREFIX}q": '{"epoch": "7"}', f"{PREFIX}other": "?"})
    with pytest.raises(InvalidPropertyError, match=r"icefloe\.stream\.q does not contain .*\n.*Next: compare"):
        write(table, 8, rows(8))
    assert write(table, 0, rows(8), query_id="third")


def test_staged_epochs_are_committed_once(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.w", SCHEMA, properties={"write.wap.enabled": "true"})
    mark = StreamEpoch(query_id="q", epoch=0, branch="main")
    for is_new in (True, False):
        changes = EpochChanges(table, mark, OutputMode.APPEND)
        changes.append(rows(1), {**mark.summary, "wap.id": "audit" if is_new else "again"})
        assert changes.is_committed is is_new
    assert (table.current_snapshot(), len(table.metadata.snapshots)) == (None, 1)


def test_of_two_staged_snapshots_with_the_rows_of_one_epoch_one_is_published(catalog: SqlCatalog) -> None:
    """A REST server can take an epoch of two drivers: see `tests/stores/rest/test_own_server.py`."""
    table = catalog.create_table("db.w", SCHEMA, properties={"write.wap.enabled": "true"})
    first, second = (StreamEpoch(query_id="q", epoch=epoch, branch="main") for epoch in (0, 1))
    for wap_id, mark in (("a", first), ("b", first), ("c", second)):
        table.append(rows(mark.epoch), {**mark.summary, "wap.id": wap_id})
    table.append(rows(7))
    table.manage_snapshots().publish_changes("b").commit()
    with pytest.raises(InvalidInputError, match="has the rows of epoch 0 of the stream q already"):
        table.manage_snapshots().publish_changes("a").commit()
    table.manage_snapshots().publish_changes("c").commit()
    assert numbers(table) == [0, 1, 7]


def test_an_epoch_is_not_committed_again_after_its_branch_was_published_and_dropped(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(100))
    table.manage_snapshots().create_branch(branch_name="b").commit()
    assert write(table, 0, rows(0), branch="b")
    table.manage_snapshots().fast_forward("main", "b").commit()
    table.manage_snapshots().remove_branch("b").commit()
    again = StreamEpoch(query_id="q", epoch=0, branch="b")
    assert stream_epoch.is_committed(table.metadata, again, searches_history=False), (
        "a staged write creates the branch from main, which has the rows"
    )


def test_an_epoch_that_was_cherry_picked_is_not_committed_again(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    assert write(table, 0, rows(0))
    start = table.current_snapshot()
    table.append(rows(99))
    assert write(table, 1, rows(1))
    picked = table.current_snapshot()
    assert start is not None
    assert picked is not None
    table.manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    table.manage_snapshots().cherry_pick(picked.snapshot_id).commit()
    assert not write(table, 1, rows(1))
    table.manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    assert write(table, 1, rows(1))
    assert numbers(table) == [0, 1]
