"""Every view of a table with delete files of all three kinds: their targets, the totals, and row ids."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import icefloe.inspect as look
from icefloe import SqlCatalog, Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Return a table with two data files: position deletes for one, a deletion vector for the other, and one deleted key."""
    folder: Path = tmp_path_factory.mktemp("deletes")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2]} for n in range(20)], schema=SCHEMA))
    table.delete("id in (1, 2, 4)")
    table.delete_keys(pa.table({"id": [7]}), ["id"])
    table.upgrade_table_version(3)
    table.delete("id = 9")
    return table


def test_the_overview_lists_deletes_beside_its_totals(table: Table) -> None:
    overview = look.table(table)
    assert (overview.total_records, overview.total_delete_files, overview.total_position_deletes, overview.total_equality_deletes) == (
        20,
        3,
        4,
        1,
    )
    assert "4 rows by position and rows of 1 key, in 3 delete files: still counted above" in str(overview)
    assert "with delete files" in str(overview)


def test_the_tree_counts_rows_of_data_files_and_describes_each_delete_file(table: Table) -> None:
    tree = look.tree(table)
    assert (tree.totals.records, tree.totals.data_files, tree.totals.delete_files) == (20, 2, 3)
    assert tree.snapshot is not None
    files = [file for manifest in tree.snapshot.manifests for file in manifest.files]
    data = {file.file_path: file for file in files if file.content == "data"}
    assert sorted(file.first_row_id for file in data.values() if file.first_row_id is not None) == [0, 10]
    vector = next(file for file in files if file.file_path.endswith(".puffin"))
    assert (vector.content, vector.record_count, vector.referenced_data_file in data) == ("position_deletes", 2, True)
    assert vector.file_size < 100
    text = " ".join(str(tree).split())
    assert "deletes rows with these values of id" in text
    assert "by a deletion vector" in text
    assert "20, before deletes" in text


def test_a_manifest_shows_content_targets_and_row_ids(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    entries = [entry for number in range(1, 5) for entry in look.manifest(table, number).entries]
    vector = next(entry for entry in entries if entry.content_offset is not None)
    assert (vector.content, vector.record_count, vector.file_format) == ("position_deletes", 2, "PUFFIN")
    assert vector.content_size_in_bytes == 44
    positions = next(entry for entry in entries if entry.content == "position_deletes" and entry.content_offset is None)
    assert {column.name: column.upper for column in positions.columns} == {"file_path": positions.referenced_data_file, "pos": "2"}
    keys = next(entry for entry in entries if entry.content == "equality_deletes")
    assert (keys.equality_ids, keys.deletes) == ((1,), "rows with these values of id")
    assert sorted(entry.first_row_id for entry in entries if entry.first_row_id is not None) == [0, 10]
    texts = [str(look.manifest(table, number)) for number in range(1, 5)]
    assert sum("first row id" in text for text in texts) == 1
    assert sum("by a deletion vector" in " ".join(text.split()) for text in texts) == 1
    listed = look.manifest_list(table)
    assert [manifest.first_row_id for manifest in listed.manifests if manifest.content == "data"] == [0]
    assert "first row id" in str(listed)


def test_a_delete_file_is_labelled_as_delete_file(table: Table) -> None:
    vector, positions = look.data_file(table, ".puffin"), look.data_file(table, "-deletes-00000")
    assert "delete file of lake.db.t" in str(vector)
    assert "44 B at byte 4" in str(vector)
    assert "file_path" in str(positions)
    assert "?" not in str(positions)
    data = next(task.file.file_path for task in table.scan().plan_files())
    assert "data file of lake.db.t" in str(look.data_file(table, data))
    assert "first row id" in str(look.data_file(table, data))


def test_delete_files_are_a_separate_level_and_the_history_counts_them(table: Table) -> None:
    levels = {level.level: level for level in look.overhead(table).reachable}
    assert (levels["data files"].files, levels["delete files"].files) == (2, 4)
    assert "delete files" in str(look.overhead(table))
    assert "deletes" in str(look.snapshots(table))
    traced = look.trace(table, "id > 5")
    assert (traced.totals.delete_files, traced.totals.records_read) == (3, 20)
    assert "deleted ones included" in str(traced)


def test_every_view_is_also_json(table: Table) -> None:
    views = (look.table(table), look.tree(table), look.manifest(table), look.manifest_list(table), look.data_file(table, ".puffin"))
    for view in views:
        json.dumps(view.to_dict())
