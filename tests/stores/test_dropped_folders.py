"""Drops in a file-system catalog: the name is removed in one step, whatever happens after it, and the next call deletes the remaining files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import Table
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.commit.outcome import Conflicted
from icefloe.errors import (
    CommitConflictError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    NotFoundError,
    StorageError,
    TableAlreadyExistsError,
    UnfinishedDropError,
)
from icefloe.io.local_folders import OpenLocalFolder
from icefloe.operations.expiry import purge_table
from icefloe.stores.catalog_store import CommitRequest

DROPPER = Path(__file__).with_name("dropping.py")
SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    catalog = FileSystemCatalog("lake", warehouse=f"{tmp_path}/lake")
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: FileSystemCatalog) -> Table:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"n": [1]}))
    return table


@pytest.fixture
def half_dropped(catalog: FileSystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> FileSystemCatalog:
    """Return a catalog whose only table was dropped by a process that ended before it deleted a file."""
    with monkeypatch.context() as patched:
        patched.setattr(OpenLocalFolder, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            catalog.drop_table("db.t")
    return catalog


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def left_in(catalog: FileSystemCatalog) -> list[str]:
    return sorted(str(path.relative_to(catalog.store.warehouse)) for path in Path(catalog.store.warehouse).rglob("*"))


@pytest.mark.parametrize(
    ("how", "again"),
    [
        ("drop", ("drop", "create", "namespace")),
        ("purge", ("purge",)),
        *(pytest.param("drop", (again,), marks=pytest.mark.slow) for again in ("drop", "create", "namespace")),
    ],
)
def test_a_table_whose_drop_was_killed_never_opens_and_the_next_call_deletes_the_rest(
    tmp_path: Path, how: str, again: tuple[str, ...]
) -> None:
    ran = subprocess.run(
        [sys.executable, str(DROPPER), str(tmp_path / "lake"), how, *again], capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    kills = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(kills) > 15
    names = [kill["name"] for kill in kills]
    intact = names.count([0, 1])
    assert intact < 3, "the first deletions remove the name"
    dropped = kills[intact:]
    assert {kill["name"] for kill in dropped} <= {"unfinished-drop", "no-such-table"}
    assert [kill["tables"] for kill in dropped] == [[]] * len(dropped)
    assert [kill["namespaces"] for kill in dropped] == [[]] * len(dropped)
    assert [kill["left"] for kill in kills] == [[]] * len(kills)


def test_an_error_reports_a_half_deleted_table(half_dropped: FileSystemCatalog) -> None:
    with pytest.raises(UnfinishedDropError, match=r"db\.t.*was dropped.*not finished") as raised:
        half_dropped.load_table("db.t")
    assert isinstance(raised.value, NoSuchTableError)
    assert "drop_table" in (raised.value.next_step or "")
    assert (half_dropped.table_exists("db.t"), half_dropped.list_tables("db"), half_dropped.list_namespaces("db")) == (False, [], [])


def test_the_next_drop_purge_or_creation_deletes_the_remaining_files(
    half_dropped: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(left_in(half_dropped)) > 5
    half_dropped.drop_table("db.t")
    assert left_in(half_dropped) == ["db"]
    with pytest.raises(NoSuchTableError, match="does not exist"):
        half_dropped.drop_table("db.t")

    for _ in range(2):
        half_dropped.create_table("db.t", SCHEMA)
        with monkeypatch.context() as patched:
            patched.setattr(OpenLocalFolder, "remove", killed)
            with pytest.raises(KeyboardInterrupt):
                half_dropped.drop_table("db.t")
    report = half_dropped.purge_table("db.t")
    assert (report.undeleted, left_in(half_dropped)) == ((), ["db"])


def test_a_namespace_with_a_half_deleted_table_is_dropped_with_it(half_dropped: FileSystemCatalog, table: Table) -> None:
    half_dropped.create_table("db.other", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        half_dropped.drop_namespace("db")
    half_dropped.drop_table("db.other")
    half_dropped.drop_namespace("db")
    assert left_in(half_dropped) == []


def test_a_drop_reports_files_that_it_could_not_delete_and_deletes_the_others(
    catalog: FileSystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        if name.endswith(".parquet"):
            raise PermissionError(1, "Operation not permitted", name)
        unlink(name, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        with pytest.raises(StorageError, match=r"db\.t.*is dropped, and not all .* could be deleted.*parquet"):
            catalog.drop_table("db.t")
    assert [path for path in left_in(catalog) if "metadata" in path] == []
    assert len([path for path in left_in(catalog) if path.endswith(".parquet")]) == 1
    catalog.drop_table("db.t")
    assert left_in(catalog) == ["db"]


def test_symbolic_links_are_deleted_and_their_targets_are_kept(catalog: FileSystemCatalog, table: Table, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    (Path(table.location()) / "data" / "link").symlink_to(precious)
    (Path(table.location()) / "file-link").symlink_to(precious / "file")
    catalog.drop_table("db.t")
    assert left_in(catalog) == ["db"]

    moved = tmp_path / "moved"
    catalog.create_table("db.t", SCHEMA)
    Path(table.location()).rename(moved)
    Path(table.location()).symlink_to(moved)
    catalog.drop_table("db.t")
    assert left_in(catalog) == ["db"]
    assert (moved / "metadata" / "v1.metadata.json").exists()
    assert (precious / "file").read_text() == "kept"


@pytest.mark.parametrize("link", [".dropped", ".dropped/t"])
def test_nothing_is_deleted_behind_a_link_that_replaces_the_folder_of_dropped_tables(
    catalog: FileSystemCatalog, table: Table, tmp_path: Path, link: str
) -> None:
    precious = tmp_path / "precious"
    (precious / "t").mkdir(parents=True)
    (precious / "t" / "file").write_text("kept")
    (Path(catalog.store.warehouse) / "db" / link).parent.mkdir(exist_ok=True)
    (Path(catalog.store.warehouse) / "db" / link).symlink_to(precious)
    with pytest.raises(StorageError, match="symbolic link"):
        catalog.drop_table("db.t")
    assert (precious / "t" / "file").read_text() == "kept"
    assert catalog.load_table("db.t").scan().count() == 1


def test_a_commit_that_began_before_the_drop_creates_no_table(
    catalog: FileSystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drop the table between a writer's read of the newest version and its commit."""
    other = FileSystemCatalog("lake", warehouse=catalog.store.warehouse)
    read = type(catalog.store._io).read
    dropped = []

    def read_after_the_drop(io: object, location: str) -> bytes:
        content: bytes = read(io, location)  # type: ignore[arg-type]
        if location == staged and not dropped:
            dropped.append(location)
            other.drop_table("db.t")
            if again:
                other.create_table("db.t", SCHEMA)
        return content

    for again in (False, True):
        dropped.clear()
        writer = catalog.load_table("db.t")
        staged = f"{writer.location()}/metadata/00009-staged.metadata.json"
        writer.io.write(staged, writer.io.read(writer.metadata_location))
        with monkeypatch.context() as patched:
            patched.setattr(type(catalog.store._io), "read", read_after_the_drop)
            outcome = catalog.store.commit([CommitRequest(identifier=("db", "t"), expected=writer.metadata_location, new=staged)])
        assert isinstance(outcome, Conflicted)
        if again:
            assert [path for path in left_in(catalog) if "metadata.json" in path] == ["db/t/metadata/v1.metadata.json"]
            assert other.load_table("db.t").metadata.table_uuid != writer.metadata.table_uuid
        else:
            assert left_in(catalog) == ["db"]
            other.create_table("db.t", SCHEMA).append(pa.table({"n": [1]}))


def test_a_writer_whose_table_was_dropped_commits_nothing(catalog: FileSystemCatalog, table: Table) -> None:
    catalog.drop_table("db.t")
    with pytest.raises((NotFoundError, CommitConflictError)):
        table.append(pa.table({"n": [2]}))
    assert not catalog.table_exists("db.t")
    again = catalog.create_table("db.t", SCHEMA)
    with pytest.raises((NotFoundError, CommitConflictError)):
        table.append(pa.table({"n": [3]}))
    assert again.refresh().scan().count() == 0
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", SCHEMA)


def test_a_purge_deletes_no_file_of_a_table_that_was_created_concurrently_under_the_name(
    catalog: FileSystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Purge a table while another gets its name; the metadata files of both have the same names, such as `v1.metadata.json`."""
    delete_in_order = purge_table.delete_in_order

    def create_and_delete(*given: Any) -> Any:
        catalog.create_table("db.t", SCHEMA).append(pa.table({"n": [7]}))
        return delete_in_order(*given)

    monkeypatch.setattr(purge_table, "delete_in_order", create_and_delete)
    report = catalog.purge_table("db.t")
    assert report.undeleted == ()
    assert catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist() == [7]


def test_a_table_whose_folder_is_dropped_while_it_is_created_is_not_created(
    catalog: FileSystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, read = FileSystemCatalog("lake", warehouse=catalog.store.warehouse), type(catalog.store._io).read
    monkeypatch.setattr(type(catalog), "table_exists", lambda *_: False)

    def drop_and_read(io: object, location: str) -> bytes:
        if "00000-" in location:
            other.store.drop(("db", "t"))
        content: bytes = read(io, location)  # type: ignore[arg-type]
        return content

    monkeypatch.setattr(type(catalog.store._io), "read", drop_and_read)
    with pytest.raises(NotFoundError, match="dropped a table of this name at the same time"):
        catalog.create_table("db.t", SCHEMA)
    monkeypatch.undo()
    assert left_in(catalog) == ["db"]


def test_no_namespace_is_created_in_the_folder_of_a_table(catalog: FileSystemCatalog, table: Table) -> None:
    for name in ("db.t.inner", "db.t.data.inner"):
        with pytest.raises(NamespaceAlreadyExistsError, match=r"'db\.t' is a table"):
            catalog.create_namespace(name)


def test_folders_that_are_nested_too_deeply_raise_an_icefloe_error(catalog: FileSystemCatalog, table: Table) -> None:
    descriptor = os.open(table.location(), os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=descriptor)
        inner = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    with pytest.raises(StorageError, match=r"db\.t.*is dropped.*nested too deeply"):
        catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")
    subprocess.run(["rm", "-rf", f"{catalog.store.warehouse}/db/.dropped"], check=True)
