"""The metadata tables of partitions, manifests, snapshots and position deletes, compared with the table's Python objects."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.metadata_tables.tables import evolved, new_catalog, with_deletes

from icefloe.metadata_tables.metadata_table_registry import metadata_table
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.values import to_python
from icefloe.table import Table


@pytest.fixture(scope="module")
def deleted(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return with_deletes(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return evolved(tmp_path_factory.mktemp("made"))


def rows_of(table: Table, name: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = metadata_table(table, name).to_arrow(**options).to_pylist(maps_as_pydicts="strict")
    return found


def live_entries(table: Table) -> list[Any]:
    current = table.current_snapshot()
    assert current is not None
    return [entry for manifest in current.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


def counted(table: Table) -> list[dict[str, Any]]:
    """Count the partitions entry by entry; a partition without a field differs from one in which its value is null."""
    kinds = {field.field_id: field for field in metadata_table(table, "partitions").schema.find_type("partition").fields}  # type: ignore[attr-defined]
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.snapshots()}
    groups: dict[Any, list[Any]] = {}
    for entry in live_entries(table):
        fields = table.specs()[entry.data_file.spec_id].fields
        values = {field.field_id: value for field, value in zip(fields, entry.data_file.partition, strict=True)}
        groups.setdefault((len(values), tuple(values.get(field_id) for field_id in kinds)), []).append(entry)
    found = []
    for (_, values), entries in groups.items():
        newest = max(entries, key=lambda entry: times[entry.snapshot_id])
        files = {content: [entry.data_file for entry in entries if entry.data_file.content is content] for content in FileContent}
        found.append(
            {
                "partition": {field.name: to_python(field.field_type, value) for field, value in zip(kinds.values(), values, strict=True)},
                "spec_id": newest.data_file.spec_id,
                "record_count": sum(file.record_count for file in files[FileContent.DATA]),
                "file_count": len(files[FileContent.DATA]),
                "total_data_file_size_in_bytes": sum(file.file_size_in_bytes for file in files[FileContent.DATA]),
                "position_delete_record_count": sum(file.record_count for file in files[FileContent.POSITION_DELETES]),
                "position_delete_file_count": len(files[FileContent.POSITION_DELETES]),
                "equality_delete_record_count": sum(file.record_count for file in files[FileContent.EQUALITY_DELETES]),
                "equality_delete_file_count": len(files[FileContent.EQUALITY_DELETES]),
                "last_updated_at": times[newest.snapshot_id],
                "last_updated_snapshot_id": newest.snapshot_id,
            }
        )
    return found


@pytest.mark.parametrize("name", ["deleted", "changed"])
def test_partitions_are_counted_over_all_specs(name: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(name)
    rows = rows_of(table, "partitions")
    for row in rows:
        row["last_updated_at"] = round(row["last_updated_at"].timestamp() * 1000)
    assert sorted(rows, key=repr) == sorted(counted(table), key=repr)
    # One of them is the partition of a spec without fields, in which a key was deleted in the whole table.
    assert sum(row["spec_id"] == 1 and row["file_count"] == 0 for row in rows) == (1 if name == "deleted" else 0)


def test_an_unpartitioned_table_has_one_row_without_partition(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", pa.schema([("id", pa.int64())]))
    for first in (0, 3):
        table.append(pa.table({"id": range(first, first + 3)}))
    (row,) = rows_of(table, "partitions")
    assert "partition" not in row
    assert "spec_id" not in row
    assert (row["record_count"], row["file_count"], row["last_updated_snapshot_id"]) == (6, 2, table.metadata.current_snapshot_id)
    assert "partition" not in metadata_table(table, "files").schema.names
    assert "partition" not in metadata_table(table, "position_deletes").schema.names


def test_every_deleted_position_has_a_row_with_its_delete_file(deleted: Table) -> None:
    rows = rows_of(deleted, "position_deletes")
    written = deleted.scan(snapshot_id=deleted.snapshots()[0].snapshot_id, selected_fields=("id", "_file", "_pos")).to_arrow().to_pylist()
    places = {(row["_file"], row["_pos"]): row["id"] for row in written}
    assert sorted(places[row["file_path"], row["pos"]] for row in rows) == [1, 2, 4, 9, 13]
    files = {(file.file_path, file.content_offset): file for file in (entry.data_file for entry in live_entries(deleted))}
    for row in rows:
        file = files[row["delete_file_path"], row["content_offset"]]
        assert (row["content_size_in_bytes"], row["spec_id"], row["partition"]) == (
            file.content_size_in_bytes,
            0,
            {"part": file.partition[0]},
        )
        assert row["row"] is None
    assert {row["content_offset"] is None for row in rows} == {True, False}
    assert len(rows_of(deleted, "position_deletes", columns=["partition"])) == len(rows)


@pytest.mark.filterwarnings("ignore:.*it is read, since it has the .* rows:icefloe.errors.FormatWarning")
def test_the_rows_that_a_delete_file_holds_are_shown(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table(
        "db.t", pa.schema([("id", pa.int64()), ("name", pa.string())]), properties={"write.delete.mode": "merge-on-read"}
    )
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    table.delete("id = 2")
    (entry,) = [entry for entry in live_entries(table) if entry.data_file.content is FileContent.POSITION_DELETES]
    path = entry.data_file.file_path.removeprefix("file://")
    held = pq.read_table(path)
    members = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
    row = pa.StructArray.from_arrays([pa.array([2]), pa.array(["b"])], fields=members)
    pq.write_table(held.append_column(pa.field("row", row.type, metadata={"PARQUET:field_id": "2147483544"}), row), path)
    (found,) = rows_of(table, "position_deletes")
    assert (found["pos"], found["row"]) == (1, {"id": 2, "name": "b"})


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("columns", [None, ["row"], ["pos", "row"]])
def test_position_deletes_without_rows_are_shown_in_a_table_with_required_columns(
    tmp_path: Path, version: str, columns: list[str] | None
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("data", pa.string(), nullable=False)])
    table = new_catalog(tmp_path).create_table(
        "db.t", schema, partition_spec=["data"], properties={"format-version": version, "write.delete.mode": "merge-on-read"}
    )
    table.append(pa.table({"id": [1, 2, 3, 4], "data": list("abab")}, schema=schema))
    table.delete("id in (3, 4)")
    with table.update_spec() as update:
        update.remove_field("data")
    table.append(pa.table({"id": [5, 6], "data": list("ab")}, schema=schema))
    table.delete("id = 6")
    found = rows_of(table, "position_deletes", columns=columns)
    assert [row["row"] for row in found] == [None] * 3
    if columns is None:
        assert sorted((row["spec_id"], row["partition"]["data"], row["pos"]) for row in found if row["partition"]["data"]) == [
            (0, "a", 1),
            (0, "b", 1),
        ]
        assert [(row["spec_id"], row["pos"]) for row in found if row["partition"]["data"] is None] == [(1, 1)]
    elif columns == ["pos", "row"]:
        assert {row["pos"] for row in found} == {1}


def test_manifests_are_those_of_the_list_with_their_bounds_as_text(deleted: Table) -> None:
    for name, snapshots in (("manifests", [deleted.current_snapshot()]), ("all_manifests", deleted.snapshots())):
        expected = []
        for snapshot in snapshots:
            assert snapshot is not None
            for manifest in snapshot.manifests(deleted.io):
                counts = [manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count]
                bounds = [
                    (
                        summary.contains_null,
                        summary.contains_nan,
                        (summary.lower_bound or b"").decode(),
                        (summary.upper_bound or b"").decode(),
                    )
                    for summary in manifest.partitions or ()
                ]
                six = [*counts, 0, 0, 0] if not manifest.content else [0, 0, 0, *counts]
                own = [
                    int(manifest.content),
                    manifest.manifest_path,
                    manifest.manifest_length,
                    manifest.partition_spec_id,
                    manifest.added_snapshot_id,
                ]
                expected.append([*own, *six, bounds, *([snapshot.snapshot_id, manifest.key_metadata] if name == "all_manifests" else [])])
        found = [list(row.values()) for row in rows_of(deleted, name)]
        for row in found:
            row[11] = [tuple(summary.values()) for summary in row[11]]
        assert found == expected


def test_snapshots_refs_and_logs_equal_the_metadata(deleted: Table) -> None:
    metadata = deleted.metadata
    snapshots = rows_of(deleted, "snapshots")
    assert [(row["snapshot_id"], row["parent_id"], row["operation"], row["manifest_list"]) for row in snapshots] == [
        (snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.operation, snapshot.manifest_list) for snapshot in metadata.snapshots
    ]
    assert [row["summary"] | {"operation": row["operation"]} for row in snapshots] == [
        dict(snapshot.summary) for snapshot in metadata.snapshots
    ]
    assert [(row["name"], row["type"], row["snapshot_id"]) for row in rows_of(deleted, "refs")] == [
        ("audit", "BRANCH", metadata.current_snapshot_id),
        ("main", "BRANCH", metadata.current_snapshot_id),
        ("old", "TAG", metadata.snapshots[0].snapshot_id),
    ]
    log = rows_of(deleted, "metadata_log_entries")
    assert [row["file"] for row in log] == [*(entry.metadata_file for entry in metadata.metadata_log), deleted.metadata_location]
    assert log[-1]["latest_snapshot_id"] == metadata.current_snapshot_id
    assert log[0]["latest_snapshot_id"] is None


def test_the_history_contains_rollbacks(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", pa.schema([("id", pa.int64())]))
    for first in range(3):
        table.append(pa.table({"id": [first]}))
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    table.manage_snapshots().rollback_to_snapshot(ids[0]).commit()
    table.append(pa.table({"id": [9]}))
    newest = table.metadata.current_snapshot_id
    assert [(row["snapshot_id"], row["parent_id"], row["is_current_ancestor"]) for row in rows_of(table, "history")] == [
        (ids[0], None, True),
        (ids[1], ids[0], False),
        (ids[2], ids[1], False),
        (ids[0], None, True),
        (newest, ids[0], True),
    ]
