"""What the values of a table display of themselves: at a prompt a few lines, in a notebook HTML."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table
from icefloe.inspect import METADATA_TABLES, metadata_table
from icefloe.inspect import table as table_overview
from icefloe.operations.write_result import WriteResult
from icefloe.spec.metadata.snapshot_ref import SnapshotRef

ROWS = pa.table({"id": [1, 2], "kind": ["a", "b"]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("kind", pa.string())]))
    table.append(ROWS)
    table.delete("id = 1")
    return table


def test_snapshots_are_a_list_that_is_displayed_as_a_table(table: Table) -> None:
    snapshots = table.snapshots()
    first, second = snapshots
    assert isinstance(snapshots, list)
    assert snapshots == [first, second]
    assert snapshots[-1] is second
    title, header, *rows = repr(snapshots).splitlines()
    assert title == "2 snapshots of lake.db.t, oldest first"
    assert header.split() == ["snapshot", "committed", "(UTC)", "operation", "rows", "+", "rows", "-", "rows", "files"]
    assert [row.split()[0] for row in rows] == [str(first.snapshot_id), str(second.snapshot_id)]
    assert [row.split()[-4:] for row in rows] == [["2", "0", "2", "1"], ["1", "2", "1", "1"]]
    assert max(map(len, repr(snapshots).splitlines())) <= 80
    assert str(second.snapshot_id) in snapshots._repr_html_()
    assert repr(table.ancestors()).splitlines()[2].split()[0] == str(second.snapshot_id)


def test_a_long_list_of_snapshots_displays_the_newest(table: Table) -> None:
    for _ in range(30):
        table.append(ROWS)
    title, _, *rows = repr(table.snapshots()).splitlines()
    assert title == "32 snapshots of lake.db.t, the newest 20, oldest first"
    assert [row.split()[0] for row in rows] == [str(one.snapshot_id) for one in table.snapshots()[-20:]]
    assert [row.split()[0] for row in repr(table.ancestors()).splitlines()[2:]] == [str(one.snapshot_id) for one in table.ancestors()[:20]]


def test_a_snapshot_is_displayed_in_one_line(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (data_file,) = table.inspect.data_files()["file_path"].to_pylist()
    text = repr(snapshot)
    assert text.startswith(f"Snapshot({snapshot.snapshot_id}: overwrite, 2")
    size = f"{Path(data_file).stat().st_size} B"
    assert text.endswith(f"1 row added and 2 rows removed, 1 row in 1 file, {size}, parent {snapshot.parent_snapshot_id})")
    assert "engine-name" in snapshot._repr_html_()


def test_a_schema_is_displayed_as_its_columns(table: Table) -> None:
    assert repr(table.schema()) == "Schema 0, 2 columns\n  1: id: optional long\n  2: kind: optional string"
    assert ">kind</td>" in table.schema()._repr_html_()


def test_wide_tables_are_displayed_in_a_few_lines(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    wide = catalog.create_table("db.wide", pa.schema([(f"c{number}", pa.int64()) for number in range(1000)]))
    assert len(repr(wide.schema()).splitlines()) == 22
    assert "… and 980 more" in repr(wide.schema())
    assert len(repr(wide).splitlines()) < 30
    assert "… and 800 more" in wide._repr_html_()


def test_a_notebook_shows_a_table_in_the_words_of_its_overview(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, partition_spec=["kind", "bucket(4, id)"])
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    html = table._repr_html_()
    for text in (f">{snapshot.snapshot_id}</td>", ">kind, bucket[4](id)</td>", ">nothing</td>"):
        assert text in html
    assert table_overview(table).partitioning == "kind, bucket[4](id)"
    assert (">none</td>" in snapshot._repr_html_(), "parent " in snapshot._repr_html_()) == (True, False)
    assert repr(snapshot).endswith(", no parent)")


def test_snapshots_name_their_branches_and_tags(table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "gold").commit()
    _, header, *rows = repr(table.snapshots()).splitlines()
    assert header.endswith("  refs")
    assert [row.split()[-1] for row in rows] == ["gold", "main"]


def test_values_of_a_table_are_one_short_line(table: Table) -> None:
    table.update_spec().add_field("kind", "identity").commit()
    first = table.history()[0]
    assert repr(table.spec()) == "PartitionSpec(1: 1000: kind: identity(2))"
    assert repr(table.specs()[0]) == "PartitionSpec(0: unpartitioned)"
    assert repr(table.sort_order()) == "SortOrder(0: unsorted)"
    assert repr(first).startswith(f"SnapshotLogEntry({first.snapshot_id} from 20")
    assert repr(table.refs()["main"]) == f"SnapshotRef(branch at {table.history()[-1].snapshot_id})"
    assert repr(SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=5)) == "SnapshotRef(tag at 7, max_ref_age_ms=5)"
    assert repr(table.inspect) == "TableInspection(lake.db.t: metadata tables as Arrow, such as files() and snapshots())"
    assert repr(table.transaction()) == "Transaction(lake.db.t: 0 changes, open)"
    assert repr(table.update_schema()) == "UpdateSchema(commit() or the end of a with block commits its changes)"


def test_a_scan_is_displayed_by_what_it_reads(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    scan = table.scan("id < 6", selected_fields=("id",), limit=7)
    assert repr(scan) == f"Scan(lake.db.t: snapshot {snapshot.snapshot_id}, columns id, where id < 6, limit 7)"
    assert ">id &lt; 6</td>" in scan._repr_html_()


def test_a_table_is_displayed_with_its_columns_in_a_notebook(table: Table) -> None:
    html = table._repr_html_()
    assert ">kind</td>" in html
    assert table.location() in html


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_a_metadata_table_becomes_arrow_and_pandas(table: Table, name: str) -> None:
    metadata = metadata_table(table, name)
    rows = metadata.to_arrow()
    assert metadata.to_pandas().columns.tolist() == rows.column_names
    assert len(metadata.to_pandas()) == rows.num_rows
    assert repr(metadata).startswith(f"MetadataTable({name} of lake.db.t: ")
    assert len(repr(metadata)) < 400
    assert ">string</td>" in metadata._repr_html_() or ">long</td>" in metadata._repr_html_()


def test_a_write_result_is_displayed_with_rows_files_and_snapshot(table: Table) -> None:
    result = table.upsert(pa.table({"id": [2, 3], "kind": ["z", "c"]}), join_cols=["id"])
    expected = f"upsert by in-process: 1 row inserted, 1 row updated; 1 file added, 1 file removed (snapshot {result.snapshot_id})"
    assert (str(result), repr(result)) == (expected, f"WriteResult({expected})")
    assert "<td" in result._repr_html_()
    assert repr(table.delete("id = 99")) == "WriteResult(delete: nothing to do)"
    assert replace(result, commit_ms=result.commit_ms + 1) == result, "the time is no part of the outcome"
    merged = WriteResult(
        operation="merge",
        engine="spark",
        snapshot_id=7,
        attempts=1,
        added_files=2,
        added_records=5,
        removed_files=1,
        deleted_records=3,
        rows_updated=1,
        rows_inserted=4,
        added_delete_files=1,
    )
    assert str(merged) == (
        "merge by spark: 4 rows inserted, 1 row updated, 3 rows deleted; 2 files added, 1 file removed, 1 delete file added (snapshot 7)"
    )


def test_an_expire_report_is_displayed_in_a_few_lines(table: Table) -> None:
    report = table.expire_snapshots(older_than=datetime.now(UTC), retain_last=1)
    assert repr(report) == str(report)
    assert repr(report).startswith("removed from lake.db.t\n")
    assert "removed from lake.db.t" in report._repr_html_()


def test_html_is_closed_and_needs_no_script(table: Table) -> None:
    for value in (table, table.schema(), table.scan(), table.snapshots(), table.current_snapshot(), metadata_table(table, "files")):
        html = value._repr_html_()  # type: ignore[union-attr]
        assert html.startswith("<div>")
        assert html.endswith("</div>")
        assert "<script" not in html
