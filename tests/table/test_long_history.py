"""Appends to tables with a long history: the work of a commit does not grow with the number of snapshots, on any branch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table
from icefloe.spec.metadata import raw_entries
from icefloe.spec.metadata.json_text import JsonText
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.raw_entries import EntryKind, RawEntries
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.table_history import SnapshotLogEntry

SCHEMA = pa.schema([("id", pa.int64())])


def long_table(folder: Path, older: int) -> Table:
    """Return a table of three commits after that many snapshots that exist only in the metadata, with a branch at the last one."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table(f"db.t{older}", schema=SCHEMA, properties={"commit.manifest-merge.enabled": "false"})
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    metadata = table.metadata
    first, *others = metadata.snapshots
    snapshots = [
        replace(first, snapshot_id=number, sequence_number=number, timestamp_ms=first.timestamp_ms - older + number)
        for number in range(1, older + 1)
    ]
    snapshots += [replace(one, sequence_number=one.sequence_number + older) for one in (first, *others)]
    longer = replace(
        metadata,
        last_sequence_number=metadata.last_sequence_number + older,
        snapshots=snapshots,  # type: ignore[arg-type]
        snapshot_log=[SnapshotLogEntry(one.timestamp_ms, one.snapshot_id) for one in snapshots],  # type: ignore[arg-type]
        refs={**metadata.refs, "side": SnapshotRef(snapshot_id=snapshots[-1].snapshot_id)},
    )
    file = Path(table.metadata_location.removeprefix("file://"))
    file.write_bytes(write_table_metadata(longer))
    return catalog.load_table(f"db.t{older}")


def test_an_append_does_the_same_work_after_10_and_after_4000_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work: dict[str, int] = {}
    ids_of, decode, where = EntryKind.ids_of, RawEntries._decode, RawEntries.where

    def counted(what: str, number: int) -> None:
        work[what] = work.get(what, 0) + number

    def counted_ids(self: EntryKind[Any], raws: Any) -> Any:
        counted("entries whose id was read", len(raws))
        return ids_of(self, raws)

    def counted_decode(self: RawEntries[Any], *arguments: Any) -> Any:
        counted("entries decoded", 1)
        return decode(self, *arguments)

    def counted_where(self: RawEntries[Any], keep: Any) -> Any:
        counted("entries visited", len(self))
        return where(self, keep)

    def counted_text(text: bytes) -> JsonText:
        counted("texts joined", 1)
        counted("bytes joined", len(text) // 10_000)
        return JsonText(text)

    works = []
    for older in (10, 4_000):
        table = long_table(tmp_path, older)
        for branch in ("main", "side"):  # builds the index of the history once
            table.append(pa.table({"id": [3]}), branch=branch)
        with monkeypatch.context() as patch:
            patch.setattr(EntryKind, "ids_of", counted_ids)
            patch.setattr(RawEntries, "_decode", counted_decode)
            patch.setattr(RawEntries, "where", counted_where)
            patch.setattr(raw_entries, "JsonText", counted_text)
            for number in range(6):
                table.append(pa.table({"id": [number]}), branch=("main", "side")[number % 2])
        works.append(dict(work))
        work.clear()
        assert [len(table.metadata.snapshots), len(table.metadata.snapshot_log)] == [older + 11, older + 7]
        assert table.scan().count() == 7
        assert table.scan(branch="side").count() == 7
    assert works[0].pop("texts joined") >= works[1].pop("texts joined")
    for what in works[0].keys() | works[1].keys():
        assert works[1].get(what, 0) <= works[0].get(what, 0) + 64, what


def test_a_branch_in_a_commit_of_main_leaves_no_entry_of_its_own_in_the_log(tmp_path: Path) -> None:
    table = long_table(tmp_path, 5)
    with table.transaction() as tx:
        tx.append(pa.table({"id": [7]}))
        tx.append(pa.table({"id": [8]}))
    assert len(table.metadata.snapshot_log) == 9
    assert table.metadata.snapshot_log[-1].snapshot_id == table.metadata.current_snapshot_id
    assert len(table.metadata.snapshots) == 10
