"""Full disks and permissions revoked between the begin and the commit of a transaction, by the operating system: a clear error, and no partial commit.

Disks are small file systems in memory where this process may mount them; permissions are taken from a child process of another user. Every such error in the
commit loop is simulated in `test_commit_model.py`; here the errors are real.
"""

import contextlib
import json
import os
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import IcefloeError, StorageFullError, StoragePermissionError
from icefloe.table import Table

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
SIZE = 2 * 1024 * 1024  # bytes of the small disks


def rows(number: int, count: int = 1) -> pa.Table:
    return pa.table({"n": pa.array([number] * count, pa.int64()), "text": pa.array(["x" * 20] * count)})


def catalog(database: Path, warehouse: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{database}/catalog.db", warehouse=str(warehouse))


def make(database: Path, warehouse: Path) -> Table:
    lake = catalog(database, warehouse)
    lake.create_namespace("db")
    table = lake.create_table("db.t", SCHEMA, properties={"commit.retry.max-wait-ms": "1", "commit.status-check.max-wait-ms": "1"})
    table.append(rows(0))
    return table


def numbers(database: Path, warehouse: Path) -> list[int]:
    """Return the rows as another process reads them."""
    return sorted(catalog(database, warehouse).load_table("db.t").scan().to_arrow()["n"].to_pylist())


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and not path.name.startswith("catalog.db")}


def refusal_of(do: Callable[[], object]) -> IcefloeError | None:
    """Run `do`; return its error, or None if it succeeded."""
    try:
        do()
    except IcefloeError as error:
        return error
    return None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of `SIZE` bytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this process may not mount a small disk: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path, but: int = 0) -> Path:
    """Write a file that fills a disk except for `but` bytes."""
    taken = folder / "taken"
    with taken.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        file.truncate(file.tell() - but)
    return taken


# Without free bytes the data file cannot be written; with few, the data file is written, and a manifest, its list or the metadata file is not.
@pytest.mark.parametrize("free_bytes", [0, 4096, 8192, 12288, 16384])
def test_a_full_warehouse_refuses_the_whole_commit(tmp_path: Path, small_disk: Path, free_bytes: int) -> None:
    table = make(tmp_path, small_disk)
    before = files(small_disk)
    taken = fill(small_disk, but=free_bytes)
    refused = refusal_of(lambda: table.append(rows(1)))
    is_committed = refused is None
    if refused is not None:
        assert isinstance(refused, StorageFullError)
        assert str(small_disk) in str(refused)
        assert "free space" in str(refused)
        assert files(small_disk) - {str(taken)} == before, "nothing of it is left"
    assert not is_committed or free_bytes >= 12288, "the disk was full"
    taken.unlink()
    assert numbers(tmp_path, small_disk) == ([0, 1] if is_committed else [0])
    table.append(rows(2))
    assert numbers(tmp_path, small_disk) == ([0, 1, 2] if is_committed else [0, 2])


def test_a_full_disk_of_the_database_refuses_the_whole_commit(tmp_path: Path, small_disk: Path) -> None:
    """Fill the disk, so that the journal of SQLite cannot be written and its transaction cannot begin."""
    table = make(small_disk, tmp_path / "warehouse")
    before = files(tmp_path / "warehouse")
    transaction = table.transaction()
    transaction.append(rows(1))
    transaction.append(rows(2))
    taken = fill(small_disk)
    with pytest.raises(StorageFullError) as refused:
        transaction.commit_transaction()
    assert "catalog.db" in str(refused.value)
    assert "free space where the database lies" in str(refused.value)
    assert files(tmp_path / "warehouse") == before, "nothing of it is left"
    taken.unlink()
    assert numbers(small_disk, tmp_path / "warehouse") == [0]
    table.append(rows(3))
    assert numbers(small_disk, tmp_path / "warehouse") == [0, 3]


def test_a_full_disk_that_sqlite_reports_as_a_disk_error_is_reported_as_full(tmp_path: Path, small_disk: Path) -> None:
    """Fill the disk of a database with a write-ahead log: SQLite cannot extend its shared memory, and only reports `disk I/O error`."""
    table = make(small_disk, tmp_path / "warehouse")
    table.handle.store.engine.dispose()  # type: ignore[attr-defined]
    with contextlib.closing(sqlite3.connect(small_disk / "catalog.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
    before = files(tmp_path / "warehouse")
    taken = fill(small_disk)
    with contextlib.closing(sqlite3.connect(small_disk / "catalog.db")) as database, pytest.raises(sqlite3.OperationalError, match="I/O"):
        database.execute("SELECT * FROM iceberg_tables")
    with pytest.raises(StorageFullError, match="its disk is full") as refused:
        table.append(rows(1))
    assert "free space where the database lies" in str(refused.value)
    assert files(tmp_path / "warehouse") >= before, "what cannot be looked at is left as it is"
    taken.unlink()
    assert numbers(small_disk, tmp_path / "warehouse") == [0]
    table.append(rows(2))
    assert numbers(small_disk, tmp_path / "warehouse") == [0, 2]


def test_the_error_reports_a_warehouse_that_became_read_only_and_the_table_is_unchanged(tmp_path: Path, small_disk: Path) -> None:
    table = make(tmp_path, small_disk)
    before = files(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for do in (lambda: table.append(rows(1)), lambda: catalog(tmp_path, small_disk).create_table("db.u", SCHEMA)):
        with pytest.raises(StoragePermissionError) as refused:
            do()
        assert str(small_disk) in str(refused.value)
        assert refused.value.next_step
    assert files(small_disk) == before
    assert numbers(tmp_path, small_disk) == [0]
    assert catalog(tmp_path, small_disk).list_tables("db") == [("db", "t")]


# A process of root drops its rights here, once it has loaded all it needs from folders that other users may not read.
CHILD = """
import json, os, sys
from pathlib import Path
from tests.table import test_refused_by_the_system as here
for lost in ("database", "warehouse"):
    child = os.fork()
    if not child:
        print(json.dumps(here.commit_without(Path(sys.argv[1]) / lost, lost)), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def commit_without(folder: Path, lost: str) -> dict[str, object]:
    """Commit a transaction after the permission is revoked; return its error, and the result of the commit after the permission is restored."""
    warm, database, warehouse = (folder / name for name in ("warm", "database", "warehouse"))
    for made in (folder, warm, database, warehouse):
        made.mkdir()
    write_twice(make(warm, warm))
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, "nobody")
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    table = make(database, warehouse)
    before = files(warehouse)
    transaction = table.transaction()
    transaction.append(rows(1))
    taken = [path for path in (folder / lost).rglob("*") if lost == "database" or path.is_dir()] + [folder / lost]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in taken}
    for path in taken:
        path.chmod(modes[path] & ~0o222)
    refused = refusal_of(transaction.commit_transaction)
    meanwhile = numbers(database, warehouse)
    for path, mode in modes.items():
        path.chmod(mode)
    left = sorted(files(warehouse) - before)
    write_twice(table)
    return {
        "refusal": refused and [type(refused).__name__, str(refused)],
        "meanwhile": meanwhile,
        "left": left,
        "after": numbers(database, warehouse),
    }


def write_twice(table: Table) -> None:
    transaction = table.transaction()
    transaction.append(rows(8))
    transaction.append(rows(9))
    transaction.commit_transaction()


def test_a_permission_revoked_during_a_transaction_refuses_the_whole_commit() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        done = subprocess.run([sys.executable, "-c", CHILD, name], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        reports = [json.loads(line) for line in done.stdout.splitlines()]
    for lost, report in zip(("database", "warehouse"), reports, strict=True):
        kind, message = report["refusal"]
        assert kind == "StoragePermissionError", message
        assert f"{name}/{lost}/{lost}" in message
        assert report["meanwhile"] == [0]
        assert report["after"] == [0, 8, 9]
        # Where files may not be deleted either, the files that were written before remain, and no metadata names them.
        assert report["left"] == [] or lost == "warehouse"
        assert all("/data/" in path for path in report["left"])
