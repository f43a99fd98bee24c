"""Attacks of another user who can write in the warehouse and replaces folders and files by links, between a check and its use."""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import LocationNotAllowedError, NotFoundError, StorageError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.operations.expiry import expire_snapshots
from icefloe.operations.own_location import own_location
from icefloe.stores.dropped_folders import DroppedFolders

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder of the user who runs Icefloe, which the other user cannot write to."""
    folder = tmp_path / "home" / "me"
    folder.mkdir(parents=True)
    (folder / "thesis.pdf").write_text("mine")
    return folder


def replace_by_link(path: Path, target: Path) -> None:
    if not path.is_symlink():
        os.rename(path, f"{path}-moved")
        path.symlink_to(target)


def before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[..., None]) -> None:
    """Call `act` with the same arguments before each call of a function."""
    real = getattr(owner, name)

    def both(*arguments: Any, **options: Any) -> Any:
        act(*arguments, **options)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, both)


def test_a_file_that_becomes_a_link_after_it_was_made_is_not_written_through(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.parquet"
    created_files: list[str] = []

    def swap() -> None:
        created_files.append(str(path))
        path.unlink()
        path.symlink_to(home / "thesis.pdf")

    real = os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        if path.exists() and not created_files:
            swap()

    monkeypatch.setattr(os, "close", close)
    with load_file_io({}).open_output(str(path)) as out:
        if not created_files:
            swap()
        out.write(b"rows of a table")
    assert (home / "thesis.pdf").read_text() == "mine"


@pytest.fixture(params=["sql", "file-system"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    warehouse = str(tmp_path / "lake")
    (tmp_path / "lake").mkdir()
    lake = (
        SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)
        if request.param == "sql"
        else FileSystemCatalog("lake", warehouse=warehouse)
    )
    lake.create_namespace("db")
    table: Table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.overwrite(ROWS)
    return table


def test_a_table_folder_that_becomes_a_link_before_it_is_resolved_is_not_followed(
    table: Table, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user's metadata names `data/<name>`, and the user who expires snapshots has such a file."""
    first = table.snapshots()[0].snapshot_id
    name = Path(next(iter(table.scan(snapshot_id=first).plan_files())).file.file_path).name
    (home / "data").mkdir()
    (home / "data" / name).write_text("mine")
    real = expire_snapshots.deletion_scope  # type: ignore[attr-defined]

    def scope_of_a_link(handle: Any, metadata: Any, *arguments: Any) -> Any:
        if len(metadata.snapshots) == 1:  # the commit is done
            replace_by_link(Path(table.location()), home)
        return real(handle, metadata, *arguments)

    monkeypatch.setattr(expire_snapshots, "deletion_scope", scope_of_a_link)
    with suppress(LocationNotAllowedError):
        table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1)
    assert Path(table.location()).is_symlink()
    assert (home / "data" / name).read_text() == "mine"
    assert own_location(table._handle, table.location(), table.metadata_location) is None


@pytest.fixture
def lake(tmp_path: Path) -> FileSystemCatalog:
    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    return catalog


@pytest.mark.parametrize("link", [".dropped", ".dropped/t"])
def test_the_folder_of_dropped_tables_that_becomes_a_link_while_it_is_deleted_is_not_followed(
    lake: FileSystemCatalog, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    """The other user has put folders called as those of the home folder beside the dropped table, which takes long to delete."""
    dropped = tmp_path / "lake" / "db" / ".dropped"
    (dropped / "t" / "me").mkdir(parents=True)
    (home / "t").mkdir()
    (home / "t" / "me").mkdir()
    (home / "t" / "me" / "thesis.pdf").write_text("mine")
    target = home if link == ".dropped" else home / "t"
    swap = _after_the_first(lambda: replace_by_link(tmp_path / "lake" / "db" / link, target))
    before(monkeypatch, os, "rmdir", swap)
    before(monkeypatch, os, "fwalk", swap)
    with suppress(StorageError):
        lake.drop_table("db.t")
    assert (tmp_path / "lake" / "db" / link).is_symlink()
    assert (home / "t" / "me" / "thesis.pdf").read_text() == "mine"


def _after_the_first(act: Callable[[], None]) -> Callable[..., None]:
    calls: list[int] = []

    def called(*_: Any, **__: Any) -> None:
        calls.append(1)
        if len(calls) > 1:
            act()

    return called


def test_a_namespace_that_becomes_a_link_before_its_table_is_moved_moves_and_deletes_nothing_else(
    lake: FileSystemCatalog, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "t").mkdir()
    (home / "t" / "thesis.pdf").write_text("mine")
    before(monkeypatch, DroppedFolders, "add", lambda *_: replace_by_link(tmp_path / "lake" / "db", home))
    with suppress(NotFoundError):
        lake.drop_table("db.t")
    assert (tmp_path / "lake" / "db").is_symlink()
    assert (home / "t" / "thesis.pdf").read_text() == "mine"
