"""`table.maintenance.remove_orphan_files()`: exactly the files that nothing references are found, and what happens to them."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.reports import facts

from icefloe import SqlCatalog, load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.errors import FormatError, InvalidInputError, LocationNotAllowedError, NoSuchFileError, NoSuchTableError
from icefloe.io.file_tree import FileState
from icefloe.io.locations import Place
from icefloe.maintenance import remove_orphan_files as removal
from icefloe.maintenance.orphan_options import orphan_options
from icefloe.maintenance.orphan_scope import OrphanScope
from icefloe.maintenance.quarantine_list import QuarantineList, QuarantineWriter, quarantine_lists
from icefloe.operations.orphans import orphan_search, path_database
from icefloe.operations.orphans.path_database import LISTED, FoundOrphans
from icefloe.operations.orphans.path_keys import PathKeys
from icefloe.table import Table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "kind": ["a", "b", "a"]})
OLD = time.time() - 10 * 24 * 3600


def lake(folder: Path, **properties: str) -> SqlCatalog:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def made(folder: Path, version: int = 2, name: str = "db.t", catalog: Catalog | None = None) -> Table:
    catalog = catalog or lake(folder)
    table = catalog.create_table(name, ROWS.schema, properties={"format-version": str(version)})
    table.append(ROWS)
    return table


def folder_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def age(table: Table) -> None:
    """Make every file of the table's folder ten days old."""
    for path in folder_of(table).rglob("*"):
        os.utime(path, (OLD, OLD), follow_symlinks=False)


def stray(table: Table, name: str, content: bytes = b"stray", at: float = OLD) -> Path:
    path = folder_of(table) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (at, at))
    return path


def orphans(table: Table, **options: Any) -> set[str]:
    return set(table.maintenance.remove_orphan_files(dry_run=True, **options).files["path"].to_pylist())


def later(table: Table, days: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the clock of the table forward."""
    now = int((time.time() + days * 24 * 3600) * 1000)
    monkeypatch.setattr(type(table.handle.clock), "now_ms", lambda _: now)


def test_files_that_nothing_references_are_deleted_and_the_rows_stay(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(ROWS)
    strays = [stray(table, "data/a.parquet"), stray(table, "metadata/x-m0.avro"), stray(table, "data/deep/er/b.parquet")]
    age(table)
    young = stray(table, "data/young.parquet", at=time.time())
    hidden = [stray(table, "data/_SUCCESS"), stray(table, ".tmp/x.parquet")]
    planned = table.maintenance.remove_orphan_files(dry_run=True)
    assert set(planned.files["path"].to_pylist()) == set(map(str, strays))
    assert (planned.orphan_files, planned.orphan_bytes, planned.deleted_files) == (3, 15, 0)
    assert (facts(planned)["orphans"], facts(planned)["deleted"]) == ("3 files, 15 B", "none: nothing was changed")
    result = table.maintenance.remove_orphan_files()
    assert (result.deleted_files, result.undeleted_files) == (3, 0)
    assert not any(path.exists() for path in strays)
    assert young.exists()
    assert all(path.exists() for path in hidden)
    assert table.scan().count() == 6
    assert table.maintenance.remove_orphan_files().orphan_files == 0


_KILLED = """
import os, signal, sys
from icefloe.io.local_file_io import LocalFileIO
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
LocalFileIO().write(sys.argv[1], b"content")
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_what_a_killed_write_left_is_found_when_it_is_old_and_other_hidden_names_are_not(tmp_path: Path) -> None:
    table = made(tmp_path)
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(folder_of(table) / "data" / "x.parquet")], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = (folder_of(table) / "data").glob(".*")
    assert (left.read_bytes(), orphans(table)) == (b"content", set())
    name = left.name
    folder = f".{'0' * 32}.tmp"
    hidden = [f"{folder}/x.parquet", f"_d/{name}", f"{name}x", f".{name}", ".a.tmp", f"_{name[1:]}", f".{'A' * 32}.tmp", f".{'0' * 31}.tmp"]
    kept = [stray(table, f"data/{other}") for other in hidden]
    age(table)
    assert orphans(table) == {str(left)}
    assert table.maintenance.remove_orphan_files().deleted_files == 1
    assert not left.exists()
    assert all(path.exists() for path in kept)
    assert table.scan().count() == 3


def test_a_time_within_a_day_is_refused_without_force(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = stray(table, "data/young.parquet", at=time.time() - 60)
    with pytest.raises(InvalidInputError, match="less than 24 hours"):
        table.maintenance.remove_orphan_files(datetime.now(UTC) - timedelta(hours=23))
    with pytest.raises(InvalidInputError, match="time zone"):
        table.maintenance.remove_orphan_files(datetime(2020, 1, 1))
    assert table.maintenance.remove_orphan_files(datetime.now(UTC), force=True).deleted_files == 1
    assert not path.exists()
    assert table.scan().count() == 3


def test_a_table_whose_files_may_belong_to_others_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = stray(table, "data/a.parquet")
    table.set_properties({"gc.enabled": "false"})
    for mode in ("delete", "quarantine", "purge", "undo"):
        with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
            table.maintenance.remove_orphan_files(mode=mode)
    assert path.exists()


def test_unknown_modes_and_values_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    for options, text in (
        ({"mode": "erase"}, "mode is 'erase'"),
        ({"prefix_mismatch_mode": "NONE"}, "prefix_mismatch_mode is 'NONE'"),
        ({"max_concurrent_deletes": 0}, "max_concurrent_deletes is 0"),
        ({"equal_schemes": {"": "s3"}}, "equal_schemes has an empty name"),
        ({"purge_delay": timedelta(hours=1)}, "at least one day"),
        ({"mode": "purge", "location": "/x"}, "takes no location"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            table.maintenance.remove_orphan_files(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["manifest", "manifest list"])
def test_nothing_is_deleted_if_a_file_that_the_table_needs_cannot_be_read(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path)
    table.append(ROWS)
    path = stray(table, "data/a.parquet")
    snapshot = table.snapshots()[0]
    gone = snapshot.manifest_list if kind == "manifest list" else table.inspect.all_manifests()["path"][0].as_py()
    os.unlink(str(gone))
    age(table)
    for mode in ("delete", "quarantine"):
        with pytest.raises(NoSuchFileError, match=r"no file of lake\.db\.t was deleted"):
            table.maintenance.remove_orphan_files(mode=mode)
    Path(str(gone)).write_bytes(b"damaged")
    with pytest.raises(FormatError, match=r"no file of lake\.db\.t was deleted"):
        table.maintenance.remove_orphan_files()
    assert path.exists()
    assert table.scan().count() == 6 if kind == "manifest list" else True


def test_a_list_is_purged_after_its_delay_and_each_file_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    kept, changed, added, gone = (stray(table, f"data/{name}.parquet") for name in ("kept", "changed", "added", "gone"))
    listed = table.maintenance.remove_orphan_files(mode="quarantine")
    assert (listed.orphan_files, listed.deleted_files, len(listed.lists)) == (4, 0, 1)
    assert Path(listed.lists[0]).parent == folder_of(table) / "metadata"
    assert orphans(table) == set(map(str, (kept, changed, added, gone)))  # the list itself is no orphan
    waiting = table.maintenance.remove_orphan_files(mode="purge")
    assert (waiting.deleted_files, waiting.lists, waiting.waiting_lists) == (0, (), listed.lists)
    changed.write_bytes(b"another file")
    os.utime(changed, (OLD, OLD))
    gone.unlink()
    pq_file = next(iter(table.scan().plan_files())).file.file_path
    shutil.copyfile(pq_file, added)
    os.utime(added, (OLD, OLD))
    table.add_files([str(added)])
    later(table, 8, monkeypatch)
    planned = table.maintenance.remove_orphan_files(mode="purge", dry_run=True)
    assert planned.files["path"].to_pylist() == [str(kept)]
    result = table.maintenance.remove_orphan_files(mode="purge")
    assert (result.deleted_files, result.skipped_files, result.lists) == (1, 3, listed.lists)
    assert (kept.exists(), changed.exists(), added.exists()) == (False, True, True)
    assert not Path(listed.lists[0]).exists()
    assert table.scan().count() == 6


def test_a_file_that_is_referenced_again_stays_although_it_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    path = stray(table, "data/a.parquet", Path(next(iter(table.scan().plan_files())).file.file_path).read_bytes())
    assert table.maintenance.remove_orphan_files(mode="quarantine").orphan_files == 1
    table.add_files([str(path)])
    later(table, 8, monkeypatch)
    assert table.maintenance.remove_orphan_files(mode="purge").deleted_files == 0
    assert table.scan().count() == 6


def test_undo_drops_the_lists_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    path = stray(table, "data/a.parquet")
    lists = table.maintenance.remove_orphan_files(mode="quarantine").lists
    assert table.maintenance.remove_orphan_files(mode="undo", dry_run=True).lists == lists
    result = table.maintenance.remove_orphan_files(mode="undo")
    assert result.lists == lists
    assert facts(result)["list"] == lists[0]
    later(table, 30, monkeypatch)
    assert table.maintenance.remove_orphan_files(mode="purge").deleted_files == 0
    assert path.exists()


def test_an_interrupted_quarantine_leaves_no_list_and_an_interrupted_purge_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    for number in range(20):
        stray(table, f"data/{number}.parquet")
    monkeypatch.setattr(path_database, "ORPHANS_AT_ONCE", 5)
    with monkeypatch.context() as patch:
        patch.setattr(removal.QuarantineWriter, "write", interrupted_after(2, removal.QuarantineWriter.write))
        with pytest.raises(KeyboardInterrupt):
            table.maintenance.remove_orphan_files(mode="quarantine")
    assert not list(folder_of(table).glob("metadata/_orphan*"))
    lists = table.maintenance.remove_orphan_files(mode="quarantine").lists
    later(table, 8, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(removal, "delete_files", interrupted_after(2, removal.delete_files))
        with pytest.raises(KeyboardInterrupt):
            table.maintenance.remove_orphan_files(mode="purge")
    assert Path(lists[0]).exists()
    remaining = len(list(folder_of(table).glob("data/[0-9].parquet"))) + len(list(folder_of(table).glob("data/1[0-9].parquet")))
    assert 0 < remaining < 20
    assert table.maintenance.remove_orphan_files(mode="purge").deleted_files == remaining
    assert (Path(lists[0]).exists(), table.scan().count()) == (False, 3)


def interrupted_after(calls: int, function: Callable[..., Any]) -> Callable[..., Any]:
    count = 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return interrupted


def test_what_cannot_be_deleted_is_reported_and_the_list_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    stray(table, "data/locked/a.parquet")
    stray(table, "data/b.parquet")
    lists = table.maintenance.remove_orphan_files(mode="quarantine").lists
    later(table, 8, monkeypatch)
    unlink = os.unlink

    def refuse(path: Any, **options: Any) -> None:
        if path == "a.parquet":
            raise PermissionError(13, "denied", path)
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        patch.setattr(os, "supports_dir_fd", {refuse, *os.supports_dir_fd})
        result = table.maintenance.remove_orphan_files(mode="purge")
    assert (result.deleted_files, result.undeleted_files, Path(lists[0]).exists()) == (1, 1, True)
    assert "1 not deleted" in str(result)
    assert table.maintenance.remove_orphan_files(mode="purge").deleted_files == 1


@pytest.mark.parametrize("moment", ["listing", "comparing", "deleting"])
def test_a_file_that_is_committed_meanwhile_is_never_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Another writer adds an old file of the folder: before the metadata is read, after it, and between two batches of deletions."""
    table = made(tmp_path)
    content = Path(next(iter(table.scan().plan_files())).file.file_path).read_bytes()
    paths = [stray(table, f"data/{number:02}.parquet", content) for number in range(20)]
    other = lake(tmp_path).load_table("db.t")
    monkeypatch.setattr(path_database, "ORPHANS_AT_ONCE", 5)
    committed = []

    def commit(function: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            if not committed:
                remaining = [str(path) for path in paths if path.exists()]
                other.add_files(remaining)
                committed.extend(remaining)
            return result

        return around

    if moment == "listing":
        monkeypatch.setattr(orphan_search, "check_metadata_files", commit(orphan_search.check_metadata_files))
    elif moment == "comparing":
        monkeypatch.setattr(removal, "referenced_files", commit(removal.referenced_files))
    else:
        monkeypatch.setattr(removal, "delete_files", commit(removal.delete_files))
    result = table.maintenance.remove_orphan_files()
    assert committed
    assert all(os.path.exists(path) for path in committed)
    assert result.deleted_files == 20 - len(committed)
    table.refresh()
    assert table.scan().count() == 3 + 3 * len(committed)


def test_nothing_more_is_deleted_after_the_table_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    paths = [stray(table, f"data/{number}.parquet") for number in range(20)]
    monkeypatch.setattr(path_database, "ORPHANS_AT_ONCE", 5)
    catalog = lake(tmp_path)
    delete = removal.delete_files

    def then_dropped(*arguments: Any) -> Any:
        result = delete(*arguments)
        catalog.drop_table("db.t")
        return result

    monkeypatch.setattr(removal, "delete_files", then_dropped)
    with pytest.raises(NoSuchTableError):
        table.maintenance.remove_orphan_files()
    assert sum(path.exists() for path in paths) == 15


def test_files_of_a_commit_that_may_still_happen_are_kept_until_it_cannot(tmp_path: Path) -> None:
    """A metadata file that builds on the current one can still be swapped in by a request that is under way; after another commit it cannot."""
    table = made(tmp_path)
    catalog = lake(tmp_path)
    before = table.metadata_location
    catalog.load_table("db.t").append(ROWS)
    pending = catalog.load_table("db.t")
    (data_file,) = {task.file.file_path for task in pending.scan().plan_files()} - {
        task.file.file_path for task in table.scan().plan_files()
    }
    catalog.drop_table("db.t")
    table = catalog.register_table("db.t", before)  # the commit's request has not arrived
    age(table)
    view = pa.table({"file_path": [data_file], "last_modified": [datetime.fromtimestamp(OLD, UTC)]})
    for part in ({"location": f"{folder_of(table)}/data"}, {"file_list_view": view}):  # neither contains the metadata file of the commit
        assert orphans(table, **part) == set()
    result = table.maintenance.remove_orphan_files()
    assert result.pending == (pending.metadata_location,)
    assert result.deleted_files == 0
    assert facts(result)["may be committed"] == pending.metadata_location
    assert pending.scan().count() == 6
    table.append(ROWS)  # from now on the request is refused
    age(table)
    assert str(data_file) in orphans(table)
    assert str(pending.metadata_location) in orphans(table)
    table.maintenance.remove_orphan_files()
    assert table.scan().count() == 6


def test_folders_of_nested_tables_are_left_out(tmp_path: Path) -> None:
    """A table of the catalog, and one of another catalog that only its metadata file shows."""
    table = made(tmp_path)
    catalog = lake(tmp_path)
    catalog.create_namespace("db.t")
    inner = made(tmp_path, name="db.t.inner", catalog=catalog)
    stranger = made(tmp_path / "other")
    shutil.copytree(folder_of(stranger), folder_of(table) / "copies" / "stranger")
    strays = [stray(inner, "data/x.parquet"), stray(table, "copies/stranger/data/y.parquet")]
    own = stray(table, "data/z.parquet")
    age(table)
    result = table.maintenance.remove_orphan_files()
    assert (result.deleted_files, own.exists()) == (1, False)
    assert all(path.exists() for path in strays)
    assert len(result.other_tables) == 2
    assert inner.scan().count() == 3
    for folder in (folder_of(inner), folder_of(inner) / "data"):
        with pytest.raises(LocationNotAllowedError, match=r"folders of other tables: db\.t\.inner"):
            table.maintenance.remove_orphan_files(location=str(folder))
    assert inner.maintenance.remove_orphan_files().deleted_files == 1


def test_live_files_of_a_nested_table_of_another_catalog_are_kept_however_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata files are not among the files that are searched: those of a view, of a deeper location, of an older list, or beside a location."""
    table, stranger = made(tmp_path), made(tmp_path / "other")
    inner = folder_of(table) / "copies" / "stranger"
    shutil.copytree(folder_of(stranger) / "data", inner / "data")
    own = stray(table, "data/z.parquet")
    age(table)
    live = [*inner.rglob("*.parquet")]
    assert table.maintenance.remove_orphan_files(mode="quarantine").orphan_files == len(live) + 1
    shutil.copytree(folder_of(stranger) / "metadata", inner / "metadata")
    outside = tmp_path / "outside"
    shutil.copytree(inner, outside / "stranger")
    for path in outside.rglob("*"):
        os.utime(path, (OLD, OLD))
    age(table)
    paths = [str(path) for path in (*live, own)]
    view = pa.table({"file_path": paths, "last_modified": [datetime.fromtimestamp(OLD, UTC)] * len(paths)})
    assert orphans(table, file_list_view=view) == {str(own)}
    (inner / "data" / "deep").mkdir()
    for location in (inner / "data", inner / "data" / "deep", outside / "stranger" / "data"):
        assert orphans(table, location=str(location)) == set()
    (moved,) = (folder_of(table) / "metadata").glob("_orphan-files-*")
    os.utime(moved)
    later(table, 8, monkeypatch)
    purged = table.maintenance.remove_orphan_files(mode="purge")
    assert (purged.deleted_files, own.exists(), all(path.exists() for path in live)) == (1, False, True)
    assert len(purged.other_tables) == 1


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_file_that_a_data_file_leads_to_as_a_symbolic_link_is_kept(tmp_path: Path, *, is_listed: bool) -> None:
    table = made(tmp_path)
    link = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://"))
    real = stray(table, "store/object 1", link.read_bytes())
    link.unlink()
    link.symlink_to(real)
    orphan = stray(table, "store/object-2")
    age(table)
    assert orphans(table, **({} if is_listed else {"location": str(real.parent)})) == {str(orphan)}
    assert table.maintenance.remove_orphan_files().deleted_files == 1
    assert (table.scan().to_arrow().num_rows, real.exists()) == (3, True)


def test_what_a_rewrite_of_paths_left_in_the_metadata_folder_is_found(tmp_path: Path) -> None:
    table = made(tmp_path)
    staging = table.maintenance.rewrite_table_path(table.location(), str(tmp_path / "target")).staging_location
    left = {str(path) for path in Path(staging.removeprefix("file://")).rglob("*") if path.is_file()}
    other = folder_of(table) / "metadata" / "copy-table-staging-mine"
    shutil.copytree(staging.removeprefix("file://"), other)
    assert orphans(table) == set()
    age(table)
    assert left
    assert orphans(table) == left
    assert table.maintenance.remove_orphan_files().deleted_files == len(left)
    assert table.scan().count() == 3


def test_a_list_that_no_purge_could_use_is_refused_at_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    elsewhere = tmp_path / "old-data"
    elsewhere.mkdir()
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match="no purge would delete"):
            table.maintenance.remove_orphan_files(mode="quarantine", location=str(elsewhere), dry_run=dry_run)
    stray(table, "data/x.parquet")
    (location,) = table.maintenance.remove_orphan_files(mode="quarantine", location=f"{folder_of(table)}/data").lists
    assert os.path.exists(location)


def test_files_of_a_table_with_the_same_location_are_kept(tmp_path: Path) -> None:
    table = made(tmp_path)
    catalog = lake(tmp_path)
    second = catalog.register_table("db.second", table.metadata_location)
    second.append(ROWS)
    orphan = stray(table, "data/z.parquet")
    age(table)
    assert table.maintenance.remove_orphan_files().deleted_files == 1
    assert not orphan.exists()
    assert (table.scan().count(), second.scan().count()) == (3, 6)
    os.unlink(second.metadata_location)
    stray(table, "data/z.parquet")
    with pytest.raises(LocationNotAllowedError, match=r"db\.second has a folder that overlaps"):
        table.maintenance.remove_orphan_files()
    assert orphan.exists()


@pytest.mark.parametrize("is_new", [False, True])
def test_a_file_that_another_table_of_the_folder_adds_during_the_deletion_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    table = made(tmp_path)
    catalog = lake(tmp_path)
    content = Path(next(iter(table.scan().plan_files())).file.file_path).read_bytes()
    paths = [stray(table, f"data/{number:02}.parquet", content) for number in range(20)]
    monkeypatch.setattr(path_database, "ORPHANS_AT_ONCE", 5)
    monkeypatch.setattr(removal, "OTHERS_KNOWN_MS", 0)
    registered: list[Table] = [] if is_new else [catalog.register_table("db.second", table.metadata_location)]
    added: list[str] = []
    delete = removal.delete_files

    def then_added(*arguments: Any) -> Any:
        result = delete(*arguments)
        if not added:
            added.extend(str(path) for path in paths if path.exists())
            second = registered[0] if registered else catalog.register_table("db.second", table.metadata_location)
            second.add_files(added)
        return result

    monkeypatch.setattr(removal, "delete_files", then_added)
    assert table.maintenance.remove_orphan_files().deleted_files == 5
    assert len(added) == 15
    assert catalog.load_table("db.second").scan().count() == 3 + 3 * 15
    assert table.scan().count() == 3


def test_the_memory_of_a_deletion_does_not_grow_with_the_files_of_later_commits() -> None:
    keys = PathKeys.of({}, {})
    found = FoundOrphans(keys)
    paths = [f"/lake/t/data/orphan-{number}" for number in range(12_000)]
    orphans = pa.table([pa.array(paths), *[pa.array([1] * len(paths), pa.int64())] * 2], schema=LISTED)
    found.write(orphans)
    found.keep([paths[7], "/lake/t/data/other"])
    tracemalloc.start()
    for first in range(0, 400_000, 20_000):
        found.keep([f"/lake/t/data/live-{number}" for number in range(first, first + 20_000)] + [paths[9_000]])
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 1_000_000
    kept = set(paths) - {path for numbers in found.batches() for path in found.rows(numbers)["path"].to_pylist()}
    assert kept == {paths[7], paths[9_000]}


def test_times_of_files_in_an_object_store_are_requested_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    together = threading.Barrier(4)

    def state(*_: Any) -> FileState:
        together.wait(10)
        return FileState(5, 0)

    monkeypatch.setattr(removal, "file_state", state)
    monkeypatch.setattr(OrphanScope, "contains", lambda *_: True)
    call = removal.OrphanRemoval(table, orphan_options(10**13, **DEFAULTS))
    call.scope = OrphanScope(location="s3://b/t", place=Place("s3://b", "/t"), own=None)
    listed = pa.table([pa.array([f"s3://b/t/{number}" for number in range(8)]), *[pa.nulls(8, pa.int64())] * 2], schema=LISTED)
    assert call._old_enough(listed)["size_in_bytes"].to_pylist() == [5] * 8


DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("older_than", "location", "max_concurrent_deletes", "file_list_view", "equal_schemes", "equal_authorities", "engine")),
    **dict.fromkeys(("dry_run", "stream_results", "force"), False),
    "mode": "delete",
    "prefix_mismatch_mode": "ERROR",
    "purge_delay": timedelta(days=7),
}


@pytest.mark.parametrize("part", ["", "/data", "/.."])
def test_the_tables_folder_by_another_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """On a file system that ignores upper and lower case, or through a second mount, one folder has two paths."""
    table = made(tmp_path)
    age(table)
    real, stat = str(tmp_path), os.stat
    other = real.upper()

    def of_either(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        return stat(path.replace(other, real) if isinstance(path, str) else path, *arguments, **options)

    monkeypatch.setattr(os, "stat", of_either)
    location = os.path.normpath(str(folder_of(table)) + part).replace(real, other)
    with pytest.raises(InvalidInputError, match="by another name"):
        table.maintenance.remove_orphan_files(location=location)


def test_locations_of_other_tables_and_whole_warehouses_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    other = made(tmp_path, name="db.other", catalog=lake(tmp_path))
    path = stray(other, "data/x.parquet")
    age(other)
    warehouse = tmp_path / "warehouse"
    for location in (folder_of(other), folder_of(other) / "data", warehouse / "db"):
        with pytest.raises(LocationNotAllowedError, match="folders of other tables"):
            table.maintenance.remove_orphan_files(location=str(location))
    for location in (warehouse, warehouse / ".." / "warehouse", tmp_path, Path("/")):
        with pytest.raises(InvalidInputError, match="warehouse of all tables"):
            table.maintenance.remove_orphan_files(location=str(location))
    elsewhere = tmp_path / "old-data"
    elsewhere.mkdir()
    (elsewhere / "x.parquet").write_bytes(b"x")
    os.utime(elsewhere / "x.parquet", (OLD, OLD))
    assert table.maintenance.remove_orphan_files(location=str(elsewhere)).deleted_files == 1
    assert path.exists()


def test_a_part_of_the_table_can_be_searched(tmp_path: Path) -> None:
    table = made(tmp_path)
    stray(table, "data/a/x.parquet")
    stray(table, "data/b/y.parquet")
    assert orphans(table, location=f"{folder_of(table)}/data/a/") == {str(folder_of(table) / "data/a/x.parquet")}
    with pytest.raises(NoSuchFileError, match="there is no folder"):
        table.maintenance.remove_orphan_files(location=f"{folder_of(table)}/nothing")


def test_files_come_from_a_view_in_place_of_a_listing(tmp_path: Path) -> None:
    table = made(tmp_path)
    paths = [stray(table, f"data/{name}.parquet") for name in "abc"]
    young = stray(table, "data/young.parquet", at=time.time())
    data_file = next(iter(table.scan().plan_files())).file.file_path
    old = datetime.fromtimestamp(OLD, UTC)
    view = pa.table({"file_path": [*map(str, paths[:2]), data_file, str(young), None], "last_modified": [old] * 5})
    result = table.maintenance.remove_orphan_files(file_list_view=view)
    assert (result.deleted_files, paths[2].exists(), young.exists()) == (2, True, True)
    assert table.scan().count() == 3
    with pytest.raises(InvalidInputError, match="file_list_view cannot be used"):
        table.maintenance.remove_orphan_files(file_list_view=pa.table({"path": ["x"]}))
    with pytest.raises(InvalidInputError, match="its column last_modified is of type int64"):
        table.maintenance.remove_orphan_files(file_list_view=pa.table({"file_path": ["x"], "last_modified": [int(OLD)]}))


def test_an_authority_that_is_none_by_an_argument_has_the_files_of_no_authority(tmp_path: Path) -> None:
    """A table of another program names its files with a host; the host is this one, and the path has a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    keys = PathKeys.of({}, {"host,other": ""})
    key = keys.file(f"file:{tmp_path}/real/x.parquet")
    assert [keys.file(f"file://{host}{tmp_path}/link/x.parquet") for host in ("host", "OTHER", "")] == [key] * 3
    assert keys.file(f"file://third{tmp_path}/link/x.parquet") != key
    with pytest.raises(InvalidInputError, match="equal_schemes has an empty name"):
        PathKeys.of({"s3": ""}, {})


def test_a_folder_that_is_reached_by_another_spelling_is_compared_by_its_real_path(tmp_path: Path) -> None:
    """The catalog writes through a symbolic link: the files that it names are those of the real folder."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/link/warehouse")
    catalog.create_namespace("db")
    table = made(tmp_path, catalog=catalog)
    path = real / "warehouse" / "db" / "t" / "data" / "stray.parquet"
    path.write_bytes(b"x")
    for one in real.rglob("*"):
        os.utime(one, (OLD, OLD))
    result = table.maintenance.remove_orphan_files(location=str(real / "warehouse" / "db" / "t"))
    assert (result.deleted_files, path.exists(), table.scan().count()) == (1, False, 3)


def test_the_work_is_the_same_in_a_file_system_catalog(tmp_path: Path) -> None:
    catalog = load_catalog("files", type="hadoop", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    table = made(tmp_path, catalog=catalog)
    table.append(ROWS)
    path = stray(table, "data/x.parquet")
    age(table)
    assert path in map(Path, orphans(table))
    table.maintenance.remove_orphan_files()
    assert (folder_of(table) / "metadata" / "version-hint.text").exists()
    assert catalog.load_table("db.t").scan().count() == 6
    table.append(ROWS)
    assert catalog.load_table("db.t").scan().count() == 9


def brute_force(table: Table) -> set[str]:
    """Return the files of the table's folder that nothing references, by the metadata tables and plain sets."""
    metadata = table.metadata
    needed = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    needed |= {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
    needed |= {str(snapshot.manifest_list) for snapshot in metadata.snapshots}
    needed |= set(table.inspect.all_manifests()["path"].to_pylist())
    needed |= set(table.inspect.all_files()["file_path"].to_pylist())
    needed = {path.removeprefix("file://") for path in needed}
    files = (path for path in folder_of(table).rglob("*") if path.is_file() and not any(part[0] in "._" for part in path.parts[-3:]))
    return {str(path) for path in files if str(path) not in needed and path.name != "version-hint.text"}


@settings(max_examples=examples(12, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), version=st.sampled_from([1, 2, 3]))
def test_exactly_the_files_without_a_reference_are_found(tmp_path_factory: pytest.TempPathFactory, seed: int, version: int) -> None:
    numbers = random.Random(seed)
    table = made(tmp_path_factory.mktemp("lake"), version)
    if version > 1:
        table.set_properties({"write.delete.mode": "merge-on-read"})
    for step in range(8):
        match numbers.randrange(8):
            case 0:
                table.delete(f"id = {numbers.randrange(4)}")
            case 1:
                table.manage_snapshots().create_branch(branch_name=f"b{step}").commit()
                table.append(ROWS, branch=f"b{step}")
            case 2:
                table.manage_snapshots().create_tag(tag_name=f"t{step}").commit()
            case 3:
                table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1, delete_files=numbers.random() < 0.5)
            case 4:
                table.compute_statistics()
            case 5:
                table.maintenance.rewrite_data_files(options={"rewrite-all": True})
            case 6:
                table.overwrite(ROWS)
            case _:
                table.append(ROWS)
    strays = {
        str(stray(table, f"{numbers.choice(['data', 'metadata', 'data/x=1/y=2'])}/{numbers.randrange(99)}.parquet")) for _ in range(9)
    }
    age(table)
    before, snapshots = table.scan().to_arrow().sort_by("id"), list(table.snapshots())
    found = orphans(table)
    assert strays <= found
    assert found == brute_force(table)
    assert table.maintenance.remove_orphan_files().deleted_files == len(found)
    assert table.scan().to_arrow().sort_by("id").equals(before)
    for snapshot in snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    assert not brute_force(table)


def test_a_list_of_orphan_files_has_its_name_only_once_it_is_complete(tmp_path: Path) -> None:
    table = made(tmp_path)
    folder = folder_of(table) / "metadata"
    rows = pa.table([["/x"], [1], [2]], schema=LISTED)

    def lists() -> list[QuarantineList]:
        return quarantine_lists(table.io, [str(folder)])

    with QuarantineWriter(table.io, str(folder), 0, "0" * 32) as writer:
        writer.write(rows)
        assert lists() == []
    (written,) = lists()
    assert [one.to_pylist() for one in written.read(table.io)] == [rows.to_pylist()]
    files = set(folder.iterdir())

    def break_off() -> None:
        with QuarantineWriter(table.io, str(folder), 0, "1" * 32) as writer:
            writer.write(rows)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        break_off()
    assert set(folder.iterdir()) == files
