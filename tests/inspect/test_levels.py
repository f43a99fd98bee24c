"""The inspection of each level of a table equals the contents of its files."""

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import icefloe.inspect as look
from icefloe import SqlCatalog
from icefloe.errors import DataFileFormatError, InvalidInputError, NoSuchFileError, NoSuchSnapshotError
from icefloe.table import StaticTable, Table


def test_the_catalog_shows_the_rows_of_its_database(catalog: SqlCatalog) -> None:
    shown = look.catalog(catalog).to_dict()["tables"]
    with sqlite3.connect(catalog.store.uri.removeprefix("sqlite:///")) as database:
        database.row_factory = sqlite3.Row
        for name in ("iceberg_tables", "iceberg_namespace_properties"):
            assert shown[name] == [dict(row) for row in database.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3")]
    database.close()


def test_the_listing_holds_nested_namespaces_and_their_tables(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("a.b")
    catalog.create_table("a.b.t", pa.schema([("x", pa.int32())]))
    assert [(space.name, space.tables) for space in look.listing(catalog).namespaces] == [("a", ()), ("a.b", ("a.b.t",))]


def test_a_catalog_without_namespaces_is_described(tmp_path: Path) -> None:
    assert "has no namespaces" in str(look.listing(SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db")))


def test_the_overview_of_a_table_has_its_totals(events: Table) -> None:
    overview = look.table(events)
    assert (overview.total_records, overview.snapshots, overview.format_version) == (400, 3, 2)
    assert overview.partitioning == "month(time), type"
    assert [(column.name, column.type) for column in overview.columns][:2] == [("id", "long"), ("type", "string")]
    assert "place.tags.element" in [column.name for column in overview.columns]


def test_a_table_that_was_never_written_has_no_rows_and_no_snapshot(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("x", pa.int32())]))
    assert (look.table(table).total_records, look.table(table).current_snapshot_id) == (0, None)
    assert look.tree(table).totals.data_files == 0
    assert look.trace(table, "x = 1").snapshot is None
    assert look.overhead(table).current_share == 0
    for function in (look.manifest_list, look.manifest, look.data_file):
        with pytest.raises(NoSuchSnapshotError, match="nothing has been written"):
            function(table)
    for view in (look.table(table), look.snapshots(table), look.tree(table), look.trace(table), look.overhead(table)):
        assert str(view)


def test_the_history_holds_snapshots_and_both_logs(events: Table) -> None:
    history = look.snapshots(events)
    assert [snapshot.operation for snapshot in history.snapshots] == ["append", "append", "delete"]
    assert [snapshot.refs for snapshot in history.snapshots] == [(), (), ("main",)]
    assert [line.snapshot_id for line in history.snapshot_log] == [snapshot.snapshot_id for snapshot in history.snapshots]
    assert [Path(line.metadata_file).name[:5] for line in history.metadata_log] == ["00000", "00001", "00002", "00003"]
    assert history.metadata_log[-1].metadata_file == events.metadata_location


def test_the_shown_metadata_is_the_json_of_its_file(events: Table) -> None:
    contents = look.metadata(events)
    assert contents.content == json.loads(Path(events.metadata_location).read_text())
    assert contents.file_size == Path(events.metadata_location).stat().st_size


def test_compressed_metadata_is_unpacked(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("x", pa.int32())]), properties={"write.metadata.compression-codec": "gzip"})
    contents = look.metadata(table)
    assert contents.is_gzip
    assert contents.content["table-uuid"] == table.metadata.table_uuid


def test_long_lists_of_metadata_are_shortened_only_in_the_text(events: Table) -> None:
    contents = look.metadata(events)
    assert "… 1 more" in str(contents)
    assert len(contents.to_dict()["content"]["snapshots"]) == 3


def test_the_manifest_list_has_decoded_partition_bounds(events: Table) -> None:
    contents = look.manifest_list(events)
    assert contents.file_size == Path(contents.path or "").stat().st_size
    ranges = {bounds.name: (bounds.lower, bounds.upper) for bounds in contents.manifests[0].partitions}
    assert ranges == {"time_month": ("2023-12", "2024-02"), "type": ("c8y_Alarm", "c8y_Measurement")}
    assert [(manifest.existing_files_count, manifest.deleted_files_count) for manifest in contents.manifests] == [(6, 3), (6, 3)]


def test_the_manifest_list_of_an_earlier_snapshot(events: Table) -> None:
    first = events.history()[0].snapshot_id
    assert len(look.manifest_list(events, first).manifests) == 1
    with pytest.raises(NoSuchSnapshotError):
        look.manifest_list(events, 12345)


def test_a_manifest_shows_deleted_entries_and_bounds_of_every_column(events: Table) -> None:
    contents = look.manifest(events)
    assert {entry.status for entry in contents.entries} == {"existing", "deleted"}
    assert {entry.partition["type"] for entry in contents.entries if entry.status == "deleted"} == {"c8y_Measurement"}
    entry = next(entry for entry in contents.entries if entry.partition == {"time_month": "2023-12", "type": "c8y_Alarm"})
    rows = pq.read_table(entry.file_path, partitioning=None)
    columns = {column.name: column for column in entry.columns}
    assert (columns["id"].lower, columns["id"].upper) == (str(min(rows["id"].to_pylist())), str(max(rows["id"].to_pylist())))
    assert columns["time"].lower == "2023-12-01T00:00:00+00:00"
    assert columns["value"].nulls == rows["value"].null_count
    assert columns["place.lat"].lower == "51.0"


@pytest.mark.parametrize("which", ["2", 2])
def test_a_manifest_is_chosen_by_its_number_or_a_part_of_its_path(events: Table, which: str | int) -> None:
    second = look.manifest_list(events).manifests[1].manifest_path
    assert look.manifest(events, which).overview.manifest_path == second
    assert look.manifest(events, second).overview.manifest_path == second
    assert look.manifest(events, Path(second).name).overview.manifest_path == second


@pytest.mark.parametrize("which", ["0", "3", "nothing-like-it"])
def test_a_missing_manifest_is_refused_with_the_existing_ones(events: Table, which: str) -> None:
    with pytest.raises(NoSuchFileError, match="1 to 2"):
        look.manifest(events, which)


def test_a_part_of_a_path_that_matches_several_files_is_refused(events: Table) -> None:
    with pytest.raises(InvalidInputError, match="matches 6 of the 12 data files"):
        look.data_file(events, "type=c8y_Event")


def test_a_data_file_shows_its_footer_beside_the_manifest_s_entry(events: Table) -> None:
    contents = look.data_file(events, 1)
    own = pq.ParquetFile(contents.entry.file_path).metadata
    assert contents.footer is not None
    assert (contents.footer.rows, contents.footer.footer_size) == (own.num_rows, own.serialized_size)
    assert contents.footer.rows == contents.entry.record_count
    chunks = {chunk.name: chunk for chunk in contents.footer.row_groups[0].columns}
    assert chunks["id"].codec == "ZSTD"
    assert chunks["id"].field_id == 1
    # Ids of nested leaves come from the schema's tree, in the order of the column chunks.
    ids = {column.name: column.field_id for column in look.table(events).columns}
    assert chunks["place.lat"].field_id == ids["place.lat"]
    assert chunks["place.tags.list.element"].field_id == ids["place.tags.element"]
    assert {column.field_id: column.size for column in contents.entry.columns}[1] == chunks["id"].compressed_size


@pytest.mark.parametrize("content", [b"", b"PAR1 is how it begins", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_the_error_names_a_damaged_data_file(tmp_path: Path, content: bytes) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("x", pa.int32())]))
    table.append(pa.table({"x": pa.array([1], pa.int32())}))
    path = Path(look.data_file(table).entry.file_path)
    path.write_bytes(content)
    with pytest.raises(DataFileFormatError) as refused:
        look.data_file(table)
    assert refused.value.path == str(path)
    path.unlink()
    with pytest.raises(NoSuchFileError):
        look.data_file(table)


def test_the_tree_counts_the_files_on_disk(events: Table) -> None:
    tree = look.tree(events)
    assert tree.snapshot is not None
    files = [file for manifest in tree.snapshot.manifests for file in manifest.files]
    assert tree.totals.records == sum(file.record_count for file in files) == events.scan().to_arrow().num_rows
    assert {file.file_path: file.file_size for file in files} == {file.file_path: Path(file.file_path).stat().st_size for file in files}
    sizes = [tree.metadata_location, tree.snapshot.manifest_list, *(manifest.manifest_path for manifest in tree.snapshot.manifests)]
    assert tree.totals.metadata_size == sum(Path(path or "").stat().st_size for path in sizes)
    assert [manifest.deleted_files for manifest in tree.snapshot.manifests] == [3, 3]
    assert (tree.catalog, tree.earlier_metadata_files, len(tree.other_snapshots)) == ("lake", 3, 2)


def test_the_tree_of_an_earlier_snapshot_shows_that_snapshot(events: Table) -> None:
    tree = look.tree(events, events.history()[0].snapshot_id)
    assert tree.snapshot is not None
    assert not tree.snapshot.is_current
    assert tree.totals.records == 300


def test_a_table_opened_by_its_metadata_file_has_no_catalog(events: Table) -> None:
    opened = StaticTable.from_metadata(events.metadata_location)
    assert look.tree(opened).catalog is None
    assert look.tree(opened).totals == look.tree(events).totals
    assert look.trace(opened).catalog is None


def test_overhead_counts_every_file_of_every_snapshot_once(events: Table) -> None:
    levels = {level.level: level for level in look.overhead(events).reachable}
    folder = Path(events.location())
    for level, pattern in (
        ("metadata files", "metadata/*.metadata.json"),
        ("manifest lists", "metadata/snap-*.avro"),
        ("manifests", "metadata/*-m*.avro"),
        ("data files", "data/**/*.parquet"),
    ):
        paths = [path for path in folder.glob(pattern) if level != "manifests" or not path.name.startswith("snap-")]
        assert (levels[level].files, levels[level].size) == (len(paths), sum(path.stat().st_size for path in paths)), level


def test_overhead_counts_missing_metadata_files(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("x", pa.int32())]))
    first = Path(table.metadata_location)
    table.append(pa.table({"x": pa.array([1], pa.int32())}))
    first.unlink()
    level = look.overhead(table).reachable[0]
    assert (level.files, level.missing) == (1, 1)
