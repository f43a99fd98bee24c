"""Upserts: keys, nulls and repeated keys, files read and written, concurrent commits, branches, transactions, and refusals that leave no file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.combinations import combinations

from icefloe import SqlCatalog, StringType
from icefloe.errors import (
    CommitInvalidatedError,
    InvalidInputError,
    InvalidSchemaError,
    NoSuchSnapshotError,
    SchemaMismatchError,
    StorageFullError,
    UnsupportedFeatureError,
)
from icefloe.io.local_file_io import LocalFileIO
from icefloe.operations import arrow_upsert
from icefloe.operations.write_result import WriteResult
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64())])


def rows(*found: tuple[int | None, str | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA)


def make(folder: Path, version: int = 2, spec: tuple[str, ...] = (), schema: pa.Schema = SCHEMA, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(
        "db.t", schema, partition_spec=spec, properties={"format-version": str(version), "commit.retry.min-wait-ms": "1", **properties}
    )


def second(folder: Path) -> Table:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)).load_table("db.t")


def contents(table: Table, branch: str | None = None) -> list[tuple[Any, ...]]:
    scan = table.scan() if branch is None else table.scan().use_ref(branch)
    return sorted((tuple(row.values()) for row in scan.to_arrow().to_pylist()), key=repr)


def files_under(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"}


def counts(result: WriteResult) -> tuple[int, int, int]:
    return result.rows_updated, result.rows_inserted, result.rows_unchanged


def test_a_row_with_a_null_key_matches_no_row_and_is_inserted_each_time(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows((1, "a", 1.0), (None, "a", 2.0)))
    again = rows((None, "a", 3.0), (None, "a", 3.0), (1, "a", 5.0))
    assert counts(table.upsert(again, ["id"])) == (1, 2, 0)
    assert contents(table) == contents_of((1, "a", 5.0), (None, "a", 2.0), (None, "a", 3.0), (None, "a", 3.0))
    assert counts(table.upsert(rows((2, None, 1.0)), ["id", "part"])) == (0, 1, 0)
    assert counts(table.upsert(rows((2, None, 1.0)), ["id", "part"], when_not_matched_insert_all=False)) == (0, 0, 0)


def contents_of(*found: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return sorted(found, key=repr)


def test_nan_is_a_key_and_both_zeros_are_one_key(tmp_path: Path) -> None:
    table = make(tmp_path)
    nan = float("nan")
    table.append(rows((1, "a", nan), (2, "b", -0.0)))
    assert counts(table.upsert(rows((1, "a", nan), (5, "c", 0.0)), ["value"])) == (1, 0, 1)
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [1, 5]
    with pytest.raises(InvalidInputError, match="more than once"):
        table.upsert(rows((1, "a", 0.0), (2, "a", -0.0)), ["value"])


def test_an_upsert_that_changes_nothing_makes_no_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows((1, "a", float("nan")), (2, None, None)))
    before, files = table.metadata_location, files_under(tmp_path)
    result = table.upsert(rows((1, "a", float("nan")), (2, None, None)), ["id"])
    assert (result.snapshot_id, *counts(result)) == (None, 0, 0, 2)
    assert (table.metadata_location, files_under(tmp_path)) == (before, files)
    assert table.upsert(rows(), ["id"]).snapshot_id is None


def test_the_identifier_fields_are_the_default_keys(tmp_path: Path) -> None:
    table = make(tmp_path, schema=pa.schema([pa.field("id", pa.int64(), nullable=False), *list(SCHEMA)[1:]]))
    with pytest.raises(InvalidInputError, match="no identifier fields"):
        table.upsert(rows((1, "a", 1.0)))
    with table.update_schema() as update:
        update.set_identifier_fields("id")
    table.append(rows((1, "a", 1.0)))
    assert counts(table.upsert(rows((1, "b", 1.0), (2, "b", 1.0)))) == (1, 1, 0)
    assert contents(table) == [(1, "b", 1.0), (2, "b", 1.0)]


@pytest.mark.parametrize(("name", "case_sensitive"), [("s.inner", True), ("S.Inner", False)])
def test_a_key_may_be_a_field_of_a_struct(tmp_path: Path, name: str, case_sensitive: bool) -> None:
    schema = pa.schema([("s", pa.struct([("inner", pa.int32()), ("note", pa.string())])), ("v", pa.int32())])
    table = make(tmp_path, schema=schema)
    table.append(pa.Table.from_pylist([{"s": {"inner": 1, "note": "x"}, "v": 1}, {"s": None, "v": 2}], schema=schema))
    source = pa.Table.from_pylist([{"s": {"inner": 1, "note": "y"}, "v": 1}, {"s": None, "v": 2}], schema=schema)
    assert counts(table.upsert(source, [name], case_sensitive=case_sensitive)) == (1, 1, 0)
    assert sorted((row["s"] or {}).get("note", "") for row in table.scan().to_arrow().to_pylist()) == ["", "", "y"]
    if not case_sensitive:
        with pytest.raises(InvalidSchemaError):
            table.upsert(source, [name])


@pytest.mark.parametrize(
    ("source", "keys", "message"),
    [
        (rows((1, "a", 1.0), (1, "b", 2.0)), ["id"], r"have 1 key .id. more than once: 1\n"),
        (rows((1, "a", 1.0), (1, "a", 2.0)), ["id", "part"], r"\(id, part\) more than once: 1, 'a'"),
        (rows((7, "a", 1.0)), ["id"], "match several rows of lake.db.t: 7"),
        (rows((7, "a", 1.0)), [], "no key columns"),
        (rows((7, "a", 1.0)), "id", "not a list of names"),
    ],
)
def test_invalid_keys_are_refused_with_their_names(tmp_path: Path, source: pa.Table, keys: Any, message: str) -> None:
    table = make(tmp_path)
    table.append(rows((7, "a", 1.0), (8, "a", 1.0)))
    table.append(rows((7, "b", 2.0)))
    files = files_under(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        table.upsert(source, keys)
    assert files_under(tmp_path) == files
    assert counts(table.upsert(rows((7, "a", 1.0)), ["id"], when_matched_update_all=False)) == (0, 0, 1)


def test_wrong_columns_and_options_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    schema = pa.schema([*SCHEMA, ("l", pa.list_(pa.int32())), ("s", pa.struct([("a", pa.int32()), ("b", pa.int32())]))])
    table = make(tmp_path, schema=schema)
    files = files_under(tmp_path)
    whole = pa.table({"id": [1], "part": ["a"], "value": [1.0], "l": [[1]], "s": [{"a": 1, "b": 2}]}, schema=schema)
    with pytest.raises(SchemaMismatchError, match="value") as refused:
        table.upsert(whole.drop_columns(["value", "l"]), ["id"])
    assert [problem.where for problem in refused.value.problems] == ["value", "l"]
    with pytest.raises(SchemaMismatchError, match=r"s\.b"):
        table.upsert(whole.drop_columns(["s"]).append_column("s", pa.array([{"a": 1}])), ["id"])
    with pytest.raises(SchemaMismatchError, match="extra"):
        table.upsert(whole.append_column("extra", pa.array([1])), ["id"])
    for key in ("l", "s", "l.element"):
        with pytest.raises(InvalidInputError, match="cannot be a key column"):
            table.upsert(whole, [key])
    with pytest.raises(InvalidSchemaError, match="nothing"):
        table.upsert(whole, ["nothing"])
    with pytest.raises(InvalidInputError, match="does nothing"):
        table.upsert(whole, ["id"], when_matched_update_all=False, when_not_matched_insert_all=False)
    with pytest.raises(NoSuchSnapshotError, match="branch"):
        table.upsert(whole, ["id"], branch="nowhere")
    assert files_under(tmp_path) == files
    assert counts(table.upsert(whole.drop_columns(["value"]), ["id"], when_matched_update_all=False)) == (0, 1, 0)


@pytest.mark.parametrize("keys", [5, 400])
def test_only_files_that_may_contain_a_key_are_planned(tmp_path: Path, keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check pruning by each key where the keys are few, which bucket partitions require, and by their range where they are many."""
    table = make(tmp_path, 2, ("bucket(64, id)",) if keys == 5 else ())
    for start in range(0, 10_000, 1000):
        table.append(rows(*((n, "a", 1.0) for n in range(start, start + 1000))))
    before = {task.file.file_path for task in table.scan().plan_files()}
    read: list[str] = []
    original = LocalFileIO.open_input
    monkeypatch.setattr(LocalFileIO, "open_input", lambda self, location: (read.append(location), original(self, location))[1])
    result = table.upsert(rows(*((n, "b", 1.0) for n in range(3000, 3000 + keys))), ["id"])
    assert counts(result) == (keys, 0, 0)
    assert len(before.intersection(read)) == (5 if keys == 5 else 1)


def test_joining_few_files_at_a_time_gives_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_upsert, "GROUP_ROWS", 3)
    table = make(tmp_path, 3)
    for start in range(0, 20, 4):
        table.append(rows(*((n, "a", 1.0) for n in range(start, start + 4))))
    assert counts(table.upsert(rows(*((n, "b", 1.0) for n in range(2, 24, 2))), ["id"])) == (9, 2, 0)
    expected = [(n, "b" if n % 2 == 0 and n > 1 else "a", 1.0) for n in range(20)] + [(20, "b", 1.0), (22, "b", 1.0)]
    assert contents(table) == contents_of(*expected)


def test_an_upsert_works_in_a_transaction_and_on_a_branch(tmp_path: Path) -> None:
    table = make(tmp_path)
    with table.transaction() as tx:
        tx.append(rows((1, "a", 1.0)))
        assert counts(tx.upsert(rows((1, "b", 1.0), (2, "b", 1.0)), ["id"], snapshot_properties={"job": "7"})) == (1, 1, 0)
        assert counts(tx.upsert(rows((2, "c", 1.0)), ["id"])) == (1, 0, 0)
    assert contents(table) == [(1, "b", 1.0), (2, "c", 1.0)]
    assert [snapshot.summary.get("job") for snapshot in table.snapshots()] == [None, "7", None]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("level", "counted", "left"),
    [("serializable", (2, 0, 0), [(1, "n", 1.0), (2, "n", 2.0)]), ("snapshot", (1, 1, 0), [(1, "n", 1.0), (2, "n", 2.0), (2, "w", 9.0)])],
)
def test_after_a_conflict_the_isolation_level_decides_which_rows_are_joined_again(
    tmp_path: Path, mode: str, level: str, counted: tuple[int, int, int], left: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Add a row with one of the keys concurrently: it is joined where the level is serializable, and ignored where it is snapshot."""
    table = make(tmp_path, 2, **{"write.merge.mode": mode, "write.merge.isolation-level": level})
    table.append(rows((1, "o", 0.0)))
    race(table, monkeypatch, lambda: second(tmp_path).append(rows((2, "w", 9.0))))
    result = table.upsert(rows((1, "n", 1.0), (2, "n", 2.0)), ["id"])
    assert (result.attempts, *counts(result)) == (2, *counted)
    assert contents(table) == left
    assert not orphans(table, tmp_path)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_a_file_that_lost_rows_concurrently_is_joined_again_at_both_levels(
    tmp_path: Path, mode: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, 3, **{"write.merge.mode": mode, "write.delete.mode": mode, "write.merge.isolation-level": level})
    table.append(rows((1, "o", 0.0), (2, "o", 0.0), (3, "o", 0.0)))
    race(table, monkeypatch, lambda: second(tmp_path).delete("id = 1"))
    result = table.upsert(rows((1, "n", 1.0), (2, "n", 2.0)), ["id"])
    assert (result.attempts, *counts(result)) == (2, 1, 1, 0)
    assert contents(table) == [(1, "n", 1.0), (2, "n", 2.0), (3, "o", 0.0)]
    assert not orphans(table, tmp_path)


def test_upserted_rows_lack_a_column_that_was_added_concurrently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    table.append(rows((1, "o", 0.0)))

    def winner() -> None:
        with second(tmp_path).update_schema() as update:
            update.add_column("later", StringType())

    race(table, monkeypatch, winner)
    with pytest.raises(CommitInvalidatedError, match=r"another writer changed the columns of lake\.db\.t") as refused:
        table.upsert(rows((1, "n", 1.0)), ["id"])
    assert [problem.where for problem in refused.value.problems] == ["expected", "found", "later"]
    assert "a retry will fail again" in (refused.value.next_step or "")
    assert contents(table.refresh()) == [(1, "o", 0.0, None)]
    assert not orphans(table, tmp_path)


@pytest.mark.parametrize("failure", [StorageFullError("full"), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["rewrite", "upsert", "manifest"])
def test_a_failed_write_of_any_file_leaves_no_file(
    tmp_path: Path, place: str, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    table.append(rows((1, "o", 0.0), (2, "o", 0.0)))
    files = files_under(tmp_path)
    monkeypatch.setattr(LocalFileIO, *failing(place, failure))
    with pytest.raises(type(failure)):
        table.upsert(rows((1, "n", 1.0), (3, "n", 1.0)), ["id"])
    assert files_under(tmp_path) == files
    monkeypatch.undo()
    assert counts(table.upsert(rows((1, "n", 1.0), (3, "n", 1.0)), ["id"])) == (1, 1, 0)


def failing(place: str, failure: BaseException) -> tuple[str, Any]:
    """Return a patch that fails the write of the first data file, of the copy after it, or of the first manifest."""
    if place == "manifest":

        def write(self: LocalFileIO, location: str, content: bytes, *, overwrite: bool = False) -> None:
            raise failure

        return "write", write
    opened: list[str] = []
    original = LocalFileIO.write_unique

    def write_unique(self: LocalFileIO, location: str, content: Any) -> None:
        opened.append(location)
        if len(opened) == (1 if place == "upsert" else 2):
            raise failure
        original(self, location, content)

    return "write_unique", write_unique


def test_version_1_refuses_merge_on_read_upserts_like_other_writes(tmp_path: Path) -> None:
    table = make(tmp_path, 1, **{"write.merge.mode": "merge-on-read"})
    table.append(rows((1, "o", 0.0), (2, "o", 0.0)))
    files = files_under(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match=r"write\.merge\.mode"):
        table.upsert(rows((1, "n", 1.0)), ["id"])
    assert files_under(tmp_path) == files


def test_updated_rows_keep_their_row_ids_and_get_the_sequence_number_of_the_upsert(tmp_path: Path) -> None:
    table = make(tmp_path, 3)
    table.append(rows((1, "o", 0.0), (2, "o", 0.0)))
    table.upsert(rows((2, "n", 1.0), (3, "n", 1.0)), ["id"])
    read_rows = table.scan().select("id", "_row_id", "_last_updated_sequence_number").to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values())[:2] for row in read_rows[:2]] == [(1, 0), (2, 1)]
    assert [row["_last_updated_sequence_number"] for row in read_rows] == [1, 2, 2]
    newest = max((path for path in files_under(tmp_path) if path.suffix == ".parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert pq.read_schema(newest).names[-2:] == ["_row_id", "_last_updated_sequence_number"]


def race(table: Table, monkeypatch: pytest.MonkeyPatch, winner: Any) -> None:
    """Let another writer commit right before the table's first compare-and-swap."""
    store = table.handle.store
    original = store.commit
    won: list[bool] = []

    def commit(*given: Any, **named: Any) -> Any:
        if not won:
            won.append(True)
            winner()
        return original(*given, **named)

    monkeypatch.setattr(store, "commit", commit)


def orphans(table: Table, folder: Path) -> set[str]:
    """Return the data and delete files that no snapshot of the table contains."""
    named = {
        entry.data_file.file_path
        for snapshot in table.refresh().snapshots()
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    return {str(path) for path in files_under(folder) if "/data/" in str(path)} - {path.removeprefix("file://") for path in named}


@pytest.mark.parametrize(("version", "spec"), combinations([1, 2, 3], [(), ("part",)]))
def test_a_copied_file_includes_the_new_rows_of_its_partition_in_one_file(tmp_path: Path, version: int, spec: tuple[str, ...]) -> None:
    table = make(tmp_path, version, spec)
    table.append(rows(*((n, "a", 0.0) for n in range(10))))
    before = dict(zip(*table.scan().select("id", "_row_id").to_arrow().to_pydict().values(), strict=True))
    for turn in range(1, 5):
        result = table.upsert(rows((turn, "a", float(turn)), (100 + turn, "a", 0.5)), ["id"])
        assert counts(result) == (1, 1, 0)
        assert (result.removed_files, result.rewritten_files) == (1, 1)
        (task,) = table.scan().plan_files()
        assert task.file.record_count == 10 + turn
    found = {row["id"]: row for row in table.scan().select("id", "value", "_row_id").to_arrow().to_pylist()}
    assert {number: row["value"] for number, row in found.items() if row["value"]} == {
        **{turn: float(turn) for turn in range(1, 5)},
        **{100 + turn: 0.5 for turn in range(1, 5)},
    }
    assert {number: found[number]["_row_id"] for number in before} == before
    assert len({row["_row_id"] for row in found.values()}) == (14 if version == 3 else 1)
    named = {task.file.file_path for snapshot in table.snapshots() for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()}
    assert {str(path) for path in tmp_path.rglob("*.parquet")} == {path.removeprefix("file://") for path in named}
