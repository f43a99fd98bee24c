"""Deletes and overwrites on tables with delete files, in both modes: rows, row ids, added and removed files, conflicts and failures."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.combinations import combinations

from icefloe import SqlCatalog
from icefloe.errors import NoSuchFileError, StorageFullError, UnsupportedFeatureError
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}


def rows(start: int, stop: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2]} for n in range(start, stop)], schema=SCHEMA)


def make(folder: Path, version: int, spec: tuple[str, ...] = (), **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    settings = {"format-version": str(version), "commit.retry.min-wait-ms": "1", **MERGE_ON_READ, **properties}
    return catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=settings)


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def row_ids(table: Table) -> dict[int, int]:
    result = table.scan().select("id", "_row_id").to_arrow()
    assert len(set(result["_row_id"].to_pylist())) == result.num_rows
    return dict(zip(result["id"].to_pylist(), result["_row_id"].to_pylist(), strict=True))


def live_files(table: Table) -> list[DataFile]:
    """Return the data and delete files of the current snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry.data_file for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


def delete_files(table: Table) -> list[DataFile]:
    return [file for file in live_files(table) if file.content]


def files_under(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"}


@pytest.mark.parametrize(("version", "form"), [(2, FileFormat.PARQUET), (3, FileFormat.PUFFIN)])
def test_a_merge_on_read_delete_writes_no_data_file(tmp_path: Path, version: int, form: FileFormat) -> None:
    table = make(tmp_path, version, ("part",))
    table.append(rows(0, 20))
    result = table.delete("id < 7")
    assert (result.operation, result.engine) == ("delete", "in-process")
    assert (result.deleted_records, result.added_delete_files, result.removed_files, result.added_files) == (7, 2, 0, 0)
    assert ids(table) == list(range(7, 20))
    data = {file.file_path: file for file in live_files(table) if not file.content}
    for file in delete_files(table):
        assert file.file_format is form
        assert file.referenced_data_file in data
        assert data[file.referenced_data_file].partition == file.partition
    snapshot = table.current_snapshot()
    assert snapshot is not None
    summary = snapshot.summary
    assert (summary["operation"], summary["total-delete-files"], summary["total-position-deletes"]) == ("delete", "2", "7")
    assert "2 delete files added" in str(result)
    assert table.scan().count() == 13


def test_a_new_deletion_vector_replaces_the_previous_one(tmp_path: Path) -> None:
    table = make(tmp_path, 3)
    table.append(rows(0, 20))
    before = row_ids(table)
    table.delete("id < 5")
    result = table.delete("id < 9")
    assert (result.deleted_records, result.added_delete_files, result.removed_delete_files) == (4, 1, 1)
    (vector,) = delete_files(table)
    assert vector.record_count == 9
    assert table.delete("id < 9").snapshot_id is None
    assert row_ids(table) == {number: before[number] for number in range(9, 20)}


def test_the_first_deletion_vector_contains_position_deletes_of_version_2(tmp_path: Path) -> None:
    table = make(tmp_path, 2)
    table.append(rows(0, 20))
    table.delete("id < 5")
    table.set_properties({"format-version": "3"})
    result = table.delete("id = 9")
    assert (result.deleted_records, result.added_delete_files, result.removed_delete_files) == (1, 1, 1)
    (vector,) = delete_files(table)
    assert (vector.file_format, vector.record_count) == (FileFormat.PUFFIN, 6)
    assert ids(table) == [5, 6, 7, 8, *range(10, 20)]


def test_in_version_2_new_position_deletes_replace_the_older_ones_of_the_same_data_file(tmp_path: Path) -> None:
    table = make(tmp_path, 2, **{"write.delete.granularity": "partition"})
    table.append(rows(0, 20))
    table.append(rows(20, 40))
    table.delete("id in (1, 21)")
    (of_both,) = delete_files(table)
    table.set_properties({"write.delete.granularity": "file"})
    table.delete("id in (2, 22)")
    result = table.delete("id in (3, 4)")
    assert (result.deleted_records, result.added_delete_files, result.removed_delete_files) == (2, 1, 1)
    remaining_deletes = delete_files(table)
    assert sorted(file.record_count for file in remaining_deletes) == [1, 2, 3]
    assert of_both.file_path in {file.file_path for file in remaining_deletes}
    assert len({file.referenced_data_file for file in remaining_deletes}) == 3
    assert ids(table) == [0, *range(5, 21), *range(23, 40)]
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (snapshot.summary["removed-position-delete-files"], snapshot.summary["total-delete-files"]) == ("1", "3")


def test_position_deletes_of_a_partition_are_kept_beside_deletion_vectors(tmp_path: Path) -> None:
    table = make(tmp_path, 2, **{"write.delete.granularity": "partition"})
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    table.delete("id in (1, 2, 11)")
    (both,) = delete_files(table)
    assert (both.referenced_data_file, both.record_count) == (None, 3)
    table.set_properties({"format-version": "3"})
    table.delete("id = 3")
    assert [file.record_count for file in delete_files(table) if file.file_format is FileFormat.PUFFIN] == [3]
    assert ids(table) == [0, *range(4, 10), 10, *range(12, 20)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_copy_has_the_deletes_applied_and_they_are_removed_with_its_source(tmp_path: Path, version: int) -> None:
    table = make(tmp_path, version)
    table.append(rows(0, 20))
    before = row_ids(table) if version == 3 else {}
    table.delete("id < 5")
    table.set_properties({"write.delete.mode": "copy-on-write"})
    result = table.delete("id < 8")
    assert (result.deleted_records, result.rewritten_files, result.removed_delete_files, result.added_delete_files) == (3, 1, 1, 0)
    assert delete_files(table) == []
    assert ids(table) == list(range(8, 20))
    if version == 3:
        assert row_ids(table) == {number: before[number] for number in range(8, 20)}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_whole_deleted_file_is_removed_with_its_deletes_and_only_live_rows_are_counted(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path, version, ("part",))
    table.append(rows(0, 20))
    table.delete("id < 6")
    table.set_properties({"write.delete.mode": mode})
    result = table.delete("part = 'a'")
    assert (result.deleted_records, result.removed_files, result.rewritten_files, result.added_delete_files) == (7, 1, 0, 0)
    assert result.engine == ("metadata" if version == 3 else "in-process")
    assert sorted(file.record_count for file in live_files(table)) == [3, 10]
    assert table.current_snapshot().summary["total-delete-files"] == "1"  # type: ignore[union-attr]


def test_a_data_file_without_remaining_rows_is_removed(tmp_path: Path) -> None:
    table = make(tmp_path, 3)
    table.append(rows(0, 10))
    table.delete("id < 4")
    result = table.delete("id >= 4 and part != 'c'")
    assert (result.removed_files, result.added_delete_files, result.deleted_records) == (1, 0, 6)
    assert live_files(table) == []


@pytest.mark.parametrize("version", [2, 3])
def test_a_merge_on_read_overwrite_deletes_and_adds_rows_in_one_snapshot(tmp_path: Path, version: int) -> None:
    table = make(tmp_path, version)
    table.append(rows(0, 10))
    result = table.overwrite(rows(100, 103), "id < 3")
    assert (result.operation, result.deleted_records, result.added_records, result.added_delete_files) == ("overwrite", 3, 3, 1)
    assert ids(table) == [*range(3, 10), 100, 101, 102]
    assert len(table.snapshots()) == 2
    if version == 3:
        row_ids(table)


def test_version_1_refuses_merge_on_read_deletes(tmp_path: Path) -> None:
    table = make(tmp_path, 1, ("part",))
    table.append(rows(0, 10))
    before = files_under(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match="format version 1") as refused:
        table.delete("id < 3")
    assert "upgrade_table_version(2)" in str(refused.value)
    assert files_under(tmp_path) == before
    assert table.delete("part = 'a'").deleted_records == 5


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_retried_delete_keeps_the_deletes_of_the_concurrent_commit(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path, version, ("part",), **{"write.delete.mode": mode})
    table.append(rows(0, 20))
    before = row_ids(table) if version == 3 else {}
    other_writer = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).load_table("db.t")
    other_writer.set_properties(MERGE_ON_READ)
    assert other_writer.delete("id in (2, 5)").added_delete_files == 2
    other_writer.set_properties({"write.delete.mode": mode})
    result = table.delete("id < 4")
    assert (result.attempts, result.deleted_records) == (2, 3)
    assert ids(table) == [4, *range(6, 20)]
    if version == 3:
        assert row_ids(table) == {number: before[number] for number in [4, *range(6, 20)]}
        assert len(delete_files(table)) == (2 if mode == "merge-on-read" else 0)
    named = {
        file.file_path
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
        for file in [entry.data_file for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)]
    }
    assert {str(path) for path in files_under(tmp_path) if "/data/" in str(path)} == named


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("where", "error"),
    combinations(["-deletes", "-m0.avro", "snap-", "metadata.json"], [StorageFullError("no space left", path="x"), KeyboardInterrupt()]),
)
def test_a_failed_write_leaves_the_table_unchanged_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, error: BaseException, where: str
) -> None:
    table = make(tmp_path, version, ("part",))
    table.append(rows(0, 20))
    before = files_under(tmp_path)
    original = type(table.io).write

    def broken(self: object, location: str, content: bytes, **options: bool) -> None:
        original(self, location, content, **options)  # type: ignore[arg-type]
        if where in location:
            raise error

    monkeypatch.setattr(type(table.io), "write", broken)
    if version == 2 and where == "-deletes":
        monkeypatch.undo()
        written = type(table.io).write_unique

        def broken_output(self: object, location: str, content: object) -> None:
            if where in location:
                raise error
            written(self, location, content)  # type: ignore[arg-type]

        monkeypatch.setattr(type(table.io), "write_unique", broken_output)
    with pytest.raises(type(error)):
        table.overwrite(rows(30, 40), "id < 5")
    monkeypatch.undo()
    assert files_under(tmp_path) == before
    assert ids(table.refresh()) == list(range(20))


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_missing_data_file_fails_the_delete_and_leaves_no_copies_of_the_others(tmp_path: Path, mode: str) -> None:
    table = make(tmp_path, 3, ("part",), **{"write.delete.mode": mode})
    table.append(rows(0, 20))
    last = list(table.scan().plan_files())[-1].file.file_path
    Path(last).unlink()
    before = files_under(tmp_path)
    with pytest.raises(NoSuchFileError):
        table.delete("id < 5")
    assert files_under(tmp_path) == before
