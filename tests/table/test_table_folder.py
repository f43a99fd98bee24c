"""Tables opened by their folder: the newest version of a file-system table; for a table of a catalog an error with its metadata files and the next step."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, StaticTable
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import InvalidInputError, NoSuchFileError, UnsupportedFeatureError
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.operations.table_folder import metadata_file_of

ROWS = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a file-system table with two rows."""
    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    return tmp_path / "db" / "t"


@pytest.mark.parametrize("hint", [None, "1", "99", "nonsense"])
def test_a_file_system_table_opens_at_its_newest_version(folder: Path, hint: str | None) -> None:
    file = folder / "metadata" / "version-hint.text"
    file.unlink() if hint is None else file.write_text(hint)
    for text in (str(folder), f"{folder}/", f"{folder}/metadata", f"file://{folder}"):
        table = StaticTable.from_metadata(text)
        assert (Path(table.metadata_location).name, table.scan().count()) == ("v3.metadata.json", 2)


def test_an_unpublished_metadata_file_is_ignored(folder: Path) -> None:
    (folder / "metadata" / "00003-0b5b5d09-6f0d-4c3a-9d1b-000000000000.metadata.json").write_text("half of a try")
    (folder / "metadata" / "0b5b5d09-6f0d-4c3a-9d1b-000000000000.metadata.json").write_text("half of a file that Java wrote")
    assert StaticTable.from_metadata(str(folder)).metadata_location.endswith("v3.metadata.json")


def test_the_folder_of_a_table_that_a_catalog_changed_since_is_refused(folder: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder.parent}/catalog.db", warehouse=str(folder.parent))
    catalog.create_namespace("db")
    table = catalog.register_table("db.t", f"{folder}/metadata/v3.metadata.json")
    for _ in range(2):
        table.append(ROWS)
    with pytest.raises(InvalidInputError, match="only a catalog determines") as refused:
        StaticTable.from_metadata(str(folder))
    assert table.metadata_location in str(refused.value)
    assert StaticTable.from_metadata(table.metadata_location).scan().count() == 4


def test_the_folder_of_a_table_in_a_catalog_is_refused(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    with pytest.raises(InvalidInputError, match="may be one of a commit that failed") as refused:
        StaticTable.from_metadata(table.location())
    assert table.metadata_location in str(refused.value)
    with pytest.raises(InvalidInputError, match="is a folder, not a metadata file"):
        StaticTable.from_metadata(str(tmp_path))
    with pytest.raises(NoSuchFileError):
        StaticTable.from_metadata(str(tmp_path / "nothing"))


@pytest.mark.parametrize("ending", ["", ".metadata.json", ".metadata.json\n"])
def test_a_hint_that_names_a_file_opens_it_and_keeps_a_file_system_catalog_from_the_table(tmp_path: Path, ending: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    older = Path(table.metadata_location).name
    table.append(ROWS)
    hint = tmp_path / "db" / "t" / "metadata" / "version-hint.text"
    hint.write_text(older.removesuffix(".metadata.json") + ending)
    assert StaticTable.from_metadata(str(tmp_path / "db" / "t")).scan().count() == 1
    folders = FileSystemCatalog("folders", warehouse=str(tmp_path))
    for call in (lambda: folders.load_table("db.t"), lambda: folders.create_table("db.t", ROWS.schema), lambda: folders.drop_table("db.t")):
        with pytest.raises(UnsupportedFeatureError, match="register_table") as caught:
            call()
        assert older in str(caught.value)
    assert StaticTable.from_metadata(str(tmp_path / "db" / "t")).scan().count() == 1
    hint.write_text("../../other/" + older)
    with pytest.raises(InvalidInputError, match="only a catalog"):
        StaticTable.from_metadata(str(tmp_path / "db" / "t"))


def test_storage_without_a_listing_opens_the_file_that_the_hint_names() -> None:
    io, folder = MemoryFileIO(), "memory://table-folder/named/t"
    io.write(f"{folder}/metadata/version-hint.text", b"00007-0b5b5d09-6f0d-4c3a-9d1b-000000000000")
    assert metadata_file_of(folder, io) == f"{folder}/metadata/00007-0b5b5d09-6f0d-4c3a-9d1b-000000000000.metadata.json"


@pytest.mark.parametrize("ending", [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"])
def test_storage_without_a_listing_starts_at_the_version_hint(ending: str) -> None:
    io, folder = MemoryFileIO(), f"memory://table-folder/{ending}/t"
    for version in (1, 2, 3, 5):
        io.write(f"{folder}/metadata/v{version}{ending}", b"")
    assert metadata_file_of(folder, io) == folder, "without a hint it is a location like any other"
    io.write(f"{folder}/metadata/version-hint.text", b"2\n")
    assert metadata_file_of(folder, io) == metadata_file_of(f"{folder}/metadata/", io) == f"{folder}/metadata/v3{ending}"
    assert metadata_file_of(f"{folder}/metadata/v1{ending}", io) == f"{folder}/metadata/v1{ending}"
