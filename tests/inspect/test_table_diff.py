"""`diff`: what differs between two versions of a table, or two tables, and the changed rows."""

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.combinations import combinations
from tests.repetitions import examples

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError, NoSuchSnapshotError, SchemaMismatchError
from icefloe.inspect import diff
from icefloe.inspect.comparison import file_changes
from icefloe.inspect.comparison.row_hasher import RowHasher
from icefloe.procedures import call
from icefloe.table import StaticTable, Table
from icefloe.types import LongType

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("value", pa.float64())])


def make_table(folder: Path, name: str = "db.t", version: str = "2", mode: str = "merge-on-read") -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    properties = {"format-version": version, "write.delete.mode": mode}
    return catalog.create_table(name, SCHEMA, partition_spec=["kind"], properties=properties)


def rows(*ids: int, kind: str = "a") -> pa.Table:
    return pa.table({"id": ids, "kind": [kind] * len(ids), "value": [float(one) for one in ids]}, schema=SCHEMA)


def counted(table: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


def applied(before: pa.Table, changes: pa.Table) -> Counter[str]:
    """Return the rows of `before` after the changes, as a multiset. A removed row must be there."""
    result = counted(before)
    names = [name for name in changes.column_names if name != "_change_type"]
    for change, sign in (("DELETE", -1), ("INSERT", 1)):
        mask = pa.compute.equal(changes["_change_type"], change)
        for row, count in counted(changes.filter(mask).select(names)).items():
            result[row] += sign * count
    assert all(count >= 0 for count in result.values())
    return +result


def ids(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.snapshots()]


def test_two_snapshots_differ_in_files_partitions_statistics_and_operations(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.append(rows(7, 8, 9, kind="b"))
    table.delete("id = 1")
    first, _, last = ids(table)
    found = diff(table, from_version=first)
    assert found.history.relation == "later"
    assert [step.operation for step in found.history.steps] == ["append", "delete"]
    assert next(step.added_rows for step in found.history.steps) == 3
    assert (found.data_files.added.files, found.data_files.added.rows) == (1, 3)
    assert (found.data_files.kept.files, found.data_files.kept.rows) == (1, 2)
    assert found.data_files.removed.files == 0
    assert found.delete_files.added.files == 1
    by_name = {one.partition: one for one in found.partitions}
    assert by_name["kind=b"].before.rows == 0
    assert by_name["kind=b"].after.rows == 3
    assert by_name["kind=a"].after.deletes == 1
    statistics = {one.name: one for one in found.columns}
    assert statistics["id"].before is not None
    assert statistics["id"].after is not None
    assert (statistics["id"].before.lower, statistics["id"].before.upper) == ("1", "2")
    assert (statistics["id"].after.lower, statistics["id"].after.upper) == ("1", "9")
    text = str(found)
    assert str(last) in text
    assert "kind=b" in text
    assert found.rows is None
    back = diff(table, from_version=last, to_version=first)
    assert back.history.relation == "earlier"
    assert back.data_files.removed == found.data_files.added


def test_sizes_and_rows_of_the_files_are_those_of_the_metadata_table(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.append(rows(7, 8, 9, kind="b"))
    first, last = ids(table)
    files = {
        one: set(zip(*(table.inspect.files(one)[name].to_pylist() for name in ("file_path", "file_size_in_bytes")), strict=True))
        for one in (first, last)
    }
    found = diff(table, from_version=first)
    assert found.data_files.added.bytes == sum(size for _, size in files[last] - files[first])
    assert found.data_files.kept.bytes == sum(size for _, size in files[last] & files[first])


def test_the_settings_are_those_of_the_time_of_each_snapshot(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    with table.update_schema() as update:
        update.add_column("more", LongType())
        update.rename_column("value", "worth")
    with table.update_spec() as spec:
        spec.add_field("id", "bucket[4]", "id_bucket")
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "x"})
    table.append(pa.table({"id": [2], "kind": ["a"], "worth": [1.0], "more": [5]}))
    first, _ = ids(table)
    found = diff(table, from_version=first).layout
    assert {(one.change, one.name) for one in found.schema} == {("added", "more"), ("changed", "value")}
    assert found.partition_spec is not None
    assert found.partition_spec.after is not None
    assert "bucket[4](id)" in found.partition_spec.after
    assert [(one.name, one.after) for one in found.properties] == [("owner", "x")]
    assert found.settings_known
    for path in Path(table.metadata_location).parent.glob("0000[1-4]-*.metadata.json"):
        path.unlink()
    gone = diff(StaticTable.from_metadata(table.metadata_location), from_version=first)
    assert not gone.layout.settings_known
    assert {one.name for one in gone.layout.schema} == {"more", "value"}
    assert "is gone" in str(gone)


def test_a_metadata_log_that_names_a_file_outside_of_the_table_is_not_followed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    location = Path(table.metadata_location)
    outside = tmp_path / "outside.metadata.json"
    outside.write_text(location.read_text())
    document = location.read_text()
    for entry in table.metadata.metadata_log:
        document = document.replace(entry.metadata_file, str(outside))
    location.write_text(document)
    stored = StaticTable.from_metadata(str(location))
    assert not diff(stored, from_version=ids(table)[0]).layout.settings_known


def test_branches_that_diverged_have_the_snapshots_of_each(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.manage_snapshots().create_branch(ids(table)[0], "audit").commit()
    table.append(rows(2), branch="audit")
    table.append(rows(3))
    found = diff(table, from_version="audit", to_version="main", rows=True)
    assert found.history.relation == "diverged"
    assert found.history.common_snapshot_id == ids(table)[0]
    assert [step.side for step in found.history.steps] == ["before", "after"]
    assert found.rows is not None
    assert (found.rows.removed, found.rows.added) == (1, 1)
    assert [(row["id"], row["_change_type"]) for row in found.rows.sample] == [(2, "DELETE"), (3, "INSERT")]


@pytest.mark.parametrize(("version", "mode"), combinations(["1", "2", "3"], ["merge-on-read", "copy-on-write"]))
def test_rows_that_were_only_copied_cancel_out_and_repeated_rows_are_counted(tmp_path: Path, version: str, mode: str) -> None:
    if version == "1" and mode == "merge-on-read":
        mode = "copy-on-write"
    table = make_table(tmp_path, version=version, mode=mode)
    table.append(rows(1, 1, 1, 2, 3))
    table.delete("id = 2")
    table.append(rows(1, 9))
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    found = diff(table, from_version=ids(table)[0], rows=True).rows
    assert found is not None
    assert (found.removed, found.added) == (1, 2)
    assert sorted((row["id"], row["_change_type"]) for row in found.sample) == [(1, "INSERT"), (2, "DELETE"), (9, "INSERT")]
    updates = found.to_arrow(["value"])
    assert set(updates["_change_type"].to_pylist()) == {"INSERT", "DELETE"}


def test_a_removed_and_an_added_row_of_one_key_are_an_update(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.upsert(pa.table({"id": [2], "kind": ["a"], "value": [7.5]}, schema=SCHEMA), join_cols=["id"])
    found = diff(table, from_version=ids(table)[0], rows=True).rows
    assert found is not None
    updates = found.to_arrow(["id"])
    assert sorted(zip(updates["value"].to_pylist(), updates["_change_type"].to_pylist(), strict=True)) == [
        (2.0, "UPDATE_BEFORE"),
        (7.5, "UPDATE_AFTER"),
    ]
    with pytest.raises(InvalidInputError):
        found.to_arrow(["nothing"])


def test_two_tables_are_compared_by_the_names_of_their_columns(tmp_path: Path) -> None:
    one, other = make_table(tmp_path, "db.one"), make_table(tmp_path, "db.other")
    one.append(rows(1, 2))
    with other.update_schema() as update:
        update.add_column("more", LongType())
        update.move_first("value")
    other.append(pa.table({"id": [2, 3], "kind": ["a", "a"], "value": [2.0, 3.0], "more": pa.array([None, 1], pa.int64())}))
    found = diff(one, other, rows=True)
    assert found.history.relation == "other table"
    assert {(change.change, change.name) for change in found.layout.schema} == {("added", "more"), ("changed", "order of columns")}
    assert found.rows is not None
    assert (found.rows.removed, found.rows.added) == (1, 1)
    assert set(found.rows.columns) == {"id", "kind", "value"}
    with pytest.raises(InvalidInputError):
        diff(one, other, rows=True, columns=["more"])


def test_columns_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    one = make_table(tmp_path)
    other = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).create_table(
        "db.u", pa.schema([("id", pa.string())])
    )
    with pytest.raises(SchemaMismatchError):
        diff(one, other, rows=True)
    assert [(change.before, change.after) for change in diff(one, other).layout.schema if change.name == "id"] == [("long", "string")]


def test_wrong_arguments_are_refused_with_what_there_is(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    with pytest.raises(InvalidInputError, match="nothing is named"):
        diff(table)
    with pytest.raises(NoSuchSnapshotError, match="no snapshot, branch or tag 'v9'"):
        diff(table, from_version="v9")
    with pytest.raises(InvalidInputError, match="columns are named"):
        diff(table, from_version="main" if table.refs() else None, to_version=None, b=table, columns=["id"])


def test_a_table_without_snapshots_can_be_compared(tmp_path: Path) -> None:
    table, other = make_table(tmp_path), make_table(tmp_path, "db.u")
    other.append(rows(1))
    found = diff(table, other, rows=True)
    assert found.rows is not None
    assert (found.rows.removed, found.rows.added) == (0, 1)
    assert "no snapshot" in str(found)


def test_equal_versions_differ_in_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    found = diff(table, from_version="main", rows=True)
    assert found.history.relation == "same"
    assert list(found.changes()) == []
    assert found.rows is not None
    assert (found.rows.removed, found.rows.added) == (0, 0)


def test_the_report_the_json_and_the_html_have_no_markup_of_the_table(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, kind="<script>alert(1)</script>\x1b[31m"))
    table.append(rows(2, kind="b"))
    found = diff(table, from_version=ids(table)[0], to_version="main", rows=True)
    back = diff(table, from_version="main", to_version=ids(table)[0], rows=True)
    for one in (found, back):
        assert "<script>" not in one._repr_html_()
        assert "\x1b" not in str(one)
        assert one.to_dict()["rows"]["sample"]
        assert "\x1b" not in one.to_json()


def test_the_procedure_has_a_row_for_each_difference(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2, kind="b"))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    found = call(catalog, "diff", table="db.t", from_version=str(ids(table)[0]))
    assert {row["section"] for row in found} == {"snapshot", "ref", "data files", "partition", "column statistics"}
    assert ("partition", "kind=b") in {(row["section"], row["name"]) for row in found}
    make_table(tmp_path, "db.u")
    assert {row["change"] for row in call(catalog, "diff", table="db.t", other_table="db.u") if row["section"] == "data files"} == {
        "removed"
    }


VALUES = st.one_of(st.none(), st.floats(allow_nan=True, width=64), st.sampled_from([0.0, -0.0]))
KINDS = st.sampled_from(["a", "b", "ä"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.tuples(st.integers(0, 4), KINDS, VALUES), min_size=1, max_size=5)),
        st.tuples(st.just("delete"), st.integers(0, 4)),
        st.tuples(st.just("overwrite"), st.lists(st.tuples(st.integers(0, 4), KINDS, VALUES), min_size=1, max_size=3)),
        st.tuples(st.just("compact"), st.none()),
    ),
    min_size=1,
    max_size=6,
)


@given(steps=STEPS, version=st.sampled_from(["2", "3"]), mode=st.sampled_from(["merge-on-read", "copy-on-write"]), data=st.data())
@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
def test_the_row_changes_applied_to_the_first_version_give_the_second(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], version: str, mode: str, data: st.DataObject
) -> None:
    table = make_table(tmp_path_factory.mktemp("diff"), version=version, mode=mode)
    for kind, argument in steps:
        if kind in ("append", "overwrite"):
            columns: Any = dict(zip(SCHEMA.names, zip(*argument, strict=True), strict=True))
            new = pa.table({name: list(values) for name, values in columns.items()}, schema=SCHEMA)
            table.append(new) if kind == "append" else table.overwrite(new, "id >= 3")
        elif kind == "delete":
            table.delete(f"id = {argument}")
        elif table.current_snapshot() is not None:
            table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    known = ids(table)
    if not known:
        return
    one, other = (data.draw(st.sampled_from(known)) for _ in range(2))
    found = diff(table, from_version=one, to_version=other, rows=True).rows
    assert found is not None
    changes = found.to_arrow()
    before, after = (table.scan(snapshot_id=snapshot_id).to_arrow() for snapshot_id in (one, other))
    assert applied(before, changes) == counted(after)
    # No row is in both sides: the changes are the fewest that there are.
    names = list(SCHEMA.names)
    sides = [counted(changes.filter(pa.compute.equal(changes["_change_type"], kind)).select(names)) for kind in ("DELETE", "INSERT")]
    assert not sides[0] & sides[1] or any("nan" in row for row in sides[0])
    assert (found.removed, found.added) == tuple(sum(side.values()) for side in sides)


COLUMNS = pa.table(
    {
        "b": pa.array([True, False, None]),
        "i": pa.array([1, None, -1], pa.int32()),
        "f": pa.array([0.0, -0.0, None], pa.float32()),
        "s": pa.array(["", None, "a"]),
        "bytes": pa.array([b"", b"\0", None]),
        "d": pa.array([dt.date(2024, 1, 1), None, dt.date(1900, 1, 1)]),
        "t": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None, None], pa.timestamp("us", "UTC")),
        "dec": pa.array([None, 1, 2], pa.decimal128(20, 3)),
        "l": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
        "st": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}]),
        "m": pa.array([[("a", 1)], [("b", 2), ("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        "n": pa.nulls(3),
    }
)


@pytest.mark.parametrize("name", COLUMNS.column_names)
def test_hashes_are_equal_for_equal_values_alone(name: str) -> None:
    hasher = RowHasher()
    column = COLUMNS.select([name])
    hashes = [tuple(one) for one in hasher.hashes(column).tolist()]
    assert hashes == [tuple(one) for one in hasher.hashes(pa.concat_tables([column.slice(one, 1) for one in range(3)])).tolist()]
    assert len(set(hashes)) == len({repr(value) for value in column[name].to_pylist()})
    assert hashes != [tuple(one) for one in RowHasher().hashes(column).tolist()]  # the key is secret


def test_a_hash_depends_on_the_column_of_a_value() -> None:
    hasher = RowHasher()
    one = hasher.hashes(pa.table({"a": [1], "b": [2]})).tolist()
    assert one != hasher.hashes(pa.table({"a": [2], "b": [1]})).tolist()


@pytest.mark.parametrize("entries", [1, 3, 1_000_000])
def test_manifests_that_are_read_together_give_the_counts_of_the_metadata_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    table = make_table(tmp_path)
    for number in range(6):
        table.append(pa.concat_tables([rows(number, number + 10), rows(number, kind="b")]))
    table.delete("id = 3")
    table.overwrite(rows(99, kind="c"), "kind = 'b'")
    monkeypatch.setattr(file_changes, "_ENTRIES_AT_ONCE", entries)
    first, last = ids(table)[2], ids(table)[-1]
    found = diff(table, from_version=first)
    files = {one: {row["file_path"]: row for row in table.inspect.files(one).to_pylist()} for one in (first, last)}
    for name, chosen in (
        ("added", files[last].keys() - files[first].keys()),
        ("removed", files[first].keys() - files[last].keys()),
        ("kept", files[last].keys() & files[first].keys()),
    ):
        for kind, counted_files in (((0,), found.data_files), ((1, 2), found.delete_files)):
            mine = [{**files[first], **files[last]}[path] for path in chosen]
            mine = [row for row in mine if row["content"] in kind]
            expected = (len(mine), sum(row["file_size_in_bytes"] for row in mine), sum(row["record_count"] for row in mine))
            counts = getattr(counted_files, name)
            assert (counts.files, counts.bytes, counts.rows) == expected, (name, kind)
    by_name = {one.partition: (one.before.rows, one.after.rows) for one in found.partitions}
    assert by_name == {"kind=a": (6, 12), "kind=b": (3, 0), "kind=c": (0, 1)}


def test_column_statistics_are_left_out_on_request(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.append(rows(7))
    whole, without = (diff(table, from_version=ids(table)[0], statistics=statistics) for statistics in (True, False))
    assert [one.name for one in whole.columns] == ["id", "value"]
    assert without.columns == ()
    assert (without.data_files, without.partitions) == (whole.data_files, whole.partitions)


def test_partitions_of_both_zeros_and_of_nan_are_different(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.f", pa.schema([("x", pa.float64())]), partition_spec=["x"])
    table.append(pa.table({"x": [1.0]}))
    table.append(pa.table({"x": [0.0, -0.0, float("nan"), float("nan"), None]}))
    found = {one.partition: one.after.rows for one in diff(table, from_version=ids(table)[0]).partitions}
    assert found == {"x=0.0": 1, "x=-0.0": 1, "x=nan": 2, "x=null": 1}
