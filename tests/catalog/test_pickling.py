"""Catalogs and tables in other processes: what is pickled works there, and what would not is refused."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog, SqlCatalog, Table
from icefloe.catalog.catalog import Catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import StorageUnavailableError, UnsupportedFeatureError

ROWS = pa.table({"id": [1, 2]})
APPENDS = """
import pickle, sys
import pyarrow as pa
for table in pickle.load(sys.stdin.buffer):
    table.append(pa.table({"id": [3]}))
    print(table.name(), table.scan().count())
"""


def table_of(catalog: Catalog) -> Table:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    return table


def catalogs(folder: Path) -> list[Catalog]:
    database = SqlCatalog("lake", uri="sqlite:///catalog.db", warehouse=str(folder / "sql"))
    return [database, FileSystemCatalog("files", warehouse=str(folder / "files"))]


def test_a_table_commits_in_another_process_with_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    tables = [table_of(catalog) for catalog in catalogs(tmp_path)]
    child = subprocess.run([sys.executable, "-c", APPENDS], input=pickle.dumps(tables), capture_output=True, cwd=elsewhere, check=False)
    assert (child.stdout.decode().splitlines(), child.stderr) == (["('db', 't') 3"] * 2, b"")
    assert [table.refresh().scan().count() for table in tables] == [3, 3]
    assert os.listdir(elsewhere) == []


def test_a_catalog_and_its_views_are_the_same_after_pickling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for catalog in catalogs(tmp_path):
        table = table_of(catalog)
        again = pickle.loads(pickle.dumps(catalog))
        assert (again.name, again.properties, again.list_tables("db")) == (catalog.name, catalog.properties, [("db", "t")])
        assert again.load_table("db.t").metadata == table.metadata
        inspected = pickle.loads(pickle.dumps(table.inspect))
        assert inspected.snapshots() == table.inspect.snapshots()


def test_a_catalog_keeps_its_database_when_the_working_directory_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    catalog = SqlCatalog("lake", uri="sqlite:///catalog.db", warehouse=str(tmp_path / "sql"))
    table_of(catalog)
    monkeypatch.chdir(elsewhere)
    SqlCatalog("lake", uri="sqlite:///catalog.db", warehouse=str(elsewhere)).close()  # another catalog of the same name and relative path
    assert pickle.loads(pickle.dumps(catalog)).list_tables("db") == [("db", "t")]


def test_a_database_that_is_not_there_is_not_created_by_unpickling(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "sql"))
    pickled = pickle.dumps(table_of(catalog))
    catalog.close()
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(StorageUnavailableError, match="there is no database file"):
        pickle.loads(pickled)
    assert not (tmp_path / "catalog.db").exists()


@pytest.mark.parametrize("of_sql", [True, False])
def test_a_catalog_in_memory_and_its_tables_are_refused_with_what_to_pass_instead(tmp_path: Path, of_sql: bool) -> None:
    warehouse = str(tmp_path)
    catalog: Catalog = SqlCatalog("lake", uri="sqlite://", warehouse=warehouse) if of_sql else InMemoryCatalog("lake", warehouse=warehouse)
    table = table_of(catalog)
    for refused in (catalog, table, table.inspect, catalog.store.views()):
        with pytest.raises(UnsupportedFeatureError, match="catalog 'lake' is in the memory of this process") as caught:
            pickle.dumps(refused)
        assert "a scan of the table" in (caught.value.next_step or "")
    assert pickle.loads(pickle.dumps(table.scan())).count() == 2
