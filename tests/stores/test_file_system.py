"""File-system tables: which version is the newest whatever the version hint contains, and what such a catalog refuses."""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import Table, load_catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import (
    CommitUnknownError,
    InvalidInputError,
    InvalidPropertyError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from icefloe.io.local_folders import OpenLocalFolder
from icefloe.stores import file_system_store

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: FileSystemCatalog) -> Table:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"n": [1]}))
    table.append(pa.table({"n": [2]}))
    return table


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*metadata.json"))


def test_versions_are_published_under_their_numbers_without_temporary_files(table: Table, tmp_path: Path) -> None:
    assert versions(tmp_path) == ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"]
    assert (tmp_path / "db/t/metadata/version-hint.text").read_text() == "3"
    assert [Path(entry.metadata_file).name for entry in table.metadata.metadata_log] == ["v1.metadata.json", "v2.metadata.json"]


@pytest.mark.parametrize("hint", [None, "1", "99", "", "not a number"])
def test_a_wrong_version_hint_is_ignored(catalog: FileSystemCatalog, table: Table, tmp_path: Path, hint: str | None) -> None:
    file = tmp_path / "db/t/metadata/version-hint.text"
    file.unlink() if hint is None else file.write_text(hint)
    loaded_table = catalog.load_table("db.t")
    assert loaded_table.metadata_location == table.metadata_location
    loaded_table.append(pa.table({"n": [3]}))
    assert (file.read_text(), loaded_table.scan().count()) == ("4", 3)


def test_a_stale_writer_does_not_fill_the_gap_of_deleted_versions(catalog: FileSystemCatalog, table: Table, tmp_path: Path) -> None:
    """Commit from a stale version whose next version has been deleted since: that name is free, and still not the next version."""
    stale = catalog.load_table("db.t")
    for number in range(3):
        table.append(pa.table({"n": [10 + number]}))
    (tmp_path / "db/t/metadata/v4.metadata.json").unlink()
    stale.append(pa.table({"n": [20]}))
    assert catalog.load_table("db.t").scan().count() == 6
    assert "v4.metadata.json" not in versions(tmp_path)


@pytest.mark.parametrize("kept", [1, 2, 100])
@pytest.mark.parametrize("moment", ["before the last look", "before the write"])
def test_a_slow_writer_whose_version_others_have_passed_and_cleaned_up_never_loses_its_rows_silently(
    catalog: FileSystemCatalog, kept: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": str(kept)}
    table = catalog.create_table("db.t", SCHEMA, properties=cleaned)
    slow = catalog.load_table("db.t")
    others: list[str] = []

    def overtake() -> None:
        if not others:
            others.append(moment)
            for number in range(4):
                table.append(pa.table({"n": [number]}))

    uuid, write = file_system_store._uuid, OpenLocalFolder.write

    def overtaken_uuid(content: bytes, location: str) -> str | None:
        overtake()
        return uuid(content, location)

    def overtaken_write(self: OpenLocalFolder, name: str, content: bytes, *, overwrite: bool = False) -> None:
        overtake()
        write(self, name, content, overwrite=overwrite)

    if moment == "before the write":
        monkeypatch.setattr(OpenLocalFolder, "write", overtaken_write)
    else:
        monkeypatch.setattr(file_system_store, "_uuid", overtaken_uuid)
    committed = [0, 1, 2, 3, 9]
    try:
        slow.append(pa.table({"n": [9]}))
    except CommitUnknownError:  # the log of the newest version is too short to show that others did not build on the slow one
        assert (moment, kept) in [("before the write", 1), ("before the write", 2)]
        committed = [0, 1, 2, 3]
    assert others
    assert sorted(catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist()) == committed


def test_a_slow_creation_does_not_pass_for_a_table_that_others_have_made_and_cleaned_up(
    catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    made: list[Table] = []
    version_files = file_system_store.version_files

    def overtaken(names: Iterable[str]) -> dict[int, str]:
        listed = version_files(names)
        if traced:
            traced.clear()
            monkeypatch.undo()
            made.append(catalog.create_table("db.t", SCHEMA, properties=cleaned))
            for number in range(4):
                made[0].append(pa.table({"n": [number]}))
        return listed

    traced: list[bool] = []
    other = catalog.create_table("db.other", SCHEMA)
    attempt = f"{catalog.store.table_location(('db', 't'))}/metadata/00000-slow.metadata.json"
    other.io.write(attempt, other.io.read(other.metadata_location))
    monkeypatch.setattr(catalog.store, "_require", lambda _: traced.append(True))
    monkeypatch.setattr(file_system_store, "version_files", overtaken)
    with pytest.raises(TableAlreadyExistsError):
        catalog.store.create(("db", "t"), attempt)
    assert made
    assert catalog.load_table("db.t").scan().count() == 4


def test_compressed_versions_have_the_ending_of_their_codec_which_cannot_be_changed(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    new_table = catalog.create_table("db.z", SCHEMA, properties={"write.metadata.compression-codec": "gzip"})
    new_table.append(pa.table({"n": [1]}))
    assert versions(tmp_path) == ["v1.gz.metadata.json", "v2.gz.metadata.json"]
    assert catalog.load_table("db.z").scan().count() == 1
    with pytest.raises(InvalidInputError, match="compression"):
        new_table.set_properties({"write.metadata.compression-codec": "none"})


def test_operations_that_would_separate_a_table_from_its_folder_are_refused(catalog: FileSystemCatalog, table: Table) -> None:
    with pytest.raises(InvalidInputError, match="metadata in its own folder"):
        table.set_properties({"write.metadata.path": "/elsewhere"})
    with pytest.raises(InvalidInputError, match="location"):
        catalog.register_table("db.u", table.metadata_location)
    table.set_properties({"gc.enabled": "false"})
    with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
        catalog.drop_table("db.t")
    table.set_properties({"gc.enabled": "true"})
    catalog.drop_table("db.t")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.t")


def test_a_warehouse_is_required_and_must_be_a_folder() -> None:
    with pytest.raises(InvalidPropertyError, match="no warehouse"):
        load_catalog("lake", type="hadoop")
    with pytest.raises(UnsupportedFeatureError, match="hdfs"):
        load_catalog("lake", type="file-system", warehouse="hdfs://namenode/lake")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("file://{}", "{}"),
        ("{}", "file://{}"),
        ("file:{}", "{}/."),
        ("{}/./", "/{}"),
        ("//{}", "file://localhost{}/"),
        ("{}/../{name}", "{}-link"),
        ("{}-link", "FILE:{}//"),
    ],
)
def test_a_table_is_written_by_every_spelling_of_its_local_folder(tmp_path: Path, first: str, second: str) -> None:
    rows = pa.table({"id": [1, 2]})
    tmp_path.with_name(f"{tmp_path.name}-link").symlink_to(tmp_path)
    first, second = (spelling.format(tmp_path, name=tmp_path.name) for spelling in (first, second))
    creator = load_catalog("one", type="file-system", warehouse=first)
    creator.create_namespace("db")
    creator.create_table("db.t", rows.schema).append(rows)
    other = load_catalog("two", type="file-system", warehouse=second)
    table = other.load_table("db.t")
    table.append(rows)
    table.delete("id = 1")
    assert table.maintenance.remove_orphan_files(older_than=dt.datetime.now(dt.UTC), force=True, dry_run=True).orphan_files == 0
    assert creator.load_table("db.t").scan().to_arrow()["id"].to_pylist() == [2, 2]
    with pytest.raises(InvalidInputError, match="keeps it at"):
        other.create_table("db.u", rows.schema, location=f"file://{tmp_path}/db/t")
    other.purge_table("db.t")
    assert not (tmp_path / "db" / "t").exists()
