"""Files that are missing, truncated or of another format: every error names the file, and no wrong rows are read."""

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, StaticTable
from icefloe.errors import (
    AvroFormatError,
    DataFileFormatError,
    FormatError,
    IcefloeError,
    MetadataFormatError,
    NoSuchFileError,
    StoragePermissionError,
    UnsupportedFormatVersionError,
)
from icefloe.table import Table

ROWS = pa.table({"n": pa.array(range(1000), pa.int64()), "s": [f"text {n}" for n in range(1000)]})
Damage = Callable[[Path], object]

DAMAGES: dict[str, Damage] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "something else": lambda path: path.write_bytes(b"no file of this format at all" * 20),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    return table


def only_file(folder: Path, pattern: str) -> Path:
    (found,) = folder.rglob(pattern)
    return found


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("pattern", "expected"), [("snap-*.avro", AvroFormatError), ("*-m0.avro", FormatError), ("*.parquet", DataFileFormatError)]
)
def test_the_error_names_a_damaged_file(table: Table, tmp_path: Path, pattern: str, expected: type[IcefloeError], damage: str) -> None:
    path = only_file(tmp_path, pattern)
    DAMAGES[damage](path)
    with pytest.raises(NoSuchFileError if damage == "missing" else expected, match=re.escape(path.name)):
        table.scan("n > 5").to_arrow()


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_error_names_damaged_metadata_and_the_catalog_still_lists_the_table(table: Table, tmp_path: Path, damage: str) -> None:
    path = Path(table.metadata_location)
    DAMAGES[damage](path)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    with pytest.raises(NoSuchFileError if damage == "missing" else MetadataFormatError, match=re.escape(path.name)):
        catalog.load_table("db.t")
    assert catalog.table_exists("db.t")
    assert catalog.list_tables("db") == [("db", "t")]


def test_a_write_on_a_damaged_table_changes_nothing(table: Table, tmp_path: Path) -> None:
    list_file = only_file(tmp_path, "snap-*.avro")
    list_file.write_bytes(list_file.read_bytes()[:-5])
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    for write in (lambda: table.append(ROWS), lambda: table.delete("n < 5"), lambda: table.overwrite(ROWS)):
        with pytest.raises(AvroFormatError):
            write()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_fault_of_metadata_is_listed_with_its_place(table: Table, tmp_path: Path) -> None:
    text = Path(table.metadata_location).read_text()
    broken = tmp_path / "00009-broken.metadata.json"
    broken.write_text(text.replace('"last-column-id":2', '"last-column-id":"two"').replace('"type":"string"', '"type":"strings"'))
    with pytest.raises(MetadataFormatError) as refused:
        StaticTable.from_metadata(str(broken))
    assert "00009-broken" in str(refused.value)
    assert {problem.where for problem in refused.value.problems} == {"$.last-column-id", "$.schemas[0].fields[1].type"}


def test_the_error_for_a_future_format_version_has_its_number(table: Table, tmp_path: Path) -> None:
    later = tmp_path / "00009-later.metadata.json"
    later.write_text(Path(table.metadata_location).read_text().replace('"format-version":2', '"format-version":4'))
    with pytest.raises(UnsupportedFormatVersionError, match="4"):
        StaticTable.from_metadata(str(later))


def test_a_read_only_warehouse_leaves_the_table_unchanged(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write anywhere, so the refusal is simulated at the call that the operating system would refuse.
    def refused(self: object, location: str, content: object) -> None:
        raise StoragePermissionError(f"no permission to write {location}", path=location)

    monkeypatch.setattr(type(table.io), "write_unique", refused)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StoragePermissionError, match="parquet"):
        table.append(ROWS)
    monkeypatch.undo()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert table.refresh().scan().count() == 1000
