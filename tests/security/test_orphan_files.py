"""The removal of orphan files deletes nothing outside the table, whatever lists, views, metadata and links contain."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.maintenance.test_remove_orphan_files import OLD, age, folder_of, lake, later, made, orphans, stray
from tests.security.forging import forged
from tests.security.test_deletion import spellings

from icefloe.errors import DataFileFormatError, InvalidInputError, LocationNotAllowedError
from icefloe.io import file_tree
from icefloe.maintenance import remove_orphan_files as removal
from icefloe.operations.orphans.path_database import LISTED
from icefloe.operations.orphans.path_keys import PathKeys
from icefloe.table import Table

OLD_MS = int(OLD * 1000)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return an old file that no table may delete."""
    path = tmp_path / "etc" / "shadow"
    path.parent.mkdir()
    path.write_text("root")
    os.utime(path, (OLD, OLD))
    return path


def hostile_list(table: Table, paths: list[str], **columns: Any) -> Path:
    """Write a list into the metadata folder, as any user with write access can."""
    location = folder_of(table) / "metadata" / f"_orphan-files-20200101T000000-{'0' * 32}.parquet"
    rows = {"path": paths, "size_in_bytes": [4] * len(paths), "modified_ms": [OLD_MS] * len(paths), **columns}
    pq.write_table(pa.table(rows, schema=LISTED), location)
    os.utime(location, (OLD, OLD))
    return location


def test_paths_in_a_hostile_list_never_lead_outside(tmp_path: Path, secret: Path) -> None:
    table = made(tmp_path)
    other = made(tmp_path, name="db.other", catalog=lake(tmp_path))
    data_file = next(iter(table.scan().plan_files())).file.file_path
    inside = stray(table, "data/x.parquet", b"1234")
    paths = [*spellings(secret, str(folder_of(table))), table.metadata_location, data_file, str(folder_of(table)), "", "a\n", str(inside)]
    paths += [
        next(iter(other.scan().plan_files())).file.file_path,
        "s3://bucket/x",
        f"{data_file}/",
        f"{folder_of(table)}/data//{Path(data_file).name}",
    ]
    sizes = [os.path.getsize(path) if path and os.path.isfile(path) else 4 for path in paths]
    times = [os.stat(path).st_mtime_ns // 1_000_000 if path and os.path.isfile(path) else OLD_MS for path in paths]
    age(table)
    hostile_list(table, paths, size_in_bytes=sizes, modified_ms=times)
    result = table.maintenance.remove_orphan_files(mode="purge")
    assert result.deleted_files == 1
    assert (secret.exists(), inside.exists()) == (True, False)
    assert (table.scan().count(), other.scan().count()) == (3, 3)


def test_the_age_of_a_list_is_not_what_the_list_claims(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = stray(table, "data/x.parquet", b"1234")
    location = hostile_list(table, [str(path)])
    os.utime(location)
    result = table.maintenance.remove_orphan_files(mode="purge")
    assert (result.deleted_files, result.waiting_lists, path.exists()) == (0, (str(location),), True)


def test_a_young_file_in_an_old_list_is_kept(tmp_path: Path) -> None:
    """The file of a running job has the size and the time that a hostile list claims."""
    table = made(tmp_path)
    path = stray(table, "data/x.parquet", b"1234", at=time.time() - 60)
    hostile_list(table, [str(path)], modified_ms=[path.stat().st_mtime_ns // 1_000_000])
    assert table.maintenance.remove_orphan_files(mode="purge").deleted_files == 0
    assert path.exists()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 500 + b"PAR1"])
def test_a_damaged_list_is_refused_and_can_be_dropped(tmp_path: Path, content: bytes) -> None:
    table = made(tmp_path)
    location = hostile_list(table, [])
    location.write_bytes(content)
    os.utime(location, (OLD, OLD))
    with pytest.raises(DataFileFormatError, match="cannot be used"):
        table.maintenance.remove_orphan_files(mode="purge")
    assert table.maintenance.remove_orphan_files(mode="undo").lists == (str(location),)
    assert not location.exists()


def test_a_list_with_other_columns_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    location = hostile_list(table, [])
    pq.write_table(pa.table({"path": [1]}), location)
    os.utime(location, (OLD, OLD))
    with pytest.raises(DataFileFormatError, match="other columns"):
        table.maintenance.remove_orphan_files(mode="purge")


def test_a_list_that_is_a_symbolic_link_is_not_read(tmp_path: Path, secret: Path) -> None:
    table = made(tmp_path)
    path = stray(table, "data/x.parquet", b"1234")
    location = hostile_list(table, [str(path)])
    location.rename(secret.parent / "list.parquet")
    location.symlink_to(secret.parent / "list.parquet")
    result = table.maintenance.remove_orphan_files(mode="purge")
    assert (result.lists, path.exists()) == ((), True)


def test_links_in_the_folder_are_neither_followed_nor_deleted(tmp_path: Path, secret: Path) -> None:
    table = made(tmp_path)
    data = folder_of(table) / "data"
    (data / "folder").symlink_to(secret.parent)
    (data / "file.parquet").symlink_to(secret)
    (data / "loop").symlink_to(data)
    age(table)
    assert table.maintenance.remove_orphan_files().orphan_files == 0
    assert secret.exists()
    assert (data / "file.parquet").is_symlink()


def test_a_folder_that_becomes_a_link_before_the_deletion_is_not_followed(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    inner = stray(table, "data/inner/shadow", b"root").parent
    delete = removal.delete_files

    def swapped(*arguments: Any) -> Any:
        inner.rename(tmp_path / "moved")
        inner.symlink_to(secret.parent)
        return delete(*arguments)

    monkeypatch.setattr(removal, "delete_files", swapped)
    result = table.maintenance.remove_orphan_files()
    assert (result.deleted_files, result.undeleted_files, secret.exists()) == (0, 1, True)


def test_a_folder_that_becomes_a_link_during_the_listing_is_not_followed(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    inner = stray(table, "data/inner/x.parquet").parent
    list_part: Callable[..., Any] = file_tree.list_part

    def swapped(io: Any, part: file_tree.FolderPart, hidden: Any) -> Any:
        if part.folder.endswith("/inner") and not inner.is_symlink():
            inner.rename(tmp_path / "moved")
            inner.symlink_to(secret.parent)
        return list_part(io, part, hidden)

    monkeypatch.setattr(file_tree, "list_part", swapped)
    result = table.maintenance.remove_orphan_files()
    assert (result.deleted_files, secret.exists()) == (0, True)


def test_a_view_of_files_deletes_nothing_outside_nor_young_files_nor_lists(tmp_path: Path, secret: Path) -> None:
    table = made(tmp_path)
    young = stray(table, "data/young.parquet", at=time.time())
    listed = hostile_list(table, [])
    paths = [*spellings(secret, str(folder_of(table))), str(young), str(listed), "", "\0", "s3://bucket/key", "http://host/x", ".."]
    view = pa.table({"file_path": paths, "last_modified": [datetime.fromtimestamp(OLD, UTC)] * len(paths)})
    result = table.maintenance.remove_orphan_files(file_list_view=view)
    assert (result.deleted_files, secret.exists(), young.exists(), listed.exists()) == (0, True, True, True)


def claiming(location: Path) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["location"] = str(location)

    return change


def test_a_location_that_only_the_metadata_claims_is_refused(tmp_path: Path, secret: Path) -> None:
    table = made(tmp_path)
    hostile = lake(tmp_path).register_table("db.hostile", forged(table, tmp_path / "downloads", claiming(secret.parent)))
    with pytest.raises(LocationNotAllowedError, match="not where its metadata file is"):
        hostile.maintenance.remove_orphan_files()
    assert secret.exists()


@pytest.mark.parametrize("claimed", ["warehouse/db/t", "warehouse/db", "warehouse/hive", "warehouse/hive/events"])
def test_a_table_that_claims_a_folder_of_the_warehouse_deletes_none_of_its_files(tmp_path: Path, claimed: str) -> None:
    """There may be tables of other catalogs, and files of other programs: being in the warehouse does not make a folder the table's."""
    table = made(tmp_path)
    other = made(tmp_path, name="db.other", catalog=lake(tmp_path))
    paths = [tmp_path / "warehouse" / name / "part-0.parquet" for name in ("hive/events", "db/plain", "db/t/data")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (OLD, OLD))
    hostile = lake(tmp_path).register_table(
        "db.hostile", forged(made(tmp_path / "x"), tmp_path / "downloads", claiming(tmp_path / claimed))
    )
    age(table)
    age(other)
    with pytest.raises(LocationNotAllowedError, match="not where its metadata file is"):
        hostile.maintenance.remove_orphan_files()
    assert all(path.exists() for path in paths)
    assert (table.scan().count(), other.scan().count()) == (3, 3)


@pytest.mark.parametrize("location", ["", "x\0y", "s3://bucket", "file:///", "/usr/../", "http://host/x", "s3://bucket/a/../b"])
def test_locations_that_are_no_folder_of_a_table_are_refused(tmp_path: Path, location: str) -> None:
    table = made(tmp_path)
    with pytest.raises((InvalidInputError, LocationNotAllowedError)):
        table.maintenance.remove_orphan_files(location=location)


@pytest.mark.parametrize(
    ("referenced", "listed"),
    [
        ("s3://b/t/data/x", "S3A://b/t/data/x"),
        ("s3n://B/t/data/x", "s3://b/t/data/x"),
        ("gs://b/t/x", "gcs://b/t/x"),
        ("abfss://c@a.dfs.core.windows.net/x/y", "ABFS://c@a.dfs.core.windows.net/x/y"),
        ("s3://b//t///x", "s3://b/t/x"),
        ("s3://b/t/x/", "s3://b/t/x"),
        ("s3://b/t/./y/../x", "s3://b/t/x"),
        ("s3://b/t/a%20b", "s3://b/t/a b"),
        ("s3://b/p=%3A/x", "s3://b/p=:/x"),
        ("s3://b/t/caf\u00e9", "s3://b/t/cafe\u0301"),
        ("s3://b/\u212b/x", "s3://b/A\u030a/x"),
        ("file:/lake/t/x", "/lake/t/x"),
        ("FILE://localhost/lake//t/x", "file:///lake/t/x"),
    ],
)
def test_spellings_of_one_file_have_one_key(referenced: str, listed: str) -> None:
    keys = PathKeys.of({}, {})
    (referenced_key, referenced_prefix), (listed_key, listed_prefix) = keys.file(referenced), keys.file(listed)
    assert referenced_key == listed_key
    assert referenced_prefix.is_of(listed_prefix)


@pytest.mark.parametrize(
    "name", ["a%20b.parquet", "caf\u00e9.parquet", "cafe\u0301.parquet", "a b.parquet", "x=%2F", "a\nb", "-rf", "*", "a?b[c]"]
)
def test_files_with_unusual_names_are_found_and_deleted_alone(tmp_path: Path, name: str) -> None:
    table = made(tmp_path)
    path, neighbour = stray(table, f"data/{name}"), stray(table, "data/other.parquet", at=time.time())
    assert orphans(table) == {str(path)}
    assert table.maintenance.remove_orphan_files().deleted_files == 1
    assert (path.exists(), neighbour.exists()) == (False, True)


def test_a_path_that_is_referenced_with_another_prefix_is_an_error_or_kept_or_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    path = stray(table, "data/x.parquet")
    referenced = removal.referenced_files

    def with_prefix(*arguments: Any) -> Any:
        return removal.replace(found := referenced(*arguments), paths=(*found.paths, f"s3://bucket{path}"))

    monkeypatch.setattr(removal, "referenced_files", with_prefix)
    with pytest.raises(InvalidInputError, match="another scheme or authority") as caught:
        table.maintenance.remove_orphan_files()
    assert str(path) in str(caught.value)
    assert "s3://bucket" in str(caught.value)
    assert table.maintenance.remove_orphan_files(prefix_mismatch_mode="IGNORE").orphan_files == 0
    equal = {"equal_schemes": {"s3": "file"}, "equal_authorities": {}}
    assert path.exists()
    assert table.maintenance.remove_orphan_files(prefix_mismatch_mode="delete", **equal).deleted_files == 1


def test_names_that_are_no_text_are_left(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = os.fsencode(folder_of(table) / "data") + b"/\xff\xfe.parquet"
    with open(path, "wb"):
        pass
    os.utime(path, (OLD, OLD))
    assert orphans(table) == set()


def test_a_list_is_not_listed_by_later_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    stray(table, "data/x.parquet")
    (location,) = table.maintenance.remove_orphan_files(mode="quarantine").lists
    age(table)
    later(table, 30, monkeypatch)
    table.maintenance.remove_orphan_files()
    assert os.path.exists(location)
