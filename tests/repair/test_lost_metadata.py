"""Lost metadata files and wrong catalog entries: an older file, a rebuilt one, or a dropped name; each has to be named, and is undone."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.checks.stored_table import SCHEMA
from tests.repair.broken_table import BrokenTable

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import (
    CommitConflictError,
    InvalidInputError,
    MetadataFormatError,
    NoSuchFileError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
    UnsupportedFormatVersionError,
)
from icefloe.repair import plan, undo

MakeTable = Callable[[str, int], BrokenTable]
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
WAYS = ["restore-metadata", "rebuild-metadata", "drop-table"]


def lose(broken: BrokenTable) -> None:
    Path(broken.location()).unlink()


def lose_all(broken: BrokenTable) -> None:
    for path in Path(broken.location()).parent.glob("*.metadata.json"):
        path.unlink()


def cut(broken: BrokenTable) -> None:
    path = Path(broken.location())
    path.write_bytes(path.read_bytes()[:-30])


@VERSIONS
@pytest.mark.parametrize("damage", [lose, cut])
def test_an_older_metadata_file_is_restored_when_that_is_named(
    sound: MakeTable, version: int, damage: Callable[[BrokenTable], None]
) -> None:
    broken = sound("of", version)
    older = broken.table.metadata.metadata_log[-1].metadata_file
    rows = broken.rows(broken.catalog.register_table("db.older", older))
    broken.catalog.drop_table("db.older")
    location = broken.location()
    damage(broken)

    planned = broken.plan()
    assert planned.chosen == ()
    assert [repair.repair for repair in planned.repairs] == WAYS
    assert "1 manifest lists in the folder are of snapshots that it does not have" in planned.repairs[0].changes[0].what
    assert planned.apply().repairs == ()

    named = broken.plan("restore-metadata")
    result = named.apply()
    assert broken.location() == result.metadata_location != older
    assert (broken.rows(), broken.findings()) == (rows, [])
    assert [entry.metadata_file for entry in broken.table.metadata.metadata_log][-2:] == [older, location]

    broken.undo()
    assert broken.location() == location


@VERSIONS
def test_the_lost_commit_is_rebuilt_from_its_manifest_list_when_that_is_named(sound: MakeTable, version: int) -> None:
    broken = sound("of", version)
    before, location = broken.rows(), broken.location()
    lose(broken)
    broken.plan("rebuild-metadata").apply()
    assert (broken.rows(), broken.findings()) == (before, [])
    broken.table.append(pa.table({"day": ["new"], "n": [1]}, schema=SCHEMA))  # the table can be written
    assert len(broken.rows()) == len(before) + 1
    with pytest.raises(InvalidInputError, match="was no repair"):
        broken.undo()
    broken.table.manage_snapshots().rollback_to_snapshot(broken.table.snapshots()[-2].snapshot_id).commit()
    assert broken.location() != location


@VERSIONS
def test_without_any_metadata_file_a_table_is_rebuilt_from_lists_and_manifests(sound: MakeTable, version: int) -> None:
    broken = sound("of", version)
    before, location = broken.rows(), broken.location()
    schema, spec = broken.table.schema(), broken.table.spec()
    lose_all(broken)
    planned = broken.plan()
    assert [repair.repair for repair in planned.repairs] == ["rebuild-metadata", "drop-table"]
    broken.plan("rebuild-metadata").apply()
    table = broken.table
    assert (broken.rows(), broken.findings()) == (before, [])
    assert (table.schema().as_struct(), table.spec()) == (schema.as_struct(), spec)
    assert len(table.snapshots()) == 5
    broken.table.append(pa.table({"day": ["new"], "n": [1]}, schema=SCHEMA))
    assert len(broken.rows()) == len(before) + 1
    assert not Path(location).exists()


def test_a_rebuilt_table_is_undone(sound: MakeTable) -> None:
    broken = sound("of", 2)
    location = broken.location()
    lose_all(broken)
    broken.plan("rebuild-metadata").apply()
    broken.undo()
    assert broken.location() == location
    with pytest.raises(NoSuchFileError):
        _ = broken.table


def test_a_folder_with_two_newest_lists_is_not_rebuilt(sound: MakeTable) -> None:
    broken = sound("of", 2)
    table = broken.table
    with table.manage_snapshots() as manage:
        manage.create_branch(table.snapshots()[0].snapshot_id, "audit")
    table.append(pa.table({"day": ["x"], "n": [1]}, schema=SCHEMA), branch="audit")
    lose_all(broken)
    planned = broken.plan()
    assert [repair.repair for repair in planned.repairs] == ["drop-table"]
    assert "several manifest lists" in planned.left[0].why


def test_a_name_of_a_lost_table_is_dropped_and_given_back(sound: MakeTable) -> None:
    broken = sound("of", 2)
    location = broken.location()
    lose(broken)
    files = broken.files()
    result = broken.plan("drop-table").apply()
    assert result.undo == f"icefloe repair db.t --catalog lake --undo --metadata-file {location}"
    with pytest.raises(NoSuchTableError):
        broken.location()
    assert broken.files() == files
    undo(broken.catalog, "db.t", metadata_file=location)
    assert broken.location() == location
    with pytest.raises(TableAlreadyExistsError):
        undo(broken.catalog, "db.t", metadata_file=location)


def test_a_table_that_can_be_loaded_is_not_dropped(sound: MakeTable) -> None:
    broken = sound("of", 2)
    planned = broken.plan("drop-table")
    assert (planned.repairs, planned.apply().repairs) == ((), ())
    assert broken.rows()


def test_a_table_of_a_later_format_version_is_not_lost(sound: MakeTable) -> None:
    broken = sound("of", 2)
    broken.stored.edit(lambda document: document.update({"format-version": 9}))
    files = broken.files()
    with pytest.raises(UnsupportedFormatVersionError):
        broken.plan("restore-metadata")
    assert broken.files() == files


def test_ways_that_exclude_each_other_are_refused(sound: MakeTable) -> None:
    broken = sound("of", 2)
    lose(broken)
    with pytest.raises(InvalidInputError, match="exclude each other"):
        broken.plan("restore-metadata", "drop-table")


def test_an_entry_that_points_to_another_folder_finds_the_table_by_its_name(sound: MakeTable) -> None:
    broken = sound("of", 2)
    before = broken.rows()
    broken.catalog.drop_table("db.t")
    undo(broken.catalog, "db.t", metadata_file=str(broken.folder / "nowhere" / "metadata" / "00009-x.metadata.json"))
    planned = broken.plan()
    assert "restore-metadata" in [repair.repair for repair in planned.repairs]
    broken.plan("restore-metadata").apply()
    assert broken.rows() == before


def test_an_older_entry_of_the_catalog_follows_the_newer_file_when_that_is_named(sound: MakeTable) -> None:
    broken = sound("of", 2)
    before = broken.rows()
    broken.catalog.register_table("db.t", broken.table.metadata.metadata_log[-1].metadata_file, overwrite=True)
    older = broken.location()
    planned = broken.plan()
    assert planned.chosen == ()
    assert [repair.repair for repair in planned.repairs] == ["follow-newer-metadata"]
    broken.plan("follow-newer-metadata").apply()
    assert (broken.rows(), broken.findings()) == (before, [])
    broken.undo()
    assert broken.location() == older


def test_a_metadata_file_that_claims_another_folder_is_never_restored(sound: MakeTable) -> None:
    broken = sound("of", 2)
    folder = Path(broken.location()).parent
    lose_all(broken)
    hostile = json.loads(sound_document(sound))
    hostile["location"] = "/etc"
    (folder / "00004-11111111-1111-1111-1111-111111111111.metadata.json").write_text(json.dumps(hostile))
    lists = list(folder.glob("snap-*"))
    for path in lists:
        path.unlink()
    planned = broken.plan()
    assert [repair.repair for repair in planned.repairs] == ["drop-table"]


def sound_document(sound: MakeTable) -> str:
    """Return the text of a metadata file, of a table of another version so that the one under test stays as it is."""
    return Path(sound("of", 1).location()).read_text()


def test_files_of_another_table_in_the_folder_make_the_choice_uncertain(sound: MakeTable) -> None:
    broken = sound("of", 2)
    location = Path(broken.location())
    other = json.loads(location.read_text())
    other["table-uuid"] = "11111111-1111-1111-1111-111111111111"
    (location.parent / "00003-22222222-2222-2222-2222-222222222222.metadata.json").write_text(json.dumps(other))
    lose(broken)
    broken.catalog.drop_table("db.t")  # so that the catalog does not have the location of the file before
    undo(broken.catalog, "db.t", metadata_file=str(location))
    planned = broken.plan()
    assert "restore-metadata" not in [repair.repair for repair in planned.repairs]
    assert "several tables" in planned.left[0].why


def test_the_folder_of_another_table_of_the_catalog_is_not_taken(sound: MakeTable) -> None:
    broken = sound("of", 2)
    location = broken.location()
    broken.catalog.register_table("db.copy", broken.table.metadata.metadata_log[-1].metadata_file)
    lose(broken)
    planned = broken.plan()
    assert "restore-metadata" not in [repair.repair for repair in planned.repairs]
    assert "db.copy" in planned.left[0].why
    assert broken.location() == location


@pytest.mark.parametrize("way", ["restore-metadata", "rebuild-metadata"])
@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: b"", lambda content: b"\x1f\x8b\x00" + content])
def test_in_a_catalog_of_folders_a_damaged_version_is_followed_by_a_repaired_one_and_undone(
    tmp_path: Path, way: str, damage: Callable[[bytes], bytes]
) -> None:
    catalog = FileSystemCatalog("files", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(2):
        table.append(pa.table({"day": ["a"], "n": [number]}, schema=SCHEMA))
    newest = Path(table.metadata_location)
    newest.write_bytes(damage(newest.read_bytes()))
    damaged = newest.read_bytes()
    files = sorted(newest.parent.iterdir())
    result = plan(catalog, "db.t", only=way).apply()
    assert Path(result.metadata_location or "").name == "v4.metadata.json"
    rows = catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist()
    assert sorted(rows) == ([0, 1] if way == "rebuild-metadata" else [0])
    assert newest.read_bytes() == damaged
    assert set(files) <= set(newest.parent.iterdir())  # nothing was deleted or moved
    undo(catalog, "db.t")
    with pytest.raises(MetadataFormatError):
        catalog.load_table("db.t")
    plan(catalog, "db.t", only="restore-metadata").apply()  # the repaired version is the newest that can be read
    assert sorted(catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist()) == sorted(rows)
    catalog.load_table("db.t").append(pa.table({"day": ["a"], "n": [7]}, schema=SCHEMA))


def test_in_a_catalog_of_folders_a_repair_does_not_follow_the_damaged_version_of_another_table(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("files", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"day": ["a"], "n": [1]}, schema=SCHEMA))
    newest = Path(table.metadata_location)
    newest.write_bytes(newest.read_bytes()[:-9])
    planned = plan(catalog, "db.t", only="restore-metadata")
    first = newest.with_name("v1.metadata.json")
    document = json.loads(first.read_text())
    document["table-uuid"] = "11111111-1111-1111-1111-111111111111"
    first.write_text(json.dumps(document))
    with pytest.raises(CommitConflictError):
        planned.apply()
    assert not newest.with_name("v3.metadata.json").exists()


def test_in_a_catalog_of_folders_the_version_before_a_lost_one_is_the_table_and_a_name_is_not_dropped(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("files", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"day": ["a"], "n": [1]}, schema=SCHEMA))
    newest = Path(table.metadata_location)
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.raises(UnsupportedFeatureError, match="deletes no file"):
        plan(catalog, "db.t", only="drop-table").apply()
    newest.unlink()
    assert len(catalog.load_table("db.t").snapshots()) == 0


def test_a_repair_in_a_catalog_of_folders_is_a_new_version_and_so_is_its_undo(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("files", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"day": ["a"], "n": [1]}, schema=SCHEMA))
    path = Path(table.metadata_location)
    document = json.loads(path.read_text())
    document["last-column-id"] = 1
    path.write_text(json.dumps(document))
    result = plan(catalog, "db.t").apply()
    assert (result.repairs, Path(result.metadata_location or "").name) == (("correct-metadata",), "v3.metadata.json")
    assert not plan(catalog, "db.t").has_faults
    undo(catalog, "db.t")
    assert plan(catalog, "db.t").has_faults
