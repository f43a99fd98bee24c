"""The change feed: applied to the rows of one snapshot, the changes up to another give the rows of that one."""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from tests.table.change_model import History, apply_changes, new_history

from icefloe import Catalog, InMemoryCatalog
from icefloe.datafile import data_file_reader, stored_file
from icefloe.datafile.parquet import parquet_rows
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.types import ListType, StringType
from icefloe.table import Table

MODES = ("none", "dropCarryovers", "netChanges")


def check_pair(history: History, start: int | None, end: int, modes: Sequence[str] = MODES) -> None:
    """Check the changes between two snapshots."""
    table, before, after = history.table, history.state(start), history.state(end)
    columns = len(table.schema().fields)
    for mode in modes:
        changes = table.changes(start, end, deduplication_mode=mode).to_arrow()
        stream = table.changes(start, end, deduplication_mode=mode).to_arrow_batch_reader().read_all()
        assert sorted(map(str, stream.to_pylist())) == sorted(map(str, changes.to_pylist())), mode
        assert stream["_change_ordinal"].to_pylist() == changes["_change_ordinal"].to_pylist(), "a stream has the changes in order"
        assert set(changes["_change_type"].to_pylist()) <= {"INSERT", "DELETE"}
        assert apply_changes_of(mode, before, changes, columns) == after, mode
        check_some_columns(history, table.changes(start, end, deduplication_mode=mode), changes)
        updates = (
            table.changes(start, end, deduplication_mode=mode, compute_updates=True, identifier_columns=["id"]) if mode != "none" else None
        )
        by_id = table.changes(start, end, deduplication_mode=mode, compute_updates=True) if table.format_version == 3 else None
        for scan in (updates, by_id):
            if scan is not None:
                labelled = scan.to_arrow()
                check_some_columns(history, scan, labelled)
                assert apply_changes_of(mode, before, labelled, columns) == after, mode
                check_updates(labelled, mode)
    net = table.changes(start, end, deduplication_mode="netChanges", identifier_columns=["id"]).to_arrow()
    rows = [tuple(row.values()) for row in net.select(net.column_names[:columns]).to_pylist()]
    kinds = net["_change_type"].to_pylist()
    check_rows_without_columns(table.scan(snapshot_id=end), after.total())
    assert Counter(row for row, kind in zip(rows, kinds, strict=True) if kind == "DELETE") == before - after
    assert Counter(row for row, kind in zip(rows, kinds, strict=True) if kind == "INSERT") == after - before


def apply_changes_of(mode: str, before: Counter[Any], changes: Any, columns: int) -> Counter[Any]:
    if mode != "netChanges":
        return apply_changes(before, changes, columns)
    # Net changes are those of the whole range: the ordinals of an update may differ.
    return apply_changes(
        before, changes.set_column(changes.column_names.index("_change_ordinal"), "_change_ordinal", [[0] * len(changes)]), columns
    )


def check_rows_without_columns(scan: Any, expected: int) -> None:
    """Check that the rows of a scan without columns are counted, in both forms."""
    rows = scan.select().to_arrow()
    batches = scan.select().to_arrow_batch_reader()
    assert (rows.num_rows, rows.num_columns, len(batches.schema), sum(batch.num_rows for batch in batches)) == (expected, 0, 0, expected)


def check_some_columns(history: History, scan: Any, changes: Any) -> None:
    """Check that a scan of some or no columns has the rows of the scan of all columns."""
    check_rows_without_columns(scan, len(changes))
    names = [name for name in changes.column_names if history.chance.random() < 0.4]
    some = scan.select("_spec_id", *names).to_arrow()
    assert some.column_names == [*names, "_spec_id"]
    assert Counter(map(str, some.select(names).to_pylist())) == Counter(map(str, changes.select(names).to_pylist())), names


def check_updates(changes: Any, mode: str) -> None:
    """Check that every update has its two rows, with the same key, in one snapshot."""
    by_key: dict[Any, list[str]] = {}
    for row in changes.to_pylist():
        if row["_change_type"].startswith("UPDATE"):
            place = None if mode == "netChanges" else row["_commit_snapshot_id"]
            by_key.setdefault((row["id"], place), []).append(row["_change_type"])
    assert all(sorted(kinds) == ["UPDATE_AFTER", "UPDATE_BEFORE"] for kinds in by_key.values()), by_key


def check_history(seed: int, steps: int, *, is_short: bool = False) -> None:
    """Check all modes between some snapshots; if the check is short, one mode between two snapshots and one between neighbours."""
    history = new_history(seed, steps)
    try:
        line = [snapshot.snapshot_id for snapshot in history.table.ancestors()][::-1]
        pairs = [(start, end) for place, start in enumerate(line) for end in line[place + 1 :]]
        nearby = list(pairwise(line))
        of_all, of_nearby = (1, 1) if is_short else (3, 2)
        chosen = {*history.chance.sample(pairs, min(len(pairs), of_all)), *history.chance.sample(nearby, min(len(nearby), of_nearby))}
        for start, end in sorted(chosen):
            check_pair(history, start, end, [history.chance.choice(MODES)] if is_short else MODES)
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(history.steps)}")
        raise


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(1000, 11_000, 100))])
def test_changes_between_snapshots_of_random_histories_give_the_rows_of_the_later_one(first: int) -> None:
    for seed in range(first, first + (100 if first else 2)):
        check_history(seed, steps=9, is_short=first > 0)


FIELDS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("inner", pa.struct([("x", pa.int32())]))])


def people(*given: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "name": name, "inner": {"x": number % 3}} for number, name in given], schema=FIELDS)


def new_table(name: str, version: int, mode: str = "merge-on-read") -> Table:
    catalog = InMemoryCatalog(name)
    catalog.create_namespace("db")
    properties = {"format-version": str(version), **{f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}}
    return catalog.create_table("db.t", FIELDS, properties=properties)


def kinds(changes: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["_change_type"], row["id"], row["name"]) for row in changes.to_pylist())


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the location of each data file that is opened is added."""
    opened: list[str] = []
    real = stored_file.opened_stored_file

    def opening(io: Any, task: Any, *rest: Any, **options: Any) -> Any:
        opened.append(task.file.file_path)
        return real(io, task, *rest, **options)

    monkeypatch.setattr(data_file_reader, "opened_stored_file", opening)
    return opened


def test_only_changed_files_are_opened_and_a_compaction_has_no_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table("opened", 3)
    for start in range(0, 40, 10):
        table.append(people(*((number, "a") for number in range(start, start + 10))))
    begin = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    files = {task.file.lower_bounds[1]: task.file.file_path for task in table.scan().plan_files(include_statistics=True)}  # type: ignore[index]
    table.delete("id = 12")
    table.append(people((50, "new")))
    opened = opened_files(monkeypatch)
    assert kinds(table.changes(begin).to_arrow()) == [("DELETE", 12, "a"), ("INSERT", 50, "new")]
    assert len(set(opened)) == 2
    assert files[(10).to_bytes(8, "little")] in opened
    compacted = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    assert table.current_snapshot().snapshot_id != compacted  # type: ignore[union-attr]
    opened.clear()
    assert table.changes(compacted).to_arrow().num_rows == 0
    assert opened == []
    assert table.scan().appends_between(begin, compacted).select("id").to_arrow()["id"].to_pylist() == [50]


def test_only_row_groups_with_changed_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table("groups", 2)
    table.set_properties({"write.parquet.row-group-limit": "1000", "write.parquet.row-group-size-bytes": "20000"})
    table.append(people(*((number, f"name {number}") for number in range(20_000))))
    begin = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.delete("id >= 11000 and id < 11010")
    table.delete_keys(pa.table({"id": pa.array([3000, 3001], pa.int64())}), ["id"])
    groups: list[int] = []
    real = parquet_rows.ParquetRows._run

    def run(self: Any, file: Any, row_groups: list[int], first_row: int, leaves: Any) -> Any:
        groups.extend(row_groups if len(leaves) > 2 else ())
        return real(self, file, row_groups, first_row, leaves)

    monkeypatch.setattr(parquet_rows.ParquetRows, "_run", run)
    rows = table.changes(begin).to_arrow()
    assert rows["id"].to_pylist() == [*range(11_000, 11_010), 3000, 3001]
    assert rows["inner"].to_pylist()[-1] == {"x": 1}
    assert 0 < len(groups) <= 3


def test_updates_are_found_by_row_id_and_then_by_identifier_fields() -> None:
    table = new_table("updates", 3)
    with table.update_schema() as update:
        update.set_identifier_fields("id")
    table.append(people((1, "a"), (2, "b"), (3, "c")))
    begin = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.upsert(people((2, "B")), ["id"])  # keeps the row id
    with table.transaction() as tx:  # as a stream of upserts writes: the row has a new id
        tx.delete_keys(pa.table({"id": pa.array([3], pa.int64())}), ["id"])
        tx.append(people((3, "C")))
    scan = table.changes(begin, compute_updates=True, deduplication_mode="netChanges")
    assert kinds(scan.to_arrow()) == [
        ("UPDATE_AFTER", 2, "B"),
        ("UPDATE_AFTER", 3, "C"),
        ("UPDATE_BEFORE", 2, "b"),
        ("UPDATE_BEFORE", 3, "c"),
    ]
    ids = scan.select("id", "_change_type", "_row_id").to_arrow().to_pylist()
    assert {row["_row_id"] for row in ids if row["id"] == 2} == {1}
    # A filter keeps one row of an update, which is still an update.
    assert kinds(scan.filter("name = 'B'").to_arrow()) == [("UPDATE_AFTER", 2, "B")]
    table.upsert(people((2, "b")), ["id"])
    assert kinds(table.changes(begin, deduplication_mode="NETCHANGES").to_arrow()) == [("DELETE", 3, "c"), ("INSERT", 3, "C")]
    with pytest.raises(InvalidInputError, match="no deduplication mode 'some'"):
        table.changes(deduplication_mode="some")
    with pytest.raises(InvalidInputError, match="no identifier fields"):
        new_table("without", 2).changes(compute_updates=True).to_arrow()


@pytest.mark.parametrize("mode", ["dropCarryovers", "netChanges"])
def test_a_key_that_was_deleted_and_inserted_in_several_rows_is_an_error_only_where_rows_have_no_ids(mode: str) -> None:
    def changed(version: int, before: pa.Table, after: pa.Table, **options: Any) -> list[tuple[Any, ...]]:
        table = new_table("keys", version, "copy-on-write")
        with table.update_schema() as update:
            update.set_identifier_fields("id")
        table.append(before)
        start = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
        table.overwrite(after)
        line = table.ancestors()
        assert len(line) == 2
        return kinds(table.changes(start, compute_updates=True, deduplication_mode=mode, **options).to_arrow())

    one, two, other = people((1, "a")), people((1, "b"), (1, "c")), people((2, "d"))
    for before, after in ((one, two), (two, one)):
        where = "db.t" if mode == "netChanges" else r"snapshot [0-9]+ of .*db\.t"
        with pytest.raises(InvalidInputError, match=rf"{where} changed several rows with id = 1\n.*identifier columns that are unique"):
            changed(2, before, after)
        with pytest.raises(InvalidInputError, match="changed several rows with id = 1"):
            changed(3, before, after, identifier_columns=["id"])
        ids = {row[1:] for row in changed(3, before, after)}
        assert ids == {(1, "a"), (1, "b"), (1, "c")}
        assert {row[0] for row in changed(3, before, after)} == {"DELETE", "INSERT"}
    for before, after in ((other, two), (two, other)):
        assert {row[0] for row in changed(2, before, after)} == {"DELETE", "INSERT"}, "only deleted, or only inserted"


def with_nested_key(catalog: Catalog, name: str, version: int) -> Table:
    """Create a table whose key is a column and a field of a struct, with an overwrite of an updated, a deleted and an inserted row of one `id`."""
    place = pa.struct([pa.field("zip", pa.int64(), nullable=False), ("city", pa.string())])
    schema = pa.schema([pa.field("place", place, nullable=False), pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    table = catalog.create_table(name, schema, properties={"format-version": str(version)})
    with table.update_schema() as update:
        update.set_identifier_fields("place.zip", "id")

    def rows(*given: tuple[int, str]) -> pa.Table:
        listed = [{"place": {"zip": code, "city": name}, "id": 1, "name": name} for code, name in given]
        return pa.Table.from_pylist(listed, schema=table.schema().as_arrow())

    table.append(rows((1, "a"), (2, "b")))
    table.overwrite(rows((1, "A"), (3, "c")))
    return table


# The columns zip, name and the kind of the changes that `with_nested_key` makes last.
NESTED_KEY_CHANGES = [(1, "A", "UPDATE_AFTER"), (1, "a", "UPDATE_BEFORE"), (2, "b", "DELETE"), (3, "c", "INSERT")]


@pytest.mark.parametrize("version", [2, 3])
def test_updates_are_found_by_keys_inside_of_structs(version: int) -> None:
    catalog = InMemoryCatalog(f"nested{version}")
    catalog.create_namespace("db")
    table = with_nested_key(catalog, "db.t", version)
    begin = table.snapshots()[0].snapshot_id

    def found(**options: Any) -> list[tuple[Any, ...]]:
        changes = table.changes(begin, compute_updates=True, **options).select("place", "name", "_change_type").to_arrow()
        return sorted((row["place"]["zip"], row["name"], row["_change_type"]) for row in changes.to_pylist())

    assert found() == found(identifier_columns=["id", "place.zip"]) == NESTED_KEY_CHANGES
    assert found(identifier_columns=["PLACE.ZIP"], case_sensitive=False) == NESTED_KEY_CHANGES
    with pytest.raises(InvalidInputError, match="changed several rows with id = 1"):
        found(identifier_columns=["id"])
    with table.update_schema() as update:
        update.add_column("tags", ListType(element_id=9, element=StringType(), element_required=False))
    for name in ("place.none", "tags.element"):
        with pytest.raises(InvalidInputError, match=f"have no column '{name}'"):
            found(identifier_columns=[name])


def test_an_upgrade_keeps_updates_and_copies_apart_although_old_rows_have_no_ids() -> None:
    table = new_table("upgraded", 2, "copy-on-write")
    table.append(people((1, "a"), (2, "b"), (3, "c")))
    begin = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.upgrade_table_version(3)
    table.upsert(people((2, "B")), ["id"])
    assert kinds(table.changes(begin).to_arrow()) == [("DELETE", 2, "b"), ("INSERT", 2, "B")]
    table.upsert(people((3, "C")), ["id"])
    table.delete("id = 1")
    changes = table.changes(begin, compute_updates=True, deduplication_mode="netChanges", identifier_columns=["id"]).to_arrow()
    assert kinds(changes) == [
        ("DELETE", 1, "a"),
        ("UPDATE_AFTER", 2, "B"),
        ("UPDATE_AFTER", 3, "C"),
        ("UPDATE_BEFORE", 2, "b"),
        ("UPDATE_BEFORE", 3, "c"),
    ]


def test_bounds_are_snapshots_refs_or_times_and_are_included_or_not() -> None:
    table = new_table("bounds", 2)
    for number in range(4):
        table.append(people((number, "a")))
    snapshots = table.snapshots()
    ids = [snapshot.snapshot_id for snapshot in snapshots]
    metadata = table.metadata
    spread = [replace(snapshot, timestamp_ms=1000 * place + 500) for place, snapshot in enumerate(metadata.snapshots)]
    refs = {**metadata.refs, "side": SnapshotRef(snapshot_id=ids[1])}
    table._loaded = replace(table._loaded, metadata=replace(metadata, snapshots=spread, refs=refs))

    def found(*bounds: Any, **options: Any) -> list[int]:
        return table.changes(*bounds, **options).select("id").to_arrow()["id"].to_pylist()  # type: ignore[no-any-return]

    def at(milliseconds: float) -> dt.datetime:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)

    assert found() == [0, 1, 2, 3]
    assert found(ids[1]) == found(at(1500)) == found(at(1999)) == [2, 3]
    assert found(ids[1], includes_start=True) == found(at(1500), includes_start=True) == [1, 2, 3]
    assert found(at(1500.001), includes_start=True) == [2, 3]
    assert found(ids[0], ids[2]) == found(at(500), at(2500)) == [1, 2]
    assert found(ids[0], ids[2], includes_end=False) == found(at(500), at(2500), includes_end=False) == [1]
    assert found(ids[2], ids[2]) == found(ids[2], ids[2], includes_end=False) == found(at(9000)) == found(None, at(1)) == []
    assert found(ids[2], ids[2], includes_start=True) == [2]
    assert found(branch="side") == found(None, at(9000), branch="side") == [0, 1]
    assert found(at(500), at(1500), branch="side") == [1]
    assert found(None, at(1500), includes_end=False, branch="side") == [0]
    with pytest.raises(InvalidInputError, match="of the branch 'side', and ends at"):
        found(None, ids[1], branch="side")
    with pytest.raises(InvalidInputError, match="not an ancestor"):
        found(ids[3], ids[1])
    with pytest.raises(InvalidInputError, match=r"begins at .* and ends at"):
        found(at(5), at(4))
    with pytest.raises(InvalidInputError, match="has no time zone"):
        found(dt.datetime(2020, 1, 1))
    with pytest.raises(NoSuchSnapshotError, match="no snapshot 7"):
        found(7)
    with pytest.raises(NoSuchSnapshotError):
        found("nothing")


def test_a_column_with_the_name_of_one_of_the_change_is_named() -> None:
    table = new_table("taken", 2)
    with table.update_schema() as update:
        update.add_column("_commit_timestamp", StringType())
    table.append(people((1, "a")).append_column("_commit_timestamp", pa.array(["own"])))
    assert table.changes().select("_commit_timestamp").to_arrow()["_commit_timestamp"].to_pylist() == ["own"]
    with table.update_schema() as update:
        update.add_column("_change_type", StringType())
    with pytest.raises(InvalidInputError, match=r"db\.t have a column _change_type, and so has the table\n  Next: rename"):
        table.changes().to_arrow()


def test_a_start_time_before_expired_snapshots_is_refused() -> None:
    table = new_table("expired", 2)
    for number in range(3):
        table.append(people((number, "a")))
    table.expire_snapshots(snapshot_ids=[table.snapshots()[0].snapshot_id])
    with pytest.raises(InvalidInputError, match=r"after 2020-.* were expired"):
        table.changes(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(InvalidInputError, match=r"after 2020-.* were expired"):
        table.changes(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 2, tzinfo=dt.UTC))
    assert table.changes().select("id").to_arrow()["id"].to_pylist() == [1, 2]
