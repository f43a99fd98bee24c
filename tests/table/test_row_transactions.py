"""Transactions with rows: several snapshots and metadata changes are one version of the table, or none is committed and no file remains."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reference_reader import ReferenceReader
from tests.repetitions import examples

from icefloe import LongType, SqlCatalog
from icefloe.errors import CommitConflictError, CommitInvalidatedError, InvalidFilterError
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


def rows(start: int, stop: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2]} for n in range(start, stop)], schema=SCHEMA)


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog


def make(folder: Path, version: int = 3, name: str = "db.t", **properties: str) -> Table:
    settings = {"format-version": str(version), "commit.retry.min-wait-ms": "1", "write.delete.mode": "merge-on-read", **properties}
    return lake(folder).create_table(name, SCHEMA, partition_spec=["part"], properties=settings)


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def files_under(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"}


def named_files(table: Table) -> set[str]:
    """Return every file that the table's metadata names, live or deleted."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        found.add(str(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)}
    return found


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_later_writes_see_earlier_ones_and_all_are_one_table_version(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path, version, **{"write.delete.mode": mode})
    table.append(rows(0, 4))
    versions = len(table.metadata.metadata_log)
    with table.transaction() as tx:
        tx.append(rows(4, 10))
        tx.delete("id in (1, 5)")
        with tx.update_schema() as update:
            update.add_column("note", LongType())
        tx.append(rows(10, 12).append_column("note", pa.array([7, 8])))
        tx.delete_keys(pa.table({"id": [4, 11]}), ["id"])
        tx.overwrite(rows(20, 21), "id = 9")
        tx.set_properties(owner="me")
        assert ids(table.refresh()) == [0, 1, 2, 3]
    assert ids(table) == [0, 2, 3, 6, 7, 8, 10, 20]
    assert table.scan("note = 7").count() == 1
    assert (len(table.snapshots()), len(table.history()), len(table.metadata.metadata_log)) == (6, 2, versions + 1)
    numbers = [snapshot.sequence_number for snapshot in table.snapshots()]
    assert numbers == [1, 2, 3, 4, 5, 6]
    parents = [snapshot.parent_snapshot_id for snapshot in table.snapshots()]
    assert parents == [None, *(snapshot.snapshot_id for snapshot in table.snapshots()[:-1])]
    assert table.properties["owner"] == "me"
    assert ids(lake(tmp_path).load_table("db.t")) == ids(table)
    assert named_files(table) == files_under(tmp_path)
    if version == 3:
        found = table.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()
        assert len(set(found)) == len(found)


@pytest.mark.parametrize(("first", "then"), [(1, 2), (1, 3), (2, 3)])
def test_rows_are_written_before_and_after_an_upgrade_in_one_transaction(tmp_path: Path, first: int, then: int) -> None:
    table = make(tmp_path, first, **{"write.delete.mode": "copy-on-write"})
    table.append(rows(0, 4))
    versions = len(table.metadata.metadata_log)
    with table.transaction() as tx:
        tx.append(rows(4, 6))
        tx.overwrite(rows(6, 7), "id = 1")
        tx.upgrade_table_version(then)
        tx.delete("id = 2")
        tx.append(rows(7, 9))
        lake(tmp_path).load_table("db.t").append(rows(9, 10))
    assert len(table.metadata.metadata_log) == versions + 2
    assert ids(table) == [0, 3, 4, 5, 6, 7, 8, 9]
    # The rows as fastavro and PyArrow read them, with inherited sequence numbers and row ids.
    reader = ReferenceReader(table.io)
    document = reader.document(table.metadata_location)
    found = list(reader.rows(document, reader.snapshot(document, document["current-snapshot-id"])))
    assert sorted(row.values[1] for row in found) == ids(table)
    assert len({row.row_id for row in found}) == (len(found) if then == 3 else 1)
    numbers = [one.get("sequence-number", 0) for one in document["snapshots"]]
    assert numbers == ([0, 0, 0, 0, 1, 2] if first == 1 else [1, 2, 3, 4, 5, 6])
    assert [("first-row-id" in one) for one in document["snapshots"]] == [False] * 4 + [then == 3] * 2


def test_a_transaction_that_began_on_expired_snapshots_is_refused_with_the_reason(tmp_path: Path) -> None:
    table = make(tmp_path)
    begun_on = table.append(rows(0, 4)).snapshot_id
    other = lake(tmp_path).load_table("db.t")
    other.append(rows(4, 6))
    other.expire_snapshots(older_than=4_102_444_800_000, retain_last=1)
    before = files_under(tmp_path)
    message = "another writer expired snapshots that this transaction is based on"
    with pytest.raises(CommitInvalidatedError, match=message) as refused, table.transaction() as tx:
        tx.append(rows(6, 8))
    assert refused.value.snapshot_id == begun_on
    assert "a retry makes sense" in (refused.value.next_step or "")
    assert files_under(tmp_path) == before
    with table.refresh().transaction() as tx:
        tx.append(rows(6, 8))
    assert ids(table) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_an_error_in_the_block_leaves_no_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(0, 4))
    before = files_under(tmp_path)
    tx = table.transaction()
    tx.append(rows(4, 10))
    tx.delete("id in (1, 5)")
    tx.delete_keys(pa.table({"id": [4]}), ["id"])
    assert files_under(tmp_path) > before
    with pytest.raises(ZeroDivisionError), tx:
        raise ZeroDivisionError
    assert files_under(tmp_path) == before
    with table.transaction() as tx, pytest.raises(InvalidFilterError):
        tx.overwrite(rows(4, 10), "nosuch = 1")
    assert files_under(tmp_path) == before


def test_after_a_conflict_every_snapshot_of_a_transaction_is_applied_again(tmp_path: Path) -> None:
    table, other_catalog = make(tmp_path), lake(tmp_path)
    table.append(rows(0, 4))
    with table.transaction() as tx:
        tx.append(rows(4, 10))
        tx.delete("id in (1, 5, 100)")
        tx.delete("id = 101")  # the row does not exist yet
        other = other_catalog.load_table("db.t")
        other.delete("id = 3")
        other.append(rows(100, 103))
    assert ids(table) == [0, 2, 4, 6, 7, 8, 9, 102]
    assert named_files(table) == files_under(tmp_path)


def test_a_conflict_of_one_change_cancels_the_transaction(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(0, 4))
    tx = table.transaction()
    tx.append(rows(4, 10))
    tx.update_schema().add_column("note", LongType()).commit()
    with lake(tmp_path).load_table("db.t").update_schema() as other:
        other.add_column("other", LongType())
    before = files_under(tmp_path)
    with pytest.raises(CommitConflictError):
        tx.commit_transaction()
    assert ids(table.refresh()) == [0, 1, 2, 3]
    gone = before - files_under(tmp_path)
    assert len(gone) == 2
    assert all("/data/" in path for path in gone)


def test_an_interrupt_during_the_commit_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    table.append(rows(0, 4))
    before = files_under(tmp_path)
    tx = table.transaction()
    tx.append(rows(4, 10))
    tx.delete("id in (1, 5)")
    tx.append(rows(10, 12))
    original = type(table.io).write

    def interrupted(self: object, where: str, content: bytes, **options: bool) -> None:
        original(self, where, content, **options)  # type: ignore[arg-type]
        if where.endswith("metadata.json"):
            raise KeyboardInterrupt

    monkeypatch.setattr(type(table.io), "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tx.commit_transaction()
    monkeypatch.undo()
    assert files_under(tmp_path) == before


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 30), st.integers(1, 8)),
        st.tuples(st.just("delete"), st.integers(0, 30), st.integers(1, 8)),
        st.tuples(st.just("overwrite"), st.integers(0, 30), st.integers(1, 8)),
        st.tuples(st.just("keys"), st.integers(0, 30), st.integers(1, 8)),
    ),
    max_size=6,
)


@settings(max_examples=examples(10, least=6), suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, version=st.sampled_from([2, 3]), mode=st.sampled_from(["copy-on-write", "merge-on-read"]))
def test_a_transaction_has_the_result_of_its_separate_writes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], version: int, mode: str
) -> None:
    folder = tmp_path_factory.mktemp("steps")
    one_by_one, together = (make(folder, version, name, **{"write.delete.mode": mode}) for name in ("db.a", "db.b"))
    with together.transaction() as tx:
        for kind, start, count in steps:
            for it in (one_by_one, tx):
                if kind == "append":
                    it.append(rows(start, start + count))
                elif kind == "delete":
                    it.delete(f"id >= {start} and id < {start + count}")
                elif kind == "overwrite":
                    it.overwrite(rows(start, start + count), f"id > {start}")
                else:
                    it.delete_keys(rows(start, start + count), ["id"])
    columns = ("id", "part", "_row_id", "_last_updated_sequence_number")
    found, expected = (it.scan().select(*columns).to_arrow().to_pylist() for it in (together, one_by_one))
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert len(together.snapshots()) == len(one_by_one.snapshots())
    assert len(together.metadata.metadata_log) <= 1
